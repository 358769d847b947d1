"""Draws the loss curve of a training run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE
from batch_calibration.artifacts.method_display import PALETTE

LANGUAGE = {"loss": "all tokens, labels weighted"}
"""The language model's loss: key of a step's row, and what the legend says."""


def draw_curve(
    steps: Sequence[dict[str, Any]],
    stage_ends: Sequence[int],
    losses: Mapping[str, str] = LANGUAGE,
    unit: str = "token",
    tasks: Sequence[str] = (),
    window: int = 25,
) -> Figure:
    """Losses in nats per `unit` against steps, running means over `window` steps.

    `steps` holds `step` and the keys of `losses`, and for some steps those of `tasks`, each a thin
    line; `stage_ends` are the last steps of the stages.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6, 3))
        colors = ("black",) if tasks else (PALETTE.color("bc"), PALETTE.color("cc"))
        for (key, name), color in zip(losses.items(), colors, strict=False):
            # Above the tasks' thin lines.
            axes.plot(*_smooth(steps, key, window), color=color, label=name, zorder=3)
        palette = colormaps["tab20"].colors  # type: ignore[attr-defined]
        for task, color in zip(tasks, palette, strict=False):
            axes.plot(*_smooth(steps, task, window), color=color, linewidth=0.8, label=task)
        for end in stage_ends[:-1]:  # the last one is the end of the curve
            axes.axvline(end, color="#999999", linestyle=":", linewidth=1)
        axes.set_xlim(steps[0]["step"] - 1, steps[-1]["step"])
        axes.set_ylim(0, 3 if unit == "token" else None)  # nats; the first steps lie above
        axes.set_xlabel("step" + " (dotted: the next stage begins)" * (len(stage_ends) > 1))
        axes.set_ylabel(f"loss (nats per {unit})")
        if tasks:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1.05), fontsize=7, borderaxespad=0)
        else:
            axes.legend()
    return figure


def _smooth(steps: Sequence[dict[str, Any]], key: str, window: int) -> tuple[np.ndarray, Any]:
    """Steps that have a key, and the running means of its values."""
    at = np.array([row["step"] for row in steps if key in row])
    losses = np.array([row[key] for row in steps if key in row])
    size = min(window, len(losses))  # a short run has fewer
    smooth = np.convolve(losses, np.ones(size) / size, "valid") if size else losses
    return at[len(at) - len(smooth) :], smooth  # a mean stands at the last of its steps
