"""Standard errors of mean scores; predictions that flip if one row is dropped."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.missing_scores import fill_scores
from batch_calibration.errors import InputError

UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""By how much of itself a number of a half-precision dtype is rounded at most."""
FULL_PRECISION = ("float32", "float64")
ROUNDINGS = 2
"""So many roundings of both scores; of a Llama in bfloat16, the only model looked at whose labels
lie that close, 34 of 37 predictions that flip have a smaller margin
(half_precision.py of the evidence)."""


def centered_error(rows: np.ndarray) -> np.ndarray:
    """The standard error of each label's mean score less the mean over labels.

    The preference of label j is the mean over rows of r_ij = s_ij - mean_l s_il, so its standard
    error is sd(r_j) / sqrt(n), with n - 1 in the variance.

    Args:
        rows: [n, k], in nats.

    Returns:
        [k], in nats; NaN for one row, which tells no error.

    >>> centered_error(np.array([[0.0, 2.0], [0.0, 4.0]])).tolist()
    [0.5, 0.5]
    """
    return _error(rows - rows.mean(axis=-1, keepdims=True))


def pair_error(rows: np.ndarray, high: int, low: int) -> float:
    """The standard error of the mean of s_high - s_low, in nats; NaN for one row.

    >>> pair_error(np.array([[0.0, 2.0], [0.0, 4.0]]), 1, 0)
    1.0
    """
    return float(_error(rows[:, high] - rows[:, low]))


def _error(per_row: np.ndarray) -> np.ndarray:
    n = len(per_row)
    if n < 2:
        return np.full(per_row.shape[1:], np.nan)
    return np.asarray(per_row.std(axis=0, ddof=1, dtype=np.float64) / np.sqrt(n))


def rows_needed(error: float, rows: int, target_error: float = 0.1) -> int | None:
    """The rows that bring a standard error down to `target_error` nats; None where it is not known.

    An error falls with the square root of the rows: n (e / target_error)^2, and two at least.

    >>> rows_needed(0.2, 10)
    40
    """
    if np.isnan(error):
        return None
    # Rounded first: 0.2 / 0.1 is a little more than 2 squared.
    return max(2, int(np.ceil(round(rows * (error / target_error) ** 2, 6))))


def find_fragile(
    rows: np.ndarray, corrected: np.ndarray, which: np.ndarray, *, strength: float = 1.0
) -> np.ndarray:
    """Rows among some whose prediction under BC changes if one row is left out of the batch.

    Without row j the bias is (m b - s_j) / (m - 1). So the lead of label p over label a moves by
    strength * (d_jp - d_ja) / (m - 1) with d_j = s_j - b, and one extreme over j for each pair of
    labels decides for all rows: O(n k^2), not O(n^2 k). The row itself may be the one left out.

    Args:
        rows: [n, k], all rows of the batch, in nats.
        corrected: [n, k], s - strength * b, or that plus constants for labels.
        which: indices of the rows in question.
        strength: the paper's gamma.

    Returns:
        Indices out of `which`; all of them are stable in a batch of one row, which has no other.

    >>> rows = np.array([[0.0, 1.0], [0.0, 1.1], [0.0, 3.0]])
    >>> find_fragile(rows, rows - rows.mean(axis=0), np.array([0, 1])).tolist()
    [1]
    """
    if len(rows) < 2 or not len(which):
        return np.array([], int)
    # [n, k], by how much leaving a row out moves the bias.
    moves = strength * (rows - rows.mean(axis=0)) / (len(rows) - 1)
    guess = corrected[which].argmax(axis=-1)
    is_fragile = np.zeros(len(which), bool)
    for label in np.unique(guess):
        of_label = guess == label
        # The worst row to leave out, for each pair of labels.
        least_move = (moves[:, [label]] - moves).min(axis=0)
        # [rows of this label, k], nats
        leads = corrected[which[of_label]][:, [label]] - corrected[which[of_label]]
        is_other_label = np.arange(rows.shape[-1]) != label
        is_fragile[of_label] = ((leads + least_move) < 0)[:, is_other_label].any(axis=-1)
    return which[is_fragile]


def find_rounded(scores: np.ndarray, corrected: np.ndarray, dtype: str) -> np.ndarray:
    """The rows whose two best labels, corrected, lie closer than a model's numbers are rounded.

    Args:
        scores: [n, k], in nats; the larger a score, the more of it is lost.
        corrected: [n, k].
        dtype: what the model computed in; none of the rows is meant in full precision.

    Raises:
        InputError: an unknown dtype.

    Returns:
        Their indices: another order of the same sums may predict otherwise.

    >>> scores = np.array([[-8.0, -10.0], [-8.0, -8.1]])
    >>> find_rounded(scores, scores, "bfloat16").tolist()
    [1]
    """
    if dtype not in UNIT_ROUNDOFF and dtype not in FULL_PRECISION:
        raise InputError.unknown("dtype", dtype, (*UNIT_ROUNDOFF, *FULL_PRECISION))
    if dtype in FULL_PRECISION or scores.shape[-1] < 2:
        return np.array([], int)
    best = np.argpartition(corrected, -2, axis=-1)[:, -2:]
    second, first = np.sort(np.take_along_axis(corrected, best, axis=-1), axis=-1).T
    sizes = np.abs(np.take_along_axis(scores, best, axis=-1)).sum(axis=-1)
    return np.flatnonzero(first - second < ROUNDINGS * UNIT_ROUNDOFF[dtype] * sizes)


DISTANCES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Distances below the bound at which missing labels are put, in nats."""


class PredictionRange(NamedTuple):
    """Predictions as the missing labels are put at several distances below their bound.

    Attributes:
        rows: the rows that returned a label; the others are left out.
        same: how many of these are predicted the same at every distance.
        accuracy: least and greatest share of right predictions among rows whose label is known;
            None where none is.
        shares: [k, 2], least and greatest share of rows that each label is predicted for.
    """

    rows: int
    same: int
    accuracy: tuple[float, float] | None
    shares: np.ndarray


def range_of_predictions(
    scores: np.ndarray,
    correct: Callable[[np.ndarray], ArrayLike],
    bound: np.ndarray | None = None,
    *,
    labels: np.ndarray | None = None,
    distances: Sequence[float] = DISTANCES,
) -> PredictionRange:
    """The range of predictions over where below their bound the missing labels lie.

    All missing labels are put at the same distance, for each distance in turn; distances that
    differ by label and row could change more.

    Args:
        scores: [n, k], in nats; `find_missing` says which are missing.
        correct: scores [m, k] without missing ones -> corrected scores, such as `calibrate`.
        bound: [n], see `fill_scores`.
        labels: [n], the right labels, -1 where unknown.
        distances: how far below the bound, in nats.

    Raises:
        InputError: no row returned a label.

    >>> seen = range_of_predictions(np.array([[-1.0, -np.inf], [-2.0, -1.0]]), lambda rows: rows)
    >>> seen.same, seen.shares.tolist()
    (2, [[0.5, 0.5], [0.5, 0.5]])
    """
    picks = []
    for below in distances:
        filled, is_kept = fill_scores(scores, "least", bound, below=below)
        if not is_kept.any():
            raise InputError("scores: no row has the score of a label; ask for more tokens.")
        picks.append(np.asarray(correct(filled)).argmax(axis=-1))
    # The same rows are kept at each distance, so the last mask is that of all.
    return prediction_range(
        np.stack(picks), scores.shape[1], None if labels is None else labels[is_kept]
    )


def prediction_range(
    picks: np.ndarray, k: int, labels: np.ndarray | None = None
) -> PredictionRange:
    """The range of predictions `picks` [d, n] from one distance to the next.

    >>> prediction_range(np.array([[0, 1], [0, 0]]), 2, np.array([0, 1]))[:3]
    (2, 1, (0.5, 1.0))
    """
    counts = np.stack([(picks == j).mean(axis=1) for j in range(k)])  # [k, d]
    accuracy = None
    if labels is not None and (is_known := labels >= 0).any():
        right = (picks == labels)[:, is_known].mean(axis=1)  # [d]
        accuracy = float(right.min()), float(right.max())
    return PredictionRange(
        picks.shape[1],
        int((picks == picks[0]).all(axis=0).sum()),
        accuracy,
        np.stack([counts.min(axis=1), counts.max(axis=1)], axis=1),
    )
