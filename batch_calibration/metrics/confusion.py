"""Estimates shares of right labels from answers without scores, by a confusion matrix."""

from itertools import starmap

import numpy as np
from scipy.optimize import nnls

from batch_calibration.metrics.intervals import TAIL, Estimate

LEAST_LABELED = 10
"""The minimum number of labeled rows of each label that a correction of shares needs."""
SUM_WEIGHT = 1e4  # weight of the equation that shares sum to 1, in least squares
PSEUDO_ROWS = 0.5
"""Pseudo-rows of each label and answer, so that rows without an error leave some doubt."""


def solve_shares(answered: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Solves M^T theta = p for the shares theta [k] of the right labels, by least squares.

    theta is at least 0 and sums to 1. Without these limits it is (M^T)^-1 p, the adjusted count;
    for two labels (p + q0 - 1) / (q0 + q1 - 1) with the shares q of right answers (Rogan and Gladen
    1978, American Journal of Epidemiology 107(1)).

    Args:
        answered: p [a], the share of each answer.
        confusion: M [k, a], the share of each answer among the rows of each right label.

    >>> solve_shares(np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.3, 0.7]])).round(6).tolist()
    [0.0, 1.0]
    """
    equations = np.vstack([confusion.T, np.full(len(confusion), SUM_WEIGHT)])
    shares, _ = nnls(equations, np.append(answered, SUM_WEIGHT))
    return np.asarray(shares / shares.sum())


def corrected_shares(
    labeled: np.ndarray, others: np.ndarray, *, draws: int = 2000, seed: int = 0
) -> tuple[list[Estimate], list[Estimate]]:
    """Estimates the share of each right label among all rows, with 95 % intervals, in two ways.

    The first way is `solve_shares`, for labeled rows of any shares: it needs the share of each
    answer among the rows of a right label. The second way needs a random sample of labeled rows:
    sum_a p_a P(label | answer a) (Tenenbein 1970, Journal of the American Statistical Association
    65). Its error is at most that of the labeled rows' own shares. The intervals are percentiles of
    a Bayesian bootstrap over all rows (Rubin 1981, Annals of Statistics 9(1)), with `PSEUDO_ROWS`.

    Args:
        labeled: [k, a], labeled rows by right label and answer; each label needs a row.
        others: [a], other rows by answer.
        draws: the number of bootstrap draws.
        seed: the seed of the draws.

    >>> print(*(shares[0] for shares in corrected_shares(np.diag([30, 10]), np.array([300, 100]))))
    75.0 [68.0, 81.3] 75.0 [68.3, 80.7]
    """
    k, a = labeled.shape

    def solve(rows: np.ndarray) -> list[np.ndarray]:
        table = rows[: k * a].reshape(k, a)
        answered = (table.sum(axis=0) + rows[k * a :]) / rows.sum()
        of_answer = table / np.maximum(table.sum(axis=0), 1e-12)
        confusion = table / table.sum(axis=1, keepdims=True)
        return [solve_shares(answered, confusion), of_answer @ answered]

    cells = np.append(labeled, others).astype(float)
    pseudo = np.where(np.arange(len(cells)) < k * a, PSEUDO_ROWS, 0.0)
    drawn = np.random.default_rng(seed).gamma(cells + pseudo, size=(draws, len(cells)))
    # Each [2, k]; an answer without a labeled row has the shares of pseudo-rows in the draws.
    low, high = np.quantile(np.array(list(map(solve, drawn))), (1 - TAIL, TAIL), axis=0)
    found = np.stack([solve(cells), low, high], axis=-1)
    by_label, by_answer = ([*starmap(Estimate, ends)] for ends in found.tolist())
    return by_label, by_answer
