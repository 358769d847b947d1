"""Prior matching: the bias without which the mean prediction is the expected shares of labels."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from batch_calibration.calibration import base
from batch_calibration.calibration.shift import Shift, apply, least_shares, log_mean_prob
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Labels, Prior, ProbeRows, Scalar, Weight

Match = Callable[[ProbeRows, Bias, Weight], Bias]
"""A function that matches rows [m k] of weights [m] to shares [k]: a bias [k]."""

Shares = Callable[[ProbeRows, Labels | None, Weight], tuple[Bias, Weight]]
"""Rows [m k], labels [m] and weights [m] -> the shares to match [k], the weights to match by."""

TOLERANCE = 1e-6
"""The largest distance of a label's mean prediction from its share."""
MOST_NEWTON_STEPS = 100
"""The most steps of Newton's method; of scores of standard deviation 60, 8 to 46 were needed."""
COOLING = 0.25
COLDEST = 1e-5
"""Where the limit of temperature 0 is sought: a part of the scores' standard deviation."""
# Of float32: what rounding alone makes of a mean prediction, and what lets the singular matrix of
# the labels be factored, for each label.
PREDICTION_ROUNDING = 1.2e-7
CURVATURE_RIDGE = 1e-6


class _Search(NamedTuple):
    """Where Newton's method stands: the bias beyond the mean, and how far off it was."""

    shift: Bias
    temperature: Scalar
    miss: Scalar
    steps: Count


@base.full_precision
def match(
    log_probs: ProbeRows, shares: Bias, weight: Weight | None = None, *, hard: bool = False
) -> Bias:
    """The bias b with mean_i softmax(s_i - b) = pi, unique up to a constant.

    It is where the convex mean_i logsumexp(s_i - b) + pi.b is least, whose third derivative along
    d is at most the range of d times the second: log(1 + r) / r of a Newton step of range r always
    descends (Sun and Tran-Dinh 2019, arXiv:1703.04599, nu = 2). Scores that spread wider than a
    nat are divided by a temperature at first, which falls to 1 as steps get shorter than it; at a
    high one the match is the mean score less log pi, BC. The constant makes the sum of b equal to
    that of BC's bias.

    Args:
        log_probs: s[m k], in nats.
        shares: pi[k], positive, of sum 1.
        weight: [m]; rows of weight 0 are absent.
        hard: match the shares of predictions, argmax_j (s_ij - b_j), as the temperature's limit 0.

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
    # In nats: the temperature begins here, where the match is BC's bias less log pi.
    spread = jnp.sqrt(jnp.sum(row_share * jnp.mean(columns**2, axis=0)))
    last = jnp.maximum(COLDEST * spread, 1e-30) if hard else jnp.ones_like(spread)

    def step(search: _Search) -> _Search:
        probs = jax.nn.softmax(
            (columns - search.shift[:, None]) / search.temperature + prior[:, None], axis=0
        )
        miss = base.weighted_mean(probs.T, weights) - shares
        miss = jnp.where(jnp.abs(miss) > PREDICTION_ROUNDING, miss, 0.0)
        worst = jnp.max(jnp.abs(miss))
        newton = newton_step((probs * row_share) @ probs.T, miss)
        reach = jnp.ptp(newton)  # nats, of the step
        # log(1 + r) / r, by which a step always descends.
        scale = jnp.where(reach > 0, jnp.log1p(reach) / jnp.where(reach > 0, reach, 1.0), 1.0)
        near = reach <= 1.0
        # Within tolerance on a flat stretch: any bias there is a solution, so take no long step.
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

    A diagonal entry is computed as minus the sum of the others in its row: where P is nearly 0 or
    1, the difference of the two terms would leave nothing but rounding.
    """
    eye = jnp.eye(len(miss), dtype=pairs.dtype)
    # Scaled to a unit diagonal, and ridged, as the matrix is singular along 1.
    off_diagonal = 0.5 * (pairs + pairs.T) * (1.0 - eye)
    scale = jax.lax.rsqrt(jnp.maximum(jnp.sum(off_diagonal, axis=-1), 1e-20))
    ridged = (1.0 + CURVATURE_RIDGE * len(miss)) * eye - scale[:, None] * off_diagonal * scale
    step = scale * cho_solve(cho_factor(ridged, lower=True), scale * (miss - jnp.mean(miss)))
    return step - jnp.mean(step)


def _beside(mean: Bias, further: Bias) -> Bias:
    """A bias that sums to what the mean does."""
    return mean + (further - jnp.mean(further))


def match_in_rounds(
    log_probs: ProbeRows, shares: Bias, weight: Weight | None = None, *, rounds: int
) -> Bias:
    """So many rounds of b <- b + log(mean_i softmax(s_i - b) / pi) from b = 0: UCPA.

    A round is the update of beta = -b and gamma_i = -logsumexp(s_i + beta) in the published code,
    which does at most ten; the first is division by the mean normalized probability.
    """
    mean = base.weighted_mean(log_probs, weight)

    def one(_: Count, bias: Bias) -> Bias:
        probs = base.label_normalized(log_probs - bias)
        return bias + log_mean_prob(probs, weight) - jnp.log(shares)

    return _beside(mean, jax.lax.fori_loop(0, rounds, one, jnp.zeros_like(mean)) - mean)


def matched(shares: Shares, how: Match = match) -> base.Calibrator:
    """The calibrator that subtracts the bias matched to the shares it is given or estimates."""

    def learn(probe: base.ProbeScores) -> Shift:
        expected, weights = shares(probe.log_probs, probe.labels, probe.weights)
        return Shift(how(probe.log_probs, expected, weights), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)


def given_shares(target_prior: Prior | None) -> Shares:
    """The shares one expects, equal ones where none are given, and all rows to match by."""

    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        count = log_probs.shape[-1]
        given = jnp.ones(count) / count if target_prior is None else target_prior
        return least_shares(given), weight

    return shares


def prior_matching(*, rounds: int = 0, target_prior: Prior | None = None) -> base.Calibrator:
    """Subtracts the bias b after which the mean prediction is pi: mean_i softmax(s_i - b) = pi.

    BC makes the mean *score* of all labels alike, this the mean *probability*, which shares of
    labels are. Two published methods are this one: SUCPA (Estienne et al. 2023, arXiv:2307.06713,
    UCPA where pi is uniform), which goes towards the match in ten rounds, and the prior matching
    of Liusie et al. 2024 (arXiv:2309.04992).

    Args:
        rounds: go so many rounds of UCPA (see `match_in_rounds`); 0 goes to 1e-6 on each share.
        target_prior: pi, the share of each of the k labels one expects, by default equal ones; 0
            for a label that is never right counts as 1e-4.

    Raises:
        InputError: rounds below 0.

    >>> fit, apply_ = prior_matching(target_prior=(0.75, 0.25))
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.5, -1.0]])
    >>> jnp.exp(base.label_normalized(apply_(fit(rows), rows))).mean(axis=0).round(5).tolist()
    [0.75, 0.25]
    """
    if rounds < 0:
        remedy = "give rounds=10 as UCPA does, or leave it out to match exactly"
        raise InputError.at("rounds", "0 or more", rounds, remedy)
    if not rounds:
        return matched(given_shares(target_prior))
    return matched(given_shares(target_prior), partial(match_in_rounds, rounds=rounds))


def otter(*, target_prior: Sequence[float] | None = None) -> base.Calibrator:
    """Predicts argmax_j T_ij, T the optimal transport of rows to labels of shares pi.

    T >= 0 is least in sum_ij T_ij (-log P_ij) where rows sum to 1/n and columns to pi. By duality
    a row goes where log P_ij + v_j is largest, v the potentials of the columns: a bias b = -v that
    is subtracted, and after which pi are the shares of *predictions*. It is prior matching in the
    limit of temperature 0, mean_i softmax((s_i - b) / t) = pi, and is sought at t = 1e-5 standard
    deviations of the scores. Rows beyond float32's reach of each other, equal ones above all, get
    one label, which a plan may split.

    Source: Shin et al. 2024, arXiv:2404.08461, algorithm 1. The published code
    normalizes P over labels, which moves a row's costs alike and so no plan, and adds 1e-6 to P,
    which does for labels below -13.8 nats; as the paper we do not.

    Args:
        target_prior: pi, the share of each of the k labels one expects, by default equal ones; 0
            for a label that is never right counts as 1e-4.

    >>> import jax.numpy as jnp
    >>> fit, apply_ = otter()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -2.5], [-1.0, -1.5], [-1.0, -1.2]])
    >>> jnp.argmax(apply_(fit(rows), rows), axis=-1).tolist()
    [0, 0, 1, 1]
    """
    return matched(given_shares(target_prior), transport)


def transport(log_probs: ProbeRows, shares: Bias, weight: Weight) -> Bias:
    """The bias after which predictions have the shares: the potentials of optimal transport.

    Any bias does that keeps b_j - b_l at least s_ij - s_il for each row i predicted l. The middle
    of these is taken: for each label r the least with b_r = 0 and the greatest, and their mean. It
    depends on nothing but the predictions, and is as far from changing one as it can be.
    """
    matched_bias = match(log_probs, shares, weight, hard=True)
    # Without the bias found, of equal rows nothing is left, to the last bit.
    corrected = jnp.asarray(log_probs) - matched_bias
    predicted = base.favored(corrected)
    behind = corrected - jnp.take_along_axis(corrected, predicted[:, None], axis=1)
    behind = jnp.where(jnp.asarray(weight)[:, None] > 0, behind, -jnp.inf)
    # [l, j]: how close label j comes to label l among the rows predicted l, in nats below 0.
    most = jax.ops.segment_max(behind, predicted, len(shares)).T
    # A label that is not predicted stays where it is found.
    distances = jnp.where(jnp.isfinite(most), most, 0.0)

    def through(label: Count, distances: jax.Array) -> jax.Array:
        return jnp.maximum(distances, distances[:, label, None] + distances[label])

    # Longest paths between labels, as Floyd and Warshall find shortest ones.
    distances = jax.lax.fori_loop(0, len(shares), through, distances)
    middle = (jnp.mean(distances, axis=1) - jnp.mean(distances, axis=0)) / 2
    return matched_bias + (middle - jnp.mean(middle))
