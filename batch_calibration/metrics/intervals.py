"""Confidence intervals of a metric and of a gain, over rows, draws and tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import numbers
from batch_calibration.calibration.objective import known_weight, recall_per_label
from batch_calibration.typing import Key, Labels, ProbeRows, Scalar, Weight

Metric = Callable[..., jax.Array]

OF_GAIN = (-1.0, 1.0)
OF_ACCURACY = (0.0, 0.0, 1.0, 1.0)
"""Rows that `over_rows` adds."""


class Estimate(NamedTuple):
    """A share of rows, or a difference of two, and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """In %: value [low, high]."""
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    @property
    def points(self) -> str:
        """As `str`, with signs: of a difference."""
        return f"{100 * self.value:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    @property
    def beyond_noise(self) -> int:
        """1 where the whole interval is above 0, -1 where it is below, 0 where 0 is inside."""
        return int(self.low > 0) - int(self.high < 0)


def deviation(samples: np.ndarray) -> np.ndarray:
    """The sample's standard deviation over the first axis, by n - 1; 0 of one value.

    >>> deviation(np.array([40.0, 50.0, 60.0])).item()
    10.0
    """
    return samples.std(axis=0, ddof=1) if len(samples) > 1 else np.zeros(samples.shape[1:])


@numbers.usual_jax
def bootstrap_interval(
    metric: Metric,
    scores: ArrayLike,
    labels: ArrayLike,
    key: int | Key = 0,
    weight: ArrayLike | None = None,
    *,
    draws: int = 1000,
    level: float = 0.95,
) -> tuple[Scalar, Scalar]:
    """The percentile bootstrap interval of a metric: rows drawn with replacement, `draws` times.

    Only labeled rows of positive weight are drawn, as many as there are.

    Args:
        metric: one of `METRICS`, or another function of scores, labels and weight.
        scores: [n k], or predicted labels [n] where the metric takes these.
        labels: [n]; -1 means unknown.
        key: an int seed or a `jax.random` key.
        weight: [n]; 0 means absent.
        draws: how many times rows are drawn.
        level: what share of the draws lies between both ends.

    Returns:
        The lower and the upper end.

    >>> from batch_calibration.metrics import accuracy
    >>> low, high = bootstrap_interval(accuracy, [0, 0, 0, 0], [0, 0, 1, 1], 0, draws=50)
    >>> low <= 0.5 <= high
    True
    """
    # A metric that takes predicted labels is marked; the others refuse these in `read_rows`.
    are_answers = hasattr(metric, "takes_predictions")
    rows = numbers.read_labeled(scores, labels, weight, are_answers=are_answers)
    low, high = _bootstrap(metric, numbers.check_key(key), *rows, draws=draws, level=level)
    return numbers.to_python((low, high), scores, labels, weight)


@partial(jax.jit, static_argnames=("metric", "draws", "level"))
def _bootstrap(
    metric: Metric,
    key: Key,
    scores: ProbeRows,
    labels: Labels,
    weight: Weight | None,
    *,
    draws: int,
    level: float,
) -> tuple[Scalar, Scalar]:
    rows = labels.shape[0]
    weights = known_weight(scores, labels, weight)  # [n], 0 for unknown labels
    present = weights > 0
    # Present rows first, so that a draw below their number is one of them.
    order = jnp.argsort(~present, stable=True).astype(jnp.int32)
    count = jnp.sum(present).astype(jnp.int32)  # rows present

    def draw(draw_key: jax.Array) -> jax.Array:
        picks = jax.random.randint(draw_key, (rows,), 0, jnp.maximum(count, 1), jnp.int32)
        drawn = (jnp.arange(rows, dtype=jnp.int32) < count).astype(jnp.float32)
        times = jnp.zeros(rows, jnp.float32).at[order[picks]].add(drawn)  # [n]
        return metric(scores, labels, times * weights)

    drawn_metrics = jax.lax.map(draw, jax.random.split(key, draws), batch_size=32)  # [draws]
    tail = (1.0 - level) / 2.0  # on each side
    return jnp.quantile(drawn_metrics, tail), jnp.quantile(drawn_metrics, 1.0 - tail)


@numbers.usual_jax
def accuracy_interval(
    share: float | np.ndarray, rows: int | np.ndarray, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """The interval of an accuracy of Agresti and Coull (1998, The American Statistician 52(2)).

    With two rows right and two wrong added, m = (n share + 2) / (n + 4), it is
    m -+ z sqrt(m (1 - m) / (n + 4)), z the normal quantile: that of `over_rows` for one draw. The
    percentile bootstrap holds an accuracy of 0.9 of 10 rows in 65 % of the cases, this in 93 % or
    more from 10 rows on.

    Args:
        share: the accuracy, of any shape.
        rows: n, how many labeled rows it is of.
        level: how often the interval shall hold the accuracy.

    >>> [round(float(end), 3) for end in accuracy_interval(0.5, 100)]
    [0.404, 0.596]
    """
    from scipy.special import ndtri

    rows_added = len(OF_ACCURACY)
    n = np.asarray(rows, np.float64) + rows_added
    middle = (np.asarray(share, np.float64) * (n - rows_added) + sum(OF_ACCURACY)) / n
    reach = ndtri(0.5 + level / 2) * np.sqrt(middle * (1 - middle) / n)
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


@numbers.usual_jax
def gain_interval(
    won: float | np.ndarray,
    lost: float | np.ndarray,
    rows: int | np.ndarray,
    *,
    level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """The interval of the difference of two accuracies on the same rows, in closed form.

    With one row more of each kind, p = (won + 1) / (n + 2) and q = (lost + 1) / (n + 2):
    p - q -+ z sqrt((p + q - (p - q)^2) / (n + 2)), z the normal quantile (Bonett and Price 2012,
    Journal of Educational and Behavioral Statistics 37(4)). The percentile bootstrap of the rows,
    which it tends to with ever more rows, takes 4 rows won and none lost for a gain, which a fair
    coin brings in 1 of 8 trials; here it takes 6, as in McNemar's exact test.

    Args:
        won: rows that turn from wrong to right, of any shape.
        lost: rows that turn from right to wrong.
        rows: n, how many labeled rows there are.
        level: how often the interval shall hold the difference.

    Returns:
        The lower and the upper end, in shares of the rows.

    >>> [round(float(end), 3) for end in gain_interval(26, 4, 48)]
    [0.255, 0.625]
    """
    from scipy.special import ndtri

    n = np.asarray(rows, np.float64) + 2  # a row more of each kind
    p, q = (np.asarray(won, np.float64) + 1) / n, (np.asarray(lost, np.float64) + 1) / n
    reach = ndtri(0.5 + level / 2) * np.sqrt((p + q - (p - q) ** 2) / n)
    return np.maximum(p - q - reach, -1.0), np.minimum(p - q + reach, 1.0)


def accuracy_of(hits: np.ndarray) -> Estimate:
    """The share of rows that are right, with its interval, two rows right and two wrong added.

    >>> print(accuracy_of(np.array([True, False, True, True])))
    75.0 [29.0, 96.0]
    """
    share = float(hits.mean())
    low, high = accuracy_interval(share, len(hits))
    return Estimate(share, float(low), float(high))


def gain_of(before: np.ndarray, after: np.ndarray) -> Estimate:
    """The difference of two accuracies on the same rows, with its interval.

    >>> print(gain_of(np.zeros(60, bool), np.arange(60) < 30))
    50.0 [35.2, 61.6]
    """
    n = len(before)
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    low, high = gain_interval(won, lost, n)
    return Estimate((won - lost) / n, float(low), float(high))


def over_rows(outcomes: ArrayLike, added: Sequence[float], *, level: float = 0.95) -> Estimate:
    """The mean of s draws of demonstrations, all tested on the same n rows, and its interval.

    Two kinds of chance are added in squares. Which demonstrations were drawn: t sd / sqrt(s) of the
    draws' means, Student's t of s - 1 degrees of freedom, nothing of one draw. Which rows are
    tested: z sd / sqrt(n) of the rows' means over the draws, less what is left of both (the
    residual of rows x draws), which the first holds already. t over the draws alone takes the rows
    for all there are: where an outcome is alike in all draws, it misses the mean far too often
    (`test_intervals_hold_the_gain` measures both). Five draws do not make 280 rows of 56.

    Args:
        outcomes: [s n], each row's outcome in each draw.
        added: rows that are added, so that a few rows that happen to agree are no certainty:
            `OF_GAIN` makes it `gain_interval`, `OF_ACCURACY` the interval of Agresti and Coull
            (1998, The American Statistician 52(2)), both of one draw.
        level: how often the interval shall hold the mean.

    >>> over_rows([[1, 0, 0, -1]], OF_GAIN).points
    '+0.0 [-65.3, +65.3]'
    """
    from scipy.special import ndtri, stdtrit

    # [s, n]
    draws = np.asarray(outcomes, np.float64)
    tail = 0.5 + level / 2
    s, n = draws.shape
    draw_means = draws.mean(axis=1, keepdims=True)
    rows = np.concatenate([draws.mean(axis=0), added])  # [n + rows added]
    variance = float(rows.var() / len(rows))
    drawn = 0.0
    # The residual of rows x draws is in the draws' means already.
    if s > 1:
        residual = draws - draw_means - draws.mean(axis=0) + draws.mean()
        variance -= float((residual**2).sum() / ((s - 1) * max(n - 1, 1)) / (s * n))
        drawn = float(stdtrit(s - 1, tail) * deviation(draw_means[:, 0]) / np.sqrt(s))
    reach = float(np.hypot(ndtri(tail) * np.sqrt(max(variance, 0.0)), drawn))
    middle = float(rows.mean())
    # Rows that are added lie at the ends of the metric's range.
    low, high = max(middle - reach, min(added)), min(middle + reach, max(added))
    return Estimate(float(draws.mean()), low, high)


def over_tasks(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over tasks, whose errors have nothing to do with one another.

    How far the tasks' intervals reach is added in squares and divided by their number. It is the
    interval of the mean over these tasks; of other tasks it says nothing. It is cautious: a task's
    interval of five draws reaches 2.8 standard errors, and the mean of many needs only 2, so
    that of 13 tasks it holds the mean in 98 to 99 % of the cases (`test_intervals_over_tasks`).

    >>> over_tasks([Estimate(0.5, 0.25, 0.75), Estimate(0.5, 0.5, 0.5)])
    Estimate(value=0.5, low=0.375, high=0.625)
    """
    means, low, high = np.array(estimates, np.float64).T  # each [tasks]
    mean = float(means.mean())
    down, up = (float(np.linalg.norm(reach) / len(reach)) for reach in (means - low, high - means))
    return Estimate(mean, mean - down, mean + up)


@numbers.takes_predictions
def balanced_accuracy_interval(
    scores: ProbeRows,
    labels: Labels,
    weight: Weight | None = None,
    *,
    key: int | Key = 0,
    draws: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float]:
    """The percentile interval of balanced accuracy by a bootstrap stratified by label.

    Each label's rows are drawn with replacement among themselves, so that no label vanishes from a
    draw: of its n rows Binomial(n, recall) are right, which needs no rows to be drawn.

    Args:
        scores: [n k], or predicted labels [n].
        labels: [n]; -1 means unknown.
        weight: [n]; 0 means absent, 1 present.
        key: an int seed or a `jax.random` key.
        draws: how many draws.
        level: what share of the draws lies between both ends.

    >>> balanced_accuracy_interval([0, 0, 1, 0], [0, 0, 1, 1])
    (0.5, 1.0)
    """
    recall, occurs = (np.asarray(array) for array in recall_per_label(scores, labels, weight))
    present = np.asarray(known_weight(scores, labels, weight)) > 0
    rows_by_label = np.bincount(np.asarray(labels)[present], minlength=len(recall))
    counts = rows_by_label[: len(recall)][occurs]
    if not counts.size:  # no labeled row
        return 0.0, 0.0
    random = np.random.default_rng(np.asarray(jax.random.key_data(numbers.check_key(key))))
    share = np.clip(recall[occurs].astype(np.float64), 0.0, 1.0)
    return mean_recall_interval(share, counts, random, draws=draws, level=level)


def mean_recall_interval(
    recall: np.ndarray,
    counts: np.ndarray,
    random: np.random.Generator,
    *,
    draws: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float]:
    """The interval of `balanced_accuracy_interval` from the recall [k] and rows [k] of each label.

    >>> mean_recall_interval(np.array([1.0, 0.5]), np.array([2, 2]), np.random.default_rng(0))
    (0.5, 1.0)
    """
    right = random.binomial(counts, recall, (draws, len(counts)))  # [draws, k]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile((right / counts).mean(axis=1), (tail, 1.0 - tail))
    return float(low), float(high)


MIN_PROMPTS = 3  # of fewer prompts the change of their standard deviation is not known


def gain_over_prompts(outcomes: np.ndarray, *, level: float = 0.95) -> Estimate:
    """The mean gain over prompts, and its interval over prompts, seeds and rows.

    Seeds are averaged first: ten templates with five seeds each are ten prompts. The seeds are the
    same draws for all prompts, so what they may add by chance is no smaller for more prompts:
    t sd / sqrt(s) of their means is added in squares to the interval of `over_rows`.

    Args:
        outcomes: [p s n], right after the correction less right before, prompts x seeds x rows.
        level: how often the interval shall hold the mean.

    >>> gain_over_prompts(np.array([[[1.0, 0, 0, 0]], [[0, 0, 1, 1]]])).value
    0.375
    """
    from scipy.special import stdtrit

    estimate = over_rows(outcomes.mean(axis=1), OF_GAIN, level=level)
    s = outcomes.shape[1]  # seeds
    if s == 1:
        return estimate
    seed_means = outcomes.mean(axis=(0, 2))
    drawn = float(stdtrit(s - 1, 0.5 + level / 2) * deviation(seed_means) / np.sqrt(s))
    low = estimate.value - float(np.hypot(estimate.value - estimate.low, drawn))
    high = estimate.value + float(np.hypot(estimate.high - estimate.value, drawn))
    return Estimate(estimate.value, max(low, -1.0), min(high, 1.0))


def change_of_deviation(
    before: np.ndarray, after: np.ndarray, *, level: float = 0.95
) -> Estimate | None:
    """The standard deviation over prompts of the accuracy after a correction, less that before.

    Below 0 the correction makes the choice of the prompt matter less. A prompt's accuracy is its
    mean over seeds. The interval is of the jackknife, which leaves out a prompt, a seed, or a row
    at a time: t sd of the first two, with Student's t of p - 1 and s - 1 degrees of freedom, and
    z sd of the last, added in squares. Prompts, seeds and rows are the same on both sides, so
    what both lack cancels.

    Args:
        before: [p s n], prompts x seeds x rows, 1.0 where a row is right.
        after: the same after the correction.
        level: how often the interval shall hold the change.

    Returns:
        None of fewer than `MIN_PROMPTS` prompts or two rows.

    >>> before = np.array([[[1.0, 0, 0, 0]], [[1, 1, 0, 0]], [[1, 1, 1, 1]]])
    >>> round(change_of_deviation(before, np.ones((3, 1, 4))).value, 3)
    -0.382
    """
    from scipy.special import ndtri, stdtrit

    p, s, n = before.shape  # prompts, seeds, rows
    if p < MIN_PROMPTS or n < 2:
        return None
    tail = 0.5 + level / 2
    sides = before, after

    def change_without(axis: int) -> np.ndarray:
        """The change where one prompt, seed or row is left out, for each of them."""
        size = before.shape[axis]
        deviations = []
        for side in sides:
            if axis == 0:
                means = side.mean(axis=(1, 2))
                # [p - 1, p]: all prompts but one, for each.
                means_left = means[np.nonzero(~np.eye(p, dtype=bool))[1].reshape(p, p - 1)].T
            else:
                sums = side.mean(axis=3 - axis)  # [p, s] or [p, n]
                means_left = (sums.sum(axis=1, keepdims=True) - sums) / (size - 1)
            deviations.append(deviation(means_left))
        difference: np.ndarray = deviations[1] - deviations[0]
        return difference

    means_before, means_after = (side.mean(axis=(1, 2)) for side in sides)
    change = float(deviation(means_after) - deviation(means_before))
    squares = stdtrit(p - 1, tail) ** 2 * (p - 1) * change_without(0).var()
    squares += ndtri(tail) ** 2 * (n - 1) * change_without(2).var()
    if s > 1:
        squares += stdtrit(s - 1, tail) ** 2 * (s - 1) * change_without(1).var()
    reach = float(np.sqrt(squares))
    return Estimate(change, change - reach, change + reach)
