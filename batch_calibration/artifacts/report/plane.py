"""Decision boundaries in one plane: each method's line, and every row with its text and scores."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from textwrap import wrap

import jax
import numpy as np

from batch_calibration.artifacts.catalogue import Results
from batch_calibration.artifacts.figures import boundaries
from batch_calibration.artifacts.figures.boundaries import TwoLabels
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.artifacts.report.plots import (
    CLASSES,
    SYMBOLS,
    Parts,
    Plot,
    View,
    axis,
    color,
    dash,
    floats,
    text,
)  # fmt: skip
from batch_calibration.methods import METHODS, Evidence, fit
from batch_calibration.metrics import boundary
from batch_calibration.scores import ScoreTable

Texts = Callable[[ScoreTable], Mapping[str, str]]
"""A score table -> the texts of its test rows by id, where they can be read."""
TASKS = 13
"""Tasks of a figure, at most: the paper's."""
ROWS = 300
"""Rows that are drawn of a task, at most."""
LONGEST = 240
"""Letters of a text that are shown."""
NOTE = (
    "One context a task, two of its labels. A line is where a method's answer changes, in the "
    "plane of the uncorrected scores: above it the label of the vertical axis is answered. Points "
    f"are the first {ROWS} test rows by their right label; hover one to see its text, its scores, "
    "and which methods answer it wrongly."
)


def every(results: Results, texts: Texts) -> dict[str, Plot]:
    """A plot for each setting that has score tables of all methods that are drawn, by slug."""
    found = {}
    for group in results.apart:
        if views := list(islice(_views(group, results, texts), TASKS)):
            found[f"{group.setting.slug}-boundaries"] = Plot(views, note=NOTE)
    return found


def _views(group: SettingRecords, results: Results, texts: Texts) -> Iterator[View]:
    for records in group.records.values():
        table = results.load(records[0])
        if table is not None and boundaries.can_draw(table):
            yield view(table, texts(table))


def view(table: ScoreTable, texts: Mapping[str, str]) -> View:
    """The plane of one table, of two of its labels."""
    two = boundaries.cut(table)
    scores, labels = two.blocks["test"]
    low, high = (float(np.quantile(scores, q)) for q in (0.005, 0.995))
    low, high = low - 0.4, high + 0.4
    ticks = np.linspace(low, high, boundaries.TICKS, dtype=np.float32)
    blocks = {name: boundaries.padded(*block) for name, block in two.blocks.items()}
    points = boundary.plane(low, high, boundaries.TICKS)
    methods = boundaries.drawn_methods()
    decided = jax.device_get(_decide(blocks, points, jax.random.key(0), methods))
    traces = [
        _line(name, ticks, margin) for name, (margin, _) in sorted(decided.items(), key=_order)
    ]
    answers = {name: decided[name][1][: len(scores)] for name in methods}
    columns = [table.label_names.index(name) for name in two.names]
    rows = np.flatnonzero(np.isin(table.blocks["test"].labels, columns))[:ROWS]
    ids = [table.blocks["test"].row_ids[row] for row in rows]
    for label in (0, 1):
        mine = [i for i in range(len(ids)) if labels[i] == label]
        said = [_said(two, i, ids[i], texts, answers) for i in mine]
        traces.append({
            "type": "scatter", "mode": "markers", "name": text(two.names[label]),
            "x": floats(scores[mine, 1]), "y": floats(scores[mine, 0]), "text": said,
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": CLASSES[label], "symbol": SYMBOLS[label], "size": 7,
                       "opacity": 0.75},
        })  # fmt: skip
    sides: Parts = {"range": [low, high], "zeroline": False, "constrain": "domain"}
    layout: Parts = {
        "height": 560, "hovermode": "closest",
        "xaxis": axis(f"log p({two.names[1]}) (nats)", **sides),
        "yaxis": axis(f"log p({two.names[0]}) (nats)", scaleanchor="x", **sides),
    }  # fmt: skip
    return View(boundaries.heading(two).replace("\n", ": "), traces, layout)


def _order(item: tuple[str, object]) -> int:
    return list(METHODS).index(item[0])


@partial(jax.jit, static_argnames="methods", compiler_options={"xla_backend_optimization_level": 0})
def _decide(
    blocks: Mapping[str, Evidence],
    points: jax.Array,
    key: jax.Array,
    methods: tuple[str, ...],
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Of each method the margin in the plane `[t t]`, and the label it gives each test row."""
    found = {}
    for name in methods:
        method = METHODS[name]
        calibrator, state = method.make(), fit(method, blocks, key=key)
        margin = boundary.decision_margin(calibrator, state, points)
        corrected = calibrator.apply(state, blocks["test"].log_probs)
        found[name] = margin, corrected.argmax(axis=-1)
    return found


def _line(method: str, ticks: np.ndarray, margin: np.ndarray) -> Parts:
    """Where the margin is 0; pieces of a curve are kept apart by a gap."""
    from contourpy import contour_generator

    pieces = contour_generator(ticks, ticks, margin).lines(0.0)
    # A straight line needs no more than its ends; a curve keeps every third point.
    thin = [np.concatenate([piece[:-1:3], piece[-1:]]) for piece in pieces]
    x: list[float | None] = []
    y: list[float | None] = []
    for piece in thin:
        x += [*floats(piece[:, 0]), None]
        y += [*floats(piece[:, 1]), None]
    return {
        "type": "scatter", "mode": "lines", "name": method, "x": x, "y": y,
        "line": {"color": color(method), "dash": dash(method), "width": 2.5},
        "hovertemplate": f"boundary of {text(method)}<extra></extra>",
    }  # fmt: skip


def _said(
    two: TwoLabels, i: int, row: str, texts: Mapping[str, str], answers: Mapping[str, np.ndarray]
) -> str:
    """What hovering a row shows."""
    scores, labels = two.blocks["test"]
    words = texts.get(row, "")
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
    lines = [line for part in words.splitlines() for line in wrap(part, 60)]
    each = zip(two.names, scores[i], strict=True)
    lines += [", ".join(f"log p({name}) {score:.2f}" for name, score in each)]
    wrong = [name for name, of in answers.items() if of[i] != labels[i]]
    lines += [f"right: {two.names[labels[i]]}; wrong in: {', '.join(wrong) or 'none'}"]
    return text("\n".join([f"{row}", *lines]))
