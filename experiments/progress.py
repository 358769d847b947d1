"""How a training run is going: each step on disk, now and then a line with the time left."""

import json
import time
from collections.abc import Mapping
from pathlib import Path


class Progress:
    """Steps of a run of `total`, kept in `curve.jsonl` of the workdir; a stopped run adds to it."""

    def __init__(self, workdir: Path, total: int, every: int, unit: str):
        self.path = workdir / "curve.jsonl"
        self._total, self._every, self._unit = total, every, unit
        self._file = self.path.open("a", encoding="utf-8")
        self._file.write("\n")  # ends a line that an earlier run tore
        self._began, self._steps, self._seen = time.monotonic(), 0, 0

    def step(self, step: int, seen: int, numbers: Mapping[str, float]) -> None:
        """Keep the numbers of a step that saw so many units; every few steps, print them."""
        self._steps += 1
        self._seen += seen
        self._file.write(json.dumps({"step": step, **numbers}) + "\n")
        if step % self._every == 0 or step == self._total:
            self._file.flush()
            spent = time.monotonic() - self._began
            left = spent / self._steps * (self._total - step)
            said = "  ".join(f"{name} {value:.3f}" for name, value in numbers.items())
            print(
                f"step {step}/{self._total}  {said}  {self._seen / spent:,.0f} {self._unit}/s  "
                f"{left / 60:.1f} min left",
                flush=True,
            )

    def close(self) -> float:
        """Minutes since the run began, or went on."""
        self._file.close()
        return (time.monotonic() - self._began) / 60


def read_curve(path: Path) -> list[dict[str, float]]:
    """The steps of a run, each once: a stopped run tears its last line and repeats some steps."""
    steps: dict[float, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        steps[row["step"]] = row
    return [steps[step] for step in sorted(steps)]
