"""Methods compared with plain ICL on a set of contexts: differences, intervals, tests."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import statistics
from experiments.evidence.judging import KNOWN

BASELINE = REFERENCES[0]
"""The method that all others are compared with: the scores as they are."""
LEVEL = 0.05
"""The most likely error of all tests of a set together."""


class Counts(NamedTuple):
    """One method's answers on contexts, models x tasks.

    Attributes:
        accuracy: in percent.
        balanced: balanced accuracy, in percent.
        gained: rows right here and wrong by the baseline.
        lost: rows wrong here and right by the baseline.
        rows: test rows.
        tasks: which of the set's tasks they are, all but where the method is left out.
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
        value: the mean over contexts.
        low: of the crossed bootstrap.
        high: of the same.
        p: of the sign-flip test over models, or over tasks where there is one model, adjusted by
            Holm over the methods of the set.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def verdict(self) -> str:
        """In a word: a gain or a loss where interval and test agree, otherwise noise.

        An interval that leaves out 0, with a test that is not passed after Holm, is neither: noise
        is not all there is to see, and the units are too few to be certain.
        """
        if not self.low > 0 and not self.high < 0:
            return "inside the noise"
        direction = "gain" if self.low > 0 else "loss"
        return direction if self.p < LEVEL else f"{direction}, not certain"

    @property
    def sign(self) -> int:
        """Of a gain or a loss, else 0."""
        return {"gain": 1, "loss": -1}.get(self.verdict, 0)

    def __str__(self) -> str:
        mark = " *" if self.sign else ""
        return statistics.interval_cell(self.value, self.low, self.high, mark)


class Compared(NamedTuple):
    """One method on one set.

    Attributes:
        counts: its answers.
        accuracy: difference of accuracy.
        balanced: difference of balanced accuracy.
    """

    counts: Counts
    accuracy: Difference
    balanced: Difference

    @property
    def won(self) -> np.ndarray:
        """Contexts whose accuracy is above the baseline's."""
        return self.counts.gained > self.counts.lost

    @property
    def lost(self) -> np.ndarray:
        """Contexts whose accuracy is below the baseline's."""
        return self.counts.gained < self.counts.lost

    @property
    def sure(self) -> np.ndarray:
        """Contexts whose difference is beyond the noise of their own rows (McNemar, 5 %)."""
        return statistics.mcnemar(self.counts.gained, self.counts.lost) < LEVEL


def balanced_accuracy(guess: np.ndarray, gold: np.ndarray) -> float:
    """The mean recall over the labels that occur, of predicted labels [n].

    >>> balanced_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    0.75
    """
    # [n], from 0 on for the labels that occur
    occurs, label_index = np.unique(gold, return_inverse=True)
    right = np.bincount(label_index, guess == gold, len(occurs))  # rows right, by label
    return float(np.mean(right / np.bincount(label_index)))


def count(
    answers: Sequence[np.ndarray | None],
    baseline: Sequence[np.ndarray | None],
    gold: Sequence[np.ndarray],
    models: int,
) -> Counts:
    """Accuracy of one method's predictions, on rows that all models have."""
    # [tasks], where every model has an answer
    has = np.array([answer is not None for answer in answers]).reshape(models, -1).all(axis=0)
    table_indices = np.arange(len(gold)).reshape(models, -1)[:, has]  # [models, tasks]
    counts_by_kind = np.zeros((5, *table_indices.shape))  # the fields of `Counts` but for the last
    for cell in np.ndindex(table_indices.shape):
        i = int(table_indices[cell])
        answer_right, plain = answers[i], baseline[i]
        assert answer_right is not None and plain is not None
        right, before = answer_right == gold[i], plain == gold[i]
        counts_by_kind[(slice(None), *cell)] = (
            100 * right.mean(), 100 * balanced_accuracy(answer_right, gold[i]),
            # Only rows on which the two differ tell them apart (McNemar).
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
    """Every method of a set against the baseline; Holm's correction is over these methods.

    The interval is of a crossed bootstrap over models and tasks. The test flips the signs of the
    models' means over tasks: tasks that one model answers are not independent of one another, and
    with tasks as units the test rejects a true null in 72 to 80 % of sets whose models differ. Of
    one model the tasks are the units. All sign vectors are tried where these are at most `draws`
    (13 models and 10,000 draws), so that p is exact; seven models allow no p below 2 / 128, which
    no correction over four or more methods leaves below 0.05. What knows the true shares is no
    method, and is corrected for by itself.
    """
    baseline = answers[BASELINE]
    counts = {name: count(answer, baseline, gold, models) for name, answer in answers.items()}
    plain = counts.pop(BASELINE)
    metrics: dict[str, dict[str, Difference]] = {}
    for metric in ("accuracy", "balanced"):
        differences: dict[str, Difference] = {}
        for name, counts_of_method in counts.items():
            # A stream for each method, the same for both metrics.
            random = np.random.default_rng([seed, len(differences)])
            before = getattr(plain, metric)[:, counts_of_method.tasks]
            gains = getattr(counts_of_method, metric) - before  # [models, tasks]
            # Models are the units; the tasks of one model, where there is no other.
            unit = gains.mean(axis=1) if models > 1 else gains[0]
            ends = statistics.crossed_interval(gains, seed, draws=draws)  # low, high
            p = statistics.sign_flip(unit, random, draws=draws)
            differences[name] = Difference(float(gains.mean()), *ends, p)
        # What knows the true shares is a family of tests of its own.
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
