"""Compares the CSV tables of two commits, and prints the differences of each metric.

    python -m benchmarks.compare_csvs OLD/tables NEW/tables

Exits with code 1 if a file is missing, a cell of a printed table differs, or a row has no match.
"""

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

# Columns with numbers; all other columns identify the row.
NUMBERS = ("value", "low", "high")


def read(path: Path) -> list[dict[str, str]]:
    """Reads the rows of a CSV file as dicts by column name."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(old: Path, new: Path) -> bool:
    """Prints the differences; returns False if more than the values of metrics differ."""
    is_equal, tables_equal = True, 0
    moved: dict[str, list[float]] = defaultdict(list)
    count: dict[str, int] = defaultdict(int)
    for path in sorted(old.glob("*.csv")):
        new_path = new / path.name
        if not new_path.is_file():
            print(f"{path.name}: missing in the new tables")
            is_equal = False
            continue
        before, after = read(path), read(new_path)
        # Tables with one row per value are compared number by number. A printed table has no
        # column "metric", so its cells are compared as texts.
        if not before or not {"value", "metric"} <= set(before[0]):
            tables_equal += before == after
            if before != after:
                print(f"{path.name}: cells differ")
                is_equal = False
            continue
        keys = [name for name in before[0] if name not in NUMBERS]
        new_values = {}
        for row in after:
            new_values[tuple(row[name] for name in keys)] = float(row["value"])
        if len(new_values) != len(before):  # fewer if a key occurs twice
            print(f"{path.name}: {len(before)} rows before, {len(new_values)} now")
            is_equal = False
        for row in before:
            key = tuple(row[name] for name in keys)
            if key not in new_values:
                print(f"{path.name}: {key} is missing in the new table")
                is_equal = False
                continue
            count[row["metric"]] += 1
            if new_values[key] != float(row["value"]):
                moved[row["metric"]].append(abs(new_values[key] - float(row["value"])))
    print(f"{tables_equal} tables have the same cells")
    for metric, total in sorted(count.items()):
        note = f", by at most {max(moved[metric]):.2g}" if moved[metric] else ""
        print(f"{metric}: {len(moved[metric])} of {total} values differ{note}")
    return is_equal


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="folder with the tables before")
    parser.add_argument("new", type=Path, help="folder with the tables now")
    args = parser.parse_args()
    sys.exit(0 if compare(args.old, args.new) else 1)
