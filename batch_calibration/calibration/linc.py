"""LinC: a linear map of label probabilities, from content-free rows and a few labeled ones."""

from typing import NamedTuple

import jax.numpy as jnp

from batch_calibration.calibration.affine import Affine, learn, transform
from batch_calibration.calibration.base import Calibrator, ProbeScores, label_normalized
from batch_calibration.calibration.scaling import check_regularization, known_rows
from batch_calibration.calibration.shift import mean_label_prob
from batch_calibration.typing import Rows, Scores

# Of the mean share 1/k: a label that content-free rows all but exclude is raised this much at most.
LEAST_MEAN_PROBABILITY = 0.01


class LinC(NamedTuple):
    """The state of LinC: z = A p + b.

    Attributes:
        affine: A[k k] and b[k].
    """

    affine: Affine


def apply_linc(state: LinC, log_probs: Rows, /) -> Scores:
    """A p + b, whose softmax over labels LinC predicts by."""
    return transform(state.affine, jnp.exp(label_normalized(log_probs)))


def linc(*, regularization: float = 10.0) -> Calibrator:
    """Maps label probabilities: softmax(A p + b) (Abbas et al. 2024, arXiv:2401.12406).

        argmin sum_i w_i (-log softmax(A p_i + b)_{y_i})
               + regularization / 2 (|A - diag(1/p_hat)|^2 + |b|^2)

    p_hat is the mean label probability of the rows labeled -1, the content-free ones, at least
    0.01/k; where no row is labeled -1, of all. As in the published code, p is normalized over the
    labels and A begins at diag(1/p_hat), which is CC's correction, b at zero. That code then takes
    one step of gradient descent for each labeled row, 15 times over or so, at a rate chosen for
    each data set, which ends near its beginning; ours is the optimum of a penalty that says how
    near. Its p_hat weighs content-free rows by the probability of all labels together; ours alike,
    so that any scores serve.

    Args:
        regularization: the pull toward diag(1/p_hat) and 0. Lower it where hundreds of rows are
            labeled, or where some label is never right.

    Raises:
        InputError: a regularization that is not above 0; no labels given to `fit`.

    >>> fit, apply_ = linc()
    >>> rows = jnp.log(jnp.array([[0.8, 0.2], [0.9, 0.1], [0.6, 0.4]]))
    >>> apply_(fit(rows, jnp.array([-1, 0, 1])), rows[1:]).argmax(axis=1).tolist()
    [0, 1]
    """
    check_regularization(regularization)

    def learn_maps(probe: ProbeScores) -> LinC:
        rows, gold, known_weights = known_rows("linc", probe)
        k = rows.shape[-1]
        weights = probe.weights
        # Rows labeled -1 are the content-free ones; where none came, all rows give p_hat.
        unlabeled = jnp.where(gold < 0, weights, 0.0)
        gives_mean = jnp.where(jnp.any(unlabeled > 0), unlabeled, weights)
        share = jnp.maximum(
            mean_label_prob(probe.log_probs, gives_mean), LEAST_MEAN_PROBABILITY / k
        )
        start = Affine(jnp.diag(1.0 / share), jnp.zeros(k, jnp.float32))
        pull = Affine(jnp.float32(regularization), jnp.float32(regularization))
        return LinC(learn(jnp.exp(rows), gold, known_weights, start, pull))

    return Calibrator.of(learn_maps, apply_linc)
