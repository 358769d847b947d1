"""Single contexts in words: what a prompt prefers, what BC changes, predicted shares of labels."""

from html import escape
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, task_title
from batch_calibration.artifacts.palette import PAGE
from batch_calibration.artifacts.report import plots
from batch_calibration.diagnosis import Diagnosis, diagnose
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record

MAX_UPRIGHT = 12  # of more labels the bars of their shares lie


class Context(NamedTuple):
    """One context: what it is called, and its diagnosis."""

    name: str
    diagnosis: Diagnosis


def diagnose_record(record: Record, table: ScoreTable) -> Context:
    """The diagnosis of a record's scores, corrected by the bias that BC found in them."""
    test, context = table.blocks["test"], record.context
    scores = test.log_probs if record.floor is None else np.maximum(test.log_probs, record.floor)
    bias = record.bias.get(CORRECTED)
    corrected = None if bias is None else scores - np.asarray(bias)
    name = task_title(context.task)
    if context.seed is not None:
        name = ", ".join(filter(None, (name, f"seed {context.seed}")))
    diagnosis = diagnose(scores, test.labels, corrected=corrected, label_names=table.label_names)
    return Context(name, diagnosis)


def context_html(context: Context, name: str) -> str:
    """The context's line, and behind it its sentences and the shares of its labels."""
    sentences = " ".join(context.diagnosis.sentences())
    figure = plots.Figure(
        name, f"{context.name}: predicted shares before and after", None,
        plots.Plot([share_view(context.diagnosis)]), share_cells(context),
    )  # fmt: skip
    return (
        f'<details id="{name}" class="context"><summary>{escape(headline(context))}</summary>\n'
        f"<p>{escape(sentences)}</p>\n{plots.html(figure)}</details>"
    )


def headline(context: Context) -> str:
    """A context in a line: which label it favors, by how much, and what accuracy does."""
    diagnosis, names = context.diagnosis, context.diagnosis.label_names
    high, low = int(diagnosis.preference.argmax()), int(diagnosis.preference.argmin())
    nats = float(diagnosis.preference[high] - diagnosis.preference[low])
    line = f"{context.name}: favors {names[high]!r} over {names[low]!r} by {nats:.2f} nats"
    if diagnosis.before and diagnosis.after:
        before, after = diagnosis.before.accuracy.value, diagnosis.after.accuracy.value
        line += f"; accuracy {100 * before:.1f} → {100 * after:.1f} %"
    return line


def share_cells(context: Context) -> Cells:
    """Of each label its preference in nats and its shares, 0 to 1."""
    diagnosis = context.diagnosis
    rows: Cells = [["context", "label", "preference", "predicted", "corrected", "right"]]
    numbers = np.stack([diagnosis.preference, diagnosis.predicted, diagnosis.corrected], axis=1)
    for i, label in enumerate(diagnosis.label_names):
        right = "" if diagnosis.classes is None else f"{diagnosis.classes[i]:.6g}"
        rows.append([context.name, label, *map("{:.6g}".format, numbers[i]), right])
    return rows


def share_view(diagnosis: Diagnosis) -> plots.View:
    """Bars of the shares predicted before and after; a line where each label is right."""
    is_lying = len(diagnosis.label_names) > MAX_UPRIGHT
    names = list(map(plots.text, diagnosis.label_names))
    label, share = ("y", "x") if is_lying else ("x", "y")
    hover = f"%{{{label}}}: %{{{share}:.1f}} % of rows"
    traces: list[plots.Parts] = []
    for name, method, shares in (
        ("predicted", BASELINE, diagnosis.predicted),
        (f"after {diagnosis.method}", CORRECTED, diagnosis.corrected),
    ):
        traces.append({
            "type": "bar", "orientation": "h" if is_lying else "v", "name": name,
            label: list(names), share: plots.floats(100 * shares),
            "marker": {"color": PAGE.color(method)}, "hovertemplate": hover,
        })  # fmt: skip
    if diagnosis.classes is not None:
        hover = f"%{{{label}}}: right for %{{{share}:.1f}} % of labeled rows"
        symbol = "line-ns" if is_lying else "line-ew"
        traces.append({
            "type": "scatter", "mode": "markers", "name": "right", label: list(names),
            share: plots.floats(100 * diagnosis.classes), "hovertemplate": hover,
            "marker": {"symbol": symbol, "size": 34,
                       "line": {"width": 3, "color": PAGE.labels[0]}},
        })  # fmt: skip
    percent = plots.axis("share of rows (%)", rangemode="tozero")
    categories: plots.Parts = {"type": "category", "automargin": True}
    if is_lying:
        categories |= {"autorange": "reversed", "dtick": 1}
    height = 140 + 24 * len(names) if is_lying else 300
    layout = {f"{label}axis": categories, f"{share}axis": percent, "height": height}
    return plots.View("", traces, layout)
