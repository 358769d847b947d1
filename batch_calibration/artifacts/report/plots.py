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

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.files import file_name
from batch_calibration.store import csv_text

Parts = dict[str, object]  # a trace or a layout, as plotly.js takes it
# An axis of names, from the top.
NAMES: Parts = {"type": "category", "automargin": True, "autorange": "reversed", "dtick": 1}

SYMBOLS = ("circle", "diamond")  # of two labels: color alone does not tell them apart


class View(NamedTuple):
    """One thing a figure can show: its name, traces and layout of plotly.js."""

    name: str
    traces: Sequence[Parts]
    layout: Parts


class Slider(NamedTuple):
    """A slider below a figure."""

    label: str  # what it sets
    stops: Sequence[float]  # where it can stand
    start: int  # the number of the stop at which it stands first
    moved: Sequence[Sequence[float]]  # for each stop what `x` the figure's last trace has
    sentences: Sequence[str]  # for each stop one


class Plot(NamedTuple):
    """A figure that plotly.js draws: one view or several to choose from, perhaps a slider.

    The first shape of the layout of a figure with a slider is a vertical line, which moves with it.
    """

    views: Sequence[View]
    slider: Slider | None = None
    note: str = ""


class Figure(NamedTuple):
    """A figure of the page."""

    slug: str  # the file's name without its ending
    heading: str  # what it shows
    image: Path | None = None  # a PNG of it, shown where there is no plot
    plot: Plot | None = None  # what plotly.js draws
    data: Cells | None = None  # the numbers that are drawn, header and rows


def axis(title: str, **options: object) -> Parts:
    """An axis of plotly.js with a title."""
    return {"title": {"text": text(title)}, "automargin": True, **options}


def text(plain: str) -> str:
    """A text as plotly.js takes it: it reads some tags of HTML."""
    return escape(plain, quote=False).replace("\n", "<br>")


def floats(numbers: Iterable[float]) -> list[float | None]:
    """Numbers, of numpy too, as JSON takes them."""
    return list(map(float, numbers))


def error_bars(middle: np.ndarray, low: np.ndarray, high: np.ndarray, **options: object) -> Parts:
    """Intervals around points."""
    return {
        "type": "data", "symmetric": False, "array": floats(high - middle),
        "arrayminus": floats(middle - low), **options,
    }  # fmt: skip


def pairs(low: np.ndarray, high: np.ndarray) -> list[list[float]]:
    """The ends of intervals, which are shown when the mouse is over a point."""
    ends: list[list[float]] = np.stack([low, high], axis=1).tolist()
    return ends


@cache
def library() -> str:
    """plotly.js, packed by gzip to two fifths, as base64; empty where plotly is not installed."""
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        return ""
    path = Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    if not path.is_file():
        return ""
    # Without the time in gzip's header the page is the same bytes each time.
    return base64.b64encode(gzip.compress(path.read_bytes(), mtime=0)).decode()


def html(figure: Figure) -> str:
    """A figure with its heading, its controls and a link to its numbers."""
    name, plot = file_name(figure.slug), figure.plot if library() else None
    lines = [f'<figure id="figure-{name}"><figcaption>{escape(figure.heading)}</figcaption>']
    if plot:
        lines += _controls(plot, figure.heading)
    elif figure.image:
        image = base64.b64encode(figure.image.read_bytes()).decode()
        lines.append(
            f'<div class="still" tabindex="0"><img alt="{escape(figure.heading)}" '
            f'src="data:image/png;base64,{image}"></div>'
        )
    if plot and plot.note:
        lines.append(f"<p>{escape(plot.note)}</p>")
    if figure.data:
        lines.append(f"<p>{download(figure.slug, figure.data)}</p>")
    return "\n".join([*lines, "</figure>"])


def download(slug: str, cells: Cells) -> str:
    """A link that saves the cells as a file of CSV, which the page holds."""
    name = file_name(slug)
    encoded = base64.b64encode(csv_text(cells).encode()).decode()
    return (
        f'<a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">{name}.csv</a>'
    )


def _controls(plot: Plot, heading: str) -> list[str]:
    lines = []
    if len(plot.views) > 1:
        options = ""
        for number, view in enumerate(plot.views):
            options += f'<option value="{number}">{escape(view.name)}</option>'
        lines.append(f"<label>Show <select>{options}</select></label>")
    lines.append(
        f'<div class="plot" role="img" aria-label="{escape(heading)}"></div>'
        "<noscript>This figure needs JavaScript; its numbers are in the file below.</noscript>"
    )
    if plot.slider:
        start, sentence = plot.slider.start, escape(plot.slider.sentences[plot.slider.start])
        lines.append(
            f'<label class="slider">{escape(plot.slider.label)} '
            f'<input type="range" min="0" max="{len(plot.slider.stops) - 1}" value="{start}" '
            f'aria-valuetext="{sentence}"></label><output aria-live="polite">{sentence}</output>'
        )
    lines.append(f'<script type="application/json">{embed_json(plot)}</script>')
    return lines


def embed_json(plot: Plot) -> str:
    """The figure as JSON that may stand in a page; numbers have no more digits than are seen."""
    views = [{"traces": list(view.traces), "layout": view.layout} for view in plot.views]
    content: Parts = {"views": views}
    if plot.slider:
        content["slider"] = {
            "values": list(plot.slider.stops),
            "moved": list(map(list, plot.slider.moved)),
            "said": list(plot.slider.sentences),
        }
    written = json.dumps(_rounded(content), separators=(",", ":"), allow_nan=False)
    # No end tag of a script inside a script.
    return written.replace("<", "\\u003c")


def _rounded(tree: object) -> object:
    if isinstance(tree, float):
        return float(f"{tree:.5g}")
    if isinstance(tree, list):
        return list(map(_rounded, tree))
    if isinstance(tree, dict):
        return dict(zip(tree, map(_rounded, tree.values()), strict=True))
    return tree
