"""Ranges of predictions over where below their bound the missing labels lie."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.missing_scores import fill_scores
from batch_calibration.errors import InputError

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
