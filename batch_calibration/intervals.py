"""How sure a metric is: bootstrap intervals, by drawing rows or from the exact distribution."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import as_scores, check_key, of_answers, read_rows
from batch_calibration.calibration.objective import known_weight, recall_per_label
from batch_calibration.typing import Key, Labels, ProbeRows, Scalar, Weight

Metric = Callable[..., jax.Array]


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
    >>> bool(low <= 0.5 <= high)
    True
    """
    # A metric that takes predicted labels is marked; the others refuse these in `read_rows`.
    given = as_scores(scores, labels) if hasattr(metric, "of_answers") else scores
    rows = read_rows(given, labels, weight)
    low, high = _bootstrap(metric, check_key(key), *rows, draws=draws, level=level)
    return low, high


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
    weights = known_weight(scores, labels, weight)
    present = weights > 0
    # Present rows first, so that a draw below their number is one of them.
    order = jnp.argsort(~present, stable=True).astype(jnp.int32)
    count = jnp.sum(present).astype(jnp.int32)

    def draw(one: jax.Array) -> jax.Array:
        place = jax.random.randint(one, (rows,), 0, jnp.maximum(count, 1), jnp.int32)
        drawn = (jnp.arange(rows, dtype=jnp.int32) < count).astype(jnp.float32)
        times = jnp.zeros(rows, jnp.float32).at[order[place]].add(drawn)
        return metric(scores, labels, times * weights)

    values = jax.lax.map(draw, jax.random.split(key, draws), batch_size=32)
    tail = (1.0 - level) / 2.0
    return jnp.quantile(values, tail), jnp.quantile(values, 1.0 - tail)


def accuracy_interval(
    share: float | np.ndarray, rows: int | np.ndarray, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """The percentile bootstrap interval of an accuracy, without resampling.

    Of n rows drawn with replacement Binomial(n, share) are right, so that the quantiles of a
    bootstrap with ever more draws are those of that distribution, divided by n.

    Args:
        share: the accuracy, of any shape.
        rows: n, how many labeled rows it is of.
        level: what share of the draws lies between both ends.

    >>> [round(float(end), 3) for end in accuracy_interval(0.5, 100)]
    [0.4, 0.6]
    """
    # scipy.stats.binom.ppf is the same number, and takes 0.6 s to import.
    from scipy.special import bdtr, bdtrik

    n = np.maximum(np.asarray(rows, np.int64), 1)
    # A float32 share is a whole number of rows only up to rounding.
    p = np.round(np.asarray(share, np.float64) * n) / n
    inside = np.clip(p, 0.5 / n, 1 - 0.5 / n)

    def quantile(q: float) -> np.ndarray:
        count = np.ceil(bdtrik(q, n, inside))
        less = np.maximum(count - 1, 0)
        least = np.where(bdtr(less, n, inside) >= q, less, count)
        return np.where(p == inside, least / n, p)

    tail = (1.0 - level) / 2.0
    return quantile(tail), quantile(1.0 - tail)


@of_answers
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
    recall, occurs = (np.asarray(x) for x in recall_per_label(scores, labels, weight))
    present = np.asarray(known_weight(scores, labels, weight)) > 0
    each = np.bincount(np.asarray(labels)[present], minlength=len(recall))
    counts = each[: len(recall)][occurs]
    if not counts.size:
        return 0.0, 0.0
    random = np.random.default_rng(np.asarray(jax.random.key_data(check_key(key))))
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
    right = random.binomial(counts, recall, (draws, len(counts)))
    tail = (1.0 - level) / 2.0
    low, high = np.quantile((right / counts).mean(axis=1), (tail, 1.0 - tail))
    return float(low), float(high)
