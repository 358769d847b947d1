"""Treatment of NaN, infinities, sentinels and missing scores.

A score is a number within `LARGEST` nats of 0. Minus infinity, a sentinel and any lower number mean
that a label was not returned. They are refused, unless a floor raises them or `missing=` replaces
them. NaN, empty cells of a table, and one low number in place of many scores (`Lowest.filler`) are
missing labels too if `missing=` is given; without it, NaN and fillers of files are refused, and
arrays with a filler cause a warning. Plus infinity and numbers above `LARGEST` are always refused.
(Rows of weight 0 are a different case: `calibration.base.weighted_mean` masks them.)
"""

from typing import Literal, NamedTuple

import numpy as np

from batch_calibration.errors import InputError

LARGEST = 1e6
"""The largest distance of a score from 0, in nats. A number beyond it, such as float32's lowest,
is a sentinel, and a single one would dominate the mean of its label."""

Missing = Literal["least", "drop"] | float
"""Treatment of a missing label: "least" puts its score just below the lowest score returned for
its row, "drop" drops its row, and a number replaces its score, in nats."""

BELOW = 0.5
"""The distance of "just below", in nats. In all of 17 comparisons, predictions agree better with
predictions from complete scores than at 0.001 nats (docs/your-scores.md)."""

NOT_RETURNED = (
    "a label that was not among the returned tokens scores below the lowest of them: give "
    "missing='least', which puts it there (docs/your-scores.md); one floor for all rows, such "
    "as -100, would dominate the mean of its label"
)
"""The remedy for minus infinity and sentinels."""

CERTAIN = 1e-6
"""The largest distance from 0, in nats, of the log-probability of a certain label."""

SENTINEL = -9999.0
"""The score that OpenAI-style servers give to a token that was not returned."""

HIGHEST_FILLER, FILLER_GAP, FILLER_TIMES = -11.5, 5.0, 3
"""The highest filler (log 1e-5), its least distance from other scores, in nats, and least count."""

HIGHEST_WHOLE = -20.0
"""The highest whole number that is a filler without repetition, in nats."""

BOUND = "give the lowest log-probability returned for each row, of any token"
"""The remedy for wrong bounds."""


class Lowest(NamedTuple):
    """The lowest score of an array, in nats, its number, the next higher one, and the highest."""

    score: float = np.inf
    times: int = 0
    next: float = np.inf
    highest: float = -np.inf

    def plus(self, other: "Lowest") -> "Lowest":
        """Returns the lowest score of both arrays together."""
        scores = sorted({self.score, self.next, other.score, other.next})
        times = sum(part.times for part in (self, other) if part.score == scores[0])
        return Lowest(scores[0], times, (*scores, np.inf)[1], max(self.highest, other.highest))

    @property
    def filler(self) -> float:
        """The number that a program wrote in place of scores that were not returned, else -inf.

        It is the lowest log-probability, it is far below all others, and it is repeated exactly, or
        a whole number such as -100.
        """
        is_far = self.score < 2 * self.next < np.inf and self.score <= self.next - FILLER_GAP
        is_low = self.score <= HIGHEST_FILLER and self.highest <= 0
        is_whole = self.score <= HIGHEST_WHOLE and self.score % 1 == 0
        is_filler = is_far and is_low and (is_whole or self.times >= FILLER_TIMES)
        return self.score if is_filler else -np.inf


def find_lowest(scores: np.ndarray) -> Lowest:
    """Finds the lowest score of an array, except missing ones.

    >>> find_lowest(np.array([[-0.1, -100.0], [-0.2, -100.0], [-100.0, -0.3]])).filler
    -100.0
    """
    present = scores[~find_missing(scores)]
    if not present.size:
        return Lowest()
    low = float(present.min())
    is_low = present == low
    above = float(present.min(where=~is_low, initial=np.inf))
    return Lowest(low, int(is_low.sum()), above, float(present.max()))


def find_missing(scores: np.ndarray, filler: float = -np.inf) -> np.ndarray:
    """Marks the scores of labels that were not returned: NaN, -9999.0, the filler, below -1e6.

    >>> find_missing(np.array([[-1.0, -np.inf], [np.nan, -9999.0]])).tolist()
    [[False, True], [True, True]]
    """
    is_low = (scores < -LARGEST) | (scores == SENTINEL) | (scores == filler)
    return np.asarray(np.isnan(scores) | is_low, bool)


def is_gap(cell: object) -> bool:
    """Checks whether a cell of a table is empty: None or pandas' NA, which are read as NaN."""
    return cell is None or type(cell).__name__ == "NAType"


def find_impossible(scores: np.ndarray) -> np.ndarray:
    """Returns the indices [b, 2] of scores that are NaN or above `LARGEST`.

    >>> find_impossible(np.array([[-1.0, np.nan], [np.inf, -np.inf]])).tolist()
    [[0, 1], [1, 0]]
    """
    return np.argwhere(~(scores <= LARGEST))  # NaN fails the comparison too


def refuse_unusable(scores: np.ndarray, where: str, *, is_floored: bool = False) -> None:
    """Raises InputError if any of the scores [..., n, k] is not a finite number of nats.

    With `is_floored`, minus infinity and sentinels pass, because a floor will raise them.
    """
    # The usual case needs only the extremes. NaN fails the comparison.
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
    """Returns the treatment of missing labels after a check; a string may hold a number.

    >>> check_missing("least"), check_missing("-30")
    ('least', -30.0)
    """
    if missing in ("least", "drop"):
        return missing
    try:
        nats = float(str(missing))  # flags and configs pass strings
    except ValueError:
        nats = np.nan
    if -LARGEST <= nats < 0:  # NaN fails the comparison too
        return nats
    expected = "'least', 'drop' or a number of nats below 0"
    remedy = "give missing='least', which puts a missing label just below the lowest returned score"
    raise InputError.at("missing", expected, f"{missing!r}", remedy)


def refuse_greedy(scores: np.ndarray, where: str) -> None:
    """Raises InputError if scores [n, k] hold only zeros, one per row, and are missing otherwise.

    Servers return these scores at temperature 0, where one token has probability 1.
    """
    is_present = ~find_missing(scores)
    is_zero = bool(is_present.any()) and bool((np.abs(scores[is_present]) <= CERTAIN).all())
    if is_zero and not is_present.all() and is_present.sum(axis=-1).max() == 1:
        got = "one label of probability 1 in each row and no other label: log-probabilities after "
        got += "the sampling settings (temperature 0), which carry no information on the bias"
        remedy = "ask for log-probabilities before sampling settings (vLLM: raw_logprobs), or at "
        remedy += "temperature 1"
        raise InputError.at(where, "log-probabilities of several labels a row", got, remedy)


def fill_scores(
    scores: np.ndarray,
    missing: Missing,
    bound: np.ndarray | None = None,
    *,
    below: float = BELOW,
    filler: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Replaces the scores of missing labels, or drops their rows.

    Args:
        scores: [n, k], in nats; `find_missing` marks the missing ones.
        missing: see `Missing`; a number is lowered where it is not below a row's bound.
        bound: [n], the lowest log-probability returned for each row, of any token. By default the
            lowest of the row's labels, which is as high or higher.
        below: the distance of a missing label from the bound, in nats.
        filler: a number that means a missing score; by default `Lowest.filler` of the scores.

    Returns:
        The scores of the rows that are kept, and a mask [n] of these rows. A row without any
        returned label carries no information and is never kept.

    >>> fill_scores(np.array([[-1.0, -np.inf], [-2.0, -3.0]]), "least", np.array([-4.0, -5.0]))[0]
    array([[-1. , -4.5],
           [-2. , -3. ]])
    """
    filler = find_lowest(scores).filler if filler is None else filler
    is_missing = find_missing(scores, filler)
    # Plus infinity where the row returned no label.
    returned = np.where(is_missing, np.inf, scores).min(axis=-1)
    # A row with plus infinity is kept here, because the caller refuses it.
    is_kept = np.logical_not(is_missing.all(axis=-1))
    if missing == "drop":
        is_kept = np.logical_not(is_missing.any(axis=-1))
        return scores[is_kept], is_kept
    top = returned if bound is None else np.minimum(returned, bound)
    # A number never puts a missing label above the returned ones.
    filled_in = top - below if missing == "least" else np.minimum(float(missing), top - below)
    return np.where(is_missing, filled_in[:, None], scores)[is_kept], is_kept


def fill_every_row(
    scores: np.ndarray, missing: Missing, bound: np.ndarray | None = None, where: str = "scores"
) -> np.ndarray:
    """Replaces missing labels in scores [..., n, k] and keeps every row; see `fill_scores`.

    Raises:
        InputError: missing="drop", which returns fewer rows; a row without any returned label; a
            bound with another shape than [..., n] or with a value that is not finite.

    >>> fill_every_row(np.array([[-1.0, -np.inf]]), -30)
    array([[ -1., -30.]])
    """
    if check_missing(missing) == "drop":
        remedy = "drop rows by scores[np.isfinite(scores).all(-1)], or give missing='least'"
        raise InputError.at(where, "a treatment that keeps each row", "missing='drop'", remedy)
    is_missing = find_missing(scores, find_lowest(scores).filler)
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
            f"{where}: row {int(empty[0][-1])} has no score for any label ({len(empty)} in all), "
            "so its labels cannot be compared; drop it, or ask for more tokens."
        )
    rows = np.asarray(scores, np.float64).reshape(-1, scores.shape[-1])
    return fill_scores(rows, check_missing(missing), bound)[0].reshape(scores.shape)
