"""Treatment of NaN, infinities, sentinels and missing scores, decided in one place.

A score is a number within `LARGEST` nats of 0. Minus infinity, a sentinel and what lies farther
below say that a label was not returned: refused, raised to a floor, or put below the least score
of its row (`missing=`). NaN and gaps of a table are missing labels too where `missing=` is given,
and refused elsewhere. Plus infinity and what lies farther above are refused always. (Weights of 0
are another thing: `calibration.base.weighted_mean` masks the rows.)
"""

from typing import Literal

import numpy as np

from batch_calibration.errors import InputError

LARGEST = 1e6
"""Scores lie within so many nats of 0; what is farther out, such as float32's least number, is a
sentinel, and one of them decides the mean of its label."""

Missing = Literal["least", "drop"] | float
"""Treatment of a missing label: "least" puts its score just below the least one returned for its
row, "drop" drops its row, and a number is its score in nats."""

BELOW = 0.5
"""Nats of "just below": in all of 17 comparisons predictions agree more with predictions of whole
scores than at 0.001 nats (docs/your-scores.md)."""

NOT_RETURNED = (
    "a label that was not among the tokens returned lies below the least of them: give "
    "missing='least', which puts it there (docs/your-scores.md); one floor for all rows such "
    "as -100 would decide the mean of its label"
)
"""Remedy for minus infinity and sentinels."""

CERTAIN = 1e-6
"""Nats from 0 within which a label has the probability 1."""

SENTINEL = -9999.0
"""Answer of OpenAI-style servers for a token that was not returned."""

BOUND = "give the least log-probability returned for each row, of any token"
"""Remedy for wrong bounds."""


def find_missing(scores: np.ndarray) -> np.ndarray:
    """Which scores say that a label was not returned: NaN, minus infinity, -9999.0 and below -1e6.

    >>> find_missing(np.array([[-1.0, -np.inf], [np.nan, -9999.0]])).tolist()
    [[False, True], [True, True]]
    """
    return np.asarray(np.isnan(scores) | (scores < -LARGEST) | (scores == SENTINEL), bool)


def is_gap(cell: object) -> bool:
    """True for an empty cell of a table, which is read as NaN: None, or pandas' NA."""
    return cell is None or type(cell).__name__ == "NAType"


def find_impossible(scores: np.ndarray) -> np.ndarray:
    """Indices [b, 2] of scores that are no log-probabilities, whatever is done about missing ones.

    >>> find_impossible(np.array([[-1.0, np.nan], [np.inf, -np.inf]])).tolist()
    [[0, 1], [1, 0]]
    """
    return np.argwhere(~(scores <= LARGEST))  # NaN fails the comparison too


def refuse_unusable(scores: np.ndarray, where: str, *, is_floored: bool = False) -> None:
    """Refuse scores [..., n, k] of which one is no finite number of nats.

    With `is_floored` a floor will raise minus infinity and sentinels, which are let through.
    """
    # One look at the extremes settles the usual case; NaN fails both comparisons.
    is_low = (scores < -LARGEST) | (scores == SENTINEL)
    if scores.max() <= LARGEST and (is_floored or not is_low.any()):
        return
    for is_bad, remedy in (
        (np.isnan(scores), "re-score that row or drop it"),
        (scores > LARGEST, "log-probabilities are at most 0; re-score that row"),
        (is_low & (not is_floored), NOT_RETURNED),
    ):
        if is_bad.any():
            *context, row, label = map(int, np.argwhere(is_bad)[0])
            score = scores[(*context, row, label)]
            shown = "NaN" if np.isnan(score) else f"{float(score):+g}"
            at = f"context {tuple(context)}, " if context else ""
            got = f"{shown} in {at}row {row}, label {label} ({int(is_bad.sum())} in all)"
            raise InputError.at(where, "finite log-probabilities", got, remedy)


def check_missing(missing: object) -> Missing:
    """The treatment of missing labels, checked.

    >>> check_missing("least"), check_missing("-30")
    ('least', -30.0)
    """
    if missing in ("least", "drop"):
        return missing
    try:
        nats = float(str(missing))  # flags and configs give a text
    except ValueError:
        nats = np.nan
    if -LARGEST <= nats < 0:  # NaN fails the comparison too
        return nats
    expected = "'least', 'drop' or a number of nats below 0"
    remedy = "give missing='least', which puts a missing label just below the least one returned"
    raise InputError.at("missing", expected, f"{missing!r}", remedy)


def refuse_greedy(scores: np.ndarray, where: str) -> None:
    """Refuse scores [n, k] of which each is 0 or missing, one a row at most, and one is missing."""
    is_present = ~find_missing(scores)
    is_zero = bool(is_present.any()) and bool((np.abs(scores[is_present]) <= CERTAIN).all())
    if is_zero and not is_present.all() and is_present.sum(axis=-1).max() == 1:
        got = "one label of probability 1 in each row and none of the others: log-probabilities "
        got += "after the sampling settings (temperature 0), of which nothing can be measured"
        remedy = "ask for log-probabilities before sampling settings (vLLM: raw_logprobs), or at "
        remedy += "temperature 1"
        raise InputError.at(where, "log-probabilities of several labels a row", got, remedy)


def fill_scores(
    scores: np.ndarray, missing: Missing, bound: np.ndarray | None = None, *, below: float = BELOW
) -> tuple[np.ndarray, np.ndarray]:
    """Scores without missing labels, and which rows are kept.

    Args:
        scores: [n, k], in nats; `find_missing` says which are missing.
        missing: see `Missing`; a number above a row's bound stays below the bound.
        bound: [n], the least log-probability that each row's list returned, of any token; without
            it the least of the row's labels, which lies as high or higher.
        below: how far below the bound "least" puts a missing label, in nats.

    Returns:
        The scores of the rows that are kept, and a mask [n] of these. A row that returned no label
        tells nothing and is never kept.

    >>> fill_scores(np.array([[-1.0, -np.inf], [-2.0, -3.0]]), "least", np.array([-4.0, -5.0]))[0]
    array([[-1. , -4.5],
           [-2. , -3. ]])
    """
    is_missing = find_missing(scores)
    # Plus infinity where the row returned no label.
    returned = np.where(is_missing, np.inf, scores).min(axis=-1)
    # A row with plus infinity is kept, for whoever reads scores refuses it.
    is_kept = np.logical_not(is_missing.all(axis=-1))
    if missing == "drop":
        is_kept = np.logical_not(is_missing.any(axis=-1))
        return scores[is_kept], is_kept
    top = returned if bound is None else np.minimum(returned, bound)
    # A number of nats never puts a missing label above those that were returned.
    filled_in = top - below if missing == "least" else np.minimum(float(missing), top - below)
    return np.where(is_missing, filled_in[:, None], scores)[is_kept], is_kept


def fill_every_row(
    scores: np.ndarray, missing: Missing, bound: np.ndarray | None = None, where: str = "scores"
) -> np.ndarray:
    """Scores [..., n, k] without missing labels, every row kept; `bound` [..., n] as there.

    Raises:
        InputError: missing="drop", which keeps fewer rows; a row that returned no label; a bound of
            another shape or not finite.

    >>> fill_every_row(np.array([[-1.0, -np.inf]]), -30)
    array([[ -1., -30.]])
    """
    if check_missing(missing) == "drop":
        raise InputError(
            f"{where}: missing='drop' would give back fewer rows than came; drop the rows "
            "yourself, scores[np.isfinite(scores).all(-1)], or give missing='least'."
        )
    is_missing = find_missing(scores)
    if bound is not None:
        lacking = find_missing(bound)
        if bound.shape != scores.shape[:-1] or lacking.any() or (bound > LARGEST).any():
            expected = f"one finite number of nats per row, shape {scores.shape[:-1]}"
            got = f"shape {bound.shape}, {int(lacking.sum())} not finite"
            raise InputError.at("bound", expected, got, BOUND)
        bound = bound.reshape(-1)
    empty = np.argwhere(is_missing.all(axis=-1))
    if len(empty):
        raise InputError(
            f"{where}: row {int(empty[0][-1])} has the score of no label ({len(empty)} like it), "
            "so nothing tells its labels apart; drop it, or ask for more tokens."
        )
    rows = np.asarray(scores, np.float64).reshape(-1, scores.shape[-1])
    return fill_scores(rows, check_missing(missing), bound)[0].reshape(scores.shape)
