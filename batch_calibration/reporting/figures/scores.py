"""Rows by the scores of two labels, and the decision boundaries of methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from batch_calibration.reporting import palette, two_labels
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import Drawn
from batch_calibration.reporting.frame import REFERENCES
from batch_calibration.reporting.two_labels import Boundary
from batch_calibration.scores import ScoreTable

BESIDE: Any = {"loc": "upper left", "bbox_to_anchor": (1, 1), "fontsize": 8, "borderpad": 0}
GAP = np.full((1, 2), np.nan)  # between pieces of a line
MARKERS = ("o", "D")  # of two labels, as color is not enough to distinguish them
PLANE_NOTE = (
    "Dots: test rows by right label, one context a task. Above its line a method answers the label "
    "of the vertical axis; the number behind its name is its accuracy."
)


@style.styled
def draw_planes(tables: Sequence[ScoreTable], setting: str) -> Drawn:
    """Draws the boundaries of all methods in one plane of log-probabilities for each table."""
    figure, grid = style.panels(len(tables), (2.9, 1.9), shares_y=False)
    for axes, table in zip(grid, tables, strict=True):
        two = two_labels.cut_table(table)
        ticks, boundaries = two_labels.find_boundaries(two)
        shown: dict[str, Artist] = {}
        scores, labels = two.blocks["test"]
        # No method in this panel has these colors.
        for label, color in enumerate((palette.SPARES[0], palette.SPARES[4])):
            plot_points(axes, scores[labels == label], label, color)
            shown[two.names[label]] = axes.collections[-1]
        for method, boundary in boundaries.items():
            name = f"{method} {100 * boundary.accuracy:.1f} %"
            shown[name] = _plot_boundary(axes, method, boundary)
        axes.legend(list(shown.values()), list(shown), **BESIDE)
        y, x = (score_title(name, two.unit) for name in two.names)
        style.label(axes, two.heading, x, y, width=2.9)
        axes.set(xlim=ticks[[0, -1]], ylim=ticks[[0, -1]], aspect="equal")
    cells = two_labels.row_cells(tables)
    return style.finish(figure, f"Decision boundaries: {setting}", PLANE_NOTE, cells)


def score_title(label: str, unit: str, less: str = "") -> str:
    """Returns the title of an axis of log-probabilities or cosines."""
    return f"log p({label}){less} (nats)" if unit else f"cosine of {label}{less}"


def plot_points(axes: Axes, points: np.ndarray, label: int, color: str, name: str = "") -> None:
    """Draws the rows of one right label, [n 2], with the marker of the label."""
    y, x = points.T
    look: Any = {"marker": MARKERS[label], "is_hollow": not label}
    style.dots(axes, x, y, color, size=3.0, alpha=0.5, name=name, is_layer=True, **look)


def _plot_boundary(axes: Axes, method: str, boundary: Boundary) -> Artist:
    """Draws a boundary, whose pieces are apart, and returns it."""
    pieces = [GAP]
    for line in boundary.lines:
        pieces += [line, GAP]
    color, dash = palette.color(method), style.DASHES[palette.dash(method)]
    width = 2.2 if method in REFERENCES else 1.0
    (drawn,) = axes.plot(*np.concatenate(pieces).T, color=color, ls=dash, lw=width, zorder=2)
    style.name_marks(drawn, [f"{method}: {100 * boundary.accuracy:.1f} % right"])
    return drawn
