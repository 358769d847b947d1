"""CSV and TSV files with a line of names: one row a line, one column a label."""

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import (
    Texts,
    parse_number,
    refuse_repeated_columns,
    share_decimal_commas,
)
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.text_files import readable

DELIMITERS = "\t,;"


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file's name or first line says that it is a table of text."""
    if path.suffix.lower() in (".csv", ".tsv"):
        return True
    lines = start.lstrip(b"\xef\xbb\xbf").splitlines()  # after a byte order mark
    # No text has a zero byte.
    return b"\0" not in start and bool(lines) and any(c.encode() in lines[0] for c in DELIMITERS)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a CSV or TSV file in UTF-8.

    Quotes, a byte order mark and all line ends are understood; an empty cell is a label that was
    not returned.
    """
    names, rows = read_cells(path)
    columns = {name: Texts(row[i] for row in rows) for i, name in enumerate(names)}
    share_decimal_commas(columns.values())
    return [from_columns(str(path), columns, reading, task=path.stem)]


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names in the first line of a CSV or TSV file, and the cells of all others."""
    # With newline="" the csv module reads line ends itself.
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
        return _read_cells(path, file)


def _read_cells(path: Path, file: Iterator[str]) -> tuple[list[str], list[list[str]]]:
    """The names in the first line, and the cells of all others."""
    first = next(file, "")
    delimiter = max(DELIMITERS, key=first.count)  # of as many, a tab before a comma
    lines = csv.reader(chain([first], file), delimiter=delimiter, strict=True)
    rows = []
    try:
        names = [name.strip() for name in next(lines, [])]
        _check_names(path, names)
        for cells in lines:
            if not any(cells):  # an empty line, or one of commas alone
                continue
            if len(cells) != len(names):
                raise InputError(
                    where=f"{path}, line {lines.line_num}",
                    expected=f"{len(names)} cells ({shown(delimiter.join(names))})",
                    got=len(cells),
                    remedy=f"complete the line if it is cut short, or put a {delimiter!r} within "
                    "a cell in quotes",
                )
            rows.append(cells)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {lines.line_num}: no CSV ({error}); is a quote not closed?"
        ) from error
    return names, rows


def _check_names(path: Path, names: list[str]) -> None:
    """Refuse a first line that names no columns."""
    if not any(names):
        raise InputError(where=f"{path}, line 1", expected="a line of names", got="nothing")
    refuse_repeated_columns(f"{path}, line 1", names)
    if all(_is_score(name) for name in names if name):
        raise InputError(
            where=f"{path}, line 1",
            expected="the names of the columns",
            got=f"numbers ({shown(','.join(names))})",
            remedy="put a line of names before it",
        )


def _is_score(name: str) -> bool:
    """Whether a column's name is a number, but none that may be a label: 0, 1, 2 ..."""
    number = parse_number(name)
    return number is not None and not (math.isfinite(number) and number % 1 == 0 <= number)


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length, such as prompts, for a while."""
    limit = csv.field_size_limit(2**31 - 1)  # the most that a C long holds everywhere
    try:
        yield
    finally:
        csv.field_size_limit(limit)
