"""Reads JSON Lines, CSV and Parquet files as records, and says the line of each."""

import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.files import parse_json
from batch_calibration.scoring.tasks.base import NUMBERS, Task

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


def records(task: Task, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Each record of a file, and its place in words."""
    is_empty = True
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file; correct the name or put it there.")
        for record in _read(task, path):
            is_empty = False
            yield record
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}).") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    if is_empty:
        raise InputError(where=path, expected="at least one row, the file is empty")


def _read(task: Task, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    if path.name.endswith(".csv"):
        return _csv(task, path)
    if path.name.endswith(".parquet"):
        return _parquet(path)
    if path.name.endswith(ENDINGS):
        return _json_lines(task, path)
    raise InputError(where=path, expected=f"a file that ends in {', '.join(ENDINGS)}")


def _json_lines(task: Task, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    # "utf-8-sig" reads files with a byte order mark and files without.
    with opener(path, "rt", encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                record = parse_json(line)
            except UnicodeError as error:
                raise InputError(
                    f"{where}: half a surrogate pair is no text ({error}); correct the row."
                ) from error
            except ValueError as error:
                raise InputError(
                    f"{where}: no JSON object ({error}); is the line cut short?"
                ) from error
            if not isinstance(record, dict):
                raise InputError.at(
                    where, f"a JSON object of {', '.join(task.fields)} and label", line.strip()[:80]
                )
            yield where, {**record}


def _csv(task: Task, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    # A cell is text; where the task's labels are numbers, their column is read as numbers.
    label_columns = {renamed.get("label", "label") for renamed in task.columns}
    number_columns = label_columns if task.labels_are == NUMBERS else set()
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)  # strict: a quote that is not closed is an error
        try:
            header = next(lines, [])
            # A name that appears twice would silently lose a column.
            if len(set(header)) != len(header):
                raise InputError(f"{path}, line 1: a column's name appears twice in {header}.")
            for cells in lines:
                where = f"{path}, line {lines.line_num}"
                # An empty line is no row, as in JSON Lines.
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise InputError(
                        f"{where}: expected {len(header)} cells ({', '.join(header)}); got "
                        f"{len(cells)}; is the line cut short, or a comma not in quotes?"
                    )
                record: dict[str, object] = dict(zip(header, cells, strict=True))
                for name in number_columns.intersection(header):
                    # 18 digits at most: Python refuses to read thousands of them.
                    if re.fullmatch(r"-?[0-9]{1,18}", str(record[name])):
                        record[name] = int(str(record[name]))
                yield where, record
        except csv.Error as error:
            raise InputError(
                f"{path}, line {lines.line_num}: no CSV ({error}); is a quote not closed?"
            ) from error


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise InputError(
            f"{path}: Parquet needs pyarrow; pip install 'batch-calibration[data]'."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            # A batch at a time, as a file may be larger than memory.
            rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches())
            for number, record in enumerate(rows, 1):
                yield f"{path}, row {number}", record
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: no whole Parquet file ({error}).") from error


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
