"""A heat map with a number in each cell: accuracy over two choices of the prompt."""

import numpy as np

from batch_calibration.artifacts.figures.chart import Axis, Chart, Panel
from batch_calibration.artifacts.figures.marks import Heat
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.artifacts.two_way import Grid

BLUES = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")


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
