"""Draws what prompts prefer: shares of each label before and after, or the gain of each context."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import save_as as save
from batch_calibration.artifacts.figures.style import styled
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED
from batch_calibration.artifacts.method_display import FIGURE
from batch_calibration.diagnosis import Diagnosis

__all__ = ["draw", "save"]

MAX_PANELS = 3  # contexts that have panels of their own; of more the gains are drawn


@styled()
def draw(diagnoses: Sequence[Diagnosis], titles: Sequence[str]) -> Figure:
    """A few contexts: preference and shares of each label; many: the gain of each, sorted."""
    if len(diagnoses) > MAX_PANELS:
        return _draw_gains(diagnoses, titles)
    most = max(len(diagnosis.label_names) for diagnosis in diagnoses)
    figure, grid = plt.subplots(
        len(diagnoses), 2, figsize=(max(8.0, 4 + 0.9 * most), 3 * len(diagnoses)), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for (left, right), diagnosis, title in zip(grid, diagnoses, titles, strict=True):
        at = np.arange(len(diagnosis.label_names))
        left.bar(at, diagnosis.preference, color=FIGURE.color(BASELINE), width=0.6)
        left.axhline(0, color="black", lw=0.8)
        _name_labels(left, diagnosis)
        left.set_ylabel("mean log-probability\nless the labels' mean (nats)")
        left.set_title(fill(f"{title}: preference", 44), loc="left")
        _draw_shares(right, diagnosis, at)
    return figure


def _name_labels(axes: Axes, diagnosis: Diagnosis) -> None:
    names = diagnosis.label_names
    axes.set_xticks(np.arange(len(names)), names, rotation=20 if len(names) > 4 else 0)


def _draw_shares(axes: Axes, diagnosis: Diagnosis, at: np.ndarray) -> None:
    for offset, name, shares, method in (
        (-0.2, "predicted", diagnosis.predicted, BASELINE),
        (0.2, f"after {diagnosis.method}", diagnosis.corrected, CORRECTED),
    ):
        axes.bar(at + offset, 100 * shares, width=0.38, color=FIGURE.color(method), label=name)
    if diagnosis.classes is not None:
        right = 100 * diagnosis.classes
        axes.hlines(right, at - 0.42, at + 0.42, color="#000000", lw=1.6, label="right")
    _name_labels(axes, diagnosis)
    axes.set_ylabel("share of rows (%)")
    axes.set_title(f"{diagnosis.rows:,} rows", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _draw_gains(diagnoses: Sequence[Diagnosis], titles: Sequence[str]) -> Figure:
    """The gain of each context, or without right labels the strength of its preference."""
    intervals = []
    for diagnosis, title in zip(diagnoses, titles, strict=True):
        if diagnosis.gain:
            intervals.append((*(100 * end for end in diagnosis.gain), title))
    label = f"gain in accuracy by {diagnoses[0].method} (points), 95 % interval"
    if not intervals:
        sizes = [float(np.ptp(diagnosis.preference)) for diagnosis in diagnoses]
        intervals = list(zip(sizes, sizes, sizes, titles, strict=True))
        label = "preference of one label over another (nats)"
    *numbers, names = zip(*sorted(intervals), strict=True)
    middle, low, high = map(np.array, numbers)  # [context] each, from the lowest gain on
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.16 * len(names)), layout="constrained")
    at, shade = np.arange(len(names)), FIGURE.color(CORRECTED)
    axes.errorbar(middle, at, xerr=[middle - low, high - middle], fmt="o", ms=3, color=shade)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(at, names, fontsize=6)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(label)
    return figure
