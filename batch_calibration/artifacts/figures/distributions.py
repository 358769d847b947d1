"""Draws distributions of scores before and after methods take a bias away (Fig. 3)."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import CLASSES, STYLE
from batch_calibration.artifacts.shifted import Shifted

BINS = 40


def draw(found: Shifted, setting: str) -> Figure:
    """A panel a method: by how much the first label beats the second, by the right label.

    Right of zero the first label is answered.
    """
    methods = list(found.biases)
    margins = {name: found.margin(name) for name in methods}
    every = np.concatenate(list(margins.values()))
    edges = np.linspace(min(every.min(), -0.5), max(every.max(), 0.5), BINS + 1)
    share = 100 * float((found.gold == 0).sum() / (found.gold >= 0).sum())
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            1, len(methods), figsize=(2.9 * len(methods), 2.9), squeeze=False, sharex=True,
            sharey=True, layout="constrained",
        )  # fmt: skip
        for axes, name in zip(grid[0], methods, strict=True):
            axes.axvspan(0, edges[-1], color=CLASSES[0], alpha=0.06, lw=0)
            axes.axvspan(edges[0], 0, color=CLASSES[1], alpha=0.06, lw=0)
            for label, shade in enumerate(CLASSES):
                values = margins[name][found.gold == label]
                axes.hist(values, edges, color=shade, alpha=0.45, label=found.labels[label])
                axes.hist(values, edges, color=shade, histtype="step", lw=1)
            axes.axvline(0, color="black", lw=1)
            answered = 100 * float((margins[name] > 0).mean())
            axes.set_title(
                f"{name}: {100 * found.accuracy(name):.1f} % right\n"
                f"{answered:.0f} % answered {found.labels[0]}", loc="left",
            )  # fmt: skip
            axes.set_xlim(edges[0], edges[-1])
        grid[0][0].set_ylabel("rows")
        first, second = found.labels
        figure.supxlabel(f"log p({first}) - log p({second}), less the bias (nats)", fontsize=9)
        grid[0][0].legend(title="right label", fontsize=7, title_fontsize=7)
        figure.suptitle(
            f"{found.name}: {setting}. Right of 0 {found.labels[0]} is answered; it is right of "
            f"{share:.0f} % of the rows.", x=0.01, ha="left",
        )  # fmt: skip
    return figure
