"""Expectation-maximization of many Gaussian mixtures at once, on whitened rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Starts worked on at a time: few enough that the shares of 10,000 rows stay in the cache.
SLOTS = 4

# Rows summed before the partial sums are: a float32 sum of n terms loses log n, not n, roundings.
BLOCK = 64


class Mixture(NamedTuple):
    """k Gaussians of f features.

    Attributes:
        log_weights: log alpha[k].
        means: mu[k f].
        factors: L[k f f], lower triangular, L L^T the covariance.
    """

    log_weights: jax.Array
    means: jax.Array
    factors: jax.Array


class Found(NamedTuple):
    """What each start led to: a mixture, its mean log-likelihood, and the steps it took."""

    mixture: Mixture
    likelihood: jax.Array
    steps: jax.Array


class Pool(NamedTuple):
    """Slots that each work on one start; a slot whose start has converged takes the next."""

    start: jax.Array
    steps: jax.Array
    likelihood: jax.Array
    mixture: Mixture
    next: jax.Array
    found: Found


def block_sum(terms: jax.Array) -> jax.Array:
    """The sum over the last axis, whose length is a multiple of `BLOCK`."""
    partial = jnp.sum(terms.reshape(*terms.shape[:-1], -1, BLOCK), axis=-1)
    # Without the barrier XLA merges both sums into one long one.
    apart: jax.Array = jax.lax.optimization_barrier(partial)  # type: ignore[no-untyped-call]
    return jnp.sum(apart, axis=-1)


def invert_lower(factor: jax.Array) -> jax.Array:
    """The inverse of lower triangular matrices [... f f]."""
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=jnp.float32), factor.shape)
    return jax.scipy.linalg.solve_triangular(factor, eye, lower=True)


def em_step(
    mixture: Mixture, rows: jax.Array, weight: jax.Array, ridge: jax.Array
) -> tuple[Mixture, jax.Array]:
    """One E-step and one M-step, and the mean log-likelihood of the E-step.

    Each component sees the rows in its own coordinates y = L^-1 (z - mu), where its old mean is 0
    and its old covariance I. New moments are small corrections there, L <- L chol(cov y), which
    is what keeps float32 within 1e-4 nats of float64 after 100 steps.

    Args:
        mixture: alpha, mu, L.
        rows: z[f n], a multiple of `BLOCK` of them; weight 0 where padded.
        weight: [n].
        ridge: [f f], added to each covariance.
    """
    log_weights, means, factors = mixture
    inverse = invert_lower(factors)
    own = jnp.einsum("kab,kbn->kan", inverse, rows - means[:, :, None])

    log_det = jnp.sum(jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1)), axis=-1)
    constant = 0.5 * means.shape[-1] * jnp.log(jnp.float32(2.0 * jnp.pi))
    log_joint = (log_weights - log_det - constant)[:, None] - 0.5 * jnp.sum(own**2, axis=1)
    log_row = jax.nn.logsumexp(log_joint, axis=0)
    shares = jnp.exp(log_joint - log_row) * weight

    # An empty component keeps its mean and shrinks to the ridge: finite, and never chosen.
    mass = block_sum(shares) + 1e-12
    shared = shares[:, None, :] * own
    first = block_sum(shared) / mass[:, None]
    # Products of blocks of rows, summed over blocks like the other moments.
    cut = (*own.shape[:2], -1, BLOCK)
    products = jnp.einsum("kaij,kbij->ikab", shared.reshape(cut), own.reshape(cut))
    second = jnp.sum(products, axis=0) / mass[:, None, None]
    own_ridge = jnp.einsum("kab,bc,kdc->kad", inverse, ridge, inverse)
    covariance = second - first[:, :, None] * first[:, None, :] + own_ridge
    fresh = jnp.einsum("kab,kbc->kac", factors, jnp.linalg.cholesky(covariance))
    # A component that falls onto a few far rows at once may round to an indefinite matrix: its
    # mean moves now, and the next step, taken from there, is exact.
    definite = jnp.all(jnp.isfinite(fresh), axis=(-2, -1), keepdims=True)

    now = Mixture(
        jnp.log(mass / jnp.sum(mass)),
        means + jnp.einsum("kab,kb->ka", factors, first),
        jnp.where(definite, fresh, factors),
    )
    return now, block_sum(weight * log_row) / jnp.maximum(jnp.sum(weight), 1e-12)


def first_mixture(means: jax.Array) -> Mixture:
    """Equal weights, the given means, and the covariance of all rows: I, as they are white."""
    k, f = means.shape
    eye = jnp.broadcast_to(jnp.eye(f, dtype=jnp.float32), (k, f, f))
    return Mixture(jnp.full(k, -jnp.log(jnp.float32(k))), means, eye)


def choose(flag: jax.Array, yes: Mixture, no: Mixture) -> Mixture:
    """Per slot, `yes` where the flag is set, else `no`."""
    return Mixture(
        *(
            jnp.where(flag.reshape((-1,) + (1,) * (one.ndim - 1)), one, other)
            for one, other in zip(yes, no, strict=True)
        )
    )


def fit_starts(
    rows: jax.Array,
    weight: jax.Array,
    ridge: jax.Array,
    starts: jax.Array,
    *,
    steps: int,
    tolerance: float,
) -> Found:
    """Expectation-maximization from each of several starts, until it gains less than `tolerance`.

    The starts are worked on `SLOTS` at a time, so that one slow start holds up no other.

    Args:
        rows: z[n f], white.
        weight: [n].
        ridge: [f f].
        starts: the first means, [s k f].
        steps: the most steps a start may take.
        tolerance: in nats, on the mean log-likelihood between two steps.
    """
    count = starts.shape[0]
    slots = min(SLOTS, count)
    padding = -rows.shape[0] % BLOCK
    columns = jnp.pad(rows, ((0, padding), (0, 0))).T
    weights = jnp.pad(weight, (0, padding))
    # One more start than there are: what an idle slot works on, and where it writes.
    firsts = jax.vmap(first_mixture)(jnp.concatenate([starts, starts[:1]]))

    def begin(start: jax.Array) -> Mixture:
        return Mixture(*(field[start] for field in firsts))

    def step(pool: Pool) -> Pool:
        mixture, likelihood = jax.vmap(em_step, (0, None, None, None))(
            pool.mixture, columns, weights, ridge
        )
        taken = pool.steps + 1
        done = (jnp.abs(likelihood - pool.likelihood) < tolerance) | (taken >= steps)
        place = jnp.where(done, pool.start, count)
        found = jax.tree.map(
            lambda kept, new: kept.at[place].set(new), pool.found, Found(mixture, likelihood, taken)
        )
        turn = pool.next + jnp.cumsum(done).astype(jnp.int32) - 1
        start = jnp.where(done, jnp.minimum(turn, count), pool.start)
        return Pool(
            start=start,
            steps=jnp.where(done, 0, taken),
            likelihood=jnp.where(done, -jnp.inf, likelihood),
            mixture=choose(done, begin(start), mixture),
            next=pool.next + jnp.sum(done).astype(jnp.int32),
            found=found,
        )

    first = jnp.arange(slots, dtype=jnp.int32)
    nothing = Found(firsts, jnp.zeros(count + 1), jnp.zeros(count + 1, jnp.int32))
    pool = Pool(
        start=first,
        steps=jnp.zeros(slots, jnp.int32),
        likelihood=jnp.full(slots, -jnp.inf),
        mixture=begin(first),
        next=jnp.int32(slots),
        found=nothing,
    )
    pool = jax.lax.while_loop(lambda now: jnp.any(now.start < count), step, pool)
    mixture, likelihood, taken = pool.found
    return Found(Mixture(*(field[:-1] for field in mixture)), likelihood[:-1], taken[:-1])
