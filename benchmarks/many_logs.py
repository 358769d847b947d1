"""Times of commands on 50 logs of the harness, whole processes without compiled programs kept.

python -m benchmarks.many_logs [--rounds=2]

As many rows each as subjects of MMLU have: 100 to 900, every log of another length.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import logs

COUNT = 50
COMMANDS = ("diagnose", "recommend", "compare", "calibrate", "report")


def seconds(folder: Path, command: str) -> float:
    """Seconds of the command on all logs of the folder."""
    output = {"calibrate": "corrected.csv", "report": "page.html"}.get(command)
    flags = [f"--output={folder / output}"] if output else []
    # Empty: no compiled program is kept.
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_COMPILATION_CACHE_DIR": ""}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "batch_calibration", command, f"{folder}/samples_*.jsonl", *flags],
        env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - start


def main() -> None:
    """Write the logs, and print a line a command: the seconds of each round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2, help="how often each command runs")
    rounds = parser.parse_args().rounds
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(COUNT):
            path = folder / f"samples_task{number}_2026-11-25T00-00-00.000000.jsonl"
            logs.write(path, rows=chance.randrange(100, 900), seed=number)
        print("| command | seconds |\n|---|---|")
        for command in COMMANDS:
            taken = [seconds(folder, command) for _ in range(rounds)]
            print(f"| {command} | {', '.join(f'{time_taken:.1f}' for time_taken in taken)} |")


if __name__ == "__main__":
    main()
