"""Recommendations where label shares are known roughly: "balanced", or a range for each label."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.alignment import in_label_order
from batch_calibration.diagnosis.gain import Margins, expected_gain
from batch_calibration.diagnosis.margins import MIN_ROWS, fit_mixture
from batch_calibration.diagnosis.recommendation import LEAVE, UNCHANGED, UNKNOWN, Expected, Options
from batch_calibration.errors import InputError, shown
from batch_calibration.metrics import Estimate

BALANCED, BY_DESIGN = "balanced", "balanced by design"
"""Shares that are about equal, as a user or as the task says."""
NEAR_EQUAL = 0.12
"""How far the share of a label may lie from 1/k for BC to be recommended."""
NEAR_EQUAL_GAIN = (
    "If shares lie within 12 points of equal, it gained 2.2 to 3.0 points on contexts of real "
    "models and harmed at most 3 % of them."
)
ROUNDING = 1e-6
WHY_BALANCED = {
    BALANCED: "you stated that labels are about equally frequent",
    BY_DESIGN: "the task's data set is balanced by design",
}
STRENGTHS = 0.25, 0.5, 0.75, 1.0
"""Strengths of BC that are tried over a range of shares."""
SHARES_TRIED = 21
"""Shares of the range, evenly spaced."""
Ranges = Sequence[float] | Sequence[Sequence[float]] | Mapping[Hashable, Sequence[float]]
Share = str | Ranges | np.ndarray
"""`BALANCED`; the range of the first of two labels; ranges [k, 2] or label -> its range."""
Answer = tuple[str, Options, Expected, tuple[str, ...]]
"""A method, its options, what to expect, and why."""


def read_ranges(
    share: Share, k: int, names: Sequence[Hashable] | None = None, where: str = "share"
) -> str | np.ndarray:
    """`BALANCED`, or ranges of shares [k, 2], as narrow as shares that sum to 1 make them.

    Args:
        share: as a user gives it.
        k: the number of labels.
        names: of the labels, for ranges by name.
        where: what errors begin with.

    Raises:
        InputError: ranges out of order, beyond 0 to 1, or between which no shares sum to 1.

    >>> read_ranges((0.25, 0.75), 2).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    >>> read_ranges([(0.5, 1), (0.25, 1), (0, 1)], 3).tolist()
    [[0.5, 0.75], [0.25, 0.5], [0.0, 0.25]]
    """
    if isinstance(share, str) and share in WHY_BALANCED:
        return share
    given = in_label_order(share, names, where, k, absent=None)
    with suppress(ValueError, TypeError):  # other than numbers is refused below
        ranges = np.asarray(given, np.float64)
        if k == 2 and ranges.shape == (2,):
            ranges = np.stack([ranges, 1 - ranges[::-1]])
        if ranges.shape == (k, 2) and _hold_shares(low := ranges[:, 0], high := ranges[:, 1]):
            most, least = 1 - (low.sum() - low), 1 - (high.sum() - high)
            return np.stack([np.maximum(low, least), np.minimum(high, most)], axis=1)
    first = "a range of the first label, " if k == 2 else ""
    raise InputError.at(
        where,
        f"{BALANCED!r}, {first}or a range for each of {k} labels: within 0 to 1, its lower end "
        "first, and the ranges hold shares that sum to 1",
        shown(share),
        "correct it",
    )


def _hold_shares(low: np.ndarray, high: np.ndarray) -> bool:
    # NaN fails each comparison.
    in_order = bool(((low >= 0) & (low <= high) & (high <= 1)).all())
    return in_order and low.sum() <= 1 + ROUNDING and high.sum() >= 1 - ROUNDING


def middle_shares(ranges: np.ndarray) -> np.ndarray:
    """Shares [k] that sum to 1, each at the same part of the way through its range.

    >>> middle_shares(np.array([[0.5, 0.75], [0.25, 0.5], [0.0, 0.25]])).round(3).tolist()
    [0.583, 0.333, 0.083]
    """
    low, width = ranges[:, 0], np.ptp(ranges, axis=1)
    part = (1 - low.sum()) / width.sum() if width.sum() > ROUNDING else 0.5
    return np.asarray(low + part * width)


def advise_over_shares(rows: np.ndarray, share: str | np.ndarray, names: Sequence[str]) -> Answer:
    """The correction for shares that are about equal, or within ranges.

    Args:
        rows: [n, k], in nats.
        share: `BALANCED`, `BY_DESIGN`, or ranges [k, 2] of `read_ranges`.
        names: of the labels.
    """
    if isinstance(share, str):
        return _use_bc(WHY_BALANCED[share])
    k = len(share)
    if k == 2:
        return _by_law(rows, *map(float, share[0]))
    away = share - 1 / k
    holds_equal = (away[:, 0] <= ROUNDING).all() and (away[:, 1] >= -ROUNDING).all()
    if holds_equal and np.abs(away).max() <= NEAR_EQUAL + ROUNDING:
        return _use_bc("every range holds equal shares and ends within 12 points of them")
    middle = middle_shares(share)
    listed = ", ".join(f"{name} {part:.2g}" for name, part in zip(names, middle, strict=True))
    why = (
        f"Use prior_matching with shares within the ranges, {listed}: the law of gain covers only "
        "two labels, so all shares have the same interpolation weight within their ranges."
    )
    return "prior_matching", {"target_prior": tuple(middle.tolist())}, UNKNOWN, (why,)


def _use_bc(why: str) -> Answer:
    return "bc", {}, UNKNOWN, (f"Use bc: {why}.", NEAR_EQUAL_GAIN)


def _by_law(rows: np.ndarray, low: float, high: float) -> Answer:
    """The correction of the largest mean gain over a range of shares, by the law of gain.

    The three numbers of the margins come from the rows without labels. Where these do not show
    them, matching the middle of the range is what is left, and no gain is said.

    Args:
        rows: [n, 2], in nats.
        low: the least share of the first label.
        high: its greatest share.
    """
    middle = (low + high) / 2
    to_middle: Options = {"target_prior": (middle, 1 - middle)}
    fit = fit_mixture(rows) if len(rows) >= MIN_ROWS else None
    if fit is None or not fit.is_identified:
        why = (
            f"Use prior_matching with the middle of the range, {middle:.2g}: the rows do not show "
            "how far apart the labels' scores lie, so the law of gain cannot decide."
        )
        return "prior_matching", to_middle, UNKNOWN, (why,)
    # [strengths or stated shares, shares of the range]
    shares = np.linspace(low, high, SHARES_TRIED)
    by_strength, by_matching = map(
        np.asarray, _gains_of_range(fit.margins, shares, len(rows), middle)
    )
    best = int(by_strength.mean(axis=1).argmax())
    if by_matching.mean() > max(float(by_strength[best].mean()), 0.0):
        method, options, gains = "prior_matching", to_middle, by_matching
        named = f"prior_matching with the middle of the range, {middle:.2g}"
    elif by_strength[best].mean() > 0:
        strength = STRENGTHS[best]
        method, gains = "bc", by_strength[best]
        options = {} if strength == 1 else {"strength": strength}
        named = "bc" if strength == 1 else f"bc with strength {strength:g}"
    else:
        why = (
            "Leave the scores as they are: by the law of gain, each correction loses accuracy on "
            "average over the range."
        )
        return LEAVE, {}, UNCHANGED, (why,)
    gain = Estimate(float(gains.mean()), float(gains.min()), float(gains.max()))
    expected = Expected(gain, float((gains < 0).mean()), "over the range of shares")
    why = (
        f"Use {named}: by the law of gain, it gains most on average over shares of the "
        f"first label from {low:.2g} to {high:.2g}."
    )
    return method, options, expected, (why, expected.sentence())


@partial(jax.jit, static_argnames="rows")
def _gains_of_range(
    margins: Margins, shares: jax.Array, rows: int, middle: float
) -> tuple[jax.Array, jax.Array]:
    """The expected gains of BC [strengths, shares] and of matching the middle [shares]."""
    strengths = jnp.asarray(STRENGTHS)[:, None]
    of_bc = expected_gain(margins, shares, rows, strength=strengths)
    matched = expected_gain(margins, shares, rows, correction="prior_matching", stated_share=middle)
    return of_bc, matched
