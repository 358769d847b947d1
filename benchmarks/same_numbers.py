"""Compares the results of two workdirs number by number, as before and after a change of the code.

    python -m benchmarks.same_numbers OLD NEW

`batch-calibration tables --workdir=W` writes the compared `results.csv`. A number belongs to a
context (model, data, task, shots, seed, split, rows, options), a method and a metric. Exits with
code 1 if a number that both have differs by more than 1e-6, or if none is in both. Tables of the
same name and header are compared row by row; their differences do not change the code.
"""

import argparse
import csv
import math
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

TOLERANCE = 1e-6
NUMBERS = ("value", "low", "high")
CONTEXT = ("model", "data", "task", "shots", "seed", "split", "limit", "floor")
RESULT = ("method", "metric")
Key = tuple[tuple[str, str], ...]
"""(column, cell) of each column that identifies a number; columns with empty cells are left out."""


class Compared(NamedTuple):
    """The comparison of two results.

    Attributes:
        equal: number of equal numbers.
        changed: key -> difference of each number that differs by more than `TOLERANCE`.
        only_old: method -> number of the numbers that only the old results have.
        only_new: method -> number of the numbers that only the new results have.
    """

    equal: int
    changed: dict[Key, float]
    only_old: Counter[str]
    only_new: Counter[str]


def read_numbers(workdir: Path) -> dict[Key, float]:
    """Reads the numbers of a workdir: key -> number.

    Raises:
        ValueError: Two rows have one key, so that their numbers cannot be told apart.
    """
    numbers = dict[Key, float]()
    path = workdir / "results.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            named = [*CONTEXT, *RESULT, *(name for name in row if name.startswith("option_"))]
            facts = sorted((name, row[name]) for name in named if row.get(name))
            for number in NUMBERS:
                if row[number]:
                    key = (*facts, ("number", number))
                    if key in numbers:
                        raise ValueError(f"{path}: two rows of {describe(key)}")
                    numbers[key] = float(row[number])
    return numbers


def describe(key: Key) -> str:
    """Returns the cells of a key in words."""
    return ", ".join(f"{name.removeprefix('option_')} {cell}" for name, cell in key)


def compare(old: dict[Key, float], new: dict[Key, float]) -> Compared:
    """Compares the numbers by their keys.

    >>> one = {(("method", "bc"),): 0.5, (("method", "cc"),): 0.5}
    >>> compare(one, {(("method", "bc"),): 0.75})
    Compared(equal=0, changed={(('method', 'bc'),): 0.25}, only_old=Counter({'cc': 1}), \
only_new=Counter())
    """
    changed = dict[Key, float]()
    common = old.keys() & new.keys()
    for key in common:
        difference = abs(new[key] - old[key])
        # NaN equals NaN, and differs from every number.
        is_same = math.isnan(new[key]) and math.isnan(old[key])
        if not is_same and not difference <= TOLERANCE:
            changed[key] = difference
    only_old, only_new = Counter[str](), Counter[str]()
    for key in old.keys() ^ new.keys():
        (only_old if key in old else only_new)[dict(key)["method"]] += 1
    return Compared(len(common) - len(changed), changed, only_old, only_new)


def read_rows(path: Path) -> list[list[str]]:
    """Reads the rows of a CSV table, the header first."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def compare_tables(old: Path, new: Path) -> list[str]:
    """Describes each CSV table with the same name and header but with other rows."""
    sentences, equal = list[str](), 0
    for path in sorted(old.glob("*.csv")):
        other = new / path.name
        if not other.is_file():
            continue
        before, after = map(read_rows, (path, other))
        if before[:1] != after[:1]:
            continue
        rows_before, rows_after = (Counter(map(tuple, rows)) for rows in (before, after))
        gone, come = (rows_before - rows_after).total(), (rows_after - rows_before).total()
        equal += not gone + come
        if gone + come:
            sentences.append(f"{path.name}: {gone} rows only before, {come} only now")
    return [f"{equal} tables with the same name and header have the same rows", *sentences]


def main(arguments: list[str] | None = None) -> int:
    """Prints the comparison of two workdirs; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="workdir before")
    parser.add_argument("new", type=Path, help="workdir now")
    args = parser.parse_args(arguments)
    found = compare(read_numbers(args.old), read_numbers(args.new))
    print(f"{found.equal:,} numbers are equal, {len(found.changed):,} changed")
    if found.changed:
        worst = max(found.changed, key=lambda key: found.changed[key])
        print(f"largest difference {found.changed[worst]:.2g}: {describe(worst)}")
        by_metric = Counter((dict(key)["method"], dict(key)["metric"]) for key in found.changed)
        for (method, metric), count in sorted(by_metric.items()):
            print(f"  {method}, {metric}: {count:,} changed")
    for side, counts in (("before", found.only_old), ("now", found.only_new)):
        listed = ", ".join(f"{method} {count:,}" for method, count in sorted(counts.items()))
        print(f"only {side}: {listed or 'nothing'}")
    print(*compare_tables(args.old / "tables", args.new / "tables"), sep="\n")
    return int(bool(found.changed) or not found.equal)


if __name__ == "__main__":
    sys.exit(main())
