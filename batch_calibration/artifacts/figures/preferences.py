"""Draws what prompts prefer: shares of each label before and after, or the gain of each context."""

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE, color
from batch_calibration.diagnosis import Diagnosis
from batch_calibration.files import write_whole

ONE_BY_ONE = 3
"""Contexts that have panels of their own."""
RIGHT = "#000000"


def draw(found: Sequence[Diagnosis], titles: Sequence[str]) -> Figure:
    """A few contexts: preference and shares of each label; many: the gain of each, sorted."""
    with plt.rc_context(STYLE):
        if len(found) > ONE_BY_ONE:
            return _gains(found, titles)
        most = max(len(one.label_names) for one in found)
        figure, grid = plt.subplots(
            len(found),
            2,
            figsize=(max(8.0, 4 + 0.9 * most), 3 * len(found)),
            squeeze=False,
            layout="constrained",
        )
        for (left, right), one, title in zip(grid, found, titles, strict=True):
            _preference(left, one, title)
            _shares(right, one)
    return figure


def _preference(axes: Axes, one: Diagnosis, title: str) -> None:
    places = np.arange(len(one.label_names))
    axes.bar(places, one.preference, color=color("icl"), width=0.6)
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(places, one.label_names, rotation=20 if len(places) > 4 else 0)
    axes.set_ylabel("mean log-probability\nless the labels' mean (nats)")
    axes.set_title(fill(f"{title}: preference", 44), loc="left")


def _shares(axes: Axes, one: Diagnosis) -> None:
    places = np.arange(len(one.label_names))
    bars = [
        ("predicted", one.predicted, color("icl")),
        (f"after {one.method}", one.corrected, color("bc")),
    ]
    for offset, (name, values, tint) in zip((-0.2, 0.2), bars, strict=True):
        axes.bar(places + offset, 100 * values, width=0.38, color=tint, label=name)
    if one.classes is not None:
        low, high = places - 0.42, places + 0.42
        axes.hlines(100 * one.classes, low, high, color=RIGHT, lw=1.6, label="right")
    axes.set_xticks(places, one.label_names, rotation=20 if len(places) > 4 else 0)
    axes.set_ylabel("share of rows (%)")
    axes.set_title(f"{one.rows:,} rows", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _gains(found: Sequence[Diagnosis], titles: Sequence[str]) -> Figure:
    pairs = zip(found, titles, strict=True)
    gains = [
        (100 * one.gain.value, 100 * one.gain.low, 100 * one.gain.high, title)
        for one, title in pairs
        if one.gain
    ]
    label = f"gain in accuracy by {found[0].method} (points), 95 % interval"
    if not gains:
        sizes = [float(np.ptp(one.preference)) for one in found]
        gains = list(zip(sizes, sizes, sizes, titles, strict=True))
        label = "preference of one label over another (nats)"
    order = sorted(gains)
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.16 * len(order)), layout="constrained")
    middle, low, high = (np.array(column) for column in list(zip(*order, strict=True))[:3])
    places = np.arange(len(order))
    axes.errorbar(
        middle, places, xerr=[middle - low, high - middle], fmt="o", ms=3, color=color("bc")
    )
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(places, [one[3] for one in order], fontsize=6)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_xlabel(label)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the form that its ending names, whole or not at all, and close it."""
    data = io.BytesIO()
    with plt.rc_context(STYLE):
        figure.savefig(data, format=path.suffix[1:])
    plt.close(figure)
    write_whole(path, data.getvalue())
