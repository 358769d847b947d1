"""A bias from labeled rows in which each label weighs alike: RBCorr and LOOC are probes of it."""

from collections.abc import Sequence

import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, ProbeScores, known_labels, weighted_mean
from batch_calibration.calibration.objective import known_weight, one_hot
from batch_calibration.calibration.shift import (
    BiasEstimator,
    Shift,
    apply,
    log_target,
    mean_log_prob,
)
from batch_calibration.typing import Bias, Labels, ProbeRows, Weight


def balanced_mean(log_probs: ProbeRows, labels: Labels, weight: Weight | None = None) -> Bias:
    """The mean over labels that occur of the mean score of that label's rows, [k].

    Rows of label -1 do not count; zero where no row has a known label.

    >>> rows = jnp.array([[0.0, 2.0], [0.0, 2.0], [4.0, 0.0]])
    >>> balanced_mean(rows, jnp.array([0, 0, 1])).tolist()
    [2.0, 1.0]
    """
    return weighted_mean(log_probs, balanced_weight(log_probs, labels, weight))


def balanced_weight(log_probs: ProbeRows, labels: Labels, weight: Weight | None = None) -> Weight:
    """A weight for each row [m], by which all rows of a label weigh 1 together.

    Zero where the label is unknown (-1).
    """
    known_weights = known_weight(log_probs, labels, weight)
    # A label without rows has the sum 0, in place of which 1 divides its zeros.
    of_label = known_weights[:, None] * one_hot(log_probs, labels)
    total = jnp.sum(of_label, axis=0)
    shares: Weight = jnp.sum(of_label / jnp.where(total > 0, total, 1.0), axis=1)
    return shares


def balanced_shift(
    *,
    estimate: BiasEstimator = mean_log_prob,
    strength: float = 1.0,
    target_prior: Sequence[float] | None = None,
) -> Calibrator:
    """Subtracts the class-balanced mean of labeled rows: s - gamma b, b = mean_l mean_{y_i=l} s_i.

    RBCorr (Bhatt and Ivanova 2026, arXiv:2602.12445) takes the plain mean of a labeled set drawn
    with as many rows of each label (`src/rbcorr_impl.py` of its code); on that set this is the
    same, and on any other it weighs the labels as if they were so drawn. Unlike BC's, the bias
    does not move with the shares of the labels among the rows it is learned from.

    LOOC (Reif and Schwartz 2024, arXiv:2405.02743) learns from the demonstrations, each taken out
    of the context and asked as the input. Its code (schwartz-lab-NLP/label-bias,
    `compute_task_calibration_parameters`) divides by the mean over labels of the mean
    *probability*, normalized over the labels: `estimate=log_mean_label_prob`. It scores a label by
    the mean log-probability of its tokens and an end token; here, as everywhere, it is their sum
    without that token.

    Args:
        estimate: probe rows [m k] and their weights [m], the balanced ones -> bias [k] in nats.
        strength: gamma; 0 leaves the scores as they are.
        target_prior: the share of each of the k labels one expects; the bias becomes b - log pi.

    Raises:
        InputError: no labels given to `fit`.

    >>> fit, apply_ = balanced_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -3.0], [-2.0, -2.0]])
    >>> apply_(fit(rows, jnp.array([0, 0, 1])), rows).tolist()
    [[0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]
    """

    def learn(probe: ProbeScores) -> Shift:
        labels = known_labels("The class-balanced mean", probe.labels)
        weight = balanced_weight(probe.log_probs, labels, probe.weight)
        bias = estimate(probe.log_probs, weight)
        return Shift(bias - log_target(target_prior), jnp.float32(strength))

    return Calibrator.of(learn, apply)
