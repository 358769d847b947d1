"""Times of programs after scoring: calibrate (cold and warm), tables, figures, report.

    python -m benchmarks.after_scoring [--workdir=DIR]

Runs the three score programs of `make run` into a fresh workdir first: their time is what each
share is of. With --workdir the programs after them run on the scores of that workdir instead, as a
copy. Cold and warm: without and with compiled programs in JAX's cache, each a temporary folder.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ("mini.py", "shots.py:mini", "vision.py:mini")


def seconds(name: str, *flags: str, cache: Path) -> float:
    """Seconds of `python -m experiments.NAME FLAGS` as a whole process."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}
    environment.setdefault("JAX_PLATFORMS", "cpu")  # a caller may name the accelerator
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", f"experiments.{name}", *flags],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - start


def main() -> None:
    """Prints one line per program: seconds, and the share of the time that scoring takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", type=Path, help="scores to use for what follows scoring")
    workdir_flag = parser.parse_args().workdir
    with tempfile.TemporaryDirectory() as folder:
        scored, workdir, caches = (Path(folder) / name for name in ("scored", "after", "caches"))
        cold, warm = caches / "cold", caches / "warm"
        scoring = 0.0
        for name in CONFIGS:
            config, target = f"--config=configs/{name}", f"--workdir={scored}"
            scoring += seconds("score", config, target, cache=cold)
        # A copy, as the programs below write into it.
        shutil.copytree((workdir_flag or scored) / "scores", workdir / "scores")
        where = f"--workdir={workdir}"
        # Not counted: this one fills the cache that the warm programs read.
        seconds("calibrate", where, cache=warm)
        taken = {
            # Score's programs in the same cache are none of calibrate's.
            "calibrate, cold": seconds("calibrate", where, cache=caches / "empty"),
            "calibrate, warm": seconds("calibrate", where, cache=warm),
            **{name: seconds(name, where, cache=warm) for name in ("tables", "figures", "report")},
        }
    taken["tables + figures + report"] = sum(taken[n] for n in ("tables", "figures", "report"))
    print(f"| program | seconds | share of scoring ({scoring:.1f} s) |\n|---|---|---|")
    for name, time_taken in taken.items():
        print(f"| {name} | {time_taken:.1f} | {100 * time_taken / scoring:.1f} % |")


if __name__ == "__main__":
    main()
