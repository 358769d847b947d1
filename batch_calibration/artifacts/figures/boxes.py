"""Draws the robustness study: a box for each choice, a dot for every prompt (Fig. 8)."""

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.figures.style import STYLE, color
from batch_calibration.artifacts.grouping import REFERENCES, title
from batch_calibration.artifacts.robustness import Axis, value


def draw(found: Sequence[Axis]) -> Figure:
    """ICL beside BC on each axis of one task."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(1.5 + 1.6 * len(found), 3.2))
        for x, one in enumerate(found):
            for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
                values, shade = one.values(method), color(method)
                axes.boxplot(
                    values, positions=[x + side], widths=0.3, showfliers=False,
                    medianprops={"color": shade}, boxprops={"color": shade},
                    whiskerprops={"color": shade}, capprops={"color": shade},
                )  # fmt: skip
                # Fixed offsets, so that equal values stay apart and a figure stays the same.
                places = x + side + 0.1 * np.sin(2.4 * np.arange(len(values)))
                axes.plot(places, values, "o", color=shade, ms=3, alpha=0.6,
                          label=method if x == 0 else None)  # fmt: skip
        names = [f"{len(one.records)} {one.name}\n{one.setting.shots}-shot" for one in found]
        axes.set_xticks(range(len(found)), names)
        axes.set_xlim(-0.6, len(found) - 0.4)
        axes.set_ylabel("accuracy (%)")
        first = found[0]
        rows = f"first {first.setting.limit} rows" if first.setting.limit else "all rows"
        axes.set_title(
            f"One choice of the prompt at a time: {title(first.task)}, {first.setting.model}, "
            f"{rows}.\nBoxes: quartiles and median; whiskers reach 1.5 boxes at most.", loc="left",
        )  # fmt: skip
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def data(found: Sequence[Axis]) -> Cells:
    """A line a dot: what varies, the choice, and the accuracy in %."""
    return [
        ["task", "what varies", "choice", "method", "accuracy"],
        *(
            [one.task, one.name, value(record), method, f"{accuracy:.4g}"]
            for one in found
            for method in REFERENCES
            for record, accuracy in zip(one.records, one.values(method), strict=True)
        ),
    ]
