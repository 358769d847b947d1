"""Draws a chart with matplotlib, for files of PNG, PDF and SVG."""

import io
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.chart import (
    FAINT,
    INK,
    Axis,
    Bars,
    Chart,
    Dots,
    Field,
    Heat,
    Line,
    Mark,
    Panel,
    Rule,
    Spans,
    shown_marks,
)
from batch_calibration.artifacts.figures.style import styled

COLORS = {INK: "#000000", FAINT: "#eeeeee"}
DASHES: dict[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 1, 3)),
}  # fmt: skip
SYMBOLS = {"circle": "o", "diamond": "D", "star": "*", "triangle-left": "<", "triangle-right": ">"}
LETTER = 0.065  # inches of a letter in the names of an axis
MAX_UPRIGHT = 4  # of more names below a panel all are turned


def draw(chart: Chart) -> Figure:
    """The figure, at the size and with the numbers that the chart says."""
    with styled(chart.dpi):
        return _draw(chart)


def to_png(chart: Chart) -> bytes:
    """The figure as a file of PNG."""
    buffer, figure = io.BytesIO(), draw(chart)
    figure.savefig(buffer, format="png", bbox_inches="tight")
    plt.close(figure)
    return buffer.getvalue()


def _draw(chart: Chart) -> Figure:
    # Names beside the panels need their own inches, once where panels share them.
    longest = max((len(name) for panel in chart.panels for name in _names_beside(panel)), default=0)
    beside = LETTER * min(longest, 34)
    width, height = chart.size
    own, once = (0.0, beside) if chart.shares_y else (beside, 0.0)
    count, columns = len(chart.panels), min(len(chart.panels), chart.across)
    lines = -(-count // columns)
    wide = 1 + once + columns * (width + own)
    figure, grid = plt.subplots(
        lines, columns, squeeze=False, layout="constrained", figsize=(wide, 1.1 + lines * height),
        sharey=chart.shares_y,
    )  # fmt: skip
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    letters = int(12 * width)
    for axes, panel in zip(grid.flat, chart.panels, strict=False):
        for mark in shown_marks(panel):
            _draw_mark(axes, mark)
        # A title that the panels share stands once a line.
        is_first = axes.get_subplotspec().is_first_col()
        _set_axes(axes, panel, letters, is_first or panel.y.title != chart.panels[0].y.title)
        title = panel.title or panel.name
        axes.set_title("\n".join(fill(line, letters) for line in title.split("\n")), loc="left")
    _add_bar(figure, grid, chart)
    _add_legend(figure, grid, chart)
    heading = " ".join(filter(None, (f"{chart.heading}.", chart.note)))
    figure.suptitle(fill(heading, max(int(15 * wide), 60)), x=0.01, ha="left", fontsize=9)
    return figure


def _names_beside(panel: Panel) -> Sequence[str]:
    return panel.y.names or () if panel.y.shows_names else ()


def _add_bar(figure: Figure, grid: np.ndarray, chart: Chart) -> None:
    """What the colors of cells mean."""
    heats = [mark for mark in chart.panels[0].marks if isinstance(mark, Heat)]
    if heats:
        figure.colorbar(grid[0][0].images[0], ax=grid, label=heats[0].label, shrink=0.8)


def _add_legend(figure: Figure, grid: np.ndarray, chart: Chart) -> None:
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
        case Line():
            color = _color(mark.color)
            axes.plot(
                mark.x, mark.y, marker="o" if mark.has_dots else None, ls=DASHES[mark.dash], ms=3,
                color=color, lw=mark.width, label=mark.name or None,
            )  # fmt: skip
            if mark.low is not None and mark.high is not None:
                axes.fill_between(mark.x, mark.low, mark.high, color=color, alpha=mark.alpha, lw=0)
        case Dots():
            if spans := mark.spans():
                _draw_mark(axes, spans)
            _draw_dots(axes, mark)
        case Spans():
            lines = axes.hlines if mark.along == "x" else axes.vlines
            lines(
                mark.at, mark.low, mark.high, colors=_color(mark.color), lw=mark.width,
                label=mark.name,
            )  # fmt: skip
        case Bars():
            _draw_bars(axes, mark)
        case Rule():
            rule = axes.axvline if mark.along == "y" else axes.axhline
            rule(mark.at, color=_color(mark.color), ls=DASHES[mark.dash], lw=mark.width,
                 label=mark.name or None, zorder=0)  # fmt: skip
        case Heat():
            _draw_heat(axes, mark)
        case Field():
            axes.contourf(mark.ticks, mark.ticks, mark.values, levels=[-1e9, 0, 1e9],
                          colors=mark.colors, alpha=0.1)  # fmt: skip


def _draw_dots(axes: Axes, mark: Dots) -> None:
    color = _color(mark.color)
    inside = {"facecolors": "white"} if mark.is_hollow else {}
    axes.scatter(
        mark.x, mark.y, s=mark.size**2, marker=SYMBOLS[mark.symbol], alpha=mark.alpha, zorder=3,
        linewidths=1.2 if mark.is_hollow else 0, label=mark.name or None,
        **({"edgecolors": color, **inside} if mark.is_hollow else {"c": color}),
    )  # fmt: skip
    for x, y, text in zip(mark.x, mark.y, mark.texts, strict=False):
        axes.annotate(text, (x, y), (0, 4), textcoords="offset points", ha="center", fontsize=7)


def _draw_bars(axes: Axes, mark: Bars) -> None:
    low = np.zeros(len(mark.at)) if mark.low is None else np.asarray(mark.low)
    is_upright = mark.along == "y"
    draw_bars: Any = axes.bar if is_upright else axes.barh
    length, thickness = ("bottom", "width") if is_upright else ("left", "height")
    edge = {"edgecolor": _color(mark.color), "linewidth": 0.8} if mark.has_edge else {}
    draw_bars(
        mark.at, np.asarray(mark.high) - low, color=_color(mark.color), alpha=mark.alpha,
        label=mark.name or None, **{length: low, thickness: mark.width}, **edge,
    )  # fmt: skip


def _draw_heat(axes: Axes, mark: Heat) -> None:
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


def _set_axes(axes: Axes, panel: Panel, letters: int, has_y_title: bool) -> None:
    x, y = panel.x, panel.y
    axes.set_xlabel(fill(x.title, letters))
    if has_y_title:
        axes.set_ylabel(y.title)
    for axis, letter in ((x, "x"), (y, "y")):
        _set_axis(axes, axis, letter)
    if panel.is_square:
        axes.set_aspect("equal")


def _set_axis(axes: Axes, axis: Axis, letter: str) -> None:
    set_ticks = getattr(axes, f"set_{letter}ticks")
    if axis.is_log:
        getattr(axes, f"set_{letter}scale")("log")
    if axis.names is not None:
        names = [fill(" ".join(name.split()), 34) for name in axis.names]
        is_turned = letter == "x" and len(names) > MAX_UPRIGHT
        set_ticks(range(len(names)), names if axis.shows_names else [""] * len(names),
                  rotation=60 if is_turned and max(map(len, names)) > 4 else 0)  # fmt: skip
        ends = (-0.6, len(names) - 0.4)
        getattr(axes, f"set_{letter}lim")(*(ends[::-1] if axis.from_top else ends))
    if axis.ticks is not None:
        set_ticks(axis.ticks, [f"{tick:,g}" for tick in axis.ticks],
                  rotation=45 if axis.is_log and letter == "x" else 0)  # fmt: skip
        axes.minorticks_off()
    if axis.limits is not None:
        pad = 0.04 * (axis.limits[1] - axis.limits[0]) if axis.clips else 0.0
        getattr(axes, f"set_{letter}lim")(axis.limits[0] - pad, axis.limits[1] + pad)
