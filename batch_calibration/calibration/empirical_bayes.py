"""An empirical-Bayes shift: the most probable bias and label shares, with or without labels.

BC treats the whole mean score as bias, which is right if all labels are equally frequent. Here the
mean score is the sum of a bias and the label shares. A shift a [k] implies

    the shares   pi(a) = mean_i softmax(s_i - a)   and the bias   b(a) = a + log pi(a), centered,

because s_i = b + log pi + the evidence of row i, up to a constant, for Bayes' prior pi. The shift
minimizes k log(1 + |b|^2 / 2k) + w k^2 / 2 |pi - u|^2. Up to constants, the first term is the
negative logarithm of a heavy-tailed density of biases, the second that of a density of shares
around the expected shares u, whose weight w is 1 if nothing is known of them.
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
"""The mean information of the corrected scores, in nats, below which the scores are unchanged."""
LABELED_WEIGHT = 0.1
"""The weight of a labeled row's log loss, relative to the densities of biases and shares."""
RANGE_OF_CONFIDENCE = 0.3, 1.2
MOST_GAUSS_NEWTON_STEPS = 60
"""The largest number of Gauss-Newton steps, with halved steps; 698 contexts took 6 to 40 full
steps."""
SMALLEST_STEP = 1e-5
"""The tolerance of the search, in nats: a step that moves no label by more is the last."""
LONGEST_STEP = 2.0
"""The longest step, in nats."""
FLAT, LEAST_GAIN = 0.1, 1e-5
"""A step longer than `FLAT` nats is the last if it lowers the objective by less than the fraction
`LEAST_GAIN`. If a label is almost never right, all large shifts are equally good and the search
would not end."""
CLEARLY_LESS = 1e-3
"""The difference in the objective by which a second minimum must be lower."""
SMALLEST_PART = 1e-4
"""The fraction of a step at which halving ends."""
TINY = float(np.finfo(np.float32).tiny)
CURVATURE_RIDGE = 1e-6
"""The ridge, relative to the mean curvature; equal shifts of all labels make the matrix singular.
"""


Evaluation = tuple[Scalar, Bias, jax.Array]
"""An objective's value, its gradient [k] and a positive curvature [k, k] there."""


class _Search(NamedTuple):
    """The place of the search, its objective, the next step, and the length of the last step."""

    place: Bias
    value: Scalar
    move: Bias
    size: Scalar
    reach: Scalar
    steps: Count


def information(log_probs: ProbeRows, weight: Weight | None = None) -> Scalar:
    """Measures the information of the scores on a row's label after BC, in nats.

    This is the mean over rows of KL(Q_i || mean Q), where Q_i are the label probabilities of row i
    after BC.

    >>> round(float(information(jnp.array([[-1.0, -3.0], [-2.0, -2.5]]))), 3)
    0.066
    """
    log_after = base.label_normalized(_corrected(log_probs, weight))
    mean = base.weighted_mean(jnp.exp(log_after), weight)
    ratio = log_after - jnp.log(jnp.maximum(mean, TINY))
    told = base.weighted_mean(jnp.exp(log_after) * ratio, weight)
    return jnp.sum(told)


def confidence(log_probs: ProbeRows, weight: Weight | None = None) -> Bias:
    """Measures the confidence of the rows predicted as each label, relative to other rows, [k].

    This is the mean probability of the predicted label after BC, over the rows predicted as the
    label, divided by the same mean over all other rows. It is 1 if a label is predicted for no row
    or for every row. If a label is never right, the rows predicted as it belong to other labels,
    and their confidence is low.

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
    others = other_sums / jnp.maximum(other_counts, 1e-6)
    ratio = (sums / jnp.maximum(counts, 1e-6)) / jnp.maximum(others, 1e-6)
    return jnp.clip(jnp.where(has_both, ratio, 1.0), *RANGE_OF_CONFIDENCE)


def _corrected(log_probs: ProbeRows, weight: Weight | None) -> ProbeRows:
    """Corrects label-normalized scores by BC; a row of weight 0 is read as zeros."""
    present = jnp.where(base.weights_of(log_probs, weight)[:, None] > 0, log_probs, 0.0)
    rows = base.label_normalized(present)
    return rows - base.weighted_mean(rows, weight)


# Without jit, each call outside of a compiled program would compile its loops again.
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
    start: Bias | None = None,
) -> Bias:
    """Finds the shift a [k], in nats and of mean 0, that minimizes the objective of this module.

    The search is Gauss-Newton on both terms. The first term is weighted by 1 / (1 + |b|^2 / 2k):
    this sum of squares touches the term from above, so that a short step lowers the objective. A
    step is halved until it does.

    Args:
        rows: s[m k], label-normalized, finite.
        weight: [m], the weights of the rows in the shares and the bias.
        shares: u[k], the expected shares.
        labels: [m]; if given, the log loss of softmax(s - a) on labeled rows is added.
        labeled_weight: [m], the weight of each row's log loss.
        bias_scale: the scale of probable biases, in nats.
        share_weight: w, the weight of the expected shares relative to the bias.
        start: [k], where the search begins; by default BC's bias with u as its target prior.
    """
    k = rows.shape[-1]
    pull = share_weight * k * k
    total = jnp.sum(weight)
    log_share = jnp.where(weight > 0, jnp.log(weight / jnp.where(total > 0, total, 1.0)), -jnp.inf)
    # [m, k], the weight of each row's log loss at its gold label
    known = jnp.zeros_like(weight) if labeled_weight is None else labeled_weight
    true = None if labels is None else known[:, None] * one_hot(rows, labels)

    def implied(shift: Bias) -> tuple[jax.Array, Bias, Bias]:
        """Returns log-probabilities [m, k], the log shares [k] and the bias [k] of a shift."""
        log_probs = base.label_normalized(rows - shift)
        log_shares = jax.nn.logsumexp(log_probs + log_share[:, None], axis=0)
        bias = shift + log_shares
        return log_probs, log_shares, (bias - jnp.mean(bias)) / bias_scale

    def evaluate(shift: Bias) -> Evaluation:
        log_probs, log_shares, bias = implied(shift)
        value = k * jnp.log1p(jnp.sum(bias**2) / (2 * k))
        value += 0.5 * pull * jnp.sum((jnp.exp(log_shares) - shares) ** 2)
        probs = jnp.exp(log_probs)
        # [k, k]: the derivatives of the bias and of the shares by the shift
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

    # With few rows there may be a second minimum on the opposite side. It is taken only if it is
    # clearly lower.
    mean = base.weighted_mean(rows, weight)
    starts = jnp.stack([mean - jnp.log(shares) if start is None else start, -mean])
    starts -= jnp.mean(starts, axis=-1, keepdims=True)
    (near, far), values = jax.vmap(lambda start: descend(start, evaluate))(starts)
    return jnp.where(total > 0, jnp.where(values[1] < values[0] - CLEARLY_LESS, far, near), 0.0)


def descend(start: Bias, evaluate: Callable[[Bias], Evaluation]) -> tuple[Bias, Scalar]:
    """Minimizes an objective of k numbers that a common constant does not change.

    It takes Gauss-Newton steps and halves each of them until the objective falls.

    Args:
        start: [k].
        evaluate: returns the objective, its gradient and a positive curvature at a place [k].

    Returns:
        The last place, and the objective at this place.
    """
    k = len(start)

    def step(search: _Search) -> _Search:
        place = search.place - search.size * search.move
        value, slope, curvature = evaluate(place)
        slope -= jnp.mean(slope)
        ridge = CURVATURE_RIDGE * jnp.trace(curvature) / k + 1e-12
        # Equal shifts of all labels change nothing: a matrix of ones fills this null space.
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
        # Rounding errors of the objective must not stop the last steps.
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
    """Subtracts the most probable shift under densities of biases and of label shares.

    The expected shares are u_j = c_j^2 / sum c^2, where c_j is the `confidence` of label j. If the
    corrected scores carry less than 0.05 nats of information on a row's label (`information`), a
    shift would only move guesses, and the scores are unchanged. With labels, 0.1 times the log loss
    of the labeled rows is added to the objective, and scores are always shifted.

    The constants are not tuned on the rows to correct: the study configs/evidence_recommend.py
    chooses each of them on all sources except the one that tests it.

    Args:
        least_information: the least information for a shift, in nats.
        confidence_power: the power of the confidence in the expected shares.
        bias_scale: the scale of probable biases, in nats.
        share_weight: the weight of the expected shares relative to the bias.
        labeled_weight: the weight of a labeled row's log loss; None uses no labels.

    Raises:
        InputError: an option that is negative or not a number; `fit` without labels if they are
            used.

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
            remedy = "leave it out for the default"
            raise InputError.at(name, "a number above 0", repr(value), remedy)

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
        expected = sureness / jnp.sum(sureness)
        scales = {"bias_scale": bias_scale, "share_weight": share_weight}
        search = partial(likely_shift, rows, batch, expected, **scales)
        if labeled_weight is not None and known is not None:
            return Shift(search(probe.labels, labeled_weight * known), jnp.float32(1.0))
        tells = information(rows, batch) >= least_information
        return Shift(jnp.where(tells, search(), 0.0), jnp.float32(1.0))

    return base.Calibrator.of(learn, apply)
