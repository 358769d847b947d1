"""Reads JSON Lines, CSV and Parquet files as records, each with its line."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files.rows import delimited_rows, json_rows, parquet_rows
from batch_calibration.scoring.tasks.base import NAMES, NUMBERS, Row, Task

ROWS = "a file of rows"
ENDINGS = (".jsonl", ".jsonl.gz", ".csv", ".parquet")


def in_folders(*folders: Path) -> dict[str, Path]:
    """Finds the files of rows in some folders, by name without ending; no name may appear twice."""
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
    """Yields each record of a file with a description of its place."""
    if not path.is_file():
        raise InputError(f"{path}: file not found; correct the name or add the file.")
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
        return parquet_rows(path)
    return json_rows(path, ROWS, is_gzip=path.suffix == ".gz")


def _csv(task: Task, path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    # CSV cells are text. If the task's labels are numbers, their column is converted.
    label_columns = {renamed.get("label", "label") for renamed in task.columns}
    number_columns = label_columns if task.labels_are == NUMBERS else set()
    lines = delimited_rows(path, ROWS)
    _, names = next(lines)
    for where, cells in lines:
        record: dict[str, object] = dict(zip(names, cells, strict=True))
        for name in number_columns.intersection(names):
            # At most 18 digits, because Python refuses to convert thousands of digits.
            if re.fullmatch(r"-?[0-9]{1,18}", str(record[name])):
                record[name] = int(str(record[name]))
        yield where, record


def served_split(task: Task, split: str, present: Collection[str], where: str) -> str:
    """Returns the split to read for `split`: itself, or the task's stand-in."""
    # The split itself takes precedence over its stand-in.
    served = split if split in present else task.stand_ins.get(split, split)
    if served not in present:
        raise InputError.unknown(f"split of {task.name}", split, present, where=where)
    return served


UNKNOWN = -1  # the label of a row with a hidden label


def schema_of(task: Task, present: tuple[str, ...], where: str) -> dict[str, str]:
    """Maps each field and `label` to its column, by the task's first schema that the data have.

    >>> from batch_calibration.scoring.tasks import TASKS
    >>> schema_of(TASKS["rte"], ("premise", "hypothesis", "label"), "here")
    {'sentence1': 'premise', 'sentence2': 'hypothesis', 'label': 'label'}
    """
    # The missing columns of each schema, for the message.
    needed = []
    for renamed in task.columns:
        schema = {field: renamed.get(field, field) for field in (*task.fields, "label")}
        missing = [column for column in schema.values() if column not in present]
        if not missing:
            return schema
        needed.append(", ".join(missing))
    expected = f"the columns {' or '.join(needed)} of task {task.name}"
    raise InputError.at(where, expected, shown(list(present)), "rename or add them")


def bind(task: Task, record: Mapping[str, object], where: str) -> tuple[Row, int]:
    """Reads the task's fields and the label of one record; `where` names file and row in errors."""
    schema = schema_of(task, tuple(record), where)
    row = {}
    for field in task.fields:
        text = record[schema[field]]
        if not isinstance(text, str):
            raise InputError.at(where, f"text in field {schema[field]}", shown(text))
        row[field] = text
    return row, _bind_label(task, record[schema["label"]], where)


def _bind_label(task: Task, label: object, where: str) -> int:
    names = ", ".join(task.label_names)
    if task.labels_are == NAMES:
        if label in (UNKNOWN, str(UNKNOWN)):
            return UNKNOWN
        # Folders and tables of images spell their classes in many ways.
        if task.is_image:
            return label_of(task, str(label), where)
        if label not in task.label_names:
            remedy = "if labels are numbers from 0, set labels_are = 'numbers' in the task file"
            raise InputError.at(where, f"a label of {names}, or -1 (unknown)", shown(label), remedy)
        return task.label_names.index(str(label))
    # `type` is compared, because `isinstance(True, int)` holds.
    if type(label) is not int or not UNKNOWN <= label < len(task.label_names):
        expected = f"label -1 (unknown) or 0 to {len(task.label_names) - 1} ({names})"
        raise InputError.at(where, expected, shown(label))
    return label


def plain_name(name: str) -> str:
    """Removes case, spaces and signs from a class name, so that its spellings are equal.

    >>> plain_name("Apply_Eye_Makeup") == plain_name("ApplyEyeMakeup")
    True
    >>> plain_name("polka-dotted")
    'polkadotted'
    """
    return "".join(filter(str.isalnum, name.casefold()))


def labels_by_name(task: Task) -> dict[str, int]:
    """Maps the plain spelling of each label's name and of its statement words to the label."""
    labels: dict[str, int] = {}
    for label, name in enumerate(task.label_names):
        for spelling in {plain_name(name), plain_name(task.statement_words[name])}:
            if labels.setdefault(spelling, label) != label:
                got = f"{task.label_names[labels[spelling]]!r} and {name!r}"
                expected = "names that differ without case, spaces and signs"
                raise InputError.at(f"task {task.name}", expected, got, "rename one")
    return labels


def label_of(task: Task, name: str, where: str) -> int:
    """Looks up the label of a class name."""
    labels = labels_by_name(task)
    if plain_name(name) in labels:
        return labels[plain_name(name)]
    names = {plain_name(label_name): label_name for label_name in task.label_names}
    # Plain spellings are compared, so that case and signs do not matter.
    near = difflib.get_close_matches(plain_name(name), names, n=1, cutoff=0.6)
    hint = f"; did you mean {names[near[0]]!r}?" if near else ";"
    listed = ", ".join(task.label_names[:8]) + (", ..." if len(task.label_names) > 8 else "")
    raise InputError(
        f"{where}: task {task.name} has no class {name!r}{hint} it has {len(task.label_names)}: "
        f"{listed}. Rename it, remove it, or describe your own task in a task file."
    )
