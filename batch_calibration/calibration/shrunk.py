"""The bias of few rows, shrunk toward zero by its standard error."""

import jax.numpy as jnp

from batch_calibration.calibration.base import weighted_mean, weights_of
from batch_calibration.typing import Bias, ProbeRows, Scalar, Weight


def shrinkage(log_probs: ProbeRows, weight: Weight | None = None) -> Scalar:
    """The part of the mean log-probabilities that is no chance of the draw of rows, 0 to 1.

    With t_ij = s_ij - mean_j s_ij, as a constant per row tells no labels apart, and b its mean,

        (m - 1) / m max(0, 1 - e / |b|^2),  e = sum_j var_i(t_ij) / m,

    e the squared standard error of b, its variance by m - 1. This is the positive-part estimate of
    empirical Bayes, 1 - e / |b|^2 (James and Stein 1961; Efron and Morris 1973, less their
    (k - 3) / (k - 1), as k may be 2), of the mean of the rows and one more of no bias, t = 0, in
    proportion to the mean of the rows alone. One row gives 0, plain ICL; many give 1, BC.
    """
    weights = weights_of(log_probs, weight)[:, None]
    present = jnp.where(weights > 0, log_probs, 0.0)
    # A constant per row tells no labels apart.
    rows = present - jnp.mean(present, axis=-1, keepdims=True)
    bias = weighted_mean(rows, weight)
    total, length = jnp.sum(weights), jnp.sum(bias**2)
    spread = jnp.sum(weights * (rows - bias) ** 2) / jnp.maximum(total - 1.0, 1e-6)
    error = spread / jnp.maximum(total, 1.0)
    is_defined = (total > 1.0) & (length > 0.0)
    factor = jnp.maximum(1.0 - error / jnp.where(is_defined, length, 1.0), 0.0)
    return jnp.where(is_defined, (1.0 - 1.0 / jnp.maximum(total, 1.0)) * factor, 0.0)


def shrunk_mean(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The mean log-probability of each label times `shrinkage`, a `BiasEstimator` for `shift`.

    >>> shrunk_mean(jnp.array([[-1.0, -3.0], [-2.0, -4.0]])).tolist()
    [-0.75, -1.75]
    """
    return shrinkage(log_probs, weight) * weighted_mean(log_probs, weight)
