"""Risk and coverage of confident answers, and answers that flip with the order of options."""

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.numbers import reads_rows
from batch_calibration.calibration.base import favored, label_normalized
from batch_calibration.calibration.objective import known_weight, present_mean
from batch_calibration.calibration.order_average import by_option
from batch_calibration.errors import InputError
from batch_calibration.metrics.intervals import Estimate, accuracy_of
from batch_calibration.typing import Labels, ProbeRows, Scalar, Weight

ACCEPTED_ERROR = 0.05


def _risk_and_coverage(
    scores: ProbeRows, labels: Labels, weight: Weight | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Risk and coverage where each row is the least sure that is answered, and weights; [n] each.

    A row's confidence is max_j P_ij; rows of equal confidence are answered together.
    """
    weights = known_weight(scores, labels, weight)
    confidence = jnp.max(jnp.exp(label_normalized(scores)), axis=-1)
    # Absent rows may hold NaN: they go last and weigh nothing.
    confidence = jnp.where(weights > 0, confidence, -1.0)
    order = jnp.argsort(-confidence, stable=True)
    wrong = (favored(scores) != labels).astype(jnp.float32)[order]
    sorted_weights = weights[order]
    answered = jnp.cumsum(sorted_weights)
    mistaken = jnp.cumsum(jnp.where(sorted_weights > 0, sorted_weights * wrong, 0.0))
    # The last row that is as sure: all of a tie are in or out.
    last = jnp.searchsorted(-confidence[order], -confidence[order], side="right") - 1
    coverage = answered[last]
    risk = mistaken[last] / jnp.where(coverage > 0, coverage, 1.0)
    total = jnp.sum(sorted_weights)
    return risk, coverage / jnp.where(total > 0, total, 1.0), sorted_weights


@reads_rows
def aurc(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The area under the risk-coverage curve, 0 to 1, the less the better.

    The mean over rows of the share of wrong answers among the rows at least as sure as this one:
    Geifman and El-Yaniv 2017, arXiv:1705.08500; confidence is max_j P_ij.

    >>> scores = jnp.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> round(aurc(scores, jnp.array([0, 1, 0])).item(), 4)
    0.2778
    """
    risk, _, weights = _risk_and_coverage(scores, labels, weight)
    return present_mean(risk, weights)


@reads_rows
def coverage_at_5(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """The largest share of rows that can be answered, the surest first, with at most 5 % wrong.

    >>> scores = jnp.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> round(coverage_at_5(scores, jnp.array([0, 0, 1])).item(), 4)
    0.6667
    """
    risk, coverage, weights = _risk_and_coverage(scores, labels, weight)
    # 1e-6 for rounding: one wrong answer of twenty is 5 %.
    is_accepted = (risk <= ACCEPTED_ERROR + 1e-6) & (weights > 0)
    return jnp.max(jnp.where(is_accepted, coverage, 0.0), initial=0.0)


def order_flip_rate(log_probs: ProbeRows, questions: int) -> Estimate:
    """The share of questions whose answer depends on the order of their options, and its interval.

    Args:
        log_probs: [n o, k] in nats, the orders of each question in sequence, two or all k
            (see `calibration.order_average.option_places`).
        questions: n.

    Returns:
        The share of questions that get another option in at least one order, and the 95 % interval
        of `accuracy_interval`.

    Raises:
        InputError: rows that are neither two nor k for each question.

    >>> asked = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -2.0], [-2.0, -1.0]])
    >>> print(order_flip_rate(asked, 2))
    50.0 [10.0, 90.0]
    """
    rows = jnp.asarray(log_probs)
    options = by_option(rows, questions)
    if options is None:
        total, k = rows.shape
        expected = f"two or {k} rows for each of {questions} questions, orders of their options"
        remedy = "give the orders of each question in sequence"
        raise InputError.at("log_probs", expected, f"{total} rows", remedy)
    answers = np.asarray(favored(options))  # [n, o]
    return accuracy_of((answers != answers[:, :1]).any(axis=1))
