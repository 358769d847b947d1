"""One line on how far a command is, once it has taken two seconds."""

import sys
import time
from typing import Self

SILENT_SECONDS = 2.0


class Waiting:
    """A line on standard error that is written over, where that is a terminal.

    Example:
        with Waiting("reading", 50) as waiting:
            waiting.update(1)
    """

    def __init__(self, doing: str, total: int):
        self._doing, self._total, self._begun = doing, total, time.monotonic()
        self._is_shown = False

    def update(self, done: int) -> None:
        """Say how many are done."""
        if time.monotonic() - self._begun >= SILENT_SECONDS and sys.stderr.isatty():
            self._is_shown = True
            line = f"{self._doing}: {done:,} of {self._total:,}"
            # The next line overwrites this one.
            print(f"\r{line:60}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)
