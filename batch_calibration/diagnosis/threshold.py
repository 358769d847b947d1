"""A cut-off on the log-odds of one label, chosen on labeled rows for precision, recall or cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp, ndtri

from batch_calibration.arrays.alignment import column_numbers, in_row_order
from batch_calibration.arrays.frames import in_kind_of, names_of
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.diagnosis.diagnose import check_names
from batch_calibration.diagnosis.forms import to_frame
from batch_calibration.errors import InputError, shown
from batch_calibration.methods import validation
from batch_calibration.metrics import Estimate
from batch_calibration.typing import FromProbs

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 10
"""The number of parts for cross-fitting, if there are as many labeled rows."""
OF_OPTIMISM = 0.75
"""The weight of the difference between labeled and held-out rows in a half-width. Without it the
coverage is 86 to 96 %; with a weight of 1, up to 99 % (`test_intervals_at_a_chosen_cut_off`)."""
MEASURES = ("precision", "recall", "f1", "share", "cost")
# Corrected scores may all be above 0.
_read = partial(validation.check_scores, beside_others=True)


class Goal(NamedTuple):
    """A measure to reach or to optimize.

    Attributes:
        measure: "precision", "recall", "f1" or "cost".
        level: the least precision or recall; NaN for cost and F1.
        costs: the costs of a false positive and of a false negative.
    """

    measure: str
    level: float
    costs: tuple[float, ...]


def read_goal(goal: str, where: str = "goal") -> Goal:
    """Reads a goal: precision:LEVEL, recall:LEVEL, cost:FALSE_POSITIVE:FALSE_NEGATIVE or f1.

    Raises:
        InputError: another form, a level outside 0 to 1, or a cost that is not above 0.

    >>> read_goal("cost:5:1").costs
    (5.0, 1.0)
    """
    name, *texts = str(goal).split(":")
    numbers = [float(text) if text.replace(".", "", 1).isdecimal() else 0.0 for text in texts]
    count = {"precision": 1, "recall": 1, "cost": 2, "f1": 0}.get(name)
    if len(numbers) == count and min(numbers, default=1.0) > 0:
        if count != 1:
            return Goal(name, np.nan, tuple(numbers) or (1.0, 1.0))
        if numbers[0] <= 1:
            return Goal(name, numbers[0], (1.0, 1.0))
    expected = "precision:LEVEL or recall:LEVEL from 0 to 1, cost:FALSE_POSITIVE:FALSE_NEGATIVE "
    raise InputError.at(where, f"{expected}or f1", shown(goal), "give one such as precision:0.9")


class Threshold(NamedTuple):
    """A cut-off: rows with at least these log-odds of a label are answered with it.

    Other rows are answered with the best other label. Measures on held-out rows are cross-fitted:
    the cut-off of each fold is chosen on the other folds.

    Attributes:
        label: the name of the positive label.
        column: its index.
        goal: the goal as it was given.
        log_odds: the cut-off on log p - log(1 - p), in nats; the log-odds of `probability`.
        probability: the same cut-off on p, a decimal with as few digits as possible.
        is_reached: True if the labeled rows reach the goal at the cut-off.
        reached: the goal's measure on held-out rows, with its 95 % interval.
        precision: the precision on held-out rows; NaN if no row is answered with the label. In
            simulations, intervals of measures other than the goal's have a coverage of 87 to 99 %.
        recall: the recall on held-out rows.
        f1: F1 on held-out rows.
        share: the share of held-out rows that are answered with the label.
        rows: the number of labeled rows.
        more_rows_to_halve: the number of additional labeled rows that halve the interval.
        curve: measures on the labeled rows at each cut-off, from the highest to the lowest: columns
            log_odds, probability, share, precision, recall, f1, cost (per row).
    """

    label: str
    column: int
    goal: str
    log_odds: float
    probability: float
    is_reached: bool
    reached: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    share: Estimate
    rows: int
    more_rows_to_halve: int
    curve: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return f"Threshold({self.label!r} from {self.probability} on, {self.goal}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_frame(self) -> pd.DataFrame:
        """Returns the curve, a row for each cut-off.

        Raises:
            InputError: pandas is not installed.
        """
        return to_frame(self.curve, "log_odds")

    @usual_jax
    def predict(
        self,
        scores: ArrayLike,
        columns: Sequence[Hashable] | None = None,
        from_probs: FromProbs = None,
    ) -> object:
        """Returns the answers [n] by the cut-off: indices, or names for a frame (see `predict`).

        >>> scores = np.array([[0.0, 2.0], [0.0, 1.0], [0.0, -1.0]])
        >>> choose_threshold(scores, [1, 0, 0], 1, "precision:1").predict(scores).tolist()
        [1, 0, 0]
        """
        rows = _read(scores, columns=columns, from_probs=from_probs)
        names = names_of(scores, columns)
        # A frame may have its columns in another order.
        column = [*map(str, names)].index(self.label) if names else self.column
        return in_kind_of(scores, answer(rows, column, self.log_odds), names)

    def shown(self) -> dict[str, str]:
        """Returns texts of the measures on held-out rows; the goal's has its interval."""
        texts = {}
        shares = {"precision": self.precision, "recall": self.recall, "F1": self.f1}
        for name, share in shares.items():
            texts[name] = f"{share} %" if share is self.reached else f"{100 * share.value:.1f} %"
        if read_goal(self.goal).measure == "cost":
            texts["cost per row"] = "{:.3g} [{:.3g}, {:.3g}]".format(*self.reached)
        return texts | {"answered": f"{100 * self.share.value:.1f} %"}

    def sentences(self) -> list[str]:
        """Describes the cut-off and its measures on held-out rows."""
        goal, label = read_goal(self.goal), repr(self.label)
        text = f"Answer {label} if its probability is at least {self.probability} (log-odds "
        text += f"{self.log_odds:.3g}): the cut-off for {self.goal} on {self.rows:,} labeled rows."
        if not self.is_reached:
            text += " No cut-off reaches this goal on these rows; this one is the best."
        measures = ", ".join(" ".join(pair) for pair in self.shown().items())
        held_out = f"On held-out rows, with the 95 % interval for the goal: {measures}."
        if goal.measure == "cost":
            held_out += " A false positive costs {:g}, a false negative {:g}.".format(*goal.costs)
        if self.reached.high < goal.level:
            held_out += f" The interval of {goal.measure} lies below {100 * goal.level:g} %."
        more = f"{self.more_rows_to_halve:,} more labeled rows would halve the interval."
        return [text, held_out, more]


@usual_jax
def choose_threshold(
    scores: ArrayLike,
    labels: ArrayLike,
    positive: Hashable,
    goal: str,
    *,
    columns: Sequence[Hashable] | None = None,
    from_probs: FromProbs = None,
) -> Threshold:
    """Chooses the cut-off on a label's log-odds that reaches a goal on labeled rows.

    The log-odds are log p - log(1 - p) with p the softmax of the scores. Candidates lie between
    distinct log-odds, so that rows with equal scores have equal answers. A measure is a ratio
    r = sum a / sum b over rows (cost: b = 1). On held-out rows its variance is
    sum (a - r b)^2 / (sum b)^2 (Cochran 1977, Sampling Techniques, chapter 6) with the pseudo-rows
    of `metrics.accuracy_interval`. The cut-off's own error grows with the optimism, the difference
    between labeled and held-out rows. So the squared half-width is the square of 1.96 standard
    errors plus the square of `OF_OPTIMISM` times the optimism. In simulations of 64 to 500 rows the
    coverage is 93 to 98 % (`test_intervals_at_a_chosen_cut_off`).

    Args:
        scores: [n, k], corrected scores in nats, in a form that `diagnose` accepts.
        labels: [n], the right labels as indices or names of columns, -1 if unknown.
        positive: the index or the name of the label.
        goal: "precision:0.9" or "recall:0.9", the least precision or recall on the labeled rows:
            the lowest cut-off with this precision, or the highest with this recall; "cost:5:1", the
            cost of a false positive and of a false negative: the least mean cost; "f1": the largest
            F1.
        columns: the names of the label columns, if a frame has other columns, too.
        from_probs: True if scores are probabilities, see `calibrate`.

    Raises:
        InputError: an unknown label, another goal, labeled rows of one side only, or rows too
            certain for a cut-off in double precision.

    >>> scores = np.array(30 * [[0.0, 2.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = choose_threshold(scores, 30 * [1, 0, 0], 1, "precision:0.9")
    >>> found.probability, str(found.reached)
    (0.8, '100.0 [86.2, 100.0]')
    """
    target, rows = read_goal(goal), _read(scores, from_probs=from_probs, columns=columns)
    columns = names_of(scores, columns)
    known = columns or [*range(rows.shape[-1])]
    if positive not in known:
        raise InputError.unknown("label", positive, map(str, known), key="positive")
    column = known.index(positive)
    label = check_names((), columns, rows.shape[-1])[column]
    numbers = column_numbers(in_row_order(labels, "labels", scores), columns)
    gold = validation.check_labels(numbers, rows)
    log_odds, is_positive = log_odds_of(rows, column)[gold >= 0], gold[gold >= 0] == column
    n, positives = len(log_odds), int(is_positive.sum())
    if positives in (0, n):
        expected, got = f"{label!r} and other labels", f"{positives} of {n} rows with {label!r}"
        raise InputError.at("labels", expected, got, "label rows of both kinds")
    levels, measures = _measure_cuts(log_odds, is_positive, target.costs)
    place, measure = _choose(measures, target), MEASURES.index(target.measure)
    cuts = (levels[1:] + levels[:-1]) / 2
    probability = _short_decimal(*expit(levels[place : place + 2]).tolist())
    held_out = _cross_fit(log_odds, is_positive, target, cuts[place])
    curve = {"log_odds": cuts, "probability": expit(cuts)}
    curve |= zip(MEASURES, measures, strict=True)
    is_reached = not measures[measure, place] < target.level
    cut = float(logit(probability)), probability, is_reached, held_out[measure]
    precision, recall, f1, share, _ = held_out
    return Threshold(label, column, goal, *cut, precision, recall, f1, share, n, 3 * n, curve)


def log_odds_of(rows: np.ndarray, column: int) -> np.ndarray:
    """Computes log p - log(1 - p) of one label, with p the softmax of scores [n, k] in nats.

    >>> log_odds_of(np.log([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), 2).tolist()
    [0.0, 1.386294361]
    """
    exact = np.asarray(rows, np.float64)
    log_odds = exact[:, column] - logsumexp(np.delete(exact, column, axis=1), axis=1)
    # Rows with the same scores in another order would differ by the rounding of the sum.
    return np.asarray(log_odds.round(9))


def answer(rows: np.ndarray, column: int, cut: float) -> np.ndarray:
    """Answers rows [n, k] with a label if its log-odds are at least `cut`, else the best other.

    >>> answer(np.array([[0.0, -3.0, 1.0], [0.0, -2.0, 1.0]]), 2, 0.95).tolist()
    [2, 0]
    """
    others = np.array(rows, np.float64)
    others[:, column] = -np.inf
    return np.where(log_odds_of(rows, column) >= cut, column, others.argmax(axis=1))


def _ratios(
    hits: np.ndarray, answered: np.ndarray, positive: np.ndarray, costs: Sequence[float], rows: int
) -> np.ndarray:
    """Returns numerators and denominators of `MEASURES`, [2, 5, ...], from counts of rows."""
    wrong = costs[0] * (answered - hits) + costs[1] * (positive - hits)
    above = hits, hits, hits, answered, wrong
    below = answered, positive, (answered + positive) / 2, rows, rows
    return np.stack(np.broadcast_arrays(*above, *below)).reshape(2, 5, -1)


def _measure_cuts(
    log_odds: np.ndarray, is_positive: np.ndarray, costs: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Measures the cut-offs between the d distinct log-odds, and around them.

    Returns:
        The distinct log-odds from high to low, between infinities, [d + 2]; `MEASURES`, [5, d + 1].
    """
    levels, place = np.unique(-log_odds, return_inverse=True)
    counts = np.bincount(place), np.bincount(place, is_positive)
    answered, hits = (np.append(0.0, np.cumsum(count)) for count in counts)
    above, below = _ratios(hits, answered, is_positive.sum(), costs, len(place))
    with np.errstate(invalid="ignore"):  # the precision of no answer is NaN
        return np.concatenate([[np.inf], -levels, [-np.inf]]), above / below


def _choose(measures: np.ndarray, target: Goal) -> int:
    """Returns the index of the cut-off that reaches the goal, or else of the best."""
    values = np.nan_to_num(measures[MEASURES.index(target.measure)], nan=-1.0)
    if target.measure == "cost":
        return int(values.argmin())
    # F1 has no level, so its maximum is chosen.
    reached = np.flatnonzero(values >= np.fmin(target.level, values.max()))
    return int(reached[-1 if target.measure == "precision" else 0])


def _short_decimal(high: float, low: float) -> float:
    """Returns a number between two probabilities, with as few digits as possible.

    >>> _short_decimal(0.7791, 0.7731)
    0.776
    """
    for digits in range(1, 18):
        number = float(f"{(low + high) / 2:.{digits}g}")
        if low < number < high:
            return number
    expected = "rows with distinct probabilities in double precision on both sides of the cut-off"
    remedy = "divide the scores by a temperature above 1"
    raise InputError.at("scores", expected, f"{low!r} and {high!r}", remedy)


def _cross_fit(
    log_odds: np.ndarray, is_positive: np.ndarray, target: Goal, cut: float
) -> list[Estimate]:
    """Estimates `MEASURES` at a chosen cut-off on held-out rows."""

    def outcomes(at: float) -> np.ndarray:
        answered = 1.0 * (log_odds >= at)
        return _ratios(answered * is_positive, answered, is_positive, target.costs, 1)

    n = len(log_odds)
    # Stratified by label, in an order without a pattern.
    order = np.lexsort((np.random.default_rng(0).random(n), is_positive))
    fold, chosen, held_out = np.empty(n, int), outcomes(cut), np.zeros((2, 5, n))
    fold[order] = np.arange(n) % FOLDS
    for number in range(min(FOLDS, n)):
        others, rows = fold != number, fold == number
        levels, measures = _measure_cuts(log_odds[others], is_positive[others], target.costs)
        place = _choose(measures, target)
        parts = outcomes(levels[place : place + 2].mean())
        # Folds with more answers would count more, and these have a lower precision.
        weight = chosen[1].sum(axis=1) / np.maximum(parts[1].sum(axis=1), 0.5)
        held_out[:, :, rows] = weight[:, None] * parts[:, :, rows]
    ends, ones = np.ones((5, 2)), np.ones((5, 4))
    ends[-1] = target.costs
    with np.errstate(invalid="ignore"):  # the precision of no answer is NaN
        labeled, values = (np.divide(*parts.sum(axis=2)) for parts in (chosen, held_out))
    a, b = np.concatenate([held_out, [np.hstack([0 * ends, ends]), ones]], axis=2)  # pseudo-rows
    count = b.sum(axis=1)
    middle = a.sum(axis=1) / count
    error = np.linalg.norm(a - middle[:, None] * b, axis=1) / count
    reach = np.hypot(ndtri(0.975) * error, OF_OPTIMISM * np.nan_to_num(values - labeled))
    low, high = np.maximum(middle - reach, 0.0), np.minimum(middle + reach, ends.max(axis=1))
    return [Estimate(*numbers) for numbers in np.stack([values, low, high], axis=1).tolist()]
