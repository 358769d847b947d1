"""The loss curve of a training run: all tokens, and label tokens alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.style import COLORS, STYLE


def curve(steps: Sequence[dict[str, Any]], phase_ends: Sequence[int], window: int = 25) -> Figure:
    """Loss in nats per token against steps, a running mean over `window` steps.

    `steps` holds `step`, `loss` and `label`; `phase_ends` are steps where the text changes.
    """
    at = np.array([row["step"] for row in steps])
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6, 3))
        for key, name, color in (
            ("loss", "all tokens, labels weighted", COLORS["bc"]),
            ("label", "label tokens alone", COLORS["cc"]),
        ):
            values = np.array([row[key] for row in steps])
            kernel = np.ones(min(window, len(values))) / min(window, len(values))
            smooth = np.convolve(values, kernel, "valid")
            axes.plot(at[len(at) - len(smooth) :], smooth, color=color, label=name)
        for end in phase_ends[:-1]:
            axes.axvline(end, color="#999999", linestyle=":", linewidth=1)
        axes.set_ylim(0, 3)
        axes.set_xlabel("step (dotted: the next phase begins)")
        axes.set_ylabel("loss (nats per token)")
        axes.legend()
    return figure
