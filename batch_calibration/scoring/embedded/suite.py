"""Reads the rows of the suite's language tasks, one file of JSON Lines for each task and split.

A line holds the fields of a row, its sampled `label`, and `likelier`, its most probable label
under the grammar. experiments/pretrain/write_suite.py generates the files.
"""

import gzip
import json
from functools import cache
from itertools import islice
from pathlib import Path

from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.scoring.tasks.base import Row, Rows

FOLDER = Path(__file__).parent / "rows"
ENDING = ".jsonl.gz"
SEED = 2309  # the seed that generated the files


def split_names(task: str) -> tuple[str, ...]:
    """Returns the names of a task's splits; empty if the suite does not have the task."""
    return tuple(sorted(path.name.removesuffix(ENDING) for path in (FOLDER / task).glob("*")))


def read_rows(task: str, split: str, limit: int = 0) -> Rows:
    """Reads rows of a split with their sampled labels; only the first `limit`, unless it is 0."""
    fields, labels, _ = _columns(task, split, limit)
    ids = tuple(map(f"mini/{task}/{split}/{{}}".format, range(len(labels))))
    return Rows(fields, labels, ids, f"the mini suite's {task}, split {split}, seed {SEED}")


def likelier(task: str, split: str) -> tuple[int, ...]:
    """Returns the Bayes-optimal label of each row under the generating grammar."""
    return _columns(task, split)[2]


@cache
def _columns(
    task: str, split: str, limit: int = 0
) -> tuple[tuple[Row, ...], tuple[int, ...], tuple[int, ...]]:
    """Reads the fields, the sampled label and the Bayes-optimal label of each row."""
    if not split_names(task):
        tasks = sorted(folder.name for folder in FOLDER.iterdir())
        raise InputError.unknown("task of the mini suite", task, tasks)
    refuse_unknown(f"split of the mini suite's {task}", split, split_names(task))
    with gzip.open(FOLDER / task / f"{split}{ENDING}", "rt", encoding="utf-8") as file:
        # Lines beyond `limit` are not parsed.
        records = list(map(json.loads, islice(file, limit or None)))
    labels = tuple([record.pop("label") for record in records])
    probable_labels = tuple([record.pop("likelier") for record in records])
    return tuple(records), labels, probable_labels
