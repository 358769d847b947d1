"""BCL: batch calibration whose strength is learned from labeled rows."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base
from batch_calibration.calibration.objective import accuracy, known_weight, macro_f1, one_hot
from batch_calibration.calibration.shift import (
    BiasEstimator,
    Shift,
    apply,
    log_target,
    mean_log_prob,
)
from batch_calibration.errors import refuse_unknown
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
) -> base.Calibrator:
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
    refuse_unknown("metric", metric, STRENGTH_METRICS)
    refuse_unknown("bias_from", bias_from, ("unlabeled", "labeled"))

    def learn(probe: base.ProbeScores) -> Shift:
        labels, weights = base.known_labels("bcl", probe.labels, base.WITH_BATCH), probe.weights
        # Where no row is labeled -1, rows of known label give the bias too.
        unlabeled = (labels < 0) & (weights > 0) & (bias_from == "unlabeled")
        gives_bias = jnp.where(jnp.any(unlabeled), unlabeled, labels >= 0)
        bias = base.weighted_mean(probe.log_probs, jnp.where(gives_bias, weights, 0.0))
        bias = bias - log_target(target_prior)
        curve = strength_curve(bias, probe.log_probs, labels, probe.weight, metric=metric)
        return Shift(bias, best_strength(curve), curve)

    return base.Calibrator.of(learn, apply)


def balanced_weight(log_probs: ProbeRows, labels: Labels, weight: Weight | None = None) -> Weight:
    """A weight for each row [m], by which all rows of a label weigh 1 together.

    Zero where the label is unknown (-1).
    """
    known_weights = known_weight(log_probs, labels, weight)
    # A label without rows has the sum 0, in place of which 1 divides its zeros.
    of_label = known_weights[:, None] * one_hot(log_probs, labels)
    total = jnp.sum(of_label, axis=0)
    shares: Weight = jnp.sum(of_label / jnp.where(total > 0, total, 1.0), axis=1)
    return shares


def balanced_shift(
    *,
    estimate: BiasEstimator = mean_log_prob,
    strength: float = 1.0,
    target_prior: Sequence[float] | None = None,
) -> base.Calibrator:
    """Subtracts the class-balanced mean of labeled rows: s - gamma b, b = mean_l mean_{y_i=l} s_i.

    RBCorr (Bhatt and Ivanova 2026, arXiv:2602.12445) takes the plain mean of a labeled set drawn
    with as many rows of each label (`src/rbcorr_impl.py` of its code); on that set this is the
    same, and on any other it weighs the labels as if they were so drawn. Unlike BC's, the bias
    does not move with the shares of the labels among the rows it is learned from.

    LOOC (Reif and Schwartz 2024, arXiv:2405.02743) learns from the demonstrations, each taken out
    of the context and asked as the input. Its code (schwartz-lab-NLP/label-bias,
    `compute_task_calibration_parameters`) divides by the mean over labels of the mean
    *probability*, normalized over the labels: `estimate=log_mean_label_prob`. It scores a label by
    the mean log-probability of its tokens and an end token; here, as everywhere, it is their sum
    without that token.

    Args:
        estimate: probe rows [m k] and their weights [m], the balanced ones -> bias [k] in nats.
        strength: gamma; 0 leaves the scores as they are.
        target_prior: the share of each of the k labels one expects; the bias becomes b - log pi.

    Raises:
        InputError: no labels given to `fit`.

    >>> fit, apply_ = balanced_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -3.0], [-2.0, -2.0]])
    >>> apply_(fit(rows, jnp.array([0, 0, 1])), rows).tolist()
    [[0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]
    """

    def learn(probe: base.ProbeScores) -> Shift:
        labels = base.known_labels("The class-balanced mean", probe.labels)
        weight = balanced_weight(probe.log_probs, labels, probe.weight)
        bias = estimate(probe.log_probs, weight)
        return Shift(bias - log_target(target_prior), jnp.float32(strength))

    return base.Calibrator.of(learn, apply)
