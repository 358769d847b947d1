"""The values that `recommend` returns: a method, the reasons, and what to expect of it."""

from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.diagnosis.experience import Expected
from batch_calibration.metrics import Estimate

if TYPE_CHECKING:
    import pandas as pd

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
        if_balanced: the method to use instead if labels are about equally frequent; "" where
            labels or their shares were given, so that there is one answer.
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
        from batch_calibration.reporting import words

        return words.recommendation_frame(self)

    def __repr__(self) -> str:
        return f"Recommendation({self.short}, expected gain {self.expected.gain}: print it)"

    def __str__(self) -> str:
        return "\n".join(self.reason)

    def _repr_html_(self) -> str:
        from batch_calibration.reporting import words

        return words.paragraphs_html(self.reason)
