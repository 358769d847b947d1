"""Shows how far the workers of a sweep are, by what the workdir says of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from batch_calibration.settings import Study
from batch_calibration.store import Store
from batch_calibration.store.progress import Planned
from batch_calibration.study.scoring import plan_name
from experiments.progress import ProgressBar

EVERY = 2.0
"""Seconds between looks at the workdir."""


@contextmanager
def shown_progress(
    workdir: str | Path, studies: Sequence[Study]
) -> Iterator[Callable[[str], None]]:
    """A bar of the rows that all workers have scored; yields what prints a line above it."""
    store, names = Store(workdir, create=True), [plan_name(*study) for study in studies]
    stop = Event()
    with ProgressBar("workers start", "examples") as bar:
        thread = Thread(target=_show, args=(store, names, bar, stop), daemon=True)
        thread.start()
        try:
            yield bar.print
        finally:
            stop.set()
            thread.join()


def _show(store: Store, names: list[str], bar: ProgressBar, stop: Event) -> None:
    done = dict[str, int]()
    while True:
        last = stop.wait(EVERY)
        planned = [one for name in names for one in store.progress.read_plan(name)]
        if planned:
            _show_rows(store, planned, done, bar)
        if last:
            return


def _show_rows(
    store: Store, planned: list[Planned], done: dict[str, int], bar: ProgressBar
) -> None:
    """Move the bar; `done` keeps the contexts that need no second look."""
    held = store.claims.heartbeats()
    for one in planned:
        if one.id not in done and set(one.blocks) <= store.blocks(one.id):
            done[one.id] = one.rows
    rows = sum(done.values()) + sum(
        held[one.id].rows for one in planned if one.id in held and one.id not in done
    )
    now = [held[one.id].context for one in planned if one.id in held]
    more = f" and {len(now) - 1} more" if now[1:] else ""
    words = f"{now[0]}{more}" if now else "waiting" if planned[len(done) :] else "scored"
    bar.update(rows, sum(one.rows for one in planned), words)
