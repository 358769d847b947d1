"""A judge of pairs: which place it prefers, and win rates with that preference removed.

A judge is asked which of two answers is better, the candidate's or a reference's. What it prefers
for the place alone is a bias of the labels "first" and "second". Where a coin decides which answer
stands first, both places are equally often the better one, which is what BC supposes.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from batch_calibration.errors import InputError
from batch_calibration.metrics import Estimate

LEAST_HUMAN = 10
"""Human labels of each kind below which a win rate is not corrected by them."""


class Judgments(NamedTuple):
    """What a judge said of n pairs.

    Attributes:
        margins: [n], log-odds that the answer shown first is better, in nats; NaN where unknown.
        is_first: [n], whether the candidate's answer was shown first.
        candidate: [n], whose answer it is, as an index of `names`.
        question: [n], equal for the pairs of one question.
        human: [n], 1 where people prefer the candidate, 0 the reference, -1 where unknown.
        names: of the candidates.
    """

    margins: np.ndarray
    is_first: np.ndarray
    candidate: np.ndarray
    question: np.ndarray
    human: np.ndarray
    names: tuple[str, ...]


class SwapPairs(NamedTuple):
    """Pairs that were asked in both orders.

    Attributes:
        log_odds: [p], (log-odds of the candidate shown first + shown second) / 2, in nats.
        is_flipped: [p], whether the answer that is preferred depends on the order.
        rows: [p, 2], the rows of both orders, the candidate first and second.
    """

    log_odds: np.ndarray
    is_flipped: np.ndarray
    rows: np.ndarray


def position_preference(margins: np.ndarray) -> tuple[float, float]:
    """By how much the first place is preferred, in nats, and the standard error over pairs.

    >>> preference, error = position_preference(np.array([-2.0, -1.0, -3.0, np.nan]))
    >>> round(preference, 2), round(error, 2)
    (-2.0, 0.58)
    """
    scored = margins[~np.isnan(margins)]
    error = scored.std(ddof=1) / np.sqrt(len(scored)) if len(scored) > 1 else np.nan
    return float(scored.mean()), float(error)


def remove_preference(judgments: Judgments, *, by_candidate: bool = True) -> np.ndarray:
    """The margins [n] after BC: less their mean, of each candidate's pairs or of all.

    Args:
        judgments: of one order each, drawn by a coin.
        by_candidate: whether each candidate's own mean is taken, for the preference may depend on
            how far apart the answers are.

    Raises:
        InputError: a candidate that stood first in less than a quarter of its pairs, or in more
            than three: its mean margin is what it is worth, and no preference for a place.
    """
    corrected = np.array(judgments.margins, np.float64)
    groups = judgments.candidate if by_candidate else np.zeros_like(judgments.candidate)
    for group in np.unique(groups):
        rows = groups == group
        share = judgments.is_first[rows].mean()
        if not 0.25 <= share <= 0.75:
            name = judgments.names[group] if by_candidate else "all candidates"
            raise InputError(
                where=f"the order of {name}", expected="the candidate first in about half of them",
                got=f"first in {100 * share:.0f} %",
                remedy="judge both orders, or draw the order by a coin: as it is the place cannot "
                "be told from the answer's worth",
            )  # fmt: skip
        corrected[rows] -= np.nanmean(corrected[rows])
    return corrected


def candidate_log_odds(margins: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Log-odds that the candidate's answer is better, from those of the first answer."""
    return np.where(is_first, margins, -margins)


def win_rate(log_odds: np.ndarray) -> Estimate:
    """The mean probability that the candidate wins, with a 95 % interval over pairs.

    >>> print(win_rate(np.zeros(4)))
    50.0 [50.0, 50.0]
    """
    probs = expit(log_odds[~np.isnan(log_odds)])
    mean = float(probs.mean())
    reach = 1.96 * float(probs.std(ddof=1)) / np.sqrt(len(probs)) if len(probs) > 1 else np.nan
    return Estimate(mean, mean - reach, mean + reach)


def swap_pairs(judgments: Judgments) -> SwapPairs:
    """The pairs that were asked in both orders; the mean of both has no preference for a place."""
    first_row: dict[tuple[int, int], int] = {}
    second_row: dict[tuple[int, int], int] = {}
    for row, key in enumerate(zip(judgments.candidate, judgments.question, strict=True)):
        if not np.isnan(judgments.margins[row]):
            (first_row if judgments.is_first[row] else second_row)[key] = row
    pair_keys = [key for key in first_row if key in second_row]
    rows = np.array([(first_row[key], second_row[key]) for key in pair_keys], int).reshape(-1, 2)
    shown_first, shown_second = judgments.margins[rows[:, 0]], -judgments.margins[rows[:, 1]]
    return SwapPairs(
        (shown_first + shown_second) / 2, np.sign(shown_first) != np.sign(shown_second), rows
    )


def calls_per_swap(judgments: Judgments, pairs: SwapPairs) -> float:
    """How many calls of one order, corrected, have the standard error of a pair of both orders.

    A swapped pair costs two calls: below two, single orders with the correction are cheaper.
    """
    corrected = candidate_log_odds(remove_preference(judgments), judgments.is_first)
    single = expit(corrected[pairs.rows.ravel()]).var(ddof=1)
    return float(single / expit(pairs.log_odds).var(ddof=1))


def corrected_rate(wins: np.ndarray, human: np.ndarray, *, level: float = 0.95) -> Estimate | None:
    """The rate at which people would prefer the candidate, from some of their labels.

    theta = (p + q0 - 1) / (q0 + q1 - 1) (Rogan and Gladen 1978), p the judge's win rate on pairs
    without labels, q1 and q0 how often it agrees with people where they prefer the candidate and
    where they do not; the interval is by the delta method with added counts (arXiv:2511.21140).

    Args:
        wins: [n], whether the judge prefers the candidate.
        human: [n], 1, 0, or -1 where unknown.
        level: how often the interval shall hold the rate.

    Returns:
        None where fewer than 10 labels of either kind are there, or the judge tells nothing.
    """
    of_judge = wins[human < 0]
    agrees = wins[human == 1], ~wins[human == 0]
    if min(map(len, agrees)) < LEAST_HUMAN or not len(of_judge):
        return None
    z = float(ndtri(0.5 + level / 2))
    # z^2 pairs are added to the judge's, one of each kind to people's.
    n = len(of_judge) + z**2
    p = (of_judge.sum() + z**2 / 2) / n
    (q1, m1), (q0, m0) = (((hits.sum() + 1) / (len(hits) + 2), len(hits) + 2) for hits in agrees)
    power = q0 + q1 - 1
    if power <= 0:
        return None
    theta = float(np.clip((p + q0 - 1) / power, 0.0, 1.0))
    variance = p * (1 - p) / n + (1 - theta) ** 2 * q0 * (1 - q0) / m0
    variance += theta**2 * q1 * (1 - q1) / m1
    reach = z * float(np.sqrt(variance)) / power
    return Estimate(theta, max(theta - reach, 0.0), min(theta + reach, 1.0))
