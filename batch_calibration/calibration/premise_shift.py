"""DC-PMI: subtracts the labels' scores without the input, one score per row or a common mean."""

from typing import NamedTuple

import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, ProbeScores, weighted_mean
from batch_calibration.calibration.shift import log_target
from batch_calibration.typing import Prior, ProbeRows, Rows, Scalar, Scores, Weight


class Premises(NamedTuple):
    """The state of `premise_shift`: all rows, as `apply` decides between the rows and their mean.

    Attributes:
        rows: [m k], each label's score after its domain premise, in nats.
        weight: [m].
        strength: gamma, the strength of the correction.
    """

    rows: ProbeRows
    weight: Weight
    strength: Scalar


def premise_shift(*, strength: float = 1.0, target_prior: Prior | None = None) -> Calibrator:
    """Subtracts the score after a domain premise: s_ij - gamma log p(y_j | domain premise).

    With gamma = 1 this is log P(y | x, domain) / P(y | domain): Holtzman et al. 2021,
    arXiv:2104.08315, PMI_DC, and `dcpmi` in their code (peterwestuw/surface-form-competition). The
    domain premise is the prompt without its input and without demonstrations. One premise row
    corrects all rows. Multiple choice with different choices in each row, as in logs of
    lm-evaluation-harness (`acc_mutual_info`), has one premise row for each row to correct. If the
    numbers of rows are equal and more than one premise row is present, row i is subtracted from row
    i. Otherwise the mean of the premise rows is subtracted.

    Args:
        strength: gamma; 0 leaves the scores unchanged.
        target_prior: pi, the expected share of each of the k labels; gamma log pi is added.

    >>> fit, apply_ = premise_shift()
    >>> rows = jnp.array([[-1.0, -3.0], [-2.0, -2.5]])
    >>> apply_(fit(jnp.array([[-1.5, -2.0]])), rows).tolist()
    [[0.5, -1.0], [-0.5, -0.5]]
    >>> apply_(fit(rows), rows).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    def learn(probe: ProbeScores) -> Premises:
        present = jnp.where(probe.weights[:, None] > 0, probe.log_probs, 0.0)
        return Premises(present, probe.weights, jnp.float32(strength))

    def apply(state: Premises, log_probs: Rows, /) -> Scores:
        # One bias for all rows, unless there is a premise row for each row to correct.
        bias = weighted_mean(state.rows, state.weight)
        if state.rows.shape == log_probs.shape:
            is_present = state.weight[:, None] > 0
            bias = jnp.where(is_present & (jnp.sum(is_present) > 1), state.rows, bias)
        return jnp.asarray(log_probs) - state.strength * (bias - log_target(target_prior))

    return Calibrator.of(learn, apply)
