"""Draws charts on a page with plotly.js: traces and axes, a choice, a slider, numbers as CSV."""

import base64
import gzip
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.files import file_name
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.figures.chart import Axis, Chart, Panel, shown_marks
from batch_calibration.reporting.figures.marks import Bars, Dots, Heat, Line, Mark, Rule, Spans
from batch_calibration.studies import csv_text

Parts = dict[str, object]  # a trace or an axis
PIXELS = 105  # of an inch of a chart
ROW = 24  # pixels of a name on the vertical axis
LETTER = 7  # pixels of a letter in the names of an axis
WITHOUT = (
    "This figure needs plotly or matplotlib: pip install 'batch-calibration[plots]'. Its numbers "
    "are in the file below."
)


class Figure(NamedTuple):
    """A figure of the page."""

    slug: str  # the file's name without its ending
    chart: Chart


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
    """A figure with its heading, its controls, how to read it, and a link to its numbers."""
    slug, chart = figure
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
        from batch_calibration.reporting.figures import render, style
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
        lines.append(
            f'<label class="slider">{escape(chart.slider)} <input type="range" min="0"></label>'
            '<output aria-live="polite"></output>'
        )
    return [*lines, f'<script type="application/json">{embed_json(chart)}</script>']


def embed_json(chart: Chart) -> str:
    """The chart as JSON that may stand in a page; numbers have no more digits than are seen."""
    least_height = max(260, round(PIXELS * chart.size[1]))
    content: Parts = {
        "panels": [_panel_parts(panel, least_height) for panel in chart.panels],
        "across": chart.across, "together": chart.together,
        "least": round(PIXELS * chart.size[0]), "shared": chart.shares_y and chart.together,
    }  # fmt: skip
    if chart.slider:
        content["slider"] = chart.slider
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


def _panel_parts(panel: Panel, least_height: int) -> Parts:
    """A panel as plotly.js takes it: traces, shapes, and both axes; pixels of its height."""
    traces: list[Parts] = []
    shapes: list[Parts] = []
    for mark in shown_marks(panel):
        if isinstance(mark, Rule):
            # The page puts a line across the panel on the panel's axes.
            line = {"color": mark.color, "dash": mark.dash, "width": mark.width}
            name, at = _text(mark.name), float(mark.at)
            shapes.append({"along": mark.along, "at": at, "name": name, "line": line})
        else:
            traces += _traces(mark, panel)
    y = _axis(panel.y)
    if panel.is_square:
        y |= {"scaleanchor": "x", "constrain": "domain"}
    count = len(panel.y.names or ()) if panel.y.shows_names else 0
    return {
        "name": _text(panel.name), "title": _text(panel.title or panel.name), "traces": traces,
        "shapes": shapes, "x": _axis(panel.x), "y": y,
        "height": max(least_height, 90 + ROW * count), "beside": LETTER * panel.y.longest_name,
    }  # fmt: skip


def _axis(axis: Axis) -> Parts:
    parts: Parts = {"title": {"text": _text(axis.title)}, "automargin": True, "zeroline": False}
    if axis.is_log:
        parts["type"] = "log"
    if axis.ends is not None:
        parts["range"] = _floats(np.log10(axis.ends)) if axis.is_log else list(axis.ends)
    if axis.names is not None:
        names = list(map(_text, axis.names)) if axis.shows_names else []
        parts |= {"ticktext": names, "tickvals": list(range(len(names))), "showgrid": False}
    elif axis.ticks is not None:
        parts |= {"tickvals": _floats(axis.ticks), "ticktext": axis.tick_texts}
    return parts


def _traces(mark: Mark, panel: Panel) -> list[Parts]:
    match mark:
        case Line():
            return _line(mark)
        case Dots():
            spans = mark.spans()
            intervals = _spans(spans, mark.name) if spans else []
            return [*intervals, _dots(mark, panel)]
        case Spans():
            return _spans(mark)
        case Bars():
            low = np.zeros(len(mark.at)) if mark.low is None else np.asarray(mark.low)
            heights, color = np.asarray(mark.high) - low, {"color": mark.color}
            return [_trace(
                "bar", mark.name, orientation="v", x=_floats(mark.at), base=_floats(low),
                width=mark.width, y=_floats(heights), marker=color | {"opacity": mark.alpha},
                hovertemplate=f"%{{y:.4g}}<extra>{_text(mark.name)}</extra>",
            )]  # fmt: skip
        case Heat():
            steps = np.linspace(0, 1, len(mark.colors)).tolist()
            return [{
                "type": "heatmap", "z": mark.values.tolist(), "zmin": mark.low, "zmax": mark.high,
                "colorscale": list(map(list, zip(steps, mark.colors, strict=True))),
                "texttemplate": f"%{{z:.{mark.digits}f}}", "showscale": False,
                "hovertemplate": f"%{{z:.2f}} {_text(mark.label)}<extra></extra>",
            }]  # fmt: skip
    # Shades of the plane say on a page what lines say.
    return []


def _trace(kind: str, name: str, **parts: object) -> Parts:
    """A trace; one without a name says nothing where the mouse is over it."""
    trace: Parts = {"type": kind, "name": _text(name), "showlegend": bool(name), **parts}
    return trace if name else trace | {"hoverinfo": "skip"}


def _line(mark: Line) -> list[Parts]:
    group, x = _text(mark.name), _floats(mark.x)
    line = _trace(
        "scatter", mark.name, mode="lines+markers" if mark.has_dots else "lines", x=x,
        y=_floats(mark.y), legendgroup=group,
        hovertemplate=f"%{{x}}: %{{y:.4g}}<extra>{group}</extra>",
        line={"color": mark.color, "dash": mark.dash, "width": mark.width},
    )  # fmt: skip
    if mark.low is None or mark.high is None or np.allclose(mark.low, mark.high):
        return [line]
    # Along the upper edge and back along the lower one.
    edges = [*_floats(mark.high), *_floats(mark.low)[::-1]]
    band: Parts = {
        "type": "scatter", "mode": "lines", "x": [*x, *x[::-1]], "y": edges, "fill": "toself",
        "fillcolor": f"{mark.color}{round(255 * max(mark.alpha, 0.12)):02x}", "line": {"width": 0},
        "hoverinfo": "skip", "showlegend": False, "legendgroup": group,
    }  # fmt: skip
    return [band, line]


def _dots(mark: Dots, panel: Panel) -> Parts:
    symbol = f"{mark.symbol}-open" if mark.is_hollow else mark.symbol
    marker = {"color": mark.color, "size": max(5.0, 1.6 * mark.size), "symbol": symbol,
              "opacity": mark.alpha, "line": {"width": 2 if mark.is_hollow else 0}}  # fmt: skip
    trace = _trace(
        "scatter", mark.name, mode="markers", x=_floats(mark.x), y=_floats(mark.y),
        legendgroup=mark.name, text=_hovers(mark, panel), hovertemplate="%{text}<extra></extra>",
        marker=marker,
    )  # fmt: skip
    return trace if isinstance(mark.color, str) else trace | {"showlegend": False}


def _hovers(mark: Dots, panel: Panel) -> list[str]:
    """What is shown where the mouse is over each dot: where it is, its value, its interval."""
    if mark.hover and mark.low is None and not mark.extra:
        return list(map(_text, mark.hover))
    is_along_x = mark.along == "x"
    places, values = (mark.y, mark.x) if is_along_x else (mark.x, mark.y)
    names = (panel.y if is_along_x else panel.x).names
    texts = []
    for i, (position, value) in enumerate(zip(places, values, strict=True)):
        name = f"{position:.4g}" if names is None else names[round(float(position))]
        name = mark.hover[i] if mark.hover else name
        text = f"{name}, {mark.name}: {value:.4g}" if mark.name else f"{name}: {value:.4g}"
        if mark.low is not None and mark.high is not None:
            text += f"\n95 % interval {mark.low[i]:.3g} to {mark.high[i]:.3g}"
        texts.append(_text(text))
    return texts


def _spans(mark: Spans, name: str = "") -> list[Parts]:
    """A trace a color: lines that gaps keep apart."""
    colors = [mark.color] * len(mark.at) if isinstance(mark.color, str) else list(mark.color)
    traces: list[Parts] = []
    for color in dict.fromkeys(colors):
        along: list[float | None] = []
        across: list[float | None] = []
        for at, low, high, own_color in zip(mark.at, mark.low, mark.high, colors, strict=True):
            if own_color == color:
                along += [float(low), float(high), None]
                across += [float(at), float(at), None]
        x, y = (along, across) if mark.along == "x" else (across, along)
        traces.append({
            "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip",
            "line": {"color": color, "width": mark.width}, "showlegend": False,
            "legendgroup": name,
        })  # fmt: skip
    return traces


def _text(plain: str) -> str:
    """A text as plotly.js takes it: it reads some tags of HTML."""
    return escape(plain, quote=False).replace("\n", "<br>")


def _floats(numbers: Iterable[float]) -> list[float]:
    """Numbers, of numpy too, as JSON takes them."""
    return list(map(float, numbers))
