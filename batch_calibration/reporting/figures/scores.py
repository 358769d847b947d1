"""Rows by the scores of two labels, and the decision boundaries of methods."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from batch_calibration.reporting import palette, two_labels
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import DASHES, Drawn
from batch_calibration.reporting.palette import GRAY
from batch_calibration.reporting.two_labels import TwoLabels
from batch_calibration.scores import ScoreTable

MARKERS = ("o", "D")  # of two labels, as color is not enough to distinguish them
# Tasks have different labels, so a color means the axis with the name of the label.
SIDES = "right label: on the vertical axis", "right label: on the horizontal axis"
PLANE_NOTE = (
    "One context a task, two of its labels. A line is where a method's answer changes, in the "
    "plane of the uncorrected scores: above it the label of the vertical axis is answered. Points "
    "are test rows by their right label."
)


@style.styled
def draw_planes(tables: Sequence[tuple[ScoreTable, Mapping[str, str]]], setting: str) -> Drawn:
    """Draws the boundaries of all methods in one plane of log-probabilities for each table.

    Each table has the texts of its test rows by id.
    """
    figure, grid = style.panels(len(tables), (3.2, 3.4), shares_y=False, dpi=100)
    rows = [two_labels.TEXT_HEADER]
    for axes, (table, texts) in zip(grid, tables, strict=True):
        two = two_labels.cut_table(table)
        ticks, boundaries = two_labels.find_boundaries(two)
        for method, boundary in boundaries.items():
            color, dash = palette.color(method), palette.dash(method)
            plot_lines(axes, method, boundary.lines, color, dash, boundary.accuracy)
        scores, _ = two.blocks["test"]
        # No method in this panel has these colors.
        plot_rows(axes, two, scores, (palette.SPARES[0], palette.SPARES[4]))
        set_plane(axes, two.heading, two, ticks, in_probs=False, width=3.2)
        if texts:
            rows += two_labels.text_cells(table, two, boundaries, texts)
    cells = two_labels.row_cells([table for table, _ in tables])
    drawn = style.finish(figure, f"Decision boundaries: {setting}", PLANE_NOTE, cells)
    unit = two.unit.strip() or "cosines"  # all tables are of one scorer
    return drawn._replace(rows=rows if len(rows) > 1 else [], unit=unit)


def set_plane(
    axes: Axes, title: str, two: TwoLabels, ticks: np.ndarray, *, in_probs: bool, width: float
) -> None:
    """Sets titles and equal limits, and draws the diagonal, the boundary of plain scores."""
    low, high = float(ticks[0]), float(ticks[-1])
    limits = (float(np.exp(low)), min(float(np.exp(high)), 1.02)) if in_probs else (low, high)
    y, x = (score_title(name, two.unit, in_probs=in_probs) for name in two.names)
    style.label(axes, title, x, y, width=width)
    set_limits(axes, limits)


def score_title(label: str, unit: str, less: str = "", *, in_probs: bool = False) -> str:
    """Returns the title of an axis of log-probabilities, probabilities or cosines."""
    if in_probs:
        return f"p({label})"
    return f"log p({label}){less} (nats)" if unit else f"cosine of {label}{less}"


def set_limits(axes: Axes, limits: tuple[float, float]) -> None:
    """Sets equal limits on both axes and draws the diagonal."""
    axes.plot(limits, limits, color=GRAY, ls="--", lw=1.0, zorder=1)
    axes.set(xlim=limits, ylim=limits)


def plot_rows(
    axes: Axes, two: TwoLabels, places: np.ndarray, colors: Sequence[str] = palette.LABEL_COLORS
) -> None:
    """Draws test rows by right label at these places [n 2]."""
    labels = two.blocks["test"][1]
    for label, color in enumerate(colors):
        plot_points(axes, places[labels == label], label, color, SIDES[label])


def plot_points(axes: Axes, points: np.ndarray, label: int, color: str, name: str) -> None:
    """Draws the rows of one right label, [n 2], with the marker of the label."""
    (y, x), marker = points.T, MARKERS[label]
    style.dots(axes, x, y, color, size=2.0, marker=marker, alpha=0.5, name=name, is_layer=True)


def plot_lines(
    axes: Axes, name: str, lines: Iterable[np.ndarray], color: str, dash: str, right: float = 0.0
) -> None:
    """Draws the pieces of a boundary; only the first piece is in the legend."""
    for number, line in enumerate(lines):
        label = name if name and not number else None
        (drawn,) = axes.plot(*line.T, color=color, ls=DASHES[dash], lw=1.6, zorder=2, label=label)
        if name:
            style.name_marks(drawn, [f"{name}: {100 * right:.1f} % right"])
