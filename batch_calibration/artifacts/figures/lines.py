"""Draws accuracy against a number: shots, rows (Fig. 6, 9), the strength γ (Fig. 5, 11)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.curves import Curves, mean_and_band
from batch_calibration.artifacts.figures import style
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, task_title
from batch_calibration.artifacts.method_display import FIGURE, figure_dash
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import deviation
from batch_calibration.store import Curve, Record

LEARNED_COLOR = "#D55E00"
NATS_TICKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
MIN_GAIN_SHOWN = -12.0  # gains are shown from so many points on
# Method -> values by size, and whether they are drawn on a logarithmic axis.
Panel = tuple[Mapping[str, np.ndarray], bool]


@style.styled()
def draw_curves(curves: Curves) -> Figure:
    """A panel a task, a line a method, its band one standard deviation (by n - 1, as in tables).

    Of a mean over many random orders the band is its standard error; a dashed line is a level.
    """
    figure, grid = style.make_panels(len(curves.tasks), (1, 3), (0.6, 2.6))
    for axes, task in zip(grid.flat, curves.tasks, strict=False):
        _draw_curves_panel(axes, curves, task)
        axes.set_title(task_title(task), loc="left")
        axes.set_xlabel(curves.axis)
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy (%)")
    style.add_legend(figure, grid)
    band = "standard error of the mean" if curves.of_mean else "standard deviation of the draws"
    style.set_heading(figure, f"{curves.heading}. Band: {band}.", 48 * grid.shape[1])
    return figure


def _draw_curves_panel(axes: Axes, curves: Curves, task: str) -> None:
    numbers = sorted(set().union(*curves.tasks[task].values()))
    is_far = numbers[-1] > 20
    if is_far:
        axes.set_xscale("log")
    for method, points in curves.tasks[task].items():
        at, mean, band = mean_and_band(points, of_mean=curves.of_mean)
        shade = FIGURE.color(method)
        # What is compared stands out: five bands of one strength cannot be told apart.
        width, alpha = (2.2, 0.25) if method in REFERENCES else (1, 0.06)
        axes.plot(at, mean, "o-", ms=3, color=shade, label=method, lw=width)
        axes.fill_between(at, mean - band, mean + band, color=shade, alpha=alpha, lw=0)
    for method, level in curves.levels.get(task, {}).items():
        label = f"{method}, all rows"
        axes.axhline(level, ls="--", lw=1, color=FIGURE.color(method), label=label)
    axes.set_xticks(numbers, list(map(str, numbers)), rotation=45 if is_far else 0)
    axes.minorticks_off()


def has_strength(group: SettingRecords) -> bool:
    """Whether every record has BCL's curve."""
    return all(record.curve is not None for record in group.all_records)


@style.styled()
def draw_strength(group: SettingRecords) -> Figure:
    """Accuracy against γ, a panel a task: mean and deviation over seeds, test and labeled rows."""
    figure, grid = style.make_panels(len(group.records), (0, 3.2), (0.8, 2.3))
    for axes, (task, records) in zip(grid.flat, group.records.items(), strict=False):
        test, labeled = _strength_curves(records)
        draw_band(axes, test, FIGURE.color("bc"), "test rows")
        draw_band(axes, labeled, FIGURE.color("cc"), "labeled rows")
        learned = np.mean([record.strength for record in records if record.strength is not None])
        for strength, shade, dash, label in (
            (0.0, FIGURE.color("icl"), ":", "γ = 0: ICL"),
            (1.0, FIGURE.color("bc"), "--", "γ = 1: BC"),
            (learned, LEARNED_COLOR, "-", "γ learned (mean)"),
            (STRENGTHS[test.mean(0).argmax()], FIGURE.color("bcl"), "-.", "γ best on test"),
        ):
            axes.axvline(float(strength), color=shade, linestyle=dash, linewidth=1.2, label=label)
        axes.set_title(task_title(task), loc="left")
        axes.set_xlabel("strength γ (no unit)")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy (%)")
    style.add_legend(figure, grid, 3)
    seeds = "one seed" if len(records) == 1 else f"mean ± sd of {len(records)} seeds"
    style.set_heading(figure, f"Strength of BC, {seeds}: {group.setting}", 48 * grid.shape[1])
    return figure


def strength_cells(group: SettingRecords) -> Cells:
    """A line for each task and strength: accuracy in %, mean over seeds."""
    rows: Cells = [["task", "strength", "test rows", "labeled rows"]]
    for task, records in group.records.items():
        curves = [_curve(record) for record in records]
        # The mean before it is made percent, as the CSV has always been.
        test = 100 * np.mean([curve.test for curve in curves], axis=0)
        labeled = 100 * np.mean([curve.labeled for curve in curves], axis=0)
        for point in zip(STRENGTHS, test, labeled, strict=True):
            rows.append([task, *map("{:.4g}".format, point)])
    return rows


def _strength_curves(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy in % on test rows and on labeled rows, [seed strength]."""
    curves = list(map(_curve, records))
    test = 100 * np.array([curve.test for curve in curves])
    return test, 100 * np.array([curve.labeled for curve in curves])


def _curve(record: Record) -> Curve:
    assert record.curve  # see `has_strength`
    return record.curve


def draw_band(axes: Axes, curves: np.ndarray, shade: str, name: str) -> None:
    """The mean of curves [seed strength], and one standard deviation on either side."""
    mean, band = curves.mean(0), deviation(curves)  # [strength] both
    axes.plot(STRENGTHS, mean, color=shade, label=name)
    axes.fill_between(STRENGTHS, mean - band, mean + band, color=shade, alpha=0.2, linewidth=0)


@style.styled(style.SCREEN_DPI)
def draw_learning(lines: Sequence[Mapping[str, Panel]], sizes: Sequence[Sequence[int]]) -> Figure:
    """What methods reach against the rows they learned from, a line of panels a kind of rows.

    Args:
        lines: title -> panel, of each line.
        sizes: rows learned from, of each line.
    """
    columns = max(map(len, lines))
    figure, grid = style.make_panels(len(lines) * columns, (0, 4.2), (0, 3.1), columns=columns)
    for row, panels, at in zip(grid, lines, sizes, strict=True):
        for axes, (title, panel) in zip(row, panels.items(), strict=False):
            _draw_learning_panel(axes, panel, np.array(at))
            axes.set_title(title, loc="left")
            axes.set_xlabel("rows learned from")
            axes.legend(fontsize=6, ncols=2)
    return figure


def _draw_learning_panel(axes: Axes, panel: Panel, sizes: np.ndarray) -> None:
    curves, is_logarithmic = panel
    for method, heights in curves.items():
        # A logarithmic axis has no place for 0.
        kept = heights > 0 if is_logarithmic else np.ones(len(heights), bool)
        shade, dash = FIGURE.color(method), figure_dash(method)
        axes.plot(sizes[kept], heights[kept], dash, color=shade, label=method)
    axes.set_xscale("log")
    ticks = [10**power for power in range(5) if 10**power <= sizes[-1]]
    axes.set_xticks(ticks, list(map("{:,}".format, ticks)))
    if is_logarithmic:
        axes.set_yscale("log")
        axes.set_yticks(NATS_TICKS, list(map("{:g}".format, NATS_TICKS)))
        axes.set_ylim(NATS_TICKS[0], NATS_TICKS[-1])
        axes.minorticks_off()
    else:
        axes.axhline(0, color="black", lw=0.8)
        highest = max((heights.max() for heights in curves.values()), default=1.0)
        axes.set_ylim(MIN_GAIN_SHOWN, highest + 1)
