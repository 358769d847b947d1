"""BCL: batch calibration with a strength that is learned from labeled rows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base, shift
from batch_calibration.calibration.objective import accuracy, known_weight, macro_f1, one_hot
from batch_calibration.errors import refuse_unknown
from batch_calibration.typing import Bias, Curve, Labels, Prior, ProbeRows, Scalar, Weight

# Rounding in jnp.linspace(-5, 5, 101) would miss 0 and 1.
STRENGTHS = np.arange(-50, 51) / 10
"""The 101 candidate strengths, -5 to 5 in tenths, with exactly 0 (ICL) and 1 (BC)."""

STRENGTH_METRICS = {"accuracy": accuracy, "macro_f1": macro_f1}

# The stable sort puts 0.9 before 1.1, which is as near to 1.
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
    """Computes the metric of s - gamma b on labeled rows for each gamma in `STRENGTHS` (Fig. 5).

    Args:
        bias: b[k] in nats.
        log_probs: s[m k] in nats.
        labels: [m]; rows of label -1 do not count.
        weight: [m]; rows of weight 0 do not count.
        metric: "accuracy" or "macro_f1".

    Returns:
        [101], the metric at each strength.
    """
    judge = STRENGTH_METRICS[metric]

    # One strength at a time: all at once would take 500 MB for 100 labels and 12,800 rows.
    def at(strength: Scalar) -> Scalar:
        return judge(shift.apply(shift.Shift(bias, strength), log_probs), labels, weight)

    curve: Curve = jax.lax.map(at, jnp.asarray(STRENGTHS, jnp.float32))
    return curve


def best_strength(curve: Curve) -> Scalar:
    """Returns the strength with the highest metric; of equal ones the nearest to 1, then the lower.

    >>> best_strength(jnp.zeros(101)).item()
    1.0
    """
    # argmax takes the first of equal values, which is the nearest to 1 in this order.
    order = jnp.asarray(_NEAREST_TO_ONE, jnp.int32)
    return jnp.asarray(STRENGTHS, jnp.float32)[order[jnp.argmax(curve[order])]]


def learned_shift(
    *, metric: str = "accuracy", bias_from: str = "unlabeled", target_prior: Prior | None = None
) -> base.Calibrator:
    """Subtracts gamma times the bias, gamma = argmax_g R(s - g b) on labeled rows (eq. 4).

    The bias b_j = mean_i s_ij is learned from rows labeled -1, and the strength gamma from labeled
    rows. If no row is labeled -1, both are learned from labeled rows. The state is a `Shift` that
    also holds the whole curve gamma -> metric.

    Args:
        metric: R, "accuracy" or "macro_f1".
        bias_from: "unlabeled", or "labeled" to learn the bias from the labeled rows.
        target_prior: pi, the expected share of each of the k labels; the bias becomes b - log pi.

    Raises:
        InputError: an unknown metric or bias_from; `fit` without labels.

    >>> fit, apply_ = learned_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -3.0], [-2.0, -2.5]])
    >>> state = fit(rows, jnp.array([-1, -1, 0, 1]))
    >>> round(state.strength.item(), 1), state.curve.shape
    (1.0, (101,))
    """
    refuse_unknown("metric", metric, STRENGTH_METRICS)
    refuse_unknown("bias_from", bias_from, ("unlabeled", "labeled"))

    def learn(probe: base.ProbeScores) -> shift.Shift:
        labels, weights = base.known_labels("bcl", probe.labels, base.WITH_BATCH), probe.weights
        # If no row is labeled -1, the bias is learned from labeled rows, too.
        unlabeled = (labels < 0) & (weights > 0) & (bias_from == "unlabeled")
        gives_bias = jnp.where(jnp.any(unlabeled), unlabeled, labels >= 0)
        bias = base.weighted_mean(probe.log_probs, jnp.where(gives_bias, weights, 0.0))
        bias = bias - shift.log_target(target_prior)
        curve = strength_curve(bias, probe.log_probs, labels, probe.weight, metric=metric)
        return shift.Shift(bias, best_strength(curve), curve)

    return base.Calibrator.of(learn, shift.apply)


def balanced_weight(log_probs: ProbeRows, labels: Labels, weight: Weight | None = None) -> Weight:
    """Returns weights of rows [m] that sum to 1 over the rows of each label.

    Rows of unknown label (-1) have weight 0.
    """
    known_weights = known_weight(log_probs, labels, weight)
    # The weights of a label without rows sum to 0; they are divided by 1 instead.
    of_label = known_weights[:, None] * one_hot(log_probs, labels)
    total = jnp.sum(of_label, axis=0)
    shares: Weight = jnp.sum(of_label / jnp.where(total > 0, total, 1.0), axis=1)
    return shares


def balanced_shift(
    *,
    estimate: shift.BiasEstimator = shift.mean_log_prob,
    strength: float = 1.0,
    target_prior: Prior | None = None,
) -> base.Calibrator:
    """Subtracts the class-balanced mean of labeled rows: s - gamma b, b = mean_l mean_{y_i=l} s_i.

    RBCorr (Bhatt and Ivanova 2026, arXiv:2602.12445) takes the plain mean of a labeled set with the
    same number of rows for each label (`src/rbcorr_impl.py` of its code). On that set the result is
    the same; on any other set the labels are weighted to be balanced. Unlike BC's bias, this bias
    does not depend on the shares of the labels among the rows.

    LOOC (Reif and Schwartz 2024, arXiv:2405.02743) learns from the demonstrations: each of them is
    taken out of the context and asked as the input. Its code (schwartz-lab-NLP/label-bias,
    `compute_task_calibration_parameters`) divides by the class-balanced mean *probability*,
    normalized over the labels: `estimate=log_mean_label_prob`. Its score of a label is the mean
    log-probability of the label's tokens and an end token; this package sums the tokens and leaves
    out the end token.

    Args:
        estimate: probe rows [m k] and their balanced weights [m] -> bias [k] in nats.
        strength: gamma; 0 leaves the scores unchanged.
        target_prior: pi, the expected share of each of the k labels; the bias becomes b - log pi.

    Raises:
        InputError: `fit` without labels.

    >>> fit, apply_ = balanced_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -3.0], [-2.0, -2.0]])
    >>> apply_(fit(rows, jnp.array([0, 0, 1])), rows).tolist()
    [[0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]
    """

    def learn(probe: base.ProbeScores) -> shift.Shift:
        labels = base.known_labels("The class-balanced mean", probe.labels)
        weight = balanced_weight(probe.log_probs, labels, probe.weight)
        bias = estimate(probe.log_probs, weight)
        return shift.Shift(bias - shift.log_target(target_prior), jnp.float32(strength))

    return base.Calibrator.of(learn, shift.apply)
