"""Draws accuracy against shots, a line for each condition that demonstrations were shown under."""

from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.controls import NONE, Control, Point
from batch_calibration.artifacts.demonstration_labels import COLORS
from batch_calibration.artifacts.figures.style import COLUMNS, STYLE
from batch_calibration.artifacts.grouping import REFERENCES, title


def draw(control: Control) -> Figure:
    """A panel a task and method, a line a condition, its bars 95 % intervals.

    Dashed is accuracy without demonstrations, dotted chance.
    """
    columns = min(len(control.tasks), COLUMNS)
    blocks = [control.tasks[i : i + columns] for i in range(0, len(control.tasks), columns)]
    panels = [(method, some) for some in blocks for method in REFERENCES]
    high = len(panels)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            high, columns, figsize=(1 + 3 * columns, 0.8 + 2.4 * high), squeeze=False, sharey=True,
            layout="constrained",
        )  # fmt: skip
        for line, (method, some) in zip(grid, panels, strict=True):
            for axes, task in zip(line, some, strict=False):
                _panel(axes, control, task, method)
            for axes in line[len(some) :]:
                axes.set_axis_off()
            line[0].set_ylabel("accuracy (%)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
        words = f"{control.heading}. Bars: 95 % intervals over draws and rows."
        figure.suptitle(fill(words, 48 * columns), x=0.01, ha="left", fontsize=10)
    return figure


def _panel(axes: Axes, control: Control, task: str, method: str) -> None:
    shots = control.shots(task)
    # Side by side, for bars of the same place hide each other.
    aside = np.linspace(-0.2, 0.2, len(control.conditions))
    for name, shift in zip(control.conditions, aside, strict=True):
        found = [(n, control.accuracy(Point(task, n, name, method))) for n in shots]
        points = [(n, one) for n, one in found if one]
        if not points:
            continue
        values = 100 * np.array([one for _, one in points])
        if name == NONE:
            axes.axhline(values[0, 0], ls="--", lw=1, color=COLORS[NONE], label="no demonstrations")
            continue
        mean, low, high = values.T
        axes.errorbar(
            [n + shift for n, _ in points], mean, [mean - low, high - mean], fmt="o", ms=3,
            capsize=2, elinewidth=0.8, lw=1.6, color=COLORS.get(name), label=name,
            ls="--" if "words" in name else "-",
        )  # fmt: skip
    axes.axhline(100 * control.chance(task), ls=":", lw=1, color="#000000", label="chance")
    axes.set_ylim(0, 100)
    axes.set_xticks(shots)
    axes.set_xlim(min(shots) - 0.5, max(shots) + 0.5)
    axes.set_xlabel("shots per class")
    axes.set_title(f"{title(task)}: {method}", loc="left")
