"""A bias that is subtracted: CC, DC and BC are one function with three probes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base
from batch_calibration.typing import (
    AnyArray,
    Bias,
    Curve,
    Prior,
    ProbeRows,
    Rows,
    Scalar,
    Scores,
    Weight,
)

BiasEstimator = Callable[[ProbeRows, Weight | None], Bias]
"""A function that takes a bias [k] from probe rows [m k] and their weights [m]."""


class Shift(NamedTuple):
    """The state of a shift.

    Attributes:
        bias: the contextual prior p(y|C), in nats (less log pi under a target prior).
        strength: how much of the bias is removed, the paper's gamma.
        curve: metric per strength where the strength was searched (BCL), else None.
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
    """Removes a bias that is a probability: p_ij - gamma b_j, p normalized over the labels.

    A difference within four roundings of p is 0: compilers differ in the last bits of exp, and
    where all rows are equal no label may win by them.
    """
    probs = jnp.exp(base.label_normalized(log_probs))
    differences = probs - state.strength * state.bias
    rounding = 4 * float(np.finfo(probs.dtype).eps) * probs
    return jnp.where(jnp.abs(differences) <= rounding, 0.0, differences)


def no_bias(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Zero for each label: plain in-context learning."""
    del weight
    return jnp.zeros(log_probs.shape[-1], jnp.float32)


def mean_log_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The mean log-probability of each label, mean_i s_ij (eq. 1 and app. D)."""
    return base.weighted_mean(log_probs, weight)


def log_mean_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The log of each label's mean probability, log mean_i p_ij.

    The published code divides by sum_j of these means too, which moves all scores alike. A label's
    largest score is taken out first and put back whole: where all rows are equal the bias is that
    row to the last bit, and equal corrected scores stay equal.
    """
    weights = base.weights_of(log_probs, weight)[:, None]
    total = jnp.sum(weights)
    masked = jnp.where(weights > 0, log_probs, -jnp.inf)
    largest = jnp.where(total > 0, jnp.max(masked, axis=0), 0.0)
    share = jnp.sum(weights * jnp.exp(masked - largest), axis=0) / jnp.where(total > 0, total, 1.0)
    return largest + jnp.log(jnp.where(total > 0, share, 1.0))


def log_mean_label_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The same after the labels of each row are given one sum, so that every row weighs alike."""
    row = jax.nn.logsumexp(log_probs, axis=-1, keepdims=True)  # [m, 1], nats
    return log_mean_prob(log_probs - (row - base.weighted_mean(row, weight)), weight)


def mean_label_prob(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The mean label-normalized probability of each label, mean_i P_ij."""
    return base.weighted_mean(jnp.exp(base.label_normalized(log_probs)), weight)


def shrinkage(log_probs: ProbeRows, weight: Weight | None = None) -> Scalar:
    """The part of the mean log-probabilities that is no chance of the draw of rows, 0 to 1.

    With t_ij = s_ij - mean_j s_ij, as a constant per row tells no labels apart, and b its mean,

        (m - 1) / m max(0, 1 - e / |b|^2),  e = sum_j var_i(t_ij) / m,

    e the squared standard error of b, its variance by m - 1. This is the positive-part estimate of
    empirical Bayes, 1 - e / |b|^2 (James and Stein 1961; Efron and Morris 1973, less their
    (k - 3) / (k - 1), as k may be 2), of the mean of the rows and one more of no bias, t = 0, in
    proportion to the mean of the rows alone. One row gives 0, plain ICL; many give 1, BC.
    """
    weights = base.weights_of(log_probs, weight)[:, None]
    present = jnp.where(weights > 0, log_probs, 0.0)
    # A constant per row tells no labels apart.
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
    """The mean log-probability of each label times `shrinkage`, a `BiasEstimator` for `shift`.

    With an expected bias b0 [k] it is b0 and the shrunken mean of what is left, s - b0.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -4.0]])
    >>> shrunk_mean(rows).tolist(), shrunk_mean(rows, None, (1.0, -1.0)).tolist()
    ([-0.75, -1.75], [1.0, -1.0])
    """
    expected = jnp.zeros(())
    if expected_bias is not None:
        expected = jnp.asarray(expected_bias, jnp.float32)
    rest = log_probs - expected  # [m k], what the expected bias leaves
    return expected + shrinkage(rest, weight) * base.weighted_mean(rest, weight)


def learn_by(
    estimate: BiasEstimator, strength: float, target: Callable[[], jax.Array | float]
) -> Callable[[base.ProbeScores], Shift]:
    """Learns a bias by `estimate(log_probs, weight)` and takes `target()` off it."""

    def learn(probe: base.ProbeScores) -> Shift:
        bias = estimate(probe.log_probs, probe.weight)
        return Shift(bias - target(), jnp.float32(strength))

    return learn


LEAST_STATED_SHARE = 1e-4
"""The least share that a label can be expected to have: log 0 would be no finite bias."""


def least_shares(shares: Sequence[float] | AnyArray, least: float = LEAST_STATED_SHARE) -> Bias:
    """Shares of the labels, all at least about `least`, of sum 1.

    >>> least_shares((0.5, 0.5, 0.0))[2].item() < 1e-4
    True
    """
    raised = jnp.maximum(jnp.asarray(shares, jnp.float32), least)
    return raised / jnp.sum(raised)


def log_target(target_prior: Prior | None) -> jax.Array | float:
    """The log of a target prior, which is taken off the bias; 0 without one."""
    return 0.0 if target_prior is None else jnp.log(least_shares(target_prior))


def shift(
    *,
    estimate: BiasEstimator = mean_log_prob,
    strength: float = 1.0,
    target_prior: Prior | None = None,
) -> base.Calibrator:
    """Subtracts a bias estimated from the probe: s - gamma b, b_j = mean_i s_ij by default.

    The probe alone makes it CC, DC or BC (eq. 1 and 2, app. D); the estimate makes it a
    published variant. BC supposes that the labels are balanced; where they are not, give
    `target_prior` pi and the bias becomes b - log pi.

    Args:
        estimate: probe rows [m k] and their weights [m] -> bias [k] in nats: `mean_log_prob`,
            `log_mean_prob` (the published code of CC, Zhao et al. 2021, and DC, Fei et al. 2023)
            or `log_mean_label_prob` (the first step of UCPA).
        strength: gamma; 0 leaves the scores as they are.
        target_prior: the share of each of the k labels one expects; 0 for one that is never right
            counts as 1e-4, a penalty of 9.2 nats.

    >>> fit, apply_ = shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> apply_(fit(rows), rows).tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    return base.Calibrator.of(learn_by(estimate, strength, lambda: log_target(target_prior)), apply)


def no_shift() -> base.Calibrator:
    """Leaves the scores as they are: plain in-context learning, a shift whose bias is zero."""
    return shift(estimate=no_bias)


def shrunk_shift(
    *, expected_bias: Prior | None = None, strength: float = 1.0, target_prior: Prior | None = None
) -> base.Calibrator:
    """Subtracts the part of BC's bias that is beyond its error.

    Args:
        expected_bias: what few rows are shrunken to, [k] in nats, such as the mean score of the
            rows of all subjects where each has a few; without it 0, which is plain ICL.
        strength: gamma, as in `shift`.
        target_prior: the share of each of the k labels one expects, as in `shift`.

    >>> rows = jnp.array([[-1.0, -3.0]])  # a single row: nothing but what is expected
    >>> shrunk_shift(expected_bias=(1.0, -1.0)).fit(rows).bias.tolist()
    [1.0, -1.0]
    """
    estimate = partial(shrunk_mean, expected_bias=expected_bias)
    return base.Calibrator.of(learn_by(estimate, strength, lambda: log_target(target_prior)), apply)


def prob_shift(
    *, strength: float = 1.0, target_prior: Sequence[float] | None = None
) -> base.Calibrator:
    """Subtracts in probability space: P_ij - gamma mean_i P_ij (+ gamma pi_j), as in StaICC.

    StaICC's code (hc495/StaICC, `batch_calibration`) takes the mean of each 128 rows in turn, the
    last ones by themselves, and its rows have different demonstrations; here it is of all rows of
    the probe. Its scores are differences of probabilities, not nats. Options as in `shift`.
    """

    def target() -> jax.Array | float:
        return 0.0 if target_prior is None else least_shares(target_prior)

    return base.Calibrator.of(learn_by(mean_label_prob, strength, target), apply_to_probs)
