"""What runs on a workdir plan, what failed of it, how far they are and how fast it goes."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from batch_calibration.errors import InputError
from batch_calibration.files import Json, file_name, parse_json, read_as, remove, retry, write_whole
from batch_calibration.processes import process_name
from batch_calibration.store.claims import Heartbeat

if TYPE_CHECKING:
    from batch_calibration.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """A context that a run will score.

    Attributes:
        id: of its score table.
        name: the context in words.
        blocks: how many rows each of its blocks has.
    """

    id: str
    name: str
    blocks: Mapping[str, int]

    @property
    def rows(self) -> int:
        """How many rows all blocks have."""
        return sum(self.blocks.values())


@dataclass(frozen=True)
class _Plan:
    """The contexts of a run, in its order."""

    contexts: tuple[Planned, ...]


@dataclass(frozen=True)
class Failure:
    """Why a context cannot be scored: a sentence, when that was found, and a name of its own."""

    sentence: str
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True)
class _Throughput:
    """How many rows a process has scored, in how many seconds."""

    rows: int = 0
    seconds: float = 0.0


class Progress:
    """The plans of a workdir, its failures, and the rows scored: small files below one folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def write_plan(self, name: str, contexts: Sequence[Planned]) -> None:
        """Keep what a run will score, under a name that says which run."""
        self._write("plans", name, asdict(_Plan(tuple(contexts))))

    def read_plan(self, name: str | None = None) -> list[Planned]:
        """The contexts of the plan of that name, or of all plans, each once."""
        # By id: plans of several runs may share contexts.
        by_id = dict[str, Planned]()
        for plan_name in self._names("plans") if name is None else [name]:
            if plan := self._read(_Plan, "plans", plan_name):
                by_id |= {context.id: context for context in plan.contexts}
        return list(by_id.values())

    def write_failure(self, context_id: str, sentence: str) -> None:
        """Keep why a context cannot be scored."""
        self._write("failed", context_id, asdict(Failure(sentence)))

    def read_failure(self, context_id: str) -> Failure | None:
        """Why a context cannot be scored; None where nothing is known against it."""
        return self._read(Failure, "failed", context_id)

    def clear_failure(self, context_id: str) -> None:
        """Forget a failure: the context can be scored."""
        remove(self._path("failed", context_id))

    def add_scored(self, rows: int, seconds: float) -> None:
        """Keep that this process scored so many more rows in so many more seconds."""
        # A file for each process: no two write one.
        name = process_name()
        before = self._read(_Throughput, "rates", name) or _Throughput()
        total = _Throughput(before.rows + rows, before.seconds + seconds)
        self._write("rates", name, asdict(total))

    def rate(self) -> float | None:
        """Rows that a worker scored in a second, on average; None before any was timed."""
        rows, seconds = 0, 0.0
        for name in self._names("rates"):
            throughput = self._read(_Throughput, "rates", name) or _Throughput()
            rows, seconds = rows + throughput.rows, seconds + throughput.seconds
        return rows / seconds if seconds else None

    def _names(self, folder: str) -> list[str]:
        # Names that begin with a dot are of files that are being written.
        return sorted(path.stem for path in (self._folder / folder).glob("[!.]*.json"))

    def _path(self, folder: str, name: str) -> Path:
        return self._folder / folder / f"{file_name(name)}.json"

    def _write(self, folder: str, name: str, fields: Mapping[str, Json]) -> None:
        write_whole(self._path(folder, name), json.dumps(fields).encode())

    def _read(self, kind: type[T], folder: str, name: str) -> T | None:
        # A file that was damaged is as good as none: no number depends on it.
        with suppress(OSError, ValueError):
            text = retry(lambda: self._path(folder, name).read_text("utf-8"))
            return read_as(kind, parse_json(text), folder)
        return None


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


def read_status(store: "Store", plan: str | None = None) -> Status:
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
