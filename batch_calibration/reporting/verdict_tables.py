"""Tables of verdicts: a row a context, or of one context what is known of each label."""

from collections.abc import Sequence, Set

import numpy as np

from batch_calibration.diagnosis import Diagnosis
from batch_calibration.diagnosis.verdicts import Verdict
from batch_calibration.reporting.cells import MARK, Cells, estimate_cell, gain_cell
from batch_calibration.reporting.items import ACROSS, Table

OVERVIEW_NOTE = (
    "Each context as the recommended method corrects it. 'prefers' is the label of the highest "
    "mean log-probability, 'nats' how far it is above the lowest, ± a standard error. 'expected' "
    "is the gain in accuracy of real contexts with similar scores, 'gain' the measured one, "
    "paired by row, both in points with 95 % intervals; before and after in %. "
    f"{MARK} beyond noise: 0 is outside the interval."
)


SD = " SD"
SD_NOTE = (
    "Cosines have no nats: SD are standard deviations of the difference between the scores of the "
    "labels most and least preferred."
)
OVERVIEW = "context gain before after prefers nats recommended expected rows"


def size_cell(diagnosis: Diagnosis, *, error: bool = False) -> str:
    """The size of a preference, in nats without a unit, of cosines in standard deviations."""
    if np.isnan(diagnosis.size):
        return "-"
    behind = f" ± {diagnosis.pair_error / diagnosis.unit:.2f}" if error else ""
    return f"{diagnosis.size:.2f}{behind}{SD * diagnosis.cosines}"


def with_unit(cells: Cells, note: str, are_cosines: Set[bool]) -> tuple[Cells, str]:
    """A table whose column "nats", and a note on it, say the unit of cosines where some are."""
    if True not in are_cosines:
        return cells, note
    name = " or".join(["nats", SD][-len(are_cosines) :]).strip()
    header = [name if column == "nats" else column for column in cells[0]]
    note = note.replace("nats", name).replace("log-probability", "score")
    return [header, *cells[1:]], f"{note} {SD_NOTE}"


def context_cells(name: str, diagnosis: Diagnosis) -> dict[str, str]:
    """Facts of a context, by column; accuracies and their gain where labels are known."""
    cells = {
        "context": name,
        "rows": str(diagnosis.rows),
        "prefers": diagnosis.label_names[int(diagnosis.preference.argmax())],
        "nats": size_cell(diagnosis),
        "changed": str(len(diagnosis.changed)),
        "gain": estimate_cell(diagnosis.gain) if diagnosis.gain else "",
    }
    for column, right in (("before", diagnosis.before), ("after", diagnosis.after)):
        cells[column] = f"{100 * right.accuracy.value:.1f}" if right else ""
    return cells


def verdict_cells(verdicts: Sequence[Verdict]) -> Cells:
    """A row a context, the largest effect first: its gain where it is known, else its nats."""

    def effect(verdict: Verdict) -> tuple[bool, float]:
        diagnosis, gain = verdict.diagnosis, verdict.diagnosis.gain
        return gain is None, -abs(gain.value) if gain else -np.nan_to_num(diagnosis.size)

    header = OVERVIEW.split()
    rows: Cells = [header]
    for verdict in sorted(verdicts, key=effect):
        diagnosis, expected = verdict.diagnosis, verdict.recommendation.expected.gain
        cells = context_cells(verdict.name, diagnosis)
        cells["nats"] = size_cell(diagnosis, error=True)
        cells["recommended"] = verdict.recommendation.short
        cells["expected"] = estimate_cell(expected) if expected else ""
        cells["gain"] = gain_cell(diagnosis.gain) if diagnosis.gain else ""
        rows.append([cells[column] for column in header])
    return rows


def context_tables(verdict: Verdict) -> list[Table]:
    """Two tables of a context: facts of each label, and how often its predictions are right."""
    name, cells = verdict.name, label_cells(verdict.diagnosis)
    both = [Table(ACROSS, "labels", f"{name}: labels", cells, unit="shares in %")]
    if verdict.diagnosis.before:  # None where no right label is known
        cells = right_cells(verdict.diagnosis)
        both.append(Table(ACROSS, "right", f"{name}: right answers", cells, unit="in %"))
    return both


def label_cells(diagnosis: Diagnosis) -> Cells:
    """A row a label: its preference, its share of predictions before and after, of the right."""
    unit = SD.strip() if diagnosis.cosines else "nats"
    rows: Cells = [["label", f"preferred by ({unit})", "predicted", f"after {diagnosis.method}"]]
    shares = [diagnosis.predicted, diagnosis.corrected]
    if diagnosis.classes is not None:
        rows[0].append("right")
        shares.append(diagnosis.classes)
    for i, name in enumerate(diagnosis.label_names):
        percents = [f"{100 * share[i]:.1f}" for share in shares]
        rows.append([name, f"{diagnosis.preference[i] / diagnosis.unit:+.2f}", *percents])
    return rows


def right_cells(diagnosis: Diagnosis) -> Cells:
    """Accuracy and balanced accuracy, before and after; without right labels neither is there."""
    rows: Cells = [["scores", "accuracy", "balanced accuracy"]]
    pairs = ("as they are", diagnosis.before), (f"after {diagnosis.method}", diagnosis.after)
    for name, right in pairs:
        if right:
            cells = [estimate_cell(share, is_share=True) for share in right]
            rows.append([name, *cells])
    return rows
