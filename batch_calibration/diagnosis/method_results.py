"""Accuracies and gains of methods on labeled rows, of one context or pooled."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.metrics import Estimate, with_intervals

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "icl"


class MethodResult(NamedTuple):
    """The accuracy of one method, and its gain.

    Attributes:
        method: its name in `METHODS`.
        accuracy: the share of labeled rows that it answers rightly, with its 95 % interval.
        gain: accuracy less ICL's, paired by row; None for ICL and where ICL was not run.
        better: contexts whose accuracy is above ICL's.
        worse: contexts whose accuracy is below ICL's.
    """

    method: str
    accuracy: Estimate
    gain: Estimate | None
    better: int = 0
    worse: int = 0

    @property
    def verdict(self) -> str:
        """The gain in words: a gain, a loss, or noise; "" for ICL."""
        if self.gain is None:
            return ""
        return ("within noise", "a gain", "a loss")[self.gain.beyond_noise]


class Comparison(NamedTuple):
    """Methods side by side on one context, or on several together.

    Attributes:
        results: one of each method, in the order of `METHODS`.
        rows: how many labeled rows were judged.
        contexts: how many contexts these are of.
        skipped: method -> why it could not be used.
    """

    results: tuple[MethodResult, ...]
    rows: int
    contexts: int
    skipped: dict[str, str]

    def __str__(self) -> str:
        from batch_calibration.reporting import words

        return words.comparison_text(self)

    def _repr_html_(self) -> str:
        from batch_calibration.reporting import words

        return words.comparison_html(self)

    def to_frame(self) -> "pd.DataFrame":
        """A row a method: accuracy and gain (0 to 1) with the ends of their 95 % intervals.

        Raises:
            InputError: pandas is not installed.
        """
        from batch_calibration.reporting import words

        return words.comparison_frame(self)


def judge_answers(
    picks: Mapping[str, np.ndarray], gold: np.ndarray, skipped: Mapping[str, str]
) -> Comparison:
    """Predictions [n] of each method against the right labels [n], -1 where unknown."""
    is_labeled = gold >= 0
    labels = gold[is_labeled]
    right = {name: pick[: len(gold)][is_labeled] == labels for name, pick in picks.items()}
    outcomes = []
    for name, is_right in right.items():
        before = right.get(BASELINE) if name != BASELINE else None
        numbers = with_intervals({"accuracy": float(is_right.mean())}, is_right, before)
        accuracy = Estimate(*(numbers[f"accuracy{end}"] for end in ("", "_low", "_high")))
        gain = None
        if before is not None:
            gain = Estimate(*(numbers[f"gain{end}"] for end in ("", "_low", "_high")))
        change = gain.value if gain else 0.0
        outcomes.append(MethodResult(name, accuracy, gain, int(change > 0), int(change < 0)))
    return Comparison(tuple(outcomes), int(is_labeled.sum()), 1, dict(skipped))


def pool(comparisons: Sequence[Comparison]) -> Comparison:
    """Several contexts together, of the methods that all have, weighted by their labeled rows.

    Intervals suppose that the contexts have no rows in common: how far they reach is added in
    squares, as by `over_tasks`.
    """
    rows = np.array([comparison.rows for comparison in comparisons])
    shares = rows / rows.sum()
    by_method: dict[str, list[MethodResult]] = {}
    skipped: dict[str, str] = {}
    for comparison in comparisons:
        skipped |= comparison.skipped
        for outcome in comparison.results:
            by_method.setdefault(outcome.method, []).append(outcome)
    pooled = []
    for method, outcomes in by_method.items():
        if len(outcomes) == len(comparisons):
            _, accuracies, gains, better, worse = zip(*outcomes, strict=True)
            gain = None if None in gains else _weighted_mean(gains, shares)
            accuracy = _weighted_mean(accuracies, shares)
            pooled.append(MethodResult(method, accuracy, gain, sum(better), sum(worse)))
    return Comparison(tuple(pooled), int(rows.sum()), len(comparisons), skipped)


def _weighted_mean(estimates: Sequence[Estimate], shares: np.ndarray) -> Estimate:
    """The mean of estimates of rows that have nothing in common, with its interval."""
    means, low, high = np.array(estimates).T  # [c] each
    mean = float(shares @ means)
    below, above = (float(np.linalg.norm(shares * (end - means))) for end in (low, high))
    return Estimate(mean, mean - below, mean + above)
