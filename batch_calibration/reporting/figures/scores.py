"""Rows by the scores of two labels: boundaries, distributions, an illustration of BC."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from batch_calibration.reporting import palette, two_labels
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import DASHES, INK, Drawn
from batch_calibration.reporting.frame import BASELINE, CORRECTED
from batch_calibration.reporting.palette import GRAY
from batch_calibration.reporting.two_labels import Shifted, TwoLabels
from batch_calibration.scores import ScoreTable

BINS = 40
MARKERS = ("o", "D")  # of two labels, as color is not enough to distinguish them
# Tasks have different labels, so a color means the axis with the name of the label.
SIDES = "right label: on the vertical axis", "right label: on the horizontal axis"
PLANE_NOTE = (
    "One context a task, two of its labels. A line is where a method's answer changes, in the "
    "plane of the uncorrected scores: above it the label of the vertical axis is answered. Points "
    "are test rows by their right label."
)


@style.styled
def draw_boundaries(tables: Sequence[ScoreTable], setting: str) -> Drawn:
    """Draws test rows by right label and decision boundaries (the paper's Fig. 2 and 10).

    Each table has a row of panels, one for each method. CC is drawn in probabilities, because its
    boundary is a line through their origin. Other methods are drawn in log-probabilities, because
    their boundary is a shifted diagonal (PC: the curve of equal densities).
    """
    methods = two_labels.drawn_methods()
    count = len(methods) * len(tables)
    figure, grid = style.panels(count, (2.6, 2.8), len(methods), shares_y=False)
    panels = iter(grid)
    for two in map(two_labels.cut_table, tables):
        scores, _ = two.blocks["test"]
        ticks, boundaries = two_labels.find_boundaries(two)
        for method, boundary in boundaries.items():
            axes = next(panels)
            in_probs = two_labels.boundary_axes(method) == "probs"
            scale = np.exp if in_probs else np.asarray
            at, colors = scale(ticks), palette.LABEL_COLORS[::-1]
            axes.contourf(at, at, boundary.margin, [-1e9, 0, 1e9], colors=colors, alpha=0.1)
            _draw_rows(axes, two, scale(scores))
            _draw_lines(axes, "", map(scale, boundary.lines), INK, "solid")
            title = f"{two.heading}\n{method}: {100 * boundary.accuracy:.1f} % right"
            _set_plane(axes, title, two, ticks, in_probs=in_probs, width=2.6)
    note = (
        "One context a task. Solid: the method's boundary; dashed: plain ICL's; shaded: predicted "
        "as the label of that color."
    )
    cells = two_labels.row_cells(tables)
    return style.finish(figure, f"Decision boundaries: {setting}", note, cells)


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
            _draw_lines(axes, method, boundary.lines, color, dash, boundary.accuracy)
        scores, _ = two.blocks["test"]
        # No method in this panel has these colors.
        _draw_rows(axes, two, scores, (palette.SPARES[0], palette.SPARES[4]))
        _set_plane(axes, two.heading, two, ticks, in_probs=False, width=3.2)
        if texts:
            rows += two_labels.text_cells(table, two, boundaries, texts)
    cells = two_labels.row_cells([table for table, _ in tables])
    drawn = style.finish(figure, f"Decision boundaries: {setting}", PLANE_NOTE, cells)
    unit = two.unit.strip() or "cosines"  # all tables are of one scorer
    return drawn._replace(rows=rows if len(rows) > 1 else [], unit=unit)


def _set_plane(
    axes: Axes, title: str, two: TwoLabels, ticks: np.ndarray, *, in_probs: bool, width: float
) -> None:
    """Sets titles and equal limits, and draws the diagonal, the boundary of plain scores."""
    low, high = float(ticks[0]), float(ticks[-1])
    limits = (float(np.exp(low)), min(float(np.exp(high)), 1.02)) if in_probs else (low, high)
    y, x = (score_title(name, two.unit, in_probs=in_probs) for name in two.names)
    style.label(axes, title, x, y, width=width)
    _set_limits(axes, limits)


def score_title(label: str, unit: str, less: str = "", *, in_probs: bool = False) -> str:
    """Returns the title of an axis of log-probabilities, probabilities or cosines."""
    if in_probs:
        return f"p({label})"
    return f"log p({label}){less} (nats)" if unit else f"cosine of {label}{less}"


def _set_limits(axes: Axes, limits: tuple[float, float]) -> None:
    """Sets equal limits on both axes and draws the diagonal."""
    axes.plot(limits, limits, color=GRAY, ls="--", lw=1.0, zorder=1)
    axes.set(xlim=limits, ylim=limits)


def _draw_rows(
    axes: Axes, two: TwoLabels, places: np.ndarray, colors: Sequence[str] = palette.LABEL_COLORS
) -> None:
    """Draws test rows by right label at these places [n 2]."""
    labels = two.blocks["test"][1]
    for label, color in enumerate(colors):
        _draw_points(axes, places[labels == label], label, color, SIDES[label])


def _draw_points(axes: Axes, points: np.ndarray, label: int, color: str, name: str) -> None:
    """Draws the rows of one right label, [n 2], with the marker of the label."""
    (y, x), marker = points.T, MARKERS[label]
    style.dots(axes, x, y, color, size=2.0, marker=marker, alpha=0.5, name=name, is_layer=True)


def _draw_lines(
    axes: Axes, name: str, lines: Iterable[np.ndarray], color: str, dash: str, right: float = 0.0
) -> None:
    """Draws the pieces of a boundary; only the first piece is in the legend."""
    for number, line in enumerate(lines):
        label = name if name and not number else None
        (drawn,) = axes.plot(*line.T, color=color, ls=DASHES[dash], lw=1.6, zorder=2, label=label)
        if name:
            style.name_marks(drawn, [f"{name}: {100 * right:.1f} % right"])


@style.styled
def draw_distributions(context: Shifted, setting: str) -> Drawn:
    """Draws distributions of the first label's score minus the second's (the paper's Fig. 3).

    The first label is predicted on the right of zero.
    """
    margins = {method: context.margin(method) for method in context.biases}
    pooled = np.concatenate(list(margins.values()))  # one range of bins for all panels
    edges = np.linspace(min(pooled.min(), -0.5), max(pooled.max(), 0.5), BINS + 1)
    first, second = context.labels
    figure, grid = style.panels(len(margins), (2.9, 2.3))
    for axes, (method, margin) in zip(grid, margins.items(), strict=True):
        axes.axvline(0.0, color=INK, lw=1.0, zorder=0)
        for label, color in enumerate(palette.LABEL_COLORS):
            name = f"right: {context.labels[label]}"
            counts, _ = np.histogram(margin[context.gold == label], edges)
            look: dict[str, Any] = {"color": color, "edgecolor": color, "alpha": 0.45, "lw": 0.8}
            bars = axes.bar(edges[:-1], counts, np.diff(edges), align="edge", label=name, **look)
            for bar, count, edge in zip(bars, counts, edges, strict=False):
                style.name_marks(bar, [f"{name}: {count:.0f} rows from {edge:.2f}{context.unit}"])
        answered, right = 100 * float((margin > 0).mean()), 100 * context.accuracy(method)
        title = f"{method}: {right:.1f} % right\n{answered:.0f} % answered {first}"
        x = f"log p({first}) - log p({second}), less the bias (nats)"
        if not context.unit:
            x = f"cosine of {first} less that of {second}, less the bias"
        style.label(axes, title, x, "rows", width=2.9)
    share = 100 * float((context.gold == 0).sum() / (context.gold >= 0).sum())
    note = (
        f"{context.name}. Where the difference is above 0, {first} is answered; {share:.0f} % of "
        "the rows have it as their right label."
    )
    cells = two_labels.shifted_cells([context])
    return style.finish(figure, f"Score distributions: {setting}", note, cells)


@style.styled
def draw_correction(contexts: Sequence[Shifted], setting: str) -> Drawn:
    """Draws the steps of BC (the paper's Fig. 4) in three panels for each context.

    The panels show the scores of the rows and the mean of each right label; the mean score of each
    label over the batch; and the scores minus this mean. The answer changes at the dashed line.
    """
    figure, grid = style.panels(3 * len(contexts), (3.0, 3.2), across=3, shares_y=False)
    for number, context in enumerate(contexts):
        before, bias, after = grid[3 * number : 3 * number + 3]
        _draw_shifted(before, contexts, context, BASELINE, "scores of the batch")
        _draw_bias(bias, contexts, context)
        _draw_shifted(after, contexts, context, CORRECTED, "scores less the mean")
    note = "Two draws of demonstrations; a star is the mean of a label's rows."
    cells = two_labels.shifted_cells(contexts)
    return style.finish(figure, f"Batch calibration at work: {setting}", note, cells)


def _draw_shifted(
    axes: Axes, contexts: Sequence[Shifted], context: Shifted, method: str, title: str
) -> None:
    """Draws the scores of the rows after a method; all contexts have the same range."""
    pooled = np.concatenate([other.scores - other.biases[method] for other in contexts])
    pad = 0.03 * float(np.ptp(pooled))
    scores = context.scores - context.biases[method]
    for label, color in enumerate(palette.LABEL_COLORS):
        points = scores[context.gold == label]
        mean, name = points.mean(axis=0), f"right: {context.labels[label]}"
        _draw_points(axes, points, label, color, name)
        said = f"mean of {name}: {mean[1]:.2f} and {mean[0]:.2f}{context.unit}"
        style.dots(axes, mean[1:], mean[:1], color, [said], size=12.0, marker="*")
    less = "" if method == BASELINE else " less its mean"
    y_title, x_title = (score_title(label, context.unit, less) for label in context.labels)
    shown = f"{context.name}: {title}\n{100 * context.accuracy(method):.1f} % right"
    style.label(axes, shown, x_title, y_title)
    _set_limits(axes, (float(pooled.min()) - pad, float(pooled.max()) + pad))


def _draw_bias(axes: Axes, contexts: Sequence[Shifted], context: Shifted) -> None:
    """Draws the mean score of each label over the batch."""
    bias = context.biases[CORRECTED]
    pooled = np.concatenate([other.biases[CORRECTED] for other in contexts])
    bars = axes.bar((0, 1), bias, 0.6, color=palette.LABEL_COLORS)
    axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    axes.axhline(0.0, color=INK, lw=1.0, zorder=0)
    favored, gap = context.labels[int(bias[1] > bias[0])], abs(float(bias[0] - bias[1]))
    y = "mean log p over the batch (nats)" if context.unit else "mean cosine over the batch"
    title = f"what is taken away:\n{gap:.2f}{context.unit} more for {favored}"
    style.label(axes, title, y=y)
    style.name_ticks(axes.xaxis, context.labels)
    # A number below a negative bar needs room.
    axes.set_ylim(1.15 * min(0.0, float(pooled.min())), 1.15 * max(0.0, float(pooled.max())))
