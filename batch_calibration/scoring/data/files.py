"""Reads JSON Lines, CSV and Parquet files as records, and says the line of each."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from batch_calibration import readers
from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks.base import NUMBERS, Task

ROWS = "a file of rows"
ENDINGS = (".jsonl", ".jsonl.gz", ".csv", ".parquet")


def by_split(task: Task, data: Path) -> dict[str, Path]:
    """The files of a task in a data folder, by split: the file's name without its ending."""
    return in_folders(data / task.name, data / f"extra_{task.name}")


def in_folders(*folders: Path) -> dict[str, Path]:
    """The files of rows in some folders, by name without ending; no name twice."""
    paths: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            # Not `suffix`: the ending of `train.jsonl.gz` has two dots.
            split, dot, ending = path.name.partition(".")
            if dot + ending not in ENDINGS:
                continue
            if split in paths:
                raise InputError(
                    f"{path}: split {split} is in {paths[split]} too; keep one of the two."
                )
            paths[split] = path
    return paths


def records(task: Task, path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each record of a file, and its place in words."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; correct the name or put it there.")
    if not path.name.endswith(ENDINGS):
        raise InputError(where=path, expected=f"a file that ends in {', '.join(ENDINGS)}")
    is_empty = True
    for where, record in _read(task, path):
        is_empty = False
        yield where, record
    if is_empty:
        raise InputError(where=path, expected="at least one row, the file is empty")


def _read(task: Task, path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    if path.suffix == ".csv":
        return _csv(task, path)
    if path.suffix == ".parquet":
        return readers.parquet_rows(path)
    return readers.json_rows(path, ROWS, is_gzip=path.suffix == ".gz")


def _csv(task: Task, path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    # A cell is text; where the task's labels are numbers, their column is read as numbers.
    label_columns = {renamed.get("label", "label") for renamed in task.columns}
    number_columns = label_columns if task.labels_are == NUMBERS else set()
    lines = readers.delimited_rows(path, ROWS)
    _, names = next(lines)
    for where, cells in lines:
        record: dict[str, object] = dict(zip(names, cells, strict=True))
        for name in number_columns.intersection(names):
            # 18 digits at most: Python refuses to read thousands of them.
            if re.fullmatch(r"-?[0-9]{1,18}", str(record[name])):
                record[name] = int(str(record[name]))
        yield where, record


def served_split(task: Task, split: str, present: Collection[str], where: str) -> str:
    """The split that is read when `split` is asked for: itself, or the task's stand-in."""
    # The split itself goes before its stand-in.
    served = split if split in present else task.stand_ins.get(split, split)
    if served not in present:
        raise InputError(
            f"{where}: task {task.name} has no split {split!r} there; there are: "
            f"{', '.join(present)}."
        )
    return served
