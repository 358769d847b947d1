"""Scores of one context before and after each bias of its record is taken away."""

from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import BASELINE, REFERENCES, title
from batch_calibration.methods import METHODS
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record


class Shifted(NamedTuple):
    """The test rows of a context with two labels, and what each method takes from their scores.

    Attributes:
        name: the task, and the seed.
        labels: the two labels.
        scores: log-probabilities in nats, [n 2].
        gold: the right label of each row, [n]; -1 where it is not known.
        biases: method -> what it takes away, [2]; of the scores as they are nothing.
    """

    name: str
    labels: tuple[str, str]
    scores: np.ndarray
    gold: np.ndarray
    biases: dict[str, np.ndarray]

    def margin(self, method: str) -> np.ndarray:
        """By how much the first label beats the second after a method, in nats, [n]."""
        return np.asarray((self.scores - self.biases[method]) @ np.array([1.0, -1.0]))

    def accuracy(self, method: str) -> float:
        """The share of rows that a method answers rightly, 0 to 1."""
        known = self.gold >= 0
        return float(((self.margin(method) < 0) == self.gold)[known].mean())


def methods(record: Record) -> list[str]:
    """Methods of the paper's comparison that take one bias from all rows and need no labels."""
    return [
        name
        for name, method in METHODS.items()
        if method.group == "paper" and not method.probe.labels and name in record.bias
    ]


def of(record: Record, table: ScoreTable) -> Shifted | None:
    """A record with two labels, of which both occur, and its scores; None of another."""
    block = table.blocks["test"]
    if len(record.label_names) != 2 or not {0, 1} <= set(block.labels.tolist()):
        return None
    seed = "" if record.context.seed is None else f", seed {record.context.seed}"
    scores = np.asarray(block.log_probs, np.float64)
    if record.floor is not None:
        scores = np.maximum(scores, record.floor)
    biases = {name: np.array(record.bias[name]) for name in methods(record)}
    if not np.isfinite(scores).all() or REFERENCES[1] not in biases:
        return None
    return Shifted(
        f"{title(record.context.task)}{seed}", (record.label_names[0], record.label_names[1]),
        scores, np.asarray(block.labels), {BASELINE: np.zeros(2)} | biases,
    )  # fmt: skip


def data(found: list[Shifted]) -> Cells:
    """A line a row of each context: both scores, the right label, and the margin after each."""
    names = list(found[0].biases)
    lines: Cells = [["context", "label", "log p first", "log p second"]]
    lines[0] += [f"margin after {name}" for name in names]
    for one in found:
        margins = np.stack([one.margin(name) for name in names], axis=1)
        for gold, scores, after in zip(one.gold, one.scores, margins, strict=True):
            label = one.labels[gold] if gold >= 0 else ""
            lines.append([one.name, label, *(f"{x:.5g}" for x in (*scores, *after))])
    return lines
