"""Label shares estimated from several contexts of one task, and each context matched to them.

One context cannot tell bias from shares: both move its mean scores. Contexts of one task (draws of
demonstrations, templates, models) have the same shares while their biases differ, so the shares pi
under which all biases b_c are likely are sought together:

    sqrt(C) sum_c w_c k log(1 + |b_c|^2 / 2k) + k^2 / 2 |pi - u|^2

where b_c = a_c + log pi, centered, a_c is the shift that matches context c to pi, w_c goes with the
information of its scores, and u are the mean expected shares (see `empirical_bayes`). The factor is
sqrt(C) rather than C as biases of contexts are partly common.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration import base
from batch_calibration.calibration.empirical_bayes import (
    LEAST_INFORMATION,
    Evaluation,
    confidence,
    descend,
    empirical_bayes,
    information,
)
from batch_calibration.calibration.matching import match, newton_step
from batch_calibration.calibration.objective import one_hot
from batch_calibration.calibration.shift import Shift, apply, least_shares
from batch_calibration.typing import Key, Scalar

FEWEST_CONTEXTS = 3
"""Fewer contexts are corrected each by itself: two harmed more contexts than one did."""
LEAST_TOLD = 0.02
"""Nats that a context's rows must tell of their labels on average to be pooled; 0.05 alone."""
TRUST = 1.0, 0.75, 0.5, 0.25, 0.0
"""The parts of the way from equal shares to the estimated ones that agreement chooses from."""
CHANCE = 0.5
"""The part of the agreement by chance that is subtracted. With none of it, contexts that give every
row one label agree best; with all of it, uneven shares are rarely trusted."""
AS_GOOD = 0.01
"""Trusts whose agreement is within this of the best are as good: the largest is taken."""


class Pooled(NamedTuple):
    """What several contexts told together.

    Attributes:
        shares: [k], the shares that contexts were matched to; of no meaning where none were.
        estimate: [k], the least of the objective.
        trust: the part of the way from equal shares to the estimate at which the shares are.
        used: [c], 1 for a context that was matched to them; 0 for all where these are too few.
        shifts: [c k], in nats; 0 for a context that is not used.
    """

    shares: jax.Array
    estimate: jax.Array
    trust: Scalar
    used: jax.Array
    shifts: jax.Array


@base.full_precision
def joint_shares(
    rows: jax.Array, weight: jax.Array, context_weight: jax.Array, expected: jax.Array,
    counts: jax.Array | None = None,
) -> jax.Array:  # fmt: skip
    """The shares [k] at which the objective above is least, by Gauss-Newton on their logarithms.

    Args:
        rows: [c m k], label-normalized scores in nats.
        weight: [c m]; rows of weight 0 are absent.
        context_weight: [c], sqrt(C) w_c; contexts of weight 0 are absent.
        expected: u[k].
        counts: [k], labels known of other rows; their log likelihood is added.
    """
    k = rows.shape[-1]
    center = jnp.eye(k) - 1.0 / k

    def bias_moves(
        rows: jax.Array, weight: jax.Array, shift: jax.Array, share_moves: jax.Array
    ) -> jax.Array:
        """How a context's bias moves with the logarithms of the shares, [k k]."""
        probs = jnp.exp(base.label_normalized(rows - shift))
        pairs = (probs.T * (weight / jnp.maximum(jnp.sum(weight), 1e-30))) @ probs
        solve = jax.vmap(partial(newton_step, pairs), in_axes=1, out_axes=1)
        return center - solve(share_moves)

    def evaluate(place: jax.Array) -> Evaluation:
        log_shares = jax.nn.log_softmax(place)
        shares = jnp.exp(log_shares)
        share_moves = jnp.diag(shares) - jnp.outer(shares, shares)
        shifts = jax.vmap(match, in_axes=(0, None, 0))(rows, shares, weight)
        bias = (shifts + log_shares) @ center  # [c k]
        size = jnp.sum(bias**2, axis=-1) / (2 * k)
        moves = jax.vmap(bias_moves, in_axes=(0, 0, 0, None))(rows, weight, shifts, share_moves)
        heaviness = context_weight / (1.0 + size)
        value = k * jnp.sum(context_weight * jnp.log1p(size))
        value += 0.5 * k * k * jnp.sum((shares - expected) ** 2)
        slope = jnp.einsum("c,cj,cji->i", heaviness, bias, moves)
        slope += k * k * (shares - expected) @ share_moves
        curvature = jnp.einsum("c,cji,cjl->il", heaviness, moves, moves)
        curvature += k * k * share_moves.T @ share_moves
        if counts is not None:
            value -= counts @ log_shares
            slope -= counts - jnp.sum(counts) * shares
            curvature += jnp.sum(counts) * share_moves
        return value, slope, curvature

    starts = jnp.stack([jnp.log(expected), jnp.zeros(k)])
    ends, values = jax.vmap(lambda start: descend(start, evaluate))(starts)
    # Where a label is hardly ever right all smaller shares are as good.
    return least_shares(jax.nn.softmax(ends[jnp.argmin(values)]))


def add_one(counts: jax.Array) -> jax.Array:
    """Shares by counts [k], each label counted once more: no label has share 0."""
    return (counts + 1.0) / jnp.sum(counts + 1.0)


@base.full_precision
def agreement(scores: jax.Array, weight: jax.Array, used: jax.Array) -> tuple[Scalar, Scalar]:
    """How often two contexts give the same row the same answer, and how often by chance.

    Args:
        scores: [c m k], of the same rows in the same order.
        weight: [m]; rows of weight 0 are absent.
        used: [c]; contexts of 0 are absent.

    Returns:
        Two means over pairs of contexts: the share of rows with equal answers, and the share that
        would be equal if answers had the same frequencies and did not depend on the row.
    """
    answers = jax.vmap(one_hot)(scores, base.favored(scores)) * used[:, None, None]
    frequencies = jax.vmap(base.weighted_mean, in_axes=(0, None))(answers, weight)
    count = jnp.sum(used)

    def of_pairs(answers: jax.Array) -> jax.Array:
        """The mean over pairs of the sums over labels of the products; answers [c ... k]."""
        products = jnp.sum(jnp.sum(answers, axis=0) ** 2 - jnp.sum(answers**2, axis=0), axis=-1)
        return products / jnp.maximum(count * (count - 1.0), 1.0)

    agreed = base.weighted_mean(of_pairs(answers)[:, None], weight)[0]
    return agreed, of_pairs(frequencies)


def pool_shares(
    rows: jax.Array, weight: jax.Array, same_rows: jax.Array | bool,
    least_information: Scalar | float = LEAST_TOLD,
    counts: jax.Array | None = None, chance: Scalar | float = CHANCE,
) -> Pooled:  # fmt: skip
    """Estimates the label shares of several contexts together and matches each to them.

    Args:
        rows: [c m k] scores in nats, finite where their weight is above 0.
        weight: [c m]; rows of weight 0 are absent, and contexts that have no others too.
        same_rows: True if row i is the same question in every context: the part of the way from
            equal shares to the estimate is then the one at which contexts agree most, less a part
            of their agreement by chance.
        least_information: nats that a context's rows must tell of their labels on average; others
            keep their scores.
        counts: [k], labels that are known of other rows of the task.
        chance: the part of the agreement by chance that is subtracted.

    Returns:
        `Pooled`; where fewer than three contexts tell enough none is used.
    """
    rows, used = _present(rows, weight, least_information)
    k = rows.shape[-1]
    estimate = _estimate(rows, weight, used, counts)

    def shifts_at(trust: jax.Array) -> tuple[jax.Array, jax.Array]:
        shares = trust * estimate + (1.0 - trust) / k
        return shares, jax.vmap(match, in_axes=(0, None, 0))(rows, shares, weight)

    trusts = jnp.array(TRUST)
    shares, shifts = jax.lax.map(shifts_at, trusts)
    agreed, by_chance = jax.vmap(lambda shift: agreement(rows - shift[:, None], weight[0], used))(
        shifts
    )
    beyond = agreed - chance * by_chance
    # Counted labels decide better than agreement does.
    is_chosen = same_rows & (counts is None)
    best = jnp.where(is_chosen, jnp.argmax(beyond > jnp.max(beyond) - AS_GOOD), 0)
    shifts = shifts[best] - jnp.mean(shifts[best], axis=-1, keepdims=True)
    shifts = jnp.where(used[:, None] > 0, shifts, 0.0)
    return Pooled(shares[best], estimate, trusts[best], used, shifts)


def _present(
    rows: jax.Array, weight: jax.Array, least_information: Scalar | float
) -> tuple[jax.Array, jax.Array]:
    """Label-normalized rows [c m k], equal scores in contexts that are not used, and `used` [c]."""
    rows = jax.nn.log_softmax(jnp.where(weight[..., None] > 0, rows, 0.0))
    told = jax.vmap(information)(rows, weight)
    tells = (told >= least_information) & jnp.any(weight > 0, axis=-1)
    used = jnp.where(jnp.sum(tells) >= FEWEST_CONTEXTS, tells, False).astype(rows.dtype)
    # Equal scores are quickly matched.
    return jnp.where(used[:, None, None] > 0, rows, -jnp.log(float(rows.shape[-1]))), used


def _estimate(
    rows: jax.Array, weight: jax.Array, used: jax.Array, counts: jax.Array | None = None
) -> jax.Array:
    """`joint_shares` [k] of contexts that count `used` [c] times each."""
    told = used * jax.vmap(information)(rows, weight)
    sureness = jax.vmap(confidence)(rows, weight) ** 2.0
    expected = base.weighted_mean(sureness / jnp.sum(sureness, axis=-1, keepdims=True), used)
    expected = jnp.where(jnp.any(used > 0), expected, 1.0 / rows.shape[-1])
    of_context = told / jnp.maximum(jnp.sum(told), 1e-30) * jnp.sqrt(jnp.sum(used))
    return joint_shares(rows, weight, of_context, expected / jnp.sum(expected), counts)


@partial(jax.jit, static_argnames="draws")
def resampled_shares(
    rows: jax.Array, weight: jax.Array, same_rows: jax.Array | bool, key: Key, *,
    least_information: Scalar | float = LEAST_TOLD, draws: int = 200,
) -> jax.Array:  # fmt: skip
    """Estimates of the shares [draws k] where contexts and rows are drawn with replacement.

    Their spread says how far the estimate depends on these contexts and rows. What biases have in
    common moves all of them alike, and does not show.

    Args:
        rows: as in `pool_shares`.
        weight: as in `pool_shares`.
        same_rows: as in `pool_shares`.
        key: a `jax.random` key.
        least_information: as in `pool_shares`.
        draws: how many.
    """
    rows, used = _present(rows, weight, least_information)
    contexts, length = weight.shape

    def estimate(key: Key) -> jax.Array:
        of_contexts, of_rows = jax.random.split(key)
        log_used = jnp.where(used > 0, 0.0, -jnp.inf)
        drawn = jax.random.categorical(of_contexts, log_used, shape=(contexts,))
        # As many as there are, of those that are used.
        is_drawn = jnp.arange(contexts, dtype=used.dtype) < jnp.sum(used)
        times = jnp.zeros_like(used).at[drawn].add(is_drawn.astype(used.dtype))
        # Bootstrap weights of rows: exponential ones of mean 1, the same for a row of all contexts.
        moves = jax.random.exponential(of_rows, (contexts, length))
        moves = jnp.where(same_rows, moves[:1], moves)
        return _estimate(rows, weight * moves, times)

    shares: jax.Array = jax.lax.map(estimate, jax.random.split(key, draws), batch_size=20)
    return shares


def pooled_shares(
    *,
    least_information: float | None = None,
    counts: Sequence[int | float] | jax.Array | None = None,
) -> base.Calibrator:
    """Matches a context to label shares that all contexts of its task tell together.

    A context alone is given what `empirical_bayes` gives, or with counts matched to the counted
    shares: of several, `run_methods(groups=)`, `run_calibration` and `recommend_together` know.

    Args:
        least_information: in nats; a context whose rows tell less of their labels is left as it is.
            By default 0.02 for several contexts, 0.05 for one.
        counts: [k], labels that are known of other rows of the task.

    >>> fit, apply_ = pooled_shares()
    >>> rows = jnp.array(10 * [[-1.0, -4.0], [-1.0, -3.5], [-2.0, -2.5], [-3.0, -3.2]])
    >>> apply_(fit(rows), rows)[:4].argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    least = LEAST_INFORMATION if least_information is None else least_information
    if counts is None:
        return empirical_bayes(least_information=least)

    def learn(probe: base.ProbeScores) -> Shift:
        weights = probe.weights
        rows = base.label_normalized(jnp.where(weights[:, None] > 0, probe.log_probs, 0.0))
        shift = match(rows, add_one(jnp.asarray(counts, jnp.float32)), weights)
        tells = information(rows, weights) >= least
        return Shift(jnp.where(tells, shift, 0.0), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)
