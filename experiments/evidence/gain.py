"""The expected gain of a correction, by three numbers of the scores and two of their use.

Of two labels, let a row's margin s_1 - s_2 be N(beta + delta, sigma_1^2) where the first is right
and N(beta - delta, sigma_2^2) where the second is. A correction moves the threshold between them
from 0 to c, which is random, for it is learned from rows. docs/when-it-helps.md derives what
follows.

Limits: margins that are skewed or have heavy tails (the sign of a gain is safer than its size), and
prior matching learned from few rows: 10 rows are off by more than a point in a third of cases.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.calibration.base import full_precision
from batch_calibration.calibration.matching import match
from batch_calibration.errors import InputError, refuse_unknown

Correction = Literal["bc", "prior_matching"]
GRID_ENDS, GRID_POINTS = 8.0, 513
"""Ends of the grid of a margin's density, in sigmas, and its number of points."""
BISECTIONS = 40
ROUNDING = 1e-6
"""Of a gain, by float32."""
LATTICE_POINTS = 1021
"""Points of k - 1 dimensions over which integrals for k labels are averaged."""
LEAST_NORMAL = 1e-37
"""A normal number of float32; smaller probabilities count as this."""


class Margins(NamedTuple):
    """Margins of two labels, s_1 - s_2, in nats; numbers, or arrays that broadcast.

    Attributes:
        bias: beta, the mean of both labels' mean margins: the preference for the first label.
        separation: delta, half of what these means differ by: what the scores tell.
        spread: sigma, the standard deviation of the margins of one label; a tuple of two where
            those of the first label and of the second differ.
    """

    bias: ArrayLike
    separation: ArrayLike
    spread: ArrayLike | tuple[ArrayLike, ArrayLike]


class LabelScores(NamedTuple):
    """Scores of k labels, Gaussian for each right label, in nats.

    Attributes:
        means: [k, k], the mean scores of rows whose right label is that of the line.
        covariance: [k, k], of the scores around the mean of their right label; [k, k, k] where
            each right label has one of its own.
    """

    means: jax.Array
    covariance: jax.Array


class Threshold(NamedTuple):
    """The shift by a correction: a margin's threshold, or a bias [k] with its covariance."""

    mean: jax.Array
    variance: jax.Array


@usual_jax
def expected_accuracy(
    scores: Margins | LabelScores,
    share: ArrayLike,
    rows: ArrayLike = np.inf,
    *,
    strength: ArrayLike = 1.0,
    correction: Correction = "bc",
    stated_share: ArrayLike | None = None,
) -> jax.Array:
    """The expected accuracy after a correction, from 0 to 1; before any with `strength=0`.

    With s_j^2 = sigma_j^2 + v, for a threshold of mean c and variance v it is, of two labels,
    pi Phi((beta + delta - c) / s_1) + (1 - pi) Phi((c - beta + delta) / s_2).

    Args:
        scores: three numbers of two labels, or the Gaussians of k labels.
        share: pi, the share of the first label, or the shares [k]; a label may have none. Of two
            labels all arguments may be arrays that broadcast.
        rows: m, how many other rows the bias is learned from, labels drawn by `share`; infinite
            where it is known.
        strength: gamma, the part of the bias that is subtracted.
        correction: "bc", or "prior_matching", which gives the mean probability after correction a
            stated share.
        stated_share: that share, or these shares [k]; `share` itself where it is not given.

    Raises:
        InputError: an unknown correction.

    >>> biased = Margins(bias=2.0, separation=1.0, spread=1.0)
    >>> round(float(expected_accuracy(biased, 0.5, strength=0.0)), 3)
    0.579
    >>> round(float(expected_accuracy(biased, 0.5, 100)), 3)
    0.839
    """
    refuse_unknown("correction", correction, get_args(Correction))
    stated = share if stated_share is None else stated_share
    if isinstance(scores, LabelScores):
        shares = _shares(share, len(scores.means))
        stated = _shares(stated, len(scores.means))
        numbers = shares, rows, strength, stated
        return jnp.asarray(_accuracy_of_labels(scores, numbers, correction=correction))
    spreads = scores.spread if isinstance(scores.spread, tuple) else (scores.spread, scores.spread)
    numbers_of_pair = (scores.bias, scores.separation, *spreads, share, rows, strength, stated)
    as_arrays = [jnp.asarray(number, jnp.float32) for number in numbers_of_pair]
    return jnp.asarray(_accuracy_of_pair(as_arrays, correction=correction))


@usual_jax
def expected_gain(
    scores: Margins | LabelScores,
    share: ArrayLike,
    rows: ArrayLike = np.inf,
    *,
    strength: ArrayLike = 1.0,
    correction: Correction = "bc",
    stated_share: ArrayLike | None = None,
) -> jax.Array:
    """The expected accuracy after a correction less that before, from -1 to 1.

    Args:
        scores: see `expected_accuracy`, for this and all others.
        share: of the first label, or of each.
        rows: that the bias is learned from.
        strength: the part of it that is subtracted.
        correction: "bc" or "prior_matching".
        stated_share: for prior matching.

    >>> biased = Margins(bias=2.0, separation=1.0, spread=1.0)
    >>> [round(float(expected_gain(biased, share, 100)), 2) for share in (0.5, 0.7, 0.95)]
    [0.26, 0.04, -0.4]
    """
    after = expected_accuracy(
        scores, share, rows, strength=strength, correction=correction, stated_share=stated_share
    )
    return after - expected_accuracy(scores, share, strength=0.0)


@usual_jax
def break_even_shares(
    margins: Margins, *, strength: ArrayLike = 1.0
) -> tuple[jax.Array, jax.Array]:
    """Between which shares of the first label BC gains where its bias is learned from many rows.

    At a share of one half the whole bias is best removed where both spreads are equal, so that BC
    never loses there. Where the label that the scores do not prefer is the frequent one, it gains
    up to a share of 1/2 + |beta| / (2 delta), at which it subtracts nothing; on the other side the
    end is sought.

    Args:
        margins: three numbers of two labels, or arrays that broadcast.
        strength: gamma, the part of the bias that is subtracted.

    Returns:
        The least and the greatest share around one half, 0 or 1 where BC gains up to there; NaN
        where it loses at one half, as it can with unequal spreads. Where delta is more than five
        spreads gains round to 0 in float32, and the ends are where it begins to lose.

    >>> low, high = break_even_shares(Margins(bias=-0.5, separation=1.0, spread=1.0))
    >>> round(float(low), 3), round(float(high), 3)
    (0.419, 0.75)
    """
    shape = jnp.broadcast_shapes(*map(jnp.shape, jax.tree.leaves((margins, strength))))
    loses = expected_gain(margins, 0.5, strength=strength) < -ROUNDING

    def search(end: float) -> jax.Array:
        gaining, losing = jnp.full(shape, 0.5), jnp.full(shape, end)
        for _ in range(BISECTIONS):
            middle = (gaining + losing) / 2
            gains = expected_gain(margins, middle, strength=strength) >= 0
            gaining, losing = jnp.where(gains, middle, gaining), jnp.where(gains, losing, middle)
        # Up to the end itself where it gains there, too.
        reached = jnp.where(expected_gain(margins, end, strength=strength) >= 0, end, gaining)
        return jnp.where(loses, jnp.nan, reached)

    return search(0.0), search(1.0)


def _shares(share: ArrayLike, labels: int) -> jax.Array:
    shares = jnp.asarray(share, jnp.float32)
    total = shares.sum()
    # A traced sum has no value to look at.
    has_sum = isinstance(total, jax.core.Tracer) or abs(float(total) - 1.0) < 1e-3
    if shares.shape != (labels,) or not has_sum:
        expected = f"the shares of {labels} labels, which sum to 1"
        remedy = "give one for each label"
        raise InputError.at("share", expected, np.round(np.asarray(shares), 4).tolist(), remedy)
    return shares


@partial(jax.jit, static_argnames="correction")
@full_precision
def _accuracy_of_pair(numbers: Sequence[jax.Array], *, correction: Correction) -> jax.Array:
    bias, separation, first, second, share, rows, strength, stated = numbers
    if correction == "bc":
        # The mean margin of m rows, and its variance: within the labels and between them.
        mean = strength * (bias + separation * (2 * share - 1))
        within = share * first**2 + (1 - share) * second**2
        between = 4 * share * (1 - share) * separation**2
        threshold = Threshold(mean, strength**2 * (within + between) / rows)
    else:
        threshold = _matching_threshold([*numbers[:6], stated])
    s_1, s_2 = jnp.sqrt(first**2 + threshold.variance), jnp.sqrt(second**2 + threshold.variance)
    first_right = ndtr((bias + separation - threshold.mean) / s_1)
    second_right = ndtr((threshold.mean - bias + separation) / s_2)
    return share * first_right + (1 - share) * second_right


def _matching_threshold(numbers: Sequence[jax.Array]) -> Threshold:
    """The b of mean sigmoid(margin - b) = stated share, and its variance over m rows."""
    grid = jnp.linspace(-GRID_ENDS, GRID_ENDS, GRID_POINTS)
    density = jax.nn.softmax(-(grid**2) / 2)  # of one label, in sigmas
    # The grid is a last axis beside whatever the arguments broadcast to.
    columns = (number[..., None] for number in jnp.broadcast_arrays(*numbers))
    bias, separation, first, second, share, rows, stated = columns
    margins = jnp.concatenate(
        [bias + separation + first * grid, bias - separation + second * grid], axis=-1
    )
    weights = jnp.concatenate([share * density, (1 - share) * density], axis=-1)

    def mean_share(b: jax.Array) -> jax.Array:
        return jnp.sum(weights * jax.nn.sigmoid(margins - b), axis=-1, keepdims=True)

    # The mean probability falls as b rises: halving finds it, whatever the shares.
    reach = jnp.abs(bias) + separation + GRID_ENDS * jnp.maximum(first, second) + 40.0

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        is_above = mean_share(middle) > stated
        return jnp.where(is_above, middle, low), jnp.where(is_above, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (-reach, reach))
    b = (low + high) / 2
    probs = jax.nn.sigmoid(margins - b)
    mean = jnp.sum(weights * probs, axis=-1)
    slope = jnp.sum(weights * probs * (1 - probs), axis=-1)
    # The delta method: b solves an equation in a mean of m probabilities.
    variance = (jnp.sum(weights * probs**2, axis=-1) - mean**2) / (slope**2 * rows[..., 0])
    return Threshold(b[..., 0], variance)


@partial(jax.jit, static_argnames="correction")
@full_precision
def _accuracy_of_labels(
    scores: LabelScores, numbers: Sequence[jax.Array], *, correction: Correction
) -> jax.Array:
    shares, rows, strength, stated = numbers
    k = len(shares)
    within = jnp.broadcast_to(scores.covariance, (k, k, k))  # of each right label
    if correction == "bc":
        mean = shares @ scores.means
        deviations = scores.means - mean
        covariance = jnp.tensordot(shares, within, 1) + (deviations.T * shares) @ deviations
        subtracted = Threshold(strength * mean, strength**2 * covariance / rows)
    else:
        subtracted = _matching_bias(scores.means, within, shares, rows, stated)
    noise, means = within + subtracted.variance, scores.means - subtracted.mean
    right = [_largest_at(label, means[label], noise[label]) for label in range(k)]
    return shares @ jnp.stack(right)


def _matching_bias(
    means: jax.Array, within: jax.Array, shares: jax.Array, rows: jax.Array, stated: jax.Array
) -> Threshold:
    """The b of mean softmax(s - b) = stated shares, and its covariance over m rows."""
    k = len(shares)
    roots = jnp.linalg.cholesky(within + jax.vmap(_ridge)(within))
    normal = ndtri(_lattice(k)) @ roots.mT  # [k, points, k]
    rows_of_labels = (means[:, None] + normal).reshape(-1, k)
    weights = jnp.repeat(shares / LATTICE_POINTS, LATTICE_POINTS)
    expected = jnp.maximum(stated, 1e-4) / jnp.maximum(stated, 1e-4).sum()
    b = match(rows_of_labels, expected, weights)
    probs = jax.nn.softmax(rows_of_labels - b, axis=-1)
    mean = weights @ probs
    products = (probs.T * weights) @ probs  # [k, k], mean p p'
    # Singular along 1, as a constant on all labels changes nothing.
    inverse = jnp.linalg.pinv(jnp.diag(mean) - products, hermitian=True)
    covariance = products - jnp.outer(mean, mean)
    return Threshold(b, inverse @ covariance @ inverse / rows)


def _largest_at(label: int, means: jax.Array, covariance: jax.Array) -> jax.Array:
    """The probability that one of k Gaussian scores is the largest, by Genz (1992).

    Of two labels it is exact; of more the points of a lattice leave an error of about 1e-4.
    """
    k = len(means)
    less = jnp.delete(jnp.eye(k)[label] - jnp.eye(k), label, axis=0, assume_unique_indices=True)
    differences, spread = less @ means, less @ covariance @ less.T  # [k - 1], [k - 1, k - 1]
    root = jnp.linalg.cholesky(spread + _ridge(spread))
    uniform = _lattice(k - 1)
    normal = jnp.zeros_like(uniform)  # the differences' noise, conditioned on being large enough
    above = jnp.ones(len(uniform))
    for i in range(k - 1):
        chance = ndtr((differences[i] + normal @ root[i]) / root[i, i])
        above = above * chance
        conditioned = -ndtri(jnp.maximum(uniform[:, i] * chance, LEAST_NORMAL))
        normal = normal.at[:, i].set(conditioned)
    return above.mean()


def _ridge(covariance: jax.Array) -> jax.Array:
    """A ridge for a singular covariance, as scores less their row's mean have it."""
    return 1e-6 * jnp.maximum(jnp.trace(covariance), 1e-6) * jnp.eye(len(covariance))


def _lattice(dimensions: int) -> jax.Array:
    """Points [points, d] that fill the unit cube evenly: multiples of square roots of primes."""
    primes = np.arange(2, 400)
    for divisor in range(2, 20):  # 20^2 = 400
        primes = primes[(primes == divisor) | (primes % divisor > 0)]
    steps = np.sqrt(primes[:dimensions].astype(np.float64))
    points = (np.outer(np.arange(1, LATTICE_POINTS + 1), steps) + 0.5) % 1.0
    # Folded, so that the integrand is periodic; away from 0 and 1, where the quantile is infinite.
    folded = 1 - np.abs(2 * points - 1)
    return jnp.asarray(np.clip(folded, 1e-6, 1 - 1e-6), jnp.float32)
