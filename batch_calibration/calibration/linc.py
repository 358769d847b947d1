"""LinC: a linear map of label probabilities, learned from content-free and a few labeled rows."""

from typing import NamedTuple

import jax.numpy as jnp

from batch_calibration.calibration.affine import Affine, learn, transform
from batch_calibration.calibration.base import Calibrator, ProbeScores, label_normalized
from batch_calibration.calibration.scaling import check_regularization, known_rows
from batch_calibration.calibration.shift import mean_label_prob
from batch_calibration.typing import Rows, Scores

# The lower bound of a mean probability, relative to 1/k. It limits the factor 1/p_hat of a label
# that is improbable in the content-free rows.
LEAST_MEAN_PROBABILITY = 0.01


class LinC(NamedTuple):
    """The state of LinC: z = A p + b.

    Attributes:
        affine: A[k k] and b[k].
    """

    affine: Affine


def apply_linc(state: LinC, log_probs: Rows, /) -> Scores:
    """Returns the scores A p + b; LinC's probabilities are their softmax over the labels."""
    return transform(state.affine, jnp.exp(label_normalized(log_probs)))


def linc(*, regularization: float = 10.0) -> Calibrator:
    """Maps label probabilities: softmax(A p + b) (Abbas et al. 2024, arXiv:2401.12406).

        argmin sum_i w_i (-log softmax(A p_i + b)_{y_i})
               + regularization / 2 (|A - diag(1/p_hat)|^2 + |b|^2)

    p_hat is the mean label probability of the content-free rows, which are labeled -1, and at least
    0.01/k. If no row is labeled -1, it is the mean of all rows. As in the published code, p is
    normalized over the labels, A starts at diag(1/p_hat), which is CC's correction, and b at zero.
    The published code then takes one step of gradient descent for each labeled row, in about 15
    epochs and with a learning rate chosen for each data set. It ends near its start. Here the
    distance from the start is a penalty, and the optimum is found. The published p_hat weights
    content-free rows by the total probability of all labels. Here they have equal weights, so that
    scores of any scale are accepted.

    Args:
        regularization: the weight of the penalty. Lower it if hundreds of rows are labeled, or if
            some label is never right.

    Raises:
        InputError: a regularization that is not above 0; `fit` without labels.

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
        # Rows labeled -1 are the content-free rows; without them, p_hat is the mean of all rows.
        unlabeled = jnp.where(gold < 0, weights, 0.0)
        gives_mean = jnp.where(jnp.any(unlabeled > 0), unlabeled, weights)
        mean = mean_label_prob(probe.log_probs, gives_mean)
        share = jnp.maximum(mean, LEAST_MEAN_PROBABILITY / k)
        start = Affine(jnp.diag(1.0 / share), jnp.zeros(k, jnp.float32))
        pull = Affine(jnp.float32(regularization), jnp.float32(regularization))
        return LinC(learn(jnp.exp(rows), gold, known_weights, start, pull))

    return Calibrator.of(learn_maps, apply_linc)
