"""How far the runs on a workdir are: done, running, failed, left, and the time that will take."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.studies.claims import Heartbeat
from batch_calibration.studies.progress import Failure, Planned
from batch_calibration.studies.store import Store


class Status(NamedTuple):
    """How far runs are.

    Attributes:
        done: contexts whose tables hold all that is planned.
        running: the last heartbeats on those that are being scored.
        failed: contexts that cannot be scored, and why.
        left: the others.
        broken: why claims cannot be read, which keep every worker from their contexts.
        seconds_left: until all are done with the workers that run now, or with one; None before
            any context was timed.
    """

    done: list[Planned]
    running: list[Heartbeat]
    failed: list[tuple[Planned, Failure]]
    left: list[Planned]
    broken: list[InputError]
    seconds_left: float | None

    def lines(self) -> Iterator[str]:
        """The status in lines of text."""
        yield (
            f"{len(self.done)} done, {len(self.running)} running, {len(self.failed)} failed, "
            f"{len(self.left)} left"
        )
        for beat in self.running:
            rows = f"{beat.rows:,} of {beat.of:,} rows"
            yield f"running: {beat.context}: {rows}, by {beat.worker}, since {beat.since}"
        for planned, failure in self.failed:
            yield f"failed: {planned.name}: {failure.sentence}"
        for error in self.broken:
            yield f"broken claim: {error}"
        if self.seconds_left is None and (self.running or self.left):
            yield "time left: not known before a context is finished"
        elif self.running or self.left:
            workers = max(1, len(self.running))
            duration = timedelta(seconds=round(self.seconds_left or 0))
            yield f"time left: about {duration} with {workers} worker{'s' * (workers > 1)}"


def read_status(store: Store, plan: str | None = None) -> Status:
    """How far runs on a workdir are.

    Raises:
        InputError: no such run has begun.
    """
    contexts = store.progress.read_plan(plan)
    if not contexts:
        raise InputError(
            where=f"workdir {store.workdir}",
            expected="the list of contexts of a run",
            got=f"none of {('this config' if plan else 'any')}",
            remedy="run experiments.score with it first",
        )
    beats = store.claims.heartbeats()
    status = Status([], [], [], [], store.claims.broken(), None)
    rows_left = 0  # of contexts that wait and of those that are being scored
    for context in contexts:
        # First: a context that is being scored may have failed before, or have some blocks.
        if beat := beats.get(context.id):
            status.running.append(beat)
            rows_left += max(0, beat.of - beat.rows)
        elif set(context.blocks) <= store.blocks(context.id):
            status.done.append(context)
        elif failure := store.progress.read_failure(context.id):
            status.failed.append((context, failure))
        else:
            status.left.append(context)
            rows_left += context.rows
    rate = store.progress.rate()
    seconds = rows_left / rate / max(1, len(status.running)) if rate else None
    return status._replace(seconds_left=seconds)
