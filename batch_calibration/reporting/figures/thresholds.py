"""Precision and recall over the cut-offs on a label's probability."""

from collections.abc import Sequence

from batch_calibration.diagnosis.threshold import Threshold
from batch_calibration.reporting import palette
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import DASHES, INK, Drawn


@style.styled
def draw_thresholds(found: Sequence[Threshold], titles: Sequence[str]) -> Drawn:
    """Draws a panel for each context: measures over the cut-offs, and the chosen cut-off."""
    figure, grid = style.panels(len(found), (3.6, 2.4), across=3)
    rows: list[Sequence[object]] = [("context", "measure", "probability", "share")]
    for axes, threshold, title in zip(grid, found, titles, strict=True):
        at = threshold.curve["probability"]
        looks = zip(("precision", "recall", "f1"), palette.SPARES, palette.DASHES, strict=False)
        for name, color, dash in looks:
            shares = 100 * threshold.curve[name]
            axes.plot(at, shares, color=color, ls=DASHES[dash], drawstyle="steps-post", label=name)
            rows += [(title, name, *point) for point in zip(at, shares, strict=True)]
        chosen = f"chosen for {threshold.goal}"
        axes.axvline(threshold.probability, color=INK, lw=1.0, label=chosen)
        x = f"cut-off on the probability of {threshold.label}"
        heading = f"{title}: {threshold.label} from {threshold.probability:g} on"
        style.label(axes, heading, x, "labeled rows (%)", width=3.5)
    return style.finish(figure, "Cut-offs", "On the labeled rows.", rows)
