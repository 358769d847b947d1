"""Labels missing from a top-k list: their scores lie below the least that was returned."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.arrays import LARGEST, numbers
from batch_calibration.errors import InputError

Missing = Literal["least", "drop"] | float
"""What is done about a missing label: its score is put just below the least one returned for its
row, its row is dropped, or it is given so many nats."""

BELOW = 1e-3
"""How many nats "just below" is."""

NOT_RETURNED = (
    "a label that was not among the tokens returned lies below the least of them: give "
    "missing='least', which puts it there (docs/missing-labels.md); one floor for all rows such "
    "as -100 would decide the mean of its label"
)
"""What to do about minus infinity and sentinels, as a sentence ends."""

SENTINEL = -9999.0
"""What OpenAI-style servers answer for a token that is not among the returned ones."""


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
        f"missing: expected 'least', 'drop' or a number of nats below 0; got {missing!r}: give "
        "missing='least', which puts a missing label just below the least one returned."
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
    array([[-1.   , -4.001],
           [-2.   , -3.   ]])
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
    scores: np.ndarray, missing: Missing, bound: ArrayLike | None = None, where: str = "scores"
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
    if bound is not None:
        remedy = "give the least log-probability returned for each row, of any token"
        bound = np.asarray(numbers(bound, "bound", "one number of nats per row", remedy))
        if bound.shape != scores.shape[:-1] or absent(bound).any() or (bound > LARGEST).any():
            raise InputError(
                f"bound: expected one finite number of nats per row, shape {scores.shape[:-1]}; "
                f"got shape {bound.shape}, {int(absent(bound).sum())} not finite: {remedy}."
            )
        bound = bound.reshape(-1)
    empty = np.argwhere(gone.all(axis=-1))
    if len(empty):
        raise InputError(
            f"{where}: row {int(empty[0][-1])} has the score of no label ({len(empty)} such rows), "
            "so nothing tells its labels apart; drop it, or ask for more tokens."
        )
    rows = np.asarray(scores, np.float64).reshape(-1, scores.shape[-1])
    return fill(rows, check_missing(missing), bound)[0].reshape(scores.shape)
