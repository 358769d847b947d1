"""Reads the rows of the suite's language tasks, one file of JSON Lines for each task and split.

A line holds the fields of a row, its `label` as drawn, and `likelier`, the label that the grammar
gives the higher probability. experiments/pretrain/write_suite.py generates the files.
"""

import gzip
import json
from functools import cache
from pathlib import Path

from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks.base import Row, Rows

FOLDER = Path(__file__).parent / "rows"
ENDING = ".jsonl.gz"
SEED = 2309  # what the files were generated from


def splits(task: str) -> tuple[str, ...]:
    """Names of the splits of a task; none where the suite does not have it."""
    return tuple(sorted(path.name.removesuffix(ENDING) for path in (FOLDER / task).glob("*")))


def rows(task: str, split: str) -> Rows:
    """The rows of a split, with the labels as drawn."""
    fields, labels, _ = _columns(task, split)
    ids = tuple(f"mini/{task}/{split}/{number}" for number in range(len(labels)))
    return Rows(fields, labels, ids, f"the mini suite's {task}, split {split}, seed {SEED}")


def likelier(task: str, split: str) -> tuple[int, ...]:
    """The likelier label of each row: what one who knows the grammar answers."""
    return _columns(task, split)[2]


@cache
def _columns(task: str, split: str) -> tuple[tuple[Row, ...], tuple[int, ...], tuple[int, ...]]:
    """The fields of each row, the labels as drawn, and the likelier ones."""
    if not splits(task):
        tasks = sorted(folder.name for folder in FOLDER.iterdir())
        raise InputError.unknown("task of the mini suite", task, tasks)
    if split not in splits(task):
        raise InputError.unknown(f"split of the mini suite's {task}", split, splits(task))
    with gzip.open(FOLDER / task / f"{split}{ENDING}", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    labels = tuple(record.pop("label") for record in records)
    likelier_labels = tuple(record.pop("likelier") for record in records)
    return tuple(records), labels, likelier_labels
