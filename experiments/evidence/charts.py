"""Charts of evidence alone: heat maps of gains, and what methods reach by rows learned from."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.reporting.figures.chart import Axis, Chart, Panel
from batch_calibration.reporting.figures.marks import Heat, Line, Mark, Rule
from batch_calibration.reporting.method_display import PALETTE

FARTHEST = 15.0  # the color of so many points, and of all beyond
# Losses orange, gains violet: apart for all kinds of color vision.
ORANGE_TO_VIOLET = ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b")
SIZE_TICKS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
NATS_TICKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
MIN_GAIN_SHOWN = -12.0  # gains are shown from so many points on
# Method -> values by size, and whether they are drawn on a logarithmic axis.
Learning = tuple[Mapping[str, np.ndarray], bool]


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


def learning_chart(
    lines: Sequence[Mapping[str, Learning]], sizes: Sequence[Sequence[int]], heading: str
) -> Chart:
    """Accuracy of methods against the rows they learned from, a line of panels a kind of rows.

    Args:
        lines: title -> panel, of each line.
        sizes: rows learned from, of each line.
        heading: what is shown.
    """
    panels = []
    for by_title, at in zip(lines, sizes, strict=True):
        for title, panel in by_title.items():
            panels.append(_learning_panel(title, panel, np.array(at)))
    return Chart(
        heading, panels, ("panel", "method", "rows", "value"), size=(4.2, 2.8),
        across=max(map(len, lines)), dpi=100, shares_y=False,
    )  # fmt: skip


def _learning_panel(title: str, panel: Learning, sizes: np.ndarray) -> Panel:
    curves, is_logarithmic = panel
    marks: list[Mark] = [] if is_logarithmic else [Rule(0.0, "x")]
    for method, heights in curves.items():
        # A logarithmic axis has no place for 0.
        kept = heights > 0 if is_logarithmic else np.ones(len(heights), bool)
        marks.append(Line(method, sizes[kept], heights[kept], PALETTE.color(method),
                          PALETTE.dash(method)))  # fmt: skip
    ticks = SIZE_TICKS[: bisect_right(SIZE_TICKS, sizes[-1])]
    if is_logarithmic:
        y = Axis("", (NATS_TICKS[0], NATS_TICKS[-1]), is_log=True, ticks=NATS_TICKS)
    else:
        highest = max((float(heights.max()) for heights in curves.values()), default=1.0)
        y = Axis("", (MIN_GAIN_SHOWN, highest + 1))
    return Panel(title, marks, Axis("rows learned from", is_log=True, ticks=ticks), y)
