"""How figures look: one size of type, colors that survive color blindness, PNG and PDF."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

# Okabe and Ito's palette, one color a method, the same in every figure.
COLORS = {
    "icl": "#7f7f7f", "cc": "#E69F00", "dc": "#56B4E9", "pc": "#CC79A7", "bc": "#0072B2",
    "bcl": "#009E73", "bc_running": "#4c9be8",
}  # fmt: skip
COLUMNS = 4
"""Panels side by side, at most."""
CLASSES = ("#D55E00", "#0072B2")
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "savefig.bbox": "tight",
    "pdf.fonttype": 42,
}


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, close it, and say where they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    with plt.rc_context(STYLE):
        for target in written:
            figure.savefig(target)
    plt.close(figure)
    return written
