"""How figures look: one size of type, colors that survive color blindness, PNG and PDF."""

import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from batch_calibration.files import write_whole
from batch_calibration.methods import METHODS

# Okabe and Ito's palette, one color a method, the same in every figure.
COLORS = {
    "icl": "#7f7f7f", "cc": "#E69F00", "dc": "#56B4E9", "pc": "#CC79A7", "bc": "#0072B2",
    "bcl": "#009E73", "bc_running": "#4c9be8",
}  # fmt: skip
OTHERS = ("#D55E00", "#F0E442", "#000000", "#8c564b", "#17becf", "#bcbd22")
"""Colors of methods that have none of their own, in the order of the table of methods."""
DASHES = ("-", "--", ":", "-.")
"""Lines of those that share a color, in the same order."""
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
    # A dollar sign in a name is no formula.
    "text.parse_math": False,
}


def color(method: str) -> str:
    """The color of a method, the same in every figure."""
    return COLORS.get(method) or OTHERS[_place(method) % len(OTHERS)]


def dash(method: str) -> str:
    """The line of a method: methods of one color have others."""
    return "-" if method in COLORS else DASHES[_place(method) // len(OTHERS) % len(DASHES)]


def _place(method: str) -> int:
    """Where a method without a color of its own stands among these."""
    return [name for name in METHODS if name not in COLORS].index(method)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, close it, and say where they are."""
    written = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    with plt.rc_context({**STYLE, "savefig.bbox": "standard"}):
        # Laid out and measured once for both files, and drawn once for each: cutting makes
        # matplotlib draw twice, so only what reaches beyond the figure is cut to its own size.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            figure.set_layout_engine(None)
        box, pad = figure.get_tightbbox(), plt.rcParams["savefig.pad_inches"]
        whole = Bbox.from_extents(box.x0 - pad, box.y0 - pad, box.x1 + pad, box.y1 + pad)
        wide, high = figure.get_size_inches()
        inside = engine and min(box.x0, box.y0, wide - box.x1, high - box.y1) >= 0
        for target in written:
            data = io.BytesIO()
            # A date in the file would make every drawing another one.
            undated = {"CreationDate": None} if target.suffix == ".pdf" else None
            figure.savefig(
                data, format=target.suffix[1:], metadata=undated,
                bbox_inches=None if inside else whole,
            )  # fmt: skip
            write_whole(target, data.getvalue())
    plt.close(figure)
    return written
