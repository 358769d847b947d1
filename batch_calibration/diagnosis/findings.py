"""What a diagnosis found, and the sentences that say it."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.diagnosis.method_results import need_pandas
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

MANY_NAMES = 5
"""Labels that a sentence lists by name; of more it gives the number."""
SUPPOSE_NO_EQUAL_SHARES = ("icl", "bc_empirical_bayes", "bcl_empirical_bayes")
"""Methods that do not suppose that labels are right about equally often."""
TARGET_ERROR = 0.1
"""Nats: the standard error for which the rows needed are given."""


class Right(NamedTuple):
    """How often predictions are right, where the right labels are known.

    Attributes:
        accuracy: of all labeled rows; the interval is the exact percentile bootstrap one.
        balanced: mean over labels that occur of the accuracy on rows of that label; the bootstrap
            draws rows within each label.
    """

    accuracy: Estimate
    balanced: Estimate


class Diagnosis(NamedTuple):
    """What one context's scores say, before and after a correction.

    Attributes:
        label_names: k names.
        method: what corrected them.
        rows: n.
        labeled: rows whose right label is known.
        preference: [k], mean log-probability of each label less the mean of those, in nats: which
            labels the prompt prefers, if the labels are about as frequent.
        error: [k], the standard error of each preference over rows, in nats; NaN for one row.
        pair_error: the standard error of the difference between the largest and the least.
        rows_needed: how many rows bring `pair_error` down to 0.1 nats; None for one row.
        classes: [k], share of each label among the right ones; None where none is known.
        predicted: [k], share of each label among the predictions from the scores as they are.
        corrected: [k], the same from the corrected scores.
        changed: indices of the rows whose prediction the correction changes.
        hanging: those of them that change again if one row is left out of the batch; None for a
            method other than BC.
        tied: rows whose corrected scores are all equal, so that the first label is predicted.
        mass: the probability of all labels together, mean over rows; None where the scores cannot
            be full-vocabulary log-probabilities.
        before: how often the scores as they are are right; None where no label is known.
        after: the same of the corrected scores.
        gain: accuracy after less accuracy before, paired by row.
        doubt: a question where right labels speak against the scores, "" else (see
            `methods.ask_about_order`).
        rounded: indices of the rows whose corrected scores of the two best labels lie closer than
            numbers of the model's dtype are rounded; None where the dtype is not known.
        dtype: what the model computed in, "" where it is not known.
    """

    label_names: tuple[str, ...]
    method: str
    rows: int
    labeled: int
    preference: np.ndarray
    error: np.ndarray
    pair_error: float
    rows_needed: int | None
    classes: np.ndarray | None
    predicted: np.ndarray
    corrected: np.ndarray
    changed: np.ndarray
    hanging: np.ndarray | None
    tied: int
    mass: float | None
    before: Right | None
    after: Right | None
    gain: Estimate | None
    doubt: str = ""
    rounded: np.ndarray | None = None
    dtype: str = ""

    @property
    def rare(self) -> np.ndarray:
        """Indices of the labels predicted, uncorrected, for less than 1 / (10 k) of the rows."""
        return np.flatnonzero(self.predicted < 1 / (10 * len(self.label_names)))

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences())

    def to_frame(self) -> "pd.DataFrame":
        """A row a label: its preference and standard error in nats, its shares from 0 to 1.

        Raises:
            InputError: pandas is not installed.
        """
        pandas = need_pandas("to_frame")
        columns = {
            "preference": self.preference,
            "error": self.error,
            "predicted": self.predicted,
            "corrected": self.corrected,
            "right": np.full(len(self.label_names), np.nan)
            if self.classes is None
            else self.classes,
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.label_names, name="label"))

    def sentences(self) -> list[str]:
        """What the prompt prefers, what the correction changes, and whether that helps."""
        if self.rows == 1:
            return [self._one_row()]
        texts = [self._preference(), self._mass(), self._shares(), self._rare(), self._changes()]
        texts += [*self._verdict(), self.doubt, self._rounded()]
        return [*filter(None, texts)]

    def _one_row(self) -> str:
        text = (
            "There is one row: what the prompt prefers cannot be told from what is right for it, "
            "nor what a correction brings; give 10 rows of the prompt or more."
        )
        if not self.tied:
            return text
        first = self.label_names[0]
        return f"{text} {self.method} makes its scores equal, which predicts {first!r}, the first."

    def _preference(self) -> str:
        high, low = int(self.preference.argmax()), int(self.preference.argmin())
        names, size = self.label_names, float(np.ptp(self.preference))
        text = (
            f"Averaged over {self.rows:,} rows, the scores favor {names[high]!r} over "
            f"{names[low]!r} by {size:.2f}"
        )
        if self.rows == 2:
            return f"{text} nats, of which two rows cannot say how sure it is."
        # :.2f would show 0.00
        error = f"{self.pair_error:.2f}" if self.pair_error >= 0.01 else f"{self.pair_error:.1g}"
        text += f" ± {error} nats (a factor of {factor(size)}; ± a standard error)"
        return f"{text}; {self.rows_needed:,} rows would give ± {TARGET_ERROR:g}."

    def _mass(self) -> str:
        if self.mass is None:
            return ""
        text = f"Together the labels have {100 * self.mass:.3g} % of the probability"
        if self.mass >= 0.1:
            return f"{text} in the mean row."
        return (
            f"{text} in the mean row, if the scores are log-probabilities of a first token: the "
            "model would rather say something else."
        )

    def _shares(self) -> str:
        most = int(self.predicted.argmax())
        name, k = repr(self.label_names[most]), len(self.label_names)
        if self.predicted[most] == 1:
            text = (
                f"{name} is predicted for all rows, which is a bias or what is right for all: the "
                "scores alone cannot tell. After the correction it is predicted for "
                f"{100 * self.corrected[most]:.1f} %"
            )
        else:
            text = f"{name} is predicted for {100 * self.predicted[most]:.1f} % of the rows, "
            text += f"after the correction for {100 * self.corrected[most]:.1f} %"
        # Equal scores predict the first label, which is no answer.
        if self.tied:
            text += (
                f"; of {self.tied:,} of {self.rows:,} rows all {k} corrected scores are equal, "
                f"which predicts {self.label_names[0]!r}, the first"
            )
        if self.classes is None:
            return f"{text}."
        return f"{text}; it is right for {100 * self.classes[most]:.1f} % of the labeled ones."

    def _rare(self) -> str:
        rare, k = self.rare, len(self.label_names)
        if not len(rare) or self.rows < 10 * k:
            return ""
        # Fewer rows than 10 a label may leave a label out by chance.
        limit = f"predicted for less than {100 / (10 * k):.1f} % of the rows"
        if len(rare) > MANY_NAMES:
            text = f"{len(rare)} of the {k} labels are {limit}"
        else:
            names = " and ".join(repr(self.label_names[label]) for label in rare)
            text = f"{names} {'is' if len(rare) == 1 else 'are'} {limit}"
        if self.classes is None:
            return f"{text}."
        return f"{text}, and right for {100 * self.classes[rare].sum():.1f} % of the labeled ones."

    def _changes(self) -> str:
        count = len(self.changed)
        text = (
            f"{self.method} changes the prediction of {count:,} of {self.rows:,} rows "
            f"({100 * count / self.rows:.1f} %)"
        )
        # Of two rows, the one that stays would be its own mean.
        if self.hanging is None or not count or self.rows < 3:
            return f"{text}."
        return (
            f"{text}; {len(self.hanging):,} of these would change again if one row were left out "
            "of the batch."
        )

    def _rounded(self) -> str:
        if self.rounded is None or not len(self.rounded):
            return ""
        return (
            f"In {len(self.rounded):,} of {self.rows:,} rows the corrected scores of the two best "
            f"labels lie closer than numbers in {self.dtype} are rounded: what is predicted there "
            "may change with the batch size or the device; score in float32 to be sure."
        )

    def _verdict(self) -> list[str]:
        k = len(self.label_names)
        if self.before is None or self.after is None or self.gain is None or self.classes is None:
            unknown = "No right label is known, so whether this helps cannot be said."
            if self.method in SUPPOSE_NO_EQUAL_SHARES:
                return [unknown]
            return [
                f"{unknown} BC supposes that each of the {k} labels is right about equally often; "
                "where that is not so, give the shares that you expect (--prior)."
            ]
        verdict = "which is within the noise of so many rows"
        if self.gain.beyond_noise:
            verdict = "a gain" if self.gain.low > 0 else "a loss: do not use it here"
        text = f"Accuracy moves from {self.before.accuracy} to {self.after.accuracy} %"
        size = self.gain.points.replace(" [", " points [")
        return [f"{text}: {size}, {verdict}.", *self._prior_supposed(self.classes)]

    def _prior_supposed(self, classes: np.ndarray) -> list[str]:
        """That BC supposes equal shares, where those of the labeled rows are others."""
        if classes.max() == 1:
            only = self.label_names[int(classes.argmax())]
            return [
                f"All labeled rows have the right label {only!r}: their accuracy is how often it "
                "is predicted, and says nothing of the other labels or of the correction."
            ]
        if self.method in SUPPOSE_NO_EQUAL_SHARES:
            return []
        pairs = zip(self.label_names, classes, strict=True)
        never = [name for name, share in pairs if not share]
        if never:
            listed = " or ".join(map(repr, never))
            named = listed if len(never) <= MANY_NAMES else f"any of {len(never)} labels"
            return [
                f"No labeled row's right answer is {named}, but BC "
                "supposes that labels are right about equally often: give the shares that you "
                "expect (--prior), or leave such labels out (--labels)."
            ]
        # Fewer rows are uneven by chance.
        if classes.max() > 2 * classes.min() and self.labeled >= 10 * len(classes):
            return [
                f"The labels are uneven ({100 * classes.min():.1f} to "
                f"{100 * classes.max():.1f} % of the labeled rows); BC supposes that they are "
                "not: compare with --prior."
            ]
        return []


def factor(nats: float) -> str:
    """The factor that so many nats are, in words.

    >>> factor(0.5), factor(9.0), factor(14.0)
    ('1.65', '8,100', 'more than a million')
    """
    if nats >= 14:  # exp(14) is 1.2 million
        return "more than a million"
    size = float(np.exp(nats))
    return f"{size:.3g}" if size < 999.5 else f"{float(f'{size:.2g}'):,.0f}"


def join_names(names: Iterable[str]) -> str:
    """The names with commas, and `and` before the last."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
