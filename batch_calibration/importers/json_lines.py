"""JSON Lines, and JSON files of a list of objects: one object a row."""

from pathlib import Path

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.labels import LABEL_NAMES

Record = dict[str, Json]


def recognizes(path: Path, start: bytes) -> bool:
    """Whether a file begins as a JSON object or list does."""
    del path
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(path: Path, reading: Reading) -> list[Imported]:
    """The scores of rows that are JSON objects.

    A row has a number for each label, or all of them as a list or dict under one key. The rows are
    lines, the items of a list, or a list in an object, which may name the labels beside it:
    `{"labels": ["A", "B"], "rows": [{"probs": [0.6, 0.4]}]}`.

    Raises:
        InputError: no UTF-8, no JSON, a torn line; rows that are no objects; what `from_columns`
            refuses.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}).") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    names: tuple[str, ...] = ()
    # JSON allows U+2028 and others within a text: only these two end a line.
    lines = [line for line in enumerate(text.split("\n"), 1) if line[1].strip()]
    if _is_lines(lines):
        records = [_record(f"{path}, line {number}", line) for number, line in lines]
    else:
        records, names = _rows(str(path), _parse(str(path), text, "file"))
    columns = {
        name: [record.get(name) for record in records]
        for name in dict.fromkeys(name for record in records for name in record)
    }
    return [from_columns(str(path), columns, reading, task=path.stem, label_names=names)]


def _is_lines(lines: list[tuple[int, str]]) -> bool:
    """Whether the first line is an object of its own and another one follows."""
    if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
        return False
    try:
        return isinstance(parse_json(lines[0][1]), dict)
    except ValueError:
        # A first line that is damaged, not the first of a file of several lines.
        return lines[1][1].lstrip().startswith("{")


def _parse(where: str, text: str, what: str) -> Json:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{where}: no JSON ({error}); is the {what} cut short?") from error


def _record(where: str, line: str) -> Record:
    value = _parse(where, line, "line")
    if not isinstance(value, dict):
        raise InputError(where=where, expected="a JSON object, one row", got=shown(value))
    return value


def _rows(where: str, value: Json) -> tuple[list[Record], tuple[str, ...]]:
    """The rows of a JSON file, and the names of the labels where it says them."""
    names: tuple[str, ...] = ()
    if isinstance(value, dict):
        lists = {name: of for name, of in value.items() if isinstance(of, list)}
        named = [of for name, of in lists.items() if name in LABEL_NAMES and _all(of, str)]
        names = tuple(map(str, named[0])) if named else ()
        of_rows = [of for of in lists.values() if of and _all(of, dict)]
        value = of_rows[0] if len(of_rows) == 1 else [value]
    if not isinstance(value, list) or not _all(value, dict):
        raise InputError(
            where=where,
            expected="one JSON object a row, on lines or in a list",
            got=shown(value),
        )
    return [record for record in value if isinstance(record, dict)], names


def _all(values: list[Json], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)
