"""Draws accuracies with their intervals, a row a method, a panel a model or a task (Fig. 1, 7)."""

from collections.abc import Mapping
from textwrap import fill

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.figures.style import COLUMNS, STYLE, color
from batch_calibration.metrics import Estimate

Panels = Mapping[str, Mapping[str, Estimate]]
"""Title -> method -> accuracy, 0 to 1."""


def draw(panels: Panels, heading: str) -> Figure:
    """A dot and its interval for each method; the dotted line is the first method's."""
    methods = list(dict.fromkeys(name for found in panels.values() for name in found))
    columns = min(len(panels), COLUMNS)
    lines = -(-len(panels) // columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            lines, columns, squeeze=False, layout="constrained", sharey=True,
            figsize=(1 + 3.2 * columns, 0.9 + lines * (0.7 + 0.28 * len(methods))),
        )  # fmt: skip
        for axes, (name, found) in zip(grid.flat, panels.items(), strict=False):
            first = next(iter(found.values()))
            axes.axvline(100 * first.value, color=color(methods[0]), ls=":", lw=1)
            for method, one in found.items():
                place, shade = methods.index(method), color(method)
                axes.plot([100 * one.low, 100 * one.high], [place] * 2, color=shade, lw=1.6)
                axes.plot(100 * one.value, place, "o", color=shade, ms=5)
                axes.annotate(
                    f"{100 * one.value:.1f}", (100 * one.value, place), (0, 5),
                    textcoords="offset points", ha="center", fontsize=8,
                )  # fmt: skip
            axes.set_yticks(range(len(methods)), methods)
            axes.set_ylim(len(methods) - 0.4, -0.8)
            axes.set_title(fill(name, 40), loc="left")
            axes.set_xlabel("accuracy (%), 95 % interval")
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        figure.suptitle(fill(heading, 44 * columns), x=0.01, ha="left", fontsize=10)
    return figure


def data(panels: Panels) -> Cells:
    """A line a dot: accuracy and its interval, in %."""
    return [
        ["panel", "method", "accuracy", "low", "high"],
        *(
            [name, method, *(f"{100 * x:.4g}" for x in one)]
            for name, found in panels.items()
            for method, one in found.items()
        ),
    ]
