"""Which correction gains most where one only knows between which shares a label is right."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.diagnosis.experience import Expected
from batch_calibration.diagnosis.gain import Margins, expected_gain
from batch_calibration.diagnosis.margins import MIN_ROWS, fit_mixture
from batch_calibration.errors import InputError
from batch_calibration.metrics import Estimate

STRENGTHS = 0.25, 0.5, 0.75, 1.0
SHARES_TRIED = 21
"""Shares of the range, evenly spaced."""
Answer = tuple[str, dict[str, float | tuple[float, ...]], Expected, tuple[str, ...]]
"""A method, its options, what to expect, and why."""


def over_shares(rows: np.ndarray, share: tuple[float, float]) -> Answer:
    """The correction of the largest mean gain over a range of shares, by the law of gain.

    The three numbers of the margins come from the rows without labels. Where these do not show
    them, matching the middle of the range is what is left, and no gain is said.

    Args:
        rows: [n, 2], in nats.
        share: the least and the greatest share of the first label.

    Raises:
        InputError: other than two labels; a range that is none.
    """
    low, high = _check(rows, share)
    middle = (low + high) / 2
    to_middle: dict[str, float | tuple[float, ...]] = {"target_prior": (middle, 1 - middle)}
    fit = fit_mixture(rows) if len(rows) >= MIN_ROWS else None
    if fit is None or not fit.is_identified:
        return "prior_matching", to_middle, Expected.unknown(), (
            f"Use prior_matching with the middle of the range, {middle:.2g}: the rows do not show "
            "how far their labels lie apart, so that the law of gain has no answer.",
        )  # fmt: skip
    # [strengths or stated shares, shares of the range]
    shares = np.linspace(low, high, SHARES_TRIED)
    by_strength, by_matching = map(np.asarray, _gains(fit.margins, shares, len(rows), middle))
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
        return "icl", {}, Expected.none(), (
            "Leave the scores as they are: over the range the law of gain expects a loss of each "
            "correction on average.",
        )  # fmt: skip
    gain = Estimate(float(gains.mean()), float(gains.min()), float(gains.max()))
    expected = Expected(gain, float((gains < 0).mean()), "over the range of shares")
    return method, options, expected, (
        f"Use {named}: of what can be done the law of gain expects most of it over shares of the "
        f"first label from {low:.2g} to {high:.2g}.", expected.sentence(),
    )  # fmt: skip


@partial(jax.jit, static_argnames="rows")
def _gains(
    margins: Margins, shares: jax.Array, rows: int, middle: float
) -> tuple[jax.Array, jax.Array]:
    """The expected gains of BC [strengths, shares] and of matching the middle [shares]."""
    strengths = jnp.asarray(STRENGTHS)[:, None]
    of_bc = expected_gain(margins, shares, rows, strength=strengths)
    matched = expected_gain(margins, shares, rows, correction="prior_matching", stated_share=middle)
    return of_bc, matched


def _check(rows: np.ndarray, share: tuple[float, float]) -> tuple[float, float]:
    if rows.shape[-1] != 2:
        raise InputError(
            where="share", expected="scores of two labels", got=f"{rows.shape[-1]} labels",
            remedy="give the shares of all labels (target_prior)",
        )  # fmt: skip
    is_range = len(share) == 2 and 0 <= share[0] <= share[1] <= 1
    if not is_range:
        raise InputError(
            where="share", expected="two shares from 0 to 1, the lower one first", got=repr(share),
            remedy="as in (0.3, 0.7)",
        )  # fmt: skip
    return float(share[0]), float(share[1])
