"""Files of text and JSON: read whole or row by row, each fault a sentence."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json, RepeatedKey, parse_json

BEGINNING = 65_536  # bytes by which a format is recognized
CHUNK = 1 << 16  # characters that are read at once of a JSON list
BETWEEN = re.compile(r"[\s,]*")  # what stands between the rows of a JSON list


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Answer in a sentence where a file cannot be read, or is no text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(
            where=path,
            expected="text in UTF-8",
            got=f"another byte at place {error.start} ({error.reason})",
            remedy="write it again as UTF-8",
        ) from error
    except OSError as error:
        raise InputError(
            where=path,
            expected=f"a file of scores, which cannot be read ({error.strerror})",
            remedy="correct the name",
        ) from error


def beginning(path: Path) -> bytes:
    """The first bytes of a file, behind a byte order mark."""
    with readable(path), path.open("rb") as file:
        return file.read(BEGINNING).removeprefix(b"\xef\xbb\xbf")


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, without a byte order mark."""
    with readable(path):
        return path.read_text(encoding="utf-8-sig")


def parse(text: str, where: str, unit: str = "file") -> Json:
    """The JSON value of a text; `unit` says what may have been cut short."""
    try:
        return parse_json(text, unique_keys=True)
    except RepeatedKey as error:
        raise InputError(
            where=where,
            expected="each key of a JSON object once",
            got=f"{error} twice",
            remedy=f"which of the two counts is not plain; keep one in this {unit}",
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
    document = parse(text, where, unit)
    if not isinstance(document, dict):
        raise InputError(where=where, expected="a JSON object", got=shown(document))
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
        yield from _listed(path, file) if first == "[" else _lines(path, file, first)


def _lines(path: Path, file: TextIO, first: str) -> Iterator[tuple[str, dict[str, Json]]]:
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
                raise InputError(
                    where=where, expected="a JSON object", got=repr(text[start : start + 40])
                )
            try:
                end = decoder.raw_decode(text, start)[1]
            except json.JSONDecodeError:
                end = 0  # it is not whole yet, or no JSON
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


# Values of JSON that is not of our making: an empty one where it is of another type


def fields(document: object) -> dict[str, Json]:
    """A JSON object, or an empty one."""
    return document if isinstance(document, dict) else {}


def members(document: object) -> list[Json]:
    """A JSON list, or an empty one."""
    return document if isinstance(document, list) else []


def count_of(document: object) -> int | None:
    """A whole number of JSON from 0 on, or None."""
    return document if type(document) is int and document >= 0 else None


def text_or_empty(document: object) -> str:
    """A JSON text, or an empty one."""
    return document if isinstance(document, str) else ""
