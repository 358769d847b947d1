"""BC that hides each row from its own bias: the mean of the others."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, ProbeScores, weighted_mean
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.typing import Bias, Rows, Scalar, Scores


class Whole(NamedTuple):
    """The state of `leave_one_out`, common to all rows of a batch.

    Attributes:
        mean: of the log-probabilities of each label, in nats.
        rows: how many there are.
    """

    mean: Bias
    rows: Scalar


def others(state: Whole, log_probs: Rows) -> jax.Array:
    """For each row of the batch the mean of the others, [n k]; zero where it is the only one."""
    number_of_others = jnp.maximum(state.rows - 1.0, 1.0)
    # (m b - s_i) / (m - 1), without the large sum m b.
    mean = state.mean + (state.mean - jnp.asarray(log_probs)) / number_of_others
    return jnp.where(state.rows > 1.0, mean, 0.0)


def leave_one_out(
    *, strength: float = 1.0, target_prior: Sequence[float] | None = None
) -> Calibrator:
    """Subtracts from each row the mean of the other rows: s_i - gamma sum_{l != i} s_l / (m - 1).

    The rows to correct are those that `fit` saw. With the mean b of all m rows, the others' mean is
    (m b - s_i) / (m - 1), so that at gamma = 1

        s_i - (m b - s_i) / (m - 1) = m / (m - 1) (s_i - b),

    BC's scores times a number above 1 that is the same for all rows and labels: its predictions
    are BC's, and only its probabilities are a little surer. It differs in prediction at another
    strength or with a target prior. One row has no others and stays as it is: plain ICL.

    Args:
        strength: gamma.
        target_prior: the share of each of the k labels one expects; the bias becomes b - log pi.

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
