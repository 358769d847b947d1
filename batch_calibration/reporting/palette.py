"""Colors and dashes of methods and verdicts, in figures and on the page.

They suit a light page, a dark page and paper. They follow the palette of Okabe and Ito, which
color-blind readers can distinguish, and have a contrast of 3 : 1 or more with both pages.
"""

from batch_calibration.methods import METHODS
from batch_calibration.reporting.frame import BASELINE

METHOD_COLORS = {
    BASELINE: "#7f7f7f", "cc": "#a87900", "dc": "#2e8fc7", "pc": "#b3659a", "bc": "#1f77c4",
    "bcl": "#00936b", "bc_running": "#7480d8",
}  # fmt: skip
"""Method -> its color in every figure."""
SPARES = "#d55e00", "#8c8200", "#a0695c", "#1391a0", "#8d6fc4", "#c75d73"
"""Colors of the other methods, in the order of the table of methods."""
LABEL_COLORS = "#d55e00", "#1f77c4"  # of two labels
DASHES = "solid", "dash", "dot", "dashdot", "longdash", "longdashdot"
# Colors of gains and losses beyond noise; others are gray.
VERDICTS = {"gain": "#1f77c4", "loss": "#d55e00"}
GRAY = "#7f7f7f"


def color(method: str) -> str:
    """Returns the color of a method."""
    return METHOD_COLORS.get(method) or SPARES[_spare(method) % len(SPARES)]


def dash(method: str) -> str:
    """Returns the dash of a method's line, which distinguishes it without its color."""
    if method in METHOD_COLORS:
        return DASHES[list(METHOD_COLORS).index(method) % len(DASHES)]
    # Methods with the same color have different dashes.
    return DASHES[_spare(method) // len(SPARES) % len(DASHES)]


def _spare(method: str) -> int:
    """Returns the index of a method among those without a color in `METHOD_COLORS`."""
    return [name for name in METHODS if name not in METHOD_COLORS].index(method)


def verdict_color(sign: int) -> str:
    """Returns the color of a gain that is above noise (1), within it (0) or below it (-1)."""
    return {1: VERDICTS["gain"], -1: VERDICTS["loss"]}.get(sign, GRAY)
