"""Compares methods with plain ICL on a set of contexts: differences, intervals, tests."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import statistics
from experiments.evidence.judging import KNOWN

BASELINE = REFERENCES[0]
"""The method that all others are compared with: uncorrected scores."""
LEVEL = 0.05
"""Significance level of the tests; Holm's correction makes it the error rate over a set's tests."""


class Counts(NamedTuple):
    """One method's results in each context; arrays are [models, tasks].

    Attributes:
        accuracy: accuracy in percent.
        balanced: balanced accuracy in percent.
        gained: number of rows that are right, but wrong with the baseline.
        lost: number of rows that are wrong, but right with the baseline.
        rows: number of test rows.
        tasks: [tasks], indices of the set's tasks that the method can correct.
    """

    accuracy: np.ndarray
    balanced: np.ndarray
    gained: np.ndarray
    lost: np.ndarray
    rows: np.ndarray
    tasks: np.ndarray


class Difference(NamedTuple):
    """A mean difference to the baseline in points, its 95 % interval, and its p-value.

    Attributes:
        value: mean over contexts.
        low: lower end of the interval by the crossed bootstrap.
        high: upper end of the interval.
        p: p-value of the sign-flip test over models (over tasks if there is only one model), with
            Holm's correction over the methods of the set.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def verdict(self) -> str:
        """The verdict: gain or loss if interval and test agree, noise if the interval holds 0.

        If the interval excludes 0 but the test fails after Holm's correction, the verdict is "not
        certain": the set has too few units for a significant result.
        """
        if not self.low > 0 and not self.high < 0:
            return "inside the noise"
        direction = "gain" if self.low > 0 else "loss"
        return direction if self.p < LEVEL else f"{direction}, not certain"

    @property
    def sign(self) -> int:
        """1 for a gain, -1 for a loss, else 0."""
        return {"gain": 1, "loss": -1}.get(self.verdict, 0)

    def __str__(self) -> str:
        mark = " *" if self.sign else ""
        return statistics.interval_cell(self.value, self.low, self.high, mark)


class Compared(NamedTuple):
    """One method's comparison with the baseline on one set.

    Attributes:
        counts: results in each context.
        accuracy: difference of accuracy.
        balanced: difference of balanced accuracy.
    """

    counts: Counts
    accuracy: Difference
    balanced: Difference

    @property
    def won(self) -> np.ndarray:
        """True for contexts with higher accuracy than the baseline."""
        return self.counts.gained > self.counts.lost

    @property
    def lost(self) -> np.ndarray:
        """True for contexts with lower accuracy than the baseline."""
        return self.counts.gained < self.counts.lost

    @property
    def sure(self) -> np.ndarray:
        """True for contexts with a significant difference over their rows (McNemar, 5 %)."""
        return statistics.mcnemar(self.counts.gained, self.counts.lost) < LEVEL


def balanced_accuracy(guess: np.ndarray, gold: np.ndarray) -> float:
    """Computes the mean recall of predicted labels [n] over the gold labels that occur.

    >>> balanced_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    0.75
    """
    # label_index: [n], numbers the labels that occur from 0
    occurs, label_index = np.unique(gold, return_inverse=True)
    right = np.bincount(label_index, guess == gold, len(occurs))  # rows right, by label
    return float(np.mean(right / np.bincount(label_index)))


def count(
    answers: Sequence[np.ndarray | None],
    baseline: Sequence[np.ndarray | None],
    gold: Sequence[np.ndarray],
    models: int,
) -> Counts:
    """Counts one method's results, on the tasks that it can correct for every model."""
    # [tasks], True if every model has predictions
    has = np.array([answer is not None for answer in answers]).reshape(models, -1).all(axis=0)
    table_indices = np.arange(len(gold)).reshape(models, -1)[:, has]  # [models, tasks]
    counts_by_kind = np.zeros((5, *table_indices.shape))  # the first five fields of `Counts`
    for cell in np.ndindex(table_indices.shape):
        i = int(table_indices[cell])
        answer_right, plain = answers[i], baseline[i]
        assert answer_right is not None and plain is not None
        right, before = answer_right == gold[i], plain == gold[i]
        counts_by_kind[(slice(None), *cell)] = (
            100 * right.mean(), 100 * balanced_accuracy(answer_right, gold[i]),
            # McNemar's test uses only the rows on which the two methods differ.
            (right & ~before).sum(), (before & ~right).sum(), len(gold[i]),
        )  # fmt: skip
    accuracy, balanced, gained, lost, rows = counts_by_kind
    return Counts(accuracy, balanced, gained, lost, rows, np.flatnonzero(has))


def compare(
    answers: Mapping[str, Sequence[np.ndarray | None]],
    gold: Sequence[np.ndarray],
    models: int,
    *,
    seed: int = 0,
    draws: int = statistics.DRAWS,
) -> dict[str, Compared]:
    """Compares every method of a set with the baseline, with Holm's correction over the methods.

    Intervals come from a crossed bootstrap over models and tasks. The test flips the signs of the
    models' means over tasks. Tasks of one model are not independent: with tasks as units, the test
    rejects a true null hypothesis in 72 to 80 % of sets with different models. With one model the
    tasks are the units.

    The p-value is exact if there are at most `draws` sign vectors (13 models with 10,000 draws).
    Seven models allow no p-value below 2 / 128, so no p-value is below 0.05 after a correction over
    four or more methods. Methods that get the true shares are upper bounds, and have a separate
    correction.

    Args:
        answers: method -> predicted labels [n] of each table, or None.
        gold: right labels [n] of each table.
        models: number of models; the tables are ordered by model, then task.
        seed: seed of the draws.
        draws: number of bootstrap draws and sign vectors.
    """
    baseline = answers[BASELINE]
    counts = {name: count(answer, baseline, gold, models) for name, answer in answers.items()}
    plain = counts.pop(BASELINE)
    metrics: dict[str, dict[str, Difference]] = {}
    for metric in ("accuracy", "balanced"):
        differences: dict[str, Difference] = {}
        for name, counts_of_method in counts.items():
            # One random stream for each method; both metrics use the same streams.
            random = np.random.default_rng([seed, len(differences)])
            before = getattr(plain, metric)[:, counts_of_method.tasks]
            gains = getattr(counts_of_method, metric) - before  # [models, tasks]
            # The units are models, or tasks if there is only one model.
            unit = gains.mean(axis=1) if models > 1 else gains[0]
            ends = statistics.crossed_interval(gains, seed, draws=draws)  # low, high
            p = statistics.sign_flip(unit, random, draws=draws)
            differences[name] = Difference(float(gains.mean()), *ends, p)
        # Methods that get the true shares are a separate family of tests.
        for is_informed in (False, True):
            family = [name for name in counts if (KNOWN in name) == is_informed]
            adjusted = statistics.holm([differences[name].p for name in family])
            for name, p in zip(family, adjusted, strict=True):
                differences[name] = differences[name]._replace(p=p)
        metrics[metric] = differences
    compared = {}
    for name in counts:
        differences_of_method = metrics["accuracy"][name], metrics["balanced"][name]
        compared[name] = Compared(counts[name], *differences_of_method)
    return compared
