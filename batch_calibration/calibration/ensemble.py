"""An ensemble of prompts: the mean of their corrected log-probabilities gives one answer a row."""

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import full_precision
from batch_calibration.calibration.empirical_bayes import LEAST_INFORMATION, information
from batch_calibration.typing import Scalar


@full_precision
def average_contexts(
    corrected: jax.Array, weight: jax.Array, least_information: Scalar | float = LEAST_INFORMATION
) -> jax.Array:
    """Averages label-normalized scores over the contexts that carry enough information.

    l_ij = (1 / |C|) sum_{c in C} (s_cij - log sum_l exp s_cil), where C are the contexts with
    `information` (see `empirical_bayes`) of at least `least_information`, or all contexts if no
    context has as much.

    Args:
        corrected: [c m k] in nats; row i is the same question in every context.
        weight: [c m]; a context of weight 0 is left out of that row's mean.
        least_information: in nats.

    Returns:
        The means [m k], in nats; 0 for a row without any context.

    >>> rows = jnp.log(jnp.array([[[0.9, 0.1], [0.1, 0.9]], [[0.4, 0.6], [0.1, 0.9]]]))
    >>> average_contexts(rows, jnp.ones((2, 2))).argmax(axis=-1).tolist()
    [0, 1]
    """
    log_probs = jax.nn.log_softmax(jnp.where(weight[..., None] > 0, corrected, 0.0))
    is_present = jnp.any(weight > 0, axis=-1)
    tells = (jax.vmap(information)(log_probs, weight) >= least_information) & is_present
    chosen = jnp.where(jnp.any(tells), tells, is_present)[:, None] & (weight > 0)  # [c m]
    counted = chosen.astype(log_probs.dtype)
    total = jnp.einsum("cm,cmk->mk", counted, log_probs)
    return total / jnp.maximum(jnp.sum(counted, axis=0), 1.0)[:, None]
