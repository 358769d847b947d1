"""What runs on a workdir plan, what failed of it, and how fast it goes."""

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from batch_calibration.files import Json, file_name, parse_json, process_name, read_as, write_whole

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
class Plan:
    """The contexts of a run, in its order."""

    contexts: tuple[Planned, ...]


@dataclass(frozen=True)
class Failure:
    """Why a context cannot be scored: a sentence, when that was found, and a name of its own."""

    sentence: str
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True)
class Work:
    """What a process has scored, in how many seconds."""

    rows: int = 0
    seconds: float = 0.0


class Progress:
    """The plans of a workdir, its failures, and the work done: small files below one folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def plan(self, name: str, contexts: Sequence[Planned]) -> None:
        """Keep what a run will score, under a name that says which run."""
        self._write("plans", name, asdict(Plan(tuple(contexts))))

    def planned(self, name: str | None = None) -> list[Planned]:
        """The contexts of the plan of that name, or of all plans, each once."""
        found = dict[str, Planned]()
        for file in self._names("plans") if name is None else [name]:
            plan = self._read(Plan, "plans", file)
            found |= {context.id: context for context in plan.contexts} if plan else {}
        return list(found.values())

    def fail(self, context: str, sentence: str) -> None:
        """Keep why the context of that id cannot be scored."""
        self._write("failed", context, asdict(Failure(sentence)))

    def failure(self, context: str) -> Failure | None:
        """Why the context of that id cannot be scored; None where nothing is known against it."""
        return self._read(Failure, "failed", context)

    def forgive(self, context: str) -> None:
        """The context of that id can be scored."""
        self._file("failed", context).unlink(missing_ok=True)

    def add_work(self, rows: int, seconds: float) -> None:
        """Keep that this process scored so many more rows in so many more seconds."""
        mine = process_name()
        before = self._read(Work, "rates", mine) or Work()
        self._write("rates", mine, asdict(Work(before.rows + rows, before.seconds + seconds)))

    def rate(self) -> float | None:
        """Rows that a worker scored in a second, on average; None before any was timed."""
        every = [self._read(Work, "rates", name) or Work() for name in self._names("rates")]
        seconds = sum(work.seconds for work in every)
        return sum(work.rows for work in every) / seconds if seconds else None

    def _names(self, kind: str) -> list[str]:
        return sorted(path.stem for path in (self._folder / kind).glob("[!.]*.json"))

    def _file(self, kind: str, name: str) -> Path:
        return self._folder / kind / f"{file_name(name)}.json"

    def _write(self, kind: str, name: str, value: Mapping[str, Json]) -> None:
        write_whole(self._file(kind, name), json.dumps(value).encode())

    def _read(self, what: type[T], kind: str, name: str) -> T | None:
        # A file that was damaged is as good as none: no number depends on it.
        with suppress(OSError, ValueError):
            return read_as(what, parse_json(self._file(kind, name).read_text("utf-8")), kind)
        return None
