"""A bias from labeled rows in which each label weighs alike: RBCorr and LOOC are probes of it."""

from collections.abc import Sequence

import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, weighted_mean
from batch_calibration.calibration.objective import known_weight, one_hot
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.errors import InputError
from batch_calibration.typing import Bias, Key, Labels, ProbeRows, Weight


def balanced_mean(log_probs: ProbeRows, labels: Labels, weight: Weight | None = None) -> Bias:
    """The mean over labels that occur of the mean score of that label's rows, [k].

    Rows of label -1 do not count; zero where no row has a known label.

    >>> rows = jnp.array([[0.0, 2.0], [0.0, 2.0], [4.0, 0.0]])
    >>> balanced_mean(rows, jnp.array([0, 0, 1])).tolist()
    [2.0, 1.0]
    """
    known = known_weight(log_probs, labels, weight)
    of_label = known[:, None] * one_hot(log_probs, labels)
    total = jnp.sum(of_label, axis=0)
    shares = jnp.sum(of_label / jnp.where(total > 0, total, 1.0), axis=1)
    return weighted_mean(log_probs, shares)


def balanced_shift(
    *, strength: float = 1.0, target_prior: Sequence[float] | None = None
) -> Calibrator:
    """Subtracts the class-balanced mean of labeled rows: s - gamma b, b = mean_l mean_{y_i=l} s_i.

    RBCorr (Bhatt and Ivanova 2026, arXiv:2602.12445) takes the plain mean of a labeled set drawn
    with as many rows of each label (`src/rbcorr_impl.py` of its code); on such a set this is the
    same, and on any other it weighs the labels as if they were so drawn. Unlike BC's, the bias
    does not move with the shares of the labels among the rows it is learned from.

    Args:
        strength: gamma; 0 leaves the scores as they are.
        target_prior: the share of each of the k labels one expects; the bias becomes b - log pi.

    Raises:
        InputError: no labels given to `fit`.

    >>> fit, apply_ = balanced_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -3.0], [-2.0, -2.0]])
    >>> apply_(fit(rows, jnp.array([0, 0, 1])), rows).tolist()
    [[0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]
    """

    def fit(
        log_probs: ProbeRows,
        labels: Labels | None = None,
        weight: Weight | None = None,
        /,
        *,
        key: Key | None = None,
    ) -> Shift:
        del key
        if labels is None:
            raise InputError(
                "The class-balanced mean needs the label of each row and none came: give the "
                "scores and the labels of a labeled set (label -1 means unknown)."
            )
        bias = balanced_mean(log_probs, labels, weight) - log_target(target_prior)
        return Shift(bias, jnp.float32(strength))

    return Calibrator(fit, apply)
