"""What `recommend` gives back: a method, the reasons, and what to expect of it."""

from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.diagnosis.experience import Expected
from batch_calibration.diagnosis.method_results import need_pandas
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

LEAVE = "icl"
LEAVE_IT = "leave it"
Options = dict[str, float | tuple[float, ...]]


class Signals(NamedTuple):
    """What unlabeled scores show.

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
        options: what `calibrate(scores, method, **options)` takes beside the scores. A method that
            reads labels or probes needs `labeled`, `labels`, `probe` too.
        reason: sentences; the first is the recommendation.
        signals: what the unlabeled scores show.
        expected: the gain in accuracy with a 95 % interval, and how likely it is a loss.
        accuracy: with labels, how often the recommendation is right, on rows that did not choose
            it; else None.
        measured: method -> accuracy on the labeled rows, each judged by what the other ones teach;
            empty without labels. The best of many is flattered by luck: `accuracy` is not.
    """

    method: str
    options: Options
    reason: tuple[str, ...]
    signals: Signals
    expected: Expected
    accuracy: Estimate | None
    measured: dict[str, Estimate]

    @property
    def short(self) -> str:
        """Its name in a table: "leave it", or the method, "with prior" or "with strength"."""
        if self.method == LEAVE:
            return LEAVE_IT
        return self.method + "".join(f" with {k.removeprefix('target_')}" for k in self.options)

    def to_frame(self) -> "pd.DataFrame":
        """A row a method that labeled rows measured, the recommended one first.

        Its columns: whether it is recommended, the accuracy on the labeled rows with the ends of
        its 95 % interval (NaN without labels), and, of the recommended one, the gain to expect with
        the ends of its interval and the risk that accuracy falls.

        Raises:
            InputError: pandas is not installed.
        """
        pandas = need_pandas("to_frame")
        unknown = Estimate(np.nan, np.nan, np.nan)
        rows = []
        for name in dict.fromkeys([self.method, *self.measured]):
            is_recommended = name == self.method
            accuracy = self.measured.get(name, unknown)
            if is_recommended and self.accuracy is not None:
                accuracy = self.accuracy  # of rows that did not choose it
            gain = self.expected.gain if is_recommended else None
            risk = self.expected.risk if is_recommended else np.nan
            rows.append([name, is_recommended, *accuracy, *(gain or unknown), risk])
        columns = ["method", "recommended", "accuracy", "accuracy_low", "accuracy_high", "gain",
                   "gain_low", "gain_high", "risk"]  # fmt: skip
        return pandas.DataFrame(rows, columns=columns).set_index("method")

    def __str__(self) -> str:
        return "\n".join(self.reason)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.reason)
