"""Figures of the page: what plotly.js draws, a choice or a slider over it, the numbers as CSV."""

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from batch_calibration.artifacts.cells import Cells, plain_csv
from batch_calibration.artifacts.grouping import BASELINE
from batch_calibration.files import file_name
from batch_calibration.methods import METHODS

Parts = dict[str, object]
"""A trace or a layout, as plotly.js takes it."""
NAMES: Parts = {"type": "category", "automargin": True, "autorange": "reversed", "dtick": 1}
"""An axis of names, from the top."""

# Of a lightness that has a contrast of 3 : 1 or more with the light page and with the dark one.
COLORS = {
    BASELINE: "#7f7f7f", "cc": "#a87900", "dc": "#2e8fc7", "pc": "#b3659a", "bc": "#1f77c4",
    "bcl": "#00936b", "bc_running": "#7480d8",
}  # fmt: skip
OTHERS = ("#d55e00", "#8c8200", "#a0695c", "#1391a0", "#8d6fc4", "#c75d73")
CLASSES = ("#d55e00", "#1f77c4")
"""Of two labels."""
SYMBOLS = ("circle", "diamond")
"""Of the same two labels: color alone does not tell them apart."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


class View(NamedTuple):
    """One thing a figure can show: its name, traces and layout of plotly.js."""

    name: str
    traces: Sequence[Parts]
    layout: Parts


class Slider(NamedTuple):
    """A slider below a figure.

    Attributes:
        label: what it sets.
        values: where it can stand.
        start: the number of the value at which it stands first.
        moved: for each value what `x` the figure's last trace has.
        said: for each value a sentence.
    """

    label: str
    values: Sequence[float]
    start: int
    moved: Sequence[Sequence[float]]
    said: Sequence[str]


class Plot(NamedTuple):
    """A figure that plotly.js draws: one view or several to choose from, perhaps a slider.

    The first shape of the layout of a figure with a slider is a vertical line, which moves with it.
    """

    views: Sequence[View]
    slider: Slider | None = None
    note: str = ""


class Figure(NamedTuple):
    """A figure of the page.

    Attributes:
        slug: the file's name without its ending.
        heading: what it shows.
        image: a PNG of it, shown where there is no plot.
        plot: what plotly.js draws.
        data: the numbers that are drawn, header and rows.
    """

    slug: str
    heading: str
    image: Path | None = None
    plot: Plot | None = None
    data: Cells | None = None


def color(method: str) -> str:
    """The color of a method on the page."""
    return COLORS.get(method) or OTHERS[_place(method) % len(OTHERS)]


def dash(method: str) -> str:
    """The line of a method, so that color alone need not tell it."""
    return DASHES[list(METHODS).index(method) % len(DASHES)]


def _place(method: str) -> int:
    return [name for name in METHODS if name not in COLORS].index(method)


def axis(title: str, **others: object) -> Parts:
    """An axis of plotly.js with a title."""
    return {"title": {"text": text(title)}, "automargin": True, **others}


def text(words: str) -> str:
    """Words as plotly.js takes them: it reads some tags of HTML."""
    return escape(words, quote=False).replace("\n", "<br>")


@cache
def library() -> str:
    """plotly.js, packed by gzip to two fifths, as base64; empty where plotly is not installed."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return ""
    path = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    if not path.is_file():
        return ""
    return base64.b64encode(gzip.compress(path.read_bytes(), mtime=0)).decode()


def html(figure: Figure) -> str:
    """A figure with its heading, its controls and a link to its numbers."""
    name, plot = file_name(figure.slug), figure.plot if library() else None
    parts = [f'<figure id="figure-{name}"><figcaption>{escape(figure.heading)}</figcaption>']
    if plot:
        parts += _controls(plot, name, figure.heading)
    elif figure.image:
        shown = base64.b64encode(figure.image.read_bytes()).decode()
        parts.append(
            f'<div class="still" tabindex="0"><img alt="{escape(figure.heading)}" '
            f'src="data:image/png;base64,{shown}"></div>'
        )
    if plot and plot.note:
        parts.append(f"<p>{escape(plot.note)}</p>")
    if figure.data:
        parts.append(f"<p>{download(figure.slug, figure.data)}</p>")
    return "\n".join([*parts, "</figure>"])


def download(slug: str, cells: Cells) -> str:
    """A link that saves the cells as a file of CSV, which the page holds."""
    name = file_name(slug)
    data = base64.b64encode(plain_csv(cells).encode()).decode()
    return (
        f'<a class="csv" download="{name}.csv" href="data:text/csv;charset=utf-8;base64,{data}">'
        f"{name}.csv</a>"
    )


def _controls(plot: Plot, name: str, heading: str) -> list[str]:
    parts = []
    if len(plot.views) > 1:
        options = "".join(
            f'<option value="{i}">{escape(view.name)}</option>' for i, view in enumerate(plot.views)
        )
        parts.append(f"<label>Show <select>{options}</select></label>")
    parts.append(
        f'<div class="plot" role="img" aria-label="{escape(heading)}"></div>'
        "<noscript>This figure needs JavaScript; its numbers are in the file below.</noscript>"
    )
    if plot.slider:
        last, start = len(plot.slider.values) - 1, plot.slider.start
        parts.append(
            f'<label class="slider">{escape(plot.slider.label)} '
            f'<input type="range" min="0" max="{last}" value="{start}" '
            f'aria-valuetext="{escape(plot.slider.said[start])}"></label>'
            f'<output aria-live="polite">{escape(plot.slider.said[start])}</output>'
        )
    parts.append(f'<script type="application/json">{embedded(plot)}</script>')
    return parts


def embedded(plot: Plot) -> str:
    """The figure as JSON that may stand in a page; numbers have no more digits than are seen."""
    said: Parts = {
        "views": [{"traces": list(v.traces), "layout": v.layout} for v in plot.views],
    }
    if plot.slider:
        said["slider"] = {
            "values": list(plot.slider.values),
            "moved": [list(one) for one in plot.slider.moved],
            "said": list(plot.slider.said),
        }
    written = json.dumps(_rounded(said), separators=(",", ":"), allow_nan=False)
    return written.replace("<", "\\u003c")


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def floats(values: Iterable[float]) -> list[float | None]:
    """Numbers, of numpy too, as JSON takes them."""
    return [float(one) for one in values]
