"""PC: Gaussian prototypes of the scores of each label's rows, fitted without labels."""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base
from batch_calibration.calibration.mixture import Fits, fit_starts, invert_lower
from batch_calibration.errors import InputError, answering, extra, refuse_unknown
from batch_calibration.typing import AnyArray, Factors, Key, Means, ProbeRows, Rows, Scores, Starts

MOST_PERMUTED = 8  # 8! = 40,320 permutations are still a small table


def assign(affinity: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Finds the one-to-one assignment of largest sum: argmax_order sum_j affinity[order_j, j].

    Args:
        affinity: [cluster k, label k], the gain of a cluster from each label.

    Raises:
        InputError: more than 8 labels if optax is not installed.

    Returns:
        order[label], the cluster of each label, and the sum. For k <= 8, equal sums give the first
        order in lexicographic order.

    >>> order, total = assign(jnp.array([[0.0, 5.0], [1.0, 0.0]]))
    >>> order.tolist(), total.item()
    ([1, 0], 6.0)
    """
    labels = jnp.arange(affinity.shape[-1], dtype=jnp.int32)
    if affinity.shape[-1] <= MOST_PERMUTED:
        orders = jnp.asarray(np.array(list(permutations(range(len(labels)))), np.int32))
        totals = jnp.sum(affinity[orders, labels], axis=-1)
        return orders[jnp.argmax(totals)], jnp.max(totals)

    # Imported here, because optax loads absl and `import batch_calibration` must not.
    where = f"pc with more than {MOST_PERMUTED} labels"
    with answering(ImportError, where, "optax", extra("models")):
        from optax.assignment import hungarian_algorithm

    cluster, label = hungarian_algorithm(-affinity)
    order = jnp.zeros_like(labels).at[label].set(cluster.astype(jnp.int32))
    return order, jnp.sum(affinity[order, labels])


COVARIANCE_RIDGE = 1e-6
"""The ridge on the diagonal of each covariance, in squared nats (scikit-learn's reg_covar)."""

MOST_LABELS = 20
"""The largest number of labels: a full covariance has k (k + 1) / 2 numbers per label."""

SEARCHED = 131_072
"""The most rows on which all starts are run: 100 starts on 100,000 x 4 scores take seconds."""

REFINED = 20
"""The number of starts that are run on all rows of a larger table, after a search on a sample."""


def raw(log_probs: Rows) -> jax.Array:
    """Returns the log-probabilities unchanged."""
    return jnp.asarray(log_probs)


FEATURES: dict[str, Callable[[Rows], jax.Array]] = {"normalized": base.label_normalized, "raw": raw}
"""Name -> function that maps log-probabilities [n k] to the features of the prototypes."""


class Prototypes(NamedTuple):
    """One Gaussian per label over the features x of a row.

    Attributes:
        means: mu[label k], in nats.
        factors: F[label k k], lower triangular; F^T F is the inverse covariance.
        log_weights: log alpha[label], the mixing coefficients.
        log_likelihood: mean log-likelihood per row, in nats, from the last E-step.
    """

    means: Means
    factors: Factors
    log_weights: jax.Array
    log_likelihood: jax.Array


@base.full_precision
def densities(state: Prototypes, rows: Rows) -> Scores:
    """Computes the log density of each row under each prototype, log N(x_i; mu_j, Sigma_j)."""
    centered = rows[:, None, :] - state.means  # [n, label, k]
    residuals = jnp.einsum("jab,njb->nja", state.factors, centered)
    log_scale = jnp.sum(jnp.log(jnp.diagonal(state.factors, axis1=-2, axis2=-1)), axis=-1)
    constant = 0.5 * rows.shape[-1] * jnp.log(jnp.float32(2.0 * jnp.pi))
    return log_scale - constant - 0.5 * jnp.sum(residuals**2, axis=-1)


def draw_rows(key: Key, weight: jax.Array, count: int) -> jax.Array:
    """Draws the indices of distinct present rows, [count], followed by absent rows if needed.

    Threefry is partitionable: the random numbers of the first rows do not depend on the number of
    rows of weight 0 after them, so padding changes nothing.
    """
    # The largest random numbers are a draw without replacement; -1 puts absent rows last.
    race = jnp.where(weight > 0, jax.random.uniform(key, weight.shape), -1.0)
    return jax.lax.top_k(race, count)[1]


def draw_starts(key: Key, rows: jax.Array, weight: jax.Array, starts: int) -> jax.Array:
    """Draws distinct present rows as first means, [starts k k]; repeats rows if fewer than k."""
    labels = rows.shape[-1]

    def draw(start_key: jax.Array) -> jax.Array:
        first = draw_rows(start_key, weight, min(labels, rows.shape[0]))
        present_rows = jnp.clip(jnp.sum(weight > 0).astype(jnp.int32), 1, first.shape[0])
        return rows[first[jnp.arange(labels, dtype=jnp.int32) % present_rows]]

    drawn: jax.Array = jax.lax.map(draw, jax.random.split(key, starts))
    return drawn


def covariance_factor(residuals: jax.Array, weight: jax.Array) -> jax.Array:
    """Computes the lower Cholesky factor of the ridged covariance of centered rows.

    QR is applied to the rows instead of their products, where a single row 60 nats away would be so
    large that rounding removes the ridge.
    """
    shares = jnp.sqrt(weight / jnp.maximum(jnp.sum(weight), 1e-12))[:, None]
    eye = jnp.eye(residuals.shape[-1], dtype=jnp.float32)
    ridge = jnp.sqrt(jnp.float32(COVARIANCE_RIDGE)) * eye
    upper = jnp.linalg.qr(jnp.concatenate([shares * residuals, ridge]), mode="r")
    return (upper * jnp.where(jnp.diagonal(upper) < 0, -1.0, 1.0)[:, None]).T


@partial(
    jax.jit, static_argnames=("features", "starts", "steps", "tolerance", "select", "searched")
)
@base.full_precision
def fit_prototypes(
    log_probs: ProbeRows,
    weight: jax.Array,
    key: Key | None,
    start_means: Starts | None,
    *,
    features: str,
    starts: int,
    steps: int,
    tolerance: float,
    select: str,
    searched: int,
) -> Prototypes:
    """Fits mixtures from several starts and returns the best, with components in label order."""
    present = weight[:, None] > 0
    rows = FEATURES[features](jnp.where(present, log_probs, 0.0))
    center = base.weighted_mean(rows, weight)
    residuals = jnp.where(present, rows - center, 0.0)

    # Normalized rows lie near a curved (k - 1)-surface and are thin in one direction. White rows
    # keep float32 accurate. The ridge is whitened too, so that the objective does not change.
    factor = covariance_factor(residuals, weight)
    whitening = invert_lower(factor)
    white = residuals @ whitening.T
    ridge = COVARIANCE_RIDGE * whitening @ whitening.T
    fit = partial(fit_starts, ridge=ridge, steps=steps, tolerance=tolerance)

    def judge(fits: Fits) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Computes each mixture's means in nats, the cluster of each label, and its merit."""
        means = center + fits.mixture.means @ factor.T
        orders, totals = jax.lax.map(assign, means)
        merit = totals if select == "assignment" else fits.likelihood
        is_valid = jnp.isfinite(merit) & (fits.steps > 0)
        return means, orders, jnp.where(is_valid, merit, -jnp.inf)

    most = None
    if start_means is not None:
        firsts = (start_means - center) @ whitening.T
    else:
        assert key is not None  # `prototypes` requires a key
        firsts = draw_starts(key, white, weight, starts)
        if rows.shape[0] > searched and starts > REFINED:
            # Rows of weight 0 may follow, so only present rows are counted.
            many = jnp.sum(present) > searched
            sample = draw_rows(jax.random.split(key, starts + 1)[-1], weight, searched)
            count = jnp.where(many, starts, 0)
            tried = fit(white[sample], weight[sample], starts=firsts, most=count)
            firsts = firsts[jnp.argsort(-judge(tried)[2])]
            most = jnp.where(many, REFINED, starts)
    fits = fit(white, weight, starts=firsts, most=most)

    # The clusters of the best start, in label order and in nats.
    means, orders, merit = judge(fits)
    best = jnp.argmax(merit)
    order = orders[best]
    return Prototypes(
        means[best][order],
        invert_lower(fits.mixture.factors[best])[order] @ whitening,
        fits.mixture.log_weights[best][order],
        fits.likelihood[best] + jnp.sum(jnp.log(jnp.diagonal(whitening))),
    )


def prototypes(
    *,
    features: str = "normalized",
    starts: int = 100,
    steps: int = 100,
    tolerance: float = 1e-3,
    select: str = "assignment",
    fitted_weights: bool = False,
    start_means: AnyArray | None = None,
    searched: int = SEARCHED,
) -> base.Calibrator:
    """Predicts the most probable of k Gaussian prototypes: argmax_j P_G(x; mu_j, Sigma_j).

    A mixture with full covariances is fitted to x, the log-probabilities of the batch, by
    expectation-maximization from many starts (Han et al. 2023; the paper's sec. 3.2 and app. D). A
    start has k distinct random rows as means, the covariance of all rows, and equal weights.
    Clusters are assigned to labels so that sum_j mu_order(j),j is largest. The start with the
    largest sum is kept. Scores are log densities in nats.

    Args:
        features: "normalized" normalizes x over the labels; for two labels the boundary is then a
            line along the diagonal. "raw" leaves x unchanged, and the boundary may bend (the
            paper's Fig. 2); it needs log-probabilities, because a constant per row matters.
        starts: the number of starts.
        steps: the largest number of EM steps of a start.
        tolerance: the change of the mean log-likelihood that ends a start, in nats.
        select: "assignment" keeps the start with the best assignment, "likelihood" the start with
            the highest likelihood.
        fitted_weights: True adds the log mixing coefficients to the scores.
        start_means: first means [s k k] in nats instead of random ones; then no key is needed.
        searched: the most present rows on which all random starts are run. In a larger table, they
            are run on a sample of this size, and the 20 best are run again on all rows.

    Raises:
        InputError: unknown `features` or `select`; starts, steps or searched below 1; `fit` without
            a key; more than 20 labels.

    >>> rows = jnp.log(jnp.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5]]))
    >>> fit, apply_ = prototypes(starts=4)
    >>> jnp.argmax(apply_(fit(rows, key=jax.random.key(0)), rows), axis=-1).tolist()
    [0, 0, 1, 1]
    """
    refuse_unknown("kind of features", features, FEATURES)
    refuse_unknown("way to select a start", select, ("assignment", "likelihood"))
    if min(starts, steps, searched) < 1:
        expected = "at least 1 start, 1 step and 1 row to search"
        got = f"starts={starts}, steps={steps}, searched={searched}"
        raise InputError.at("pc", expected, got, "give whole numbers from 1 on")

    def learn(probe: base.ProbeScores) -> Prototypes:
        if probe.log_probs.shape[-1] > MOST_LABELS:
            expected = f"at most {MOST_LABELS} labels, because pc fits full covariance matrices"
            raise InputError.at("scores", expected, probe.log_probs.shape[-1], "use bc")
        if probe.key is None and start_means is None:
            raise InputError(
                "pc starts from random rows and needs a key: give key=jax.random.key(0) to fit, "
                "or key=0 to calibrate."
            )
        best: Prototypes = fit_prototypes(
            jnp.asarray(probe.log_probs),
            probe.weights,
            probe.key,
            None if start_means is None else jnp.asarray(start_means, jnp.float32),
            features=features,
            starts=starts,
            steps=steps,
            tolerance=tolerance,
            select=select,
            searched=searched,
        )
        return best

    def apply(state: Prototypes, log_probs: Rows, /) -> Scores:
        scores = densities(state, FEATURES[features](log_probs))
        return scores + state.log_weights if fitted_weights else scores

    return base.Calibrator.of(learn, apply)
