"""Metrics of predictions: accuracy, log loss, ECE, bias scores."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.numbers import reads_rows, takes_predictions
from batch_calibration.calibration import objective
from batch_calibration.calibration.base import favored, label_normalized
from batch_calibration.calibration.objective import known_weight, one_hot, present_mean
from batch_calibration.metrics import intervals
from batch_calibration.metrics.selective import aurc, coverage_at_5
from batch_calibration.typing import Key, Labels, ProbeRows, Scalar, Weight

BINS = 15  # of confidence, with equal widths


@reads_rows
def nll(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the mean negative log-likelihood in nats, -mean_i log P_iy, P = softmax(s).

    >>> round(nll(jnp.zeros((1, 2)), jnp.array([0])).item(), 4)
    0.6931
    """
    # An unknown label (-1) picks the first column and has weight 0 below.
    picked = jnp.maximum(jnp.asarray(labels), 0).astype(jnp.int32)[:, None]
    log_p = jnp.take_along_axis(label_normalized(scores), picked, axis=-1)[:, 0]  # [n], nats
    return present_mean(-log_p, known_weight(scores, labels, weight))


@reads_rows
def brier(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the Brier score, mean_i sum_j (P_ij - [j = y_i])^2, 0 to 2.

    >>> brier(jnp.zeros((1, 2)), jnp.array([0])).item()
    0.5
    """
    distance = jnp.exp(label_normalized(scores)) - one_hot(scores, labels)  # [n, k]
    return present_mean(jnp.sum(distance**2, axis=-1), known_weight(scores, labels, weight))


@reads_rows
def ece(
    scores: ProbeRows, labels: Labels, weight: Weight | None = None, *, bins: int = BINS
) -> Scalar:
    """Computes the expected calibration error, sum_b (w_b / w) |accuracy_b - confidence_b|.

    Confidence is max_j P_ij. The bins have equal width over [0, 1] (Guo et al. 2017).

    >>> round(ece(jnp.zeros((2, 2)), jnp.array([0, 0])).item(), 4)
    0.5
    """
    weights = known_weight(scores, labels, weight)
    confidence = jnp.max(jnp.exp(label_normalized(scores)), axis=-1)
    right = (favored(scores) == labels).astype(jnp.float32)
    # Bins are open below and closed above, as in the source; the first bin includes confidence 0.
    bin_of_row = jnp.clip(jnp.ceil(confidence * bins).astype(jnp.int32) - 1, 0, bins - 1)
    # Summed by bin before the absolute value: w_b (accuracy_b - confidence_b).
    gap = jnp.where(weights > 0, weights * (right - confidence), 0.0)
    per_bin = jnp.zeros(bins, jnp.float32).at[bin_of_row].add(gap)
    total = jnp.sum(weights)
    return jnp.sum(jnp.abs(per_bin)) / jnp.where(total > 0, total, 1.0)  # 0, not NaN, without rows


@takes_predictions
def rsd(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the relative standard deviation of recall: std_j(accuracy of label j) / accuracy.

    j runs over the labels that occur. The result is 0 if no row is right.

    >>> rsd(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item()
    1.0
    """
    recall, occurs = objective.recall_per_label(scores, labels, weight)
    weights = occurs.astype(jnp.float32)
    spread = jnp.sqrt(present_mean((recall - present_mean(recall, weights)) ** 2, weights))
    overall = objective.accuracy(scores, labels, weight)
    return spread / jnp.where(overall > 0, overall, 1.0)


@reads_rows
def bias_score(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the bias of mean predictions: 1/2 sum_j |class-balanced mean P_j - 1/k|, 0 to 1.

    The class-balanced mean is the mean, over the labels that occur, of P's mean over each label's
    rows.

    >>> bias_score(jnp.zeros((2, 2)), jnp.array([0, 1])).item()
    0.0
    """
    probs = jnp.exp(label_normalized(scores))
    # Mapped over the k columns of P; `occurs` is the same for all columns.
    per_label, occurs = jax.vmap(objective.mean_per_label, (1, None, None, None), (1, None))(
        probs, scores, labels, weight
    )
    balanced = present_mean(per_label, occurs.astype(jnp.float32)[:, None], axis=0)
    lean = 0.5 * jnp.sum(jnp.abs(balanced - 1.0 / scores.shape[-1]))
    return jnp.where(jnp.any(occurs), lean, 0.0)


@takes_predictions
def total_variation(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the distance of predicted and true label shares: 1/2 sum_j |predicted_j - true_j|.

    It lies between 0 and 1.

    >>> total_variation(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])).item()
    0.5
    """
    weights = known_weight(scores, labels, weight)[:, None]
    predicted = present_mean(one_hot(scores, favored(scores)), weights, 0)
    right = present_mean(one_hot(scores, labels), weights, 0)
    return 0.5 * jnp.sum(jnp.abs(predicted - right))


METRICS: dict[str, intervals.Metric] = {
    "accuracy": objective.accuracy,
    "balanced_accuracy": objective.balanced_accuracy,
    "macro_f1": objective.macro_f1,
    "nll": nll,
    "brier": brier,
    "ece": ece,
    "rsd": rsd,
    "bias_score": bias_score,
    "total_variation": total_variation,
    "aurc": aurc,
    "coverage_at_5": coverage_at_5,
}


@reads_rows
def measure(
    scores: ProbeRows, labels: Labels, weight: Weight | None = None
) -> dict[str, jax.Array]:
    """Computes all `METRICS`: name -> value; `jax.jit` and `jax.vmap` can transform it."""
    return {name: metric(scores, labels, weight) for name, metric in METRICS.items()}


def with_intervals(
    metrics: Mapping[str, float], right: np.ndarray, before: np.ndarray | None = None
) -> dict[str, float]:
    """Adds the 95 % interval of accuracy, and the gain with its 95 % interval, to metrics.

    Args:
        metrics: name -> value.
        right: [n], True for labeled rows that are right.
        before: [n], the same before a correction, if there was a correction.

    >>> right = np.arange(48) < 26
    >>> found = with_intervals({"accuracy": 26 / 48}, right, np.arange(48) >= 44)
    >>> [round(found[name], 3) for name in ("gain", "gain_low", "gain_high")]
    [0.458, 0.255, 0.625]
    """
    low, high = intervals.accuracy_interval(metrics["accuracy"], len(right))
    extended = {**metrics, "accuracy_low": float(low), "accuracy_high": float(high)}
    if before is not None:
        names = "gain", "gain_low", "gain_high"
        extended |= zip(names, intervals.gain_of(before, right), strict=True)
    return extended


# All metrics in one program, compiled once for each shape of the scores.
_measure = jax.jit(measure)


@reads_rows
def summary(
    scores: ProbeRows, labels: Labels, weight: Weight | None = None, *, key: int | Key = 0
) -> dict[str, float]:
    """Computes all metrics as floats, with 95 % intervals of accuracy and balanced accuracy.

    The interval of accuracy has a closed form (`accuracy_interval`), and the interval of balanced
    accuracy is a bootstrap (`balanced_accuracy_interval`). Both expect weights of 0 and 1.

    Args:
        scores: [n k], raw or corrected; nll, brier and ece apply a softmax over labels first.
        labels: [n]; -1 means unknown and does not count.
        weight: [n]; 0 means absent, 1 present.
        key: an int seed or a `jax.random` key, for the interval of balanced accuracy.

    >>> report = summary(jnp.array([[0.0, 1.0]]), jnp.array([1]))
    >>> report["accuracy"], round(report["accuracy_low"], 2)
    (1.0, 0.17)
    """
    arrays = _measure(scores, labels, weight)
    # One transfer from the device for all metrics.
    metrics = {name: float(number) for name, number in jax.device_get(arrays).items()}
    is_known = np.asarray(known_weight(scores, labels, weight)) > 0
    right = (np.asarray(favored(scores)) == np.asarray(labels))[is_known]
    low, high = intervals.balanced_accuracy_interval(scores, labels, weight, key=key)
    extended = with_intervals(metrics, right)
    return extended | {"balanced_accuracy_low": low, "balanced_accuracy_high": high}
