"""Draws accuracy against shots, rows that a bias is learned from, or rows seen (Fig. 6, 9)."""

from collections.abc import Mapping
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.curves import Curves, Points
from batch_calibration.artifacts.figures.style import COLUMNS, STYLE, color
from batch_calibration.artifacts.grouping import REFERENCES, title
from batch_calibration.metrics import deviation


def draw(curves: Curves) -> Figure:
    """A panel a task, a line a method, its band one standard deviation (by n - 1, as in tables).

    Of a mean over many random orders the band is its standard error; a dashed line is a level.
    """
    count = len(curves.tasks)
    columns = min(count, COLUMNS)
    lines = -(-count // columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            lines, columns, figsize=(1 + 3 * columns, 0.6 + 2.6 * lines), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axes, (task, of_task) in zip(grid.flat, curves.tasks.items(), strict=False):
            _panel(axes, of_task, curves.levels.get(task, {}), of_mean=curves.of_mean)
            axes.set_title(title(task), loc="left")
            axes.set_xlabel(curves.axis)
        for axes in grid.flat[count:]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy (%)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        band = "standard error of the mean" if curves.of_mean else "standard deviation of the draws"
        words = f"{curves.heading}. Band: {band}."
        figure.suptitle(fill(words, 48 * columns), x=0.01, ha="left", fontsize=10)
    return figure


def _panel(
    axes: Axes, of_task: Mapping[str, Points], levels: Mapping[str, float], *, of_mean: bool
) -> None:
    numbers = sorted({number for points in of_task.values() for number in points})
    far = numbers[-1] > 20
    if far:
        axes.set_xscale("log")
    for method, points in of_task.items():
        at = sorted(points)
        mean = np.array([points[number].mean() for number in at])
        sd = np.array([deviation(points[number]) for number in at])
        if of_mean:
            sd /= np.sqrt([len(points[number]) for number in at])
        # What is compared stands out: five bands of one strength cannot be told apart.
        told = method in REFERENCES
        axes.plot(at, mean, "o-", ms=3, color=color(method), label=method, lw=2.2 if told else 1)
        axes.fill_between(
            at, mean - sd, mean + sd, color=color(method), alpha=0.25 if told else 0.06, lw=0
        )
    for method, level in levels.items():
        axes.axhline(level, ls="--", lw=1, color=color(method), label=f"{method}, all rows")
    axes.set_xticks(numbers, [str(number) for number in numbers], rotation=45 if far else 0)
    axes.minorticks_off()
