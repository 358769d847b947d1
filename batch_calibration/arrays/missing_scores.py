"""Labels missing from a top-k list: their scores lie below the least that was returned."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays.numbers import LARGEST, numbers
from batch_calibration.errors import InputError

Missing = Literal["least", "drop"] | float
"""What is done about a missing label: its score is put just below the least one returned for its
row, its row is dropped, or it is given so many nats."""

BELOW = 0.5
"""How many nats "just below" is: in all of 17 comparisons predictions agree more with those of the
whole scores than at 0.001 (docs/missing-labels.md)."""

NOT_RETURNED = (
    "a label that was not among the tokens returned lies below the least of them: give "
    "missing='least', which puts it there (docs/missing-labels.md); one floor for all rows such "
    "as -100 would decide the mean of its label"
)
"""What to do about minus infinity and sentinels, as a sentence ends."""

SENTINEL = -9999.0
"""What OpenAI-style servers answer for a token that is not among the returned ones."""


DISTANCES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
"""How far below the bound the missing labels are put, in nats, to see what depends on it."""


class Range(NamedTuple):
    """What predictions do as the missing labels are put at several distances below their bound.

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


def absent(scores: np.ndarray) -> np.ndarray:
    """Which scores say that a label was not returned: NaN, minus infinity, -9999.0 and below -1e6.

    >>> absent(np.array([[-1.0, -np.inf], [np.nan, -9999.0]])).tolist()
    [[False, True], [True, True]]
    """
    return np.asarray(np.isnan(scores) | (scores < -LARGEST) | (scores == SENTINEL), bool)


def least_returned(scores: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """The least score [n] that each row did return; plus infinity where it returned none."""
    return np.asarray(np.where(gone, np.inf, scores).min(axis=-1))


def check_missing(missing: object) -> Missing:
    """What to do about missing labels, or a sentence.

    >>> check_missing("least"), check_missing("-30")
    ('least', -30.0)
    """
    if missing == "least":
        return "least"
    if missing == "drop":
        return "drop"
    try:
        nats = float(str(missing))
    except ValueError:
        nats = np.nan
    if -LARGEST <= nats < 0:
        return nats
    raise InputError(
        where="missing",
        expected="'least', 'drop' or a number of nats below 0",
        got=f"{missing!r}",
        remedy="give missing='least', which puts a missing label just below the least one returned",
    )


def fill(
    scores: np.ndarray,
    missing: Missing,
    bound: np.ndarray | None = None,
    *,
    below: float = BELOW,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores without missing labels, and which rows are kept.

    Args:
        scores: [n, k], in nats; `absent` says which are missing.
        missing: see `Missing`; a number above a row's bound stays below the bound.
        bound: [n], the least log-probability that each row's list returned, of any token; without
            it the least of the row's labels, which lies as high or higher.
        below: how far below the bound "least" puts a missing label, in nats.

    Returns:
        The scores of the rows that are kept, and a mask [n] of these. A row that returned no label
        tells nothing and is never kept.

    >>> fill(np.array([[-1.0, -np.inf], [-2.0, -3.0]]), "least", np.array([-4.0, -5.0]))[0]
    array([[-1. , -4.5],
           [-2. , -3. ]])
    """
    gone = absent(scores)
    returned = least_returned(scores, gone)
    kept = np.isfinite(returned)
    if missing == "drop":
        kept = np.logical_not(gone.any(axis=-1))
        return scores[kept], kept
    top = returned if bound is None else np.minimum(returned, bound)
    value = top - below if missing == "least" else np.minimum(float(missing), top - below)
    return np.where(gone, value[:, None], scores)[kept], kept


def settled(
    scores: np.ndarray, missing: Missing, bound: object = None, where: str = "scores"
) -> np.ndarray:
    """Scores [..., n, k] without missing labels, every row kept.

    Args:
        scores: in nats; `absent` says which are missing.
        missing: "least" or a number, see `Missing`.
        bound: [..., n], see `fill`.
        where: what to call them in the sentence.

    Raises:
        InputError: missing="drop", which keeps fewer rows; a row that returned no label; a bound of
            another shape or not finite.

    >>> settled(np.array([[-1.0, -np.inf]]), -30)
    array([[ -1., -30.]])
    """
    if check_missing(missing) == "drop":
        raise InputError(
            f"{where}: missing='drop' would give back fewer rows than came; drop the rows "
            "yourself, scores[np.isfinite(scores).all(-1)], or give missing='least'."
        )
    gone = absent(scores)
    least: np.ndarray | None = None
    if bound is not None:
        remedy = "give the least log-probability returned for each row, of any token"
        least = np.asarray(numbers(bound, "bound", "one number of nats per row", remedy))
        if least.shape != scores.shape[:-1] or absent(least).any() or (least > LARGEST).any():
            raise InputError(
                where="bound",
                expected=f"one finite number of nats per row, shape {scores.shape[:-1]}",
                got=f"shape {least.shape}, {int(absent(least).sum())} not finite",
                remedy=remedy,
            )
        least = least.reshape(-1)
    empty = np.argwhere(gone.all(axis=-1))
    if len(empty):
        raise InputError(
            f"{where}: row {int(empty[0][-1])} has the score of no label ({len(empty)} such rows), "
            "so nothing tells its labels apart; drop it, or ask for more tokens."
        )
    rows = np.asarray(scores, np.float64).reshape(-1, scores.shape[-1])
    return fill(rows, check_missing(missing), least)[0].reshape(scores.shape)


def range_of_predictions(
    scores: np.ndarray,
    correct: Callable[[np.ndarray], ArrayLike],
    bound: np.ndarray | None = None,
    *,
    labels: np.ndarray | None = None,
    distances: Sequence[float] = DISTANCES,
) -> Range:
    """How far predictions depend on where below their bound the missing labels lie.

    All missing labels are put at the same distance, for each distance in turn; distances that
    differ by label and row could change more.

    Args:
        scores: [n, k], in nats; `absent` says which are missing.
        correct: scores [m, k] without missing ones -> corrected scores, such as `calibrate`.
        bound: [n], see `fill`.
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
        filled, kept = fill(scores, "least", bound, below=below)
        if not kept.any():
            raise InputError("scores: no row has the score of a label; ask for more tokens.")
        picks.append(np.asarray(correct(filled)).argmax(axis=-1))
    return range_of(np.stack(picks), scores.shape[1], None if labels is None else labels[kept])


def range_of(picks: np.ndarray, k: int, labels: np.ndarray | None = None) -> Range:
    """How far predictions differ from one distance to the next.

    Args:
        picks: [d, n], the predicted label at each of d distances.
        k: labels.
        labels: [n], the right labels, -1 where unknown.

    >>> range_of(np.array([[0, 1], [0, 0]]), 2, np.array([0, 1]))[:3]
    (2, 1, (0.5, 1.0))
    """
    counts = np.stack([(picks == j).mean(axis=1) for j in range(k)])
    accuracy = None
    if labels is not None and (known := labels >= 0).any():
        right = (picks == labels)[:, known].mean(axis=1)
        accuracy = float(right.min()), float(right.max())
    return Range(
        picks.shape[1],
        int((picks == picks[0]).all(axis=0).sum()),
        accuracy,
        np.stack([counts.min(axis=1), counts.max(axis=1)], axis=1),
    )
