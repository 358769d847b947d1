"""Draws a robustness study: a line a prompt from its accuracy with ICL to that with BC."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batch_calibration.artifacts.figures.forest import COLORS
from batch_calibration.artifacts.figures.style import COLUMNS, STYLE, color
from batch_calibration.artifacts.gains import marked
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, title
from batch_calibration.artifacts.robustness import Axis, value, varied

LINES = {1: COLORS["gain"], 0: "#bbbbbb", -1: COLORS["loss"]}
"""The color of a line by the verdict on the gain that it shows."""
NAMED = 12
"""Prompts that are named at the side, at most."""
NOTE = "* 0 is outside the 95 % interval; ±: standard deviation over the prompts"
"""Above the legend."""


def draw(axes: Sequence[Axis]) -> Figure:
    """A panel a task, prompts sorted by ICL's accuracy, the worst below; one scale for all.

    Upright dots: the choice does not matter. A dashed line is chance.
    """
    columns = min(len(axes), COLUMNS)
    lines = -(-len(axes) // columns)
    most = max(len(one.records) for one in axes)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            lines, columns, squeeze=False, sharex=True, layout="constrained",
            figsize=(max(1 + 3 * columns, 6.0), 1.1 + lines * (0.9 + 0.13 * max(most, 8))),
        )  # fmt: skip
        for panel, one in zip(grid.flat, axes, strict=False):
            _panel(panel, one)
        for panel in grid.flat[len(axes) :]:
            panel.set_axis_off()
        figure.suptitle(
            fill(f"{varied(axes)}: {axes[0].setting}", max(42 * columns, 84)),
            x=0.01,
            ha="left",
            fontsize=10,
        )
        figure.legend(handles=_legend(), loc="outside lower center", ncols=3, title=NOTE)
    return figure


def _panel(panel: Axes, one: Axis) -> None:
    before, after = one.values(BASELINE), one.values(CORRECTED)
    signs = [gain.beyond_noise for gain in one.gains()]
    order = np.lexsort((after, before))
    panel.axvline(100 / len(one.records[0].label_names), ls="--", lw=0.8, color="black", zorder=0)
    for place, i in enumerate(order):
        panel.plot([before[i], after[i]], [place] * 2, color=LINES[signs[i]], lw=2, zorder=1)
    places = np.arange(len(order))
    panel.plot(before[order], places, "o", ms=5, mfc="white", mec=color(BASELINE), mew=1.4)
    panel.plot(after[order], places, "o", ms=5, color=color(CORRECTED))
    change = one.change()
    panel.set_title(
        f"{title(one.task)}, {len(order)} {one.name}\n"
        f"worst to best: {BASELINE} {np.ptp(before):.1f}, {CORRECTED} {np.ptp(after):.1f} points\n"
        f"gain {marked(one.gain())}" + (f"; change of ± {marked(change)}" if change else ""),
        loc="left",
        fontsize=9,
    )
    names = [value(one.records[i]) for i in order] if len(order) <= NAMED else []
    panel.set_yticks(places[: len(names)], names, fontsize=7)
    panel.set_ylabel(f"{one.name}, best of {BASELINE} on top", fontsize=8)
    panel.set_xlabel("accuracy (%)")
    panel.tick_params(labelbottom=True)


def _legend() -> list[Line2D]:
    """What dots and lines mean."""
    gray = color(BASELINE)
    dots = [
        Line2D(
            [],
            [],
            marker="o",
            ls="",
            mfc="white",
            mec=gray,
            mew=1.4,
            label=f"{BASELINE}: plain scores",
        ),
        Line2D([], [], marker="o", ls="", color=color(CORRECTED), label=f"{CORRECTED}: corrected"),
        Line2D([], [], ls="--", lw=0.8, color="black", label="chance"),
    ]
    words = {1: "gain beyond noise*", 0: "within noise", -1: "loss beyond noise*"}
    return dots + [Line2D([], [], lw=2, color=LINES[i], label=said) for i, said in words.items()]
