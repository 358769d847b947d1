"""Leave-one-out BC: the bias of each row is the mean of the other rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, ProbeScores, weighted_mean
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.typing import Bias, Prior, Rows, Scalar, Scores


class Whole(NamedTuple):
    """The state of `leave_one_out`, common to all rows of a batch.

    Attributes:
        mean: the mean log-probability of each label, [k], in nats.
        rows: the number of rows.
    """

    mean: Bias
    rows: Scalar


def others(state: Whole, log_probs: Rows) -> jax.Array:
    """Returns the mean of the other rows for each row of the batch, [n k]; zero for a single row.

    The mean is (m b - s_i) / (m - 1) for the mean b of all m rows.
    """
    number_of_others = jnp.maximum(state.rows - 1.0, 1.0)
    # This form avoids the large sum m b.
    mean = state.mean + (state.mean - jnp.asarray(log_probs)) / number_of_others
    return jnp.where(state.rows > 1.0, mean, 0.0)


def leave_one_out(*, strength: float = 1.0, target_prior: Prior | None = None) -> Calibrator:
    """Subtracts from each row the mean of the other rows: s_i - gamma sum_{l != i} s_l / (m - 1).

    The rows to correct must be the rows that `fit` saw. With the mean b of all m rows, the mean of
    the other rows is (m b - s_i) / (m - 1), so that at gamma = 1

        s_i - (m b - s_i) / (m - 1) = m / (m - 1) (s_i - b).

    These are BC's scores times a number above 1 that is the same for all rows and labels. The
    predictions are BC's, and the probabilities are slightly more confident. Predictions differ from
    BC's at another strength or with a target prior. A single row is unchanged, as in plain ICL.

    Args:
        strength: gamma.
        target_prior: pi, the expected share of each of the k labels; the bias becomes b - log pi.

    >>> fit, apply_ = leave_one_out()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> apply_(fit(rows), rows).tolist()
    [[1.0, -0.5], [-1.0, 0.5]]
    """

    def learn(probe: ProbeScores) -> Whole:
        return Whole(weighted_mean(probe.log_probs, probe.weight), jnp.sum(probe.weights))

    def apply_others(state: Whole, log_probs: Rows, /) -> Scores:
        bias = others(state, log_probs) - log_target(target_prior)
        return apply(Shift(bias, jnp.float32(strength)), log_probs)

    return Calibrator.of(learn, apply_others)
