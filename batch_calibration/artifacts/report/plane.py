"""Decision boundaries in one plane: each method's line, and every row with its text and scores."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from textwrap import wrap

import numpy as np

from batch_calibration.artifacts.catalogue import Results
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.artifacts.method_display import PAGE, page_dash
from batch_calibration.artifacts.report import plots
from batch_calibration.artifacts.two_labels import (
    Panel,
    TwoLabels,
    can_draw,
    cut_table,
    find_boundaries,
)
from batch_calibration.scores import ScoreTable

# A score table -> the texts of its test rows by id, where they can be read.
Texts = Callable[[ScoreTable], Mapping[str, str]]
MAX_TASKS = 13  # tasks of a figure: the paper's
MAX_ROWS = 300  # rows that are drawn of a task
MAX_LETTERS = 240  # letters of a text that are shown
NOTE = (
    "One context a task, two of its labels. A line is where a method's answer changes, in the "
    "plane of the uncorrected scores: above it the label of the vertical axis is answered. Points "
    f"are the first {MAX_ROWS} test rows by their right label; hover one to see its text, its "
    "scores, and which methods answer it wrongly."
)


def find_plots(study: Results, texts: Texts) -> dict[str, plots.Plot]:
    """A plot for each setting that has score tables of all methods that are drawn, by slug."""
    by_slug = {}
    for group in study.sections:
        if views := list(islice(_views(group, study, texts), MAX_TASKS)):
            by_slug[f"{group.setting.slug}-boundaries"] = plots.Plot(views, note=NOTE)
    return by_slug


def _views(group: SettingRecords, study: Results, texts: Texts) -> Iterator[plots.View]:
    for records in group.records.values():
        table = study.load(records[0])
        if table is not None and can_draw(table):
            yield view_table(table, texts(table))


def view_table(table: ScoreTable, texts: Mapping[str, str]) -> plots.View:
    """The plane of one table, of two of its labels."""
    two = cut_table(table)
    scores, labels = two.blocks["test"]  # [n 2] in nats, [n]
    panels = find_boundaries(two, in_probs=False)
    traces = [_boundary(method, panel) for method, panel in panels.items()]
    columns = list(map(table.label_names.index, two.names))
    rows = np.flatnonzero(np.isin(table.blocks["test"].labels, columns))[:MAX_ROWS]
    ids = [table.blocks["test"].row_ids[row] for row in rows]
    for label, name in enumerate(two.names):
        of_label = np.flatnonzero(labels[: len(ids)] == label).tolist()
        hovers = [_hover_text(two, i, ids[i], texts, panels) for i in of_label]
        traces.append({
            "type": "scatter", "mode": "markers", "name": plots.text(name),
            "x": plots.floats(scores[of_label, 1]), "y": plots.floats(scores[of_label, 0]),
            "text": hovers, "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": PAGE.labels[label], "symbol": plots.SYMBOLS[label], "size": 7,
                       "opacity": 0.75},
        })  # fmt: skip
    low, high, *_ = next(iter(panels.values()))  # the same in all panels
    sides: plots.Parts = {"range": [low, high], "zeroline": False, "constrain": "domain"}
    layout: plots.Parts = {
        "height": 560, "hovermode": "closest",
        "xaxis": plots.axis(f"log p({two.names[1]}) (nats)", **sides),
        "yaxis": plots.axis(f"log p({two.names[0]}) (nats)", scaleanchor="x", **sides),
    }  # fmt: skip
    return plots.View(two.heading.replace("\n", ": "), traces, layout)


def _boundary(method: str, panel: Panel) -> plots.Parts:
    """Where the margin is 0; pieces of a curve are kept apart by a gap."""
    from contourpy import contour_generator

    x: list[float | None] = []
    y: list[float | None] = []
    for piece in contour_generator(panel.ticks, panel.ticks, panel.margin).lines(0.0):
        # A straight line needs no more than its ends; a curve keeps every third point.
        thin = np.concatenate([piece[:-1:3], piece[-1:]])
        x += [*plots.floats(thin[:, 0]), None]
        y += [*plots.floats(thin[:, 1]), None]
    return {
        "type": "scatter", "mode": "lines", "name": method, "x": x, "y": y,
        "line": {"color": PAGE.color(method), "dash": page_dash(method), "width": 2.5},
        "hovertemplate": f"boundary of {plots.text(method)}<extra></extra>",
    }  # fmt: skip


def _hover_text(
    two: TwoLabels, i: int, row_id: str, texts: Mapping[str, str], panels: Mapping[str, Panel]
) -> str:
    """What hovering a row shows."""
    scores, labels = two.blocks["test"]  # [n 2] in nats, [n]
    plain = texts.get(row_id, "")
    if len(plain) > MAX_LETTERS:
        plain = f"{plain[: MAX_LETTERS - 1]}…"
    lines = [row_id]
    for paragraph in plain.splitlines():
        lines += wrap(paragraph, 60)
    first, second = (f"log p({two.names[k]}) {scores[i, k]:.2f}" for k in (0, 1))
    wrong = [method for method, panel in panels.items() if panel.answers[i] != labels[i]]
    right = two.names[labels[i]]
    lines += [f"{first}, {second}", f"right: {right}; wrong in: {', '.join(wrong) or 'none'}"]
    return plots.text("\n".join(lines))
