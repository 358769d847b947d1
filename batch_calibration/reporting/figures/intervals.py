"""Numbers with intervals: gains by task or context, and accuracies by method."""

from collections.abc import Mapping, Sequence
from itertools import chain, compress

import numpy as np
from matplotlib.axes import Axes

from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.reporting import palette
from batch_calibration.reporting.cells import estimate_cell
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import ACCURACY, ASIDE, FAINT, INK, INTERVALS, Drawn
from batch_calibration.reporting.frame import Frame, task_title
from batch_calibration.reporting.palette import verdict_color

STEP = 5.0  # points; the axes end at a multiple of it
FARTHEST = 30.0  # points that a panel shows at most on either side of 0
MAX_NAMED = 60  # rows with names; a figure with more rows has no names
VERDICT_NOTE = (
    "Blue: a gain beyond noise, orange: a loss, gray: neither. Lines are 95 % intervals. An arrow: "
    "the end lies beyond the axis."
)
# Row -> gain, 0 to 1, and 1 if it is above noise, -1 if it is below, else 0.
GainsOfRows = Mapping[str, tuple[Estimate, int]]
Gains = Mapping[str, GainsOfRows]  # by title
Accuracies = Mapping[str, Mapping[str, Estimate]]  # title -> method -> accuracy, 0 to 1


@style.styled
def draw_forest(
    panels: Gains, rows: Sequence[str], label: str, heading: str, columns: tuple[str, str]
) -> Drawn:
    """Draws differences in points with intervals and a line at zero, a panel for each set.

    All panels have the same range, with 0 in its middle. It contains nine in ten interval ends.

    Args:
        panels: title -> row -> difference.
        rows: the rows of every panel from the top; a row is empty if its panel lacks it.
        label: the title of the horizontal axes.
        heading: the title of the figure.
        columns: the CSV headers of panels and rows.
    """
    ends: list[float] = []
    for by_row in panels.values():
        for estimate, _ in by_row.values():
            ends += [abs(100 * estimate.low), abs(100 * estimate.high)]
    reach = STEP * max(1.0, float(np.ceil(np.quantile(ends or [0.0], 0.9) / STEP)))
    reach = min(reach, FARTHEST)
    names = rows if len(rows) <= MAX_NAMED else ()
    high = 0.17 * (1 + max((style.fill_name(name).count("\n") for name in names), default=0))
    figure, grid = style.panels(
        len(panels), (2.6, 0.7 + high * max(3, len(rows))), names=names, dpi=100
    )
    lines: list[Sequence[object]] = []
    for axes, (title, by_row) in zip(grid, panels.items(), strict=True):
        axes.hlines(range(len(rows)), -reach, reach, colors=FAINT, lw=0.6, zorder=0)
        axes.axvline(0.0, color=INK, lw=1.0, zorder=0)
        places = {row: float(place) for place, row in enumerate(rows) if row in by_row}
        if places:
            _draw_differences(axes, places, by_row, reach)
        for row in places:
            names = [title, row] if columns[0] else [row]
            lines.append([*names, *(100 * end for end in by_row[row][0])])
        style.label(axes, title, label, width=2.6)
        style.name_ticks(axes.yaxis, rows, is_shown=bool(names))
        axes.set_xlim(-1.08 * reach, 1.08 * reach)
    header = [*filter(None, columns), "gain", "low", "high"]
    return style.finish(figure, heading, VERDICT_NOTE, [header, *lines])


def _draw_differences(
    axes: Axes, places: Mapping[str, float], by_row: GainsOfRows, reach: float
) -> None:
    """Draws dots and intervals; arrows mark ends beyond the axis, a dot there has its number."""
    value, low, high = 100 * np.array([by_row[row][0] for row in places]).T  # [row] each
    at, colors = np.array(list(places.values())), [verdict_color(by_row[row][1]) for row in places]
    shown, left, right = (np.clip(ends, -reach, reach) for ends in (value, low, high))
    axes.hlines(at, left, right, colors=colors, lw=1.4)
    titles = [f"{row}: {estimate_cell(by_row[row][0])}" for row in places]
    style.dots(axes, shown, at, colors, titles)
    for is_beyond, edge, marker in ((low < -reach, -reach, "<"), (high > reach, reach, ">")):
        edges, its_colors = np.full(int(is_beyond.sum()), edge), [*compress(colors, is_beyond)]
        style.dots(axes, edges, at[is_beyond], its_colors, size=4.0, marker=marker)
    for number, x, y in zip(value, shown, at, strict=True):
        if number != x:
            aside, side = (-6, "right") if number > 0 else (6, "left")
            # The number is above its own interval, which may reach to both sides of it.
            axes.annotate(f"{number:+.0f}", (x, y), (aside, 1), ha=side, va="bottom", **ASIDE)


def draw_gains(group: Frame, methods: Sequence[str]) -> Drawn:
    """Draws the gain of each method on each task and its 95 % interval, and their average.

    All methods must be in `group.compared`.
    """
    rows = list(map(task_title, group.tasks))
    rows += ["average"] if len(rows) > 1 else []
    panels = {}
    for method in methods:
        estimates = list(group.gains(method).values())
        estimates.append(over_tasks(estimates))
        # One task has no average, and zip drops it.
        pairs = [(estimate, estimate.beyond_noise) for estimate in estimates]
        panels[method] = dict(zip(rows, pairs, strict=False))
    heading = f"Gain over icl, task by task: {group.heading}"
    return draw_forest(panels, rows, "gain over icl (points)", heading, ("method", "task"))


def draw_contexts(gains_by_context: Mapping[str, Estimate], heading: str) -> Drawn:
    """Draws the gain of each context in descending order, many contexts as thin lines."""
    names = sorted(gains_by_context, key=lambda name: -gains_by_context[name].value)
    pairs = {name: (gains_by_context[name], gains_by_context[name].beyond_noise) for name in names}
    label = "gain in accuracy (points)"
    if len(names) <= MAX_NAMED:
        return draw_forest({"gain": pairs}, names, label, heading, ("", "context"))
    numbers = 100 * np.array([gains_by_context[name] for name in names])  # [context 3]
    colors = [verdict_color(pairs[name][1]) for name in names]
    axes_titles = "contexts, the largest gain first", label
    return draw_strip("gain", names, numbers, colors, axes_titles, heading, VERDICT_NOTE)


@style.styled
def draw_strip(
    kind: str, names: Sequence[str], numbers: np.ndarray, color: str | Sequence[str],
    axes_titles: tuple[str, str], heading: str, note: str,
) -> Drawn:  # fmt: skip
    """Draws a thin line for each context by rank; `numbers` are values and ends [context 3]."""
    ranks, (value, low, high) = np.arange(1.0, len(names) + 1), numbers.T
    figure, (axes,) = style.panels(1, (8.0, 3.0), dpi=100)
    axes.axhline(0.0, color=INK, lw=1.0, zorder=0)
    axes.vlines(ranks, low, high, colors=color, lw=1.4, rasterized=len(names) > style.MAX_VECTOR)
    titles = [f"{name}: {number:.3g}" for name, number in zip(names, value, strict=True)]
    style.dots(axes, ranks, value, color, titles, size=3)
    style.label(axes, "", *axes_titles)
    rows = zip(ranks, *numbers.T, names, strict=True)
    return style.finish(figure, heading, note, [["rank", kind, "low", "high", "context"], *rows])


@style.styled
def draw_estimates(panels: Accuracies, heading: str) -> Drawn:
    """Draws a dot and its interval for each method, and a dotted line for the first method."""
    methods = list(dict.fromkeys(chain.from_iterable(panels.values())))
    estimates = chain.from_iterable(panel.values() for panel in panels.values())
    ends = [100 * end for end in chain.from_iterable(estimates)]
    figure, grid = style.panels(len(panels), (3.2, 0.7 + 0.28 * len(methods)), names=methods)
    rows: list[Sequence[object]] = [["panel", "method", "accuracy", "low", "high"]]
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        first = 100 * next(iter(panel.values())).value
        axes.axvline(first, color=palette.color(methods[0]), ls=":", lw=1.0, zorder=0)
        value, low, high = 100 * np.array(list(panel.values())).T  # [method] each
        places = [float(methods.index(method)) for method in panel]
        colors = list(map(palette.color, panel))
        axes.hlines(places, low, high, colors=colors, lw=1.4)
        style.dots(axes, value, places, colors, style.percents(panel, value))
        for number, place in zip(value, places, strict=True):
            axes.annotate(f"{number:.1f}", (number, place), (0, 4), ha="center", **ASIDE)
        rows += [[title, *line] for line in zip(panel, value, low, high, strict=True)]
        style.label(axes, title, ACCURACY, width=3.2)
        style.name_ticks(axes.yaxis, methods)
        axes.set_xlim(min(ends) - 2, max(ends) + 2)
    return style.finish(figure, heading, f"{INTERVALS} Dotted: {methods[0]}.", rows)
