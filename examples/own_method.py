"""Adds a method of your own to the table of methods, and compares it with the others.

    python examples/own_method.py
    batch-calibration compare demo.csv --gold=label --plugin=examples/own_method.py

The second line reads this file as a plugin, as every command does. A method is a pair of pure
functions for one prompt: `fit` learns a bias from the scores of some inputs, `apply` removes it.
`shift` makes the pair from an estimate of the bias.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import METHODS, Method, calibrate, compare
from batch_calibration.calibration.base import weights_of
from batch_calibration.calibration.shift import shift
from batch_calibration.methods import probes


def trimmed_mean(log_probs, weight=None):
    """Returns each label's mean score without its lowest and highest tenth.

    Args:
        log_probs: [m, k], in nats.
        weight: [m], 0 where a row is absent.
    """
    is_present = weights_of(log_probs, weight)[:, None] > 0
    scores = jnp.where(is_present, log_probs, jnp.nan)
    low, high = jnp.nanquantile(scores, jnp.array([0.1, 0.9]), axis=0)
    is_kept = is_present & (scores >= low) & (scores <= high)
    count = is_kept.sum(axis=0, dtype=log_probs.dtype)
    return jnp.sum(log_probs, axis=0, where=is_kept) / jnp.maximum(count, 1)


METHODS["trimmed"] = Method(probes.BATCH, partial(shift, estimate=trimmed_mean), "this file")

if __name__ == "__main__":
    # 300 simulated rows: 'no' is preferred by 2 nats, and every tenth row is an outlier.
    random = np.random.default_rng(0)
    gold = random.choice(2, 300)
    signal = np.where(gold == 1, 1.0, -1.0) + random.normal(size=300)
    outlier = np.where(random.random(300) < 0.1, 30.0, 0.0)
    scores = np.stack([-0.5 - signal / 2, -2.5 + signal / 2 - outlier], axis=-1)

    print("bias:", np.round(scores.mean(axis=0) - calibrate(scores, "trimmed").mean(axis=0), 2))
    print(compare(scores, gold, methods=["icl", "bc", "trimmed"]))

    # As any pair of pure functions it runs under jit and vmap, here over four prompts.
    fit, apply = METHODS["trimmed"].make()
    prompts = jnp.asarray(scores) + jax.random.normal(jax.random.key(0), (4, 1, 2))
    print(jax.jit(jax.vmap(lambda rows: apply(fit(rows), rows)))(prompts).shape)
