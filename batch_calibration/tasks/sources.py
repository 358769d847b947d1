"""Where rows come from: the mini suite, or a folder of JSON Lines files."""

import gzip
import json
from pathlib import Path

from batch_calibration.mini import suite
from batch_calibration.tasks.base import Rows, Task
from batch_calibration.typing import InputError

MINI = "mini"


def read(task: Task, data: str, split: str, limit: int = 0) -> Rows:
    """The rows of a task's split, the first `limit` of them where it is not 0.

    `data` is `"mini"` for the embedded suite, or a folder in which `<task>/<split>.jsonl` (or
    `extra_<task>/`, or `.jsonl.gz`) holds one object a line with the task's fields and an integer
    `label` in the order of `task.label_names`, -1 where it is unknown.
    """
    found = suite.rows(task.name, split) if data == MINI else _json_lines(task, Path(data), split)
    if limit < 0:
        raise InputError(f"limit: expected 0 (all rows) or a positive number, got {limit}.")
    cut = slice(limit or None)
    return Rows(found.rows[cut], found.labels[cut], found.ids[cut], found.where)


def _find(task: Task, data: Path, split: str) -> Path:
    if not data.is_dir():
        raise InputError(f"data {data}: no such folder; give one with {task.name}/{split}.jsonl.")
    tried = [
        data / folder / f"{split}{ending}"
        for folder in (task.name, f"extra_{task.name}")
        for ending in (".jsonl", ".jsonl.gz")
    ]
    for path in tried:
        if path.is_file():
            return path
    raise InputError(
        f"data {data}: task {task.name} has no split {split!r} there; looked for "
        f"{', '.join(str(path.relative_to(data)) for path in tried)}."
    )


def _json_lines(task: Task, data: Path, split: str) -> Rows:
    path = _find(task, data, split)
    opener = gzip.open if path.suffix == ".gz" else open
    rows, labels = [], []
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    row, label = _row(task, line, f"{path}, line {number}")
                    rows.append(row)
                    labels.append(label)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 JSON Lines ({error}).") from error
    if not rows:
        raise InputError(f"{path}: expected one row a line, the file is empty.")
    ids = tuple(f"{task.name}/{split}/{i}" for i in range(len(rows)))
    return Rows(tuple(rows), tuple(labels), ids, str(path))


def _row(task: Task, line: str, where: str) -> tuple[dict[str, str], int]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: no JSON object ({error}); is the line torn?") from error
    if not isinstance(value, dict):
        raise InputError(
            f"{where}: expected a JSON object with {', '.join(task.fields)} and label, got "
            f"{line.strip()[:80]}."
        )
    missing = [f for f in (*task.fields, "label") if f not in value]
    if missing:
        raise InputError(
            f"{where}: task {task.name} needs {', '.join(missing)}, the row has only "
            f"{', '.join(value)}; rename or add it."
        )
    label = value["label"]
    if type(label) is not int or not -1 <= label < len(task.label_names):
        raise InputError(
            f"{where}: label must be -1 (unknown) or 0 to {len(task.label_names) - 1} "
            f"({', '.join(task.label_names)}), got {label!r}."
        )
    wrong = [f for f in task.fields if not isinstance(value[f], str)]
    if wrong:
        raise InputError(f"{where}: field {wrong[0]} must be text, got {value[wrong[0]]!r}.")
    return {field: value[field] for field in task.fields}, label
