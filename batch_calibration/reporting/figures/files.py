"""Figures as files: PNG and PDF, and the SVG that stands in a page."""

import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from batch_calibration.files import write_whole
from batch_calibration.reporting.figures.style import FAINT, INK, PAPER, STYLE, Drawn

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
# What a page colors as it likes, in the light and in the dark.
PAGE_COLORS = {INK: "currentColor", PAPER: "var(--page)", FAINT: "var(--grid)"}
PLACES = ("d", "x", "y", "width", "height", "transform", "points")
"""Attributes with pixels, of which a page needs two digits."""
# No date: each drawing would be another file.
UNDATED: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, and say where they are; `path` lacks the ending."""
    targets = []
    extent = _lay_out(figure)
    for form in ("png", "pdf"):
        targets.append(path.with_name(f"{path.name}.{form}"))
        write_whole(targets[-1], _to_bytes(figure, form, extent))
    return targets


def to_file(figure: Figure, form: str) -> bytes:
    """A figure as one file: png, pdf or svg."""
    return _to_bytes(figure, form, _lay_out(figure))


def _lay_out(figure: Figure) -> Bbox | None:
    """Lay a figure out once for all files; the part to keep where it reaches beyond its edge.

    Files that are cut by matplotlib itself are drawn twice.
    """
    with matplotlib.rc_context(STYLE):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)  # with any other each file would be drawn twice
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
    """A figure as it stands in a page, which has its heading: an element `svg`.

    Its text is the page's, black is the page's ink; marks have their titles; ids start with what
    the slug makes, so that figures of one page have none in common.
    """
    for text in drawn.figure.texts:  # the heading, which stands above in the page
        text.set_visible(False)
        text.set_in_layout(False)
    content = _to_bytes(drawn.figure, "svg", _lay_out(drawn.figure), slug)
    root = ElementTree.fromstring(content)
    used = set(re.findall(r'"#(\w+)"|url\(#(\w+)\)', content.decode()))
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
    """Give the marks in a group their titles: copies of a symbol, else its paths."""
    marks = list(group.iter(f"{SVG}use"))
    if not marks:
        symbols = set(group.iterfind(f".//{SVG}defs/{SVG}path"))
        marks = [path for path in group.iter(f"{SVG}path") if path not in symbols]
    # Marks beyond the edge of a figure are not drawn: then none can be told from its neighbor.
    if len(marks) == len(titles):
        for mark, words in zip(marks, titles, strict=True):
            ElementTree.SubElement(mark, f"{SVG}title").text = words


def _simplify(element: ElementTree.Element) -> None:
    """Give an element the page's colors and font, and pixels of two digits."""
    if style := element.get("style"):
        for ours, page_color in PAGE_COLORS.items():
            style = style.replace(ours, page_color)
        # The size alone: the page has a font of its own. Before 3.11 matplotlib wrote them as one.
        style = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", style)
        style = re.sub(r"font-family: [^;]*(; )?", "", style)
        element.set("style", style)
    for place in filter(element.attrib.__contains__, PLACES):
        shorter = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}",
                         element.attrib[place])  # fmt: skip
        element.set(place, shorter)
    if link := element.attrib.pop(HREF, ""):
        element.set("href", link)
