"""Counts a task's rows by split and label, hashes them, and compares with the paper's number."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from batch_calibration.scoring.data.images import image_splits, read_images
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import read, splits
from batch_calibration.scoring.inputs import ImageRows
from batch_calibration.scoring.prompts import template
from batch_calibration.scoring.tasks import TASKS, Rows, Task

TEST = "validation"
"""The paper tests language on validation splits, since some data sets hide the test labels."""
EXAMPLE_WIDTH = 100
"""Characters at which the lines of an example are cut, in the report of all tasks."""


class Count(NamedTuple):
    """One split: its rows, how many of each label (unknown last), a hash of them all."""

    split: str
    rows: int
    labels: tuple[int, ...]
    content: str


def count(task: Task, rows: Rows | ImageRows) -> Count:
    """Count one split; the hash is the same for the same rows in the same order from any source.

    An image's reference names the place where it lies, so its row id is hashed instead.
    """
    digest = hashlib.sha256()
    for number, label in enumerate(rows.labels):
        if isinstance(rows, ImageRows):
            texts = [rows.ids[number]]
        else:
            # The columns that prompts show.
            texts = [rows.rows[number][field] for field in task.fields]
        # JSON keeps the texts of a row apart: "a", "bc" is not "ab", "c".
        digest.update(json.dumps([texts, label]).encode())
    by_label = Counter(rows.labels)
    labels = tuple(by_label[label] for label in (*range(len(task.label_names)), -1))  # -1: unknown
    return Count(rows.split, len(rows.ids), labels, digest.hexdigest()[:16])  # 64 bits


def agrees(task: Task, test: Rows | ImageRows) -> bool:
    """True if there are as many test rows as in the paper."""
    return task.test_rows == len(test.ids)


def verdict(task: Task, test: Rows | ImageRows) -> str:
    """In words: the number of test rows beside the paper's, and whose split they are."""
    size = len(test.ids)
    if task.is_image:
        return f"{size:,} rows of split {test.split}; the paper does not say how many it has"
    if task.test_rows is None:
        sentence = f"{size:,} test rows; the paper does not use this task"
    elif agrees(task, test):
        sentence = f"{size:,} test rows, as many as the paper's"
    else:
        sentence = f"{size:,} test rows, NOT the paper's {task.test_rows:,}"
    if test.split != TEST:
        sentence += f" (split {test.split} serves as {TEST})"
    return sentence


class TaskReport(NamedTuple):
    """A source's rows of a task: lines to print, the verdict, whether the paper has as many."""

    lines: tuple[str, ...]
    verdict: str
    agrees: bool


def describe_task(task: Task, data: str, width: int = 0) -> TaskReport:
    """Where a task's rows come from, what they are, and whether the paper has as many."""
    names = image_splits(task, data) if task.is_image else splits(task, data)
    reader = read_images if task.is_image else read
    rows_by_split: dict[str, Rows | ImageRows] = {}
    for split in names:
        rows_by_split[split] = reader(task, data, split)
    test_split = "test" if task.is_image else TEST
    # A source without that split has a stand-in, which `reader` knows.
    test = rows_by_split.get(test_split) or reader(task, data, test_split)
    lines = [f"{task.name}: {test.where}"]
    lines += [f"  {note}" for note in test.notes] if isinstance(test, ImageRows) else []
    lines.append(f"  labels in order: {', '.join(task.label_names)}")
    for rows in rows_by_split.values():
        split, total, label_counts, content = count(task, rows)
        counts = []
        for label, name in enumerate(task.label_names):
            # A language task names its empty labels too; of images there may be a hundred.
            if label_counts[label] or not task.is_image:
                counts.append(f"{name} {label_counts[label]:,}")
        if label_counts[-1]:
            counts.append(f"unknown {label_counts[-1]:,}")
        lines.append(f"  {split}: {total:,} rows ({', '.join(counts)}), content {content}")
    sentence = verdict(task, test)
    lines += [f"  {sentence}", *_example(task, test, width)]
    return TaskReport(tuple(lines), sentence, agrees(task, test))


def report(task: str, data: str) -> Iterator[str]:
    """Lines on one task, or for "" on every task and how they compare in sum."""
    if task:
        yield from describe_task(load_task(task), data).lines
        return
    equal, unequal = 0, []  # numbers of test rows as in the paper, and other ones
    for known_task in TASKS.values():
        # Most folders hold a few tasks; one without files is no mistake here.
        if not (image_splits if known_task.is_image else splits)(known_task, data):
            yield f"{known_task.name}: no rows of it in {data}"
            continue
        task_report = describe_task(known_task, data, EXAMPLE_WIDTH)
        yield from task_report.lines
        if task_report.agrees:
            equal += 1
        elif known_task.test_rows is not None:
            unequal.append(f"  {known_task.name}: {task_report.verdict}")
    yield f"{equal} tasks have as many test rows as the paper's, {len(unequal)} have not:"
    yield from unequal


def _example(task: Task, test: Rows | ImageRows, width: int) -> Iterator[str]:
    """The first row with a label, as a model reads it."""
    # Unlabeled test rows show no answer.
    first = next((i for i, label in enumerate(test.labels) if label >= 0), None)
    if first is None:
        return
    yield f"  example, {test.ids[first]}:"
    if isinstance(test, ImageRows):
        name = task.label_names[test.labels[first]]
        yield f"    | {test.images[first]}"
        yield f"    | {task.statement.replace('{label}', task.statement_words[name])}"
        return
    label_words = task.label_words[test.labels[first]]
    form = task.template(1)
    text = template.query(form, test.rows[first]) + template.continuation(form, label_words)
    for line in text.split("\n"):
        yield f"    | {line[:width] + ' ...' if 0 < width < len(line) else line}"
