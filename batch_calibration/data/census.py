"""What a task's rows are, counted: by split and label, with a hash, beside the paper's number."""

import hashlib
import json
from collections import Counter
from typing import NamedTuple

from batch_calibration.tasks.base import Rows, Task

TEST = "validation"
"""The paper tests language on validation splits, since some data sets hide the test labels."""


def test_split(task: Task) -> str:
    """The split that is tested on."""
    return "test" if task.is_image else TEST


class Count(NamedTuple):
    """One split: its rows, how many of each label (unknown last), a hash of them all."""

    split: str
    rows: int
    labels: tuple[int, ...]
    content: str


def count(task: Task, rows: Rows) -> Count:
    """Count one split; the hash is the same for the same rows in the same order from any source.

    A picture's reference names the place where it lies, so its row id is hashed instead.
    """
    content = hashlib.sha256()
    for row, name, label in zip(rows.rows, rows.ids, rows.labels, strict=True):
        texts = [name] if task.is_image else [row[f] for f in task.fields]
        content.update(json.dumps([texts, label]).encode())
    by_label = Counter(rows.labels)
    labels = tuple(by_label[label] for label in (*range(len(task.label_names)), -1))
    return Count(rows.split, len(rows.rows), labels, content.hexdigest()[:16])


def agrees(task: Task, test: Rows) -> bool:
    """Whether these are as many test rows as the paper has."""
    return task.test_rows == len(test.rows)


def verdict(task: Task, test: Rows) -> str:
    """In words: the number of test rows beside the paper's, and whose split they are."""
    found = len(test.rows)
    if task.is_image:
        return f"{found:,} rows of split {test.split}; the paper does not say how many it has"
    if task.test_rows is None:
        words = f"{found:,} test rows; the paper does not use this task"
    elif agrees(task, test):
        words = f"{found:,} test rows, as many as the paper's"
    else:
        words = f"{found:,} test rows, NOT the paper's {task.test_rows:,}"
    if test.split != TEST:
        words += f" (split {test.split} serves as {TEST})"
    return words
