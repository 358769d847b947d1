"""What a task's rows are, counted: by split and label, with a hash, beside the paper's number."""

import hashlib
import json
from collections import Counter
from typing import NamedTuple

from batch_calibration.tasks.base import Rows, Task

TEST = "validation"
"""The paper tests on validation splits, since some data sets hide the test labels."""


class Count(NamedTuple):
    """One split: its rows, how many of each label (unknown last), a hash of them all."""

    split: str
    rows: int
    labels: tuple[int, ...]
    content: str


def count(task: Task, rows: Rows) -> Count:
    """Count one split; the hash is the same for the same rows in the same order from any source."""
    content = hashlib.sha256()
    for row, label in zip(rows.rows, rows.labels, strict=True):
        content.update(json.dumps([[row[f] for f in task.fields], label]).encode())
    by_label = Counter(rows.labels)
    labels = tuple(by_label[label] for label in (*range(len(task.label_names)), -1))
    return Count(rows.split, len(rows.rows), labels, content.hexdigest()[:16])


def agrees(task: Task, test: Rows) -> bool:
    """Whether these are as many test rows as the paper has."""
    return task.test_rows == len(test.rows)


def verdict(task: Task, test: Rows) -> str:
    """In words: the number of test rows beside the paper's, and whose split they are."""
    found = len(test.rows)
    if task.test_rows is None:
        words = f"{found:,} test rows; the paper does not use this task"
    elif agrees(task, test):
        words = f"{found:,} test rows, as many as the paper's"
    else:
        words = f"{found:,} test rows, NOT the paper's {task.test_rows:,}"
    if test.split != TEST:
        words += f" (split {test.split} serves as {TEST})"
    return words
