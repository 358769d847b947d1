"""Tables of verdicts: a row a context, or of one context what is known of each label."""

from collections.abc import Sequence

from batch_calibration.artifacts.cells import Cells, estimate_cell
from batch_calibration.artifacts.gains import MARK, gain_cell
from batch_calibration.artifacts.items import ACROSS, Table
from batch_calibration.diagnosis import Diagnosis
from batch_calibration.diagnosis.verdicts import Verdict

OVERVIEW_NOTE = (
    "Each context as the recommended method corrects it. 'prefers' is the label of the highest "
    "mean log-probability, 'nats' how far it is above the lowest, ± a standard error. 'expected' "
    "is the gain in accuracy of real contexts whose scores look alike, 'gain' the measured one, "
    "paired by row, both in points with 95 % intervals; before and after in %. "
    f"{MARK} beyond noise: 0 is outside the interval."
)


def overview_cells(verdicts: Sequence[Verdict]) -> Cells:
    """A row a context, the largest effect first: its gain where it is known, else its nats."""
    rows: Cells = [
        ["context", "rows", "prefers", "nats", "recommended", "expected", "before", "after", "gain"]
    ]  # fmt: skip

    def effect(verdict: Verdict) -> tuple[bool, float]:
        gain = verdict.diagnosis.gain
        return gain is None, -gain.value if gain else -verdict.nats

    for verdict in sorted(verdicts, key=effect):
        diagnosis, expected = verdict.diagnosis, verdict.recommendation.expected.gain
        rights = (diagnosis.before, diagnosis.after)
        cells = [verdict.name, str(diagnosis.rows), verdict.preferred]
        cells.append(f"{verdict.nats:.2f} ± {diagnosis.pair_error:.2f}")
        cells += [verdict.recommendation.short, estimate_cell(expected) if expected else ""]
        cells += [f"{100 * right.accuracy.value:.1f}" if right else "" for right in rights]
        gain = diagnosis.gain
        cells.append(gain_cell(gain) if gain else "")
        rows.append(cells)
    return rows


def tables(verdict: Verdict) -> list[Table]:
    """What is known of each label of a context, and how often its predictions are right."""
    diagnosis, name = verdict.diagnosis, verdict.name
    cells = label_cells(diagnosis)
    made = [Table(ACROSS, "labels", f"{name}: labels", cells, unit="shares in %")]
    if diagnosis.before:  # None where no right label is known
        cells = right_cells(diagnosis)
        made.append(Table(ACROSS, "right", f"{name}: right answers", cells, unit="in %"))
    return made


def label_cells(diagnosis: Diagnosis) -> Cells:
    """A row a label: its preference, its share of predictions before and after, of the right."""
    rows: Cells = [["label", "preferred by (nats)", "predicted", f"after {diagnosis.method}"]]
    for i, name in enumerate(diagnosis.label_names):
        shares = f"{100 * diagnosis.predicted[i]:.1f}", f"{100 * diagnosis.corrected[i]:.1f}"
        rows.append([name, f"{diagnosis.preference[i]:+.2f}", *shares])
    if diagnosis.classes is not None:
        rows[0].append("right")
        for row, share in zip(rows[1:], diagnosis.classes, strict=True):
            row.append(f"{100 * share:.1f}")
    return rows


def right_cells(diagnosis: Diagnosis) -> Cells:
    """Accuracy and balanced accuracy, before and after."""
    rows: Cells = [["scores", "accuracy", "balanced accuracy"]]
    # Without right labels neither is there.
    for name, right in (
        ("as they are", diagnosis.before),
        (f"after {diagnosis.method}", diagnosis.after),
    ):
        if right:
            shares = right.accuracy, right.balanced
            rows.append([name, *(estimate_cell(share, is_share=True) for share in shares)])
    return rows
