"""Prior matching: removes the bias that makes the mean prediction differ from expected shares."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from batch_calibration.calibration import base
from batch_calibration.calibration.empirical_bayes import likely_shift
from batch_calibration.calibration.shift import Shift, apply, least_shares, log_mean_prob
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Labels, Prior, ProbeRows, Scalar, Weight

Match = Callable[[ProbeRows, Bias, Weight], Bias]
"""A function that matches rows [m k] of weights [m] to shares [k]: a bias [k]."""

Shares = Callable[[ProbeRows, Labels | None, Weight], tuple[Bias, Weight]]
"""A function: rows [m k], labels [m], weights [m] -> the shares to match [k], weights to match by.
"""

TOLERANCE = 1e-6
"""The tolerance of the match: the largest distance of a mean prediction from its share."""
MOST_NEWTON_STEPS = 100
"""The largest number of Newton steps; scores of standard deviation 60 needed 8 to 46."""
COOLING = 0.25
COLDEST = 1e-5
"""The temperature that replaces the limit 0, relative to the scores' standard deviation."""
PREDICTION_ROUNDING = 1.2e-7  # the float32 rounding error of a mean prediction
CURVATURE_RIDGE = 1e-6  # the ridge per label; equal shifts make the Hessian singular


class _Search(NamedTuple):
    """The state of Newton's method: `shift` is the bias less the mean scores, `miss` its error."""

    shift: Bias
    temperature: Scalar
    miss: Scalar
    steps: Count


@base.full_precision
def match(
    log_probs: ProbeRows, shares: Bias, weight: Weight | None = None, *, hard: bool = False
) -> Bias:
    """Finds the bias b with mean_i softmax(s_i - b) = pi, unique up to a constant.

    It minimizes the convex function mean_i logsumexp(s_i - b) + pi.b. The third derivative of this
    function along d is at most the range of d times the second, so that a Newton step of range r
    always descends if it is scaled by log(1 + r) / r (Sun and Tran-Dinh 2019, arXiv:1703.04599,
    nu = 2). Scores with a spread above one nat are first divided by a temperature, which falls to 1
    as the steps become shorter. At a high temperature the match is the mean score less log pi, BC
    with a target prior. The constant makes the sum of b equal to the sum of BC's bias.

    Args:
        log_probs: s[m k], in nats.
        shares: pi[k], positive, with sum 1.
        weight: [m]; rows of weight 0 are absent.
        hard: True matches the shares of the predictions argmax_j (s_ij - b_j), the limit of
            temperature 0.

    >>> rows = jnp.array([[0.0, 3.0], [0.0, 1.0]])
    >>> match(rows, jnp.array([0.5, 0.5])).round(4).tolist()
    [0.0, 2.0]
    """
    weights = base.weights_of(log_probs, weight)
    mean = base.weighted_mean(log_probs, weights)
    rows = jnp.where(weights[:, None] > 0, log_probs - mean, 0.0)
    # Labels before rows: sums over few labels are then fast.
    columns = (rows - jnp.mean(rows, axis=-1, keepdims=True)).T
    total = jnp.sum(weights)
    row_share = weights / jnp.where(total > 0, total, 1.0)
    prior = jnp.log(shares)
    # The first temperature, in nats; at this temperature the match is about BC's bias less log pi.
    spread = jnp.sqrt(jnp.sum(row_share * jnp.mean(columns**2, axis=0)))
    last = jnp.maximum(COLDEST * spread, 1e-30) if hard else jnp.ones_like(spread)

    def step(search: _Search) -> _Search:
        logits = (columns - search.shift[:, None]) / search.temperature + prior[:, None]
        probs = jax.nn.softmax(logits, axis=0)
        miss = base.weighted_mean(probs.T, weights) - shares
        miss = jnp.where(jnp.abs(miss) > PREDICTION_ROUNDING, miss, 0.0)
        worst = jnp.max(jnp.abs(miss))
        newton = newton_step((probs * row_share) @ probs.T, miss)
        reach = jnp.ptp(newton)  # nats, of the step
        # Scaled by log(1 + r) / r, a step always descends.
        scale = jnp.where(reach > 0, jnp.log1p(reach) / jnp.where(reach > 0, reach, 1.0), 1.0)
        near = reach <= 1.0
        # Within the tolerance on a flat region any bias is a solution, so long steps are not taken.
        moved = jnp.where(near | (worst > TOLERANCE), scale * newton * search.temperature, 0.0)
        cools = near | (worst <= TOLERANCE)
        return _Search(
            search.shift + moved,
            jnp.where(cools, jnp.maximum(COOLING * search.temperature, last), search.temperature),
            jnp.where(search.temperature > last, 1.0, worst),
            search.steps + 1,
        )

    def unmatched(search: _Search) -> jax.Array:
        return (total > 0) & (search.steps < MOST_NEWTON_STEPS) & (search.miss > TOLERANCE)

    start = _Search(
        jnp.zeros_like(mean), jnp.maximum(spread, last), jnp.ones_like(last), jnp.int32(0)
    )
    search = jax.lax.while_loop(unmatched, step, start)
    return _beside(mean, search.shift - last * prior)


def newton_step(pairs: jax.Array, miss: Bias) -> Bias:
    """Solves H d = miss for the Hessian H = diag(mean P) - mean P P', which is singular along 1.

    A diagonal entry is computed as minus the sum of the other entries in its row. If P is nearly 0
    or 1, the difference of the two terms in H would be only rounding error.
    """
    eye = jnp.eye(len(miss), dtype=pairs.dtype)
    # Scaled to a unit diagonal, with a ridge because the matrix is singular along 1.
    off_diagonal = 0.5 * (pairs + pairs.T) * (1.0 - eye)
    scale = jax.lax.rsqrt(jnp.maximum(jnp.sum(off_diagonal, axis=-1), 1e-20))
    ridged = (1.0 + CURVATURE_RIDGE * len(miss)) * eye - scale[:, None] * off_diagonal * scale
    step = scale * cho_solve(cho_factor(ridged, lower=True), scale * (miss - jnp.mean(miss)))
    return step - jnp.mean(step)


def _beside(mean: Bias, further: Bias) -> Bias:
    """Adds a centered vector to the mean: the bias has the same sum as the mean."""
    return mean + (further - jnp.mean(further))


def match_in_rounds(
    log_probs: ProbeRows, shares: Bias, weight: Weight | None = None, *, rounds: int
) -> Bias:
    """Repeats b <- b + log(mean_i softmax(s_i - b) / pi) for `rounds` rounds from b = 0 (UCPA).

    A round is the update of beta = -b and gamma_i = -logsumexp(s_i + beta) in the published code,
    which takes at most ten rounds. The first round divides by the mean normalized probability.
    """
    mean = base.weighted_mean(log_probs, weight)

    def one(_: Count, bias: Bias) -> Bias:
        probs = base.label_normalized(log_probs - bias)
        return bias + log_mean_prob(probs, weight) - jnp.log(shares)

    return _beside(mean, jax.lax.fori_loop(0, rounds, one, jnp.zeros_like(mean)) - mean)


def matched(shares: Shares, how: Match = match) -> base.Calibrator:
    """Returns a calibrator that subtracts the bias that `how` matches to `shares`."""

    def learn(probe: base.ProbeScores) -> Shift:
        expected, weights = shares(probe.log_probs, probe.labels, probe.weights)
        return Shift(how(probe.log_probs, expected, weights), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)


def given_shares(target_prior: Prior | None) -> Shares:
    """Returns a function that gives the expected shares, by default equal, and all weights."""

    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        count = log_probs.shape[-1]
        given = jnp.ones(count) / count if target_prior is None else target_prior
        return least_shares(given), weight

    return shares


def share_weight(
    shares: Bias, rows: Scalar | int | float, error: Scalar | float, labels: int
) -> Scalar:
    """Computes the weight w of shares u whose error is known, for `empirical_bayes.likely_shift`.

    The shares of n rows scatter around u with a variance of (1 - |u|^2) / n in all, and u is wrong
    by `error` for each label. With both, w = (k - 1) / (k^2 ((1 - |u|^2) / n + k error^2)), which
    is n / k for equal shares without an error.

    >>> round(float(share_weight(jnp.array([0.5, 0.5]), 100, 0.0, 2)), 4)
    50.0
    """
    variance = (1.0 - jnp.sum(shares**2)) / jnp.maximum(rows, 1.0) + labels * error**2
    weight: jax.Array = (labels - 1) / (labels**2 * variance)
    return weight


def prior_matching(
    *, rounds: int = 0, target_prior: Prior | None = None, share_error: float | None = None
) -> base.Calibrator:
    """Subtracts a bias b so that the mean prediction becomes pi: mean_i softmax(s_i - b) = pi.

    BC equalizes the mean *score* of all labels. This method matches the mean *probability*, which
    is comparable to label shares. Two published methods are equivalent: SUCPA (Estienne et al.
    2023, arXiv:2307.06713; UCPA if pi is uniform), which approaches the match in ten rounds, and
    the prior matching of Liusie et al. 2024 (arXiv:2309.04992).

    The shares of a few rows differ from pi by chance. With `share_error` the mean prediction may
    differ, too: the bias is the most probable one by the objective of `empirical_bayes` with the
    weight `share_weight`.

    Args:
        rounds: the number of UCPA rounds (see `match_in_rounds`); 0 matches each share to 1e-6.
        target_prior: pi, the expected share of each of the k labels, by default equal shares; 0 for
            a label that is never right counts as 1e-4.
        share_error: the standard error of each expected share; 0.0 leaves the sampling error of the
            rows. By default the shares of the rows are matched exactly.

    Raises:
        InputError: rounds below 0, or together with a share_error; a share_error outside 0 to 1.

    >>> fit, apply_ = prior_matching(target_prior=(0.75, 0.25))
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.5, -1.0]])
    >>> jnp.exp(base.label_normalized(apply_(fit(rows), rows))).mean(axis=0).round(5).tolist()
    [0.75, 0.25]
    """
    if rounds < 0 or (rounds and share_error is not None):
        remedy = "give rounds=10 for UCPA, or leave it out to match exactly"
        expected = "0 or more" if rounds < 0 else "0 with a share_error"
        raise InputError.at("rounds", expected, rounds, remedy)
    if rounds:
        return matched(given_shares(target_prior), partial(match_in_rounds, rounds=rounds))
    if share_error is None:
        return matched(given_shares(target_prior))
    if not 0.0 <= share_error <= 1.0:
        remedy = "give 0.05 for shares that are known within about 5 points"
        raise InputError.at("share_error", "a number from 0 to 1", share_error, remedy)
    return matched(given_shares(target_prior), partial(match_within, error=share_error))


def match_within(
    log_probs: ProbeRows, shares: Bias, weight: Weight | None = None, *, error: Scalar | float
) -> Bias:
    """Finds the most probable bias [k] if the shares have an error (see `share_weight`)."""
    weights = base.weights_of(log_probs, weight)
    present = jnp.where(weights[:, None] > 0, log_probs, 0.0)
    start = match(present, shares, weights)
    trust = share_weight(shares, jnp.sum(weights), error, len(shares))
    rows, start = base.label_normalized(present), start - jnp.mean(start)
    shift: Bias = likely_shift(rows, weights, shares, share_weight=trust, start=start)
    return shift + jnp.mean(base.weighted_mean(present, weights))


def otter(*, target_prior: Prior | None = None) -> base.Calibrator:
    """Predicts argmax_j T_ij, where T is the optimal transport of rows to labels of shares pi.

    T >= 0 minimizes sum_ij T_ij (-log P_ij), with rows that sum to 1/n and columns that sum to pi.
    By duality, row i is assigned to the label with the largest log P_ij + v_j, where v are the
    potentials of the columns. So b = -v is a bias, and without it the *predictions* have the
    shares pi. This is the limit of prior matching at temperature 0, mean_i softmax((s_i - b) / t) =
    pi; it is computed at t = 1e-5 standard deviations of the scores. Rows that float32 cannot
    distinguish, such as equal rows, get the same label, although a transport plan may split them.

    Source: Shin et al. 2024, arXiv:2404.08461, algorithm 1. The published code normalizes P over
    labels, which adds a constant to a row's costs and does not change the plan. It also adds 1e-6
    to P, which changes the plan for labels below -13.8 nats; the paper does not, and neither does
    this function.

    Args:
        target_prior: pi, the expected share of each of the k labels, by default equal shares; 0 for
            a label that is never right counts as 1e-4.

    >>> import jax.numpy as jnp
    >>> fit, apply_ = otter()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -2.5], [-1.0, -1.5], [-1.0, -1.2]])
    >>> jnp.argmax(apply_(fit(rows), rows), axis=-1).tolist()
    [0, 0, 1, 1]
    """
    return matched(given_shares(target_prior), transport)


def transport(log_probs: ProbeRows, shares: Bias, weight: Weight) -> Bias:
    """Finds the bias without which the predictions have the shares: the optimal potentials.

    A bias gives these predictions if b_j - b_l >= s_ij - s_il for each row i predicted as l. Among
    these biases the middle is taken: the mean, over labels r, of the lowest and the highest bias
    with b_r = 0. It depends only on the predictions, and is far from changing any of them.
    """
    matched_bias = match(log_probs, shares, weight, hard=True)
    # Subtracted first, so that equal rows differ from their prediction by exactly 0.
    corrected = jnp.asarray(log_probs) - matched_bias
    predicted = base.favored(corrected)
    behind = corrected - jnp.take_along_axis(corrected, predicted[:, None], axis=1)
    behind = jnp.where(jnp.asarray(weight)[:, None] > 0, behind, -jnp.inf)
    # [l, j]: the smallest distance of label j from label l in rows predicted as l, in nats below 0.
    most = jax.ops.segment_max(behind, predicted, len(shares)).T
    # The bias of a label that is never predicted does not move.
    distances = jnp.where(jnp.isfinite(most), most, 0.0)

    def through(label: Count, distances: jax.Array) -> jax.Array:
        return jnp.maximum(distances, distances[:, label, None] + distances[label])

    # Longest paths between labels, by the Floyd-Warshall algorithm.
    distances = jax.lax.fori_loop(0, len(shares), through, distances)
    middle = (jnp.mean(distances, axis=1) - jnp.mean(distances, axis=0)) / 2
    return matched_bias + (middle - jnp.mean(middle))
