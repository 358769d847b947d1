"""Estimators of label shares, to which the mean prediction is matched: EM, BBSE, counting.

`move_shares` moves shares that are estimated without labels as far as labels contradict them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration import base
from batch_calibration.calibration.empirical_bayes import empirical_bayes
from batch_calibration.calibration.matching import Shares, match, matched, prior_matching
from batch_calibration.calibration.objective import known_weight, one_hot
from batch_calibration.calibration.shift import LEAST_STATED_SHARE, Shift, apply, least_shares
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Labels, Prior, ProbeRows, Scalar, Weight

MOST_EM_STEPS = 500
"""The most steps of expectation-maximization, which is slow if labels overlap."""
SMALLEST_VARIANCE = 1e-6
"""Added to the variance of an estimate, which a few equal misses would make 0."""
SMALLEST_MOVE = 1e-7
"""The tolerance of the shares: about the rounding error of a mean over many rows."""


class _Search(NamedTuple):
    """The state of expectation-maximization."""

    shares: Bias
    move: jax.Array
    steps: Count


def sld_em(*, least_share: float = LEAST_STATED_SHARE, damping: float = 0.05) -> base.Calibrator:
    """Matches the mean prediction to shares from expectation-maximization on the same rows.

    From equal shares, it repeats pi_j <- mean_i of pi_j P_ij / sum_l pi_l P_il until no share moves
    by more than 1e-7, at most 500 times. This maximizes the likelihood of the shares if P_ij =
    softmax(s_i) has no bias (Saerens, Latinne and Decaestecker 2002, Neural Computation 14(1),
    sec. 2). At a fixed point pi is the mean prediction, so that the bias is -log pi; the matching
    step only corrects for the floor, the damping and an early stop. A label that the prompt prefers
    looks frequent, so that this method strengthens a label bias instead of removing it: give it
    scores that another method, such as cc, has corrected.

    Args:
        least_share: the lower bound of the shares.
        damping: 0 to 1, the weight of equal shares in each step. 0 is the published method, which
            often ends with a single label.

    Raises:
        InputError: a `least_share` or a `damping` out of range.

    >>> fit, apply_ = sld_em(damping=0.0)
    >>> rows = jnp.log(jnp.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))
    >>> [round(x, 3) for x in jnp.exp(base.label_normalized(-fit(rows).bias[None]))[0].tolist()]
    [0.812, 0.188]
    """
    if not 0 < least_share < 1 or not 0 <= damping <= 1:
        expected = "a least_share between 0 and 1 (a lower bound of shares), a damping from 0 to 1"
        got = f"least_share={least_share!r}, damping={damping!r}"
        remedy = f"give for example least_share={LEAST_STATED_SHARE}, damping=0.1"
        raise InputError.at("sld_em", expected, got, remedy)

    @base.full_precision
    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        probs = jnp.where(weight[:, None] > 0, jnp.exp(base.label_normalized(log_probs)), 0.0).T
        row_share = weight / jnp.maximum(jnp.sum(weight), 1.0)
        equal = jnp.ones(len(probs), probs.dtype) / len(probs)

        def step(search: _Search) -> _Search:
            last = search.shares
            # E-step: the probability of each label in each row, zero in rows of weight 0.
            joint = probs * last[:, None]
            sums = jnp.sum(joint, axis=0)
            # M-step: the mean over rows, mixed with equal shares.
            mean = (joint / jnp.where(sums > 0, sums, 1.0)) @ row_share
            new = least_shares((1.0 - damping) * mean + damping * equal, least_share)
            return _Search(new, jnp.max(jnp.abs(new - last)), search.steps + 1)

        def moves(search: _Search) -> jax.Array:
            return (search.move > SMALLEST_MOVE) & (search.steps < MOST_EM_STEPS)

        start = _Search(equal, jnp.float32(jnp.inf), jnp.int32(0))
        return jax.lax.while_loop(moves, step, start).shares, weight

    return matched(shares)


def prior_counted() -> base.Calibrator:
    """Matches the mean prediction to the label shares counted in labeled rows.

    pi_j = (n_j + 1) / (n + k), where n_j of n labeled rows have label j. By Laplace's rule, a label
    that was not seen may still occur. The rows labeled -1 are matched, or the labeled rows if no
    row is labeled -1.

    Raises:
        InputError: `fit` without labels.

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


CAUTION = 2.0
"""The factor of the expected squared error by which labels must contradict shares to move them."""


class Estimate(NamedTuple):
    """Shares [k] estimated from labels, and the mean over labels of their variance."""

    shares: Bias
    variance: Scalar


@base.full_precision
def shares_of_scored(probs: ProbeRows, labels: Labels, weight: Weight) -> Estimate:
    """Estimates shares from label probabilities of all rows and the labels of some rows.

    The estimate is mean_i P_i + mean over labeled rows of (onehot_i - P_i). It has no bias, however
    good the probabilities are, and little variance if they are good.

    Args:
        probs: P[m k], such as the mean over contexts of their corrected probabilities.
        labels: [m]; -1 is unknown.
        weight: [m]; rows of weight 0 are absent.

    >>> probs = jnp.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
    >>> found = shares_of_scored(probs, jnp.array([0, 1, -1]), jnp.ones(3))
    >>> [round(float(share), 3) for share in found.shares]
    [0.3, 0.7]
    """
    known = known_weight(probs, labels, weight)
    missed = one_hot(probs, labels) - probs
    mean = base.weighted_mean(missed, known)
    count = jnp.maximum(jnp.sum(known), 1.0)
    spread = jnp.sum(known[:, None] * (missed - mean) ** 2) / jnp.maximum(count - 1.0, 1.0)
    variance = spread / (count * probs.shape[-1]) + SMALLEST_VARIANCE
    return Estimate(base.weighted_mean(probs, weight) + mean, variance)


def shares_of_counted(counts: Bias) -> Estimate:
    """Estimates shares from counts [k] of labels whose rows have no scores.

    The variance is that of counts with one more of each label, because a count of 0 has no
    variance of its own.

    >>> shares_of_counted(jnp.array([3.0, 1.0])).shares.tolist()
    [0.75, 0.25]
    """
    total, k = jnp.sum(counts), counts.shape[-1]
    smooth = (counts + 1.0) / (total + k)
    return Estimate(counts / total, jnp.mean(smooth * (1.0 - smooth)) / total)


def move_shares(start: Bias, estimate: Estimate, count: Scalar | int | float) -> Bias:
    """Moves shares [k] toward an estimate from labels, only as far as it contradicts them.

    p = p0 + max(0, 1 - 2 v k / |e - p0|^2) (e - p0), as James and Stein (1961) shrink a mean, with
    at least 1 / (4 m k) for each label.

    Args:
        start: p0[k], the shares without labels.
        estimate: e[k] and v.
        count: m, the number of labels.

    >>> far = Estimate(jnp.array([0.9, 0.1]), jnp.float32(0.01))
    >>> [round(float(share), 3) for share in move_shares(jnp.array([0.5, 0.5]), far, 16)]
    [0.85, 0.15]
    """
    k, away = start.shape[-1], estimate.shares - start
    far = jnp.maximum(jnp.sum(away**2), SMALLEST_VARIANCE**2)
    part = jnp.maximum(0.0, 1.0 - CAUTION * k * estimate.variance / far)
    shares = jnp.maximum(start + part * away, 0.25 / (count * k))
    return shares / jnp.sum(shares)


def prior_moved(
    *, target_prior: Prior | None = None, share_error: float | None = None
) -> base.Calibrator:
    """Matches the mean prediction to shares that labeled rows move as far as they contradict them.

    The shares without labels are those of `empirical_bayes`, or of `prior_matching` if they are
    known. The predictions that match them and the labels give an estimate (`shares_of_scored`),
    toward which the shares move (`move_shares`). The rows labeled -1 are matched, or the labeled
    rows if no row is labeled -1.

    Args:
        target_prior: see `prior_matching`.
        share_error: see `prior_matching`.

    Raises:
        InputError: `fit` without labels; a share_error outside 0 to 1.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.5, -1.0]])
    >>> fit, _ = prior_moved()
    >>> fit(rows, jnp.array([-1, -1, 0])).bias.shape
    (2,)
    """
    is_known = target_prior is not None or share_error is not None
    start = empirical_bayes(least_information=0.0)
    if is_known:
        start = prior_matching(target_prior=target_prior, share_error=share_error)

    def learn(probe: base.ProbeScores) -> Shift:
        labels = base.known_labels("prior_moved", probe.labels, base.WITH_BATCH)
        weights = probe.weights
        present = jnp.where(weights[:, None] > 0, probe.log_probs, 0.0)
        rows = base.label_normalized(present)
        known = known_weight(rows, labels, weights)
        unlabeled = jnp.where(labels < 0, weights, 0.0)
        batch = jnp.where(jnp.any(unlabeled > 0), unlabeled, known)
        probs = jnp.exp(base.label_normalized(rows - start.fit(rows, None, batch).bias))
        shares = base.weighted_mean(probs, batch)
        found = shares_of_scored(probs, labels, weights)
        moved = move_shares(shares, found, jnp.maximum(jnp.sum(known), 1.0))
        return Shift(match(present, least_shares(moved), batch), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)


def bbse() -> base.Calibrator:
    """Matches the mean prediction to shares estimated from predictions and their confusion matrix.

    C_ij is the share of labeled rows that have label j and are predicted as i, p_j the share of
    label j, and q_i the share of the batch that is predicted as i. The ratio of the frequency of a
    label in the batch to p is w = C^-1 q, and pi_j = w_j p_j, with negative values set to 0 (Lipton
    et al. 2018, arXiv:1802.03916). Predictions are BC's, the argmax of s - mean s: with plain
    scores some labels may never be predicted, and C would have no inverse.

    C from n rows has an error of about 1 / sqrt(n), and its inverse has a much larger error if C is
    nearly singular. So w minimizes |C w - q|^2 + |w - 1|^2 / n, as in Azizzadenesheli et al. 2019
    (arXiv:1903.09734). In p and C, one pseudo-row for each label is added, with predictions as in
    the batch. With few labeled rows w is near 1 and the method is near `prior_counted`; with many
    it is BBSE.

    The batch are the rows labeled -1, or the labeled rows if no row is labeled -1.

    Raises:
        InputError: `fit` without labels.

    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -3.0], [-2.0, -2.5]])
    >>> fit, _ = bbse()
    >>> fit(rows, jnp.array([-1, -1, 0, 1])).bias.shape
    (2,)
    """

    @base.full_precision
    def estimate(log_probs: ProbeRows, gold: jax.Array, counted: Weight, batch: Weight) -> Bias:
        guess = base.favored(log_probs - base.weighted_mean(log_probs, batch))
        predictions = one_hot(log_probs, guess)
        total = jnp.sum(counted) + gold.shape[-1]
        predicted = base.weighted_mean(predictions, batch)
        confusion = ((predictions.T * counted) @ gold + predicted[:, None]) / total
        # w = 1 + excess: least squares with a ridge of 1 / n toward w = 1.
        eye = jnp.eye(gold.shape[-1])
        missed = confusion.T @ (predicted - jnp.sum(confusion, axis=-1))
        excess = jnp.linalg.solve(confusion.T @ confusion + eye / total, missed)
        shares = jnp.maximum((1.0 + excess) * _counted(gold, counted), 0.0)
        return least_shares(shares / jnp.sum(shares))

    return matched(_of_labeled("bbse", estimate))


@base.full_precision
def _counted(gold: jax.Array, counted: Weight) -> Bias:
    counts = jnp.asarray(counted) @ gold + 1.0
    return counts / jnp.sum(counts)


ShareEstimator = Callable[[ProbeRows, jax.Array, Weight, Weight], Bias]
"""A function: rows [m k], one-hot labels [m k], weights [m] as labeled rows, weights [m] in the
batch -> shares [k]."""


def _of_labeled(name: str, estimate: ShareEstimator) -> Shares:
    def shares(log_probs: ProbeRows, labels: Labels | None, weight: Weight) -> tuple[Bias, Weight]:
        labels = base.known_labels(name, labels, base.WITH_BATCH)
        counted = known_weight(log_probs, labels, weight)
        unlabeled = jnp.where(labels < 0, weight, 0.0)
        batch = jnp.where(jnp.any(unlabeled > 0), unlabeled, counted)
        return estimate(log_probs, one_hot(log_probs, labels), counted, batch), batch

    return shares
