"""Reads scores from text files: CSV, TSV, JSON Lines, JSON and the output of fastText."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, list_at, object_at, parse_json
from batch_calibration.files.rows import (
    DELIMITERS,
    delimited_rows,
    numbered_lines,
    parse_object,
    parse_value,
    read_plain_csv,
    read_text,
)
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import LABEL_NAMES, Texts, parse_number, share_decimal_commas
from batch_calibration.importers.columns import SCORE_NAMES, from_columns
from batch_calibration.importers.frames import rows_to_columns
from batch_calibration.importers.vectors import is_vector
from batch_calibration.responses.shapes import candidates_of


def is_delimited(path: Path, start: bytes) -> bool:
    """Checks whether a file is CSV or TSV, by its first line or its name."""
    first = b"".join(start.splitlines()[:1])
    # Text has no zero bytes.
    has_cells = b"\0" not in start and any(c.encode() in first for c in DELIMITERS)
    return has_cells or path.suffix.lower() in (".csv", ".tsv")


def read_delimited(path: Path, reading: Reading) -> list[Imported]:
    """Reads a CSV or TSV file in UTF-8. An empty cell means that the label was not returned."""
    columns = delimited_columns(path)
    return [from_columns(str(path), columns, reading, task=path.stem)]


def delimited_columns(path: Path) -> dict[str, Texts]:
    """Reads the columns of a CSV or TSV file, with pyarrow if it is installed."""
    rows = delimited_rows(path)
    where, names = next(rows)
    _check_names(where, names)
    arrow = read_plain_csv(path, names)
    if arrow is not None:
        return dict(zip(names, map(Texts, arrow.columns), strict=True))
    cells = [cells for _, cells in rows]
    cells_by_column = list(map(list, zip(*cells, strict=True))) or [[]] * len(names)
    columns = dict(zip(names, map(Texts, cells_by_column), strict=True))
    share_decimal_commas(columns.values())
    return columns


def read_rows(path: Path) -> tuple[list[str], list[dict[str, Json]]]:
    """Reads the column names of a CSV or TSV file, and all rows."""
    rows = delimited_rows(path)
    where, names = next(rows)
    _check_names(where, names)
    return names, [dict[str, Json](zip(names, cells, strict=True)) for _, cells in rows]


def _check_names(where: str, names: list[str]) -> None:
    """Raises an error if the first line does not name columns."""
    if not any(names):
        raise InputError.at(where, "a line of column names", "nothing")
    named = list(filter(None, names))
    if sum(map(_is_score, named)) >= min(2, len(named)):
        got = f"numbers ({shown(','.join(names))})"
        raise InputError.at(where, "names of columns", got, "add a line of names before it")


def _is_score(name: str) -> bool:
    """Checks whether a column's name is a number, except 0, 0.5, 1 ..., which may be labels."""
    number = parse_number(name)
    return number is not None and math.isfinite(number) and not number % 0.5 == 0 <= number


def is_fasttext(_: Path, start: bytes) -> bool:
    """Checks whether a file begins with a label of fastText and its probability."""
    return re.match(rb"\s*__label__\S+\s+\d", start) is not None


def read_fasttext(path: Path, reading: Reading) -> list[Imported]:
    """Reads lines of labels, each with its probability, as `fasttext predict-prob` writes them."""
    rows = []
    for number, line in numbered_lines(read_text(path)):
        words = line.replace("__label__", "").split()
        numbers = list(map(parse_number, words[1::2]))
        if len(words) % 2 or None in numbers:
            where, expected = f"{path}, line {number}", "labels, each with its probability"
            raise InputError.at(where, expected, shown(line), "ask predict-prob for all labels")
        rows.append(dict(zip(words[::2], numbers, strict=True)))
    return [from_columns(str(path), {"scores": rows}, reading, task=path.stem)]


def is_json(_: Path, start: bytes) -> bool:
    """Checks whether a file begins with a JSON object or list."""
    return start.lstrip()[:1] in (b"{", b"[")


def read_json(path: Path, reading: Reading) -> list[Imported]:
    """Reads scores from rows that are JSON objects.

    A row has a number for each label, or all numbers as a list or dict under one key. The rows are
    lines, the items of a list, or a list in an object. This object may also name the labels:
    `{"labels": ["A", "B"], "rows": [{"probs": [0.6, 0.4]}]}`.
    """
    text = read_text(path)
    names: tuple[str, ...] = ()
    lines = numbered_lines(text)
    if _are_rows(lines):
        rows = [parse_object(line, f"{path}, line {number}", "line") for number, line in lines]
    else:
        document = parse_value(text, str(path))
        rows, names = _rows(str(path), document, reading.labels)
    columns = rows_to_columns(rows)
    return [from_columns(str(path), columns, reading, task=path.stem, label_names=names)]


def _are_rows(lines: list[tuple[int, str]]) -> bool:
    """Checks whether the first line is a whole object and another line follows."""
    if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
        return False
    try:
        return isinstance(parse_json(lines[0][1]), dict)
    except ValueError:
        # If the next line begins an object, too, the first is damaged, not part of a longer object.
        return lines[1][1].lstrip().startswith("{")


def _rows(
    where: str, document: Json, labels: Sequence[str]
) -> tuple[list[dict[str, Json]], tuple[str, ...]]:
    """Returns the rows of a JSON file, and the names of the labels if the file lists them."""
    names: tuple[str, ...] = ()
    # Pipelines of transformers write a list of labels and scores for each text.
    if (
        isinstance(document, list)
        and _are_all(document, list)
        and all(map(candidates_of, document))
    ):
        document = [{"scores": member} for member in document]
    if isinstance(document, dict) and document and all(map(str.isdecimal, document)):
        document = [_of_opencompass(object_at(row)) for row in document.values()]
    if isinstance(document, dict) and (columns := _columns_of(document, labels)):
        rows = zip(*columns.values(), strict=True)
        document = [dict(zip(columns, row, strict=True)) for row in rows]
    if isinstance(document, dict):
        lists = {name: member for name, member in document.items() if isinstance(member, list)}
        for name, texts in reversed(lists.items()):  # the first list of names takes precedence
            if name in LABEL_NAMES and _are_all(texts, str):
                names = tuple(map(str, texts))
        tables = [rows for rows in lists.values() if rows and _are_all(rows, dict)]
        # Without exactly one list of rows, the object is the only row.
        document = tables[0] if len(tables) == 1 else [document]
    if not isinstance(document, list) or not _are_all(document, dict):
        expected = "one JSON object per row, on lines or in a list"
        raise InputError.at(where, expected, shown(document))
    return list(map(object_at, document)), names


def _columns_of(document: dict[str, Json], labels: Sequence[str]) -> dict[str, list[Json]]:
    """Returns the columns of a table as pandas and R write it; {} for a single row."""
    names, data = list_at(document, "columns"), list_at(document, "data")
    if names and set(map(len, map(list_at, data))) == {len(names)}:
        return dict(zip(map(str, names), map(list, zip(*data, strict=True)), strict=True))
    columns = {name: list_at(column) for name, column in document.items()}
    indices = {tuple(object_at(column)) for column in document.values()}
    is_table = False
    if len(indices) == 1 and all(indices):  # index -> cell
        is_table = len(columns) > 1 and all(map(str.isdecimal, *indices))
        columns = {name: list(object_at(column).values()) for name, column in document.items()}
    lengths = set(map(len, columns.values()))
    # One label names the list of all scores of a single row.
    if len(lengths) == 1 and max(lengths) > len(columns) and len(labels) != 1:
        real = [column for column in columns.values() if is_vector([column])]
        texts = [tuple(column) for column in columns.values() if _are_all(column, str)]
        # The texts of a row are its labels, each once, and its scores have a usual name.
        is_table |= len(real) > 1 and columns.keys().isdisjoint(SCORE_NAMES.split())
        is_table |= any(len(set(column)) < len(column) for column in texts)
    return columns if is_table else {}


def _of_opencompass(row: dict[str, Json]) -> dict[str, Json]:
    """Converts a row of OpenCompass; a label's score is its negative PPL (nats per token)."""
    scores: dict[str, Json] = {}
    for name, cell in row.items():
        loss = object_at(cell).get("PPL")
        if name.startswith("label: ") and isinstance(loss, int | float):
            scores[name.removeprefix("label: ")] = -loss
    return {"scores": scores, "gold": row.get("gold")} if scores else row


def _are_all(members: list[Json], kind: type) -> bool:
    return all(isinstance(member, kind) for member in members)
