"""Measures how well right labels fit scores, to find labels assigned to wrong columns.

A strong bias with uneven labels may cause an accuracy below chance. Therefore each assignment of
labels to columns is first fitted to the labels' shares, and compared with independent answers.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

MAX_ROWS = 2000
LEAST_SHARE = 0.2
"""The least share of the labels' entropy that a far better assignment explains.

On real scores of models that are worse than independent answers, the share is up to 0.15.
"""
WORDS_SHARE = 0.05
"""The same share for indices of labels that are words, since their order is a guess."""
LEAST_NATS = 9.0  # over all rows: independent answers reach a likelihood ratio e^9 in 1 of 8,000
SLOPES = 2.0 ** np.arange(-4, 4)
MATCHING_STEPS = 30
MAX_SIZE = 8.0  # of a centered score, in medians: a filler far below is not evidence


class Fit(NamedTuple):
    """The columns [k] that fit the labels best, and whether the file's own are wrong or right."""

    assigned: np.ndarray
    is_wrong: bool = False
    is_right: bool = False


def fit_gold(scores: np.ndarray, gold: np.ndarray, least_share: float = LEAST_SHARE) -> Fit:
    """Compares two assignments of labels to columns: the file's own, and the best one.

    `scores` are [n, k] and `gold` [n], with -1 for unknown labels. The gain of an assignment is its
    held-out log-likelihood, minus the log-likelihood of the labels' shares.
    """
    known = np.flatnonzero((gold >= 0) & np.isfinite(scores).all(axis=1))
    known = known[:: len(known) // MAX_ROWS + 1]
    gold, scores = gold[known], log_softmax(scores[known], axis=1)
    counts = np.bincount(gold, minlength=scores.shape[1])
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return Fit(np.arange(len(counts)))
    scores = scores - scores.mean(axis=0)
    size = np.median(np.abs(scores)) or np.abs(scores).mean() or 1.0
    scores = np.clip(scores / size, -MAX_SIZE, MAX_SIZE)
    index, shares = np.searchsorted(present, gold), counts[present] / len(gold)
    own, other = np.zeros((2, len(gold)))
    for fold in (np.arange(len(gold)) % 2 == 0, np.arange(len(gold)) % 2 == 1):
        columns = _assign(scores[fold], gold[fold])[present]
        sloped = SLOPES[:, None, None] * scores[fold][:, columns]
        slope = SLOPES[_gains(sloped, index[fold], shares).mean(axis=1).argmax()]
        others = slope * scores[~fold]
        pair = np.stack([others[:, present], others[:, columns]])
        own[~fold], other[~fold] = _gains(pair, index[~fold], shares)
    entropy = -shares @ np.log(shares)
    assigned, is_clear = _assign(scores, gold), other.sum() > LEAST_NATS
    is_far = other.mean() > least_share * entropy and _z(other - own) > 4
    is_own = bool((assigned[present] == present).all())
    is_wrong = bool(is_clear and is_far and _z(own) < -2 and not is_own)
    return Fit(assigned, is_wrong, bool(is_own and own.sum() > LEAST_NATS and _z(own) > 3))


def _assign(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Returns the columns [k] of the labels that maximize the sum of the right labels' scores."""
    sums = np.eye(scores.shape[1])[gold].T @ scores
    columns: np.ndarray = linear_sum_assignment(sums, maximize=True)[1]
    return columns


def _gains(scores: np.ndarray, gold: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Returns the gains [..., n] of scores [..., n, k] over the labels' shares [k].

    The mean softmax of each table [n, k] is matched to the shares.
    """
    likelihoods = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = shares[:, None]  # [..., k, 1]
    for _ in range(MATCHING_STEPS):
        sums = likelihoods.swapaxes(-1, -2) @ (1 / (likelihoods @ weights))
        weights = (shares * len(gold))[:, None] / sums
    right = likelihoods[..., np.arange(len(gold)), gold] * (weights[..., 0] / shares)[..., gold]
    gains: np.ndarray = np.log(right / (likelihoods @ weights)[..., 0])
    return gains


def _z(gains: np.ndarray) -> float:
    error: float = max(gains.std() / len(gains) ** 0.5, 1e-12)
    return float(gains.mean() / error)
