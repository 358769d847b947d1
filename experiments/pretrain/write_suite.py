"""Writes the rows of the embedded suite's language tasks, or checks the existing files.

python -m experiments.pretrain.write_suite [--check]
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from batch_calibration.files import write_whole
from batch_calibration.scoring.embedded.suite import ENDING, FOLDER
from experiments.pretrain.grammar import suite


def generated(task: str, split: str) -> bytes:
    """Generates a split's rows as JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in suite.records(task, split)).encode()


def paths() -> Iterator[tuple[str, str, Path]]:
    """Yields task, split and path of every file of the suite."""
    for task in suite.GRAMMARS:
        for split in suite.SIZES:
            yield task, split, FOLDER / task / f"{split}{ENDING}"


def stale_files() -> list[Path]:
    """Finds files that are missing, unknown to the grammar, or different from its rows."""
    stale = set(FOLDER.glob("*/*"))
    for task, split, path in paths():
        # Compares the contents, because zlib versions compress the same rows to different bytes.
        if path.is_file() and gzip.decompress(path.read_bytes()) == generated(task, split):
            stale.discard(path)
        else:
            stale.add(path)
    return sorted(stale)


def main() -> None:
    """Writes all files (not with --check), lists stale files, and exits with 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, write nothing")
    if not parser.parse_args().check:
        for task, split, path in paths():
            # Without a time stamp, the same rows give the same bytes.
            write_whole(path, gzip.compress(generated(task, split), mtime=0))
    stale = stale_files()
    print(*stale, f"{len(stale)} stale files", sep="\n")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
