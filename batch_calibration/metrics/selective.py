"""Risk and coverage of confident answers, and answers that depend on the order of options."""

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

ACCEPTED_ERROR = 0.05  # the risk of `coverage_at_5`


def _risk_and_coverage(
    scores: ProbeRows, labels: Labels, weight: Weight | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Computes risk [n] and coverage [n] at each row's confidence as threshold, and weights [n].

    A row's confidence is max_j P_ij. Rows at or above the threshold are answered, so that rows of
    equal confidence are answered together. The results are sorted by confidence, highest first.
    """
    weights = known_weight(scores, labels, weight)
    confidence = jnp.max(jnp.exp(label_normalized(scores)), axis=-1)
    # Absent rows may hold NaN: they are last and have weight 0.
    confidence = jnp.where(weights > 0, confidence, -1.0)
    order = jnp.argsort(-confidence, stable=True)
    wrong = (favored(scores) != labels).astype(jnp.float32)[order]
    sorted_weights = weights[order]
    answered = jnp.cumsum(sorted_weights)
    mistaken = jnp.cumsum(jnp.where(sorted_weights > 0, sorted_weights * wrong, 0.0))
    # The last row of equal confidence, because ties are answered together.
    last = jnp.searchsorted(-confidence[order], -confidence[order], side="right") - 1
    coverage = answered[last]
    risk = mistaken[last] / jnp.where(coverage > 0, coverage, 1.0)
    total = jnp.sum(sorted_weights)
    return risk, coverage / jnp.where(total > 0, total, 1.0), sorted_weights


@reads_rows
def aurc(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the area under the risk-coverage curve, 0 to 1; lower is better.

    This is the mean over rows of the share of wrong answers among the rows with at least the row's
    confidence max_j P_ij (Geifman and El-Yaniv 2017, arXiv:1705.08500).

    >>> scores = jnp.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> round(aurc(scores, jnp.array([0, 1, 0])).item(), 4)
    0.2778
    """
    risk, _, weights = _risk_and_coverage(scores, labels, weight)
    return present_mean(risk, weights)


@reads_rows
def coverage_at_5(scores: ProbeRows, labels: Labels, weight: Weight | None = None) -> Scalar:
    """Computes the largest coverage, by decreasing confidence, with at most 5 % wrong answers.

    >>> scores = jnp.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> round(coverage_at_5(scores, jnp.array([0, 0, 1])).item(), 4)
    0.6667
    """
    risk, coverage, weights = _risk_and_coverage(scores, labels, weight)
    # 1e-6 allows for rounding: one wrong answer in twenty is 5 %.
    is_accepted = (risk <= ACCEPTED_ERROR + 1e-6) & (weights > 0)
    return jnp.max(jnp.where(is_accepted, coverage, 0.0), initial=0.0)


def order_flip_rate(log_probs: ProbeRows, questions: int) -> Estimate:
    """Estimates the share of questions with an answer that depends on the order of their options.

    Args:
        log_probs: [n o, k] in nats, the orders of each question in sequence, two or all k
            (see `calibration.order_average.option_places`).
        questions: n.

    Returns:
        The share of questions that get a different option in at least one order, and its 95 %
        interval (`accuracy_interval`).

    Raises:
        InputError: neither two nor k rows for each question.

    >>> asked = jnp.array([[-1.0, -3.0], [-2.0, -2.5], [-1.0, -2.0], [-2.0, -1.0]])
    >>> print(order_flip_rate(asked, 2))
    50.0 [10.0, 90.0]
    """
    rows = jnp.asarray(log_probs)
    options = by_option(rows, questions)
    if options is None:
        total, k = rows.shape
        expected = f"2 or all {k} rows for each of {questions} questions, orders of their options"
        remedy = "give the orders of each question in sequence"
        raise InputError.at("log_probs", expected, f"{total} rows", remedy)
    answers = np.asarray(favored(options))  # [n, o]
    return accuracy_of((answers != answers[:, :1]).any(axis=1))
