"""Draws accuracy against the strength γ, a panel a task: the paper's Fig. 5 and 11."""

from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.figures.style import COLORS, COLUMNS, STYLE
from batch_calibration.artifacts.grouping import SettingRecords, title
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import deviation


def can_draw(group: SettingRecords) -> bool:
    """Whether every record has BCL's curve."""
    return all(r.curve is not None for records in group.records.values() for r in records)


def draw(group: SettingRecords) -> Figure:
    """Mean and standard deviation over seeds, on test rows and on the labeled set."""
    tasks = list(group.records)
    columns = min(len(tasks), COLUMNS)
    lines = -(-len(tasks) // columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            lines, columns, figsize=(3.2 * columns, 0.8 + 2.3 * lines), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axes, task in zip(grid.flat, tasks, strict=False):
            records = group.records[task]
            kept = [record.curve for record in records if record.curve is not None]
            test = 100 * np.array([curve.test for curve in kept])
            labeled = 100 * np.array([curve.labeled for curve in kept])
            _band(axes, test, COLORS["bc"], "test rows")
            _band(axes, labeled, COLORS["cc"], "labeled rows")
            learned = np.mean(
                [record.strength for record in records if record.strength is not None]
            )
            for value, shade, style, name in (
                (0.0, COLORS["icl"], ":", "γ = 0: ICL"),
                (1.0, COLORS["bc"], "--", "γ = 1: BC"),
                (learned, "#D55E00", "-", "γ learned (mean)"),
                (STRENGTHS[test.mean(0).argmax()], COLORS["bcl"], "-.", "γ best on test"),
            ):
                axes.axvline(float(value), color=shade, linestyle=style, linewidth=1.2, label=name)
            axes.set_title(title(task), loc="left")
            axes.set_xlabel("strength γ (no unit)")
        for axes in grid.flat[len(tasks) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy (%)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        seeds = "one seed" if len(records) == 1 else f"mean ± sd of {len(records)} seeds"
        heading = f"Strength of BC, {seeds}: {group.setting}"
        figure.suptitle(fill(heading, 48 * columns), x=0.01, ha="left", fontsize=10)
    return figure


def data(group: SettingRecords) -> Cells:
    """A line for each task and strength: accuracy in %, mean over seeds."""
    rows: Cells = [["task", "strength", "test rows", "labeled rows"]]
    for task, records in group.records.items():
        kept = [record.curve for record in records if record.curve is not None]
        test = 100 * np.mean([curve.test for curve in kept], axis=0)
        labeled = 100 * np.mean([curve.labeled for curve in kept], axis=0)
        points = zip(STRENGTHS, test, labeled, strict=True)
        rows += [[task, *(f"{x:.4g}" for x in point)] for point in points]
    return rows


def _band(axes: Axes, curves: np.ndarray, shade: str, name: str) -> None:
    mean, spread = curves.mean(0), deviation(curves)
    axes.plot(STRENGTHS, mean, color=shade, label=name)
    axes.fill_between(STRENGTHS, mean - spread, mean + spread, color=shade, alpha=0.2, linewidth=0)
