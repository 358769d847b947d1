"""Colors and dashes of methods and verdicts, in figures and on the page.

They hold on a light page, on a dark one and on paper: after Okabe and Ito's palette, which survives
color blindness, of a lightness that has a contrast of 3 : 1 or more with either page.
"""

from batch_calibration.methods import METHODS
from batch_calibration.reporting.frame import BASELINE

METHOD_COLORS = {
    BASELINE: "#7f7f7f", "cc": "#a87900", "dc": "#2e8fc7", "pc": "#b3659a", "bc": "#1f77c4",
    "bcl": "#00936b", "bc_running": "#7480d8",
}  # fmt: skip
"""The same in every figure."""
SPARES = "#d55e00", "#8c8200", "#a0695c", "#1391a0", "#8d6fc4", "#c75d73"
"""Of methods that have none of their own, in the order of the table of methods."""
LABEL_COLORS = "#d55e00", "#1f77c4"  # of two labels
DASHES = "solid", "dash", "dot", "dashdot", "longdash", "longdashdot"
# Of what is beyond the noise in figures; the rest is gray.
VERDICTS = {"gain": "#1f77c4", "loss": "#d55e00"}
GRAY = "#7f7f7f"


def color(method: str) -> str:
    """The color of a method."""
    return METHOD_COLORS.get(method) or SPARES[_spare(method) % len(SPARES)]


def dash(method: str) -> str:
    """The line of a method, so that color alone need not tell it."""
    if method in METHOD_COLORS:
        return DASHES[list(METHOD_COLORS).index(method) % len(DASHES)]
    # Methods that share a color have lines of their own.
    return DASHES[_spare(method) // len(SPARES) % len(DASHES)]


def _spare(method: str) -> int:
    """Where a method without a color of its own stands among these."""
    return [name for name in METHODS if name not in METHOD_COLORS].index(method)


def verdict_color(sign: int) -> str:
    """The color of a gain by whether it is above noise (1), within it (0) or below it (-1)."""
    return {1: VERDICTS["gain"], -1: VERDICTS["loss"]}.get(sign, GRAY)
