"""Draws rows by the scores of two labels: boundaries, distributions, an illustration of BC."""

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import set_heading, styled
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED
from batch_calibration.artifacts.method_display import FIGURE
from batch_calibration.artifacts.two_labels import (
    Panel,
    Shifted,
    TwoLabels,
    cut_table,
    drawn_methods,
    find_boundaries,
)
from batch_calibration.scores import ScoreTable

BINS = 40
DIAGONAL = "#555555"


@styled()
def draw_boundaries(tables: Sequence[ScoreTable], setting: str) -> Figure:
    """Boundaries (the paper's Fig. 2 and 10): test rows by gold label, a row of panels a table.

    CC is drawn in probabilities, where its boundary is a line through the origin; the others in
    log-probabilities, where theirs is a shifted diagonal (PC: the curve of equal densities).
    """
    contexts, columns = list(map(cut_table, tables)), len(drawn_methods())
    figure, grid = plt.subplots(
        len(contexts), columns, figsize=(2.6 * columns, 2.8 * len(contexts)), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for row, two in zip(grid, contexts, strict=True):
        for axes, (method, panel) in zip(row, find_boundaries(two).items(), strict=True):
            _draw_boundary_panel(axes, two, method, panel)
        row[0].text(
            -0.52, 0.5, two.heading, rotation=90, va="center", weight="bold", fontsize=8,
            transform=row[0].transAxes,
        )  # fmt: skip
        row[0].legend(
            loc="upper right", fontsize=7, markerscale=2, handletextpad=0.2, frameon=True,
            framealpha=0.8, edgecolor="none",
        )  # fmt: skip
    heading = (
        f"Decision boundaries: {setting}, one context a task. Solid: the method's; dashed: plain "
        "ICL's; shaded: predicted as the label of that color."
    )
    set_heading(figure, heading, size=None)
    return figure


def _draw_boundary_panel(axes: Axes, two: TwoLabels, method: str, panel: Panel) -> None:
    scores, labels = two.blocks["test"]  # [n 2] in nats, [n]
    rows = np.exp(scores) if panel.in_probs else scores
    s0, s1 = np.meshgrid(panel.ticks, panel.ticks, indexing="ij")
    shades = FIGURE.labels[::-1]
    axes.contourf(s1, s0, panel.margin, levels=[-1e9, 0, 1e9], colors=shades, alpha=0.10)
    for label, shade in enumerate(FIGURE.labels):
        points = rows[labels == label]
        axes.scatter(
            points[:, 1], points[:, 0], s=4, color=shade, alpha=0.6, linewidths=0,
            label=two.names[label],
        )  # fmt: skip
    _frame_plane(axes, panel.low, panel.high)
    axes.contour(s1, s0, panel.margin, levels=[0], colors="black", linewidths=1.4)
    kind = "p({})" if panel.in_probs else "log p({}) (nats)"
    axes.set_xlabel(kind.format(two.names[1]))
    axes.set_ylabel(kind.format(two.names[0]))
    axes.set_title(f"{method}: {100 * panel.accuracy:.1f} % right", loc="left")


def _frame_plane(axes: Axes, low: float, high: float) -> None:
    """The same range on both axes, and the diagonal where plain scores decide."""
    axes.plot([low, high], [low, high], "--", color=DIAGONAL, linewidth=1)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")


@styled()
def draw_distributions(context: Shifted, setting: str) -> Figure:
    """Distributions (the paper's Fig. 3): by how much the first label beats the second.

    Right of zero the first label is answered.
    """
    margins = {method: context.margin(method) for method in context.biases}
    pooled = np.concatenate(list(margins.values()))  # one range of bins for all panels
    low, high = min(pooled.min(), -0.5), max(pooled.max(), 0.5)
    edges, pad = np.linspace(low, high, BINS + 1), 0.02 * (high - low)
    figure, grid = plt.subplots(
        1, len(margins), figsize=(2.9 * len(margins), 2.9), squeeze=False, sharex=True,
        sharey=True, layout="constrained",
    )  # fmt: skip
    first, second = context.labels
    for axes, (method, margin) in zip(grid[0], margins.items(), strict=True):
        axes.axvspan(0, high + pad, color=FIGURE.labels[0], alpha=0.06, lw=0)
        axes.axvspan(low - pad, 0, color=FIGURE.labels[1], alpha=0.06, lw=0)
        for label, shade in enumerate(FIGURE.labels):
            of_label = margin[context.gold == label]
            axes.hist(of_label, edges, color=shade, alpha=0.45, label=context.labels[label])
            axes.hist(of_label, edges, color=shade, histtype="step", lw=1)
        axes.axvline(0, color="black", lw=1)
        answered = 100 * float((margin > 0).mean())
        right = 100 * context.accuracy(method)
        title = f"{method}: {right:.1f} % right\n{answered:.0f} % answered {first}"
        axes.set_title(title, loc="left")
        axes.set_xlim(low - pad, high + pad)
    grid[0][0].set_ylabel("rows")
    figure.supxlabel(f"log p({first}) - log p({second}), less the bias (nats)", fontsize=9)
    figure.legend(
        *grid[0][0].get_legend_handles_labels(), title="right label", loc="outside right center",
        fontsize=8, title_fontsize=8,
    )  # fmt: skip
    share = 100 * float((context.gold == 0).sum() / (context.gold >= 0).sum())
    heading = (
        f"{context.name}: {setting}. Where the difference is above 0, {first} is answered; "
        f"{share:.0f} % of the rows have it as their right label."
    )
    set_heading(figure, heading, size=None)
    return figure


@styled()
def draw_correction(contexts: Sequence[Shifted], setting: str) -> Figure:
    """BC illustrated (the paper's Fig. 4), a line of three panels for each context.

    Each row of the batch by its scores, with the mean of each right label; the mean score of each
    label over the batch; each row by its scores less that mean. The dashed line is where the
    answer changes.
    """
    before = np.concatenate([context.scores for context in contexts])
    after = np.concatenate([context.scores - context.biases[CORRECTED] for context in contexts])
    figure, grid = plt.subplots(
        len(contexts), 3, figsize=(9.6, 0.7 + 3.1 * len(contexts)), squeeze=False,
        layout="constrained", width_ratios=(1, 0.75, 1),
    )  # fmt: skip
    for (left, middle, right), context in zip(grid, contexts, strict=True):
        _draw_rows(left, context, BASELINE, before, f"{context.name}: scores of the batch")
        _draw_bias(middle, context)
        _draw_rows(right, context, CORRECTED, after, "scores less the mean")
    grid[0][0].legend(fontsize=7, title="right label", title_fontsize=7)
    heading = (
        f"Batch calibration on real scores: {setting}. Two draws of demonstrations; a star is the "
        "mean of a label's rows."
    )
    set_heading(figure, heading, size=None)
    return figure


def _draw_rows(
    axes: Axes, context: Shifted, method: str, all_scores: np.ndarray, title: str
) -> None:
    """Rows by their scores after a method, on the range of the scores of all contexts."""
    scores = context.scores - context.biases[method]
    pad = 0.03 * float(np.ptp(all_scores))
    _frame_plane(axes, float(all_scores.min()) - pad, float(all_scores.max()) + pad)
    for label, shade in enumerate(FIGURE.labels):
        points = scores[context.gold == label]
        axes.scatter(
            points[:, 1], points[:, 0], s=4, color=shade, alpha=0.5, linewidths=0,
            label=context.labels[label],
        )  # fmt: skip
        axes.plot(*points.mean(axis=0)[::-1], "*", ms=13, color=shade, mec="white", mew=0.8)
    less = "" if method == BASELINE else " less its mean"
    axes.set_xlabel(f"log p({context.labels[1]}){less} (nats)")
    axes.set_ylabel(f"log p({context.labels[0]}){less} (nats)")
    axes.set_title(f"{title}\n{100 * context.accuracy(method):.1f} % right", loc="left")


def _draw_bias(axes: Axes, context: Shifted) -> None:
    bias = context.biases[CORRECTED]
    axes.bar(range(2), bias, color=FIGURE.labels, width=0.6)
    for x, height in enumerate(bias):
        axes.annotate(
            f"{height:.2f}", (x, height), (0, -10), textcoords="offset points", ha="center",
            fontsize=8,
        )  # fmt: skip
    axes.axhline(0, color="black", lw=0.8)
    axes.set_ylim(min(0.0, 1.15 * float(bias.min())), max(0.0, 1.15 * float(bias.max())))
    axes.set_xticks(range(2), context.labels)
    axes.set_ylabel("mean log p over the batch (nats)")
    favored, gap = context.labels[int(bias[1] > bias[0])], abs(float(bias[0] - bias[1]))
    axes.set_title(f"what is taken away:\n{gap:.2f} nats more for {favored}", loc="left")
