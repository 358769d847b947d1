"""Draws numbers with their intervals: gains by task or method, accuracies by method (Fig. 1, 7)."""

from collections.abc import Mapping, Sequence
from itertools import chain
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells, task_cell
from batch_calibration.artifacts.figures.style import SCREEN_DPI, make_panels, set_heading, styled
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.artifacts.method_display import FIGURE, GRAY, VERDICTS
from batch_calibration.metrics import Estimate, over_tasks

# What `draw_forest` calls a gain by its sign.
VERDICT_OF_SIGN = {1: "gain", 0: "inside the noise", -1: "loss"}
STEP = 5.0  # the axes end at a multiple of so many points
FARTHEST = 30.0  # a panel shows so many points on either side, at most
Interval = tuple[float, float, float, str]  # a difference, its ends, and the verdict on it
Panels = Mapping[str, Mapping[str, Estimate]]  # title -> method -> accuracy, 0 to 1


@styled(SCREEN_DPI)
def draw_forest(
    panels: Mapping[str, Mapping[str, Interval]],
    rows: Sequence[str],
    label: str,
    reach: float | None = None,
    heading: str = "",
) -> Figure:
    """A panel a set: differences in points, a row each, with intervals and a line at zero.

    What lies beyond `FARTHEST` points is drawn at the edge, with its number beside it; the end of
    an interval beyond is an arrow.

    Args:
        panels: title -> row -> difference, low, high, verdict.
        rows: names from the top; one without a difference in a panel is left empty.
        label: of the horizontal axes.
        reach: so many points on either side of zero are shown in all panels, what lies beyond as
            above; without it each panel shows what it has.
        heading: above the panels.
    """
    size = 0.7 + 0.17 * len(rows)
    figure, grid = make_panels(len(panels), (1.6, 2.6), (0.5, size), sharey=True)
    for axes, (title, intervals) in zip(grid.flat, panels.items(), strict=False):
        _draw_forest_panel(axes, intervals, rows, reach)
        axes.set_title(fill(title, 32), loc="left")
        axes.set_xlabel(label)
    if heading:
        set_heading(figure, heading, 45 * grid.shape[1], 9)
    grid[0][0].set_yticks(range(len(rows)), rows)
    for axes in grid[:, 0]:
        axes.tick_params(axis="y", labelsize=8)
    grid[0][0].set_ylim(len(rows) - 0.4, -0.6)
    return figure


def _draw_forest_panel(
    axes: Axes, intervals: Mapping[str, Interval], rows: Sequence[str], reach: float | None
) -> None:
    ends = np.array([interval[:3] for interval in intervals.values()] or [(0.0, 0.0, 0.0)])
    left = max(-FARTHEST, min(float(ends.min()), -0.5)) if reach is None else -reach
    right = min(FARTHEST, max(float(ends.max()), 0.5)) if reach is None else reach
    axes.axvline(0, color="black", lw=0.8)
    for y, name in enumerate(rows):
        axes.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
        if name not in intervals:
            continue
        middle, low, high, verdict = intervals[name]
        shade = VERDICTS.get(verdict, GRAY)
        axes.plot(np.clip([low, high], left, right), [y] * 2, color=shade, lw=1.4)
        axes.plot(np.clip(middle, left, right), y, "o", color=shade, ms=3.5)
        # An arrow at the edge where an end lies beyond it.
        if low < left:
            axes.plot(left, y, "<", color=shade, ms=4)
        if high > right:
            axes.plot(right, y, ">", color=shade, ms=4)
        if not left <= middle <= right:
            edge, side = (right, "right") if middle > 0 else (left, "left")
            axes.annotate(
                f"{middle:+.0f}", (edge, y), (4 if middle < 0 else -4, 1),
                textcoords="offset points", ha=side, va="bottom", fontsize=6, color=shade,
            )  # fmt: skip
    space = 0.04 * (right - left)
    axes.set_xlim(left - space, right + space)


def draw_gains(group: SettingRecords, methods: Sequence[str]) -> Figure:
    """The gain of each method on each task in points, and its 95 % interval; last their average.

    The axes hold nine in ten of all ends; what is beyond is at the edge, with its number.

    Args:
        group: the records of a setting.
        methods: those whose gain over icl is known.
    """
    rows = [task_cell(task, records) for task, records in group.records.items()]
    rows += ["average"] if len(rows) > 1 else []
    panels: dict[str, dict[str, Interval]] = {}
    ends = []
    for method in methods:
        estimates = list(gains.gain_by_task(group, method).values())
        estimates.append(over_tasks(estimates))
        panels[method] = {}
        # Of one task there is no average: zip leaves it out.
        for name, (middle, low, high), gain in zip(rows, estimates, estimates, strict=False):
            verdict = VERDICT_OF_SIGN[gain.beyond_noise]
            panels[method][name] = (100 * middle, 100 * low, 100 * high, verdict)
            ends += [abs(100 * low), abs(100 * high)]
    reach = STEP * max(1.0, float(np.ceil(np.quantile(ends, 0.9) / STEP)))
    heading = (
        f"Gain over icl, {group.setting}. Blue: a gain beyond noise (95 %), orange: a loss, gray: "
        "0 is inside the interval."
    )
    return draw_forest(panels, rows, "gain over icl (points)", reach, heading)


@styled()
def draw_estimates(panels: Panels, heading: str) -> Figure:
    """A dot and its interval for each method; the dotted line is the first method's."""
    methods = list(dict.fromkeys(chain.from_iterable(panels.values())))
    size = 0.7 + 0.28 * len(methods)
    figure, grid = make_panels(len(panels), (1, 3.2), (0.9, size), sharey=True)
    for axes, (title, panel) in zip(grid.flat, panels.items(), strict=False):
        first = next(iter(panel.values()))
        axes.axvline(100 * first.value, color=FIGURE.color(methods[0]), ls=":", lw=1)
        for method, estimate in panel.items():
            y, shade, percent = methods.index(method), FIGURE.color(method), 100 * estimate.value
            axes.plot([100 * estimate.low, 100 * estimate.high], [y] * 2, color=shade, lw=1.6)
            axes.plot(percent, y, "o", color=shade, ms=5)
            axes.annotate(
                f"{percent:.1f}", (percent, y), (0, 5), textcoords="offset points", ha="center",
                fontsize=8,
            )  # fmt: skip
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(len(methods) - 0.4, -0.8)
        axes.set_title(fill(title, 40), loc="left")
        axes.set_xlabel("accuracy (%), 95 % interval")
    set_heading(figure, heading, 44 * grid.shape[1])
    return figure


def estimate_cells(panels: Panels) -> Cells:
    """A line a dot: accuracy and its interval, in %."""
    rows: Cells = [["panel", "method", "accuracy", "low", "high"]]
    for title, panel in panels.items():
        for method, estimate in panel.items():
            rows.append([title, method, *(f"{100 * end:.4g}" for end in estimate)])
    return rows
