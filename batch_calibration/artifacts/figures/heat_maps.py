"""Draws heat maps of gains in points, side by side, with the number in each cell."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE

FARTHEST = 15.0
"""The color of so many points, and of all beyond."""


def draw(
    panels: Mapping[str, np.ndarray],
    across: Sequence[str],
    up: Sequence[str],
    labels: tuple[str, str, str],
    columns: int = 4,
) -> Figure:
    """A panel for each title: gains[x y] in points, blue above zero and orange below.

    Args:
        panels: title -> gains[x y].
        across: names of x.
        up: names of y, from the bottom.
        labels: of x, of y and of the colors.
        columns: panels side by side.
    """
    columns = min(len(panels), columns)
    lines = -(-len(panels) // columns)
    wide, high = 0.5 + 0.24 * len(across), 0.75 + 0.2 * len(up)
    with plt.rc_context({**STYLE, "figure.dpi": 100}):
        figure, grid = plt.subplots(
            lines, columns, figsize=(1.2 + wide * columns, 0.3 + high * lines), squeeze=False,
            layout="constrained", sharex=True, sharey=True,
        )  # fmt: skip
        for axes, (title, gains) in zip(grid.flat, panels.items(), strict=False):
            image = axes.imshow(
                gains.T, cmap="PuOr", vmin=-FARTHEST, vmax=FARTHEST, origin="lower", aspect="auto"
            )
            for (x, y), gain in np.ndenumerate(gains):
                shade = "white" if abs(gain) > 0.65 * FARTHEST else "black"
                text = f"{gain:.0f}".replace("-0", "0")
                axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=shade)
            axes.set_title(fill(title, 34), loc="left", fontsize=8)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes in grid.flat:
            axes.set_xticks(range(len(across)), across, rotation=90, fontsize=6)
            axes.set_yticks(range(len(up)), up, fontsize=6)
        figure.supxlabel(labels[0], fontsize=8)
        figure.supylabel(labels[1], fontsize=8)
        bar = figure.colorbar(image, ax=grid, shrink=0.8, pad=0.01)
        bar.set_label(labels[2], fontsize=7)
        bar.ax.tick_params(labelsize=6)
    return figure
