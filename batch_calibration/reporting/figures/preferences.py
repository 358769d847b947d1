"""What prompts prefer: shares of each label before and after, or the gain of each context."""

from collections.abc import Iterable, Sequence

import numpy as np

from batch_calibration.diagnosis import Diagnosis
from batch_calibration.reporting.figures.chart import Axis, Chart, Panel
from batch_calibration.reporting.figures.intervals import context_chart, strip
from batch_calibration.reporting.figures.marks import Bars, Dots, Mark, Rule, Spans
from batch_calibration.reporting.frame import BASELINE, CORRECTED
from batch_calibration.reporting.method_display import PALETTE

MAX_PANELS = 3  # contexts that have panels of their own; of more the gains are drawn
HEADING = "What the prompts prefer"


def chart(diagnoses: Sequence[Diagnosis], titles: Sequence[str]) -> Chart:
    """A few contexts: preference and shares of each label; many: the gain of each, sorted.

    Without right labels it is the strength of each preference.
    """
    pairs = list(zip(titles, diagnoses, strict=True))
    if len(diagnoses) > MAX_PANELS:
        gains = {title: diagnosis.gain for title, diagnosis in pairs if diagnosis.gain}
        if not gains:
            return _strengths(pairs)
        methods = {diagnosis.method for diagnosis in diagnoses}
        subject = methods.pop() if len(methods) == 1 else "the recommended method"
        return context_chart(gains, f"Gain in accuracy by {subject}, context by context")
    panels = []
    for title, diagnosis in pairs:
        panels += [_preference(title, diagnosis), _shares(title, diagnosis)]
    most = max(len(diagnosis.label_names) for diagnosis in diagnoses)
    note = "Lines on the bars of a preference are ± 2 standard errors over rows."
    return Chart(
        HEADING, panels, ("context", "what", "label", "value"), note, (3.2 + 0.3 * most, 2.4), 2,
        together=True, shares_y=False,
    )  # fmt: skip


def _preference(title: str, diagnosis: Diagnosis) -> Panel:
    at = np.arange(float(len(diagnosis.label_names)))
    size, error = diagnosis.preference, 2 * np.nan_to_num(diagnosis.error)
    marks: list[Mark] = [
        Bars("preference", at, size, PALETTE.color(BASELINE)),
        Spans(at, size - error, size + error, "y"),
        Rule(0.0, "x"),
    ]
    x = Axis("", names=diagnosis.label_names)
    y = Axis("mean log-probability\nless the labels' mean (nats)")
    return Panel(title, marks, x, y, f"{title}: preference")


def _shares(title: str, diagnosis: Diagnosis) -> Panel:
    at = np.arange(float(len(diagnosis.label_names)))
    before, after = 100 * diagnosis.predicted, 100 * diagnosis.corrected
    marks: list[Mark] = [
        Bars("predicted", at - 0.2, before, PALETTE.color(BASELINE), 0.38),
        Bars(f"after {diagnosis.method}", at + 0.2, after, PALETTE.color(CORRECTED), 0.38),
    ]
    if diagnosis.classes is not None:
        right = 100 * diagnosis.classes
        marks.append(Dots("right", at, right, size=1))
        for i, share in enumerate(right):
            marks.append(Spans([share], [at[i] - 0.42], [at[i] + 0.42], "x", width=1.8))
    x, y = Axis("", names=diagnosis.label_names), Axis("share of rows (%)")
    return Panel(title, marks, x, y, f"{title}: {diagnosis.rows:,} rows")


def _strengths(pairs: Iterable[tuple[str, Diagnosis]]) -> Chart:
    """How strong each preference is, the strongest first."""
    strengths = []
    for title, diagnosis in pairs:
        strengths.append((float(np.ptp(diagnosis.preference)), diagnosis.pair_error, title))
    sizes, errors, names = zip(*sorted(strengths, reverse=True), strict=True)
    size, error = np.array(sizes), 2 * np.nan_to_num(np.array(errors))
    numbers = np.stack([size, size - error, size + error], axis=1)
    axes = Axis("contexts, the strongest first"), Axis("preference of a label (nats)")
    heading, note = f"{HEADING}: how strongly", "Lines are ± 2 standard errors over rows."
    drawn = strip("preference", names, numbers, PALETTE.color(CORRECTED), axes, heading, note)
    return drawn._replace(columns=("", "", "rank", "nats"))
