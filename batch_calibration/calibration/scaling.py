"""Vector and matrix scaling, fitted to labeled rows."""

from typing import Literal, NamedTuple

import jax.numpy as jnp

from batch_calibration.calibration import base
from batch_calibration.calibration.affine import Affine, learn, transform
from batch_calibration.calibration.objective import known_weight
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.typing import Bias, Labels, ProbeRows, Rows, Scores, Weight

Form = Literal["vector", "matrix"]

PSEUDO_ROWS = 8.0
"""The number of pseudo-rows without bias that are added to the labeled rows, for shrinkage."""

TOWARD = ("bc", "icl", "zero")


class Scaling(NamedTuple):
    """The state of scaling: z = scale (x - bias) + offset, for label-normalized scores x.

    Attributes:
        bias: [k], in nats.
        affine: scale and offset.
    """

    bias: Bias
    affine: Affine


def apply_scaling(state: Scaling, log_probs: Rows, /) -> Scores:
    """Returns the rescaled scores[n k]."""
    return transform(state.affine, base.label_normalized(log_probs) - state.bias)


def known_rows(method: str, probe: base.ProbeScores) -> tuple[ProbeRows, Labels, Weight]:
    """Returns label-normalized rows, labels and weights; unlabeled rows have weight 0.

    Rows of weight 0 are set to equal scores, as they may hold NaN.

    Raises:
        InputError: there are no labels.
    """
    labels = base.known_labels(method, probe.labels)
    known_weights = known_weight(probe.log_probs, labels, probe.weight)
    rows = base.label_normalized(jnp.where(known_weights[:, None] > 0, probe.log_probs, 0.0))
    return rows, labels, known_weights


def check_regularization(regularization: float) -> None:
    """Raises InputError unless the weight of the penalty is a finite number above 0.

    Without a penalty, the log loss of a few rows has no minimum.
    """
    if not 0.0 < regularization < float("inf"):
        remedy = "give one such as regularization=10.0"
        raise InputError.at("regularization", "a number above 0", f"{regularization!r}", remedy)


def scaling(
    *, form: Form = "matrix", regularization: float = 10.0, toward: str = "bc"
) -> base.Calibrator:
    """Rescales label-normalized scores x = log softmax(s) by least log loss on labeled rows.

    The map is a vector z = a * (x - b) + c, or a matrix z = A (x - b) + c
    (Guo et al. 2017, arXiv:1706.04599, sec. 4.2). Its parameters are

        argmin sum_i w_i (-log softmax(z_i)_{y_i}) + regularization / 2 |theta - theta_0|^2

    Guo et al. use thousands of rows without a penalty; a prompt has few labeled rows. With little
    evidence the result is near theta_0: scale 1 and offset 0. The bias b_j = sum_i x_ij / (m + 8)
    is the mean score shrunk by 8 pseudo-rows without bias, so that theta_0 is near ICL for one row
    and BC for many.

    Args:
        form: "vector" or "matrix".
        regularization: the weight of the penalty, the inverse of scikit-learn's C. The log loss is
            a sum over rows, so that the penalty matters less with more rows. Raise it if a dozen
            rows mislead, and lower it if a label is almost never right.
        toward: theta_0: "bc", "icl" (b = 0), or "zero" (scale 0 and free offsets, which is
            scikit-learn's LogisticRegression on x for the matrix).

    Raises:
        InputError: a regularization that is not above 0; an unknown `toward`; `fit` without labels.

    >>> fit, apply_ = scaling(form="vector", regularization=0.1)
    >>> rows = jnp.array([[-1.0, -3.0], [-1.0, -2.0], [-1.0, -3.5]])
    >>> apply_(fit(rows, jnp.array([0, 1, 0])), rows).argmax(axis=1).tolist()
    [0, 1, 0]
    """
    refuse_unknown("toward", toward, TOWARD)
    check_regularization(regularization)

    def learn_map(probe: base.ProbeScores) -> Scaling:
        rows, gold, known_weights = known_rows(form, probe)
        k = rows.shape[-1]
        bias = jnp.zeros(k, jnp.float32)
        if toward == "bc":
            # The mean, shrunk toward zero by 8 pseudo-rows without bias.
            seen = jnp.sum(known_weights)
            bias = base.weighted_mean(rows, known_weights) * (seen / (seen + PSEUDO_ROWS))
        identity = jnp.eye(k, dtype=jnp.float32) if form == "matrix" else jnp.ones(k)
        scale = 0.0 * identity if toward == "zero" else identity
        # If a label never occurs, the log loss has no minimum in an offset without a penalty.
        free = 1e-6 if toward == "zero" else regularization
        pull = Affine(jnp.float32(regularization), jnp.float32(free))
        start = Affine(scale, jnp.zeros(k, jnp.float32))
        return Scaling(bias, learn(rows - bias, gold, known_weights, start, pull))

    return base.Calibrator.of(learn_map, apply_scaling)
