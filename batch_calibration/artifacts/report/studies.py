"""Interactive figures of studies of the prompt: each choice, each prompt, demonstration labels."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from batch_calibration.artifacts import robustness
from batch_calibration.artifacts.controls import NONE, Control, Point
from batch_calibration.artifacts.gains import MARK, gain_cell
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.artifacts.method_display import CONDITIONS, PAGE
from batch_calibration.artifacts.report import plots

MARKS_NOTE = f"{MARK}: 0 is outside the 95 % interval; ± is over the prompts."


def plot_robustness(axes: Sequence[robustness.Axis]) -> plots.Plot:
    """ICL beside BC as one choice of the prompt varies: a box, and a dot for every prompt."""
    traces: list[plots.Parts] = []
    for method in REFERENCES:
        names: list[str] = []
        choices: list[str] = []
        accuracies: list[float | None] = []
        for study in axes:
            if method in study.methods:
                names += [study.name] * len(study.records)
                accuracies += plots.floats(study.values(method))
                choices += map(robustness.choice_name, study.records)
        labels = list(map(plots.text, map("{}: {}".format, names, choices)))
        traces.append({
            "type": "box", "name": method, "x": names,
            "y": accuracies, "boxpoints": "all", "jitter": 0.4,
            "pointpos": 0, "marker": {"color": PAGE.color(method), "size": 6},
            "line": {"width": 1.5}, "fillcolor": "rgba(0,0,0,0)", "text": labels,
            "hovertemplate": f"%{{text}}<br>{method}: %{{y:.1f}} %<extra></extra>",
        })  # fmt: skip
    layout: plots.Parts = {
        "boxmode": "group", "yaxis": plots.axis("accuracy (%)"), "xaxis": {"type": "category"},
        "height": 420,
    }  # fmt: skip
    return plots.Plot([plots.View("", traces, layout)])


def plot_prompts(axes: Sequence[robustness.Axis]) -> plots.Plot:
    """Each prompt of a study with icl and with bc, from icl's worst on; a view a task."""
    views, sentences = [], []
    for study in axes:
        views.append(_prompts_view(study))
        change = f", change of ± {gain_cell(study.change)}" if study.change else ""
        sentences.append(f"{task_title(study.task)}: gain {gain_cell(study.gain)}{change}")
    note = f"A line is a prompt; hover a dot to see which. {'; '.join(sentences)}."
    return plots.Plot(
        views, note=f"{note} {MARK}: 0 is outside the 95 % interval; ± is over the prompts."
    )


def _prompts_view(study: robustness.Axis) -> plots.View:
    before, after = map(study.values, REFERENCES)  # [prompt] each, %
    order = np.argsort(before, kind="stable")
    names = []
    for rank, i in enumerate(order, 1):
        names.append(plots.text(f"{rank}: {robustness.choice_name(study.records[i])}"))
    # The line from icl to bc is the error bar of bc's dot.
    moved = (before - after)[order]
    line = {"type": "data", "symmetric": False, "array": plots.floats(np.maximum(moved, 0)),
            "arrayminus": plots.floats(np.maximum(-moved, 0)), "width": 0}  # fmt: skip
    traces: list[plots.Parts] = []
    for method, accuracies, error, symbol in (
        (BASELINE, before, {"visible": False}, "circle-open"),
        (CORRECTED, after, line, "circle"),
    ):
        traces.append({
            "error_x": error, "type": "scatter", "mode": "markers", "name": method,
            "x": plots.floats(accuracies[order]), "y": list(names),
            "marker": {"color": PAGE.color(method), "size": 9, "symbol": symbol,
                       "line": {"width": 2}},
            "hovertemplate": f"%{{y}}<br>{method}: %{{x:.1f}} %<extra></extra>",
        })  # fmt: skip
    # From chance on, one measure for all studies: a small scale makes noise look large.
    chance, ends = 100 / len(study.records[0].label_names), np.concatenate([before, after])
    reach = [float(min(chance, ends.min())) - 2, float(ends.max()) + 2]
    dashed = {"dash": "dash", "width": 1, "color": PAGE.color(BASELINE)}
    layout: plots.Parts = {
        "xaxis": plots.axis("accuracy (%), chance dashed", range=reach),
        "shapes": [{"type": "line", "x0": chance, "x1": chance, "y0": 0, "y1": 1,
                    "yref": "paper", "line": dashed}],
        "yaxis": {**plots.NAMES, "autorange": True, "showticklabels": False},
        "height": 150 + 18 * len(names),
    }  # fmt: skip
    return plots.View(task_title(study.task), traces, layout)


def plot_control(control: Control) -> plots.Plot:
    """Accuracy against shots: a view a task and method, bc's first; a line a condition."""
    panels = product(reversed(REFERENCES), control.tasks)
    views = [_control_view(control, task, method) for method, task in panels]
    return plots.Plot(views, note="Bars: 95 % intervals over draws and rows. Dotted: chance.")


def _control_view(control: Control, task: str, method: str) -> plots.View:
    traces: list[plots.Parts] = []
    for condition in control.conditions:
        estimates = {}
        for shots in control.shots(task):
            if estimate := control.accuracy(Point(task, shots, condition, method)):
                estimates[shots] = estimate
        if not estimates:
            continue
        mean, low, high = 100 * np.array(list(estimates.values())).T  # [shots] each, %
        shown, dash = plots.text(condition), "dash" if "words" in condition else "solid"
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": condition, "x": list(estimates),
            "y": plots.floats(mean),
            "error_y": plots.error_bars(mean, low, high, thickness=1, visible=condition != NONE),
            "line": {"color": CONDITIONS.get(condition), "dash": dash},
            "customdata": plots.pairs(low, high),
            "hovertemplate": f"{shown}, %{{x}} shots: %{{y:.1f}} %<br>95 % interval "
                             "%{customdata[0]:.1f} to %{customdata[1]:.1f}<extra></extra>",
        })  # fmt: skip
    chance = 100 * control.chance(task)
    layout: plots.Parts = {
        "xaxis": plots.axis("shots per class", tickvals=control.shots(task)),
        "yaxis": plots.axis("accuracy (%)", range=[0, 100]), "height": 460,
        "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": chance, "y1": chance,
                    "line": {"dash": "dot", "width": 1}}],
    }  # fmt: skip
    return plots.View(f"{task_title(task)}: {method}", traces, layout)
