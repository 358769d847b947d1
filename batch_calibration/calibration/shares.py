"""Shares of the labels from rows, to match the mean prediction to: EM, BBSE, counting."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration import base
from batch_calibration.calibration.matching import Shares, matched
from batch_calibration.calibration.objective import known_weight, one_hot
from batch_calibration.calibration.shift import LEAST_STATED_SHARE, least_shares
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Labels, ProbeRows, Weight

MOST_EM_STEPS = 500
"""The most steps of expectation-maximization, which is slow where labels overlap."""
SMALLEST_MOVE = 1e-7
"""A step that moves no share by more is the last: about the rounding of a mean over many rows."""


class _Search(NamedTuple):
    """Where expectation-maximization stands."""

    shares: Bias
    move: jax.Array
    steps: Count


def sld_em(*, least_share: float = LEAST_STATED_SHARE, damping: float = 0.05) -> base.Calibrator:
    """Matches the mean prediction to shares by expectation-maximization on the rows themselves.

    From equal shares, pi_j <- mean_i of pi_j P_ij / sum_l pi_l P_il until no share moves by more
    than 1e-7, at most 500 times: the maximum-likelihood shares, P_ij being
    softmax(s_i) of scores free of bias (Saerens, Latinne and Decaestecker 2002, Neural Computation
    14(1), sec. 2). Where it stands still, pi is the mean of what it predicts: the bias -log pi is
    matched already, and matching only completes what was floored, damped or cut short. What the
    prompt prefers is taken for frequent, so that a label bias is not removed but strengthened: give
    it scores that are corrected by other means, such as cc.

    Args:
        least_share: shares are kept at or above it.
        damping: 0 to 1, how much of equal shares is mixed into each step's; 0 is as published, and
            often ends with one label alone.

    Raises:
        InputError: a least share or a damping that is none.

    >>> fit, apply_ = sld_em(damping=0.0)
    >>> rows = jnp.log(jnp.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))
    >>> [round(x, 3) for x in jnp.exp(base.label_normalized(-fit(rows).bias[None]))[0].tolist()]
    [0.812, 0.188]
    """
    if not 0 < least_share < 1 or not 0 <= damping <= 1:
        raise InputError(
            f"sld_em keeps shares above least_share, between 0 and 1, and mixes damping, from 0 to "
            f"1, of equal ones into them; got least_share={least_share!r}, damping={damping!r}: "
            f"give such as least_share={LEAST_STATED_SHARE}, damping=0.1."
        )

    @base.full_precision
    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        probs = jnp.where(weight[:, None] > 0, jnp.exp(base.label_normalized(log_probs)), 0.0).T
        row_share = weight / jnp.maximum(jnp.sum(weight), 1.0)
        equal = jnp.ones(len(probs), probs.dtype) / len(probs)

        def step(search: _Search) -> _Search:
            last = search.shares
            # E-step: the share of each label in each row; a row of weight 0 has none.
            joint = probs * last[:, None]
            sums = jnp.sum(joint, axis=0)
            # M-step: their mean over rows, mixed with equal shares.
            mean = (joint / jnp.where(sums > 0, sums, 1.0)) @ row_share
            new = least_shares((1.0 - damping) * mean + damping * equal, least_share)
            return _Search(new, jnp.max(jnp.abs(new - last)), search.steps + 1)

        def moves(search: _Search) -> jax.Array:
            return (search.move > SMALLEST_MOVE) & (search.steps < MOST_EM_STEPS)

        start = _Search(equal, jnp.float32(jnp.inf), jnp.int32(0))
        return jax.lax.while_loop(moves, step, start).shares, weight

    return matched(shares)


def prior_counted() -> base.Calibrator:
    """Matches the mean prediction to the shares counted among labeled rows.

    pi_j = (n_j + 1) / (n + k), n_j of n labeled rows being of label j: Laplace's rule, by which a
    label that was not seen may still occur. Rows labeled -1 are matched; where no row is, rows of
    known label.

    Raises:
        InputError: no labels given to `fit`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.5, -1.0]])
    >>> fit, _ = prior_counted()
    >>> fit(rows, jnp.array([-1, -1, 0])).bias.shape
    (2,)
    """

    @base.full_precision
    def estimate(log_probs: ProbeRows, gold: jax.Array, counted: Weight, batch: Weight) -> Bias:
        del log_probs, batch
        return _counted(gold, counted)

    return matched(_of_labeled("prior_counted", estimate))


def bbse() -> base.Calibrator:
    """Matches the mean prediction to shares estimated from predictions and their mistakes.

    With C_ij the share of labeled rows of label j that are predicted i, p_j the share of label j
    and q_i the share of the batch that is predicted i, w = C^-1 q is how much more frequent each
    label is in the batch, and pi_j = w_j p_j, those below 0 set to 0 (Lipton et al. 2018,
    arXiv:1802.03916). Predictions are the argmax of s - mean s, BC's: on
    plain scores some labels may never be predicted, and C have no inverse.

    C from n rows is off by about 1 / sqrt(n), and its inverse by far more than C where it is nearly
    singular. So w is least in |C w - q|^2 + |w - 1|^2 / n, as Azizzadenesheli et al. 2019
    (arXiv:1903.09734) do, and in p and C one more row of each label is counted, predicted as the
    batch is: with few labeled rows w is near 1 and this `prior_counted`, with many it is BBSE.

    Rows labeled -1 are the batch; where no row is, rows of known label.

    Raises:
        InputError: no labels given to `fit`.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -3.0], [-2.0, -2.5]])
    >>> fit, _ = bbse()
    >>> fit(rows, jnp.array([-1, -1, 0, 1])).bias.shape
    (2,)
    """

    @base.full_precision
    def estimate(log_probs: ProbeRows, gold: jax.Array, counted: Weight, batch: Weight) -> Bias:
        predictions = one_hot(
            log_probs, base.favored(log_probs - base.weighted_mean(log_probs, batch))
        )
        total = jnp.sum(counted) + gold.shape[-1]
        predicted = base.weighted_mean(predictions, batch)
        confusion = ((predictions.T * counted) @ gold + predicted[:, None]) / total
        # w = 1 + excess: least squares with a pull of 1 / n toward w = 1.
        eye = jnp.eye(gold.shape[-1])
        excess = jnp.linalg.solve(
            confusion.T @ confusion + eye / total,
            confusion.T @ (predicted - jnp.sum(confusion, axis=-1)),
        )
        shares = jnp.maximum((1.0 + excess) * _counted(gold, counted), 0.0)
        return least_shares(shares / jnp.sum(shares))

    return matched(_of_labeled("bbse", estimate))


@base.full_precision
def _counted(gold: jax.Array, counted: Weight) -> Bias:
    counts = jnp.asarray(counted) @ gold + 1.0
    return counts / jnp.sum(counts)


ShareEstimator = Callable[[ProbeRows, jax.Array, Weight, Weight], Bias]
"""Rows [m k], their labels one-hot [m k], weights as labeled rows, weights in the batch."""


def _of_labeled(name: str, estimate: ShareEstimator) -> Shares:
    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        labels = base.known_labels(name, labels, base.WITH_BATCH)
        counted = known_weight(log_probs, labels, weight)
        unlabeled = jnp.where(labels < 0, weight, 0.0)
        batch = jnp.where(jnp.any(unlabeled > 0), unlabeled, counted)
        return estimate(log_probs, one_hot(log_probs, labels), counted, batch), batch

    return shares
