"""How figures look: one size of type, colors that survive color blindness, PNG and PDF."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

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


@contextmanager
def styled(dpi: int = 150, bbox: str = "tight") -> Iterator[None]:
    """Draws in `STYLE`."""
    with plt.rc_context({**STYLE, "figure.dpi": dpi, "savefig.bbox": bbox}):
        yield


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, close it, and say where they are."""
    targets = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    with styled(bbox="standard"):
        # Laid out and measured once for both files, and drawn once for each: cutting makes
        # matplotlib draw twice, so only what reaches beyond the figure is cut to its own size.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            figure.set_layout_engine(None)
        box, pad = figure.get_tightbbox(), plt.rcParams["savefig.pad_inches"]
        padded = Bbox.from_extents(box.x0 - pad, box.y0 - pad, box.x1 + pad, box.y1 + pad)
        wide, high = figure.get_size_inches()
        is_inside = engine and min(box.x0, box.y0, wide - box.x1, high - box.y1) >= 0
        for target in targets:
            # A date in the file would make every drawing another one.
            undated = {"CreationDate": None} if target.suffix == ".pdf" else None
            extent = None if is_inside else padded
            _write(figure, target, metadata=undated, bbox_inches=extent)
    plt.close(figure)
    return targets


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure in the form that its ending names, and close it."""
    with styled():
        _write(figure, path)
    plt.close(figure)


def _write(figure: Figure, path: Path, **options: Any) -> None:
    """Whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], **options)
    write_whole(path, buffer.getvalue())
