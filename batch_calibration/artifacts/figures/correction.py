"""Illustrates BC on the scores of real contexts: before, what is taken away, after (Fig. 4)."""

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import CLASSES, STYLE
from batch_calibration.artifacts.grouping import BASELINE, REFERENCES
from batch_calibration.artifacts.shifted import Shifted


def draw(contexts: Sequence[Shifted], setting: str) -> Figure:
    """A line of three panels for each context.

    Each row of the batch by its scores, with the mean of each right label; the mean score of each
    label over the batch; each row by its scores less that mean. The dashed line is where the
    answer changes.
    """
    before = np.concatenate([one.scores for one in contexts])
    after = np.concatenate([one.scores - one.biases[REFERENCES[1]] for one in contexts])
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            len(contexts), 3, figsize=(9.6, 0.7 + 3.1 * len(contexts)), squeeze=False,
            layout="constrained", width_ratios=(1, 0.75, 1),
        )  # fmt: skip
        for (left, middle, right), one in zip(grid, contexts, strict=True):
            _rows(left, one, BASELINE, before, f"{one.name}: scores of the batch")
            _taken(middle, one)
            _rows(right, one, REFERENCES[1], after, "scores less the mean")
        grid[0][0].legend(fontsize=7, title="right label", title_fontsize=7)
        figure.suptitle(
            f"Batch calibration on real scores: {setting}. Two draws of demonstrations; a star is "
            "the mean of a label's rows.", x=0.01, ha="left",
        )  # fmt: skip
    return figure


def _rows(axes: Axes, one: Shifted, method: str, every: np.ndarray, title: str) -> None:
    scores = one.scores - one.biases[method]
    pad = 0.03 * float(np.ptp(every))
    low, high = float(every.min()) - pad, float(every.max()) + pad
    axes.plot([low, high], [low, high], "--", color="#555555", lw=1)
    for label, shade in enumerate(CLASSES):
        mine = scores[one.gold == label]
        axes.scatter(mine[:, 1], mine[:, 0], s=4, color=shade, alpha=0.5, linewidths=0,
                     label=one.labels[label])  # fmt: skip
        axes.plot(*mine.mean(axis=0)[::-1], "*", ms=13, color=shade, mec="white", mew=0.8)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    less = "" if method == BASELINE else " less its mean"
    axes.set_xlabel(f"log p({one.labels[1]}){less} (nats)")
    axes.set_ylabel(f"log p({one.labels[0]}){less} (nats)")
    axes.set_title(f"{title}\n{100 * one.accuracy(method):.1f} % right", loc="left")


def _taken(axes: Axes, one: Shifted) -> None:
    bias = one.biases[REFERENCES[1]]
    axes.bar(range(2), bias, color=CLASSES, width=0.6)
    for place, value in enumerate(bias):
        axes.annotate(f"{value:.2f}", (place, value), (0, -10), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.axhline(0, color="black", lw=0.8)
    axes.set_ylim(min(0.0, 1.15 * float(bias.min())), max(0.0, 1.15 * float(bias.max())))
    axes.set_xticks(range(2), one.labels)
    axes.set_ylabel("mean log p over the batch (nats)")
    favored, gap = one.labels[int(bias[1] > bias[0])], abs(float(bias[0] - bias[1]))
    axes.set_title(f"what is taken away:\n{gap:.2f} nats more for {favored}", loc="left")
