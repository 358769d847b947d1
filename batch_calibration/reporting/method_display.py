"""Axes, colors and dashes of each method in figures and on the page."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from batch_calibration.methods import METHODS
from batch_calibration.reporting.controls import FLIPPED, GOLD, NEW, NEW_FLIPPED, NONE
from batch_calibration.reporting.frame import BASELINE

Axes = Literal["log_probs", "probs"]


# Others by the rule below. CC's boundary is a rotation in probabilities; raw PC is the paper's
# Fig. 2, though a variant.
BOUNDARY_AXES: dict[str, Axes] = {"cc": "probs", "pc_raw": "log_probs"}


def boundary_axes(name: str) -> Axes | None:
    """The axes in which a method's decision boundary is drawn, None where it has no panel."""
    # A figure shows one boundary for all rows, learned without their labels.
    is_drawn = is_over_shots(name) and not METHODS[name].probe.labels
    return BOUNDARY_AXES.get(name, "log_probs" if is_drawn else None)


def is_over_shots(name: str) -> bool:
    """True of methods in curves of shots: the paper's comparison of whole batches."""
    method = METHODS[name]
    return method.group == "paper" and not method.own_rows


class Palette(NamedTuple):
    """Colors that hold on a light page, on a dark one and on paper."""

    methods: Mapping[str, str]  # method -> its color, the same in every figure
    # Of methods that have none of their own, in the order of the table of methods.
    spares: tuple[str, ...]
    labels: tuple[str, str]  # of two labels
    dashes: tuple[str, ...]  # lines, by which methods differ too

    def color(self, method: str) -> str:
        """The color of a method."""
        return self.methods.get(method) or self.spares[self._spare(method) % len(self.spares)]

    def dash(self, method: str) -> str:
        """The line of a method, so that color alone need not tell it."""
        if method in self.methods:
            return self.dashes[list(self.methods).index(method) % len(self.dashes)]
        # Methods that share a color have lines of their own.
        return self.dashes[self._spare(method) // len(self.spares) % len(self.dashes)]

    def _spare(self, method: str) -> int:
        """Where a method without a color of its own stands among these."""
        return [name for name in METHODS if name not in self.methods].index(method)


# After Okabe and Ito's palette, which survives color blindness, of a lightness that has a contrast
# of 3 : 1 or more with the light page and with the dark one.
PALETTE = Palette(
    {
        BASELINE: "#7f7f7f", "cc": "#a87900", "dc": "#2e8fc7", "pc": "#b3659a", "bc": "#1f77c4",
        "bcl": "#00936b", "bc_running": "#7480d8",
    },
    ("#d55e00", "#8c8200", "#a0695c", "#1391a0", "#8d6fc4", "#c75d73"),
    ("#d55e00", "#1f77c4"),
    ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot"),
)  # fmt: skip
# A color a condition of demonstrations; others are gray.
CONDITIONS = {
    NONE: "#7f7f7f", GOLD: "#1f77c4", "random": "#a87900", FLIPPED: "#d55e00",
    "training words": "#2e8fc7", NEW: "#00936b", NEW_FLIPPED: "#b3659a",
}  # fmt: skip
# Of what is beyond the noise in figures; the rest is gray.
VERDICTS = {"gain": "#1f77c4", "loss": "#d55e00"}
GRAY = "#7f7f7f"


def verdict_color(sign: int) -> str:
    """The color of a gain by whether it is above noise (1), within it (0) or below it (-1)."""
    return {1: VERDICTS["gain"], -1: VERDICTS["loss"]}.get(sign, GRAY)
