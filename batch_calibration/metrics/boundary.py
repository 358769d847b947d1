"""Decision boundaries between two labels: lines, rotations and Gaussian curves."""

import jax.numpy as jnp
from numpy.typing import ArrayLike

from batch_calibration.arrays.numbers import read_floats
from batch_calibration.calibration.base import Calibrator
from batch_calibration.errors import InputError
from batch_calibration.typing import Margin, Plane, State


def plane(low: float, high: float, size: int) -> Plane:
    """Returns a square grid of points (s0, s1), [size size 2], from `low` to `high` nats.

    s0 varies along the first axis.

    >>> plane(-2.0, 0.0, 3)[2, 0].tolist()
    [0.0, -2.0]
    """
    ticks = jnp.linspace(low, high, size, dtype=jnp.float32)  # [size], nats
    return jnp.stack(jnp.meshgrid(ticks, ticks, indexing="ij"), axis=-1)


def decision_margin(calibrator: Calibrator, state: State, points: ArrayLike) -> Margin:
    """Computes the margin of label 0 over label 1: apply(state, s)_0 - apply(state, s)_1.

    The decision boundary is the zero contour of the margin. For a shift it is the line s0 - s1 =
    gamma (b0 - b1). In probabilities this is a rotation about the origin, p0 = p1 (phat0 /
    phat1)^gamma (Table 1 and Fig. 2 of the paper). For PC it is the curve log N(x; mu_0, Sigma_0) =
    log N(x; mu_1, Sigma_1), where x is the point normalized over the two labels.

    Args:
        calibrator: any method.
        state: the result of its `fit`, for two labels.
        points: (s0, s1) in nats, [... 2]; for a plane of probabilities give their logarithms.

    Raises:
        InputError: points without exactly two coordinates.

    >>> from batch_calibration.calibration.shift import shift
    >>> bc = shift()
    >>> state = bc.fit(jnp.array([[-1.0, -3.0], [-2.0, -2.0]]))
    >>> decision_margin(bc, state, jnp.array([[-1.0, -2.0]])).tolist()
    [0.0]
    """
    plane = read_floats(points, "boundary")
    if plane.shape[-1:] != (2,):
        expected, remedy = "points (s0, s1) of two labels", "fit on two columns"
        raise InputError.at("boundary", expected, f"shape {plane.shape}", remedy)
    scores = calibrator.apply(state, plane.reshape(-1, 2))  # [points, 2]
    return (scores[:, 0] - scores[:, 1]).reshape(plane.shape[:-1])
