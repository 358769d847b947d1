"""Expectation-maximization of many Gaussian mixtures at once, on whitened rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Starts worked on at a time: few enough that the shares of 10,000 rows stay in the cache.
SLOTS = 4

# Rows summed before the partial sums are: a float32 sum of n terms loses log n, not n, roundings.
BLOCK = 64

# Beyond `WHOLE` rows a step of one start takes them a piece at a time, which stays in the cache.
WHOLE = 16_384
PIECE = 1024


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


class Moments(NamedTuple):
    """Sums over rows, of component k: its shares; shares times y; shares times y y^T; and log p."""

    mass: jax.Array
    first: jax.Array
    second: jax.Array
    log_density: jax.Array


class Fits(NamedTuple):
    """The result of each start: a mixture, its mean log-likelihood, and the steps it took."""

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
    fits: Fits


def block_sum(terms: jax.Array) -> jax.Array:
    """The sum over the last axis, whose length is a multiple of `BLOCK`."""
    partial = jnp.sum(terms.reshape(*terms.shape[:-1], -1, BLOCK), axis=-1)
    # Without the barrier XLA merges both sums into one long one.
    block_sums: jax.Array = jax.lax.optimization_barrier(partial)  # type: ignore[no-untyped-call]
    return jnp.sum(block_sums, axis=-1)


def invert_lower(factor: jax.Array) -> jax.Array:
    """The inverse of lower triangular matrices [... f f]."""
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=jnp.float32), factor.shape)
    return jax.scipy.linalg.solve_triangular(factor, eye, lower=True)


def e_step(
    mixture: Mixture, inverse: jax.Array, rows: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The rows in each component's coordinates y[k f n], its shares[k n], weighted log p[n].

    Args:
        mixture: alpha, mu, L.
        inverse: L^-1[k f f].
        rows: z[f n].
        weight: [n].
    """
    log_weights, means, factors = mixture
    # L^-1 (z - mu): a component sees itself as a standard Gaussian.
    own = jnp.einsum("kab,kbn->kan", inverse, rows - means[:, :, None])

    log_det = jnp.sum(jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1)), axis=-1)
    constant = 0.5 * means.shape[-1] * jnp.log(jnp.float32(2.0 * jnp.pi))
    log_joint = (log_weights - log_det - constant)[:, None] - 0.5 * jnp.sum(own**2, axis=1)
    log_row = jax.nn.logsumexp(log_joint, axis=0)
    return own, jnp.exp(log_joint - log_row) * weight, weight * log_row


def sum_blocks(own: jax.Array, shares: jax.Array, log_rows: jax.Array) -> Moments:
    """The moments of a whole table: sums of blocks of rows, then of these."""
    shared = shares[:, None, :] * own
    cut = (*own.shape[:2], -1, BLOCK)
    products = jnp.einsum("kaij,kbij->ikab", shared.reshape(cut), own.reshape(cut))
    return Moments(
        block_sum(shares), block_sum(shared), jnp.sum(products, axis=0), block_sum(log_rows)
    )


def sum_piece(own: jax.Array, shares: jax.Array, log_rows: jax.Array) -> Moments:
    """The moments of a piece, which is a block of its own."""
    return Moments(
        jnp.sum(shares, axis=-1),
        jnp.einsum("kn,kan->ka", shares, own),
        jnp.einsum("kan,kbn->kab", shares[:, None, :] * own, own),
        jnp.sum(log_rows),
    )


def em_step(
    mixture: Mixture, rows: jax.Array, weight: jax.Array, ridge: jax.Array
) -> tuple[Mixture, jax.Array]:
    """One E-step and one M-step, and the mean log-likelihood of the E-step.

    Each component sees the rows in its own coordinates y = L^-1 (z - mu), where its old mean is 0
    and its old covariance I. New moments are small corrections there, L <- L chol(cov y), which
    is what keeps float32 within 1e-4 nats of float64 after 100 steps.

    Args:
        mixture: alpha, mu, L.
        rows: z[f n]; n is a multiple of `BLOCK`, and beyond `WHOLE` of `PIECE`.
        weight: [n], 0 where padded.
        ridge: [f f], added to each covariance.
    """
    _, means, factors = mixture
    inverse = invert_lower(factors)

    def piece(start: jax.Array) -> Moments:
        piece_rows = jax.lax.dynamic_slice_in_dim(rows, start, PIECE, axis=1)
        weights = jax.lax.dynamic_slice_in_dim(weight, start, PIECE)
        return sum_piece(*e_step(mixture, inverse, piece_rows, weights))

    if rows.shape[1] <= WHOLE:
        sums = sum_blocks(*e_step(mixture, inverse, rows, weight))
    else:
        pieces = jax.lax.map(piece, jnp.arange(0, rows.shape[1], PIECE, dtype=jnp.int32))
        sums = Moments(*(jnp.sum(moment, axis=0) for moment in pieces))

    # An empty component keeps its mean and shrinks to the ridge: finite, and never chosen.
    mass = sums.mass + 1e-12
    first = sums.first / mass[:, None]
    second = sums.second / mass[:, None, None]
    own_ridge = jnp.einsum("kab,bc,kdc->kad", inverse, ridge, inverse)
    covariance = second - first[:, :, None] * first[:, None, :] + own_ridge
    moved = jnp.einsum("kab,kbc->kac", factors, jnp.linalg.cholesky(covariance))
    # A component that falls onto a few far rows at once may round to an indefinite matrix: its
    # mean moves now, and the next step, taken from there, is exact.
    definite = jnp.all(jnp.isfinite(moved), axis=(-2, -1), keepdims=True)

    updated = Mixture(
        jnp.log(mass / jnp.sum(mass)),
        means + jnp.einsum("kab,kb->ka", factors, first),
        jnp.where(definite, moved, factors),
    )
    return updated, sums.log_density / jnp.maximum(jnp.sum(weight), 1e-12)


def first_mixture(means: jax.Array) -> Mixture:
    """Equal weights, the given means, and the covariance of all rows: I, as they are white."""
    k, f = means.shape
    eye = jnp.broadcast_to(jnp.eye(f, dtype=jnp.float32), (k, f, f))
    return Mixture(jnp.full(k, -jnp.log(jnp.float32(k))), means, eye)


def choose(flag: jax.Array, yes: Mixture, no: Mixture) -> Mixture:
    """Per slot, `yes` where the flag is set, else `no`."""

    def choose_array(if_true: jax.Array, if_false: jax.Array) -> jax.Array:
        flags = flag.reshape((-1,) + (1,) * (if_true.ndim - 1))  # one for each slot
        return jnp.where(flags, if_true, if_false)

    return Mixture(*map(choose_array, yes, no))


def fit_starts(
    rows: jax.Array, weight: jax.Array, ridge: jax.Array, starts: jax.Array, *, steps: int,
    tolerance: float, most: jax.Array | None = None
) -> Fits:  # fmt: skip
    """Expectation-maximization from each of several starts, until it gains less than `tolerance`.

    The starts are worked on `SLOTS` at a time, so that one slow start holds up no other.

    Args:
        rows: z[n f], white.
        weight: [n].
        ridge: [f f].
        starts: the first means, [s k f].
        steps: the most steps a start may take.
        tolerance: in nats, on the mean log-likelihood between two steps.
        most: only so many of the starts, the first ones; all of them where none is given. The
            others are not worked on: zero steps, and a likelihood of minus infinity.
    """
    count = starts.shape[0]
    last = count if most is None else most
    slots, multiple = (min(SLOTS, count), BLOCK) if rows.shape[0] <= WHOLE else (1, PIECE)
    padding = -rows.shape[0] % multiple
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
        write_to = jnp.where(done, pool.start, count)
        fits = jax.tree.map(
            lambda stored, latest: stored.at[write_to].set(latest),
            pool.fits,
            Fits(mixture, likelihood, taken),
        )
        # Slots that are done take the next starts in their order; beyond the last they idle.
        turn = pool.next + jnp.cumsum(done).astype(jnp.int32) - 1
        start = jnp.where(done, jnp.where(turn < last, turn, count), pool.start)
        return Pool(
            start=start,
            steps=jnp.where(done, 0, taken),
            likelihood=jnp.where(done, -jnp.inf, likelihood),
            mixture=choose(done, begin(start), mixture),
            next=pool.next + jnp.sum(done).astype(jnp.int32),
            fits=fits,
        )

    first = jnp.arange(slots, dtype=jnp.int32)
    first = jnp.where(first < last, first, count)
    no_fits = Fits(firsts, jnp.full(count + 1, -jnp.inf), jnp.zeros(count + 1, jnp.int32))
    pool = Pool(
        start=first,
        steps=jnp.zeros(slots, jnp.int32),
        likelihood=jnp.full(slots, -jnp.inf),
        mixture=begin(first),
        next=jnp.int32(slots),
        fits=no_fits,
    )
    pool = jax.lax.while_loop(lambda pool: jnp.any(pool.start < count), step, pool)
    mixture, likelihood, taken = pool.fits
    return Fits(Mixture(*(field[:-1] for field in mixture)), likelihood[:-1], taken[:-1])
