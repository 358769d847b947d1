"""Shows the progress of a program: a line, or a bar with the rate and the time left."""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shutil import get_terminal_size
from threading import Event, Thread
from typing import Self, TextIO, TypeVar

import numpy as np

from batch_calibration.reporting.cells import filled
from batch_calibration.settings import Study
from batch_calibration.studies import Store
from batch_calibration.studies.progress import Planned
from batch_calibration.studies.scoring import ScoringProgress

SILENT_SECONDS, DRAW_EVERY = 1.0, 0.2
"""Seconds before a step first shows its progress, and between two drawings of it."""
BAR_SIGNS = 20
ERASE = "\r\033[K"
"""Moves a terminal's cursor to the beginning of the line, and erases it."""
LOOK_EVERY = 2.0
"""Seconds between reads of a sweep's workdir."""
LINE_EVERY = 60.0
"""Seconds between progress lines, if the output is not a terminal."""
FIRST_LINE = 15.0
"""Seconds between the first rows and a line with the time left."""
FEWEST_STEPS = 5
"""Minimum number of steps, of a second or more, for a measured rate."""


T = TypeVar("T")


class Waiting:
    """A progress line on standard error, if that is a terminal; it is erased at the end.

    Example:
        with Waiting("reading", 50) as waiting:
            waiting.move(1)
    """

    def __init__(self, doing: str, total: int = 0):  # 0: unknown
        self._doing, self._done, self._total = doing, 0, total
        self._steps = list[tuple[float, int]]()  # times, and the amounts of work done by then
        self._all_work = total
        self._has_ended, self._threads = Event(), list[Thread]()

    def move(
        self, done: int, total: int = 0, *_: object, work: tuple[int, int] | None = None
    ) -> None:
        """Sets the number of finished items, and of all items if it was unknown.

        Args:
            done: finished items.
            total: all items.
            work: the finished and the whole amount of work, if items differ in it, as tokens.
        """
        self._done, self._total = done, total or self._total
        amount, self._all_work = work or (done, self._total)
        if not self._steps or time.monotonic() - self._steps[-1][0] >= 1.0:
            self._steps.append((time.monotonic(), amount))

    def seconds_left(self) -> float | None:
        """Estimates the time for the remaining work, or returns None after a few steps.

        The rate is from the second half of the time without its longest step, so that neither late
        long items nor early compilation distort it.
        """
        if not self._steps:
            return None
        half = (self._steps[0][0] + time.monotonic()) / 2
        last = self._steps[bisect_left(self._steps, (half, 0)) - 1 :]
        steps = sorted(tuple(np.subtract(later, earlier)) for earlier, later in pairwise(last))
        seconds, amount = np.sum(steps[:-1], axis=0) if steps[1:] else (0.0, 0.0)
        if len(steps) < FEWEST_STEPS or not amount:
            return None
        return float((self._all_work - self._steps[-1][1]) / amount * seconds)

    def line(self, seconds: float, columns: int) -> str:
        """Returns the line; a narrow terminal cuts the name, so that the numbers stay complete."""
        numbers, done = "", self._done
        if self._total:
            bar = "#" * (BAR_SIGNS * done // self._total)
            numbers = f" [{bar:.<{BAR_SIGNS}}] {done:,} of {self._total:,}"
        numbers += f", {seconds:,.0f} s"
        if (left := self.seconds_left()) is not None:
            numbers += f", about {left:,.0f} s left"
        return f"{self._doing[: max(0, columns - len(numbers))]}{numbers}"

    def _show(self, stream: TextIO) -> None:
        """Draws the line again and again, so that a long item does not look like a halt."""
        begun, pause = time.monotonic(), SILENT_SECONDS
        while not self._has_ended.wait(pause):
            pause, columns = DRAW_EVERY, get_terminal_size().columns - 1
            line = self.line(time.monotonic() - begun, columns)
            print(f"{ERASE}{line}", end="", file=stream, flush=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            # A daemon thread does not keep an interrupted program alive.
            self._threads.append(Thread(target=self._show, args=(sys.stderr,), daemon=True))
            self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        for thread in self._threads:
            thread.join()
            erase_line()


def show_progress(doing: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yields items and shows the number of finished ones; the iterator of the items does the work.

    An error in that work erases the line at once, before a program prints the error.

    >>> list(show_progress("counting", "abc", 3))
    ['a', 'b', 'c']
    """
    with Waiting(doing, total) as waiting:
        for done, item in enumerate(items, start=1):
            yield item
            waiting.move(done)


def erase_line() -> None:
    """Erases a progress line before other output, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(ERASE, end="", file=sys.stderr, flush=True)


class ProgressBar(Waiting):
    """A progress line in a terminal, and lines with the time left in a file or a pipe.

    Example:
        with ProgressBar("scoring", "examples") as bar:
            bar.update(ScoringProgress("sst2, seed 0", done=3, total=10))
    """

    def __init__(self, description: str, unit: str):
        super().__init__(description)
        self._unit = unit
        self._said = 0.0  # time of the last printed line

    def update(self, status: ScoringProgress) -> None:
        """Moves the bar; in a file or a pipe, prints a line soon after the start and each minute.

        `asked` of `to_ask` rows are done; `to_ask` leaves out stored rows. The time left is that of
        the remaining tokens.
        """
        description, done, total, asked, to_ask, tokens, tokens_run = status
        self._doing, self._done, self._total = description, done, total
        if not asked:
            return
        now, is_first = time.monotonic(), not self._steps
        self.move(done, work=(tokens_run, tokens) if tokens else (asked, to_ask))
        if is_first:
            self._said = now - LINE_EVERY + FIRST_LINE
            about = f", about {tokens:,} tokens" if tokens else ""
            self.print(f"{to_ask:,} {self._unit} to ask{about}; {total - to_ask:,} stored")
        if sys.stderr.isatty() or now - self._said < LINE_EVERY:
            return
        if (left := self.seconds_left()) is not None:
            self._said = now
            of = f"{description}: {asked:,} of {to_ask:,} {self._unit}"
            self.print(f"{of}, about {left / 60:,.1f} minutes left")

    def print(self, line: str) -> None:
        """Prints a line above the bar."""
        erase_line()
        print(filled(line))


@contextmanager
def watch_workers(workdir: str | Path, studies: Sequence[Study]) -> Iterator[Callable[[str], None]]:
    """Shows a bar of the rows of all workers; yields a function that prints a line above it."""
    from batch_calibration.studies.scoring import plan_name

    store, plans = Store(workdir, create=True), [plan_name(*study) for study in studies]
    has_ended = Event()
    with ProgressBar("workers start", "examples") as bar:
        # A daemon thread does not keep an interrupted program alive.
        thread = Thread(target=_follow, args=(store, plans, bar, has_ended), daemon=True)
        thread.start()
        try:
            yield bar.print
        finally:
            has_ended.set()
            thread.join()


def _follow(store: Store, plans: list[str], bar: ProgressBar, has_ended: Event) -> None:
    rows_done, is_last = dict[str, int](), False
    # One more read after the end, so that the bar shows it.
    while not is_last:
        is_last = has_ended.wait(LOOK_EVERY)
        if planned := store.progress.read_plans(plans):
            _show_rows(store, list(planned.values()), rows_done, bar)


def _show_rows(
    store: Store, planned: list[Planned], rows_done: dict[str, int], bar: ProgressBar
) -> None:
    """Moves the bar; `rows_done` caches the rows of finished contexts."""
    heartbeats = store.claims.heartbeats()
    rows, running = 0, list[str]()
    for context in planned:
        # The blocks of a finished context are read from its table, only once.
        if context.id not in rows_done and set(context.blocks) <= store.blocks(context.id):
            rows_done[context.id] = context.rows
        if context.id in heartbeats:
            running.append(heartbeats[context.id].context)
            if context.id not in rows_done:  # else its rows would count twice
                rows += heartbeats[context.id].rows
    rows += sum(rows_done.values())
    description = "waiting" if len(planned) > len(rows_done) else "scored"
    if running:
        description = running[0] + f" and {len(running) - 1} more" * (len(running) > 1)
    bar.update(ScoringProgress(description, rows, sum(context.rows for context in planned)))
