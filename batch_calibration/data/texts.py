"""Reads rows of text: the embedded suite, files, TFDS folders, a task file's own files."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batch_calibration.data import files, tfds_folder
from batch_calibration.data.binding import bind
from batch_calibration.embedded import MINI, suite
from batch_calibration.errors import InputError
from batch_calibration.tasks.base import Rows, Task

ReadRecords = Callable[[], Iterator[tuple[str, Mapping[str, object]]]]
"""Gives each record of a split with its place in words."""


class Place(NamedTuple):
    """A task's rows in one place: what it is in words, and its records by split."""

    where: str
    splits: dict[str, ReadRecords]


def read(task: Task, data: str, split: str, limit: int = 0) -> Rows:
    """The rows of a task's split, the first `limit` of them where it is not 0.

    `data` is `"mini"` for the embedded suite, or a folder. There `<task>/<split>.jsonl` (or
    `extra_<task>/`; `.jsonl.gz`, `.csv`, `.parquet`) holds the task's fields and a `label` in the
    order of `task.label_names`, -1 where it is unknown; or `<TFDS name>/<version>/` is a folder
    that TensorFlow Datasets has prepared, as in `super_glue/cb/1.0.2/`. Where both are there, the
    files are read. A task that came from a task file brings its own files, and `data` is not used.

    A split that is not there is replaced by the task's stand-in for it, and `Rows.split` says so.

    Raises:
      InputError: there are no such rows, or one of them is wrong; with file and row.
    """
    if limit < 0:
        raise InputError(where="limit", expected="0 (all rows) or a positive number", got=limit)
    if data == MINI and not task.files:
        return suite.rows(task.name, split)._replace(split=split).first(limit)
    place = _find(task, data)
    if place is None:
        raise InputError(_nothing(task, data))
    served = files.served_split(task, split, place.splits, place.where)
    bound = [bind(task, record, where) for where, record in place.splits[served]()]
    if not bound:
        raise InputError(f"{place.where}: split {served} is empty, expected at least one row.")
    return Rows(
        tuple(row for row, _ in bound),
        tuple(label for _, label in bound),
        tuple(f"{task.name}/{served}/{i}" for i in range(len(bound))),
        place.where,
        served,
    ).first(limit)


def splits(task: Task, data: str) -> tuple[str, ...]:
    """Names of the splits that `data` has of a task; none where it has no rows of it."""
    if data == MINI and not task.files:
        return suite.splits(task.name)
    place = _find(task, data)
    return tuple(place.splits) if place else ()


def _find(task: Task, data: str) -> Place | None:
    if task.files:
        found = {split: Path(file) for split, file in task.files.items()}
        return Place(f"the files of {task.source}", _file_readers(task, found))
    if not data:
        raise InputError(
            where="data", expected="a folder of rows or 'mini'", got="nothing", remedy="give one"
        )
    if not Path(data).is_dir():
        raise InputError(f"data {data}: no such folder; give one of rows, or 'mini'.")
    found = files.by_split(task, Path(data))
    if found:
        folder = next(iter(found.values())).parent
        return Place(f"files in {folder}", _file_readers(task, found))
    prepared = tfds_folder.find(task, Path(data))
    if prepared is None:
        return None
    builder = tfds_folder.open_folder(prepared)
    names = tfds_folder.splits(builder, prepared)
    readers: dict[str, ReadRecords] = {
        n: partial(tfds_folder.records, task, builder, prepared, n) for n in names
    }
    return Place(f"TFDS folder {prepared}", readers)


def _nothing(task: Task, data: str) -> str:
    looked = [f"{task.name}/<split>.jsonl", *(f"{name}/<version>/" for name in task.tfds)]
    remedy = (
        f"; where TensorFlow and a network are, `tfds build {task.tfds[0]} --data_dir={data}` "
        f"downloads and prepares it, and experiments.prepare_data makes it from files"
        if task.tfds
        else ""
    )
    return (
        f"data {data}: no rows of task {task.name} there; looked for {', '.join(looked)}{remedy}."
    )


def _file_readers(task: Task, found: Mapping[str, Path]) -> dict[str, ReadRecords]:
    return {split: partial(files.records, task, path) for split, path in found.items()}
