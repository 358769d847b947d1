"""Measures common token bias, majority label bias and recency bias (Zhao et al. 2021, section 4).

A factorial experiment separates them: the same rows are scored after every possible sequence of
demonstration labels.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.embedded import suite
from batch_calibration.scoring.prompts import template as templates
from batch_calibration.scoring.prompts.template import Shown, plain_text
from batch_calibration.scoring.tasks.base import Row, Task
from experiments.evidence.label_sequences import SEQUENCES, fit
from experiments.pretrain import documents

Score = Callable[[list[str], list[str]], np.ndarray]
"""`(texts, labels)` -> log-probabilities `[n k]` in nats."""


class LabelBiases(NamedTuple):
    """Label biases of a task with two labels.

    Biases are in nats of the mean margin `log p(second label) - log p(first label)` over rows.

    Attributes:
        common: Common token bias: the margin with balanced demonstrations.
        majority: Majority label bias: the increase of the margin if all demonstrations have the
            second label instead of half of them.
        recency: Recency bias: half of the change of the margin if the last demonstration has the
            second label instead of the first.
        templates: Standard deviation of the margin over the task's templates.
        words: Standard deviation of the margin over the task's label words.
        icl: Mean accuracy over contexts, and its standard deviation.
        bc: Mean accuracy with Batch Calibration over contexts, and its standard deviation.
    """

    common: float
    majority: float
    recency: float
    templates: float
    words: float
    icl: tuple[float, float]
    bc: tuple[float, float]


def measure(task: Task, score: Score, draws: int = 3, rows: int = 300) -> LabelBiases:
    """Scores test rows after every sequence of `SEQUENCES`, and fits the biases.

    Each sequence is scored with `draws` draws of demonstrations. The fit is
    `experiments.evidence.label_sequences.fit`.
    """
    train, test = suite.read_rows(task.name, "train"), suite.read_rows(task.name, "validation")
    truth = np.array(test.labels[:rows])
    pools: tuple[list[Row], list[Row]] = [], []  # the rows of each label
    for row, label in zip(train.rows, train.labels, strict=True):
        pools[label].append(row)

    def ask(
        sequence: Sequence[int], draw: int, template: str, label_words: Sequence[str]
    ) -> np.ndarray:
        # The seed gives every template and verbalizer the same demonstrations.
        rng = random.Random(f"{draw}/{sequence}")
        shown = [(rng.choice(pools[label]), label_words[label]) for label in sequence]
        labels = [templates.continuation(template, word) for word in label_words]
        return score(_texts(template, shown, test.rows[:rows]), labels)

    design, means, icl, bc = [], [], [], []
    for sequence in SEQUENCES:
        for draw in range(draws):
            scores = ask(sequence, draw, task.few_shot, task.label_words)
            bias = scores.mean(axis=0)  # [2], BC's bias
            design.append(sequence)
            means.append(bias[1] - bias[0])  # mean margin in nats
            icl.append(np.mean(scores.argmax(axis=1) == truth))
            bc.append(np.mean((scores - bias).argmax(axis=1) == truth))
    common, majority, recency = fit(design, means)

    def spread(forms: Sequence[tuple[str, Sequence[str]]]) -> float:
        biases = []
        for template, label_words in forms:
            # Both orders of balanced demonstrations, so that recency bias cancels.
            first = ask((0, 1, 0, 1), 0, template, label_words)
            second = ask((1, 0, 1, 0), 0, template, label_words)
            bias = np.concatenate([first, second]).mean(axis=0)
            biases.append(bias[1] - bias[0])
        return float(np.std(biases, ddof=1))

    other_templates = [(template, task.label_words) for template in documents.TEMPLATES[task.name]]
    other_words = [(task.few_shot, words) for words in documents.VERBALIZERS[task.name]]
    own_form = [(task.few_shot, task.label_words)]
    return LabelBiases(
        common, majority, recency,
        spread(own_form + other_templates), spread(own_form + other_words),
        (float(np.mean(icl)), float(np.std(icl, ddof=1))),
        (float(np.mean(bc)), float(np.std(bc, ddof=1))),
    )  # fmt: skip


def _texts(template: str, shown: Sequence[tuple[Row, str]], rows: Sequence[Row]) -> list[str]:
    demonstrations = [Shown(templates.query(template, row), word) for row, word in shown]
    ask = plain_text(template)(demonstrations)
    return [ask(templates.query(template, row)) for row in rows]
