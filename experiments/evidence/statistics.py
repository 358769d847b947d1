"""Intervals and tests for means over contexts: crossed bootstrap, sign-flip test, Holm, McNemar."""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from scipy.special import bdtr
from scipy.stats import t

from batch_calibration.reporting.cells import NumberCell

LEVEL = 0.95  # confidence level
DRAWS = 10_000
"""Number of bootstrap draws, or of sign vectors."""


def interval_cell(
    mean: float, low: float, high: float, mark: str = "", *, digits: int = 1
) -> NumberCell:
    """Formats a difference in points and its interval, with signs, followed by a mark.

    >>> interval_cell(2.0, -1.0, 5.04, " *")
    '+2.0 [-1.0, +5.0] *'
    """
    return NumberCell(f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]{mark}")


def number_cells(numbers: Iterable[float], form: str = ".4g") -> list[str]:
    """Formats numbers as cells of a table, all in one format.

    >>> number_cells([0.5, 1 / 3])
    ['0.5', '0.3333']
    """
    return [format(number, form) for number in numbers]


def t_interval_cell(differences: np.ndarray) -> NumberCell:
    """Formats the mean of differences [u] in points, and its 95 % interval by Student's t."""
    mean = float(differences.mean())
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
    return interval_cell(mean, mean - half, mean + half)


def crossed_interval(
    differences: np.ndarray, seed: int = 0, *, draws: int = DRAWS
) -> tuple[float, float]:
    """Computes the 95 % interval of a mean over models x tasks, by the pigeonhole bootstrap.

    Each draw samples models and, independently, tasks with replacement. Its mean is
    sum_ab u_a w_b x_ab / (A B), with the numbers of times u_a and w_b that model a and task b were
    drawn. This accounts for correlations within models and within tasks; the interval is slightly
    too wide (Owen 2007, arXiv:0712.1111). With only one model or task, that side is not drawn, and
    the interval does not extend to other models or tasks.

    Args:
        differences: [models, tasks], such as differences in points.
        seed: seed of the draws; the draws depend only on the seed and the shape.
        draws: number of draws.

    >>> crossed_interval(np.full((3, 4), 2.0), draws=10)
    (2.0, 2.0)
    """
    return ends_of(crossed_means(differences, seed, draws=draws))


def ends_of(means: np.ndarray) -> tuple[float, float]:
    """Computes the ends of the central 95 % of the drawn means."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return float(low), float(high)


def crossed_means(differences: np.ndarray, seed: int = 0, *, draws: int = DRAWS) -> np.ndarray:
    """Computes the drawn means [draws] of `crossed_interval`.

    With one seed, arrays with equally many models (or tasks) share the draws of them.
    """
    model_count, task_count = differences.shape
    # The second number of the seed makes the draws of models and tasks independent.
    models = times_drawn(model_count, (seed, 0), draws)  # [draws, A]
    tasks = times_drawn(task_count, (seed, 1), draws)  # [draws, B]
    return np.asarray(np.sum((models @ differences) * tasks, axis=1) / differences.size)


@cache
def times_drawn(n: int, seed: tuple[int, int], draws: int) -> np.ndarray:
    """Counts how many times a draw samples each of n units, [draws n]; always 1 if n is 1."""
    if n == 1:
        return np.ones((draws, 1))
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws).astype(float)


def sign_flip(differences: np.ndarray, random: np.random.Generator, *, draws: int = DRAWS) -> float:
    """Tests whether differences [n] have mean zero, by random sign flips.

    The two-sided p-value is the share of sign vectors (including the observed one) with a mean at
    least as far from zero as the observed mean. If there are at most `draws` sign vectors, all 2^n
    are used and the test is exact.

    >>> sign_flip(np.array([1.0, 2.0, 3.0]), np.random.default_rng(0))
    0.25
    """
    n = len(differences)
    is_exhaustive = 2**n <= draws
    if is_exhaustive:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # every sign vector: [2^n, n]
    else:
        bits = random.integers(0, 2, (draws, n), dtype=np.int8)
    # The factor makes equal sums compare as equal after rounding.
    seen = abs(float(differences.sum())) * (1 - 1e-9)
    as_far = int((np.abs((2.0 * bits - 1.0) @ differences) >= seen).sum())
    # The observed signs are one more vector.
    return as_far / 2**n if is_exhaustive else (as_far + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values by Holm's method: the i-th of m sorted ones is max_{j <= i} (m - j + 1) p_j.

    Rejecting adjusted p-values below 0.05 keeps the probability of any false rejection among the m
    tests below 0.05, under any dependence (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = len(p_values) - np.arange(len(p_values))  # m, m - 1, ..., 1
    # An adjusted p-value is at least the previous one, and at most 1.
    adjusted = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * steps), 1.0)
    in_given_order = np.empty(len(p_values))
    in_given_order[order] = adjusted
    return list(in_given_order.tolist())


def mcnemar(gained: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Computes the exact two-sided p-values of paired answers by Binomial(gained + lost, 1/2).

    >>> mcnemar(np.array([5]), np.array([0])).tolist()
    [0.0625]
    """
    discordant = np.asarray(gained + lost, np.int64)  # rows on which both agree do not count
    fewer = np.minimum(gained, lost).astype(np.float64)
    # Twice one tail, limited to 1, because the tails overlap if both numbers are equal.
    return np.where(
        discordant > 0, np.minimum(2 * bdtr(fewer, np.maximum(discordant, 1), 0.5), 1.0), 1.0
    )


def break_even(at: np.ndarray, gains: np.ndarray) -> float:
    """Finds where a gain first falls below zero, by linear interpolation.

    Returns minus infinity if the first gain is negative, and infinity if no gain is negative.

    >>> break_even(np.array([0.5, 0.75, 1.0]), np.array([2.0, 1.0, -1.0]))
    0.875
    """
    below = np.flatnonzero(gains < 0)
    if not below.size:
        return float("inf")
    last = int(below[0])
    if last == 0:
        return float("-inf")
    high, low = gains[last - 1], gains[last]
    # The line through both points crosses zero here.
    return float(at[last - 1] + (at[last] - at[last - 1]) * high / (high - low))


def break_even_interval(
    at: np.ndarray, gains: np.ndarray, seed: int = 0, *, draws: int = 2000
) -> tuple[float, float, float]:
    """Computes the break-even point of the mean over units, and its 95 % bootstrap interval.

    >>> gains = np.array([[1.0, 1.0], [-1.0, -1.0]])
    >>> break_even_interval(np.array([0.5, 0.75]), gains, draws=10)
    (0.625, 0.625, 0.625)
    """
    times_of_draws = times_drawn(gains.shape[1], (seed, 2), draws)
    # The sum over units crosses zero at the same point as the mean.
    drawn = [break_even(at, gains @ times) for times in times_of_draws]
    # Without interpolation, because interpolation with infinite values gives NaN.
    low, high = np.quantile(drawn, (0.025, 0.975), method="inverted_cdf")
    return break_even(at, gains.mean(axis=1)), float(low), float(high)


def mean_interval(
    by_unit: np.ndarray, seed: int = 0, *, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Computes the mean over units [u], and its 95 % bootstrap interval.

    With few units the interval is too narrow: in simulations it covers the mean in 90 % of cases
    with 8 units, and in 93 % with 60 units.
    """
    # A single row, so only the units are drawn.
    return (float(by_unit.mean()), *crossed_interval(by_unit[None], seed, draws=draws))
