"""JSON Lines, and JSON files of a list of objects: one object a row."""

from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import LABEL_NAMES
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.frames import rows_to_columns
from batch_calibration.importers.text_files import fields, parse, parse_object, read_text


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file begins as a JSON object or list does."""
    del path
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of rows that are JSON objects.

    A row has a number for each label, or all of them as a list or dict under one key. The rows are
    lines, the items of a list, or a list in an object, which may name the labels beside it:
    `{"labels": ["A", "B"], "rows": [{"probs": [0.6, 0.4]}]}`.
    """
    text = read_text(path)
    names: tuple[str, ...] = ()
    # JSON allows U+2028 and others within a text: only this one ends a line.
    lines = [line for line in enumerate(text.split("\n"), 1) if line[1].strip()]
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
        raise InputError(
            where=where,
            expected="one JSON object a row, on lines or in a list",
            got=shown(document),
        )
    return list(map(fields, document)), names


def _are_all(members: list[Json], kind: type) -> bool:
    return all(isinstance(member, kind) for member in members)
