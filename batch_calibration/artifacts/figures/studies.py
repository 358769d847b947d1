"""Draws the robustness study (Fig. 8), each of its prompts, and labels of demonstrations."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.controls import NONE, Control, Point
from batch_calibration.artifacts.figures import style
from batch_calibration.artifacts.gains import gain_cell
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.artifacts.method_display import CONDITIONS, FIGURE, VERDICTS
from batch_calibration.artifacts.robustness import Axis, choice_name, describe_study

# The color of a line by the verdict on the gain that it shows.
LINE_COLORS = {1: VERDICTS["gain"], 0: "#bbbbbb", -1: VERDICTS["loss"]}
MAX_PROMPTS_NAMED = 12  # of more prompts none is named at the side
# Above the legend.
PROMPTS_NOTE = "* 0 is outside the 95 % interval; ±: standard deviation over the prompts"


@style.styled()
def draw_boxes(studies: Sequence[Axis]) -> Figure:
    """ICL beside BC on each axis of one task: a box, and a dot for every prompt."""
    figure, axes = plt.subplots(figsize=(1.5 + 1.6 * len(studies), 3.2))
    for x, study in enumerate(studies):
        for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
            accuracies, shade = study.values(method), FIGURE.color(method)
            line = {"color": shade}
            axes.boxplot(
                accuracies, positions=[x + side], widths=0.3, showfliers=False, medianprops=line,
                boxprops=line, whiskerprops=line, capprops=line,
            )  # fmt: skip
            # Fixed offsets, so that equal values stay apart and a figure stays the same.
            dots = x + side + 0.1 * np.sin(2.4 * np.arange(len(accuracies)))
            label = None if x else method
            axes.plot(dots, accuracies, "o", color=shade, ms=3, alpha=0.6, label=label)
    names = [f"{len(study.records)} {study.name}\n{study.setting.shots}-shot" for study in studies]
    axes.set_xticks(range(len(studies)), names)
    axes.set_xlim(-0.6, len(studies) - 0.4)
    axes.set_ylabel("accuracy (%)")
    task, setting = task_title(studies[0].task), studies[0].setting
    rows = f"first {setting.limit} rows" if setting.limit else "all rows"
    axes.set_title(
        f"One choice of the prompt at a time: {task}, {setting.model}, {rows}.\nBoxes: quartiles "
        "and median; whiskers reach 1.5 boxes at most.", loc="left",
    )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def box_cells(studies: Sequence[Axis]) -> Cells:
    """A line a dot: what varies, the choice, and the accuracy in %."""
    rows: Cells = [["task", "what varies", "choice", "method", "accuracy"]]
    for study in studies:
        for method in REFERENCES:
            for record, accuracy in zip(study.records, study.values(method), strict=True):
                choice = choice_name(record)
                rows.append([study.task, study.name, choice, method, f"{accuracy:.4g}"])
    return rows


@style.styled()
def draw_prompts(studies: Sequence[Axis]) -> Figure:
    """A panel a task: a line a prompt, from its accuracy with ICL to that with BC.

    Prompts are sorted by ICL's accuracy, the worst below, on one scale. Upright dots: the choice
    does not matter. A dashed line is chance.
    """
    columns = min(len(studies), style.COLUMNS)
    prompts = max(8, *(len(study.records) for study in studies))
    # One column is too narrow for the legend.
    width = (1, 3) if columns > 1 else (6.0, 0)
    figure, grid = style.make_panels(len(studies), width, (1.1, 0.9 + 0.13 * prompts), sharex=True)
    for panel, study in zip(grid.flat, studies, strict=False):
        _draw_prompts_panel(panel, study)
    heading = f"{describe_study(studies)}: {studies[0].setting}"
    style.set_heading(figure, heading, max(42 * columns, 84))
    figure.legend(handles=_prompt_legend(), loc="outside lower center", ncols=3, title=PROMPTS_NOTE)
    return figure


def _draw_prompts_panel(panel: Axes, study: Axis) -> None:
    before, after = study.values(BASELINE), study.values(CORRECTED)  # [prompt] each, %
    order = np.lexsort((after, before))  # by icl, ties by bc
    chance = 100 / len(study.records[0].label_names)
    panel.axvline(chance, ls="--", lw=0.8, color="black", zorder=0)
    for y, i in enumerate(order):
        shade = LINE_COLORS[study.gains[i].beyond_noise]
        panel.plot([before[i], after[i]], [y] * 2, color=shade, lw=2, zorder=1)
    heights, gray = np.arange(len(order)), FIGURE.color(BASELINE)
    panel.plot(before[order], heights, "o", ms=5, mfc="white", mec=gray, mew=1.4)
    panel.plot(after[order], heights, "o", ms=5, color=FIGURE.color(CORRECTED))
    change = f"; change of ± {gain_cell(study.change)}" if study.change else ""
    panel.set_title(
        f"{task_title(study.task)}, {len(order)} {study.name}\n"
        f"worst to best: {BASELINE} {np.ptp(before):.1f}, {CORRECTED} {np.ptp(after):.1f} points\n"
        f"gain {gain_cell(study.gain)}{change}", loc="left", fontsize=9,
    )  # fmt: skip
    is_named = len(order) <= MAX_PROMPTS_NAMED
    names = [choice_name(study.records[i]) for i in order] if is_named else []
    panel.set_yticks(heights[: len(names)], names, fontsize=7)
    panel.set_ylabel(f"{study.name}, best of {BASELINE} on top", fontsize=8)
    panel.set_xlabel("accuracy (%)")
    panel.tick_params(labelbottom=True)


def _prompt_legend() -> list[Line2D]:
    """What dots and lines mean."""
    gray, plain = FIGURE.color(BASELINE), f"{BASELINE}: plain scores"
    corrected, blue = f"{CORRECTED}: corrected", FIGURE.color(CORRECTED)
    return [
        Line2D([], [], marker="o", ls="", mfc="white", mec=gray, mew=1.4, label=plain),
        Line2D([], [], marker="o", ls="", color=blue, label=corrected),
        Line2D([], [], ls="--", lw=0.8, color="black", label="chance"),
        Line2D([], [], lw=2, color=LINE_COLORS[1], label="gain beyond noise*"),
        Line2D([], [], lw=2, color=LINE_COLORS[0], label="within noise"),
        Line2D([], [], lw=2, color=LINE_COLORS[-1], label="loss beyond noise*"),
    ]


@style.styled()
def draw_control(control: Control) -> Figure:
    """A panel a task and method, a line a condition, its bars 95 % intervals.

    Dashed is accuracy without demonstrations, dotted chance.
    """
    columns = min(len(control.tasks), style.COLUMNS)
    # Lines of panels: the first tasks with each method, then the next tasks.
    starts = range(0, len(control.tasks), columns)
    lines = [(m, control.tasks[i : i + columns]) for i, m in product(starts, REFERENCES)]
    count = len(lines) * columns
    figure, grid = style.make_panels(count, (1, 3), (0.8, 2.4), columns=columns, sharey=True)
    for row, (method, tasks) in zip(grid, lines, strict=True):
        for axes, task in zip(row, tasks, strict=False):
            _draw_control_panel(axes, control, task, method)
        for axes in row[len(tasks) :]:
            axes.set_axis_off()
        row[0].set_ylabel("accuracy (%)")
    style.add_legend(figure, grid, 4)
    heading = f"{control.heading}. Bars: 95 % intervals over draws and rows."
    style.set_heading(figure, heading, 48 * columns)
    return figure


def _draw_control_panel(axes: Axes, control: Control, task: str, method: str) -> None:
    shots = control.shots(task)
    # Side by side, for bars of the same place hide each other.
    shifts = np.linspace(-0.2, 0.2, len(control.conditions))
    for condition, shift in zip(control.conditions, shifts, strict=True):
        at, estimates = [], []
        for n in shots:
            if estimate := control.accuracy(Point(task, n, condition, method)):
                at.append(n + shift)
                estimates.append(estimate)
        if not estimates:
            continue
        mean, low, high = 100 * np.array(estimates).T  # [shots] each, %
        shade = CONDITIONS.get(condition)
        if condition == NONE:
            axes.axhline(mean[0], ls="--", lw=1, color=shade, label="no demonstrations")
            continue
        axes.errorbar(
            at, mean, [mean - low, high - mean], fmt="o", ms=3, capsize=2, elinewidth=0.8, lw=1.6,
            color=shade, label=condition, ls="--" if "words" in condition else "-",
        )  # fmt: skip
    axes.axhline(100 * control.chance(task), ls=":", lw=1, color="#000000", label="chance")
    axes.set_ylim(0, 100)
    axes.set_xticks(shots)
    axes.set_xlim(min(shots) - 0.5, max(shots) + 0.5)
    axes.set_xlabel("shots per class")
    axes.set_title(f"{task_title(task)}: {method}", loc="left")
