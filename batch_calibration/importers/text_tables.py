"""Tables of text: CSV and TSV files with a line of names, JSON Lines, and JSON lists of objects."""

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import (
    LABEL_NAMES,
    Texts,
    parse_number,
    refuse_repeated_columns,
    share_decimal_commas,
)
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.frames import rows_to_columns
from batch_calibration.importers.text_files import (
    fields,
    numbered_lines,
    parse,
    parse_object,
    read_text,
    readable,
)

DELIMITERS = "\t,;"


def is_delimited(path: Path, start: bytes) -> bool:
    """Whether a file's name or first line says that it is a table of text."""
    if path.suffix.lower() in (".csv", ".tsv"):
        return True
    lines = start.splitlines()
    # No text has a zero byte.
    return b"\0" not in start and bool(lines) and any(c.encode() in lines[0] for c in DELIMITERS)


def read_delimited(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a CSV or TSV file in UTF-8; an empty cell is a label that was not returned."""
    names, rows = read_cells(path)
    cells_by_column = list(zip(*rows, strict=True)) or [()] * len(names)  # () without rows
    columns = {name: Texts(cells) for name, cells in zip(names, cells_by_column, strict=True)}
    share_decimal_commas(columns.values())
    return [from_columns(str(path), columns, reading, task=path.stem)]


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names in the first line of a CSV or TSV file, and the cells of all others."""
    # With newline="" the csv module reads line ends itself.
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
        return _read_cells(path, file)


def _read_cells(path: Path, file: Iterator[str]) -> tuple[list[str], list[list[str]]]:
    first = next(file, "")
    delimiter = max(DELIMITERS, key=first.count)  # of as many, a tab before a comma
    lines = csv.reader(chain([first], file), delimiter=delimiter, strict=True)
    rows = []
    try:
        names = [name.strip() for name in next(lines, [])]
        _check_names(f"{path}, line 1", names)
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


def _check_names(where: str, names: list[str]) -> None:
    """Refuse a first line that names no columns."""
    if not any(names):
        raise InputError(where=where, expected="a line of names", got="nothing")
    refuse_repeated_columns(where, names)
    if all(_is_score(name) for name in names if name):
        raise InputError(
            where=where,
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


def is_json(_: Path, start: bytes) -> bool:
    """Whether a file begins as a JSON object or list does."""
    return start.lstrip()[:1] in (b"{", b"[")


def read_json(path: Path, reading: Reading) -> list[Imported]:
    """The scores of rows that are JSON objects.

    A row has a number for each label, or all of them as a list or dict under one key. The rows are
    lines, the items of a list, or a list in an object, which may name the labels beside it:
    `{"labels": ["A", "B"], "rows": [{"probs": [0.6, 0.4]}]}`.
    """
    text = read_text(path)
    names: tuple[str, ...] = ()
    lines = numbered_lines(text)
    if _are_rows(lines):
        rows = [parse_object(line, f"{path}, line {number}", "line") for number, line in lines]
    else:
        rows, names = _rows(str(path), parse(text, str(path)))
    columns = rows_to_columns(rows)
    return [from_columns(str(path), columns, reading, task=path.stem, label_names=names)]


def _are_rows(lines: list[tuple[int, str]]) -> bool:
    """Whether the first line is an object of its own and another one follows."""
    if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
        return False
    try:
        return isinstance(parse_json(lines[0][1]), dict)
    except ValueError:
        # A first line that is damaged, not the first of a file of several lines.
        return lines[1][1].lstrip().startswith("{")


def _rows(where: str, document: Json) -> tuple[list[dict[str, Json]], tuple[str, ...]]:
    """The rows of a JSON file, and the names of the labels where it says them."""
    names: tuple[str, ...] = ()
    if isinstance(document, dict):
        lists = {name: member for name, member in document.items() if isinstance(member, list)}
        for name, texts in reversed(lists.items()):  # the first list of names wins
            if name in LABEL_NAMES and _are_all(texts, str):
                names = tuple(map(str, texts))
        tables = [rows for rows in lists.values() if rows and _are_all(rows, dict)]
        # Without one list of rows, the object is the only row.
        document = tables[0] if len(tables) == 1 else [document]
    if not isinstance(document, list) or not _are_all(document, dict):
        expected = "one JSON object a row, on lines or in a list"
        raise InputError(where=where, expected=expected, got=shown(document))
    return list(map(fields, document)), names


def _are_all(members: list[Json], kind: type) -> bool:
    return all(isinstance(member, kind) for member in members)
