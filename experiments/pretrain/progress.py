"""Keeps each step of a training run in a file, shows how far it is, and draws its losses."""

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
from batch_calibration.studies import ScoringProgress

LANGUAGE = {"loss": "all tokens, labels weighted"}
"""The language model's loss: key of a step's row, and what the legend says."""
WINDOW = 25
"""Steps of a running mean."""


class TrainingProgress(ProgressBar):
    """The bar of a training run, whose steps are also kept in a file; a stopped run adds to it.

    Args:
        path: The file, JSON lines.
        every: After how many steps a line is printed.
        unit: What a step learns from, in the plural.
    """

    def __init__(self, path: Path, every: int, unit: str):
        super().__init__("training", unit)
        self._every = every
        # Line-buffered: a stop loses no step.
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._file.write("\n")  # ends a line that a stopped run left incomplete
        self._last = time.monotonic()
        self._recent: dict[str, list[float]] = {}

    def __exit__(self, *error: object) -> None:
        self._file.close()
        super().__exit__(*error)

    def step(self, step: int, numbers: Mapping[str, float], done: int, left: int) -> None:
        """Keep a step's numbers; of all units so many are done and at most so many left.

        Every few steps the means of the numbers since the last line are printed.
        """
        step_end = time.monotonic()
        row = {"step": step, "seconds": round(step_end - self._last, 4), **numbers}  # seconds
        self._file.write(json.dumps(row) + "\n")
        self._last = step_end
        for name, number in numbers.items():
            self._recent.setdefault(name, []).append(number)
        self.update(ScoringProgress("training", done, done + left))
        if step % self._every == 0 or not left:  # the last steps, too, where they fill no line
            means = [f"{k} {sum(recent) / len(recent):.3f}" for k, recent in self._recent.items()]
            self.print(f"step {step}  {'  '.join(means)}")
            self._recent.clear()


def read_curve(path: Path) -> list[dict[str, float]]:
    """The steps of a run, each once: after a stop its last line is torn and some steps repeat."""
    steps: dict[float, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # torn by a stop
        steps[row["step"]] = row  # of repeated steps the later run's
    return [steps[step] for step in sorted(steps)]


@styled
def draw_curve(
    steps: Sequence[dict[str, Any]],
    stage_ends: Sequence[int],
    losses: Mapping[str, str] = LANGUAGE,
    unit: str = "token",
    tasks: Sequence[str] = (),
) -> Figure:
    """Losses in nats per `unit` against steps, running means over `WINDOW` steps.

    `steps` holds `step` and the keys of `losses`, and for some steps the keys of `tasks`, each a
    thin line; `stage_ends` are the last steps of the stages.
    """
    figure = Picture((6, 3), dpi=150)
    axes = figure.subplots()
    colors = ("black",) if tasks else (palette.color("bc"), palette.color("cc"))
    for (key, name), color in zip(losses.items(), colors, strict=False):
        # Above the tasks' thin lines.
        axes.plot(*_smooth(steps, key), color=color, label=name, zorder=3)
    tab20 = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for task, color in zip(tasks, tab20, strict=False):
        axes.plot(*_smooth(steps, task), color=color, linewidth=0.8, label=task)
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


def _smooth(steps: Sequence[dict[str, Any]], key: str) -> tuple[np.ndarray, Any]:
    """Steps that have a key, and the running means of its values."""
    at = np.array([row["step"] for row in steps if key in row])
    losses = np.array([row[key] for row in steps if key in row])
    size = min(WINDOW, len(losses))  # a short run has fewer
    smooth = np.convolve(losses, np.ones(size) / size, "valid") if size else losses
    return at[len(at) - len(smooth) :], smooth  # a mean stands at the last of its steps
