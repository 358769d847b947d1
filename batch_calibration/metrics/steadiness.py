"""Intervals of a gain and of a change of spread over prompts, their seeds and the test rows."""

import numpy as np

from batch_calibration.metrics.intervals import OF_GAIN, Estimate, deviation, over_rows

MIN_PROMPTS = 3  # of fewer prompts the change of their standard deviation is not known


def gain_over_prompts(outcomes: np.ndarray, *, level: float = 0.95) -> Estimate:
    """The mean gain over prompts, and its interval over prompts, seeds and rows.

    Seeds are averaged first: ten templates with five seeds each are ten prompts. The seeds are the
    same draws for all prompts, so what they may add by chance is no smaller for more prompts:
    t sd / sqrt(s) of their means is added in squares to the interval of `over_rows`.

    Args:
        outcomes: [p s n], right after the correction less right before, prompts x seeds x rows.
        level: how often the interval shall hold the mean.

    >>> gain_over_prompts(np.array([[[1.0, 0, 0, 0]], [[0, 0, 1, 1]]])).value
    0.375
    """
    from scipy.special import stdtrit

    estimate = over_rows(outcomes.mean(axis=1), OF_GAIN, level=level)
    s = outcomes.shape[1]  # seeds
    if s == 1:
        return estimate
    seed_means = outcomes.mean(axis=(0, 2))
    drawn = float(stdtrit(s - 1, 0.5 + level / 2) * deviation(seed_means) / np.sqrt(s))
    low = estimate.value - float(np.hypot(estimate.value - estimate.low, drawn))
    high = estimate.value + float(np.hypot(estimate.high - estimate.value, drawn))
    return Estimate(estimate.value, max(low, -1.0), min(high, 1.0))


def change_of_deviation(
    before: np.ndarray, after: np.ndarray, *, level: float = 0.95
) -> Estimate | None:
    """The standard deviation over prompts of the accuracy after a correction, less that before.

    Below 0 the correction makes the choice of the prompt matter less. A prompt's accuracy is its
    mean over seeds. The interval is of the jackknife, which leaves out a prompt, a seed, or a row
    at a time: t sd of the first two, with Student's t of p - 1 and s - 1 degrees of freedom, and
    z sd of the last, added in squares. Prompts, seeds and rows are the same on both sides, so
    what both lack cancels.

    Args:
        before: [p s n], prompts x seeds x rows, 1.0 where a row is right.
        after: the same after the correction.
        level: how often the interval shall hold the change.

    Returns:
        None of fewer than `MIN_PROMPTS` prompts or two rows.

    >>> before = np.array([[[1.0, 0, 0, 0]], [[1, 1, 0, 0]], [[1, 1, 1, 1]]])
    >>> round(change_of_deviation(before, np.ones((3, 1, 4))).value, 3)
    -0.382
    """
    from scipy.special import ndtri, stdtrit

    p, s, n = before.shape  # prompts, seeds, rows
    if p < MIN_PROMPTS or n < 2:
        return None
    tail = 0.5 + level / 2
    sides = before, after

    def change_without(axis: int) -> np.ndarray:
        """The change where one prompt, seed or row is left out, for each of them."""
        size = before.shape[axis]
        deviations = []
        for side in sides:
            if axis == 0:
                means = side.mean(axis=(1, 2))
                # [p - 1, p]: all prompts but one, for each.
                means_left = means[np.nonzero(~np.eye(p, dtype=bool))[1].reshape(p, p - 1)].T
            else:
                sums = side.mean(axis=3 - axis)  # [p, s] or [p, n]
                means_left = (sums.sum(axis=1, keepdims=True) - sums) / (size - 1)
            deviations.append(deviation(means_left))
        difference: np.ndarray = deviations[1] - deviations[0]
        return difference

    means_before, means_after = (side.mean(axis=(1, 2)) for side in sides)
    change = float(deviation(means_after) - deviation(means_before))
    squares = stdtrit(p - 1, tail) ** 2 * (p - 1) * change_without(0).var()
    squares += ndtri(tail) ** 2 * (n - 1) * change_without(2).var()
    if s > 1:
        squares += stdtrit(s - 1, tail) ** 2 * (s - 1) * change_without(1).var()
    reach = float(np.sqrt(squares))
    return Estimate(change, change - reach, change + reach)
