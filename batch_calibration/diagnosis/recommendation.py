"""The values that `recommend` returns, and the gains to expect by scores that look alike."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betainc

from batch_calibration.diagnosis.forms import ends, paragraphs_html, to_frame
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd


class Expected(NamedTuple):
    """The gain and the risk to expect of a recommendation.

    Attributes:
        gain: the expected change of accuracy with a 95 % interval, in shares of the rows; None
            where it is not known.
        risk: how likely accuracy falls, from 0 to 1; NaN where it is not known, as without labels:
            a risk by like contexts was .06 to .47 and came to .21 to .50 on other sources.
        source: where both come from, in words.
    """

    gain: Estimate | None
    risk: float
    source: str

    @property
    def risk_in_words(self) -> str:
        """The risk, as a sentence goes on, or ""."""
        if np.isnan(self.risk):
            return ""
        return f", with a risk of {100 * self.risk:.0f} % that it falls"

    def sentence(self, method: str = "") -> str:
        """The expected gain of a method, and the risk if known, "" where none is to say."""
        if self.gain is None or self.gain == (0.0, 0.0, 0.0):
            return ""
        mean, low, high = (100 * number for number in self.gain)
        return (
            f"Expected{method and f' of {method}'}: {mean:+.1f} points of accuracy "
            f"[{low:+.1f}, {high:+.1f}]{self.risk_in_words} ({self.source})."
        )


UNCHANGED = Expected(Estimate(0.0, 0.0, 0.0), 0.0, "nothing is changed")
UNKNOWN = Expected(None, np.nan, "not known")


class Range(NamedTuple):
    """Contexts of real models whose corrected scores promise a gain up to some number.

    Attributes:
        most: the largest promised gain of the range, in points.
        contexts: how many there are.
        gain: the mean gain in accuracy, each source weighing alike, in points.
        low: the 2.5 % quantile of the gains, in points.
        high: the 97.5 % quantile.
        fell: the share of contexts in which accuracy fell.
    """

    most: float
    contexts: int
    gain: float
    low: float
    high: float
    fell: float


RANGES: dict[str, tuple[Range, ...]] = {
    "bc_empirical_bayes": (
        Range(0.3, 232, 0.0, -2.4, 2.5, 0.47),
        Range(1, 258, 0.8, -5.7, 6.5, 0.31),
        Range(3, 383, 3.4, -7.1, 11.6, 0.26),
        Range(6, 301, 6.6, -8.0, 20.9, 0.17),
        Range(np.inf, 338, 14.9, -5.0, 36.9, 0.06),
    ),
    "prior_matching": (
        Range(0.3, 102, 0.2, -1.8, 3.5, 0.31),
        Range(1, 157, 0.4, -3.1, 3.5, 0.32),
        Range(3, 295, 2.2, -4.2, 9.2, 0.17),
        Range(6, 331, 5.2, -3.6, 14.0, 0.08),
        Range(np.inf, 1191, 17.7, -0.7, 44.1, 0.03),
    ),
}
"""Method -> what it gained in the study configs/evidence_recommend.py (evidence_experience.csv)."""


def promised_gain(before: np.ndarray, after: np.ndarray) -> float:
    """The gain in accuracy if the corrected scores are log-probabilities of the labels, in points.

    The mean over rows of the largest probability after the correction less that of the label which
    was largest before; never below 0, and to be read as a signal, not as a forecast.

    Args:
        before: [n, k], scores in nats.
        after: [n, k], corrected.

    >>> round(promised_gain(np.log([[0.6, 0.4]]), np.log([[0.25, 0.75]])), 1)
    50.0
    """
    raised = np.exp(after - after.max(axis=-1, keepdims=True))
    probs = raised / raised.sum(axis=-1, keepdims=True)
    at_first = probs[np.arange(len(probs)), before.argmax(axis=-1)]
    return float(100 * (probs.max(axis=-1) - at_first).mean())


def expect(before: np.ndarray, after: np.ndarray, method: str) -> Expected:
    """The gain to expect where a method turns some scores into others, by its gains elsewhere.

    Args:
        before: [n, k], scores in nats.
        after: [n, k], corrected by the method.
        method: its gain is not known where `RANGES` has none of it.
    """
    if method not in RANGES:
        return UNKNOWN
    promised = promised_gain(np.asarray(before, np.float64), np.asarray(after, np.float64))
    _, contexts, mean, low, high, _ = find_range(RANGES[method], promised)
    source = f"{contexts:,} contexts of real models with similar scores"
    return Expected(Estimate(mean / 100, low / 100, high / 100), np.nan, source)


def find_range(ranges: Sequence[Range], promised: float) -> Range:
    """The range that a promised gain falls into, in points; the last of those that are larger."""
    return next((range_ for range_ in ranges if promised <= range_.most), ranges[-1])


def expect_from_rows(gain: Estimate, before: np.ndarray, after: np.ndarray) -> Expected:
    """The gain to expect by labeled rows.

    The risk is the chance that rows are lost more often than won, of those that change: of the Beta
    distribution of won + 1 and lost + 1, its part below one half.

    Args:
        gain: measured on the rows.
        before: [m], whether each row is right as it is.
        after: [m], whether it is right by the recommendation.
    """
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    risk = float(betainc(won + 1, lost + 1, 0.5))
    return Expected(gain, risk, f"{len(before):,} labeled rows, cross-validated")


LEAVE = "icl"
Options = dict[str, float | tuple[float, ...]]


class Signals(NamedTuple):
    """Measures of unlabeled scores.

    Attributes:
        rows: n.
        preference: the largest mean score of a label less the least, in nats.
        error: its standard error, in nats.
        information: what a row's scores tell of its label once BC has corrected them, in nats.
    """

    rows: int
    preference: float
    error: float
    information: float


class Recommendation(NamedTuple):
    """A method, or to leave the scores as they are, the reasons, and what to expect.

    Attributes:
        method: a name from `METHODS`; "icl" leaves the scores as they are.
        options: of `calibrate(scores, method, **options)`; with labels or probes a method needs
            `labeled`, `labels`, `probe` too.
        reason: sentences; the first is the recommendation.
        signals: what the unlabeled scores show.
        expected: the gain in accuracy with a 95 % interval, and how likely it is a loss.
        accuracy: with labels, how often the recommendation is right, on rows that did not choose
            it; else None.
        measured: method -> accuracy on the labeled rows, each judged by what the other ones teach;
            empty without labels. The best of many is flattered by luck: `accuracy` is not.
        if_balanced: the method to use instead if labels are about equally frequent; "" where there
            is one answer, as labels, their shares, or several contexts of the same rows were given.
    """

    method: str
    options: Options
    reason: tuple[str, ...]
    signals: Signals
    expected: Expected
    accuracy: Estimate | None
    measured: dict[str, Estimate]
    if_balanced: str = ""

    @property
    def short(self) -> str:
        """Its name in a table: "leave it", or the method, "with prior" or "with strength"."""
        if self.method == LEAVE:
            return "leave it"
        return self.method + "".join(f" with {k.removeprefix('target_')}" for k in self.options)

    def to_frame(self) -> "pd.DataFrame":
        """A row a method that labeled rows measured, the recommended one first.

        Its columns: whether it is recommended, the accuracy on the labeled rows with the ends of
        its 95 % interval (NaN without labels), and, of the recommended one, the gain to expect with
        the ends of its interval and the risk that accuracy falls.

        Raises:
            InputError: pandas is not installed.
        """
        measured, chosen = dict(self.measured), self.method
        if self.accuracy is not None:
            measured[chosen] = self.accuracy  # of rows that did not choose it
        rows = []
        for name in dict.fromkeys([chosen, *measured]):
            gain, risk = self.expected[:2] if name == chosen else (None, np.nan)
            row = {"method": name, "recommended": name == chosen}
            row |= ends("accuracy", measured.get(name)) | ends("gain", gain)
            rows.append(row | {"risk": risk})
        return to_frame(rows, "method")

    def __repr__(self) -> str:
        return f"Recommendation({self.short}, expected gain {self.expected.gain}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.reason)

    def _repr_html_(self) -> str:
        return paragraphs_html(self.reason)
