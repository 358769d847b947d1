"""Shows how far a program is: a line, or a bar with its rate and the time left."""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from math import inf
from pathlib import Path
from threading import Event, Thread
from typing import Self

import numpy as np

from batch_calibration.reporting.cells import filled
from batch_calibration.settings import Study
from batch_calibration.studies import ScoringProgress, Store
from batch_calibration.studies.progress import Planned

SILENT_SECONDS = 2.0
"""Seconds for which a command says nothing of how far it is."""
LOOK_EVERY = 2.0
"""Seconds between looks at the workdir of a sweep."""
LINE_EVERY = 60.0
"""Seconds between lines that say how far a run is, where the output is no terminal."""
FIRST_LINE = 15.0
"""Seconds after the first rows until a line says how long the rest will take."""
FEWEST_STEPS = 5
"""Steps of a second or more that a rate is measured by."""


class Waiting:
    """A line on standard error that is written over, where that is a terminal.

    Example:
        with Waiting("reading", 50) as waiting:
            waiting.update(1)
    """

    def __init__(self, doing: str, total: int = 0):  # 0: not known
        self._doing, self._total, self._begun = doing, total, time.monotonic()
        self._is_shown = False

    def update(self, done: int) -> None:
        """Say how many are done."""
        if time.monotonic() - self._begun >= SILENT_SECONDS and sys.stderr.isatty():
            self._is_shown = True
            of = f" of {self._total:,}" if self._total else ""
            line = f"{self._doing}: {done:,}{of}"
            # The next line overwrites this one.
            print(f"\r{line:60}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)


class ProgressBar:
    """A bar in the terminal, and a line a minute where the output is a file or a pipe.

    Above the bar a line says once how long it will take, as soon as some rows have come.

    Example:
        with ProgressBar("scoring", "examples") as bar:
            bar.update(ScoringProgress("sst2, seed 0", done=3, total=10))
    """

    def __init__(self, description: str, unit: str):
        # rich comes with the programs that ask models; the rest of the package does without it.
        from rich import progress
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        class NameColumn(progress.ProgressColumn):
            def render(self, task: progress.Task) -> Text:
                # In a narrow terminal it is cut, so that the numbers stay whole.
                return Text(task.description, no_wrap=True, overflow="ellipsis")

        class RateColumn(progress.ProgressColumn):
            def render(self, task: progress.Task) -> Text:
                # No speed before the second update.
                return Text(f"{task.finished_speed or task.speed or 0:,.0f} {unit}/s")

        whole, console = Column(no_wrap=True), Console()
        bar = NameColumn(), progress.BarColumn(bar_width=20, table_column=whole)
        counts = progress.MofNCompleteColumn(table_column=whole), RateColumn(whole)
        columns = *bar, *counts, progress.TimeRemainingColumn(table_column=whole)
        # A file has the lines alone.
        is_transient = not console.is_terminal
        self._bar = progress.Progress(*columns, console=console, transient=is_transient)
        self._line = self._bar.add_task(description, total=None)  # no total until the first look
        self._unit = unit
        self._steps: list[tuple[float, int]] = []  # when rows came, and what was done by then
        self._said = 0.0  # when a line was printed last

    def update(self, status: ScoringProgress) -> None:
        """Move the bar; of `to_ask`, which leaves out what was stored, `asked` are done.

        The time left is that of the `tokens`, at the rate of the last half of the time without its
        longest step: neither long prompts that come late nor what is compiled first mislead it.
        """
        description, done, total, asked, to_ask, tokens, tokens_run = status
        self._bar.update(self._line, completed=done, total=total, description=description)
        now, (run, to_run) = time.monotonic(), (tokens_run, tokens) if tokens else (asked, to_ask)
        if not asked:
            return
        if not self._steps:
            self._said = now - LINE_EVERY + FIRST_LINE
            about = f", about {tokens:,} tokens" if tokens else ""
            self.print(f"{to_ask:,} {self._unit} to ask{about}; {total - to_ask:,} stored")
        if not self._steps or now - self._steps[-1][0] >= 1.0:
            self._steps.append((now, run))
        if now - self._said < LINE_EVERY:
            return
        half = (self._steps[0][0] + now) / 2
        last = self._steps[bisect_left(self._steps, (half, 0)) - 1 :]
        steps = sorted(tuple(np.subtract(later, earlier)) for earlier, later in pairwise(last))
        # The longest is left out.
        seconds, amount = np.sum(steps[:-1], axis=0) if steps[1:] else (0.0, 0.0)
        if len(steps) < FEWEST_STEPS or not amount:
            return
        # A terminal has the bar, and this once.
        self._said = inf if self._bar.console.is_terminal else now
        minutes = (to_run - run) / amount * seconds / 60
        self.print(
            f"{description}: {asked:,} of {to_ask:,} {self._unit}, "
            f"about {minutes:,.1f} minutes left"
        )

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        # Brackets in a line are text, no styles, and a long path stays one line.
        self._bar.console.print(filled(line), markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextmanager
def watch_workers(workdir: str | Path, studies: Sequence[Study]) -> Iterator[Callable[[str], None]]:
    """A bar of the rows that all workers have scored; yields what prints a line above it."""
    from batch_calibration.studies.scoring import plan_name

    store, plans = Store(workdir, create=True), [plan_name(*study) for study in studies]
    has_ended = Event()
    with ProgressBar("workers start", "examples") as bar:
        # An interrupted program does not wait for it.
        thread = Thread(target=_follow, args=(store, plans, bar, has_ended), daemon=True)
        thread.start()
        try:
            yield bar.print
        finally:
            has_ended.set()
            thread.join()


def _follow(store: Store, plans: list[str], bar: ProgressBar, has_ended: Event) -> None:
    rows_done = dict[str, int]()
    is_last = False
    # One look after the end, so that the bar shows it.
    while not is_last:
        is_last = has_ended.wait(LOOK_EVERY)
        if planned := list(chain.from_iterable(map(store.progress.read_plan, plans))):
            _show_rows(store, planned, rows_done, bar)


def _show_rows(
    store: Store, planned: list[Planned], rows_done: dict[str, int], bar: ProgressBar
) -> None:
    """Move the bar; `rows_done` keeps the contexts that need no second look."""
    heartbeats = store.claims.heartbeats()
    rows, running = 0, list[str]()
    for context in planned:
        # A finished context is never opened again: its table is read to know its blocks.
        if context.id not in rows_done and set(context.blocks) <= store.blocks(context.id):
            rows_done[context.id] = context.rows
        if context.id in heartbeats:
            running.append(heartbeats[context.id].context)
            if context.id not in rows_done:  # else its rows would count twice
                rows += heartbeats[context.id].rows
    rows += sum(rows_done.values())
    more = f" and {len(running) - 1} more" if running[1:] else ""
    waiting = "waiting" if len(planned) > len(rows_done) else "scored"
    description = f"{running[0]}{more}" if running else waiting
    total = sum(context.rows for context in planned)
    bar.update(ScoringProgress(description, rows, total))
