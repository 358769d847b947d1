"""Draws differences with their intervals: a row a method, a panel a set of contexts."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import COLUMNS, STYLE

COLORS = {"gain": "#0072B2", "loss": "#D55E00"}
"""Of what is beyond the noise; the rest is gray."""
FARTHEST = 30.0
"""A panel shows so many points on either side, at most."""

Interval = tuple[float, float, float, str]
"""A difference, its ends, and the verdict on it."""


def draw(
    panels: Mapping[str, Mapping[str, Interval]],
    methods: Sequence[str],
    label: str,
    reach: float | None = None,
    heading: str = "",
) -> Figure:
    """A panel a set: the difference of each method in points, its interval, a line at zero.

    What lies beyond `FARTHEST` points is drawn at the edge, with its number beside it; the end of
    an interval beyond is an arrow.

    Args:
        panels: title -> method -> difference, low, high, verdict.
        methods: the rows, from the top; a method without a difference in a panel is left empty.
        label: of the horizontal axes.
        reach: so many points on either side of zero are shown in all panels, what lies beyond as
            above; without it each panel shows what it has.
        heading: above the panels.
    """
    columns = min(len(panels), COLUMNS)
    lines = -(-len(panels) // columns)
    with plt.rc_context({**STYLE, "figure.dpi": 100}):
        figure, grid = plt.subplots(
            lines, columns, squeeze=False, layout="constrained", sharey=True,
            figsize=(1.6 + 2.6 * columns, 0.5 + lines * (0.7 + 0.17 * len(methods))),
        )  # fmt: skip
        for axes, (title, found) in zip(grid.flat, panels.items(), strict=False):
            ends = np.array([one[:3] for one in found.values()] or [(0.0, 0.0, 0.0)])
            left = max(-FARTHEST, min(float(ends.min()), -0.5)) if reach is None else -reach
            right = min(FARTHEST, max(float(ends.max()), 0.5)) if reach is None else reach
            axes.axvline(0, color="black", lw=0.8)
            for place, method in enumerate(methods):
                axes.axhline(place, color="#eeeeee", lw=0.6, zorder=0)
                if method not in found:
                    continue
                value, low, high, verdict = found[method]
                shade = COLORS.get(verdict, "#7f7f7f")
                axes.plot(np.clip([low, high], left, right), [place] * 2, color=shade, lw=1.4)
                axes.plot(np.clip(value, left, right), place, "o", color=shade, ms=3.5)
                for beyond, edge, sign in ((low < left, left, "<"), (high > right, right, ">")):
                    if beyond:
                        axes.plot(edge, place, sign, color=shade, ms=4)
                if not left <= value <= right:
                    edge, side = (right, "right") if value > 0 else (left, "left")
                    axes.annotate(f"{value:+.0f}", (edge, place), (4 if value < 0 else -4, 1),
                                  textcoords="offset points", ha=side, va="bottom", fontsize=6,
                                  color=shade)  # fmt: skip
            space = 0.04 * (right - left)
            axes.set_xlim(left - space, right + space)
            axes.set_title(fill(title, 32), loc="left")
            axes.set_xlabel(label)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        if heading:
            figure.suptitle(fill(heading, 45 * columns), x=0.01, ha="left", fontsize=9)
        grid[0][0].set_yticks(range(len(methods)), methods)
        for axes in grid[:, 0]:
            axes.tick_params(axis="y", labelsize=8)
        grid[0][0].set_ylim(len(methods) - 0.4, -0.6)
    return figure
