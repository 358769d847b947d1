"""How a training run is going: each step on disk, now and then a line with the time left."""

import json
import time
from collections.abc import Mapping
from pathlib import Path


class Progress:
    """Steps of a run, kept in `curve.jsonl` of the workdir; a stopped run adds to it."""

    def __init__(self, workdir: Path, every: int, unit: str):
        self.path = workdir / "curve.jsonl"
        self._every, self._unit = every, unit
        self._file = self.path.open("a", buffering=1, encoding="utf-8")
        self._file.write("\n")  # ends a line that an earlier run tore
        self._began = self._last = time.monotonic()
        self._seen = 0
        self._since: dict[str, list[float]] = {}

    def step(self, step: int, seen: int, numbers: Mapping[str, float], left: int) -> None:
        """Keep the numbers of a step that saw so many units; at most `left` units are to come.

        Every few steps, print the numbers' means since they were printed last.
        """
        now = time.monotonic()
        row = {"step": step, "seconds": round(now - self._last, 4), **numbers}
        self._file.write(json.dumps(row) + "\n")
        self._last = now
        self._seen += seen
        for name, value in numbers.items():
            self._since.setdefault(name, []).append(value)
        if step % self._every == 0 or not left:
            self._file.flush()
            speed = self._seen / (now - self._began)
            said = "  ".join(f"{k} {sum(v) / len(v):.3f}" for k, v in self._since.items())
            print(
                f"step {step}  {said}  {speed:,.0f} {self._unit}/s  "
                f"{left / speed / 60:.1f} min left",
                flush=True,
            )
            self._since.clear()

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
