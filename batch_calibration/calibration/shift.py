"""Methods that subtract a bias: CC, DC and BC are one function with three probes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base
from batch_calibration.typing import Bias, Curve, Prior, ProbeRows, Rows, Scalar, Scores, Weight

BiasEstimator = Callable[[ProbeRows, Weight | None], Bias]
"""A function: probe rows [m k] and their weights [m] -> bias [k]."""


class Shift(NamedTuple):
    """The state of a shift.

    Attributes:
        bias: the contextual prior p(y|C), in nats (less log pi with a target prior).
        strength: the paper's gamma, the factor of the bias that is subtracted.
        curve: the metric at each strength if the strength was searched (BCL), else None.
    """

    bias: Bias
    strength: Scalar
    curve: Curve | None = None


def apply(state: Shift, log_probs: Rows, /) -> Scores:
    """Removes the bias: s_ij - gamma b_j (eq. 4 of the paper; gamma = 1 is eq. 2).

    >>> state = Shift(jnp.array([-1.0, -3.0]), jnp.float32(1.0))
    >>> apply(state, jnp.array([[-2.0, -2.5]])).tolist()
    [[-1.0, 0.5]]
    """
    return jnp.asarray(log_probs) - state.strength * state.bias


def apply_to_probs(state: Shift, log_probs: Rows, /) -> Scores:
    """Removes a bias that is a probability: p_ij - gamma b_j, with p normalized over the labels.

    A difference within four rounding errors of p is set to 0: compilers differ in the last bits of
    exp, and these must not decide a prediction if all rows are equal.
    """
    probs = jnp.exp(base.label_normalized(log_probs))
    differences = probs - state.strength * state.bias
    rounding = 4 * float(np.finfo(probs.dtype).eps) * probs
    return jnp.where(jnp.abs(differences) <= rounding, 0.0, differences)


def no_bias(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Returns zero for each label: plain in-context learning."""
    del weight
    return jnp.zeros(log_probs.shape[-1], jnp.float32)


def mean_log_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Computes the mean log-probability of each label, mean_i s_ij (eq. 1 and app. D)."""
    return base.weighted_mean(log_probs, weight)


def log_mean_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Computes the log of each label's mean probability, log mean_i p_ij.

    The published code also divides by the sum over j of these means, which adds the same constant
    to all scores. The largest score of a label is subtracted first and added last. If all rows are
    equal, the bias is then exactly this row, and equal corrected scores stay equal.
    """
    weights = base.weights_of(log_probs, weight)[:, None]
    total = jnp.sum(weights)
    masked = jnp.where(weights > 0, log_probs, -jnp.inf)
    largest = jnp.where(total > 0, jnp.max(masked, axis=0), 0.0)
    share = jnp.sum(weights * jnp.exp(masked - largest), axis=0) / jnp.where(total > 0, total, 1.0)
    return largest + jnp.log(jnp.where(total > 0, share, 1.0))


def log_mean_label_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Computes `log_mean_prob` of rows normalized to a common sum, so that they weigh equally."""
    row = jax.nn.logsumexp(log_probs, axis=-1, keepdims=True)  # [m, 1], nats
    return log_mean_prob(log_probs - (row - base.weighted_mean(row, weight)), weight)


def mean_label_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Computes the mean label-normalized probability of each label, mean_i P_ij."""
    return base.weighted_mean(jnp.exp(base.label_normalized(log_probs)), weight)


def shrinkage(log_probs: ProbeRows, weight: Weight | None = None) -> Scalar:
    """Computes the shrinkage factor of the mean log-probabilities, 0 to 1.

    With t_ij = s_ij - mean_j s_ij, because a constant per row does not matter, and b the mean of t,

        (m - 1) / m max(0, 1 - e / |b|^2),  e = sum_j var_i(t_ij) / m,

    where e is the squared standard error of b, with the variance over m - 1. The second factor is
    the positive-part estimate of empirical Bayes, 1 - e / |b|^2 (James and Stein 1961; Efron and
    Morris 1973, without their (k - 3) / (k - 1), as k may be 2). The first factor accounts for one
    pseudo-row without bias, t = 0. A single row gives 0, plain ICL; many rows give 1, BC.
    """
    weights = base.weights_of(log_probs, weight)[:, None]
    present = jnp.where(weights > 0, log_probs, 0.0)
    # A constant per row does not change the comparison of labels.
    rows = present - jnp.mean(present, axis=-1, keepdims=True)
    bias = base.weighted_mean(rows, weight)
    total, length = jnp.sum(weights), jnp.sum(bias**2)
    spread = jnp.sum(weights * (rows - bias) ** 2) / jnp.maximum(total - 1.0, 1e-6)
    error = spread / jnp.maximum(total, 1.0)
    is_defined = (total > 1.0) & (length > 0.0)
    factor = jnp.maximum(1.0 - error / jnp.where(is_defined, length, 1.0), 0.0)
    return jnp.where(is_defined, (1.0 - 1.0 / jnp.maximum(total, 1.0)) * factor, 0.0)


def shrunk_mean(
    log_probs: ProbeRows, weight: Weight | None = None, expected_bias: Prior | None = None
) -> Bias:
    """Shrinks the mean log-probability of each label by `shrinkage`, a `BiasEstimator` for `shift`.

    With an expected bias b0 [k], the result is b0 plus the shrunken mean of s - b0.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -4.0]])
    >>> shrunk_mean(rows).tolist(), shrunk_mean(rows, None, (1.0, -1.0)).tolist()
    ([-0.75, -1.75], [1.0, -1.0])
    """
    expected = jnp.zeros(())
    if expected_bias is not None:
        expected = jnp.asarray(expected_bias, jnp.float32)
    rest = log_probs - expected  # [m k]
    return expected + shrinkage(rest, weight) * base.weighted_mean(rest, weight)


def learn_by(
    estimate: BiasEstimator, strength: float, target: Callable[[], jax.Array | float]
) -> Callable[[base.ProbeScores], Shift]:
    """Returns a function that learns a bias by `estimate` and subtracts `target()` from it."""

    def learn(probe: base.ProbeScores) -> Shift:
        bias = estimate(probe.log_probs, probe.weight)
        return Shift(bias - target(), jnp.float32(strength))

    return learn


LEAST_STATED_SHARE = 1e-4
"""The lower bound of an expected share, because log 0 is not a finite bias."""


def least_shares(shares: Prior, least: float = LEAST_STATED_SHARE) -> Bias:
    """Raises shares of the labels to at least about `least`, with sum 1.

    >>> least_shares((0.5, 0.5, 0.0))[2].item() < 1e-4
    True
    """
    raised = jnp.maximum(jnp.asarray(shares, jnp.float32), least)
    return raised / jnp.sum(raised)


def log_target(target_prior: Prior | None) -> jax.Array | float:
    """Returns the log of a target prior, which is subtracted from the bias; 0 without a prior."""
    return 0.0 if target_prior is None else jnp.log(least_shares(target_prior))


def shift(
    *,
    estimate: BiasEstimator = mean_log_prob,
    strength: float = 1.0,
    target_prior: Prior | None = None,
) -> base.Calibrator:
    """Subtracts a bias estimated from the probe: s - gamma b, b_j = mean_i s_ij by default.

    CC, DC and BC differ only in the probe (eq. 1 and 2, app. D). Published variants differ in the
    estimate. BC assumes balanced labels; if they are not balanced, give `target_prior` pi, and the
    bias becomes b - log pi.

    Args:
        estimate: probe rows [m k] and their weights [m] -> bias [k] in nats: `mean_log_prob`,
            `log_mean_prob` (the published code of CC, Zhao et al. 2021, and DC, Fei et al. 2023)
            or `log_mean_label_prob` (the first step of UCPA).
        strength: gamma; 0 leaves the scores unchanged.
        target_prior: pi, the expected share of each of the k labels; 0 for a label that is never
            right counts as 1e-4, a penalty of 9.2 nats.

    >>> fit, apply_ = shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> apply_(fit(rows), rows).tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    return base.Calibrator.of(learn_by(estimate, strength, lambda: log_target(target_prior)), apply)


def no_shift() -> base.Calibrator:
    """Returns a shift with zero bias, which leaves the scores unchanged: in-context learning."""
    return shift(estimate=no_bias)


def shrunk_shift(
    *, expected_bias: Prior | None = None, strength: float = 1.0, target_prior: Prior | None = None
) -> base.Calibrator:
    """Subtracts BC's bias after shrinkage by its standard error (see `shrinkage`).

    Args:
        expected_bias: [k] in nats, the bias toward which the estimate is shrunken, such as the mean
            score over all subjects if each has few rows; by default 0, which is plain ICL.
        strength: gamma, as in `shift`.
        target_prior: pi, the expected share of each of the k labels, as in `shift`.

    >>> rows = jnp.array([[-1.0, -3.0]])  # a single row gives the expected bias
    >>> shrunk_shift(expected_bias=(1.0, -1.0)).fit(rows).bias.tolist()
    [1.0, -1.0]
    """
    estimate = partial(shrunk_mean, expected_bias=expected_bias)
    return base.Calibrator.of(learn_by(estimate, strength, lambda: log_target(target_prior)), apply)


def prob_shift(*, strength: float = 1.0, target_prior: Prior | None = None) -> base.Calibrator:
    """Subtracts in probability space: P_ij - gamma mean_i P_ij (+ gamma pi_j), as in StaICC.

    StaICC's code (hc495/StaICC, `batch_calibration`) takes a separate mean of each 128 consecutive
    rows, and its rows have different demonstrations; here the mean is over all rows of the probe.
    The scores are differences of probabilities, not nats. The options are as in `shift`.
    """

    def target() -> jax.Array | float:
        return 0.0 if target_prior is None else least_shares(target_prior)

    return base.Calibrator.of(learn_by(mean_label_prob, strength, target), apply_to_probs)
