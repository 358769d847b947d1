"""Label shares estimated from several contexts of one task; each context is matched to them.

One context cannot separate bias from shares, because both move its mean scores. Contexts of one
task (draws of demonstrations, templates, models) have the same shares but different biases. So the
shares pi are estimated from all C contexts together. They make all biases b_c probable, and
minimize

    sqrt(C) sum_c w_c k log(1 + |b_c|^2 / 2k) + w k^2 / 2 |pi - u|^2

where b_c = a_c + log pi, centered, a_c is the shift that matches context c to pi, and w_c is
proportional to the information of the context's scores and sums to 1. If nothing is known of the
shares, u are the mean expected shares (see `empirical_bayes`) and w is 1; shares that are known
have the weight of their error (`matching.share_weight`). The factor is sqrt(C) instead of C,
because the biases of contexts are partly common.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration import base, empirical_bayes
from batch_calibration.calibration.matching import match, newton_step, prior_matching, share_weight
from batch_calibration.calibration.objective import one_hot
from batch_calibration.calibration.shift import least_shares
from batch_calibration.typing import Scalar

FEWEST_CONTEXTS = 3
"""The fewest contexts that are pooled; pooling two harmed more contexts than correcting each one.
"""
LEAST_TOLD = 0.02
"""The least `information` of a context that is pooled, in nats; a single context needs 0.05."""
TRUST = 1.0, 0.75, 0.5, 0.25, 0.0
"""Candidate interpolation weights between equal and estimated shares."""
CHANCE = 0.5
"""The fraction of the chance agreement that is subtracted. At 0, contexts that give every row the
same label agree best; at 1, uneven shares are rarely trusted."""
LEAST_VARIETY = 0.03
"""The least fraction of rows that get another label than the most frequent answer, if a weight is a
candidate: contexts agree on any row if all rows get one label."""
AS_GOOD = 0.01
"""Among weights within this tolerance of the best agreement, the largest is used."""


class Pooled(NamedTuple):
    """The result of pooling several contexts.

    Attributes:
        shares: [k], the shares that contexts are matched to; meaningless if no context is used.
        estimate: [k], the shares pi that minimize the objective.
        trust: the interpolation weight of the estimate in `shares`, against equal shares.
        used: [c], 1 for a context that is matched to `shares`; 0 for all if there are too few.
        shifts: a_c[c k], in nats; 0 for a context that is not used.
    """

    shares: jax.Array
    estimate: jax.Array
    trust: Scalar
    used: jax.Array
    shifts: jax.Array


@base.full_precision
def joint_shares(
    rows: jax.Array, weight: jax.Array, context_weight: jax.Array, u: jax.Array, w: Scalar
) -> jax.Array:
    """Finds the shares pi[k] of least objective, by Gauss-Newton on their logarithms.

    Args:
        rows: s[c m k], label-normalized scores in nats.
        weight: [c m]; rows of weight 0 are absent.
        context_weight: sqrt(C) w_c, [c]; contexts of weight 0 are absent.
        u: [k], the expected shares.
        w: their weight.
    """
    k = rows.shape[-1]
    center, pull = jnp.eye(k) - 1.0 / k, w * k * k

    def bias_moves(
        rows: jax.Array, weight: jax.Array, shift: jax.Array, share_moves: jax.Array
    ) -> jax.Array:
        """Computes the derivative of a context's bias by the logarithms of the shares, [k k]."""
        probs = jnp.exp(base.label_normalized(rows - shift))
        pairs = (probs.T * (weight / jnp.maximum(jnp.sum(weight), 1e-30))) @ probs
        solve = jax.vmap(partial(newton_step, pairs), in_axes=1, out_axes=1)
        return center - solve(share_moves)

    def evaluate(place: jax.Array) -> empirical_bayes.Evaluation:
        log_pi = jax.nn.log_softmax(place)
        pi = jnp.exp(log_pi)
        share_moves = jnp.diag(pi) - jnp.outer(pi, pi)
        a_c = jax.vmap(match, in_axes=(0, None, 0))(rows, pi, weight)  # [c k]
        b_c = (a_c + log_pi) @ center  # [c k]
        size = jnp.sum(b_c**2, axis=-1) / (2 * k)
        moves = jax.vmap(bias_moves, in_axes=(0, 0, 0, None))(rows, weight, a_c, share_moves)
        heaviness = context_weight / (1.0 + size)
        value = k * jnp.sum(context_weight * jnp.log1p(size))
        value += 0.5 * pull * jnp.sum((pi - u) ** 2)
        slope = jnp.einsum("c,cj,cji->i", heaviness, b_c, moves)
        slope += pull * (pi - u) @ share_moves
        curvature = jnp.einsum("c,cji,cjl->il", heaviness, moves, moves)
        curvature += pull * share_moves.T @ share_moves
        return value, slope, curvature

    starts = jnp.stack([jnp.log(u), jnp.zeros(k)])
    ends, values = jax.vmap(lambda start: empirical_bayes.descend(start, evaluate))(starts)
    # If a label is almost never right, all smaller shares are equally good.
    return least_shares(jax.nn.softmax(ends[jnp.argmin(values)]))


@base.full_precision
def agreement(
    scores: jax.Array, weight: jax.Array, used: jax.Array
) -> tuple[Scalar, Scalar, Scalar]:
    """Measures how contexts answer the same rows.

    Args:
        scores: [c m k], of the same rows in the same order.
        weight: [m]; rows of weight 0 are absent.
        used: [c]; a context with 0 is absent.

    Returns:
        Two means over pairs of contexts: the share of rows with equal answers, and the share
        expected for answers with the same frequencies that do not depend on the row. Then the
        share of answers other than a context's most frequent one, mean over contexts.
    """
    answers = jax.vmap(one_hot)(scores, base.favored(scores)) * used[:, None, None]
    frequencies = jax.vmap(base.weighted_mean, in_axes=(0, None))(answers, weight)
    count = jnp.sum(used)

    def of_pairs(answers: jax.Array) -> jax.Array:
        """Averages the scalar product of two contexts' answers [c ... k] over pairs of contexts."""
        products = jnp.sum(jnp.sum(answers, axis=0) ** 2 - jnp.sum(answers**2, axis=0), axis=-1)
        return products / jnp.maximum(count * (count - 1.0), 1.0)

    agreed = base.weighted_mean(of_pairs(answers)[:, None], weight)[0]
    others = 1.0 - jnp.sum(jnp.max(frequencies, axis=-1)) / jnp.maximum(count, 1.0)
    return agreed, of_pairs(frequencies), others


def pool_shares(
    rows: jax.Array, weight: jax.Array, same_rows: jax.Array | bool,
    least_information: Scalar | float = LEAST_TOLD, chance: Scalar | float = CHANCE,
    share_error: Scalar | float | None = None,
) -> Pooled:  # fmt: skip
    """Estimates the label shares of several contexts together and matches each context to them.

    Args:
        rows: [c m k] scores in nats, finite in rows of positive weight.
        weight: [c m]; rows of weight 0 are absent, and so are contexts with only these rows.
        same_rows: True if row i is the same question in every context. If nothing is known of the
            shares, the interpolation weight of the estimate is then chosen by the agreement of the
            contexts, less the fraction `chance` of their agreement by chance.
        least_information: the least `information` of a context, in nats; other contexts keep their
            scores.
        chance: the fraction of the agreement by chance that is subtracted.
        share_error: the standard error of each share if labels are known to be about equally
            frequent, beside the sampling error of the rows. None: nothing is known of the shares.

    Returns:
        `Pooled`; no context is used if fewer than three have enough information.
    """
    rows, used = _present(rows, weight, least_information)
    k = rows.shape[-1]
    u, w, trusts = _expected(rows, weight, used), jnp.ones(()), jnp.array(TRUST)
    if share_error is not None:
        u, count = jnp.ones(k) / k, jnp.max(jnp.sum(weight, axis=-1))
        w, trusts = share_weight(u, count, share_error, k), trusts[:1]
    told = used * jax.vmap(empirical_bayes.information)(rows, weight)
    context_weight = told / jnp.maximum(jnp.sum(told), 1e-30) * jnp.sqrt(jnp.sum(used))
    estimate = joint_shares(rows, weight, context_weight, u, w)

    def shifts_at(trust: jax.Array) -> tuple[jax.Array, jax.Array]:
        shares = trust * estimate + (1.0 - trust) / k
        return shares, jax.vmap(match, in_axes=(0, None, 0))(rows, shares, weight)

    shares, shifts = jax.lax.map(shifts_at, trusts)
    agreed, by_chance, others = jax.vmap(
        lambda shift: agreement(rows - shift[:, None], weight[0], used)
    )(shifts)
    beyond = jnp.where(others >= LEAST_VARIETY, agreed - chance * by_chance, -jnp.inf)
    # Without any candidate, equal shares, which come last, are left.
    beyond = beyond.at[-1].max(-1.0)
    best = jnp.where(same_rows, jnp.argmax(beyond > jnp.max(beyond) - AS_GOOD), 0)
    shifts = shifts[best] - jnp.mean(shifts[best], axis=-1, keepdims=True)
    shifts = jnp.where(used[:, None] > 0, shifts, 0.0)
    return Pooled(shares[best], estimate, trusts[best], used, shifts)


def _present(
    rows: jax.Array, weight: jax.Array, least_information: Scalar | float
) -> tuple[jax.Array, jax.Array]:
    """Normalizes rows [c m k] over the labels and marks the contexts to use, [c].

    Contexts that are not used get equal scores.
    """
    rows = jax.nn.log_softmax(jnp.where(weight[..., None] > 0, rows, 0.0))
    told = jax.vmap(empirical_bayes.information)(rows, weight)
    tells = (told >= least_information) & jnp.any(weight > 0, axis=-1)
    used = jnp.where(jnp.sum(tells) >= FEWEST_CONTEXTS, tells, False).astype(rows.dtype)
    # Equal scores are matched in few steps.
    return jnp.where(used[:, None, None] > 0, rows, -jnp.log(float(rows.shape[-1]))), used


def _expected(rows: jax.Array, weight: jax.Array, used: jax.Array) -> jax.Array:
    """Averages the expected shares [k] of the contexts with `used` above 0."""
    sureness = jax.vmap(empirical_bayes.confidence)(rows, weight) ** 2.0
    u = base.weighted_mean(sureness / jnp.sum(sureness, axis=-1, keepdims=True), used)
    u = jnp.where(jnp.any(used > 0), u, 1.0 / rows.shape[-1])
    return u / jnp.sum(u)


def pooled_shares(
    *, least_information: float | None = None, share_error: float | None = None
) -> base.Calibrator:
    """Matches a context to label shares that are estimated from all contexts of its task.

    This calibrator corrects a single context: as `empirical_bayes`, or as `prior_matching` if
    labels are about equally frequent. Several contexts are pooled by `run_methods(groups=)`,
    `run_calibration` and `recommend_together`.

    Args:
        least_information: the least `information` of a context that is corrected, in nats. By
            default 0.02 for several contexts and 0.05 for one.
        share_error: the standard error of each share if labels are known to be about equally
            frequent; by default nothing is known of the shares.

    >>> fit, apply_ = pooled_shares()
    >>> rows = jnp.array(10 * [[-1.0, -4.0], [-1.0, -3.5], [-2.0, -2.5], [-3.0, -3.2]])
    >>> apply_(fit(rows), rows)[:4].argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    if share_error is not None:
        return prior_matching(share_error=share_error)
    if least_information is None:
        return empirical_bayes.empirical_bayes()
    return empirical_bayes.empirical_bayes(least_information=least_information)
