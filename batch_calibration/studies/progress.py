"""Stores the plans of a workdir's runs, the contexts that failed, and the speed of scoring."""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
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
        id: id of the score table.
        name: readable name of the context.
        blocks: block -> number of its rows.
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
    """The reason why a context cannot be scored, with the time and a unique name."""

    sentence: str
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True)
class _Throughput:
    """The number of rows that a process has scored, and the seconds that it needed."""

    rows: int = 0
    seconds: float = 0.0


class WorkFiles:
    """Plans, failures and scoring speed of a workdir, in small files below one folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def write_plan(self, name: str, contexts: Sequence[Planned]) -> None:
        """Stores the contexts that a run will score, under the name of its plan."""
        self._write("plans", name, asdict(_Plan(tuple(contexts))))

    def read_plans(self, names: Iterable[str]) -> dict[str, Planned]:
        """Maps ids to the contexts of the named plans; the last plan with a context counts."""
        by_id = dict[str, Planned]()
        for name in names:
            if plan := self._read(_Plan, "plans", name):
                by_id |= {context.id: context for context in plan.contexts}
        return by_id

    def plan_names(self) -> list[str]:
        """Returns the names of all plans, in the order in which their latest runs began."""
        return self._names("plans")

    def write_failure(self, context_id: str, sentence: str) -> None:
        """Stores the reason why a context cannot be scored."""
        self._write("failed", context_id, asdict(Failure(sentence)))

    def read_failure(self, context_id: str) -> Failure | None:
        """Returns the stored failure of a context, or None."""
        return self._read(Failure, "failed", context_id)

    def read_failures(self) -> dict[str, Failure]:
        """Maps the id of each context that failed to its stored failure."""
        # A file that is being written has a name that begins with a dot.
        paths = files.retry(lambda: list((self._folder / "failed").glob("[!.]*.json")))
        failures = {path.stem: self.read_failure(path.stem) for path in paths}
        # Another worker may have removed a failure in between.
        return {id_: failure for id_, failure in failures.items() if failure}

    def clear_failure(self, context_id: str) -> None:
        """Removes the stored failure of a context."""
        files.remove(self._path("failed", context_id))

    def add_scored(self, rows: int, seconds: float) -> None:
        """Adds rows and seconds to the totals of this process."""
        # Each process has its own file, so that no two processes write the same file.
        name = files.process_name()
        before = self._read(_Throughput, "rates", name) or _Throughput()
        total = _Throughput(before.rows + rows, before.seconds + seconds)
        self._write("rates", name, asdict(total))

    def rate(self) -> float | None:
        """Returns the average number of rows per second and worker; None before the first rows."""
        rows, seconds = 0, 0.0
        for name in self._names("rates"):
            throughput = self._read(_Throughput, "rates", name) or _Throughput()
            rows, seconds = rows + throughput.rows, seconds + throughput.seconds
        return rows / seconds if seconds else None

    def _names(self, folder: str) -> list[str]:
        # A file that is being written has a name that begins with a dot.
        paths = (self._folder / folder).glob("[!.]*.json")
        return [path.stem for path in sorted(paths, key=lambda path: path.stat().st_mtime)]

    def _path(self, folder: str, name: str) -> Path:
        return self._folder / folder / f"{files.file_name(name)}.json"

    def _write(self, folder: str, name: str, fields: Mapping[str, Json]) -> None:
        files.write_whole(self._path(folder, name), json.dumps(fields).encode())

    def _read(self, kind: type[T], folder: str, name: str) -> T | None:
        # A damaged file is ignored, because no result depends on it.
        with suppress(OSError, ValueError):
            text = files.retry(lambda: self._path(folder, name).read_text("utf-8"))
            return files.read_as(kind, files.parse_json(text), folder)
        return None
