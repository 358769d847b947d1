"""Expectation-maximization of many Gaussian mixtures at the same time, on whitened rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Starts that run at the same time: few enough that the shares of 10,000 rows fit into the cache.
SLOTS = 4

# Rows in a partial sum: the rounding error of a float32 sum in blocks grows with log n, not n.
BLOCK = 64

# Beyond `WHOLE` rows, a step of one start reads them in pieces that fit into the cache.
WHOLE = 16_384
PIECE = 1024


class Mixture(NamedTuple):
    """A mixture of k Gaussians over f features.

    Attributes:
        log_weights: log alpha[k].
        means: mu[k f].
        factors: L[k f f], lower triangular; L L^T is the covariance.
    """

    log_weights: jax.Array
    means: jax.Array
    factors: jax.Array


class Moments(NamedTuple):
    """Sums over rows for each component: shares, shares times y, shares times y y^T; and log p."""

    mass: jax.Array
    first: jax.Array
    second: jax.Array
    log_density: jax.Array


class Fits(NamedTuple):
    """The result of each start: a mixture, its mean log-likelihood, and the number of steps."""

    mixture: Mixture
    likelihood: jax.Array
    steps: jax.Array


class Pool(NamedTuple):
    """Slots that each run one start; a slot with a converged start takes the next start."""

    start: jax.Array
    steps: jax.Array
    likelihood: jax.Array
    mixture: Mixture
    next: jax.Array
    fits: Fits


def block_sum(terms: jax.Array) -> jax.Array:
    """Sums over the last axis in blocks; its length is a multiple of `BLOCK`."""
    partial = jnp.sum(terms.reshape(*terms.shape[:-1], -1, BLOCK), axis=-1)
    # Without the barrier, XLA merges both sums into one long sum.
    block_sums: jax.Array = jax.lax.optimization_barrier(partial)  # type: ignore[no-untyped-call]
    return jnp.sum(block_sums, axis=-1)


def invert_lower(factor: jax.Array) -> jax.Array:
    """Inverts lower triangular matrices [... f f]."""
    eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=jnp.float32), factor.shape)
    return jax.scipy.linalg.solve_triangular(factor, eye, lower=True)


def e_step(
    mixture: Mixture, inverse: jax.Array, rows: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Computes rows in component coordinates y[k f n], shares[k n] and weighted log p[n].

    Args:
        mixture: alpha, mu, L.
        inverse: L^-1[k f f].
        rows: z[f n].
        weight: [n].
    """
    log_weights, means, factors = mixture
    # y = L^-1 (z - mu): in these coordinates each component is a standard Gaussian.
    own = jnp.einsum("kab,kbn->kan", inverse, rows - means[:, :, None])

    log_det = jnp.sum(jnp.log(jnp.diagonal(factors, axis1=-2, axis2=-1)), axis=-1)
    constant = 0.5 * means.shape[-1] * jnp.log(jnp.float32(2.0 * jnp.pi))
    log_joint = (log_weights - log_det - constant)[:, None] - 0.5 * jnp.sum(own**2, axis=1)
    log_row = jax.nn.logsumexp(log_joint, axis=0)
    return own, jnp.exp(log_joint - log_row) * weight, weight * log_row


def sum_blocks(own: jax.Array, shares: jax.Array, log_rows: jax.Array) -> Moments:
    """Sums the moments of a whole table, first within blocks of rows, then over blocks."""
    shared = shares[:, None, :] * own
    cut = (*own.shape[:2], -1, BLOCK)
    products = jnp.einsum("kaij,kbij->ikab", shared.reshape(cut), own.reshape(cut))
    return Moments(
        block_sum(shares), block_sum(shared), jnp.sum(products, axis=0), block_sum(log_rows)
    )


def sum_piece(own: jax.Array, shares: jax.Array, log_rows: jax.Array) -> Moments:
    """Sums the moments of one piece of a table, which is short enough for plain sums."""
    return Moments(
        jnp.sum(shares, axis=-1),
        jnp.einsum("kn,kan->ka", shares, own),
        jnp.einsum("kan,kbn->kab", shares[:, None, :] * own, own),
        jnp.sum(log_rows),
    )


def em_step(
    mixture: Mixture, rows: jax.Array, weight: jax.Array, ridge: jax.Array
) -> tuple[Mixture, jax.Array]:
    """Takes one E-step and one M-step.

    The moments are computed in component coordinates y = L^-1 (z - mu), where the old mean is 0 and
    the old covariance is I. There, new moments are small corrections, L <- L chol(cov y). This
    keeps float32 within 1e-4 nats of float64 after 100 steps.

    Args:
        mixture: alpha, mu, L.
        rows: z[f n]; n is a multiple of `BLOCK`, and beyond `WHOLE` rows of `PIECE`.
        weight: [n], 0 for padding.
        ridge: [f f], added to each covariance.

    Returns:
        The new mixture, and the mean log-likelihood of the old one.
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

    # An empty component keeps its mean and shrinks to the ridge: it is finite and never chosen.
    mass = sums.mass + 1e-12
    first = sums.first / mass[:, None]
    second = sums.second / mass[:, None, None]
    own_ridge = jnp.einsum("kab,bc,kdc->kad", inverse, ridge, inverse)
    covariance = second - first[:, :, None] * first[:, None, :] + own_ridge
    moved = jnp.einsum("kab,kbc->kac", factors, jnp.linalg.cholesky(covariance))
    # If a component jumps to a few distant rows, its matrix may be indefinite from rounding. Then
    # only its mean moves, and the next step, which starts there, is exact.
    definite = jnp.all(jnp.isfinite(moved), axis=(-2, -1), keepdims=True)

    updated = Mixture(
        jnp.log(mass / jnp.sum(mass)),
        means + jnp.einsum("kab,kb->ka", factors, first),
        jnp.where(definite, moved, factors),
    )
    return updated, sums.log_density / jnp.maximum(jnp.sum(weight), 1e-12)


def first_mixture(means: jax.Array) -> Mixture:
    """Returns a mixture with these means, equal weights, and covariance I, as rows are white."""
    k, f = means.shape
    eye = jnp.broadcast_to(jnp.eye(f, dtype=jnp.float32), (k, f, f))
    return Mixture(jnp.full(k, -jnp.log(jnp.float32(k))), means, eye)


def choose(flag: jax.Array, yes: Mixture, no: Mixture) -> Mixture:
    """Selects `yes` for slots with the flag set, and `no` for the others."""

    def choose_array(if_true: jax.Array, if_false: jax.Array) -> jax.Array:
        flags = flag.reshape((-1,) + (1,) * (if_true.ndim - 1))  # one for each slot
        return jnp.where(flags, if_true, if_false)

    return Mixture(*map(choose_array, yes, no))


def fit_starts(
    rows: jax.Array, weight: jax.Array, ridge: jax.Array, starts: jax.Array, *, steps: int,
    tolerance: float, most: jax.Array | None = None
) -> Fits:  # fmt: skip
    """Runs expectation-maximization from several starts, until a step gains less than `tolerance`.

    `SLOTS` starts run at the same time, and a slow start does not delay the others.

    Args:
        rows: z[n f], white.
        weight: [n].
        ridge: [f f].
        starts: the first means, [s k f].
        steps: the largest number of steps of a start.
        tolerance: the change of the mean log-likelihood that ends a start, in nats.
        most: the number of starts to run, by default all. The other starts have zero steps and a
            likelihood of minus infinity.
    """
    count = starts.shape[0]
    last = count if most is None else most
    slots, multiple = (min(SLOTS, count), BLOCK) if rows.shape[0] <= WHOLE else (1, PIECE)
    padding = -rows.shape[0] % multiple
    columns = jnp.pad(rows, ((0, padding), (0, 0))).T
    weights = jnp.pad(weight, (0, padding))
    # One additional start, which idle slots run and write to.
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
        latest = Fits(mixture, likelihood, taken)
        fits = jax.tree.map(lambda old, new: old.at[write_to].set(new), pool.fits, latest)
        # Slots that are done take the next starts in order, and idle after the last one.
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
    steps_taken, likelihood = jnp.zeros(slots, jnp.int32), jnp.full(slots, -jnp.inf)
    pool = Pool(first, steps_taken, likelihood, begin(first), jnp.int32(slots), no_fits)
    pool = jax.lax.while_loop(lambda pool: jnp.any(pool.start < count), step, pool)
    mixture, likelihood, taken = pool.fits
    return Fits(Mixture(*(field[:-1] for field in mixture)), likelihood[:-1], taken[:-1])
