"""Interactive figures of robustness studies: boxes of each choice, and a line a prompt."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.artifacts import gains, robustness
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, REFERENCES, title
from batch_calibration.artifacts.report.plots import (
    NAMES,
    Parts,
    Plot,
    View,
    axis,
    color,
    floats,
    text,
)  # fmt: skip


def of_robustness(axes: Sequence[robustness.Axis]) -> Plot:
    """ICL beside BC as one choice of the prompt varies: a box, and a dot for every prompt."""
    traces: list[Parts] = []
    for method in REFERENCES:
        pairs = [
            (one.name, value, robustness.value(record))
            for one in axes
            if method in one.methods
            for record, value in zip(one.records, one.values(method), strict=True)
        ]
        traces.append({
            "type": "box", "name": method, "x": [name for name, _, _ in pairs],
            "y": floats([value for _, value, _ in pairs]), "boxpoints": "all", "jitter": 0.4,
            "pointpos": 0, "marker": {"color": color(method), "size": 6},
            "line": {"width": 1.5}, "fillcolor": "rgba(0,0,0,0)",
            "text": [text(f"{name}: {choice}") for name, _, choice in pairs],
            "hovertemplate": f"%{{text}}<br>{method}: %{{y:.1f}} %<extra></extra>",
        })  # fmt: skip
    layout: Parts = {
        "boxmode": "group", "yaxis": axis("accuracy (%)"), "xaxis": {"type": "category"},
        "height": 420,
    }  # fmt: skip
    return Plot([View("", traces, layout)])


def of_prompts(axes: Sequence[robustness.Axis]) -> Plot:
    """Each prompt of a study with icl and with bc, from icl's worst on; a view a task."""
    views, sure = [], []
    for one in axes:
        before, after = (one.values(name) for name in REFERENCES)
        order = np.argsort(before, kind="stable")
        names = [text(f"{place + 1}: {robustness.value(one.records[i])}")
                 for place, i in enumerate(order)]  # fmt: skip
        traces: list[Parts] = []
        moved, change = (before - after)[order], one.change()
        line = {"type": "data", "symmetric": False, "array": floats(np.maximum(moved, 0)),
                "arrayminus": floats(np.maximum(-moved, 0)), "width": 0}  # fmt: skip
        for method, values in zip(REFERENCES, (before, after), strict=True):
            traces.append({
                "error_x": line if method == CORRECTED else {"visible": False},
                "type": "scatter", "mode": "markers", "name": method, "x": floats(values[order]),
                "y": list(names), "marker": {"color": color(method), "size": 9, "symbol":
                "circle-open" if method == BASELINE else "circle", "line": {"width": 2}},
                "hovertemplate": f"%{{y}}<br>{method}: %{{x:.1f}} %<extra></extra>",
            })  # fmt: skip
        # From chance on, one measure for all studies: a small scale makes noise look large.
        chance, ends = 100 / len(one.records[0].label_names), np.concatenate([before, after])
        reach = [float(min(chance, ends.min())) - 2, float(ends.max()) + 2]
        layout: Parts = {
            "xaxis": axis("accuracy (%), chance dashed", range=reach),
            "shapes": [
                {
                    "type": "line",
                    "x0": chance,
                    "x1": chance,
                    "y0": 0,
                    "y1": 1,
                    "yref": "paper",
                    "line": {"dash": "dash", "width": 1, "color": color(BASELINE)},
                }
            ],
            "yaxis": {**NAMES, "autorange": True, "showticklabels": False},
            "height": 150 + 18 * len(names),
        }
        views.append(View(title(one.task), traces, layout))
        sure.append(f"{title(one.task)}: gain {gains.marked(one.gain())}"
                    + (f", change of ± {gains.marked(change)}" if change else ""))  # fmt: skip
    note = f"A line is a prompt; hover a dot to see which. {'; '.join(sure)}."
    said = f"{gains.MARK}: 0 is outside the 95 % interval; ± is over the prompts."
    return Plot(views, note=f"{note} {said}")
