"""DC-PMI: what the label's words score without the input, taken off row by row or once for all."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator, ProbeScores, weighted_mean
from batch_calibration.calibration.shift import log_target
from batch_calibration.typing import ProbeRows, Rows, Scalar, Scores, Weight


class Premises(NamedTuple):
    """The state of `premise_shift`: the rows alone, as the number to correct decides their use.

    Attributes:
        rows: [m k], each label's score after its domain premise, in nats.
        weight: [m].
        strength: how much of it is removed.
    """

    rows: ProbeRows
    weight: Weight
    strength: Scalar


def premise_shift(
    *, strength: float = 1.0, target_prior: Sequence[float] | None = None
) -> Calibrator:
    """Domain-conditional PMI: s_ij - gamma log p(y_j | domain premise).

    With gamma = 1 it is log P(y | x, domain) / P(y | domain): Holtzman et al. 2021,
    arXiv:2104.08315, PMI_DC, and `dcpmi` in their code (peterwestuw/surface-form-competition). The
    domain premise is the prompt without its input and without demonstrations. One row serves
    all rows to correct. Of multiple choice whose choices differ from row to row, as logs of
    lm-evaluation-harness have it (`acc_mutual_info`), there is one for each row to correct: as many
    rows as these, and more than one present, are taken off row by row. Any other number of rows is
    averaged.

    Args:
        strength: gamma; 0 leaves the scores as they are.
        target_prior: the share of each of the k labels one expects; its log is added.

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
        # One row for all, unless there is a row for each row to correct.
        bias = weighted_mean(state.rows, state.weight)
        if state.rows.shape == log_probs.shape:
            is_present = state.weight[:, None] > 0
            bias = jnp.where(is_present & (jnp.sum(is_present) > 1), state.rows, bias)
        return jnp.asarray(log_probs) - state.strength * (bias - log_target(target_prior))

    return Calibrator.of(learn, apply)
