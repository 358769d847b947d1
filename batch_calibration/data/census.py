"""Counts a task's rows by split and label, hashes them, and compares with the paper's number."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from batch_calibration.data.image_refs import ImageRows
from batch_calibration.data.images import image_splits, read_images
from batch_calibration.data.task_file import load_task
from batch_calibration.data.texts import read, splits
from batch_calibration.prompts import template
from batch_calibration.tasks import TASKS, Rows, Task

TEST = "validation"
"""The paper tests language on validation splits, since some data sets hide the test labels."""
WIDTH = 100
"""Where the lines of an example are cut, in the report of all tasks."""


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
    content = hashlib.sha256()
    hashed = (
        [[name] for name in rows.ids]
        if isinstance(rows, ImageRows)
        else [[row[f] for f in task.fields] for row in rows.rows]
    )
    for texts, label in zip(hashed, rows.labels, strict=True):
        content.update(json.dumps([texts, label]).encode())
    by_label = Counter(rows.labels)
    labels = tuple(by_label[label] for label in (*range(len(task.label_names)), -1))
    return Count(rows.split, len(rows.ids), labels, content.hexdigest()[:16])


def agrees(task: Task, test: Rows | ImageRows) -> bool:
    """Whether these are as many test rows as the paper has."""
    return task.test_rows == len(test.ids)


def verdict(task: Task, test: Rows | ImageRows) -> str:
    """In words: the number of test rows beside the paper's, and whose split they are."""
    found = len(test.ids)
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


class Found(NamedTuple):
    """What a source holds of a task: in lines for people, its verdict, as many as the paper's."""

    lines: tuple[str, ...]
    verdict: str
    agrees: bool


def describe(task: Task, data: str, width: int = 0) -> Found:
    """Where a task's rows come from, what they are, and whether the paper has as many.

    Args:
        task: any task.
        data: as `read` takes it.
        width: the example's lines are cut to so many characters; 0 cuts none.
    """
    names = image_splits(task, data) if task.is_image else splits(task, data)
    reader = read_images if task.is_image else read
    found: dict[str, Rows | ImageRows] = {split: reader(task, data, split) for split in names}
    tested = "test" if task.is_image else TEST
    test = found.get(tested) or reader(task, data, tested)
    lines = [f"{task.name}: {test.where}"]
    lines += [f"  {note}" for note in test.notes] if isinstance(test, ImageRows) else []
    lines.append(f"  labels in order: {', '.join(task.label_names)}")
    for rows in found.values():
        split, total, labels, content = count(task, rows)
        named = [f"{name} {n:,}" for name, n in zip(task.label_names, labels, strict=False)
                 if n or not task.is_image]  # fmt: skip
        unknown = [f"unknown {labels[-1]:,}"] if labels[-1] else []
        lines.append(f"  {split}: {total:,} rows ({', '.join(named + unknown)}), content {content}")
    said = verdict(task, test)
    lines += [f"  {said}", *_example(task, test, width)]
    return Found(tuple(lines), said, agrees(task, test))


def report(task: str, data: str) -> Iterator[str]:
    """Lines on one task, or for "" on every task and how they compare in sum."""
    if task:
        yield from describe(load_task(task), data).lines
        return
    equal, others = 0, []
    for shelved in TASKS.values():
        if not (image_splits if shelved.is_image else splits)(shelved, data):
            yield f"{shelved.name}: no rows of it in {data}"
            continue
        found = describe(shelved, data, WIDTH)
        yield from found.lines
        if found.agrees:
            equal += 1
        elif shelved.test_rows is not None:
            others.append(f"  {shelved.name}: {found.verdict}")
    yield f"{equal} tasks have as many test rows as the paper's, {len(others)} have not:"
    yield from others


def _example(task: Task, test: Rows | ImageRows, width: int) -> Iterator[str]:
    """The first row with a label, as a model reads it."""
    first = next((i for i, label in enumerate(test.labels) if label >= 0), None)
    if first is None:
        return
    yield f"  example, {test.ids[first]}:"
    if isinstance(test, ImageRows):
        name = task.label_names[test.labels[first]]
        yield f"    | {test.images[first]}"
        yield f"    | {task.statement.replace('{label}', task.statement_words[name])}"
        return
    words = task.words[test.labels[first]]
    for line in template.demonstration(task.template(1), test.rows[first], words).split("\n"):
        yield f"    | {line[:width] + ' ...' if 0 < width < len(line) else line}"
