"""Interactive figure of the study of demonstration labels: accuracy against shots."""

import numpy as np

from batch_calibration.artifacts.controls import NONE, Control, Point
from batch_calibration.artifacts.demonstration_labels import COLORS
from batch_calibration.artifacts.grouping import CORRECTED, REFERENCES, title
from batch_calibration.artifacts.report.plots import Parts, Plot, View, axis, floats, text


def of_control(control: Control) -> Plot:
    """A view a task and method, bc's first; a line a condition, its bars 95 % intervals."""
    methods = sorted(REFERENCES, key=lambda method: method != CORRECTED)
    views = [
        View(f"{title(task)}: {method}", _lines(control, task, method), _layout(control, task))
        for method in methods
        for task in control.tasks
    ]
    return Plot(views, note="Bars: 95 % intervals over draws and rows. Dotted: chance.")


def _lines(control: Control, task: str, method: str) -> list[Parts]:
    traces: list[Parts] = []
    for name in control.conditions:
        every = {n: control.accuracy(Point(task, n, name, method)) for n in control.shots(task)}
        found = {n: one for n, one in every.items() if one}
        if not found:
            continue
        value, low, high = 100 * np.array(list(found.values())).T
        error: Parts = {
            "type": "data", "symmetric": False, "array": floats(high - value),
            "arrayminus": floats(value - low), "thickness": 1, "visible": name != NONE,
        }  # fmt: skip
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": name, "x": list(found),
            "y": floats(value), "error_y": error,
            "line": {"color": COLORS.get(name), "dash": "dash" if "words" in name else "solid"},
            "customdata": [[float(a), float(b)] for a, b in zip(low, high, strict=True)],
            "hovertemplate": f"{text(name)}, %{{x}} shots: %{{y:.1f}} %<br>95 % interval "
                             "%{customdata[0]:.1f} to %{customdata[1]:.1f}<extra></extra>",
        })  # fmt: skip
    return traces


def _layout(control: Control, task: str) -> Parts:
    chance = 100 * control.chance(task)
    line: Parts = {"dash": "dot", "width": 1}
    return {
        "xaxis": axis("shots per class", tickvals=control.shots(task)),
        "yaxis": axis("accuracy (%)", range=[0, 100]), "height": 460,
        "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": chance, "y1": chance,
                    "line": line}],
    }  # fmt: skip
