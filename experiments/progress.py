"""Keeps each step of a training run in a file, and shows how far it is."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from batch_calibration.cli.progress import ProgressBar


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
        self.update(done, done + left, "training")
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
