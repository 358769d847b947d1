"""The loss curve of a training run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.style import COLORS, STYLE

LANGUAGE = {"loss": "all tokens, labels weighted", "label": "label tokens alone"}
"""Losses of the language model: key of a step's row, and what the legend says."""


def curve(
    steps: Sequence[dict[str, Any]],
    phase_ends: Sequence[int],
    losses: Mapping[str, str] = LANGUAGE,
    unit: str = "token",
    window: int = 25,
) -> Figure:
    """Losses in nats per `unit` against steps, running means over `window` steps.

    `steps` holds `step` and the keys of `losses`; `phase_ends` are steps where the data change.
    """
    at = np.array([row["step"] for row in steps])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6, 3))
        for (key, name), color in zip(losses.items(), (COLORS["bc"], COLORS["cc"]), strict=False):
            values = np.array([row[key] for row in steps])
            kernel = np.ones(min(window, len(values))) / min(window, len(values))
            smooth = np.convolve(values, kernel, "valid")
            axes.plot(at[len(at) - len(smooth) :], smooth, color=color, label=name)
        for end in phase_ends[:-1]:
            axes.axvline(end, color="#999999", linestyle=":", linewidth=1)
        axes.set_ylim(0, 3 if unit == "token" else None)
        axes.set_xlabel("step" + " (dotted: the next phase begins)" * (len(phase_ends) > 1))
        axes.set_ylabel(f"loss (nats per {unit})")
        axes.legend()
    return figure
