"""Groups records whose demonstrations show other labels or label words into studies."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from batch_calibration.metrics import OF_ACCURACY, OF_GAIN, Estimate, over_rows
from batch_calibration.reporting import gains, grouping
from batch_calibration.reporting.grouping import BASELINE, CONTROL, CORRECTED, REFERENCES, Setting
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.embedded import suite
from batch_calibration.studies import Record

NONE, GOLD, FLIPPED = "none", "gold", "flipped"
NEW, NEW_FLIPPED = "held-out words", "held-out words, flipped"
# What demonstrations show, in the order of the columns; others come behind.
CONDITIONS = (NONE, GOLD, "random", FLIPPED, "training words", NEW, NEW_FLIPPED)
# A setting without its shots, and choices of the prompt that are not the task's own.
Fixed = tuple[Setting, tuple[str, ...]]
# Which rows of a record a method answers rightly, [n]; None where that is not known.
Hits = Callable[[Record, str], np.ndarray | None]


class Point(NamedTuple):
    """One accuracy of the study."""

    task: str
    shots: int
    condition: str
    method: str


class Control(NamedTuple):
    """What one model does under each condition."""

    setting: Setting  # what is held, without its shots
    # Those of the prompt that are not the task's own and do not vary, in words.
    choices: tuple[str, ...]
    # Of every accuracy: seed -> which test rows are right, [n].
    hits: dict[Point, dict[int | None, np.ndarray]]
    labels: dict[str, int]  # task -> how many labels it has

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the records."""
        return list(self.labels)

    @property
    def conditions(self) -> list[str]:
        """The conditions that there are, `NONE` where a task was asked without demonstrations."""
        present = {point.condition for point in self.hits}
        return [*filter(present.__contains__, CONDITIONS), *sorted(present.difference(CONDITIONS))]

    @property
    def heading(self) -> str:
        """What the study shows."""
        return f"Demonstration labels: {', '.join([str(self.setting), *self.choices])}"

    @property
    def slug(self) -> str:
        """The study as part of a file name."""
        return "-".join([self.setting.slug, *self.choices, "demonstration-labels"]).replace(
            " ", "-"
        )

    def chance(self, task: str) -> float:
        """Accuracy of one who guesses."""
        return 1 / self.labels[task]

    def shots(self, task: str) -> list[int]:
        """The numbers of demonstrations."""
        return sorted({p.shots for p in self.hits if p.task == task and p.condition != NONE})

    def accuracy(self, *points: Point) -> Estimate | None:
        """The mean over seeds, of several points over these; None where it was not asked for."""
        return self._mean(points)

    def difference(self, points: Sequence[Point], condition: str) -> Estimate | None:
        """Accuracy at some points less that under another condition, on the same rows."""
        return self._mean(points, [point._replace(condition=condition) for point in points])

    def gain(self, shots: int, task: str, condition: str) -> Estimate | None:
        """Accuracy with bc less that with icl on the same prompts."""
        point = Point(task, shots, condition, CORRECTED)
        return self._mean([point], [point._replace(method=BASELINE)])

    def rise(self, method: str, task: str, condition: str) -> Estimate | None:
        """Accuracy with the most shots less that with the fewest; None where there is one number.

        Of each seed the drawn words are the same.
        """
        shots = self.shots(task)
        if len(shots) < 2 or condition == NONE:
            return None
        point = Point(task, shots[-1], condition, method)
        return self._mean([point], [point._replace(shots=shots[0])])

    def _mean(self, points: Sequence[Point], references: Sequence[Point] = ()) -> Estimate | None:
        samples = []
        for point, reference in zip_longest(points, references):
            hits = self._hits_at(point)
            if reference:
                less = self._hits_at(reference)
                # A seed without its counterpart is left out: the difference is paired.
                hits = {seed: hits[seed] - less[seed] for seed in hits if seed in less}
            samples.append(hits)
        by_seed = []
        for seed in dict.fromkeys(chain.from_iterable(samples)):
            # Points of one seed share drawn words and rows.
            points_of_seed = [hits[seed] for hits in samples if seed in hits]
            by_seed.append(np.mean(points_of_seed, axis=0))
        return over_rows(by_seed, OF_GAIN if references else OF_ACCURACY) if by_seed else None

    def _hits_at(self, point: Point) -> dict[int | None, np.ndarray]:
        # Without demonstrations there is one point, whatever the shots beside it.
        return self.hits.get(point._replace(shots=0) if point.condition == NONE else point, {})


def right_by_data(record: Record, method: str) -> np.ndarray | None:
    """By the labels that the data give the rows."""
    return gains.right_rows([record], method)[0] if method in record.right else None


def right_by_likelier_label(load: Callable[[Record], ScoreTable | None]) -> Hits:
    """By the likelier label of the text of each row, of the embedded suite alone."""

    def hits(record: Record, method: str) -> np.ndarray | None:
        task, split = record.context.task, record.context.served or record.context.split
        is_of_suite = split in suite.splits(task)
        has_bias = method in record.bias or method == BASELINE
        table = load(record) if is_of_suite and has_bias else None
        if table is None:
            return None
        block = table.blocks["test"]
        if suite.rows(task, split).ids[: len(block.row_ids)] != tuple(block.row_ids):
            return None
        scores = np.asarray(block.log_probs, np.float64)
        if record.floor is not None:
            scores = np.maximum(scores, record.floor)
        answers = (scores - np.array(record.bias.get(method, 0.0))).argmax(axis=1)  # [n]
        truth = suite.likelier(task, split)[: len(answers)]
        return np.asarray(answers == np.array(truth), np.float64)

    return hits


def find_controls(records: Iterable[Record], hits: Hits = right_by_data) -> list[Control]:
    """Studies of records that differ in what demonstrations show, one for each setting.

    The usual records are the condition `GOLD`.
    """
    pairs = []
    for setting, record in grouping.with_settings(records):
        if setting.shots is not None:
            options = record.context.options
            names = filter(options.__contains__, grouping.VARIED)
            choices = tuple(f"{name} {options[name]}" for name in names)
            pairs.append(((setting._replace(shots=None), choices), record))
    # Means are over the seeds, shots and tasks that were asked otherwise too.
    keys = {_key(fixed, record) for fixed, record in pairs if grouping.axis_name(record) == CONTROL}
    tasks = {key[:2] for key in keys}
    studies: dict[Fixed, Control] = {}
    for fixed, record in pairs:
        task, name = record.context.task, condition_name(record)
        if _key(fixed, record) not in keys and (name != NONE or (fixed, task) not in tasks):
            continue
        control = studies.setdefault(fixed, Control(*fixed, {}, {}))
        for method in REFERENCES:
            right = hits(record, method)
            if right is not None:
                control.labels[task] = len(record.label_names)
                point = Point(task, record.context.shots or 0, name, method)
                control.hits.setdefault(point, {})[record.context.seed] = right
    return [control for control in studies.values() if control.hits]


def _key(fixed: Fixed, record: Record) -> tuple[Fixed, str, int | None, int | None]:
    return fixed, record.context.task, record.context.shots, record.context.seed


def condition_name(record: Record) -> str:
    """What a record's demonstrations show, in words."""
    labels, word_pool = (record.context.options.get(name, "") for name in grouping.CONTROLS)
    if not labels and not word_pool:
        return GOLD if record.context.shots else NONE
    of_pool = f"{word_pool} words".replace("_", "-") if word_pool else ""
    return ", ".join(filter(None, (of_pool, str(labels))))
