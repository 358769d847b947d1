"""Draws the accuracy of each method over two choices of the prompt: a panel a method."""

from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.artifacts.two_way import Grid

WIDTH = 34
"""Letters a line of a row's name has, at most."""


def draw(found: Grid) -> Figure:
    """Mean accuracy in %, darker where it is higher; all panels have one scale."""
    names = [fill(" ".join(value.split()), WIDTH) for value in found.values(0)]
    across = found.values(1)
    panels = {method: means(found, method) for method in REFERENCES}
    every = np.stack(list(panels.values()))
    low, high = np.nanmin(every), np.nanmax(every)
    high_of = 0.32 * max(len(names), sum(name.count("\n") + 1 for name in names) / 2)
    left = 0.07 * max(len(line) for name in names for line in name.splitlines())
    size = (1.1 + left + len(panels) * (0.25 + 0.5 * len(across)), 0.95 + high_of)
    with plt.rc_context(STYLE):
        figure, row = plt.subplots(1, len(panels), figsize=size, sharey=True, layout="constrained")
        for axes, (method, values) in zip(row, panels.items(), strict=True):
            image = axes.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="auto")
            for (y, x), value in np.ndenumerate(values):
                dark = value > low + 0.6 * (high - low)
                text = "" if np.isnan(value) else f"{value:.1f}"
                axes.text(x, y, text, ha="center", va="center", fontsize=8,
                          color="white" if dark else "black")  # fmt: skip
            axes.set_title(method, loc="left")
            axes.set_xticks(range(len(across)), across)
            axes.set_yticks(range(len(names)), names)
            axes.set_xlabel(found.across)
        row[0].set_ylabel(found.down)
        figure.colorbar(image, ax=row, label="accuracy (%)")
    return figure


def means(found: Grid, method: str) -> np.ndarray:
    """Accuracy in %, [down across], NaN where nothing was scored."""
    return np.array(
        [
            [
                100 * np.mean([one.methods[method]["accuracy"] for one in records])
                if (records := found.records.get((down, across)))
                else np.nan
                for across in found.values(1)
            ]
            for down in found.values(0)
        ]
    )
