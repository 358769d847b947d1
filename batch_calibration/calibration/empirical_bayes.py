"""An empirical-Bayes shift: a likely bias that leaves likely shares of labels, with labels or not.

BC takes all of the mean score for bias, which is right where labels are right equally often. Here
the mean score is bias and shares together: a shift a [k] implies the shares

    pi(a) = mean_i softmax(s_i - a)   and the bias   b(a) = a + log pi(a), centered,

for s_i = b + log pi + what the row tells, up to a constant, where a prior pi is Bayes's. The shift
is where k log(1 + |b|^2 / 2k) + k^2 / 2 |pi - u|^2 is least: the first is less minus the logarithm
of a heavy-tailed density of biases, the second of shares around expected ones u.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration import base
from batch_calibration.calibration.objective import known_weight, one_hot
from batch_calibration.calibration.shift import Shift, apply
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Count, Labels, ProbeRows, Scalar, Weight

LEAST_INFORMATION = 0.05
"""Nats that a row's corrected scores must tell of its label on average, or nothing is shifted."""
LABELED_WEIGHT = 0.1
"""The weight of a labeled row's log loss, relative to the densities of biases and shares."""
RANGE_OF_CONFIDENCE = 0.3, 1.2
MOST_GAUSS_NEWTON_STEPS = 60
"""The most Gauss-Newton steps, halved ones too; on 698 contexts 6 to 40 whole ones were needed."""
SMALLEST_STEP = 1e-5
"""Nats by which no label moves any more."""
LONGEST_STEP = 2.0
"""Nats. Where a label is hardly ever right all large shifts are as good: the search would not end,
so a step of `FLAT` nats or more that takes less than `LEAST_GAIN` off the objective is the last."""
FLAT, LEAST_GAIN = 0.1, 1e-5
CLEARLY_LESS = 1e-3
"""Of the objective: what another minimum must be lower by."""
SMALLEST_PART = 1e-4
"""Of a step: where halving ends."""
TINY = float(np.finfo(np.float32).tiny)
CURVATURE_RIDGE = 1e-6
"""Of the mean curvature: what lets a matrix that is singular along equal shifts be solved."""


Evaluation = tuple[Scalar, Bias, jax.Array]
"""An objective's value, its gradient [k] and a positive curvature [k, k] there."""


class _Search(NamedTuple):
    """Where the search stands, the step to try from there, and how long the last one was."""

    place: Bias
    value: Scalar
    move: Bias
    size: Scalar
    reach: Scalar
    steps: Count


def information(log_probs: ProbeRows, weight: Weight | None = None) -> Scalar:
    """The information of a row's scores on its label after BC, in nats.

    The mean over rows of KL(Q_i || mean Q), Q_i the label probabilities of row i after BC.

    >>> round(float(information(jnp.array([[-1.0, -3.0], [-2.0, -2.5]]))), 3)
    0.066
    """
    log_after = base.label_normalized(_corrected(log_probs, weight))
    mean = base.weighted_mean(jnp.exp(log_after), weight)
    ratio = log_after - jnp.log(jnp.maximum(mean, TINY))
    told = base.weighted_mean(jnp.exp(log_after) * ratio, weight)
    return jnp.sum(told)


def confidence(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """The confidence of the rows that BC gives to each label, relative to the other rows, [k].

    The mean probability after BC of a label's rows, divided by that of all others; 1 where a label
    is given no row, or every row. The rows that are given to a label that is never right are rows
    of others, so that their confidence is low.

    >>> rows = jnp.array([[0.0, -3.0], [-3.0, 0.0], [-2.0, -1.0]])
    >>> [round(float(ratio), 2) for ratio in confidence(rows)]
    [1.2, 0.83]
    """
    after = jnp.exp(base.label_normalized(_corrected(log_probs, weight)))
    weights = base.weights_of(log_probs, weight)
    of_label = jnp.where(weights > 0, weights, 0.0)[:, None] * one_hot(after, base.favored(after))
    sums = jnp.sum(jnp.where(of_label > 0, of_label * after, 0.0), axis=0)
    counts = jnp.sum(of_label, axis=0)
    other_sums, other_counts = jnp.sum(sums) - sums, jnp.sum(counts) - counts
    has_both = (counts > 0) & (other_counts > 0)
    ratio = (sums / jnp.maximum(counts, 1e-6)) / jnp.maximum(
        other_sums / jnp.maximum(other_counts, 1e-6), 1e-6
    )
    return jnp.clip(jnp.where(has_both, ratio, 1.0), *RANGE_OF_CONFIDENCE)


def _corrected(log_probs: ProbeRows, weight: Weight | None) -> ProbeRows:
    """Scores after BC; a row of weight 0 has zeros."""
    present = jnp.where(base.weights_of(log_probs, weight)[:, None] > 0, log_probs, 0.0)
    rows = base.label_normalized(present)
    return rows - base.weighted_mean(rows, weight)


# Outside of a compiled program each call would else compile its loops again.
@jax.jit
@base.full_precision
def likely_shift(
    rows: ProbeRows,
    weight: Weight,
    shares: Bias,
    labels: Labels | None = None,
    labeled_weight: Weight | None = None,
    *,
    bias_scale: Scalar | float = 1.0,
    share_weight: Scalar | float = 1.0,
) -> Bias:
    """The shift a [k], in nats, of mean 0, at which the objective above is least.

    Gauss-Newton on both terms, the first by its weight 1 / (1 + |b|^2 / 2k): a sum of squares that
    touches it from above, so that a step descends; it is halved until it does.

    Args:
        rows: s[m k], label-normalized, finite.
        weight: [m]; what the shares and the bias are taken from.
        shares: u[k], the shares that are expected.
        labels: [m], where the log loss of softmax(s - a) on labeled rows is added.
        labeled_weight: [m], what each row's log loss weighs.
        bias_scale: nats; the scale of likely biases.
        share_weight: the weight of the expected shares relative to the bias.
    """
    k = rows.shape[-1]
    pull = share_weight * k * k
    total = jnp.sum(weight)
    log_share = jnp.where(weight > 0, jnp.log(weight / jnp.where(total > 0, total, 1.0)), -jnp.inf)
    # [m, k], what each row's log loss weighs at its true label
    known = jnp.zeros_like(weight) if labeled_weight is None else labeled_weight
    true = None if labels is None else known[:, None] * one_hot(rows, labels)

    def implied(shift: Bias) -> tuple[jax.Array, Bias, Bias]:
        """Log-probabilities [m, k], the log of the shares [k], and the bias [k] of a shift."""
        log_probs = base.label_normalized(rows - shift)
        log_shares = jax.nn.logsumexp(log_probs + log_share[:, None], axis=0)
        bias = shift + log_shares
        return log_probs, log_shares, (bias - jnp.mean(bias)) / bias_scale

    def evaluate(shift: Bias) -> Evaluation:
        log_probs, log_shares, bias = implied(shift)
        value = k * jnp.log1p(jnp.sum(bias**2) / (2 * k))
        value += 0.5 * pull * jnp.sum((jnp.exp(log_shares) - shares) ** 2)
        probs = jnp.exp(log_probs)
        # [k, k]: how the bias of each label moves with the shift of each, and its share.
        of_label = jnp.exp(log_probs + log_share[:, None] - log_shares)  # [m, k], of sum 1 over m
        moves = of_label.T @ probs
        bias_moves = (moves - jnp.mean(moves, axis=0)) / bias_scale
        share_moves = jnp.exp(log_shares)[:, None] * (moves - jnp.eye(k))
        heaviness = 1.0 / (1.0 + jnp.sum(bias**2) / (2 * k))
        slope = heaviness * bias @ bias_moves
        slope += pull * (jnp.exp(log_shares) - shares) @ share_moves
        curvature = heaviness * bias_moves.T @ bias_moves + pull * share_moves.T @ share_moves
        if true is not None:
            weighted = known[:, None] * probs
            value -= jnp.sum(true * log_probs)
            slope += jnp.sum(true - weighted, axis=0)
            curvature += jnp.diag(jnp.sum(weighted, axis=0)) - weighted.T @ probs
        return value, slope, curvature

    # From BC's bias with the expected shares as its target. Of few rows there may be another
    # minimum, on the far side; where all far shifts are alike the first place stays.
    mean = base.weighted_mean(rows, weight)
    starts = jnp.stack([mean - jnp.log(shares), -mean])
    starts -= jnp.mean(starts, axis=-1, keepdims=True)
    (near, far), values = jax.vmap(lambda start: descend(start, evaluate))(starts)
    return jnp.where(total > 0, jnp.where(values[1] < values[0] - CLEARLY_LESS, far, near), 0.0)


def descend(start: Bias, evaluate: Callable[[Bias], Evaluation]) -> tuple[Bias, Scalar]:
    """Gauss-Newton steps, halved until they descend, over k numbers that matter up to a constant.

    Args:
        start: [k].
        evaluate: the objective, its gradient and a positive curvature at a place [k].

    Returns:
        Where the search ended, and the objective there.
    """
    k = len(start)

    def step(search: _Search) -> _Search:
        place = search.place - search.size * search.move
        value, slope, curvature = evaluate(place)
        slope -= jnp.mean(slope)
        ridge = CURVATURE_RIDGE * jnp.trace(curvature) / k + 1e-12
        # Equal shifts of all labels change nothing: the matrix of ones fills what they leave empty.
        filled = curvature + ridge * jnp.eye(k, dtype=curvature.dtype) + jnp.trace(curvature) / k**2
        move = jnp.linalg.solve(filled, slope)
        move -= jnp.mean(move)
        move = jnp.where(jnp.all(jnp.isfinite(move)), move, 0.0)
        move *= jnp.minimum(1.0, LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(move)), 1e-30))
        reach = search.size * jnp.max(jnp.abs(search.move))
        is_flat = (reach > FLAT) & (search.value - value < LEAST_GAIN * jnp.abs(search.value))
        reach = jnp.where(search.steps == 0, jnp.inf, jnp.where(is_flat, 0.0, reach))
        taken = _Search(place, value, move, jnp.ones_like(search.size), reach, search.steps + 1)
        halved = search._replace(size=search.size / 2.0, steps=search.steps + 1)
        # Roundings of the objective must not stop the last steps.
        descends = value <= search.value + 1e-6 * jnp.abs(search.value)
        is_taken = descends | (search.size <= SMALLEST_PART)
        return cast(_Search, jax.tree.map(partial(jnp.where, is_taken), taken, halved))

    far = jnp.full_like(start[0], jnp.inf)
    end = jax.lax.while_loop(
        lambda search: (search.reach > SMALLEST_STEP) & (search.steps <= MOST_GAUSS_NEWTON_STEPS),
        step,
        _Search(start, far, jnp.zeros_like(start), jnp.ones_like(far), far, jnp.int32(0)),
    )
    return end.place, end.value


def empirical_bayes(
    *,
    least_information: float = LEAST_INFORMATION,
    confidence_power: float = 2.0,
    bias_scale: float = 1.0,
    share_weight: float = 1.0,
    labeled_weight: float | None = None,
) -> base.Calibrator:
    """Subtracts the most probable shift under densities of biases and of shares of labels.

    The expected shares are u_j = c_j^2 / sum c^2, c_j the `confidence` that BC leaves label j.
    Where a row's corrected scores tell less than 0.05 nats of its label (`information`), a shift
    would only move guesses, and the scores stay as they are. With labels, the log loss of the
    labeled rows after the shift is added, 0.1 of it, and scores are shifted whatever they tell.

    The constants are not tuned on the rows at hand: the study configs/evidence_recommend.py chooses
    each on all sources but the one that judges it.

    Args:
        least_information: in nats.
        confidence_power: the power of the confidence that expected shares go with.
        bias_scale: nats; the scale of likely biases.
        share_weight: the weight of the expected shares relative to the bias.
        labeled_weight: what a labeled row's log loss weighs; None uses no labels.

    Raises:
        InputError: an option that is negative or no number; no labels given to `fit` where they
            are used.

    >>> fit, apply_ = empirical_bayes()
    >>> rows = jnp.array(10 * [[-1.0, -4.0], [-1.0, -3.5], [-2.0, -2.5], [-3.0, -3.2]])
    >>> apply_(fit(rows), rows)[:4].argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    options = {
        "least_information": least_information,
        "confidence_power": confidence_power,
        "bias_scale": bias_scale,
        "share_weight": share_weight,
        "labeled_weight": labeled_weight or 0.0,
    }
    for name, value in options.items():
        if not 0.0 <= value < float("inf") or (name == "bias_scale" and value == 0):
            raise InputError.at(
                name, "a number above 0", repr(value), "leave it out for the default"
            )

    def learn(probe: base.ProbeScores) -> Shift:
        weights = probe.weights
        batch = jnp.where(weights > 0, weights, 0.0)
        known: jax.Array | None = None
        if labeled_weight is not None:
            labels = base.known_labels("bcl_empirical_bayes", probe.labels, base.WITH_BATCH)
            known = known_weight(probe.log_probs, labels, batch)
            unlabeled = jnp.where(labels < 0, batch, 0.0)
            batch = jnp.where(jnp.any(unlabeled > 0), unlabeled, known)
        present = jnp.where(weights[:, None] > 0, probe.log_probs, 0.0)
        rows = base.label_normalized(present)
        sureness = confidence(rows, batch) ** confidence_power
        search = partial(
            likely_shift, rows, batch, sureness / jnp.sum(sureness),
            bias_scale=bias_scale, share_weight=share_weight,
        )  # fmt: skip
        if labeled_weight is not None and known is not None:
            return Shift(search(probe.labels, labeled_weight * known), jnp.float32(1.0))
        tells = information(rows, batch) >= least_information
        return Shift(jnp.where(tells, search(), 0.0), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)
