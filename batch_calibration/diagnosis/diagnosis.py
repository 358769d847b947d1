"""The values of a diagnosis, and their sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.diagnosis.forms import paragraphs_html, to_frame
from batch_calibration.errors import shown
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

MANY_NAMES = 5
"""Labels that a sentence lists by name; of more it gives the number."""
SUPPOSE_NO_EQUAL_SHARES = ("icl", "bc_empirical_bayes", "bcl_empirical_bayes")
"""Methods that do not suppose that labels are right about equally often."""
AS_ADVISED = "matching "
"""The beginning of `Diagnosis.method` for scores that are corrected as advised."""


class Right(NamedTuple):
    """Accuracies of predictions, where the right labels are known.

    Attributes:
        accuracy: of all labeled rows; the interval is the exact percentile bootstrap one.
        balanced: mean over labels that occur of the accuracy on rows of that label; the bootstrap
            draws rows within each label.
    """

    accuracy: Estimate
    balanced: Estimate


class Diagnosis(NamedTuple):
    """Numbers of one context's scores, before and after a correction.

    Attributes:
        label_names: k names.
        method: what corrected them.
        rows: n.
        labeled: rows whose right label is known.
        preference: [k], mean log-probability of each label less the mean over labels, in nats:
            which labels the prompt prefers, if the labels are about as frequent.
        error: [k], the standard error of each preference over rows, in nats; NaN for one row.
        pair_error: the standard error of the difference between the largest and the least.
        rows_needed: how many rows bring `pair_error` down to 0.1 `unit`; None for one row.
        classes: [k], share of each label among the right ones; None where none is known.
        predicted: [k], share of each label among the predictions from the scores as they are.
        corrected: [k], the same from the corrected scores.
        changed: indices of the rows whose prediction the correction changes.
        hanging: of these, the rows that change again if one row is left out of the batch; None for
            a method other than BC.
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
        cosines: True if scores are cosines. Numbers here are in the scores' own unit; sentences
            and tables compare the preference of cosines with their spread.
        is_matched: True if the preference is the bias that matches known or equal shares.
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
    cosines: bool = False
    is_matched: bool = False

    @property
    def unit(self) -> float:
        """The unit that the preference is printed in: 1 nat, or of cosines a standard deviation.

        It is of the difference, over rows, between the scores of the labels most and least
        preferred, so that a constant which scales all scores changes nothing. NaN where rows do not
        differ.
        """
        return unit_of(self.pair_error, self.rows, cosines=self.cosines)

    @property
    def size(self) -> float:
        """The preference: the most preferred label less the least preferred, in `unit`."""
        return float(np.ptp(self.preference)) / self.unit

    @property
    def rare(self) -> np.ndarray:
        """Indices of the labels predicted, uncorrected, for less than 1 / (10 k) of the rows."""
        return np.flatnonzero(self.predicted < 1 / (10 * len(self.label_names)))

    def __repr__(self) -> str:
        labels = shown(self.label_names)
        return f"Diagnosis({self.rows:,} rows, labels={labels}, {self.method}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return paragraphs_html(self.sentences())

    def to_frame(self) -> pd.DataFrame:
        """A row a label: its preference and standard error in nats, its shares from 0 to 1.

        Raises:
            InputError: pandas is not installed.
        """
        right = np.full(len(self.label_names), np.nan) if self.classes is None else self.classes
        columns: dict[str, object] = {"label": self.label_names}
        for name in ("preference", "error", "predicted", "corrected"):
            columns[name] = getattr(self, name)
        return to_frame(columns | {"right": right}, "label")

    def sentences(self) -> list[str]:
        """Sentences: the preference, what the correction changes, and whether that helps."""
        if self.rows == 1:
            text = (
                "One row cannot separate bias from the right answer; give at least 10 rows of "
                "the prompt."
            )
            if self.tied:
                first = self.label_names[0]
                text += (
                    f" {self.method} makes its scores equal, so the first label, {first!r}, wins."
                )
            return [text]
        texts = [_preference(self), _mass(self), _shares(self), _rare(self), _changes(self)]
        return [*filter(None, [*texts, *_helps(self), self.doubt, _rounded(self)])]


def _preference(found: Diagnosis) -> str:
    high, low = int(found.preference.argmax()), int(found.preference.argmin())
    names, size = found.label_names, found.size
    how = "Averaged over"
    if found.is_matched:
        how = "To match the expected share of each label in"
    text = f"{how} {found.rows:,} rows, the scores favor {names[high]!r} over {names[low]!r} "
    if np.isnan(size):
        return f"{text}by the same amount in all rows."
    unit, means = preference_unit(found)
    if found.rows == 2:
        return f"{text}by {size:.2f} {unit}; two rows do not show how certain this is."
    error = found.pair_error / found.unit
    # :.2f would show 0.00
    shown = f"{error:.2f}" if error >= 0.01 else f"{error:.1g}"
    return (
        f"{text}by {size:.2f} ± {shown} {unit} ({means}; ± a standard error); "
        f"{found.rows_needed:,} rows would give ± 0.1."
    )


def unit_of(error: float, rows: int, *, cosines: bool) -> float:
    """Returns the number of nats, or of a cosine, in the unit that preferences are printed in."""
    return (float(error * np.sqrt(rows)) or np.nan) if cosines else 1.0


def preference_unit(found: Diagnosis) -> tuple[str, str]:
    """The unit of its preference, and what that is or why."""
    if found.cosines:
        return "standard deviations of the two scores' difference", "as cosines have no nats"
    return "nats", f"a factor of {factor(found.size)}"


def _mass(found: Diagnosis) -> str:
    if found.mass is None:
        return ""
    text = f"Together the labels have {100 * found.mass:.3g} % of the probability in the mean row"
    if found.mass >= 0.1:
        return f"{text}."
    return (
        f"{text}, if the scores are log-probabilities of a first token: the model mostly prefers "
        "other answers."
    )


def _shares(found: Diagnosis) -> str:
    most = int(found.predicted.argmax())
    name, k = repr(found.label_names[most]), len(found.label_names)
    if found.predicted[most] == 1:
        text = (
            f"{name} is predicted for all rows: it may be a bias or the right label of all, which "
            "the scores do not show. After the correction it is predicted for "
            f"{100 * found.corrected[most]:.1f} %"
        )
    else:
        text = (
            f"{name} is predicted for {100 * found.predicted[most]:.1f} % of the rows, after the "
            f"correction for {100 * found.corrected[most]:.1f} %"
        )
    # Equal scores predict the first label, which is no answer.
    if found.tied:
        text += (
            f"; in {found.tied:,} of {found.rows:,} rows all {k} corrected scores are equal, so "
            f"the first label, {found.label_names[0]!r}, is predicted"
        )
    if found.classes is None:
        return f"{text}."
    return f"{text}; it is right for {100 * found.classes[most]:.1f} % of the labeled ones."


def _rare(found: Diagnosis) -> str:
    rare, k = found.rare, len(found.label_names)
    # Fewer rows than 10 a label may leave a label out by chance.
    if not len(rare) or found.rows < 10 * k:
        return ""
    subject = f"{len(rare)} of the {k} labels are"
    if len(rare) <= MANY_NAMES:
        names = " and ".join(repr(found.label_names[label]) for label in rare)
        subject = f"{names} {'is' if len(rare) == 1 else 'are'}"
    text = f"{subject} predicted for less than {100 / (10 * k):.1f} % of the rows"
    if found.classes is None:
        return f"{text}."
    return f"{text}, and right for {100 * found.classes[rare].sum():.1f} % of the labeled ones."


def _changes(found: Diagnosis) -> str:
    count = len(found.changed)
    text = (
        f"{found.method} changes the prediction of {count:,} of {found.rows:,} rows "
        f"({100 * count / found.rows:.1f} %)"
    )
    # Of two rows, the one that stays would be its own mean.
    if found.hanging is None or not count or found.rows < 3:
        return f"{text}."
    return (
        f"{text}; {len(found.hanging):,} of these would change again if one row were left out of "
        "the batch."
    )


def _rounded(found: Diagnosis) -> str:
    if found.rounded is None or not len(found.rounded):
        return ""
    return (
        f"In {len(found.rounded):,} of {found.rows:,} rows the corrected scores of the two best "
        f"labels differ by less than the rounding of {found.dtype}: these predictions may change "
        "with the batch size or the device; score in float32 to be sure."
    )


def _helps(found: Diagnosis) -> list[str]:
    k = len(found.label_names)
    if found.before is None or found.after is None or found.gain is None or found.classes is None:
        unknown = "No right label is known, so it is unknown whether this helps."
        if _supposes_equal_shares(found):
            unknown += (
                f" BC assumes that each of the {k} labels is right about equally often; if "
                "that is not so, give the label shares that you expect (a prior)."
            )
        return [unknown]
    effect = "within the noise of this many rows"
    if found.gain.beyond_noise:
        effect = "a gain" if found.gain.low > 0 else "a loss: do not use it here"
    text = f"Accuracy moves from {found.before.accuracy} to {found.after.accuracy} %"
    size = found.gain.points.replace(" [", " points [")
    return [f"{text}: {size}, {effect}.", _unlike_equal_shares(found, found.classes)]


def _supposes_equal_shares(found: Diagnosis) -> bool:
    return not found.method.startswith((*SUPPOSE_NO_EQUAL_SHARES, AS_ADVISED))


def _unlike_equal_shares(found: Diagnosis, classes: np.ndarray) -> str:
    """That BC supposes equal shares, where the labeled rows have others."""
    names = found.label_names
    if classes.max() == 1:
        return (
            f"All labeled rows have the right label {names[int(classes.argmax())]!r}: their "
            "accuracy is how often it is predicted, and judges neither the other labels nor the "
            "correction."
        )
    never = [name for name, share in zip(names, classes, strict=True) if not share]
    if not _supposes_equal_shares(found):
        return ""
    if never:
        listed = " or ".join(map(repr, never))
        named = listed if len(never) <= MANY_NAMES else f"any of {len(never)} labels"
        return (
            f"No labeled row has the right label {named}, but BC assumes that labels are right "
            "about equally often: give the label shares that you expect (a prior), or leave these "
            "labels out."
        )
    # Fewer rows are uneven by chance.
    if classes.max() > 2 * classes.min() and found.labeled >= 10 * len(classes):
        return (
            f"The labels are uneven ({100 * classes.min():.1f} to {100 * classes.max():.1f} % of "
            "the labeled rows), but BC assumes equal shares: compare with a prior of other shares."
        )
    return ""


def factor(nats: float) -> str:
    """The factor that so many nats are, in words.

    >>> factor(0.5), factor(9.0), factor(14.0)
    ('1.65', '8,100', 'more than a million')
    """
    if nats >= 14:  # exp(14) is 1.2 million
        return "more than a million"
    size = float(np.exp(nats))
    return f"{size:.3g}" if size < 999.5 else f"{float(f'{size:.2g}'):,.0f}"
