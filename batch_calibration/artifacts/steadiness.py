"""How far accuracy moves from one prompt to the next, and how much less so after a correction."""

import numpy as np

from batch_calibration.metrics import Estimate, deviation

FEWEST = 3
"""Prompts that a change of their standard deviation is told of, at least."""


def change_of_deviation(
    before: np.ndarray, after: np.ndarray, *, level: float = 0.95
) -> Estimate | None:
    """The standard deviation over prompts of the accuracy after a correction, less that before.

    Below 0 the correction makes the choice of the prompt matter less. The interval is of the
    jackknife, which leaves out a prompt at a time, and a row at a time: t sd of the first, with
    Student's t of p - 1 degrees of freedom, and z sd of the second, added in squares. Prompts and
    rows are the same on both sides, so what both lack cancels.

    Args:
        before: [p n], 1.0 where a row is right under a prompt.
        after: the same after the correction.
        level: how often the interval shall hold the change.

    Returns:
        None of fewer than `FEWEST` prompts or two rows.

    >>> before = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    >>> round(change_of_deviation(before, np.ones((3, 4))).value, 3)
    -0.382
    """
    from scipy.special import ndtri, stdtrit

    p, n = before.shape
    if p < FEWEST or n < 2:
        return None
    tail = 0.5 + level / 2

    def change(means: np.ndarray, others: np.ndarray) -> np.ndarray:
        found: np.ndarray = deviation(others) - deviation(means)
        return found

    sides = before, after
    value = float(change(*(side.mean(axis=1) for side in sides)))
    # [p - 1, p] and [p, n]: means over the rows without one prompt, and without one row.
    kept = [[j for j in range(p) if j != i] for i in range(p)]
    prompts = change(*(side.mean(axis=1)[kept].T for side in sides))
    rows = change(*((side.sum(axis=1, keepdims=True) - side) / (n - 1) for side in sides))
    reach = np.hypot(
        stdtrit(p - 1, tail) * np.sqrt((p - 1) * prompts.var()),
        ndtri(tail) * np.sqrt((n - 1) * rows.var()),
    )
    return Estimate(value, value - float(reach), value + float(reach))
