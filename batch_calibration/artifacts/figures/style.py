"""How figures look: one size of type, colors that survive color blindness, PNG and PDF."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from batch_calibration.files import write_whole

COLUMNS = 4  # panels side by side, at most
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
    """Draws in `STYLE`; also a decorator of functions that draw."""
    with plt.rc_context({**STYLE, "figure.dpi": dpi, "savefig.bbox": bbox}):
        yield


def make_panels(
    count: int, width: tuple[float, float], height: tuple[float, float], *,
    columns: int = COLUMNS, sharex: bool = False, sharey: bool = False,
) -> tuple[Figure, np.ndarray]:  # fmt: skip
    """A figure, and its axes [line column]; those beyond `count` are empty.

    Args:
        count: panels.
        width: inches of the figure beside its columns, and of each column.
        height: the same of lines.
        columns: panels side by side, at most.
        sharex: whether all have the same horizontal axis.
        sharey: likewise the vertical one.
    """
    columns = min(count, columns)
    lines = -(-count // columns)
    size = width[0] + width[1] * columns, height[0] + lines * height[1]
    figure, grid = plt.subplots(
        lines, columns, squeeze=False, layout="constrained", figsize=size, sharex=sharex,
        sharey=sharey,
    )  # fmt: skip
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return figure, grid


def set_heading(figure: Figure, heading: str, letters: int = 0, size: float | None = 10) -> None:
    """The heading above the panels, of so many letters a line; 0: as it is."""
    plain = fill(heading, letters) if letters else heading
    figure.suptitle(plain, x=0.01, ha="left", fontsize=size or plt.rcParams["figure.titlesize"])


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
