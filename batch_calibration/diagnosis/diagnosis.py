"""The result of a diagnosis, and its description in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.diagnosis.forms import paragraphs_html, to_frame
from batch_calibration.errors import shown
from batch_calibration.metrics import Estimate, Reliability, mean_recall_interval
from batch_calibration.metrics.grades import GradeErrors

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 2000
"""The number of bootstrap draws for intervals without a closed form."""
MANY_NAMES = 5
"""The largest number of labels that a sentence lists by name; for more, it gives the number."""
NOT_JUDGED = "No right label is known"
"""The beginning of the sentence on rows without right labels."""
SUPPOSE_NO_EQUAL_SHARES = ("icl", "bc_empirical_bayes", "bcl_empirical_bayes")
"""Prefixes of methods that do not assume equal label shares."""
AS_ADVISED = "matching "
"""The prefix of `Diagnosis.method` for scores that are corrected as advised."""


class Right(NamedTuple):
    """Accuracies of predictions on rows with known right labels.

    Attributes:
        accuracy: the accuracy on all labeled rows, with an exact percentile bootstrap interval.
        recall: [labels that occur], the share of each label's rows that are right.
        counts: [labels that occur], the number of rows of each label.
        reliability: the quality of the probabilities softmax(s); None for cosines without a scale.
    """

    accuracy: Estimate
    recall: np.ndarray
    counts: np.ndarray
    reliability: Reliability | None = None

    @property
    def balanced(self) -> Estimate:
        """The mean recall; its bootstrap takes milliseconds, so only readers of it draw."""
        # A fixed seed gives the same interval in each run.
        random = np.random.default_rng(0)
        ends = mean_recall_interval(self.recall, self.counts, random, draws=DRAWS)
        return Estimate(float(self.recall.mean()), *ends)


class Grades(NamedTuple):
    """Measurements of labels that are grades, before and after a correction.

    Attributes:
        values: [k], the grade of each label.
        before: the grades without a correction.
        after: the grades by the corrected scores.
    """

    values: np.ndarray
    before: GradeErrors
    after: GradeErrors


class Diagnosis(NamedTuple):
    """Measurements of one context's scores, before and after a correction.

    Attributes:
        label_names: k names.
        method: the name of the correction.
        rows: n, the number of rows.
        labeled: the number of rows with a known right label.
        preference: [k], the mean log-probability of each label minus the mean over labels, in nats.
            This is the prompt's preference if the labels are about equally frequent.
        error: [k], the standard error of each preference over rows, in nats; NaN for one row.
        pair_error: the standard error of the difference between the most and the least preferred
            label.
        rows_needed: the number of rows that reduces `pair_error` to 0.1 `unit`; None for one row.
        classes: [k], the share of each label among the right labels; None without known labels.
        predicted: [k], the share of each label among the predictions without a correction.
        corrected: [k], the same for the corrected scores.
        changed: indices of the rows with a prediction that the correction changes.
        hanging: indices of the rows in `changed` with a prediction that changes again if one row is
            left out of the batch; None for a method other than BC.
        tied: the number of rows with k equal corrected scores. Their prediction is the first label.
        mass: the probability of all labels together, mean over rows; None for scores that
            cannot be full-vocabulary log-probabilities.
        before: the accuracies without a correction; None without known labels.
        after: the accuracies of the corrected scores; None without known labels.
        gain: accuracy after minus accuracy before, paired by row; None without known labels.
        doubt: a question if the right labels contradict the scores, else "" (see
            `methods.ask_about_order`).
        rounded: indices of the rows with a corrected margin between the two best labels below the
            rounding of the model's dtype; None for an unknown dtype.
        dtype: the dtype of the model's computations, "" if it is unknown.
        cosines: True if scores are cosines. All numbers are in the unit of the scores; sentences
            and tables give the preference of cosines relative to their spread.
        is_matched: True if the preference is the bias that matches known or equal shares.
        tempered: the quality of the corrected scores' probabilities with a temperature; None
            without a temperature or known labels.
        grades: the measurements of grades; None for other labels, and for cosines, which have no
            probabilities.
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
    tempered: Reliability | None = None
    grades: Grades | None = None

    @property
    def unit(self) -> float:
        """The unit of the printed preference: 1 nat, or for cosines a standard deviation.

        For cosines it is the standard deviation, over rows, of the difference between the scores of
        the most and the least preferred label. So the printed preference does not depend on the
        scale of the scores. NaN if this difference is the same in all rows.
        """
        return unit_of(self.pair_error, self.rows, cosines=self.cosines)

    @property
    def size(self) -> float:
        """The preference of the most preferred label over the least preferred one, in `unit`."""
        return float(np.ptp(self.preference)) / self.unit

    @property
    def order(self) -> np.ndarray:
        """The indices [k] of the labels in tables and figures; grades begin with the lowest."""
        values = np.arange(len(self.label_names)) if self.grades is None else self.grades.values
        return values.argsort()

    @property
    def rare(self) -> np.ndarray:
        """Indices of labels with an uncorrected predicted share of less than 1 / (10 k)."""
        return np.flatnonzero(self.predicted < 1 / (10 * len(self.label_names)))

    def __repr__(self) -> str:
        labels = shown(self.label_names)
        return f"Diagnosis({self.rows:,} rows, labels={labels}, {self.method}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return paragraphs_html(self.sentences())

    def to_frame(self) -> pd.DataFrame:
        """Returns a row for each label: preference, its standard error (nats), and shares (0 to 1).

        Raises:
            InputError: pandas is not installed.
        """
        right = np.full(len(self.label_names), np.nan) if self.classes is None else self.classes
        columns: dict[str, object] = {"label": self.label_names}
        for name in ("preference", "error", "predicted", "corrected"):
            columns[name] = getattr(self, name)
        return to_frame(columns | {"right": right}, "label")

    def sentences(self) -> list[str]:
        """Describes the preference, the changed predictions, and the gain in accuracy."""
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
    text = f"{how} {found.rows:,} rows, the scores favor "
    if high == low:
        return f"{text}no label."
    text += f"{names[high]!r} over {names[low]!r} "
    if np.isnan(size):
        return f"{text}by the same amount in all rows."
    unit, means = preference_unit(found)
    if found.rows == 2:
        return f"{text}by {size:.2f} {unit}; two rows do not show how certain this is."
    error = found.pair_error / found.unit
    # Two decimals would show a small error as 0.00.
    shown = f"{error:.2f}" if error >= 0.01 else f"{error:.1g}"
    return (
        f"{text}by {size:.2f} ± {shown} {unit} ({means}; ± a standard error); "
        f"{found.rows_needed:,} rows would give ± 0.1."
    )


def unit_of(error: float, rows: int, *, cosines: bool) -> float:
    """Returns the unit of printed preferences, see `Diagnosis.unit`; 1 for scores in nats."""
    return (float(error * np.sqrt(rows)) or np.nan) if cosines else 1.0


def preference_unit(found: Diagnosis) -> tuple[str, str]:
    """Returns the name of the preference's unit, and an explanation in words."""
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
    # argmax of equal scores is the first label, which carries no information.
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
    # With fewer than 10 rows per label, a label may be missing by chance.
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
    count, name = len(found.changed), found.method
    if name.startswith(AS_ADVISED):
        name = f"{name[0].upper()}{name[1:]}"
    text = (
        f"{name} changes the prediction of {count:,} of {found.rows:,} rows "
        f"({100 * count / found.rows:.1f} %)"
    )
    # With two rows, BC would learn from the remaining row only.
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
        unknown = f"{NOT_JUDGED}, so it is unknown whether this helps."
        if _supposes_equal_shares(found):
            unknown += (
                f" BC assumes that each of the {k} labels is right about equally often; if "
                "that is not so, give the label shares that you expect (a prior)."
            )
        return [unknown]
    effect = "within the noise of this many rows"
    if found.gain.beyond_noise:
        effect = "a gain" if found.gain.low > 0 else "a loss: do not use it here"
    text = f"Accuracy stays {found.before.accuracy} %."
    if len(found.changed):
        text = f"Accuracy moves from {found.before.accuracy} to {found.after.accuracy} %: "
        text += f"{found.gain.points.replace(' [', ' points [')}, {effect}."
    return [text, _unlike_equal_shares(found, found.classes)]


def _supposes_equal_shares(found: Diagnosis) -> bool:
    return not found.method.startswith((*SUPPOSE_NO_EQUAL_SHARES, AS_ADVISED))


def _unlike_equal_shares(found: Diagnosis, classes: np.ndarray) -> str:
    """Returns a warning if the labeled rows do not have the equal shares that BC assumes, or ""."""
    names = found.label_names
    if classes.max() == 1:
        return (
            f"All labeled rows have the right label {names[int(classes.argmax())]!r}: their "
            "accuracy is the share of rows with this prediction, and judges neither the other "
            "labels nor the correction."
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
    # With fewer than 10 rows per label, shares may be uneven by chance.
    if classes.max() > 2 * classes.min() and found.labeled >= 10 * len(classes):
        return (
            f"The labels are uneven ({100 * classes.min():.1f} to {100 * classes.max():.1f} % of "
            "the labeled rows), but BC assumes equal shares: compare with a prior of other shares."
        )
    return ""


def factor(nats: float) -> str:
    """Converts nats to a probability factor, as text.

    >>> factor(0.5), factor(9.0), factor(14.0)
    ('1.65', '8,100', 'more than a million')
    """
    if nats >= 14:  # exp(14) is 1.2 million
        return "more than a million"
    size = float(np.exp(nats))
    return f"{size:.3g}" if size < 999.5 else f"{float(f'{size:.2g}'):,.0f}"
