"""Times the pages of large files in this checkout and, with `--other`, in another one.

    python -m benchmarks.pages                     # --contexts=100 for a single file
    python -m benchmarks.pages --other=DIR --workdir=W

The files have 100 and 1,000 contexts of 60 rows and four labels with a bias of 0.5 to 1.5 nats.
`--workdir` adds a row for the tables, the figures and the page of a study. The checkouts run in
turn on the same cores. Their first runs fill the compilation cache, and the fastest of the other
runs counts.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LABELS = "abcd"
ROWS = 60  # of each context
Commands = list[list[str]]


def write_contexts(path: Path, contexts: int, rows: int = ROWS) -> None:
    """Writes a CSV file of label scores; the column `prompt` identifies the context."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt", *LABELS, "label"])
        for context in range(contexts):
            random = np.random.default_rng(context)
            gold = random.integers(0, len(LABELS), rows)
            bias = random.normal(0, 1, len(LABELS))
            bias *= random.uniform(0.5, 1.5) / np.abs(bias).max()  # nats
            signal = random.uniform(1.0, 1.9) * np.eye(len(LABELS))[gold]
            raw = random.normal(0, 1, (rows, len(LABELS))) + signal + bias
            # The labels have half of the probability.
            scores = raw - np.log(2 * np.exp(raw).sum(axis=1, keepdims=True))
            for row, label in zip(scores, gold, strict=True):
                cells = map("{:.5f}".format, row)
                writer.writerow([f"p{context:04d}", *cells, LABELS[label]])


def commands_of_file(source: Path, page: Path) -> Commands:
    """Returns the command that makes the page of a file."""
    return [["report", str(source), "--gold=label", "--by=prompt", f"--output={page}"]]


def commands_of_study(workdir: Path) -> Commands:
    """Returns the commands that show a study; they write to its workdir."""
    folder = f"--workdir={workdir}"
    return [["tables", "--quiet", folder], ["figures", folder], ["report", folder]]


def run(checkout: Path, commands: Commands, cache: Path) -> float:
    """Runs commands of a checkout in new processes, and returns their seconds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    # The first would override the cache, the second would compile all modules in each run.
    for name in ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    environment.setdefault("JAX_PLATFORMS", "cpu")
    start = time.perf_counter()
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "batch_calibration", *command],
            cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return time.perf_counter() - start


def measure(
    checkouts: Sequence[Path],
    commands_for: Callable[[Path], tuple[Commands, Path]],
    folder: Path,
    repeats: int,
) -> list[tuple[float, int]]:
    """Runs the same commands in each checkout in turn: seconds and bytes of the page, for each.

    Args:
        checkouts: folders with a checkout.
        commands_for: a folder for the output -> the commands and the page that they write.
        folder: a folder for the outputs and the compilation caches.
        repeats: number of timed runs of each checkout; one more run before them fills the cache.
    """
    seconds = [float("inf")] * len(checkouts)
    sizes = [0] * len(checkouts)
    for turn in range(repeats + 1):
        for place, checkout in enumerate(checkouts):
            output = folder / f"output{place}"
            output.mkdir(exist_ok=True)
            commands, page = commands_for(output)
            taken = run(checkout, commands, folder / f"cache{place}")
            sizes[place] = page.stat().st_size
            if turn:
                seconds[place] = min(seconds[place], taken)
    return list(zip(seconds, sizes, strict=True))


def line_of(name: str, measured: Sequence[tuple[float, int]]) -> str:
    """Formats one row of the table: seconds, ratio and megabytes.

    >>> line_of("100 contexts", [(6.0, 1_500_000), (18.0, 1_400_000)])
    '| 100 contexts | 6.0 | 1.50 | 18.0 | 1.40 | 0.33 |'
    """
    cells = [name]
    for seconds, size in measured:
        cells += [f"{seconds:.1f}", f"{size / 1e6:.2f}"]
    cells += [f"{measured[0][0] / other[0]:.2f}" for other in measured[1:]]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures each file and, if asked, a study; prints a row for each."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--other", type=Path, help="another checkout to compare with")
    flags.add_argument("--workdir", type=Path, help="a calibrated study; it is copied first")
    flags.add_argument("--contexts", default="100,1000", help="numbers of contexts of the files")
    flags.add_argument("--rows", type=int, default=ROWS, help="rows of each context")
    flags.add_argument("--repeats", type=int, default=2, help="timed runs of each")
    args = flags.parse_args(arguments)
    checkouts = [ROOT, *([args.other.resolve()] if args.other else [])]
    header = "| page | s | MB |" + " other: s | MB | ratio |" * bool(args.other)
    print(header, "|---" * (header.count("|") - 1) + "|", sep="\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def commands_for_file(output: Path) -> tuple[Commands, Path]:
            page = output / "page.html"
            return commands_of_file(source, page), page

        def commands_for_study(output: Path) -> tuple[Commands, Path]:
            copy = output / "study"
            if not copy.exists():
                shutil.copytree(args.workdir, copy)
            return commands_of_study(copy), copy / "report.html"

        for contexts in map(int, filter(None, args.contexts.split(","))):
            source = folder / f"{contexts}.csv"
            write_contexts(source, contexts, args.rows)
            measured = measure(checkouts, commands_for_file, folder, args.repeats)
            print(line_of(f"{contexts:,} contexts", measured), flush=True)
        if args.workdir:
            measured = measure(checkouts, commands_for_study, folder, args.repeats)
            print(line_of(args.workdir.name, measured), flush=True)


if __name__ == "__main__":
    main()
