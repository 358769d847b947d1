"""Plans of the runs on a workdir, contexts that failed, and the speed of scoring."""

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from batch_calibration import files
from batch_calibration.files import Json

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
        """The number of rows of all blocks."""
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
    """Rows that a process has scored, and the seconds they took."""

    rows: int = 0
    seconds: float = 0.0


class WorkFiles:
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
        """The recorded failure of a context, or None."""
        return self._read(Failure, "failed", context_id)

    def clear_failure(self, context_id: str) -> None:
        """Forget a failure: the context can be scored."""
        files.remove(self._path("failed", context_id))

    def add_scored(self, rows: int, seconds: float) -> None:
        """Keep that this process scored so many more rows in so many more seconds."""
        # A file for each process: no two write one.
        name = files.process_name()
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
        return self._folder / folder / f"{files.file_name(name)}.json"

    def _write(self, folder: str, name: str, fields: Mapping[str, Json]) -> None:
        files.write_whole(self._path(folder, name), json.dumps(fields).encode())

    def _read(self, kind: type[T], folder: str, name: str) -> T | None:
        # A file that was damaged is as good as none: no number depends on it.
        with suppress(OSError, ValueError):
            text = files.retry(lambda: self._path(folder, name).read_text("utf-8"))
            return files.read_as(kind, files.parse_json(text), folder)
        return None
