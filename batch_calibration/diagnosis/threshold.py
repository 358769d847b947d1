"""A cut-off on the log-odds of one label, chosen on labeled rows for precision, recall or cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp, ndtri

from batch_calibration.arrays.alignment import column_numbers, in_row_order, is_whole_number
from batch_calibration.arrays.frames import in_kind_of, names_of
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.diagnosis.diagnose import check_names
from batch_calibration.diagnosis.forms import paragraphs_html, to_frame
from batch_calibration.errors import InputError, shown
from batch_calibration.methods import validation
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 10
"""The number of parts for cross-fitting, if there are as many labeled rows."""
OF_OPTIMISM = 0.75
"""The weight of the difference between labeled and held-out rows in a half-width. Without it the
coverage is 86 to 95 %; with a weight of 1, up to 99 % (`test_intervals_at_a_chosen_cut_off`)."""
Ratios = Mapping[str, tuple[np.ndarray, np.ndarray]]  # measure -> numerators, denominators


class Goal(NamedTuple):
    """A measure to reach or to optimize.

    Attributes:
        measure: "precision", "recall", "cost" or "f1".
        level: the least precision or recall; NaN for cost and f1.
        costs: the costs of a false positive and of a false negative.
    """

    measure: str
    level: float = np.nan
    costs: tuple[float, float] = (1.0, 1.0)


def read_goal(goal: str, where: str = "goal") -> Goal:
    """Reads a goal: precision:LEVEL, recall:LEVEL, cost:FALSE_POSITIVE:FALSE_NEGATIVE or f1.

    Raises:
        InputError: another form, a level outside 0 to 1, or a cost that is not above 0.

    >>> read_goal("cost:5:1").costs
    (5.0, 1.0)
    """
    name, *texts = str(goal).split(":")
    try:
        numbers = [*map(float, texts)]
    except ValueError:
        numbers = [np.nan]
    is_usable = all(0 < number < np.inf for number in numbers)
    if name in ("precision", "recall") and len(numbers) == 1 and is_usable and numbers[0] <= 1:
        return Goal(name, numbers[0])
    if name == "cost" and len(numbers) == 2 and is_usable:
        return Goal(name, costs=(numbers[0], numbers[1]))
    if name == "f1" and not texts:
        return Goal(name)
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
        precision: the precision on held-out rows; NaN if no row is answered with the label.
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

    def _repr_html_(self) -> str:
        return paragraphs_html(self.sentences())

    def to_frame(self) -> pd.DataFrame:
        """Returns the curve, a row for each cut-off.

        Raises:
            InputError: pandas is not installed.
        """
        return to_frame(self.curve, "log_odds")

    def predict(
        self, scores: ArrayLike, *, columns: Sequence[Hashable] | None = None,
        from_probs: bool = False,
    ) -> object:  # fmt: skip
        """Returns the answers [n] by the cut-off: indices, or names for a frame (see `predict`).

        >>> scores = np.array([[0.0, 2.0], [0.0, 1.0], [0.0, -1.0]])
        >>> choose_threshold(scores, [1, 0, 0], 1, "precision:1").predict(scores).tolist()
        [1, 0, 0]
        """
        rows = validation.check_scores(scores, columns=columns, from_probs=from_probs)
        names, column = names_of(scores, columns), self.column
        if names is not None:  # a frame may have another order of columns
            column = [*map(str, names)].index(self.label)
        return in_kind_of(scores, answer(rows, column, self.log_odds), names)

    def sentences(self) -> list[str]:
        """Describes the cut-off and its measures on held-out rows."""
        goal, name = read_goal(self.goal), repr(self.label)
        texts = [
            f"Answer {name} if its probability is at least {self.probability} (log-odds "
            f"{self.log_odds:.3g}): the cut-off for {self.goal} on {self.rows:,} labeled rows."
        ]
        if not self.is_reached:
            texts.append(f"No cut-off reaches {self.goal} on these rows; this one is the best.")
        shown = f"precision {self.precision} %, recall {self.recall} %, F1 {self.f1} %"
        if goal.measure == "cost":
            shown += ", cost per row {:.3g} [{:.3g}, {:.3g}]".format(*self.reached)
        texts.append(
            f"On held-out rows, with 95 % intervals: {shown}; {100 * self.share.value:.1f} % of "
            f"the rows are answered {name}."
        )
        if self.reached.high < goal.level:
            texts.append(f"The interval of {goal.measure} lies below {100 * goal.level:g} %.")
        more = f"{self.more_rows_to_halve:,} more labeled rows would halve the intervals."
        return [*texts, more]


@usual_jax
def choose_threshold(
    scores: ArrayLike,
    labels: ArrayLike,
    positive: Hashable,
    goal: str,
    *,
    columns: Sequence[Hashable] | None = None,
    label_names: Sequence[str] = (),
    from_probs: bool | None = None,
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
        label_names: k names; by default a frame's columns, or "label 0" and so on.
        from_probs: True if scores are probabilities, see `calibrate`.

    Raises:
        InputError: an unknown label, another goal, labeled rows of one side only, or rows too
            certain for a cut-off in double precision.

    >>> scores = np.array(30 * [[0.0, 2.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = choose_threshold(scores, 30 * [1, 0, 0], 1, "precision:0.9")
    >>> found.probability, str(found.reached)
    (0.8, '100.0 [86.2, 100.0]')
    """
    target = read_goal(goal)
    rows = validation.check_scores(scores, from_probs=from_probs, columns=columns)
    columns = names_of(scores, columns)
    names = check_names(label_names, columns, rows.shape[-1])
    numbers = column_numbers(in_row_order(labels, "labels", scores), columns)
    gold = validation.check_labels(numbers, rows)
    column = _column_of(positive, columns or names)
    log_odds, is_positive = log_odds_of(rows, column)[gold >= 0], gold[gold >= 0] == column
    n, positives = len(log_odds), int(is_positive.sum())
    if positives in (0, n):
        expected = f"labeled rows of {names[column]!r} and of other labels"
        got = f"{positives} of {n} with {names[column]!r}"
        raise InputError.at("labels", expected, got, "label rows of both kinds")
    levels, measures = _measure_cuts(log_odds, is_positive, target.costs)
    place = _choose(measures, target)
    cuts = (levels[1:] + levels[:-1]) / 2
    probability = _short_decimal(*expit(levels[place : place + 2]).tolist())
    found = _cross_fit(log_odds, is_positive, target, cuts[place])
    curve = {"log_odds": cuts, "probability": expit(cuts), **measures}
    return Threshold(
        names[column], column, goal, float(logit(probability)), probability,
        not measures[target.measure][place] < target.level, found[target.measure],
        found["precision"], found["recall"], found["f1"], found["share"], n, 3 * n, curve,
    )  # fmt: skip


def log_odds_of(rows: np.ndarray, column: int) -> np.ndarray:
    """Computes log p - log(1 - p) of one label, with p the softmax of scores [n, k] in nats.

    >>> log_odds_of(np.log([[0.2, 0.3, 0.5]]), 2).round(6).tolist()
    [0.0]
    """
    exact = np.asarray(rows, np.float64)
    return np.asarray(exact[:, column] - logsumexp(np.delete(exact, column, axis=1), axis=1))


def answer(rows: np.ndarray, column: int, cut: float) -> np.ndarray:
    """Answers rows [n, k] with a label if its log-odds are at least `cut`, else the best other.

    >>> answer(np.array([[0.0, -3.0, 1.0], [0.0, -2.0, 1.0]]), 2, 0.95).tolist()
    [2, 0]
    """
    others = np.array(rows, np.float64)
    others[:, column] = -np.inf
    return np.where(log_odds_of(rows, column) >= cut, column, others.argmax(axis=1))


def _column_of(positive: Hashable, names: Sequence[Hashable]) -> int:
    if positive in names:
        return [*names].index(positive)
    if is_whole_number(positive) and positive in range(len(names)):
        return int(str(positive))
    raise InputError.unknown("label", positive, map(str, names), key="positive")


def _ratios(
    hits: np.ndarray, answered: np.ndarray, positive: np.ndarray | float, costs: tuple[float, float]
) -> Ratios:
    """Returns each measure's numerators and denominators, of rows, or of shares at each cut-off."""
    ones = np.ones(len(hits))
    wrong = costs[0] * (answered - hits) + costs[1] * (positive - hits)
    return {
        "share": (answered, ones), "precision": (hits, answered), "recall": (hits, positive * ones),
        "f1": (hits, (answered + positive) / 2), "cost": (wrong, ones),
    }  # fmt: skip


def _measure_cuts(
    log_odds: np.ndarray, is_positive: np.ndarray, costs: tuple[float, float]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Measures the cut-offs between the d distinct log-odds, and around them.

    Returns:
        The distinct log-odds from high to low, between infinities, [d + 2]; each measure, [d + 1].
    """
    levels, place = np.unique(-log_odds, return_inverse=True)
    counts = [np.bincount(place), np.bincount(place, is_positive)]
    answered, hits = (np.append(0, np.cumsum(count)) / len(place) for count in counts)
    ratios = _ratios(hits, answered, is_positive.mean(), costs)
    with np.errstate(invalid="ignore"):  # the precision of no answer is NaN
        measures = {name: a / b for name, (a, b) in ratios.items()}
    return np.concatenate([[np.inf], -levels, [-np.inf]]), measures


def _choose(measures: Mapping[str, np.ndarray], target: Goal) -> int:
    """Returns the index of the cut-off that reaches the goal, or else of the best."""
    values = np.nan_to_num(measures[target.measure], nan=-1.0)
    if target.measure in ("cost", "f1"):
        return int(values.argmin() if target.measure == "cost" else values.argmax())
    reached = np.flatnonzero(values >= min(target.level, values.max()))
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
) -> dict[str, Estimate]:
    """Estimates each measure at a chosen cut-off on held-out rows."""

    def outcomes(at: float) -> Ratios:
        is_answered = log_odds >= at
        hits = (is_answered & is_positive).astype(float)
        return _ratios(hits, is_answered.astype(float), is_positive, target.costs)

    n = len(log_odds)
    fold = np.empty(n, int)
    order = np.lexsort((np.random.default_rng(0).random(n), is_positive))  # stratified
    fold[order] = np.arange(n) % FOLDS
    chosen = outcomes(cut)
    held_out = {name: np.zeros((2, n)) for name in chosen}
    for number in range(min(FOLDS, n)):
        others, rows = fold != number, fold == number
        levels, measures = _measure_cuts(log_odds[others], is_positive[others], target.costs)
        place = _choose(measures, target)
        for name, (a, b) in outcomes(levels[place : place + 2].mean()).items():
            # Folds with more answers would count more, and these have a lower precision.
            weight = chosen[name][1].sum() / max(b.sum(), 1.0)
            held_out[name][:, rows] = weight * a[rows], weight * b[rows]
    found = {}
    for name, (a, b) in chosen.items():
        at_ends = np.array([0.0, 0.0, *(target.costs if name == "cost" else (1.0, 1.0))])
        found[name] = _estimate(held_out[name], a.sum() / max(b.sum(), 1.0), at_ends)
    return found


def _estimate(rows: np.ndarray, labeled: float, pseudo_rows: np.ndarray) -> Estimate:
    """Estimates sum a / sum b of held-out rows [2, n]; `labeled` is the ratio on labeled rows."""
    a, b = rows
    held_out = a.sum() / b.sum() if b.any() else np.nan
    a, b = np.append(a, pseudo_rows), np.append(b, np.ones(len(pseudo_rows)))
    middle = a.sum() / b.sum()
    error = np.linalg.norm(a - middle * b) / b.sum()
    reach = np.hypot(ndtri(0.975) * error, OF_OPTIMISM * np.nan_to_num(held_out - labeled))
    low, high = max(middle - reach, 0.0), min(middle + reach, pseudo_rows.max())
    return Estimate(float(held_out), float(low), float(high))
