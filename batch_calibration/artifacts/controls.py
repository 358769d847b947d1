"""Groups records whose demonstrations show other labels or label words into studies."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.grouping import (
    BASELINE,
    CONTROL,
    CONTROLS,
    REFERENCES,
    VARIED,
    Setting,
    axis,
    with_settings,
)
from batch_calibration.embedded import suite
from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record

NONE, GOLD, FLIPPED = "none", "gold", "flipped"
NEW, NEW_FLIPPED = "held-out words", "held-out words, flipped"
CONDITIONS = (NONE, GOLD, "random", FLIPPED, "training words", NEW, NEW_FLIPPED)
"""What demonstrations show, in the order of the columns; others come behind."""
Hits = dict[int | None, np.ndarray]
"""Seed -> which test rows are right, [n]."""
Held = tuple[Setting, tuple[str, ...]]
"""A setting, its shots 0, and choices of the prompt that are not the task's own."""


class Point(NamedTuple):
    """One accuracy of the study."""

    task: str
    shots: int
    condition: str
    method: str


class Control(NamedTuple):
    """What one model does under each condition.

    Attributes:
        setting: what is held, its shots 0.
        others: choices of the prompt that are not the task's own and do not vary, in words.
        hits: of every accuracy the rows that are right.
        labels: task -> how many labels it has.
    """

    setting: Setting
    others: tuple[str, ...]
    hits: dict[Point, Hits]
    labels: dict[str, int]

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the records."""
        return list(self.labels)

    @property
    def conditions(self) -> list[str]:
        """The conditions that there are, `NONE` where a task was asked without demonstrations."""
        found = {point.condition for point in self.hits}
        return [name for name in CONDITIONS if name in found] + sorted(found - {*CONDITIONS})

    @property
    def heading(self) -> str:
        """What the study shows."""
        return f"Demonstration labels: {', '.join([self.setting.words(), *self.others])}"

    @property
    def slug(self) -> str:
        """The study as part of a file name."""
        others = "".join(f"-{words.replace(' ', '-')}" for words in self.others)
        return f"{self.setting.slug.replace('-0shot', '', 1)}{others}-demonstration-labels"

    def chance(self, task: str) -> float:
        """Accuracy of one who guesses."""
        return 1 / self.labels[task]

    def shots(self, task: str) -> list[int]:
        """The numbers of demonstrations."""
        return sorted({p.shots for p in self.hits if p.task == task and p.condition != NONE})

    def accuracy(self, point: Point) -> Estimate | None:
        """The mean over seeds; None where it was not asked for."""
        # Without demonstrations there is one point, whatever the shots beside it.
        found = self.hits.get(point._replace(shots=0) if point.condition == NONE else point)
        return over_rows(list(found.values()), OF_ACCURACY) if found else None

    def difference(self, points: Sequence[Point], other: str) -> Estimate | None:
        """Accuracy at some points less that under another condition, on the same rows."""
        return self._less(points, [point._replace(condition=other) for point in points])

    def gain(self, point: Point) -> Estimate | None:
        """Accuracy at a point less that of icl on the same prompts; None where it is not known."""
        if point.condition == NONE:
            point = point._replace(shots=0)
        return self._less([point], [point._replace(method=BASELINE)])

    def rise(self, task: str, condition: str, method: str) -> Estimate | None:
        """Accuracy with the most shots less that with the fewest; None where there is one number.

        Of each seed the drawn words are the same.
        """
        shots = self.shots(task)
        if len(shots) < 2:
            return None
        few, most = (Point(task, n, condition, method) for n in (shots[0], shots[-1]))
        return self._less([most], [few])

    def _less(self, points: Sequence[Point], others: Sequence[Point]) -> Estimate | None:
        less = [self.hits.get(point, {}) for point in others]
        both = [
            {seed: hits - of[seed] for seed, hits in self.hits.get(point, {}).items() if seed in of}
            for point, of in zip(points, less, strict=True)
        ]
        values = _by_seed(both)
        return over_rows(values, OF_GAIN) if values else None

    def above_chance(self, points: Sequence[Point]) -> Estimate | None:
        """Accuracy at some points less chance."""
        values = _by_seed([self.hits.get(point, {}) for point in points])
        if not values:
            return None
        chance = self.chance(points[0].task)
        return Estimate(*(end - chance for end in over_rows(values, OF_ACCURACY)))


def _by_seed(points: Sequence[Hits]) -> list[np.ndarray]:
    """Of each seed the mean over the points: those of one seed share drawn words and rows."""
    seeds = dict.fromkeys(seed for hits in points for seed in hits)
    return [np.mean([hits[seed] for hits in points if seed in hits], axis=0) for seed in seeds]


def drawn(record: Record, method: str) -> np.ndarray | None:
    """Which rows a method answers with the label that the data give them."""
    return gains.right([record], method)[0] if method in record.right else None


def likelier(
    load: Callable[[Record], ScoreTable | None],
) -> Callable[[Record, str], np.ndarray | None]:
    """Which rows of the embedded suite a method answers with the likelier label, as `drawn`.

    Of other rows, and of score tables that are gone, it says nothing.
    """

    def hits(record: Record, method: str) -> np.ndarray | None:
        about = record.context
        known = (about.served or about.split) in suite.splits(about.task)
        table = load(record) if known and (method in record.bias or method == BASELINE) else None
        if table is None:
            return None
        block, split = table.blocks["test"], about.served or about.split
        if suite.rows(about.task, split).ids[: len(block.row_ids)] != tuple(block.row_ids):
            return None
        scores = np.asarray(block.log_probs, np.float64)
        if record.floor is not None:
            scores = np.maximum(scores, record.floor)
        answers = (scores - np.array(record.bias.get(method, 0.0))).argmax(axis=1)
        truth = suite.likelier(about.task, split)[: len(answers)]
        return np.asarray(answers == np.array(truth), np.float64)

    return hits


def controls(
    records: Iterable[Record], hits: Callable[[Record, str], np.ndarray | None] = drawn
) -> list[Control]:
    """Studies of records that differ in what demonstrations show, one for each setting.

    Args:
        records: all of them; the usual ones are the condition `GOLD`.
        hits: which rows a method answers rightly; None where that is not known.
    """
    every = [(_held(s, r), r) for s, r in with_settings(records) if s.shots is not None]
    # Means are over the seeds, shots and tasks that were asked otherwise too.
    asked = {_place(held, record) for held, record in every if axis(record) == CONTROL}
    tasks = {place[:2] for place in asked}
    found: dict[Held, Control] = {}
    for held, record in every:
        task, name = record.context.task, condition(record)
        if _place(held, record) not in asked and (name != NONE or (held, task) not in tasks):
            continue
        control = found.setdefault(held, Control(*held, {}, {}))
        for method in REFERENCES:
            right = hits(record, method)
            if right is not None:
                control.labels[task] = len(record.label_names)
                point = Point(task, record.context.shots or 0, name, method)
                control.hits.setdefault(point, {})[record.context.seed] = right
    return [control for control in found.values() if control.hits]


def _place(held: Held, record: Record) -> tuple[Held, str, int | None, int | None]:
    return held, record.context.task, record.context.shots, record.context.seed


def _held(setting: Setting, record: Record) -> Held:
    options = record.context.options
    others = tuple(f"{name} {options[name]}" for name in VARIED if name in options)
    return setting._replace(shots=0), others


def condition(record: Record) -> str:
    """What a record's demonstrations show, in words."""
    labels, words = (record.context.options.get(name, "") for name in CONTROLS)
    if not labels and not words:
        return GOLD if record.context.shots else NONE
    of_words = f"{words} words".replace("_", "-") if words else ""
    return ", ".join(filter(None, (of_words, str(labels))))
