"""Where a method changes its mind between two labels: lines, rotations and Gaussian curves."""

from typing import Any

import jax.numpy as jnp

from batch_calibration.calibration.base import Calibrator
from batch_calibration.calibration.shift import Shift
from batch_calibration.errors import InputError
from batch_calibration.typing import Margin, Plane, Scalar


def offset(state: Shift) -> Scalar:
    """How far a shift moves the boundary of log-probabilities: s0 - s1 = gamma (b0 - b1), in nats.

    ICL's boundary is s0 = s1, so its offset is 0; CC, DC, BC and BCL keep the line's direction
    (table 1 and Fig. 2 of the paper).

    Raises:
        InputError: the state has not two labels.

    >>> offset(Shift(jnp.array([-1.0, -3.0]), jnp.float32(0.5))).item()
    1.0
    """
    if state.bias.shape[-1] != 2:
        raise InputError(
            f"boundary: expected the state of two labels; got a bias of {state.bias.shape[-1]}: "
            f"pick two labels and fit on their columns."
        )
    return state.strength * (state.bias[0] - state.bias[1])


def ratio(state: Shift) -> Scalar:
    """The slope of the same boundary in probabilities: p0 = p1 (phat0 / phat1)^gamma.

    A shift of log-probabilities is a rotation about the origin here (CC in section 3 and table 1).

    >>> state = Shift(jnp.log(jnp.array([0.6, 0.3])), jnp.float32(1.0))
    >>> round(ratio(state).item(), 4)
    2.0
    """
    return jnp.exp(offset(state))


def log_prob_line(state: Shift, s1: Plane) -> Plane:
    """The boundary's s0 at each s1, in nats: s0 = s1 + gamma (b0 - b1)."""
    return s1 + offset(state)


def prob_line(state: Shift, p1: Plane) -> Plane:
    """The boundary's p0 at each p1: p0 = p1 (phat0 / phat1)^gamma."""
    return p1 * ratio(state)


def plane(low: float, high: float, size: int) -> Plane:
    """A square of points (s0, s1), [size size 2], from `low` to `high` nats; s0 on the first axis.

    >>> plane(-2.0, 0.0, 3)[2, 0].tolist()
    [0.0, -2.0]
    """
    ticks = jnp.linspace(low, high, size, dtype=jnp.float32)
    return jnp.stack(jnp.meshgrid(ticks, ticks, indexing="ij"), axis=-1)


def decision_margin(calibrator: Calibrator, state: Any, points: Plane) -> Margin:
    """By how much label 0 beats label 1 at each point: apply(state, s)_0 - apply(state, s)_1.

    The boundary is its zero contour. For the shifts that is the line of `offset`; for PC the curve
    log N(x; mu_0, Sigma_0) = log N(x; mu_1, Sigma_1), x the point normalized over the two labels.

    Args:
        calibrator: any method.
        state: what its `fit` returned, for two labels.
        points: (s0, s1) in nats, [... 2]; for a plane of probabilities give their logarithms.

    Raises:
        InputError: the points have not two coordinates.

    >>> from batch_calibration.calibration.shift import mean_shift
    >>> bc = mean_shift()
    >>> state = bc.fit(jnp.array([[-1.0, -3.0], [-2.0, -2.0]]))
    >>> decision_margin(bc, state, jnp.array([[-1.0, -2.0]])).tolist()
    [0.0]
    """
    if points.shape[-1] != 2:
        raise InputError(
            f"boundary: expected points (s0, s1) of two labels; got {points.shape[-1]} "
            f"coordinates: pick two labels and fit on their columns."
        )
    scores = calibrator.apply(state, points.reshape(-1, 2))
    return (scores[:, 0] - scores[:, 1]).reshape(points.shape[:-1])
