"""Figures that only the evidence uses: heat maps of gains."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from batch_calibration.metrics import Estimate
from batch_calibration.reporting.figures import style

FARTHEST = 15.0  # points at which the color scale ends
# Orange for losses and violet for gains differ for all kinds of color vision.
ORANGE_TO_VIOLET = ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b")
CELL_INK = "#010101"  # color of a number in a light cell, which stays light on a dark page


def forest_row(value: float, low: float, high: float, sign: int) -> tuple[Estimate, int]:
    """Converts a difference in points to a row of `draw_forest` (in shares, colored by `sign`)."""
    return Estimate(value / 100, low / 100, high / 100), sign


@style.styled
def draw_maps(
    maps: Mapping[str, np.ndarray], across: Sequence[str], down: Sequence[str],
    titles: tuple[str, str, str], size: tuple[float, float], ends: tuple[float, float],
    colors: Sequence[str], *, digits: int, columns: int = 4, from_top: bool = True, dpi: int = 150,
) -> Figure:  # fmt: skip
    """Draws a panel for each map: a cell for each pair of names with its number; NaN is empty.

    Args:
        maps: title -> values [down across].
        across: names of the columns.
        down: names of the lines.
        titles: of the axes, horizontal and vertical, and of the colors.
        size: inches of a panel.
        ends: values of the first and the last color.
        colors: from one end to the other.
        digits: of a number behind the point.
        columns: panels side by side.
        from_top: whether the first line is on top.
        dpi: dots an inch.
    """
    figure, grid = style.panels(len(maps), size, columns, names=down, dpi=dpi)
    scale = LinearSegmentedColormap.from_list("scale", list(colors))
    for axes, (title, values) in zip(grid, maps.items(), strict=True):
        image = axes.imshow(values, cmap=scale, vmin=ends[0], vmax=ends[1], aspect="auto")
        _write_numbers(axes, values, ends, scale, digits)
        style.label(axes, title, *titles[:2], width=size[0])
        style.name_ticks(axes.xaxis, across)
        style.name_ticks(axes.yaxis, down, from_top=from_top)
    figure.colorbar(image, ax=grid, label=titles[2], shrink=0.8)
    return figure


def _write_numbers(
    axes: Axes, values: np.ndarray, ends: tuple[float, float], scale: Colormap, digits: int
) -> None:
    """Writes each number into its cell."""
    for (y, x), number in np.ndenumerate(values):
        if np.isnan(number):
            continue
        red, green, blue, _ = scale((number - ends[0]) / ((ends[1] - ends[0]) or 1.0))
        # Black on light cells, white on dark ones.
        is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.5
        # Adding 0 makes 0 of -0.
        text = f"{round(float(number), digits) + 0.0:.{digits}f}"
        color, size = CELL_INK if is_light else "#fefefe", 7 if digits else 5.5
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)


def gain_maps(
    panels: Mapping[str, np.ndarray],
    across: Sequence[str],
    up: Sequence[str],
    labels: tuple[str, str, str],
    heading: str,
    columns: int = 4,
) -> Figure:
    """Draws a heat map of gains in points for each panel, violet above zero and orange below.

    Args:
        panels: title -> gains[x y].
        across: names of the x values.
        up: names of the y values, from the bottom.
        labels: labels of the x axis, the y axis and the color bar.
        heading: heading of the figure.
        columns: number of panels in a line.
    """
    maps = {title: gains.T for title, gains in panels.items()}
    size = 0.5 + 0.24 * len(across), 0.75 + 0.2 * len(up)
    figure = draw_maps(
        maps, across, up, labels, size, (-FARTHEST, FARTHEST), ORANGE_TO_VIOLET, digits=0,
        columns=columns, from_top=False, dpi=100,
    )  # fmt: skip
    return style.finish(figure, heading, "", []).figure
