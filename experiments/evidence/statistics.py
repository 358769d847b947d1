"""Intervals and tests of means over contexts: crossed bootstrap, sign-flip test, Holm, McNemar."""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from scipy.special import bdtr
from scipy.stats import t

from batch_calibration.reporting.cells import NumberCell

LEVEL = 0.95  # share of the draws that lies between the ends of an interval
DRAWS = 10_000
"""Number of times contexts are drawn, or signs flipped."""


def interval_cell(
    mean: float, low: float, high: float, mark: str = "", *, digits: int = 1
) -> NumberCell:
    """A difference in points and the ends of its interval, with signs, and a mark behind.

    >>> interval_cell(2.0, -1.0, 5.04, " *")
    '+2.0 [-1.0, +5.0] *'
    """
    return NumberCell(f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]{mark}")


def number_cells(numbers: Iterable[float], form: str = ".4g") -> list[str]:
    """Numbers as cells of a table, each in one form.

    >>> number_cells([0.5, 1 / 3])
    ['0.5', '0.3333']
    """
    return [format(number, form) for number in numbers]


def t_interval_cell(differences: np.ndarray) -> NumberCell:
    """The mean of differences [u] in points, and its 95 % interval by Student's t."""
    mean = float(differences.mean())
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
    return interval_cell(mean, mean - half, mean + half)


def crossed_interval(
    differences: np.ndarray, seed: int = 0, *, draws: int = DRAWS
) -> tuple[float, float]:
    """The 95 % interval of a mean over models x tasks, both drawn with replacement.

    The pigeonhole bootstrap: a draw takes models and, apart from these, tasks; its mean is
    sum_ab u_a w_b x_ab / (A B), u and w how often each was drawn. It covers that the same tasks
    came to all models and the same models to all tasks, and is a little wide (Owen 2007,
    arXiv:0712.1111). A side of length one is not drawn: with one model the interval says nothing
    of other models.

    Args:
        differences: [models, tasks], such as differences in points.
        seed: of the draws, which are the same for all of one shape.
        draws: how many.

    >>> crossed_interval(np.full((3, 4), 2.0), draws=10)
    (2.0, 2.0)
    """
    return ends_of(crossed_means(differences, seed, draws=draws))


def ends_of(means: np.ndarray) -> tuple[float, float]:
    """The ends between which 95 % of the means of draws lie."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return float(low), float(high)


def crossed_means(differences: np.ndarray, seed: int = 0, *, draws: int = DRAWS) -> np.ndarray:
    """The means [draws] of `crossed_interval`; a draw of one seed takes the same models of any."""
    model_count, task_count = differences.shape
    # Drawn apart: the second number of a seed is the side.
    models = times_drawn(model_count, (seed, 0), draws)  # [draws, A]
    tasks = times_drawn(task_count, (seed, 1), draws)  # [draws, B]
    return np.asarray(np.sum((models @ differences) * tasks, axis=1) / differences.size)


@cache
def times_drawn(n: int, seed: tuple[int, int], draws: int) -> np.ndarray:
    """Counts of draws of each of n, [draws n]; one alone is always there."""
    if n == 1:
        return np.ones((draws, 1))
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws).astype(float)


def sign_flip(differences: np.ndarray, random: np.random.Generator, *, draws: int = DRAWS) -> float:
    """The two-sided p-value that differences [n] have mean zero: their signs are flipped at random.

    The share of sign vectors whose mean is at least as far from zero as the one seen, the seen one
    among them; all 2^n of them where these are fewer than `draws`.

    >>> sign_flip(np.array([1.0, 2.0, 3.0]), np.random.default_rng(0))
    0.25
    """
    n = len(differences)
    is_exhaustive = 2**n <= draws
    if is_exhaustive:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # every sign vector: [2^n, n]
    else:
        bits = random.integers(0, 2, (draws, n), dtype=np.int8)
    # Rounding must not part sums that are equal.
    seen = abs(float(differences.sum())) * (1 - 1e-9)
    as_far = int((np.abs((2.0 * bits - 1.0) @ differences) >= seen).sum())
    # The signs seen are one more vector.
    return as_far / 2**n if is_exhaustive else (as_far + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: of m sorted ones the i-th is max over j <= i of (m - j + 1) p_j.

    Rejecting where they are below 0.05 keeps the chance of any false rejection among the m below
    0.05, whatever their dependence (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = len(p_values) - np.arange(len(p_values))  # m, m - 1, ..., 1
    # Never below a smaller p's.
    adjusted = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * steps), 1.0)
    in_given_order = np.empty(len(p_values))
    in_given_order[order] = adjusted
    return list(in_given_order.tolist())


def mcnemar(gained: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The exact two-sided p-value of paired answers: Binomial(gained + lost, 1/2), any shape.

    >>> mcnemar(np.array([5]), np.array([0])).tolist()
    [0.0625]
    """
    discordant = np.asarray(gained + lost, np.int64)  # rows where both agree tell nothing
    fewer = np.minimum(gained, lost).astype(np.float64)
    # Both tails; where the two are equal they overlap, and twice the sum exceeds 1.
    return np.where(
        discordant > 0, np.minimum(2 * bdtr(fewer, np.maximum(discordant, 1), 0.5), 1.0), 1.0
    )


def break_even(at: np.ndarray, gains: np.ndarray) -> float:
    """Where a gain first falls from above zero to below it, linear in between.

    Minus infinity where the first gain is below zero, infinity where none is.

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
    # The line through both crosses zero here.
    return float(at[last - 1] + (at[last] - at[last - 1]) * high / (high - low))


def break_even_interval(
    at: np.ndarray, gains: np.ndarray, seed: int = 0, *, draws: int = 2000
) -> tuple[float, float, float]:
    """The break-even point of the mean over units, and its 95 % bootstrap interval over units.

    >>> gains = np.array([[1.0, 1.0], [-1.0, -1.0]])
    >>> break_even_interval(np.array([0.5, 0.75]), gains, draws=10)
    (0.625, 0.625, 0.625)
    """
    times_of_draws = times_drawn(gains.shape[1], (seed, 2), draws)
    # A sum over units in place of their mean crosses zero at the same share.
    drawn = [break_even(at, gains @ times) for times in times_of_draws]
    # No interpolation: between an infinite end and another it would give NaN.
    low, high = np.quantile(drawn, (0.025, 0.975), method="inverted_cdf")
    return break_even(at, gains.mean(axis=1)), float(low), float(high)


def mean_interval(
    by_unit: np.ndarray, seed: int = 0, *, draws: int = DRAWS
) -> tuple[float, float, float]:
    """The mean over units [u], and its 95 % bootstrap interval.

    Of few units it is narrow: of 8 it holds the mean in 90 % of simulations, of 60 in 93 %.
    """
    # One row: units alone are drawn.
    return (float(by_unit.mean()), *crossed_interval(by_unit[None], seed, draws=draws))
