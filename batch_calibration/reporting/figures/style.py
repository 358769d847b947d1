"""Parts of all figures: look, panels, dots, axes, legend; their files, the SVG in a page."""

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from batch_calibration.errors import escape_controls
from batch_calibration.files import write_whole
from batch_calibration.reporting.cells import Cells

STYLE: Any = {
    "figure.autolayout": False,  # figures set their own layout engine
    "figure.constrained_layout.use": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "batch-calibration",  # the same ids each time
    # A dollar sign in a name is no formula.
    "text.parse_math": False,
}
styled = matplotlib.rc_context(STYLE)
"""Decorator of functions that draw, which sets this style."""
INK = "#000000"  # text and lines; on a page the color of its text
FAINT = "#eeeeee"  # lines behind the numbers
PAPER = "#ffffff"  # inside of hollow dots; on a page its background color
DASHES: Mapping[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 1, 3)),
}  # fmt: skip
ASIDE: Mapping[str, Any] = {"textcoords": "offset points", "fontsize": 7}
"""Style of a number near its mark."""
INTERVALS = "Lines are 95 % intervals."
ACCURACY = "accuracy (%)"
LETTER = 0.065  # inches per letter of a name of an axis
LETTERS = 12  # letters of a title per inch of a panel
MAX_UPRIGHT = 4  # long names below a panel; more of them are rotated
MAX_VECTOR = 400  # dots; a layer with more dots is an image, also in SVG and PDF
LONGEST_NAME = 36  # letters in a line of a name at the side of a panel


class Picture(Figure):
    """A figure that notebooks show; matplotlib.pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


class Drawn(NamedTuple):
    """A figure, its heading and note, and its numbers: a header and a row for each point."""

    figure: Figure
    heading: str
    note: str
    cells: Cells


def panels(
    count: int, size: tuple[float, float], across: int = 4, *, names: Iterable[str] = (),
    shares_y: bool = True, dpi: int = 150,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Makes a figure with panels, and returns it with the axes of the panels, line by line.

    Args:
        count: the number of panels.
        size: width and height of a panel, in inches.
        across: the maximum number of panels in a line.
        names: the names on the vertical axes; the longest one widens the figure.
        shares_y: True if the panels share one vertical axis.
        dpi: the resolution of PNG and of layers that are images.
    """
    columns = min(count, across)
    lines = -(-count // columns)
    name_inches = LETTER * min(max(map(len, names), default=0), LONGEST_NAME)
    width = 1 + columns * size[0] + name_inches * (1 if shares_y else columns)
    figure = Picture((width, 1.1 + lines * size[1]), dpi=dpi, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=shares_y)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return figure, list(grid.flat[:count])


def label(axes: Axes, title: str, x: str = "", y: str = "", *, width: float = 3.0) -> None:
    """Sets the titles of a panel and its axes, in lines that fit its width (inches)."""
    letters = int(LETTERS * width)
    axes.set_title("\n".join(fill(line, letters) for line in title.split("\n")))
    axes.set_xlabel(fill(x, letters))
    axes.set_ylabel(y)


def fill_name(name: str) -> str:
    """Breaks the name of a row into lines of `LONGEST_NAME`."""
    return fill(" ".join(name.split()), LONGEST_NAME)


def name_ticks(
    axis: XAxis | YAxis, names: Sequence[str], *, is_shown: bool = True, from_top: bool = True
) -> None:
    """Puts names at 0, 1, ... of an axis; a vertical axis begins at the top."""
    is_upright = isinstance(axis, YAxis)
    wrapped = [*map(fill_name, names)]
    longest = max(map(len, wrapped))
    is_turned = not is_upright and len(names) > MAX_UPRIGHT and longest > 4
    texts = wrapped if is_shown else [""] * len(names)
    axis.set_ticks(range(len(names)), texts, rotation=90 if is_turned else 0)
    axis.set_view_interval(-0.6, len(names) - 0.4, ignore=True)
    axis.set_inverted(is_upright and from_top)


def number_ticks(axis: XAxis | YAxis, numbers: Sequence[float], *, is_log: bool) -> None:
    """Puts ticks at these numbers only; a logarithmic horizontal axis has them rotated."""
    if is_log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    texts = [f"{number:,g}" for number in numbers]
    axis.set_ticks(numbers, texts, rotation=90 if is_log and isinstance(axis, XAxis) else 0)
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def name_marks(artist: Artist, titles: Sequence[str]) -> None:
    """Gives each mark of an artist the text that a page shows below the mouse.

    The texts are its gid. The SVG of a page has them as `<title>`; other files lack them.
    """
    artist.set_gid(json.dumps(list(titles)))


def percents(names: Iterable[object], values: Iterable[float], kind: str = "") -> list[str]:
    """Formats the titles of values in %.

    >>> percents(["SST-2"], [50.0], "icl")
    ['SST-2, icl: 50.0 %']
    """
    titles = []
    for name, value in zip(names, values, strict=True):
        titles.append(f"{name}{kind and f', {kind}'}: {value:.1f} %")
    return titles


def dots(
    axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray,
    color: str | Sequence[str] = INK, titles: Sequence[str] = (), *, size: float = 5.0,
    marker: str = "o", is_hollow: bool = False, alpha: float = 1.0, name: str = "",
    is_layer: bool = False,
) -> None:  # fmt: skip
    """Draws points above everything else, each with its title; `size` is in pixels at 72 dpi.

    With `is_layer` they are one image, also in SVG and PDF, because they are many.
    """
    if not len(x) and not name:
        return
    look: dict[str, Any] = {"c": color, "linewidths": 0}
    if is_hollow:
        look = {"edgecolors": color, "facecolors": PAPER, "linewidths": 1.2}
    drawn = axes.scatter(
        x, y, s=size**2, marker=marker, alpha=alpha, zorder=3, label=name or None, **look
    )
    if is_layer or len(x) > MAX_VECTOR:
        drawn.set_rasterized(True)
    elif titles:
        name_marks(drawn, titles)


def finish(figure: Figure, heading: str, note: str, rows: Iterable[Sequence[object]]) -> Drawn:
    """Adds a heading and a legend, and removes repeated titles of vertical axes.

    `rows` are the figure's numbers with a header; the CSV file has them with six digits.
    """
    handles: dict[str, Any] = {}
    first = figure.axes[0].get_ylabel()
    for axes in figure.axes:
        spec = axes.get_subplotspec()
        if spec is not None and not spec.is_first_col() and axes.get_ylabel() == first:
            axes.set_ylabel("")
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    wide = figure.get_size_inches()[0]
    if len(handles) > 1:
        columns = max(1, int(wide / (0.5 + LETTER * max(map(len, handles)))))
        marks, names = list(handles.values()), list(handles)
        legend = figure.legend(marks, names, loc="outside lower center", ncols=columns)
        for shown in legend.legend_handles:
            if isinstance(shown, PathCollection):  # small dots show no color
                shown.set_sizes([20])
    words = " ".join(filter(None, (f"{heading}.", note)))
    figure.suptitle(fill(words, max(int(15 * wide), 60)), x=0.01, ha="left", fontsize=9)
    cells: Cells = []
    for row in rows:
        cells.append([f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row])
    return Drawn(figure, heading, note, cells)


SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
# Colors that a page replaces, because it has a light and a dark scheme.
PAGE_COLORS = {INK: "currentColor", PAPER: "var(--page)", FAINT: "var(--grid)"}
PLACES = ("d", "x", "y", "width", "height", "transform", "points")
"""Attributes with pixels, which a page needs with two digits only."""
# A date would make every file different.
UNDATED: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}


def save(figure: Figure, path: Path, formats: Iterable[str] = ("png",)) -> list[Path]:
    """Writes a figure in each format and returns its files; `path` lacks the ending."""
    targets = []
    extent = _lay_out(figure)
    for form in formats:
        targets.append(path.with_name(f"{path.name}.{form}"))
        write_whole(targets[-1], _to_bytes(figure, form, extent))
    return targets


def to_file(figure: Figure, form: str) -> bytes:
    """Returns a figure as the bytes of a file: png, pdf or svg."""
    return _to_bytes(figure, form, _lay_out(figure))


def _lay_out(figure: Figure) -> Bbox | None:
    """Computes the layout of a figure once, and returns its extent if it is beyond the edge.

    With `bbox_inches="tight"` matplotlib would draw each file twice.
    """
    with matplotlib.rc_context(STYLE):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)  # an engine would draw each file twice
        box = figure.get_tightbbox()
        wide, high = figure.get_size_inches()
        is_inside = engine and min(box.x0, box.y0, wide - box.x1, high - box.y1) >= 0
        return None if is_inside else box.padded(matplotlib.rcParams["savefig.pad_inches"])


def _to_bytes(figure: Figure, form: str, extent: Bbox | None, salt: str = "") -> bytes:
    buffer = io.BytesIO()
    style = STYLE | ({"svg.hashsalt": salt} if salt else {})
    with matplotlib.rc_context(style):
        figure.savefig(buffer, format=form, bbox_inches=extent, metadata=UNDATED[form],
                       transparent=bool(salt))  # fmt: skip
    return buffer.getvalue()


def page_svg(drawn: Drawn, slug: str) -> str:
    """Returns a figure as an `svg` element of a page, without its heading.

    It has the font and the text color of the page, and marks have their titles. Its ids depend on
    the slug, so that figures on one page have different ids.
    """
    for text in drawn.figure.texts:  # the heading, which the page has already
        text.set_visible(False)
        text.set_in_layout(False)
    content = _to_bytes(drawn.figure, "svg", _lay_out(drawn.figure), slug)
    svg = escape_controls(content.decode())  # XML has no control characters
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r'"#(\w+)"|url\(#(\w+)\)', svg))
    kept = {one or other for one, other in used}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style"):
                parent.remove(child)
    for element in root.iter():
        gid = element.get("id", "")
        if gid.startswith("["):
            _add_titles(element, json.loads(gid))
        if gid not in kept:
            element.attrib.pop("id", None)
        _simplify(element)
    root.set("role", "img")
    root.set("aria-label", drawn.heading)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, "unicode")


def _add_titles(group: ElementTree.Element, titles: list[str]) -> None:
    """Adds titles to the marks in a group, which are copies of a symbol, or else paths."""
    marks = list(group.iter(f"{SVG}use"))
    if not marks:
        symbols = set(group.iterfind(f".//{SVG}defs/{SVG}path"))
        marks = [path for path in group.iter(f"{SVG}path") if path not in symbols]
    # Marks beyond the edge are not drawn, and then the titles cannot be assigned.
    if len(marks) == len(titles):
        for mark, words in zip(marks, titles, strict=True):
            ElementTree.SubElement(mark, f"{SVG}title").text = words


def _simplify(element: ElementTree.Element) -> None:
    """Sets the page's colors and font in an element, and shortens pixels to two digits."""
    if style := element.get("style"):
        for ours, page_color in PAGE_COLORS.items():
            style = style.replace(ours, page_color)
        # Only the size stays. Before 3.11 matplotlib wrote size and font as one.
        style = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", style)
        style = re.sub(r"font-family: [^;]*(; )?", "", style)
        element.set("style", style)
    for place in filter(element.attrib.__contains__, PLACES):
        pixels = element.attrib[place]
        element.set(place, re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", pixels))
    if link := element.attrib.pop(HREF, ""):
        element.set("href", link)
