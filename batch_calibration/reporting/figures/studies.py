"""Figures of studies: robustness along factors, curves, strengths."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from batch_calibration.reporting import palette
from batch_calibration.reporting.curves import Curves, Points, mean_and_band
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import ACCURACY, DASHES, Drawn
from batch_calibration.reporting.frame import REFERENCES, Frame, factor_name, task_title

LEAST_OF_BOX = 5  # dots; fewer have no quartiles
BOXES_NOTE = (
    "A dot is a level, the mean over contexts that are matched in the other factors. Boxes, of "
    f"{LEAST_OF_BOX} levels or more: quartiles and median; whiskers reach 1.5 boxes at most."
)
BOX: Any = {"widths": 0.3, "showfliers": False, "showcaps": False, "patch_artist": True}
AVERAGE = "average over the tasks"
LEAST_POINTS = 3  # a line between two numbers shows no curve
FAR = 20  # a number above it makes the axis logarithmic
Row = tuple[object, ...]  # of the CSV: task, line, number, value, and ends of the band


@style.styled
def draw_robustness(group: Frame, names: Sequence[str]) -> Drawn:
    """Draws the robustness of icl and bc to each factor (the paper's Fig. 8): a box, and dots."""
    figure, (axes,) = style.panels(1, (1.0 + 1.6 * len(names), 2.6))
    rows: list[Sequence[object]] = [["method", "factor", "accuracy", "level"]]
    titles = [f"{factor_name(name)} ({len(group.levels(name))})" for name in names]
    for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
        color = palette.color(method)
        for place, name in enumerate(names):
            parts = group.matched(name).frame.by(name)
            values = np.array([100 * part.average(method) for part in parts.values()])
            line, box = {"color": color}, {"edgecolor": color, "facecolor": f"{color}26"}
            if len(values) >= LEAST_OF_BOX:
                at = [place + side]
                axes.boxplot(
                    values, positions=at, medianprops=line, whiskerprops=line, boxprops=box, **BOX
                )
            # Fixed offsets, so that equal values stay apart and a figure stays the same.
            places = place + side + 0.1 * np.sin(2.4 * np.arange(len(values)))
            levels = [level for (level,) in parts]
            texts, named = style.percents(levels, values, method), "" if place else method
            style.dots(axes, places, values, color, texts, size=3, alpha=0.6, name=named)
            for level, value in zip(levels, values, strict=True):
                rows.append([method, factor_name(name), float(value), level])
    style.label(axes, "", y=ACCURACY)
    style.name_ticks(axes.xaxis, titles)
    heading = f"One factor at a time: {group.heading}"
    return style.finish(figure, heading, BOXES_NOTE, rows)


@style.styled
def draw_curves(curves: Curves) -> Drawn:
    """Draws a line with a band for each method, and a dashed line for each level, by task.

    The band is one standard deviation (n - 1), or the standard error with `Curves.of_mean`.
    """
    curves, left_out = _without_short_lines(curves)
    lines = chain.from_iterable(by_method.values() for by_method in curves.tasks.values())
    numbers = sorted(set.intersection(*map(set, lines)))
    has_average = len(curves.tasks) > 1 and len(numbers) > 1
    figure, grid = style.panels(len(curves.tasks) + has_average, (3.0, 2.4))
    rows: list[Row] = []
    if has_average:  # the result, so it is the first panel
        rows += _draw_average(grid.pop(0), curves, numbers)
    for axes, task in zip(grid, curves.tasks, strict=True):
        rows += _draw_task(axes, curves, task)
    kind = "standard error of the mean" if curves.of_mean else "standard deviation of the draws"
    header = ["task", "method", curves.axis, "accuracy", "low", "high"]
    note = f"Band: {kind}.{left_out}"
    return style.finish(figure, curves.heading, note, [header, *rows])


def _without_short_lines(curves: Curves) -> tuple[Curves, str]:
    """Returns the tasks with three numbers or more, if any, and a sentence on the other tasks."""
    drawn, short = {}, []
    for task, by_method in curves.tasks.items():
        if len(_numbers(by_method)) < LEAST_POINTS:
            short.append(task_title(task))
        else:
            drawn[task] = by_method
    if not short or not drawn:
        return curves, ""
    numbers = f"as they were run with two numbers of {curves.axis} alone"
    return curves._replace(tasks=drawn), f" Not drawn, {numbers}: {', '.join(short)}."


def _numbers(by_method: Mapping[str, Points]) -> list[int]:
    return sorted(set().union(*by_method.values()))


def _draw_task(axes: Axes, curves: Curves, task: str) -> list[Row]:
    """Draws the lines of a task and their bands; returns their rows of the CSV."""
    rows: list[Row] = []
    title, numbers = task_title(task), _numbers(curves.tasks[task])
    for method, points in curves.tasks[task].items():
        at, mean, band = mean_and_band(points, of_mean=curves.of_mean)
        # icl and bc are compared, so they are stronger than the other lines.
        width, alpha = (2.2, 0.25) if method in REFERENCES else (1.0, 0.06)
        _draw_line(axes, curves, method, at, mean, width)
        low, high, color = mean - band, mean + band, palette.color(method)
        axes.fill_between(at, low, high, color=color, alpha=alpha, lw=0)
        for number, *values in zip(at, mean, low, high, strict=True):
            rows.append((title, method, float(number), *values))
    for method, level in curves.levels.get(task, {}).items():
        name, ends = f"{method}, all rows", (numbers[0], numbers[-1])
        # The dash distinguishes it from the curve of the same color.
        (line,) = axes.plot(ends, (level, level), color=palette.color(method), lw=1.0, label=name,
                            ls=DASHES["dash"])  # fmt: skip
        style.name_marks(line, [f"{name}: {level:.1f} %"])
        rows += [(title, name, float(end), float(level), "", "") for end in ends]
    style.label(axes, title, curves.axis, ACCURACY)
    style.number_ticks(axes.xaxis, numbers, is_log=numbers[-1] > FAR)
    return rows


def _draw_line(
    axes: Axes, curves: Curves, method: str, at: Sequence[int], mean: np.ndarray, width: float
) -> None:
    color, dash = palette.color(method), DASHES[palette.dash(method)]
    (line,) = axes.plot(at, mean, marker="o", ms=3, color=color, lw=width, ls=dash, label=method)
    style.name_marks(line, style.percents(map(f"{method}, {{:,}}".format, at), mean, curves.axis))


def _draw_average(axes: Axes, curves: Curves, numbers: Sequence[int]) -> list[Row]:
    """Draws the mean over the tasks at the numbers that all lines have."""
    rows: list[Row] = []
    for method in curves.methods:
        tasks = [by_method[method] for by_method in curves.tasks.values() if method in by_method]
        # Averages over different tasks cannot be compared.
        if len(tasks) < len(curves.tasks):
            continue
        means = []
        for points in tasks:
            of_task = [points[number].mean() for number in numbers]
            means.append(of_task)
        mean = np.mean(means, axis=0)
        _draw_line(axes, curves, method, numbers, mean, 2.2)
        for number, value in zip(numbers, mean, strict=True):
            rows.append((AVERAGE, method, float(number), value, "", ""))
    style.label(axes, AVERAGE, curves.axis, ACCURACY)
    style.number_ticks(axes.xaxis, numbers, is_log=numbers[-1] > FAR)
    return rows
