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
    low, high = min(every.min(), -0.5), max(every.max(), 0.5)
    edges = np.linspace(low, high, BINS + 1)
    pad = 0.02 * (high - low)
    share = 100 * float((found.gold == 0).sum() / (found.gold >= 0).sum())
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            1, len(methods), figsize=(2.9 * len(methods), 2.9), squeeze=False, sharex=True,
            sharey=True, layout="constrained",
        )  # fmt: skip
        for axes, name in zip(grid[0], methods, strict=True):
            axes.axvspan(0, high + pad, color=CLASSES[0], alpha=0.06, lw=0)
            axes.axvspan(low - pad, 0, color=CLASSES[1], alpha=0.06, lw=0)
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
            axes.set_xlim(low - pad, high + pad)
        grid[0][0].set_ylabel("rows")
        first, second = found.labels
        figure.supxlabel(f"log p({first}) - log p({second}), less the bias (nats)", fontsize=9)
        figure.legend(*grid[0][0].get_legend_handles_labels(), title="right label",
                      loc="outside right center", fontsize=8, title_fontsize=8)  # fmt: skip
        figure.suptitle(
            f"{found.name}: {setting}. Where the difference is above 0, {first} is answered; "
            f"{share:.0f} % of the rows have it as their right label.", x=0.01, ha="left",
        )  # fmt: skip
    return figure
