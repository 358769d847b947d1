"""Shows how far a long run is: a bar with speed and time left; of a training, each step on disk."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rich import progress as rich
from rich.text import Text


class Speed(rich.ProgressColumn):
    """Units per second."""

    def __init__(self, unit: str):
        super().__init__()
        self.unit = unit

    def render(self, task: rich.Task) -> Text:
        """The speed so far."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} {self.unit}/s")


class Progress:
    """A bar: what is done now, how much of all, units per second, time left.

    A scoring loop uses it so, with one update after each batch of a context's rows:

        with Progress("scoring", sum(sizes), "examples") as progress:
            for cell, size, before in zip(cells, sizes, accumulate(sizes, initial=0)):
                progress.update(description=f"{cell['task']}, seed {cell['seed']}")
                score(cell, report=lambda rows: progress.update(completed=before + rows))

    Where the output is no terminal, the bar is printed once, at the end.

    Args:
        description: What is done.
        total: How many units there are.
        unit: What they are, in the plural.
    """

    def __init__(self, description: str, total: float, unit: str):
        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(),
                   rich.MofNCompleteColumn(), Speed(unit), rich.TimeRemainingColumn())  # fmt: skip
        self._bar = rich.Progress(*columns)
        self._task = self._bar.add_task(description, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(
        self,
        completed: float | None = None,
        description: str | None = None,
        total: float | None = None,
    ) -> None:
        """Set how many units are completed, what is done now, or how many units there are."""
        self._bar.update(self._task, completed=completed, description=description, total=total)

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


class TrainingProgress(Progress):
    """The bar of a training run, whose steps are also kept in a file; a stopped run adds to it.

    Args:
        path: The file, JSON lines.
        every: After how many steps a line is printed.
        unit: What a step learns from, in the plural.
    """

    def __init__(self, path: Path, every: int, unit: str):
        super().__init__("training", 0, unit)
        self._every = every
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._file.write("\n")  # ends a line that a stopped run left incomplete
        self._last = time.monotonic()
        self._recent: dict[str, list[float]] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        super().__exit__(kind, error, traceback)

    def step(self, step: int, numbers: Mapping[str, float], completed: int, left: int) -> None:
        """Keep a step's numbers; of all units so many are completed and at most so many left.

        Every few steps the means of the numbers since the last line are printed.
        """
        now = time.monotonic()
        row = {"step": step, "seconds": round(now - self._last, 4), **numbers}
        self._file.write(json.dumps(row) + "\n")
        self._last = now
        for name, value in numbers.items():
            self._recent.setdefault(name, []).append(value)
        self.update(completed=completed, total=completed + left)
        if step % self._every == 0 or not left:
            means = "  ".join(f"{k} {sum(v) / len(v):.3f}" for k, v in self._recent.items())
            self.print(f"step {step}  {means}")
            self._recent.clear()


def read_curve(path: Path) -> list[dict[str, float]]:
    """The steps of a run, each once: after a stop its last line is torn and some steps repeat."""
    steps: dict[float, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        steps[row["step"]] = row
    return [steps[step] for step in sorted(steps)]
