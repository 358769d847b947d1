"""How figures look: one size of type, colors that survive color blindness, PNG and PDF."""

import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.files import write_whole

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


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, close it, and say where they are."""
    targets = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    with plt.rc_context({**STYLE, "savefig.bbox": "standard"}):
        # Laid out and measured once for both files, and drawn once for each: cutting makes
        # matplotlib draw twice, so only what reaches beyond the figure is cut to its own size.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            figure.set_layout_engine(None)
        box, pad = figure.get_tightbbox(), plt.rcParams["savefig.pad_inches"]
        wide, high = figure.get_size_inches()
        is_inside = engine and min(box.x0, box.y0, wide - box.x1, high - box.y1) >= 0
        extent = None if is_inside else box.padded(pad)
        for target in targets:
            # A date in the file would make every drawing another one.
            undated = {"CreationDate": None} if target.suffix == ".pdf" else None
            content = _to_bytes(figure, target.suffix[1:], metadata=undated, bbox_inches=extent)
            write_whole(target, content)
    plt.close(figure)
    return targets


def to_file(figure: Figure, form: str) -> bytes:
    """A figure as one file: png, pdf or svg; it is closed."""
    with plt.rc_context({**STYLE, "savefig.bbox": "tight"}):
        content = _to_bytes(figure, form)
    plt.close(figure)
    return content


def _to_bytes(figure: Figure, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, **options)
    return buffer.getvalue()
