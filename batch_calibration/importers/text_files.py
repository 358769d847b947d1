"""Files of text: CSV and TSV, JSON Lines and JSON, read whole or row by row."""

import csv
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, RepeatedKey, list_at, object_at, parse_json
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

BEGINNING = 65_536  # bytes by which a format is recognized
CHUNK = 1 << 16  # characters that are read at once of a JSON list
BETWEEN = re.compile(r"[\s,]*")  # what stands between the rows of a JSON list


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Answer in a sentence where a file cannot be read, or is no text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError.at(
            path, "text in UTF-8", f"a byte at {error.start} ({error.reason})", "write it as UTF-8"
        ) from error
    except OSError as error:
        expected = f"a file of scores, which cannot be read ({error.strerror})"
        raise InputError.at(path, expected, remedy="correct the name") from error


def beginning(path: Path) -> bytes:
    """The first bytes of a file, behind a byte order mark."""
    with readable(path), path.open("rb") as file:
        return file.read(BEGINNING).removeprefix(b"\xef\xbb\xbf")


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, without a byte order mark."""
    with readable(path):
        return path.read_text(encoding="utf-8-sig")


def parse_value(text: str, where: str, unit: str = "file") -> Json:
    """The JSON value of a text; `unit` says what may have been cut short."""
    try:
        return parse_json(text, unique_keys=True)
    except RepeatedKey as error:
        raise InputError.at(
            where, "each key once", f"{error} twice", f"keep one in this {unit}"
        ) from error
    except UnicodeError as error:
        raise InputError(
            f"{where}: half a surrogate pair is no text ({error}); correct the {unit}."
        ) from error
    except ValueError as error:
        why = str(error)[:200]  # the error may repeat the whole text
        raise InputError(f"{where}: no JSON ({why}); is the {unit} cut short?") from error


def parse_object(text: str, where: str, unit: str = "file") -> dict[str, Json]:
    """The JSON object of a text."""
    document = parse_value(text, where, unit)
    if not isinstance(document, dict):
        raise InputError.at(where, "a JSON object", shown(document))
    return document


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a text that are not blank, with their numbers."""
    # JSON allows U+2028 and others within a text: only this one ends a line.
    return [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """Each object of JSON Lines or of one JSON list, with its place in words; one is in memory."""
    with readable(path), path.open(encoding="utf-8-sig") as file:
        first = file.read(1)
        while first.isspace():  # spaces before the first row or bracket
            first = file.read(1)
        if first == "[":
            yield from _listed(path, file)
            return
        for number, line in enumerate(file, 1):
            text = first + line if number == 1 else line
            if text.strip():
                where = f"{path}, line {number}"
                yield where, parse_object(text, where, "line")


def _listed(path: Path, file: TextIO) -> Iterator[tuple[str, dict[str, Json]]]:
    decoder, number = json.JSONDecoder(), 1
    text, start, size = "", 0, CHUNK
    while True:
        start = BETWEEN.match(text, start).end()  # type: ignore[union-attr]
        where, end = f"{path}, row {number}", 0
        if text.startswith("]", start):
            return
        if start < len(text):
            if text[start] != "{":
                raise InputError.at(where, "a JSON object", repr(text[start : start + 40]))
            try:
                end = decoder.raw_decode(text, start)[1]
            except json.JSONDecodeError:
                pass  # it is not whole yet, or no JSON
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: no JSON object ({error}); correct the row.") from error
        if end:
            yield where, parse_object(text[start:end], where, "row")
            number, start, size = number + 1, end, CHUNK
        elif more := file.read(size):
            # The row is read again from its start: ever larger pieces keep that cheap.
            text, start, size = text[start:] + more, 0, 2 * size
        else:
            raise InputError(
                f"{where}: no JSON object, or the file ends before it does; the rows before it are "
                "whole: close the list by ']' behind them, or write the log again."
            )


DELIMITERS = "\t,;"


def is_delimited(path: Path, start: bytes) -> bool:
    """True for CSV and TSV, by the file's name or first line."""
    first = b"".join(start.splitlines()[:1])
    # No text has a zero byte.
    has_cells = b"\0" not in start and any(c.encode() in first for c in DELIMITERS)
    return has_cells or path.suffix.lower() in (".csv", ".tsv")


def read_delimited(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a CSV or TSV file in UTF-8; an empty cell is a label that was not returned."""
    columns = delimited_columns(path)
    share_decimal_commas(columns.values())
    return [from_columns(str(path), columns, reading, task=path.stem)]


def delimited_columns(path: Path) -> dict[str, Texts]:
    """The columns of a CSV or TSV file."""
    names, rows = read_cells(path)
    cells_by_column = list(zip(*rows, strict=True)) or [()] * len(names)  # () without rows
    return dict(zip(names, map(Texts, cells_by_column), strict=True))


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names in the first line of a CSV or TSV file, and the cells of all others."""
    rows = []
    # With newline="" the csv module reads line ends itself.
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
        first = next(file, "")
        delimiter = max(DELIMITERS, key=first.count)  # of as many, a tab before a comma
        lines = csv.reader(chain([first], file), delimiter=delimiter, strict=True)
        try:
            names = [name.strip() for name in next(lines, [])]
            _check_names(f"{path}, line 1", names)
            for cells in filter(any, lines):  # without lines that are empty, or of commas alone
                if len(cells) != len(names):
                    expected = f"{len(names)} cells ({shown(delimiter.join(names))})"
                    got = len(cells)
                    remedy = f"complete the line if it is cut short, or put a {delimiter!r} within "
                    remedy += "a cell in quotes"
                    raise InputError.at(f"{path}, line {lines.line_num}", expected, got, remedy)
                rows.append(cells)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {lines.line_num}: no CSV ({error}); is a quote not closed?"
            ) from error
    return names, rows


def _check_names(where: str, names: list[str]) -> None:
    """Refuse a first line that names no columns."""
    if not any(names):
        raise InputError.at(where, "a line of names", "nothing")
    refuse_repeated_columns(where, names)
    named = list(filter(None, names))
    if sum(map(_is_score, named)) >= min(2, len(named)):
        raise InputError.at(
            where, "names of columns", f"numbers ({shown(','.join(names))})", "put names before it"
        )


def _is_score(name: str) -> bool:
    """True if a column's name is a number, except 0, 0.5, 1 ..., which may be labels."""
    number = parse_number(name)
    return number is not None and math.isfinite(number) and not number % 0.5 == 0 <= number


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length, such as prompts, for a while."""
    limit = csv.field_size_limit(2**31 - 1)  # the most that a C long holds everywhere
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def is_json(_: Path, start: bytes) -> bool:
    """True if a file begins with a JSON object or list."""
    return start.lstrip()[:1] in (b"{", b"[")


def read_json(path: Path, reading: Reading) -> list[Imported]:
    """The scores of rows that are JSON objects.

    A row has a number for each label, or all of them as a list or dict under one key. The rows are
    lines, the items of a list, or a list in an object, which may also name the labels:
    `{"labels": ["A", "B"], "rows": [{"probs": [0.6, 0.4]}]}`.
    """
    text = read_text(path)
    names: tuple[str, ...] = ()
    lines = numbered_lines(text)
    if _are_rows(lines):
        rows = [parse_object(line, f"{path}, line {number}", "line") for number, line in lines]
    else:
        rows, names = _rows(str(path), parse_value(text, str(path)))
    columns = rows_to_columns(rows)
    return [from_columns(str(path), columns, reading, task=path.stem, label_names=names)]


def _are_rows(lines: list[tuple[int, str]]) -> bool:
    """True if the first line is a whole object and another line follows."""
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
    if isinstance(document, list) and all(map(_are_labeled, document)):
        document = [{"scores": member} for member in document]
    if isinstance(document, dict) and document and all(map(str.isdecimal, document)):
        document = [_of_opencompass(object_at(row)) for row in document.values()]
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
        raise InputError.at(where, expected, shown(document))
    return list(map(object_at, document)), names


def _are_labeled(member: Json) -> bool:
    """True for a list of labels and scores, as transformers' pipelines give each text."""
    rows = list(map(object_at, list_at(member)))
    return bool(rows) and all({"label", "score"} <= row.keys() for row in rows)


def _of_opencompass(row: dict[str, Json]) -> dict[str, Json]:
    """A row with the scores of its labels, the negatives of OpenCompass's PPL (nats a token)."""
    scores: dict[str, Json] = {}
    for name, cell in row.items():
        loss = object_at(cell).get("PPL")
        if name.startswith("label: ") and isinstance(loss, int | float):
            scores[name.removeprefix("label: ")] = -loss
    return {"scores": scores, "gold": row.get("gold")} if scores else row


def _are_all(members: list[Json], kind: type) -> bool:
    return all(isinstance(member, kind) for member in members)
