"""Heat maps with a number in each cell: accuracy over two choices, gains in points."""

from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.artifacts.figures.chart import Axis, Chart, Heat, Panel
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.artifacts.two_way import Grid

FARTHEST = 15.0  # the color of so many points, and of all beyond
BLUES = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
# Losses orange, gains violet: apart for all kinds of color vision.
ORANGE_TO_VIOLET = ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b")


def grid_chart(grid: Grid) -> Chart:
    """Mean accuracy in %, a panel a method, darker where it is higher; all have one scale."""
    across, down = grid.values(1), grid.values(0)
    panels = {method: mean_accuracies(grid, method) for method in REFERENCES}
    stacked = np.stack(list(panels.values()))
    ends = float(np.nanmin(stacked)), float(np.nanmax(stacked))  # one scale for both methods
    drawn = []
    for method, means in panels.items():
        heat = Heat(means, *ends, BLUES, "accuracy (%)")
        x, y = Axis(grid.across, names=across), Axis(grid.down, names=down, from_top=True)
        drawn.append(Panel(method, [heat], x, y))
    size = (0.4 + 0.5 * len(across), 0.5 + 0.32 * len(down))
    columns = ("method", "", grid.down, "accuracy")
    return Chart(grid.heading, drawn, columns, size=size, together=True)


def mean_accuracies(grid: Grid, method: str) -> np.ndarray:
    """Accuracy in %, [down across], NaN where nothing was scored."""
    rows, columns = grid.values(0), grid.values(1)
    means = np.full((len(rows), len(columns)), np.nan)
    for i, down in enumerate(rows):
        for j, across in enumerate(columns):
            if (down, across) in grid.records:
                means[i, j] = grid.accuracies(method, down, across).mean()
    return means


def gain_maps(
    panels: Mapping[str, np.ndarray],
    across: Sequence[str],
    up: Sequence[str],
    labels: tuple[str, str, str],
    heading: str,
    columns: int = 4,
) -> Chart:
    """A panel for each title: gains[x y] in points, violet above zero and orange below.

    Args:
        panels: title -> gains[x y].
        across: names of x.
        up: names of y, from the bottom.
        labels: of x, of y and of the colors.
        heading: what is shown.
        columns: panels side by side.
    """
    drawn = []
    for title, gains in panels.items():
        heat = Heat(gains.T, -FARTHEST, FARTHEST, ORANGE_TO_VIOLET, labels[2], digits=0)
        drawn.append(Panel(title, [heat], Axis(labels[0], names=across), Axis(labels[1], names=up)))
    size = (0.5 + 0.24 * len(across), 0.75 + 0.2 * len(up))
    return Chart(heading, drawn, ("panel", "", labels[1], labels[2]), size=size, across=columns,
                 dpi=100)  # fmt: skip
