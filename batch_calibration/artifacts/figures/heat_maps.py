"""Draws heat maps with a number in each cell: accuracy over two choices, gains in points."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import COLUMNS, SCREEN_DPI, make_panels, styled
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.artifacts.two_way import Grid

NAME_WIDTH = 34  # letters a line of a row's name has, at most
FARTHEST = 15.0  # the color of so many points, and of all beyond


@styled()
def draw_grid(grid: Grid) -> Figure:
    """Mean accuracy in %, a panel a method, darker where it is higher; all have one scale."""
    names = [fill(" ".join(choice.split()), NAME_WIDTH) for choice in grid.values(0)]
    name_lines = "\n".join(names).split("\n")
    across = grid.values(1)
    panels = {method: mean_accuracies(grid, method) for method in REFERENCES}
    stacked = np.stack(list(panels.values()))
    low, high = np.nanmin(stacked), np.nanmax(stacked)  # one scale for both methods
    # Inches of the rows, and of their names.
    rows_high = 0.32 * max(len(names), len(name_lines) / 2)
    left = 0.07 * max(map(len, name_lines))
    size = (1.1 + left + len(panels) * (0.25 + 0.5 * len(across)), 0.95 + rows_high)
    figure, row = plt.subplots(1, len(panels), figsize=size, sharey=True, layout="constrained")
    for axes, (method, means) in zip(row, panels.items(), strict=True):
        image = axes.imshow(means, cmap="Blues", vmin=low, vmax=high, aspect="auto")
        for (y, x), mean in np.ndenumerate(means):
            shade = "white" if mean > low + 0.6 * (high - low) else "black"
            text = "" if np.isnan(mean) else f"{mean:.1f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=shade)
        axes.set_title(method, loc="left")
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(grid.across)
    row[0].set_ylabel(grid.down)
    figure.colorbar(image, ax=row, label="accuracy (%)")
    return figure


def mean_accuracies(grid: Grid, method: str) -> np.ndarray:
    """Accuracy in %, [down across], NaN where nothing was scored."""
    rows, columns = grid.values(0), grid.values(1)
    means = np.full((len(rows), len(columns)), np.nan)
    for i, down in enumerate(rows):
        for j, across in enumerate(columns):
            records = grid.records.get((down, across))
            if records:
                shares = [record.methods[method]["accuracy"] for record in records]
                means[i, j] = 100 * np.mean(shares)
    return means


@styled(SCREEN_DPI)
def draw_gain_maps(
    panels: Mapping[str, np.ndarray],
    across: Sequence[str],
    up: Sequence[str],
    labels: tuple[str, str, str],
    columns: int = COLUMNS,
) -> Figure:
    """A panel for each title: gains[x y] in points, blue above zero and orange below.

    Args:
        panels: title -> gains[x y].
        across: names of x.
        up: names of y, from the bottom.
        labels: of x, of y and of the colors.
        columns: panels side by side.
    """
    width, height = (1.2, 0.5 + 0.24 * len(across)), (0.3, 0.75 + 0.2 * len(up))
    figure, grid = make_panels(
        len(panels), width, height, columns=columns, sharex=True, sharey=True
    )
    for axes, (title, gains) in zip(grid.flat, panels.items(), strict=False):
        image = axes.imshow(
            gains.T, cmap="PuOr", vmin=-FARTHEST, vmax=FARTHEST, origin="lower", aspect="auto"
        )
        for (x, y), gain in np.ndenumerate(gains):
            shade = "white" if abs(gain) > 0.65 * FARTHEST else "black"
            text = f"{gain:.0f}".replace("-0", "0")
            axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=shade)
        axes.set_title(fill(title, 34), loc="left", fontsize=8)
    for axes in grid.flat:
        axes.set_xticks(range(len(across)), across, rotation=90, fontsize=6)
        axes.set_yticks(range(len(up)), up, fontsize=6)
    figure.supxlabel(labels[0], fontsize=8)
    figure.supylabel(labels[1], fontsize=8)
    bar = figure.colorbar(image, ax=grid, shrink=0.8, pad=0.01)
    bar.set_label(labels[2], fontsize=7)
    bar.ax.tick_params(labelsize=6)
    return figure
