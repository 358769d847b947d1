"""The three numbers of the law of gain from rows: from labeled ones, and where it can be without.

`gain.py` has the law itself.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from batch_calibration.calibration.base import full_precision
from batch_calibration.errors import InputError
from batch_calibration.methods import check_labels, check_scores
from batch_calibration.metrics import Estimate
from experiments.evidence.gain import Correction, LabelScores, Margins, expected_gain

MIN_ROWS = 8
"""Labeled rows below which a covariance is not worth computing."""
UNLIKE = 2.0
"""Two labels have a spread each where one is surely, by two standard errors, this many times the
other. On rows of real models nothing less improves the law (docs/when-it-helps.md)."""
STEPS_OF_EM = 500
SEPARATE = 2.0
"""Spreads that half the distance of two Gaussians must have: less than 5 % of them overlap."""
LEAST_COMPONENT_SHARE = 0.1
"""A Gaussian of a smaller share of the rows is as likely the tail of the other."""
STARTS = (0.2, 0.5, 0.8)
"""Where EM starts: the share of rows whose margins are taken for the second label's."""


class MixtureFit(NamedTuple):
    """Two Gaussians of one variance, fitted to margins without labels.

    Attributes:
        margins: the three numbers, of floats, if the higher one is the first label's.
        share: of the rows that the higher one holds.
        is_identified: whether the margins show the labels: two Gaussians describe them better than
            one by the Bayesian information criterion, lie two spreads or more to either side of
            their middle, and hold a tenth of the rows each. Others describe heavy tails as well
            as labels: most real scores are of this kind, and the law has no answer for them
            without labels.
        evidence: how much better two are, in nats of log-likelihood beyond the criterion's price.
    """

    margins: Margins
    share: float
    is_identified: bool
    evidence: float


def fit_margins(scores: ArrayLike, labels: ArrayLike) -> Margins:
    """The three numbers of two labels, as floats, from labeled rows.

    beta = (mu_1 + mu_2) / 2, delta = (mu_1 - mu_2) / 2 and sigma^2 the mean of both variances,
    with mu_j the mean margin of the rows whose label is j. Where one label's spread is surely twice
    the other's, sigma is both of them.

    Args:
        scores: [n, 2], in nats.
        labels: [n], column indices; -1 means unknown.

    Raises:
        InputError: other than two labels; a label without two rows.

    >>> rows = 2 * [[-1.0, -3.0], [-1.0, -2.0], [-1.0, -1.0], [-2.0, -1.0]]
    >>> fit_margins(rows, [0, 0, 1, 1, 0, 0, 1, 1])
    Margins(bias=0.5, separation=1.0, spread=0.5)
    """
    rows, gold = _labeled(scores, labels)
    if rows.shape[1] != 2:
        remedy = "use fit_label_scores for more"
        raise InputError.at("scores", "two labels, [n, 2]", f"shape {rows.shape}", remedy)
    margins = rows[:, 0] - rows[:, 1]
    by_label = [margins[gold == label] for label in (0, 1)]
    if min(map(len, by_label)) < 2:
        expected = "at least two rows of each label"
        raise InputError.at("labels", expected, [*map(len, by_label)], "label more")
    first, second = by_label
    spread = float(np.sqrt((first.var() + second.var()) / 2))
    return Margins(
        float(first.mean() + second.mean()) / 2,
        float(first.mean() - second.mean()) / 2,
        (float(first.std()), float(second.std())) if _are_unlike(first, second) else spread,
    )


def _are_unlike(first: np.ndarray, second: np.ndarray) -> bool:
    """True if one label's margins are surely `UNLIKE` times as spread as the other's."""
    logs, variance = [], 0.0
    for margins in (first, second):
        if len(margins) < MIN_ROWS or not margins.std():
            return False
        standard = (margins - margins.mean()) / margins.std()
        logs.append(np.log(margins.std()))
        # Of log sigma; of few rows the fourth moment is too small, so that it counts as a normal's.
        variance += (max(float((standard**4).mean()), 3.0) - 1) / (4 * len(margins))
    return bool(abs(logs[0] - logs[1]) - 2 * np.sqrt(variance) > np.log(UNLIKE))


def fit_label_scores(scores: ArrayLike, labels: ArrayLike) -> LabelScores:
    """The Gaussians of k labels from labeled rows, of scores less their row's mean.

    A label that no row has is given the mean of all: the law gives it no weight if its share is 0.
    Two labels have a covariance each where one's margins are surely spread twice as far.

    Args:
        scores: [n, k], in nats.
        labels: [n], column indices; -1 means unknown.

    Raises:
        InputError: fewer than 8 labeled rows or than two for each label.
    """
    rows, gold = _labeled(scores, labels)
    weight = jnp.ones(len(rows))
    fit = _weighted_fit(jnp.asarray(rows), jnp.asarray(gold), weight, _have_own(rows, gold))
    return LabelScores(*fit)


def _have_own(rows: np.ndarray, gold: np.ndarray) -> bool:
    """True if the rows are of two labels that have a covariance each."""
    margins = rows[:, 0] - rows[:, 1]
    return rows.shape[1] == 2 and _are_unlike(margins[gold == 0], margins[gold == 1])


def estimate_gain(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    share: ArrayLike | None = None,
    rows: float = np.inf,
    strength: float = 1.0,
    correction: Correction = "bc",
    draws: int = 500,
    seed: int = 0,
) -> Estimate:
    """The gain in accuracy that labeled rows let expect of a correction, with a 95 % interval.

    The interval is that of the Bayesian bootstrap: the rows are weighted anew `draws` times, by
    numbers whose distribution is exponential, and the law is computed of each.

    Args:
        scores: [n, k], in nats; 32 labeled rows tell most gains from losses.
        labels: [n], column indices; -1 means unknown.
        share: [k], the shares of labels where the correction will be used; by default the shares
            of the labeled rows, which then vary with the weights.
        rows: how many unlabeled rows the bias will be learned from.
        strength: the part of the bias that will be subtracted.
        correction: "bc" or "prior_matching".
        draws: how often rows are weighted anew.
        seed: of the weights.

    Raises:
        InputError: too few rows.

    >>> random = np.random.default_rng(0)
    >>> gold = np.arange(64) % 2
    >>> margins = 2.0 + np.where(gold == 0, 1.0, -1.0) + random.normal(size=64)
    >>> gain = estimate_gain(np.stack([margins, np.zeros(64)], axis=1), gold, rows=200)
    >>> gain.beyond_noise
    1
    """
    labeled, gold = _labeled(scores, labels)
    weights = np.random.default_rng(seed).exponential(size=(draws + 1, len(labeled)))
    weights[0] = 1.0  # the estimate itself
    stated_share = None if share is None else jnp.asarray(share, jnp.float32)
    numbers = labeled, gold, weights.astype(np.float32), stated_share, rows, strength
    gains = np.asarray(_gains(*numbers, correction, _have_own(labeled, gold)), np.float64)
    low, high = np.quantile(gains[1:], (0.025, 0.975))
    return Estimate(float(gains[0]), float(low), float(high))


@partial(jax.jit, static_argnames=("correction", "have_own"))
@full_precision
def _gains(
    scores: jax.Array, labels: jax.Array, weights: jax.Array, share: jax.Array | None,
    rows: jax.Array, strength: jax.Array, correction: Correction, have_own: bool,
) -> jax.Array:  # fmt: skip
    """The gain that the law says of rows weighted by each line of `weights` [draws, n]."""

    def gain_of(weight: jax.Array) -> jax.Array:
        law = _weighted_fit(scores, labels, weight, have_own)
        counts = jax.nn.one_hot(labels, scores.shape[1], dtype=jnp.float32).T @ weight
        shares = counts / counts.sum() if share is None else share
        return expected_gain(law, shares, rows, strength=strength, correction=correction)

    return jnp.asarray(jax.lax.map(gain_of, weights, batch_size=64))


def fit_mixture(scores: ArrayLike) -> MixtureFit:
    """The three numbers of two labels from rows without labels, and whether these show them.

    EM for two Gaussians of one variance, from three starts. The scores must be better than chance:
    the Gaussian with the higher margins is taken for the rows of the first label.

    Args:
        scores: [n, 2], in nats.

    Raises:
        InputError: other than two labels; fewer than 8 rows.
    """
    rows = np.asarray(check_scores(scores), np.float64)
    if rows.ndim != 2 or rows.shape[1] != 2 or len(rows) < MIN_ROWS:
        expected = f"at least {MIN_ROWS} rows of one prompt, [n, 2]"
        raise InputError.at("scores", expected, f"shape {rows.shape}")
    margins = rows[:, 0] - rows[:, 1]
    center, scale = margins.mean(), max(margins.std(), 1e-12)
    standard = jnp.asarray((margins - center) / scale, jnp.float32)
    fits = [_em(standard, jnp.float32(start)) for start in STARTS]
    likelihood, mean_1, mean_2, deviation, share = max(tuple(map(float, fit)) for fit in fits)
    single = float(norm.logpdf(standard).sum())
    # Two parameters more than one Gaussian has: the second mean and the share.
    evidence = likelihood - single - np.log(len(margins))
    fitted = Margins(
        float(center + scale * (mean_1 + mean_2) / 2),
        float(scale * (mean_1 - mean_2) / 2),
        float(scale * deviation),
    )
    lies_apart = (mean_1 - mean_2) / 2 >= SEPARATE * deviation
    is_identified = (
        evidence > 0 and lies_apart and LEAST_COMPONENT_SHARE <= share <= 1 - LEAST_COMPONENT_SHARE
    )
    return MixtureFit(fitted, share, bool(is_identified), float(evidence))


@jax.jit
@full_precision
def _em(margins: jax.Array, start: jax.Array) -> tuple[jax.Array, ...]:
    """Log-likelihood, the higher mean, the lower, the deviation, the share of the higher."""
    cut = jnp.quantile(margins, start)

    def maximize(high_prob: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        share = jnp.clip(high_prob.mean(), 1e-3, 1 - 1e-3)
        high = (high_prob * margins).sum() / jnp.maximum(high_prob.sum(), 1e-6)
        low = ((1 - high_prob) * margins).sum() / jnp.maximum((1 - high_prob).sum(), 1e-6)
        squares = high_prob * (margins - high) ** 2 + (1 - high_prob) * (margins - low) ** 2
        return high, low, jnp.sqrt(jnp.maximum(squares.mean(), 1e-6)), share

    def log_densities(fit: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        high, low, deviation, share = fit
        return (
            jnp.log(share) + norm.logpdf(margins, high, deviation),
            jnp.log1p(-share) + norm.logpdf(margins, low, deviation),
        )

    def step(_: int, fit: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        of_high, of_low = log_densities(fit)
        return maximize(jax.nn.sigmoid(of_high - of_low))

    fit = jax.lax.fori_loop(0, STEPS_OF_EM, step, maximize(jnp.float32(margins > cut)))
    high, low, deviation, share = fit
    likelihood = jnp.logaddexp(*log_densities(fit)).sum()
    share = jnp.where(high >= low, share, 1 - share)
    return likelihood, jnp.maximum(high, low), jnp.minimum(high, low), deviation, share


def _labeled(scores: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The rows [n, k] whose labels are known, less their means, in float32, and these labels."""
    rows = np.asarray(check_scores(scores), np.float64)
    if rows.ndim != 2:
        expected = "the rows of one prompt at a time, [n, k]"
        raise InputError.at("scores", expected, f"shape {rows.shape}")
    gold = np.asarray(check_labels(labels, rows))
    is_known = gold >= 0
    min_rows = max(MIN_ROWS, 2 * rows.shape[1])
    if is_known.sum() < min_rows:
        expected = f"at least {min_rows} labeled rows"
        raise InputError.at("labels", expected, int(is_known.sum()), "label more rows")
    labeled_rows = rows[is_known]
    centered = labeled_rows - labeled_rows.mean(axis=1, keepdims=True)
    return centered.astype(np.float32), gold[is_known]


@partial(jax.jit, static_argnames="have_own")
@full_precision
def _weighted_fit(
    rows: jax.Array, gold: jax.Array, weight: jax.Array, have_own: bool
) -> LabelScores:
    by_row = jax.nn.one_hot(gold, rows.shape[1], dtype=jnp.float32) * weight[:, None]  # [n, k]
    counts = by_row.sum(axis=0)
    mean = weight @ rows / weight.sum()
    sums = by_row.T @ rows
    means = jnp.where(counts[:, None] > 0, sums / jnp.maximum(counts, 1e-9)[:, None], mean)
    deviations = rows - means[gold]
    if have_own:
        squares = deviations[:, :, None] * deviations[:, None]  # [n, k, k]
        return LabelScores(means, jnp.tensordot(by_row.T, squares, 1) / counts[:, None, None])
    # As the mean of two labels' variances where their shares are alike.
    return LabelScores(means, (deviations.T * weight) @ deviations / weight.sum())
