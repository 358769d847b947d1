"""Draws what methods reach against how many rows they learned from, on logarithmic axes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE, color, dash

NATS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LOWEST = -12.0
"""Gains are shown from so many points on."""

Panel = tuple[Mapping[str, np.ndarray], bool]
"""Method -> values by size, and whether they are drawn on a logarithmic axis."""


def draw(lines: Sequence[Mapping[str, Panel]], sizes: Sequence[Sequence[int]]) -> Figure:
    """A line of panels for each kind of rows.

    Args:
        lines: title -> panel, of each line.
        sizes: rows learned from, of each line.
    """
    columns = max(map(len, lines))
    with plt.rc_context({**STYLE, "figure.dpi": 100}):
        figure, grid = plt.subplots(
            len(lines), columns, figsize=(4.2 * columns, 3.1 * len(lines)), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for row, panels, at in zip(grid, lines, sizes, strict=True):
            for axes, (title, (curves, logarithmic)) in zip(row, panels.items(), strict=False):
                for name, values in curves.items():
                    kept = values > 0 if logarithmic else np.ones(len(values), bool)
                    axes.plot(
                        np.array(at)[kept], values[kept], dash(name), color=color(name), label=name
                    )
                axes.set_xscale("log")
                ticks = [10**power for power in range(5) if 10**power <= at[-1]]
                axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
                if logarithmic:
                    axes.set_yscale("log")
                    axes.set_yticks(NATS, [f"{tick:g}" for tick in NATS])
                    axes.set_ylim(NATS[0], NATS[-1])
                    axes.minorticks_off()
                else:
                    axes.axhline(0, color="black", lw=0.8)
                    highest = max((v.max() for v in curves.values()), default=1.0)
                    axes.set_ylim(LOWEST, highest + 1)
                axes.set_title(title, loc="left")
                axes.set_xlabel("rows learned from")
                axes.legend(fontsize=6, ncols=2)
    return figure
