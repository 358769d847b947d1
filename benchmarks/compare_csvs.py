"""Compares the tables of two commits: which CSV files differ, in which metrics, by how much.

    python -m benchmarks.compare_csvs OLD/tables NEW/tables

Exit code 1 where a file is missing, a cell of a printed table differs, or a row has no partner.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

KEYS = ("model", "shots", "task", "seed", "rows", "method", "metric")


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(old: Path, new: Path) -> bool:
    """Print what differs; whether nothing differs but values of single metrics."""
    fine = True
    moved: dict[str, list[float]] = defaultdict(list)
    count: dict[str, int] = defaultdict(int)
    for path in sorted(old.glob("*.csv")):
        other = new / path.name
        if not other.is_file():
            print(f"{path.name}: not there any more")
            fine = False
            continue
        before, after = read(path), read(other)
        if not before or "metric" not in before[0]:
            if before != after:
                print(f"{path.name}: cells differ")
                fine = False
            continue
        values = {tuple(row[key] for key in KEYS): float(row["value"]) for row in after}
        if len(values) != len(before):
            print(f"{path.name}: {len(before)} rows before, {len(values)} now")
            fine = False
        for row in before:
            key = tuple(row[name] for name in KEYS)
            if key not in values:
                print(f"{path.name}: no {key} any more")
                fine = False
                continue
            count[row["metric"]] += 1
            if values[key] != float(row["value"]):
                moved[row["metric"]].append(abs(values[key] - float(row["value"])))
    for metric, total in sorted(count.items()):
        most = f", by at most {max(moved[metric]):.2g}" if moved[metric] else ""
        print(f"{metric}: {len(moved[metric])} of {total} values differ{most}")
    return fine


if __name__ == "__main__":
    sys.exit(0 if compare(Path(sys.argv[1]), Path(sys.argv[2])) else 1)
