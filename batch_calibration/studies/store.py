"""The workdir: score tables and records by context id, calibration results, and status."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

from batch_calibration import scores
from batch_calibration.errors import InputError, answering, refuse_unknown, step
from batch_calibration.files import Json, file_name, remove, remove_unfinished, retry, write_whole
from batch_calibration.scores import ScoreTable
from batch_calibration.studies import tidy
from batch_calibration.studies.claims import LEASE, Claims, Heartbeat
from batch_calibration.studies.journal import BlockPlan, Journal, remove_stored
from batch_calibration.studies.progress import Failure, Planned, WorkFiles
from batch_calibration.studies.records import Record
from batch_calibration.studies.tidy import Records

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Store:
    """A folder of finished contexts: `scores/<id>.safetensors` and `records/<id>.json`.

    Attributes:
        workdir: the folder.
        claims: the workers' claims on contexts.
        progress: the plans, failures and speed of runs.
    """

    def __init__(self, workdir: str | Path, *, create: bool = False, lease: float = LEASE):
        """Opens a workdir and removes unfinished files of killed writers.

        Args:
            workdir: the folder; it must hold scores unless `create` is true.
            create: creates the folder if it is missing.
            lease: seconds without a heartbeat after which a worker on another machine counts as
                dead; increase it if machines may stall for a minute.
        """
        self.workdir = Path(workdir)
        self.claims = Claims(self.workdir / "work" / "claims", lease)
        self.progress = WorkFiles(self.workdir / "work")
        if create:
            where, remedy = f"workdir {self.workdir}", "choose a folder that you can write to"
            with answering(OSError, where, "a folder to write to", remedy, "workdir"):
                folder = self.workdir / "scores"
                retry(lambda: folder.mkdir(parents=True, exist_ok=True))
                # Raises now, not after the first context is scored. The file has a unique name,
                # because several processes may open the folder at once.
                retry(lambda: tempfile.TemporaryFile(dir=folder).close())
        elif not (self.workdir / "scores").is_dir():
            where, remedy = f"workdir {self.workdir}", f"{step('score')} first"
            expected, got = "a study's folder with score tables in scores/", "no folder scores/"
            raise InputError(key="workdir", where=where, expected=expected, got=got, remedy=remedy)
        # Killed writers and workers leave these files and claims.
        remove_unfinished(self.workdir)
        self.claims.remove_ended()

    def get(self, context: Mapping[str, Json]) -> ScoreTable | None:
        """Returns the stored table of a context, or None."""
        return self._load(scores.context_id(context))

    def put(self, table: ScoreTable) -> None:
        """Stores a table atomically, and removes the outdated record of its earlier content."""
        # The table comes first: after a stop in between, the digest shows that the record is old.
        table.save(self._table_path(table.id))
        remove(self._record_path(table.id))

    def tables(self) -> tuple[list[ScoreTable], list[str]]:
        """Returns all readable tables in the order of ids, and error messages on the others."""
        tables, broken = [], []
        for path in self._table_paths():
            try:
                tables.append(self._read(path))
            except InputError as error:
                broken.append(str(error))
        return tables, broken

    def table_of(self, record: Record) -> ScoreTable | None:
        """Returns the score table of a record, or None for a deleted table."""
        return self._load(record.id)

    def blocks(self, context_id: str) -> set[str]:
        """Returns the names of a table's blocks; empty if it is missing or cannot be read."""
        with suppress(InputError):
            if table := self._load(context_id):
                return set(table.blocks)
        return set()

    def journal(self, context_id: str, blocks: Sequence[BlockPlan]) -> Journal:
        """Opens the journal with the finished rows of blocks of an unfinished table."""
        return Journal(self._journal_folder(context_id), blocks)

    def remove_journal(self, context_id: str, stored: Sequence[BlockPlan]) -> None:
        """Removes the journals of blocks that the table now holds."""
        remove_stored(self._journal_folder(context_id), stored)

    def has_work(self, context_id: str) -> bool:
        """Checks whether a context has a claim, a failure or a journal of finished rows."""
        work = self.workdir / "work"
        failure = work / "failed" / f"{file_name(context_id)}.json"
        paths = work / "claims" / context_id, failure, self._journal_folder(context_id)
        return any(retry(partial(os.path.lexists, path)) for path in paths)

    def put_record(self, record: Record) -> bool:
        """Stores a record in place of an earlier one.

        Returns:
            False if the record comes from other scores than the stored ones, and is not kept.
        """
        path = self._record_path(record.id)
        if self._is_outdated(record):
            return False
        write_whole(path, record.to_json().encode())
        # `put` in another process may have replaced the table since the first check.
        if self._is_outdated(record):
            remove(path)
            return False
        return True

    def _is_outdated(self, record: Record) -> bool:
        return record.scores not in ("", self.digest(record.id))

    def record(self, context_id: str) -> Record | None:
        """Returns the record of a table, or None for a missing or unreadable record."""
        with suppress(InputError):
            return self._read_record(self._record_path(context_id))
        return None

    def records(self) -> Records:
        """Returns all records, in the order of ids.

        Raises:
            InputError: no records, or a record that cannot be read.
        """
        paths = sorted((self.workdir / "records").glob("*.json"))
        if not paths:
            raise InputError(f"workdir {self.workdir}: no records yet; {step('calibrate')} first.")
        return Records([self._read_record(path) for path in paths])

    def _table_paths(self) -> list[Path]:
        return sorted((self.workdir / "scores").glob("*.safetensors"))

    def _load(self, context_id: str) -> ScoreTable | None:
        path = self._table_path(context_id)
        return self._read(path) if retry(path.exists) else None

    def _read(self, path: Path) -> ScoreTable:
        table = scores.load(path)
        # A copy under another name would count the context twice.
        right_path = self._table_path(table.id)
        if path != right_path:
            remedy = f"rename it {right_path.name} or remove it"
            raise InputError.at(path, "the id in its name", table.id, remedy)
        return table

    def _read_record(self, path: Path) -> Record:
        remedy = f"{step('calibrate')} again"
        with answering(OSError, path, "a record that can be read", f"remove it and {remedy}"):
            text = retry(lambda: path.read_text(encoding="utf-8", errors="replace"))
            record = Record.from_json(text, path)
        if path != self._record_path(record.id):
            remedy = f"the file was renamed or copied; remove it and {remedy}"
            raise InputError.at(path, "the id in its name", repr(record.id), remedy)
        return record

    def digest(self, context_id: str) -> str:
        """Returns the digest of a table's file; empty if the file is missing."""
        path = self._table_path(context_id)
        try:
            return hashlib.sha256(retry(path.read_bytes)).hexdigest()[:16]
        except FileNotFoundError:
            return ""

    def digests(self) -> dict[str, str]:
        """Maps the id of each stored table to the digest of its file."""
        return {path.stem: self.digest(path.stem) for path in self._table_paths()}

    def unmatched(self, records: Records | None = None) -> list[str]:
        """Describes tables without a record, and records without their table, in sentences."""
        records = self.records() if records is None else records
        recorded_ids = {record.id for record in records}
        lost, changed = list[str](), list[str]()
        for record in records:
            if not (digest := self.digest(record.id)):
                lost.append(_title(record.context.task, record.context.seed))
            elif record.scores not in ("", digest):
                changed.append(_title(record.context.task, record.context.seed))
        unrecorded = [path for path in self._table_paths() if path.stem not in recorded_ids]
        calibrate = step("calibrate")
        rescore = f"{step('score')} again, or delete it from {self.workdir / 'records'}"
        titles = [_read_title(path) for path in unrecorded]
        return [
            *_sentence(titles, "score table", "without a record, so not shown", calibrate),
            *_sentence(changed, "score table", "changed after the last calibration", calibrate),
            *_sentence(lost, "record", "without its score table", rescore),
        ]

    def _journal_folder(self, context_id: str) -> Path:
        return self.workdir / "work" / "journal" / file_name(context_id)

    def _record_path(self, context_id: str) -> Path:
        return self.workdir / "records" / f"{file_name(context_id)}.json"

    def _table_path(self, context_id: str) -> Path:
        return self.workdir / "scores" / f"{file_name(context_id)}.safetensors"


def _title(task: Json, seed: Json) -> str:
    return str(task) if seed is None else f"{task}, seed {seed}"


def _read_title(path: Path) -> str:
    """Returns a short title of a score file: its task and seed."""
    try:
        context = scores.load(path).context
    except InputError:
        return path.stem
    return _title(context.get("task", path.stem), context.get("seed"))


def _sentence(titles: list[str], kind: str, state: str, remedy: str) -> list[str]:
    """Returns a sentence on some files, with the first three titles; empty for no files."""
    few = "; ".join(titles[:3]) + ("; ..." if len(titles) > 3 else "")
    plural = "s" if len(titles) > 1 else ""
    return [f"{len(titles)} {kind}{plural} {state} ({few}): {remedy}."] if titles else []


class Status(NamedTuple):
    """The progress of the runs on a workdir.

    Attributes:
        done: contexts with all planned blocks stored, of any plan.
        running: last heartbeats of the contexts that are being scored.
        failed: contexts that cannot be scored, with the reasons.
        left: all other contexts of each model's latest plan.
        broken: errors of unreadable claims; workers cannot score their contexts.
        seconds_left: estimated time until all contexts are finished, with the current number of
            workers, at least one; None before any context was timed.
    """

    done: list[Planned]
    running: list[Heartbeat]
    failed: list[tuple[Planned, Failure]]
    left: list[Planned]
    broken: list[InputError]
    seconds_left: float | None

    def lines(self) -> Iterator[str]:
        """Yields the status in lines of text."""
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
    """Reads the status of the runs on a workdir.

    Without the name of a plan, the contexts of all plans count if they are stored or being scored.
    The others count only if the latest plan with the same settings of the model has them, because
    a run with other tasks, seeds or rows replaces an earlier plan.

    Raises:
        InputError: no run with this plan has begun.
    """
    names = [plan] if plan else store.progress.plan_names()
    contexts = store.progress.read_plans(names)
    # Equal settings of the model are an equal first part of the name.
    latest = store.progress.read_plans({name.partition("-")[0]: name for name in names}.values())
    if not contexts:
        where, got = f"workdir {store.workdir}", f"none{' of this config' if plan else ''}"
        remedy = f"{step('score')} first"
        raise InputError.at(where, "the list of contexts of a run", got, remedy)
    beats = store.claims.heartbeats()
    failures = store.progress.read_failures()
    status = Status([], [], [], [], store.claims.broken(), None)
    for context in contexts.values():
        # Heartbeats come first, because a running context may have failed or been stored before.
        if beat := beats.get(context.id):
            status.running.append(beat)
        elif set(context.blocks) <= store.blocks(context.id):
            status.done.append(context)
        elif context.id in latest and (failure := failures.get(context.id)):
            status.failed.append((context, failure))
        elif context.id in latest:
            status.left.append(context)
    rows_left = sum(context.rows for context in status.left)
    rows_left += sum(max(0, beat.of - beat.rows) for beat in status.running)
    rate = store.progress.rate()
    seconds = rows_left / rate / max(1, len(status.running)) if rate else None
    return status._replace(seconds_left=seconds)


@overload
def load_results(
    workdir: str | Path | Store, form: Literal["pandas"] = "pandas"
) -> pandas.DataFrame: ...
@overload
def load_results(workdir: str | Path | Store, form: Literal["arrow"]) -> pyarrow.Table: ...
def load_results(
    workdir: str | Path | Store, form: str = "pandas"
) -> pandas.DataFrame | pyarrow.Table:
    """Loads the calibration results of a workdir: a row per context, method and metric.

    `Records.rows` describes the columns. The results come from the records of the last
    calibration, not from files of results.

    Args:
        workdir: the folder of scores and records.
        form: "pandas" for a DataFrame, "arrow" for a pyarrow Table.

    Raises:
        InputError: no records in the folder; an unknown form; a library that is not installed.

    Example:
        results = load_results("runs/mini")
        accuracy = results[results.metric == "accuracy"]
        accuracy.pivot_table("value", "task", "method")
    """
    refuse_unknown("form", form, ("pandas", "arrow"))
    records = (workdir if isinstance(workdir, Store) else Store(workdir)).records()  # reads files
    return records.to_pandas() if form == "pandas" else records.to_arrow()


def write_results(records: Records, folder: str | Path) -> tuple[list[Path], str]:
    """Writes `results.csv` and, if pyarrow is installed, `results.parquet`.

    Returns:
        The files, and a message if the Parquet file is not written, else an empty text.
    """
    columns = tidy.typed_columns(records.rows())
    csv_path, parquet_path = Path(folder) / "results.csv", Path(folder) / "results.parquet"
    write_whole(csv_path, tidy.to_csv(columns).encode())
    try:
        parquet = tidy.to_parquet(columns)
    except InputError:
        # An older Parquet file would contradict the new CSV file.
        parquet_path.unlink(missing_ok=True)
        return [csv_path], f"{parquet_path} is not written: it needs pyarrow; pip install pyarrow."
    write_whole(parquet_path, parquet)
    return [csv_path, parquet_path], ""
