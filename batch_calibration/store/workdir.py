"""The workdir: score tables by the id of their context, records by the same id."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from batch_calibration import scores
from batch_calibration.errors import InputError
from batch_calibration.files import Json, file_name, remove_unfinished, write_whole
from batch_calibration.scores import ScoreTable
from batch_calibration.store.claims import LEASE, Claims
from batch_calibration.store.journal import Journal, Part, forget
from batch_calibration.store.progress import Progress
from batch_calibration.store.records import Record, Records


class Store:
    """A folder of finished contexts: `scores/<id>.safetensors` and `records/<id>.json`.

    Attributes:
        workdir: the folder.
        claims: which contexts are being scored, and by whom.
        progress: what runs plan, what failed, and how fast they are.
    """

    def __init__(self, workdir: str | Path, *, create: bool = False, lease: float = LEASE):
        """Open a workdir; with `create` make it, else it must hold scores already.

        What killed writers left unfinished in it is removed.

        Args:
            workdir: the folder.
            create: make it where there is none.
            lease: seconds without a heartbeat after which a worker on another machine counts as
                dead; longer where machines stall for a minute.
        """
        self.workdir = Path(workdir)
        self.claims = Claims(self.workdir / "work" / "claims", lease)
        self.progress = Progress(self.workdir / "work")
        if create:
            try:
                (self.workdir / "scores").mkdir(parents=True, exist_ok=True)
                # A name of its own: several processes may open the folder at once.
                tempfile.TemporaryFile(dir=self.workdir / "scores").close()
            except OSError as error:
                raise InputError(
                    f"workdir {self.workdir}: cannot be written ({error.strerror}); "
                    "give a folder of yours with --workdir."
                ) from error
        elif not (self.workdir / "scores").is_dir():
            raise InputError(
                where=f"workdir {self.workdir}",
                expected="a folder that experiments.score wrote",
                got="no scores/ in it",
                remedy="run experiments.score with this --workdir first",
            )
        remove_unfinished(self.workdir)

    def get(self, context: Mapping[str, Json]) -> ScoreTable | None:
        """The stored table of a context, or None."""
        return self._load(scores.context_id(context))

    def put(self, table: ScoreTable) -> None:
        """Keep a table, whole or not at all; a record of what it held before is stale and goes."""
        table.save(self._table(table.id))
        self._record(table.id).unlink(missing_ok=True)

    def tables(self) -> tuple[list[ScoreTable], list[str]]:
        """Every stored table that can be read, in the order of the ids, and why others cannot."""
        tables, broken = [], []
        for path in self._paths():
            try:
                tables.append(self._read(path))
            except InputError as error:
                broken.append(str(error))
        return tables, broken

    def table_of(self, record: Record) -> ScoreTable | None:
        """The score table that a record was made from; None where it is gone."""
        return self._load(record.id)

    def blocks(self, table: str) -> set[str]:
        """Names of the blocks that a table holds; none where it is gone or cannot be read."""
        with suppress(InputError):
            stored = self._load(table)
            return set(stored.blocks) if stored else set()
        return set()

    def journal(self, table: str, parts: Sequence[Part]) -> Journal:
        """What is finished of some parts of a table that is not written yet."""
        return Journal(self._journals(table), parts)

    def forget_journal(self, table: str, stored: Sequence[Part]) -> None:
        """Remove what was kept of parts that the table holds now."""
        forget(self._journals(table), stored)

    def put_record(self, record: Record) -> bool:
        """Keep what was derived from a table, in place of what an earlier call derived.

        A record that names its scores is kept where these are the stored ones alone; says whether.
        """
        path = self._record(record.id)
        if self._outdated(record):
            return False
        write_whole(path, record.to_json().encode())
        # `put` writes a table and then removes its record: of the two that meet here, one removes.
        if self._outdated(record):
            path.unlink(missing_ok=True)
            return False
        return True

    def _outdated(self, record: Record) -> bool:
        return record.scores not in ("", self.digest(record.id))

    def record(self, name: str) -> Record | None:
        """The record of a table; None where there is none that can be read."""
        try:
            return self._read_record(self._record(name))
        except InputError:
            return None

    def records(self) -> Records:
        """Every record, in the order of the ids.

        Raises:
            InputError: there is none, or one of them cannot be read.
        """
        paths = sorted((self.workdir / "records").glob("*.json"))
        if not paths:
            raise InputError(
                f"workdir {self.workdir}: no records yet; run experiments.calibrate with this "
                "--workdir first."
            )
        return Records([self._read_record(path) for path in paths])

    def _paths(self) -> list[Path]:
        return sorted((self.workdir / "scores").glob("*.safetensors"))

    def _load(self, name: str) -> ScoreTable | None:
        path = self._table(name)
        return self._read(path) if path.exists() else None

    def _read(self, path: Path) -> ScoreTable:
        table = scores.load(path)
        if path != self._table(table.id):
            raise InputError(
                where=path,
                expected="the table of that id",
                got=table.id,
                remedy="the file was renamed or copied; call it "
                f"{self._table(table.id).name}, or remove it",
            )
        return table

    def _read_record(self, path: Path) -> Record:
        try:
            record = Record.from_json(path.read_text(encoding="utf-8", errors="replace"), path)
        except OSError as error:
            raise InputError(
                where=path,
                expected=f"a record, which cannot be read ({error.strerror})",
                remedy="remove it and run experiments.calibrate again",
            ) from error
        if path != self._record(record.id):
            raise InputError(
                where=path,
                expected="the record of that id",
                got=f"{record.id!r}",
                remedy="the file was renamed or copied; remove it and run "
                "experiments.calibrate again",
            )
        return record

    def digest(self, name: str) -> str:
        """Digest of the file that holds a table; empty where there is none."""
        path = self._table(name)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""

    def digests(self) -> dict[str, str]:
        """`digest` of each file of scores, by its name, which is a table's id."""
        return {path.stem: self.digest(path.stem) for path in self._paths()}

    def unmatched(self, records: Records | None = None) -> list[str]:
        """A sentence each on tables without a record, and on records without their scores.

        Args:
            records: those of this store, where they were read already.
        """
        held, records = self._paths(), self.records() if records is None else records
        known = {record.id for record in records}
        lost, changed = list[str](), list[str]()
        for record in records:
            now = self.digest(record.id)
            if not now or record.scores not in ("", now):
                (changed if now else lost).append(_name(record.context.task, record.context.seed))
        bare = [self._title(path) for path in held if path.stem not in known]
        again = "run experiments.calibrate"
        gone = f"run experiments.score, or delete it from {self.workdir / 'records'}"
        return [
            *_sentence(bare, "score table", "without a record, so not shown", again),
            *_sentence(changed, "score table", "changed since its record was made", again),
            *_sentence(lost, "record", "whose score table is gone", gone),
        ]

    def _title(self, path: Path) -> str:
        """What a file of scores holds, in a few words."""
        try:
            about = scores.load(path).context
        except InputError:
            return path.stem
        return _name(about.get("task", path.stem), about.get("seed"))

    def _journals(self, name: str) -> Path:
        return self.workdir / "work" / "journal" / file_name(name)

    def _record(self, name: str) -> Path:
        return self.workdir / "records" / f"{file_name(name)}.json"

    def _table(self, name: str) -> Path:
        return self.workdir / "scores" / f"{file_name(name)}.safetensors"


def _name(task: Json, seed: Json) -> str:
    return str(task) if seed is None else f"{task}, seed {seed}"


def _sentence(names: list[str], what: str, how: str, todo: str) -> list[str]:
    few = "; ".join(names[:3]) + ("; ..." if len(names) > 3 else "")
    plural = "s" if len(names) > 1 else ""
    return [f"{len(names)} {what}{plural} {how} ({few}): {todo}."] if names else []
