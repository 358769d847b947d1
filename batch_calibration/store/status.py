"""How far the runs on a workdir are: done, running, failed, left, and the time that will take."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.store.claims import Heartbeat
from batch_calibration.store.progress import Failure, Planned
from batch_calibration.store.workdir import Store


class Status(NamedTuple):
    """How far runs are.

    Attributes:
        done: contexts whose tables hold all that is planned.
        running: what is said of those that are being scored.
        failed: contexts that cannot be scored, and why.
        left: the others.
        seconds_left: until all are done with the workers that run now, or with one; None before
            any context was timed.
    """

    done: list[Planned]
    running: list[Heartbeat]
    failed: list[tuple[Planned, Failure]]
    left: list[Planned]
    seconds_left: float | None

    def lines(self) -> Iterator[str]:
        """The status in lines of text."""
        yield (
            f"{len(self.done)} done, {len(self.running)} running, {len(self.failed)} failed, "
            f"{len(self.left)} left"
        )
        for one in self.running:
            rows = f"{one.rows:,} of {one.of:,} rows"
            yield f"running: {one.context}: {rows}, by {one.worker}, since {one.since}"
        for planned, failure in self.failed:
            yield f"failed: {planned.name}: {failure.sentence}"
        if self.running or self.left:
            workers = max(1, len(self.running))
            least = timedelta(seconds=round(self.seconds_left or 0))
            yield (
                "time left: not known before a context is finished"
                if self.seconds_left is None
                else f"time left: about {least} with {workers} worker{'s' * (workers > 1)}"
            )


def read_status(store: Store, plan: str | None = None) -> Status:
    """How far runs on a workdir are.

    Args:
        store: the workdir.
        plan: name of the run's plan; None stands for all that began in this workdir.

    Raises:
        InputError: no such run has begun.
    """
    planned = store.progress.planned(plan)
    if not planned:
        raise InputError(
            where=f"workdir {store.workdir}",
            expected="the list of contexts of a run",
            got=f"none of {('this config' if plan else 'any')}",
            remedy="run experiments.score with it first",
        )
    held = store.claims.held()
    done, failed, left, rows = list[Planned](), list[tuple[Planned, Failure]](), [], 0
    running = [held[context.id] for context in planned if context.id in held]
    for context in planned:
        if context.id in held:
            continue
        failure = store.progress.failure(context.id)
        if set(context.blocks) <= store.blocks(context.id):
            done.append(context)
        elif failure:
            failed.append((context, failure))
        else:
            left.append(context)
            rows += context.rows
    rows += sum(max(0, one.of - one.rows) for one in running)
    rate = store.progress.rate()
    seconds = rows / rate / max(1, len(running)) if rate else None
    return Status(done, running, failed, left, seconds)
