"""Draws a chart with matplotlib, for files of PNG, PDF and SVG."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from batch_calibration.reporting.figures import marks, style
from batch_calibration.reporting.figures.chart import Axis, Chart, Panel, shown_marks
from batch_calibration.reporting.figures.marks import Mark

COLORS = {marks.INK: "#000000", marks.FAINT: "#eeeeee"}
DASHES: dict[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 1, 3)),
}  # fmt: skip
SYMBOLS = {"circle": "o", "diamond": "D", "star": "*", "triangle-left": "<", "triangle-right": ">"}
LETTER = 0.065  # inches of a letter in the names of an axis
MAX_UPRIGHT = 4  # of more names below a panel all are turned


def draw(chart: Chart) -> Figure:
    """The figure, at the size and with the numbers that the chart says."""
    with plt.rc_context({**style.STYLE, "figure.dpi": chart.dpi}):
        # Names beside the panels need their own inches, once where panels share them.
        name_inches = LETTER * min(max(panel.y.longest_name for panel in chart.panels), 34)
        width, height = chart.size
        own, once = (0.0, name_inches) if chart.shares_y else (name_inches, 0.0)
        count, columns = len(chart.panels), min(len(chart.panels), chart.across)
        lines = -(-count // columns)
        wide = 1 + once + columns * (width + own)
        figure, grid = plt.subplots(
            lines, columns, squeeze=False, layout="constrained", sharey=chart.shares_y,
            figsize=(wide, 1.1 + lines * height),
        )  # fmt: skip
        for axes in grid.flat[count:]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, chart.panels, strict=False):
            _draw_panel(axes, panel, letters=int(12 * width))
            # A title that the panels share stands once a line.
            if axes.get_subplotspec().is_first_col() or panel.y.title != chart.panels[0].y.title:
                axes.set_ylabel(panel.y.title)
        # What the colors of cells mean.
        for heat in [mark for mark in chart.panels[0].marks if isinstance(mark, marks.Heat)]:
            figure.colorbar(grid[0][0].images[0], ax=grid, label=heat.label, shrink=0.8)
        _add_legend(figure, grid)
        heading = " ".join(filter(None, (f"{chart.heading}.", chart.note)))
        figure.suptitle(fill(heading, max(int(15 * wide), 60)), x=0.01, ha="left", fontsize=9)
    return figure


def _draw_panel(axes: Axes, panel: Panel, letters: int) -> None:
    """A panel but for the title of its vertical axis; lines of text have so many letters."""
    for mark in shown_marks(panel):
        _draw_mark(axes, mark)
    axes.set_xlabel(fill(panel.x.title, letters))
    _set_axis(axes, panel.x, "x")
    _set_axis(axes, panel.y, "y")
    if panel.is_square:
        axes.set_aspect("equal")
    lines = (panel.title or panel.name).split("\n")
    axes.set_title("\n".join(fill(line, letters) for line in lines), loc="left")


def _add_legend(figure: Figure, grid: np.ndarray) -> None:
    """A legend below the panels, of each name once."""
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    wide = figure.get_size_inches()[0]
    if len(handles) > 1:
        longest = max(map(len, handles))
        columns = max(1, int(wide / (0.5 + LETTER * longest)))
        legend = figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=columns
        )
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):  # dots, of which small ones show no color
                handle.set_sizes([20])


def _color(color: str | Sequence[str]) -> Any:
    """The colors of matplotlib: of one mark, or of each of several."""
    return COLORS.get(color, color) if isinstance(color, str) else list(map(_color, color))


def _draw_mark(axes: Axes, mark: Mark) -> None:
    match mark:
        case marks.Line():
            color = _color(mark.color)
            axes.plot(
                mark.x, mark.y, marker="o" if mark.has_dots else None, ls=DASHES[mark.dash], ms=3,
                color=color, lw=mark.width, label=mark.name or None,
            )  # fmt: skip
            if mark.low is not None and mark.high is not None:
                axes.fill_between(mark.x, mark.low, mark.high, color=color, alpha=mark.alpha, lw=0)
        case marks.Dots():
            _draw_dots(axes, mark)
        case marks.Spans():
            lines = axes.hlines if mark.along == "x" else axes.vlines
            lines(mark.at, mark.low, mark.high, colors=_color(mark.color), lw=mark.width)
        case marks.Bars():
            _draw_bars(axes, mark)
        case marks.Rule():
            rule = axes.axvline if mark.along == "y" else axes.axhline
            rule(mark.at, color=_color(mark.color), ls=DASHES[mark.dash], lw=mark.width,
                 label=mark.name or None, zorder=0)  # fmt: skip
        case marks.Heat():
            _draw_heat(axes, mark)
        case marks.Field():
            axes.contourf(mark.ticks, mark.ticks, mark.values, levels=[-1e9, 0, 1e9],
                          colors=mark.colors, alpha=0.1)  # fmt: skip


def _draw_dots(axes: Axes, mark: marks.Dots) -> None:
    if spans := mark.spans():
        _draw_mark(axes, spans)
    color = _color(mark.color)
    hollow = {"edgecolors": color, "facecolors": "white", "linewidths": 1.2}
    axes.scatter(
        mark.x, mark.y, s=mark.size**2, marker=SYMBOLS[mark.symbol], alpha=mark.alpha, zorder=3,
        label=mark.name or None, **(hollow if mark.is_hollow else {"c": color, "linewidths": 0}),
    )  # fmt: skip
    for x, y, text in zip(mark.x, mark.y, mark.texts, strict=False):
        axes.annotate(text, (x, y), (0, 4), textcoords="offset points", ha="center", fontsize=7)


def _draw_bars(axes: Axes, mark: marks.Bars) -> None:
    low, color = np.zeros(len(mark.at)) if mark.low is None else mark.low, _color(mark.color)
    edge = {"edgecolor": color, "linewidth": 0.8} if mark.has_edge else {}
    axes.bar(
        mark.at, np.asarray(mark.high) - low, mark.width, low, color=color, alpha=mark.alpha,
        label=mark.name or None, **edge,
    )  # fmt: skip


def _draw_heat(axes: Axes, mark: marks.Heat) -> None:
    scale = LinearSegmentedColormap.from_list("scale", mark.colors)
    axes.imshow(mark.values, cmap=scale, vmin=mark.low, vmax=mark.high, aspect="auto")
    for (y, x), number in np.ndenumerate(mark.values):
        if np.isnan(number):
            continue
        red, green, blue, _ = scale((number - mark.low) / (mark.high - mark.low))
        # Black on light cells, white on dark ones.
        is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.5
        size, shade = 7 if mark.digits else 5.5, "black" if is_light else "white"
        # Adding 0 makes 0 of -0.
        text = f"{round(float(number), mark.digits) + 0.0:.{mark.digits}f}"
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=shade)


def _set_axis(axes: Axes, axis: Axis, letter: str) -> None:
    set_ticks = getattr(axes, f"set_{letter}ticks")
    if axis.is_log:
        getattr(axes, f"set_{letter}scale")("log")
    if axis.names is not None:
        names = [fill(" ".join(name.split()), 34) for name in axis.names]
        is_turned = letter == "x" and len(names) > MAX_UPRIGHT and max(map(len, names)) > 4
        shown = names if axis.shows_names else [""] * len(names)
        set_ticks(range(len(names)), shown, rotation=60 if is_turned else 0)
    elif axis.ticks is not None:
        is_turned = axis.is_log and letter == "x"
        set_ticks(axis.ticks, axis.tick_texts, rotation=45 if is_turned else 0)
        axes.minorticks_off()
    if axis.ends is not None:
        getattr(axes, f"set_{letter}lim")(*axis.ends)
