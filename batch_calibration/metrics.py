"""How right and how even-handed predictions are: accuracy, log loss, ECE, bias scores."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import of_rows, read_rows
from batch_calibration.calibration.base import label_normalized, predict
from batch_calibration.calibration.objective import accuracy, known_weight, macro_f1
from batch_calibration.typing import Key, Labels, ProbeRows, Scalar, Weight

__all__ = [
    "accuracy",
    "accuracy_interval",
    "bias_score",
    "bootstrap_interval",
    "brier",
    "ece",
    "macro_f1",
    "measure",
    "nll",
    "predict",
    "rsd",
    "summary",
    "total_variation",
]

Metric = Callable[..., jax.Array]


def _mean(values: jax.Array, weights: jax.Array, axis: int | None = None) -> jax.Array:
    """The weighted mean, 0 where nothing weighs; absent values are masked, as they may be NaN."""
    total = jnp.sum(weights, axis=axis)
    kept = jnp.where(weights > 0, weights * values, 0.0)
    return jnp.sum(kept, axis=axis) / jnp.where(total > 0, total, 1.0)


def _truth(scores: ProbeRows, labels: Labels) -> jax.Array:
    """One-hot labels [m k]; a row of zeros where the label is unknown."""
    return jax.nn.one_hot(labels, scores.shape[-1], dtype=jnp.float32)


def _per_label(
    values: jax.Array, scores: ProbeRows, labels: Labels, weight: Weight | None
) -> tuple[jax.Array, jax.Array]:
    """The mean of values[m] over the rows of each label, [k], and whether the label occurs."""
    weights = known_weight(scores, labels, weight)[:, None] * _truth(scores, labels)
    return _mean(values[:, None], weights, axis=0), jnp.sum(weights, axis=0) > 0


@of_rows
def nll(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The mean negative log-likelihood in nats, -mean_i log P_iy, P the softmax over labels.

    >>> round(nll(jnp.zeros((1, 2)), jnp.array([0])).item(), 4)
    0.6931
    """
    picked = jnp.maximum(jnp.asarray(labels), 0).astype(jnp.int32)[:, None]
    log_p = jnp.take_along_axis(label_normalized(scores), picked, axis=-1)[:, 0]
    return _mean(-log_p, known_weight(scores, labels, weight))


@of_rows
def brier(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The mean squared distance of P from the truth, mean_i sum_j (P_ij - [j = y_i])^2, 0 to 2.

    >>> brier(jnp.zeros((1, 2)), jnp.array([0])).item()
    0.5
    """
    distance = jnp.exp(label_normalized(scores)) - _truth(scores, labels)
    return _mean(jnp.sum(distance**2, axis=-1), known_weight(scores, labels, weight))


@of_rows
def ece(
    scores: ProbeRows, labels: Labels, weight: Weight | None = None, *, bins: int = 15
) -> Scalar:
    """The expected calibration error, sum_b (w_b / w) |accuracy_b - confidence_b|.

    Confidence is max_j P_ij; the bins are of equal width over [0, 1] (Guo et al. 2017).

    >>> round(ece(jnp.zeros((2, 2)), jnp.array([0, 0])).item(), 4)
    0.5
    """
    weights = known_weight(scores, labels, weight)
    confidence = jnp.max(jnp.exp(label_normalized(scores)), axis=-1)
    right = (predict(scores) == labels).astype(jnp.float32)
    place = jnp.clip(jnp.ceil(confidence * bins).astype(jnp.int32) - 1, 0, bins - 1)
    gap = jnp.where(weights > 0, weights * (right - confidence), 0.0)
    per_bin = jnp.zeros(bins, jnp.float32).at[place].add(gap)
    total = jnp.sum(weights)
    return jnp.sum(jnp.abs(per_bin)) / jnp.where(total > 0, total, 1.0)


@of_rows
def rsd(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The relative standard deviation of recall: std_j(accuracy of label j) / accuracy.

    Over labels that occur; 0 where nothing is right, as then no label is favored.

    >>> rsd(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item()
    1.0
    """
    right = (predict(scores) == labels).astype(jnp.float32)
    recall, occurs = _per_label(right, scores, labels, weight)
    weights = occurs.astype(jnp.float32)
    spread = jnp.sqrt(_mean((recall - _mean(recall, weights)) ** 2, weights))
    overall = accuracy(scores, labels, weight)
    return spread / jnp.where(overall > 0, overall, 1.0)


@of_rows
def bias_score(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """How far mean predictions lean: 1/2 sum_j |class-balanced mean P_j - 1/k|, 0 to 1.

    Class-balanced: the mean over labels that occur of the mean P over the rows of that label.

    >>> bias_score(jnp.zeros((2, 2)), jnp.array([0, 1])).item()
    0.0
    """
    probs = jnp.exp(label_normalized(scores))
    per_label, occurs = jax.vmap(_per_label, (1, None, None, None), (1, None))(
        probs, scores, labels, weight
    )
    balanced = _mean(per_label, occurs.astype(jnp.float32)[:, None], axis=0)
    lean = 0.5 * jnp.sum(jnp.abs(balanced - 1.0 / scores.shape[-1]))
    return jnp.where(jnp.any(occurs), lean, 0.0)


@of_rows
def total_variation(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The distance of predicted from true label shares: 1/2 sum_j |predicted_j - true_j|, 0 to 1.

    >>> total_variation(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item()
    0.5
    """
    weights = known_weight(scores, labels, weight)[:, None]
    said = _truth(scores, predict(scores))
    return 0.5 * jnp.sum(
        jnp.abs(_mean(said, weights, 0) - _mean(_truth(scores, labels), weights, 0))
    )


def bootstrap_interval(
    metric: Metric,
    scores: ArrayLike,
    labels: ArrayLike,
    key: Key,
    weight: ArrayLike | None = None,
    *,
    draws: int = 1000,
    level: float = 0.95,
) -> tuple[Scalar, Scalar]:
    """The percentile bootstrap interval of a metric: rows drawn with replacement, `draws` times.

    Only labeled rows of positive weight are drawn, as many as there are.

    Returns:
        The lower and the upper end.

    >>> low, high = bootstrap_interval(
    ...     accuracy, jnp.zeros((4, 2)), jnp.array([0, 0, 1, 1]), jax.random.key(0), draws=50
    ... )
    >>> bool(low <= 0.5 <= high)
    True
    """
    rows = read_rows(scores, labels, weight)
    low, high = _bootstrap(metric, key, *rows, draws=draws, level=level)
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


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "nll": nll,
    "brier": brier,
    "ece": ece,
    "rsd": rsd,
    "bias_score": bias_score,
    "total_variation": total_variation,
}


@of_rows
def measure(
    scores: ProbeRows, labels: Labels, weight: Weight | None = None
) -> dict[str, jax.Array]:
    """Every metric of `METRICS` by its name; goes under `jax.jit` and `jax.vmap`."""
    return {name: metric(scores, labels, weight) for name, metric in METRICS.items()}


_measure = jax.jit(measure)


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


@of_rows
def summary(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> dict[str, float]:
    """Every metric as a float, with the 95 % bootstrap interval of accuracy.

    The interval is exact (see `accuracy_interval`), for rows that are there or not.

    Args:
        scores: [n k], raw or corrected; a softmax over labels precedes nll, brier and ece.
        labels: [n]; -1 means unknown and does not count.
        weight: [n]; 0 means absent, 1 present.

    >>> report = summary(jnp.array([[0.0, 1.0]]), jnp.array([1]))
    >>> report["accuracy"], report["accuracy_low"]
    (1.0, 1.0)
    """
    values = _measure(scores, labels, weight)
    found = {name: float(value) for name, value in jax.device_get(values).items()}
    rows = int(np.sum(np.asarray(known_weight(scores, labels, weight)) > 0))
    low, high = accuracy_interval(found["accuracy"], rows)
    return {**found, "accuracy_low": float(low), "accuracy_high": float(high)}
