"""Draws charts on a page with plotly.js: what it takes, a choice, a slider, the numbers as CSV."""

import base64
import gzip
import json
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.figures.chart import Chart
from batch_calibration.artifacts.report.traces import Parts, panel_parts
from batch_calibration.files import file_name
from batch_calibration.store import csv_text

PIXELS = 105  # of an inch of a chart
WITHOUT = (
    "This figure needs plotly or matplotlib: pip install 'batch-calibration[plots]'. Its numbers "
    "are in the file below."
)


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


def html(slug: str, chart: Chart) -> str:
    """A figure with its heading, its controls, how to read it, and a link to its numbers."""
    lines = [
        f'<figure id="figure-{file_name(slug)}"><figcaption>{escape(chart.heading)}</figcaption>'
    ]
    lines += _controls(chart) if library() else [_picture(chart)]
    if chart.note:
        lines.append(f'<p class="note">{escape(chart.note)}</p>')
    lines.append(f"<p>{download(slug, chart.data())}</p>")
    return "\n".join([*lines, "</figure>"])


def _picture(chart: Chart) -> str:
    """The chart as matplotlib draws it, where plotly is not installed."""
    try:
        from batch_calibration.artifacts.figures import render, style
    except ImportError:
        return f"<p>{WITHOUT}</p>"
    image = base64.b64encode(style.to_file(render.draw(chart), "png")).decode()
    return (
        f'<div class="still" tabindex="0"><img alt="{escape(chart.heading)}" '
        f'src="data:image/png;base64,{image}"></div>'
    )


def download(slug: str, cells: Cells) -> str:
    """A link that saves the cells as a file of CSV, which the page holds."""
    name = file_name(slug)
    encoded = base64.b64encode(csv_text(cells).encode()).decode()
    return (
        f'<a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">{name}.csv</a>'
    )


def _controls(chart: Chart) -> list[str]:
    lines = []
    if not chart.together and len(chart.panels) > 1:
        options = ""
        for number, panel in enumerate(chart.panels):
            state = " selected" if number == chart.first else ""
            options += f'<option value="{number}"{state}>{escape(panel.name)}</option>'
        lines.append(f"<label>Show <select>{options}</select></label>")
    lines.append(
        f'<div class="plot" role="img" aria-label="{escape(chart.heading)}"></div>'
        "<noscript>This figure needs JavaScript; its numbers are in the file below.</noscript>"
    )
    if chart.slider:
        label = escape(chart.slider)
        lines.append(
            f'<label class="slider">{label} <input type="range" min="0"></label>'
            '<output aria-live="polite"></output>'
        )
    lines.append(f'<script type="application/json">{embed_json(chart)}</script>')
    return lines


def embed_json(chart: Chart) -> str:
    """The chart as JSON that may stand in a page; numbers have no more digits than are seen."""
    panels = list(map(panel_parts, chart.panels))
    content: Parts = {"panels": panels, "across": chart.across, "together": chart.together}
    width = round(PIXELS * chart.size[0])
    content |= {"least": width, "shared": chart.shares_y and chart.together}
    if chart.slider:
        content["slider"] = chart.slider
    for panel in panels:
        panel["height"] = max(260, round(PIXELS * chart.size[1]), int(str(panel["height"])))
    written = json.dumps(_rounded(content), separators=(",", ":"), allow_nan=False)
    # No end tag of a script inside a script.
    return written.replace("<", "\\u003c")


def _rounded(tree: object) -> object:
    if isinstance(tree, float):
        return float(f"{tree:.4g}") if np.isfinite(tree) else None
    if isinstance(tree, list):
        return list(map(_rounded, tree))
    if isinstance(tree, dict):
        return dict(zip(tree, map(_rounded, tree.values()), strict=True))
    return tree
