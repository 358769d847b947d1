"""Accuracy over contexts, probe sizes and strengths in one call: the paper's curves."""

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import weighted_mean
from batch_calibration.calibration.objective import accuracy
from batch_calibration.calibration.shift import Shift, apply
from batch_calibration.typing import (
    AccuracyGrid,
    AnyArray,
    ContextLabels,
    ContextRows,
    Scalar,
    Strengths,
)


@jax.jit
def accuracy_grid(
    log_probs: ContextRows, labels: ContextLabels, strengths: Strengths, weights: AnyArray
) -> AccuracyGrid:
    """Accuracy of s - g b_p on all labeled rows, b_p the mean of the rows that weight p keeps.

    A probe size is a 0/1 weight, so the batch-size figure, the strength figure and the sweep over
    seeds are one array.

    Args:
        log_probs: s[c n k] in nats.
        labels: [c n]; -1 pads a context with fewer rows.
        strengths: g[g].
        weights: [p n], the same in every context, or [c p n].

    >>> rows = jnp.array([[[-1.0, -3.0], [-2.0, -2.5]]])
    >>> accuracy_grid(rows, jnp.array([[0, 1]]), jnp.array([0.0, 1.0]), jnp.ones((1, 2))).tolist()
    [[[0.5, 1.0]]]
    """
    contexts = log_probs.shape[0]
    kept = jnp.asarray(weights)
    if kept.ndim == 2:
        kept = jnp.broadcast_to(kept, (contexts, *kept.shape))

    # Contexts and strengths one at a time: the whole product would not fit.
    def context(block: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        rows, gold, probes = block
        biases = jax.vmap(weighted_mean, (None, 0))(rows, probes)

        def strength(one: Scalar) -> jax.Array:
            def at(bias: jax.Array) -> Scalar:
                return accuracy(apply(Shift(bias, one), rows), gold)

            return jax.vmap(at)(biases)

        return jax.lax.map(strength, jnp.asarray(strengths)).T

    return jax.lax.map(context, (jnp.asarray(log_probs), jnp.asarray(labels), kept))
