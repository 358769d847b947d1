"""How often one of k Gaussian scores is the largest."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri

POINTS = 1021
"""Points of k - 1 dimensions over which integrals for k labels are averaged."""
SMALLEST = 1e-37
"""A normal number of float32, below which a probability counts as this."""


def largest_at(label: int, means: jax.Array, covariance: jax.Array) -> jax.Array:
    """How often one of k Gaussian scores is the largest: Genz 1992, by sequential conditioning.

    Of two labels it is exact; of more the points of a lattice leave an error of about 1e-4.
    """
    k = len(means)
    less = jnp.delete(jnp.eye(k)[label] - jnp.eye(k), label, axis=0, assume_unique_indices=True)
    differences, spread = less @ means, less @ covariance @ less.T  # [k - 1], [k - 1, k - 1]
    root = jnp.linalg.cholesky(spread + ridge(spread))
    uniform = lattice(k - 1)
    normal = jnp.zeros_like(uniform)  # the differences' noise, conditioned on being large enough
    above = jnp.ones(len(uniform))
    for i in range(k - 1):
        chance = ndtr((differences[i] + normal @ root[i]) / root[i, i])
        above = above * chance
        conditioned = -ndtri(jnp.maximum(uniform[:, i] * chance, SMALLEST))
        normal = normal.at[:, i].set(conditioned)
    return above.mean()


def ridge(covariance: jax.Array) -> jax.Array:
    """What lets a singular covariance be factored: scores less their row's mean have one."""
    return 1e-6 * jnp.maximum(jnp.trace(covariance), 1e-6) * jnp.eye(len(covariance))


def lattice(dimensions: int) -> jax.Array:
    """Points [points, d] that fill the unit cube evenly: multiples of square roots of primes."""
    primes = np.arange(2, 400)
    for divisor in range(2, 20):  # 20^2 = 400
        primes = primes[(primes == divisor) | (primes % divisor > 0)]
    steps = np.sqrt(primes[:dimensions].astype(np.float64))
    points = (np.outer(np.arange(1, POINTS + 1), steps) + 0.5) % 1.0
    # Folded, so that the integrand is periodic; away from 0 and 1, where the quantile is infinite.
    folded = 1 - np.abs(2 * points - 1)
    return jnp.asarray(np.clip(folded, 1e-6, 1 - 1e-6), jnp.float32)
