"""Single contexts in words: what a prompt prefers, what BC changes, predicted shares of labels."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.grouping import BASELINE, title
from batch_calibration.artifacts.report import plots
from batch_calibration.diagnosis import Diagnosis, diagnose
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record

MANY = 12
"""Labels whose shares stand upright; of more the bars lie."""


class Context(NamedTuple):
    """One context: what it is called, and what its diagnosis found."""

    name: str
    found: Diagnosis


def diagnosed(record: Record, table: ScoreTable) -> Context:
    """The diagnosis of a record's scores, corrected by the bias that BC found in them."""
    test, about = table.blocks["test"], record.context
    rows = test.log_probs if record.floor is None else np.maximum(test.log_probs, record.floor)
    corrected = rows - np.asarray(record.bias["bc"]) if "bc" in record.bias else None
    parts = [title(about.task), "" if about.seed is None else f"seed {about.seed}"]
    found = diagnose(rows, test.labels, corrected=corrected, label_names=table.label_names)
    return Context(", ".join(filter(None, parts)), found)


def html(context: Context, name: str) -> str:
    """The context's line, and behind it its sentences and the shares of its labels."""
    found = context.found
    said = " ".join(found.sentences())
    figure = plots.Figure(
        name, f"{context.name}: predicted shares before and after", None,
        plots.Plot([plots.View("", *shares(found))]), share_cells([context]),
    )  # fmt: skip
    return (
        f'<details id="{name}" class="context"><summary>{escape(headline(context))}</summary>\n'
        f"<p>{escape(said)}</p>\n{plots.html(figure)}</details>"
    )


def headline(context: Context) -> str:
    """A context in a line: which label it favors, by how much, and what accuracy does."""
    found, names = context.found, context.found.label_names
    high, low = int(found.preference.argmax()), int(found.preference.argmin())
    nats = float(found.preference[high] - found.preference[low])
    said = f"{context.name}: favors {names[high]!r} over {names[low]!r} by {nats:.2f} nats"
    if found.before and found.after:
        before, after = 100 * found.before.accuracy.value, 100 * found.after.accuracy.value
        said += f"; accuracy {before:.1f} → {after:.1f} %"
    return said


def share_cells(contexts: Iterable[Context]) -> Cells:
    """Of each label of each context its preference in nats and its shares, 0 to 1."""
    rows: Cells = [["context", "label", "preference", "predicted", "corrected", "right"]]
    for name, found in contexts:
        right = [""] * len(found.label_names)
        if found.classes is not None:
            right = [f"{share:.6g}" for share in found.classes]
        columns = (found.preference, found.predicted, found.corrected)
        numbers = [[f"{x:.6g}" for x in column] for column in columns]
        rows += map(list, zip([name] * len(right), found.label_names, *numbers, right, strict=True))
    return rows


def shares(found: Diagnosis) -> tuple[Sequence[plots.Parts], plots.Parts]:
    """Bars of the shares predicted before and after; a line where each label is right."""
    lying = len(found.label_names) > MANY
    names = [plots.text(name) for name in found.label_names]
    label, share = ("y", "x") if lying else ("x", "y")
    bars: list[tuple[str, str, list[float | None]]] = [
        ("predicted", plots.color(BASELINE), plots.floats(100 * found.predicted)),
        (f"after {found.method}", plots.color("bc"), plots.floats(100 * found.corrected)),
    ]
    traces: list[plots.Parts] = [
        {
            "type": "bar", "orientation": "h" if lying else "v", "name": name,
            label: list(names), share: values, "marker": {"color": shade},
            "hovertemplate": f"%{{{label}}}: %{{{share}:.1f}} % of rows",
        }
        for name, shade, values in bars
    ]  # fmt: skip
    if found.classes is not None:
        traces.append({
            "type": "scatter", "mode": "markers", "name": "right", label: list(names),
            share: plots.floats(100 * found.classes), "hovertemplate":
            f"%{{{label}}}: right for %{{{share}:.1f}} % of labeled rows",
            "marker": {"symbol": "line-ns" if lying else "line-ew", "size": 34,
                       "line": {"width": 3, "color": "#d55e00"}},
        })  # fmt: skip
    percent = plots.axis("share of rows (%)", rangemode="tozero")
    other: plots.Parts = {"type": "category", "automargin": True}
    if lying:
        other |= {"autorange": "reversed", "dtick": 1}
    height = 140 + 24 * len(names) if lying else 300
    return traces, {f"{label}axis": other, f"{share}axis": percent, "height": height}
