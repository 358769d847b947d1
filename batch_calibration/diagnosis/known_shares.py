"""Label shares that a user or a task states, and their error."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from batch_calibration.arrays.alignment import in_label_order
from batch_calibration.errors import InputError, shown

BALANCED = "balanced"
ROUNDING = 1e-6
"""The tolerance for equal shares and for sums of 1."""
Ranges = Sequence[float] | Sequence[Sequence[float]] | Mapping[Hashable, Sequence[float]]
Share = str | Ranges | np.ndarray
"""A user's input for shares: `BALANCED`, also with points ("balanced:12"); the range of the first
of two labels; or a range for each label, [k, 2] or by name."""


class Known(NamedTuple):
    """Shares that are known without the scores.

    Attributes:
        why: the origin of the shares, as the end of a sentence.
        shares: [k]; None for equal shares.
        error: the standard error of each share, without the sampling error of the rows. None: the
            rows have exactly these shares.
    """

    why: str
    shares: tuple[float, ...] | None = None
    error: float | None = 0.0

    def all_shares(self, k: int) -> tuple[float, ...]:
        """Returns the shares of k labels; equal shares are written out."""
        return self.shares or (1 / k,) * k

    @property
    def options(self) -> dict[str, float | tuple[float, ...]]:
        """The options of `prior_matching`."""
        options = {"target_prior": self.shares, "share_error": self.error}
        return {name: option for name, option in options.items() if option is not None}


STATED = "you stated that labels are about equally frequent"
BY_DESIGN = Known("the task's data set is balanced by design")


def know_shares(shares: Sequence[float]) -> Known:
    """Returns stated shares as `Known`.

    Unequal shares are exact for the rows. Equal shares are not: the rows have a sampling error.

    >>> know_shares((0.8, 0.2)).options, know_shares((0.5, 0.5)).options
    ({'target_prior': (0.8, 0.2)}, {'share_error': 0.0})
    """
    if np.ptp(shares) < ROUNDING:
        return Known(STATED)
    return Known("you stated these shares", tuple(map(float, shares)), None)


def know_roughly(
    share: Share, k: int, names: Sequence[Hashable] | None = None, where: str = "share"
) -> Known:
    """Converts a user's input to shares that are about equal or lie within ranges.

    For ranges, `middle_shares` computes the shares, and the error is the standard deviation of
    uniform distributions over the ranges (root mean square over labels).

    Args:
        share: the user's input, see `Share`.
        k: the number of labels.
        names: the names of the labels, for ranges by name.
        where: the beginning of error messages.

    Raises:
        InputError: the points are not between 0 and 100; a range has its higher end first or
            exceeds 0 to 1; or no shares within the ranges sum to 1.

    >>> know_roughly("balanced:12", 2).options
    {'share_error': 0.12}
    >>> known = know_roughly((0.2, 0.4), 2)
    >>> known.shares, round(known.error, 3)
    ((0.3, 0.7), 0.058)
    """
    word, _, points = share.partition(":") if isinstance(share, str) else ("", "", "")
    if word == BALANCED:
        with suppress(ValueError):
            if 0 <= (error := float(points or 0) / 100) <= 1:
                return Known(STATED, error=error)
    ranges = read_ranges(share, k, names, where)
    middle = middle_shares(ranges)
    # A uniform distribution over a range of width w has the variance w^2 / 12.
    error = float(np.sqrt((np.ptp(ranges, axis=1) ** 2).mean() / 12))
    equal = np.abs(middle - 1 / k).max() < ROUNDING
    why = "you stated ranges of the shares"
    return Known(why, None if equal else tuple(np.round(middle, 9).tolist()), error)


def read_ranges(
    share: Share, k: int, names: Sequence[Hashable] | None = None, where: str = "share"
) -> np.ndarray:
    """Reads ranges of shares [k, 2] and narrows them to values that allow a sum of 1.

    Args:
        share: the user's input, see `Share`.
        k: the number of labels.
        names: the names of the labels, for ranges by name.
        where: the beginning of error messages.

    Raises:
        InputError: a range has its higher end first or exceeds 0 to 1; or no shares within the
            ranges sum to 1.

    >>> read_ranges((0.25, 0.75), 2).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    >>> read_ranges([(0.5, 1), (0.25, 1), (0, 1)], 3).tolist()
    [[0.5, 0.75], [0.25, 0.5], [0.0, 0.25]]
    """
    given = in_label_order(share, names, where, k, absent=None)
    with suppress(ValueError, TypeError):  # values that are no numbers raise below
        ranges = np.asarray(given, np.float64)
        if k == 2 and ranges.shape == (2,):
            ranges = np.stack([ranges, 1 - ranges[::-1]])
        if ranges.shape == (k, 2) and _hold_shares(low := ranges[:, 0], high := ranges[:, 1]):
            most, least = 1 - (low.sum() - low), 1 - (high.sum() - high)
            return np.stack([np.maximum(low, least), np.minimum(high, most)], axis=1)
    first = "a range of the first label, " if k == 2 else ""
    expected = f"{BALANCED!r} or 'balanced:12' (points), {first}or a range for each of {k} labels: "
    expected += "within 0 to 1, its lower end first, and the ranges hold shares that sum to 1"
    raise InputError.at(where, expected, shown(share), "correct it")


def _hold_shares(low: np.ndarray, high: np.ndarray) -> bool:
    # A NaN fails every comparison, so it is refused, too.
    in_order = bool(((low >= 0) & (low <= high) & (high <= 1)).all())
    return in_order and low.sum() <= 1 + ROUNDING and high.sum() >= 1 - ROUNDING


def middle_shares(ranges: np.ndarray) -> np.ndarray:
    """Computes shares [k] that sum to 1, each at the same fraction of its range.

    >>> middle_shares(np.array([[0.5, 0.75], [0.25, 0.5], [0.0, 0.25]])).round(3).tolist()
    [0.583, 0.333, 0.083]
    """
    low, width = ranges[:, 0], np.ptp(ranges, axis=1)
    part = (1 - low.sum()) / width.sum() if width.sum() > ROUNDING else 0.5
    return np.asarray(low + part * width)
