"""The values of a diagnosis; `reporting/words.py` has its sentences."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

TARGET_ERROR = 0.1
"""Nats: the standard error for which the rows needed are given."""


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
        rows_needed: how many rows bring `pair_error` down to 0.1 nats; None for one row.
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
        from batch_calibration.reporting import words

        return words.paragraphs_html(self.sentences())

    def to_frame(self) -> "pd.DataFrame":
        """A row a label: its preference and standard error in nats, its shares from 0 to 1.

        Raises:
            InputError: pandas is not installed.
        """
        from batch_calibration.reporting import words

        return words.diagnosis_frame(self)

    def sentences(self) -> list[str]:
        """Sentences: the preference, what the correction changes, and whether that helps."""
        from batch_calibration.reporting import words

        return words.diagnosis_sentences(self)
