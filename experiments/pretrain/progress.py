"""Stores the steps of a training run in a file, shows its progress, and draws its losses."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from batch_calibration.cli.progress import ProgressBar
from batch_calibration.reporting import palette
from batch_calibration.reporting.figures.style import Picture, styled
from batch_calibration.studies.scoring import ScoringProgress

LANGUAGE = {"loss": "all tokens, labels weighted"}
"""The language model's loss: its key in a step's row -> its name in the legend."""
WINDOW = 25
"""Number of steps in a running mean."""


class TrainingProgress(ProgressBar):
    """A progress bar of a training run that also appends each step to a file.

    Args:
        path: The JSON Lines file.
        every: Number of steps between printed lines.
        unit: Name of the training units in the plural, such as "tokens".
    """

    def __init__(self, path: Path, every: int, unit: str):
        super().__init__("training", unit)
        self._every = every
        # Line-buffered, so that a stopped run loses no step.
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._file.write("\n")  # ends a line that a stopped run may have left incomplete
        self._last = time.monotonic()
        self._recent: dict[str, list[float]] = {}

    def __exit__(self, *error: object) -> None:
        self._file.close()
        super().__exit__(*error)

    def step(self, step: int, numbers: Mapping[str, float], done: int, left: int) -> None:
        """Stores a step's numbers and updates the bar.

        Every few steps it prints the means of the numbers since the last printed line.

        Args:
            step: number of the step.
            numbers: name -> number.
            done: number of finished units.
            left: maximum number of remaining units.
        """
        step_end = time.monotonic()
        row = {"step": step, "seconds": round(step_end - self._last, 4), **numbers}  # seconds
        self._file.write(json.dumps(row) + "\n")
        self._last = step_end
        for name, number in numbers.items():
            self._recent.setdefault(name, []).append(number)
        self.update(ScoringProgress("training", done, done + left))
        # The last line may cover fewer steps.
        if step % self._every == 0 or not left:
            means = [f"{k} {sum(recent) / len(recent):.3f}" for k, recent in self._recent.items()]
            self.print(f"step {step}  {'  '.join(means)}")
            self._recent.clear()


def read_curve(path: Path) -> list[dict[str, float]]:
    """Reads the steps of a run in order, without incomplete lines and repeated steps."""
    steps: dict[float, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # incomplete because the run was stopped
        steps[row["step"]] = row  # the later of repeated steps
    return [steps[step] for step in sorted(steps)]


@styled
def draw_curve(
    steps: Sequence[dict[str, Any]],
    stage_ends: Sequence[int],
    losses: Mapping[str, str] = LANGUAGE,
    unit: str = "token",
    tasks: Sequence[str] = (),
) -> Figure:
    """Draws losses in nats per `unit` against steps, as running means over `WINDOW` steps.

    Each row of `steps` has the key `step` and the keys of `losses`; some rows have keys of `tasks`,
    which are drawn as thin lines. `stage_ends` holds the last step of each stage.
    """
    figure = Picture((6, 3), dpi=150)
    axes = figure.subplots()
    colors = ("black",) if tasks else (palette.color("bc"), palette.color("cc"))
    for (key, name), color in zip(losses.items(), colors, strict=False):
        # Drawn above the thin lines of the tasks.
        axes.plot(*_smooth(steps, key), color=color, label=name, zorder=3)
    tab20 = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for task, color in zip(tasks, tab20, strict=False):
        axes.plot(*_smooth(steps, task), color=color, linewidth=0.8, label=task)
    for end in stage_ends[:-1]:  # the last one is the end of the curve
        axes.axvline(end, color="#999999", linestyle=":", linewidth=1)
    axes.set_xlim(steps[0]["step"] - 1, steps[-1]["step"])
    axes.set_ylim(0, 3 if unit == "token" else None)  # nats; cuts off the first steps
    axes.set_xlabel("step" + " (dotted: the next stage begins)" * (len(stage_ends) > 1))
    axes.set_ylabel(f"loss (nats per {unit})")
    if tasks:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1.05), fontsize=7, borderaxespad=0)
    else:
        axes.legend()
    return figure


def _smooth(steps: Sequence[dict[str, Any]], key: str) -> tuple[np.ndarray, Any]:
    """Returns the steps that have a key, and the running means of its values."""
    at = np.array([row["step"] for row in steps if key in row])
    losses = np.array([row[key] for row in steps if key in row])
    size = min(WINDOW, len(losses))  # a short run has fewer
    smooth = np.convolve(losses, np.ones(size) / size, "valid") if size else losses
    return at[len(at) - len(smooth) :], smooth  # a mean is drawn at the last of its steps
