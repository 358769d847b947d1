"""CSV and TSV files with a line of names: one row a line, one column a label."""

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Texts, parsed
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.labels import twice

DELIMITERS = "\t,;"


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file's name or first line says that it is a table of text."""
    if path.suffix.lower() in (".csv", ".tsv"):
        return True
    line = start.lstrip(b"\xef\xbb\xbf").splitlines()[:1]
    return bool(line) and b"\0" not in start and any(c.encode() in line[0] for c in DELIMITERS)


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a CSV or TSV file in UTF-8.

    Quotes, a byte order mark and all line ends are understood; an empty cell is a label that was
    not returned.

    Raises:
        InputError: no UTF-8; a line of more or fewer cells than the first; a name that stands
            twice; what `from_columns` refuses.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
            names, rows = _cells(path, file)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}).") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    columns = {name: Texts(row[i] for row in rows) for i, name in enumerate(names)}
    return [from_columns(str(path), columns, reading, task=path.stem)]


def _cells(path: Path, file: Iterator[str]) -> tuple[list[str], list[list[str]]]:
    """The names in the first line, and the cells of all others."""
    first = next(file, "")
    delimiter = max(DELIMITERS, key=first.count)
    lines = csv.reader(_again(first, file), delimiter=delimiter, strict=True)
    rows = []
    try:
        names = [name.strip() for name in next(lines, [])]
        _check_names(path, names)
        for cells in lines:
            if not any(cells):
                continue
            if len(cells) != len(names):
                raise InputError(
                    f"{path}, line {lines.line_num}: expected {len(names)} cells "
                    f"({shown(delimiter.join(names))}), got {len(cells)}; is the line cut short, "
                    f"or a {delimiter!r} not in quotes?"
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
    if len(set(names)) < len(names):
        raise InputError(
            f"{path}, line 1: the column {twice(names)!r} stands twice; give each a name of its "
            "own."
        )
    numbers = [parsed(name) for name in names if name]
    if all(one is not None and not (math.isfinite(one) and one % 1 == 0 <= one) for one in numbers):
        raise InputError(
            where=f"{path}, line 1",
            expected="the names of the columns",
            got=f"numbers ({shown(','.join(names))})",
            remedy="put a line of names before it",
        )


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    """All lines, the first of which was read already."""
    yield first
    yield from rest


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length, such as prompts, for a while."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
