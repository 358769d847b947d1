"""BCL: batch calibration whose strength is learned from labeled rows."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import (
    WITH_BATCH,
    Calibrator,
    ProbeScores,
    known_labels,
    weighted_mean,
)
from batch_calibration.calibration.objective import accuracy, macro_f1
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Curve, Labels, ProbeRows, Scalar, Weight

# jnp.linspace(-5, 5, 101) holds neither 0 nor 1.
STRENGTHS = np.arange(-50, 51) / 10
"""The 101 strengths tried, -5 to 5 in tenths; 0 (ICL) and 1 (BC) are among them exactly."""

STRENGTH_METRICS = {"accuracy": accuracy, "macro_f1": macro_f1}

# Stable, so of 0.9 and 1.1 the smaller comes first.
_NEAREST_TO_ONE = np.argsort(np.abs(np.arange(-50, 51) - 10), kind="stable")


@partial(jax.jit, static_argnames="metric")
def strength_curve(
    bias: Bias,
    log_probs: ProbeRows,
    labels: Labels,
    weight: Weight | None = None,
    *,
    metric: str = "accuracy",
) -> Curve:
    """The metric of s - gamma b on labeled rows for each gamma in `STRENGTHS`: the paper's Fig. 5.

    Args:
        bias: b[k] in nats.
        log_probs: s[m k] in nats.
        labels: [m]; rows of label -1 do not count.
        weight: [m]; rows of weight 0 do not count.
        metric: "accuracy" or "macro_f1".

    Returns:
        [101], one value per strength.
    """
    judge = STRENGTH_METRICS[metric]

    # One strength at a time: all at once is 500 MB for 100 labels and their 12,800 rows.
    def at(strength: Scalar) -> Scalar:
        return judge(apply(Shift(bias, strength), log_probs), labels, weight)

    curve: Curve = jax.lax.map(at, jnp.asarray(STRENGTHS, jnp.float32))
    return curve


def best_strength(curve: Curve) -> Scalar:
    """The strength of the highest value; of equal values, the one nearest 1, then the smaller.

    >>> best_strength(jnp.zeros(101)).item()
    1.0
    """
    # argmax takes the first of equal values, here the one nearest 1.
    order = jnp.asarray(_NEAREST_TO_ONE, jnp.int32)
    return jnp.asarray(STRENGTHS, jnp.float32)[order[jnp.argmax(curve[order])]]


def learned_shift(
    *,
    metric: str = "accuracy",
    bias_from: str = "unlabeled",
    target_prior: Sequence[float] | None = None,
) -> Calibrator:
    """Subtracts gamma times the bias, gamma = argmax_g R(s - g b) on labeled rows (eq. 4).

    Rows labeled -1 give the bias b_j = mean_i s_ij, the others the strength; where no row is
    labeled -1, rows of known label give both. The state is a `Shift` that also holds the whole
    curve gamma -> metric.

    Args:
        metric: R, "accuracy" or "macro_f1".
        bias_from: "labeled" takes the bias from the labeled rows instead.
        target_prior: the share of each of the k labels one expects; the bias becomes b - log pi.

    Raises:
        InputError: an unknown metric or bias_from; no labels given to `fit`.

    >>> fit, apply_ = learned_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -3.0], [-2.0, -2.5]])
    >>> state = fit(rows, jnp.array([-1, -1, 0, 1]))
    >>> round(state.strength.item(), 1), state.curve.shape
    (1.0, (101,))
    """
    if metric not in STRENGTH_METRICS:
        raise InputError.unknown("metric", metric, STRENGTH_METRICS)
    if bias_from not in ("unlabeled", "labeled"):
        raise InputError.unknown("bias_from", bias_from, ("unlabeled", "labeled"))

    def learn(probe: ProbeScores) -> Shift:
        labels, weights = known_labels("bcl", probe.labels, WITH_BATCH), probe.weights
        # Where no row is labeled -1, rows of known label give the bias too.
        unlabeled = (labels < 0) & (weights > 0) & (bias_from == "unlabeled")
        gives_bias = jnp.where(jnp.any(unlabeled), unlabeled, labels >= 0)
        bias = weighted_mean(probe.log_probs, jnp.where(gives_bias, weights, 0.0))
        bias = bias - log_target(target_prior)
        curve = strength_curve(bias, probe.log_probs, labels, probe.weight, metric=metric)
        return Shift(bias, best_strength(curve), curve)

    return Calibrator.of(learn, apply)
