"""JSON objects one at a time, from JSON Lines or from one JSON list, however long the file is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from batch_calibration.errors import InputError
from batch_calibration.files import Json, parse_json

CHUNK = 1 << 16
"""Characters that are read at once of a JSON list."""
BETWEEN = re.compile(r"[\s,]*")
"""What stands between the rows of a JSON list."""


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """Each object of a file with its place in words; one object at a time is in memory.

    Raises:
        InputError: a file that cannot be read, is no UTF-8 text, is cut short, or holds others.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.read(1)
            while first.isspace():
                first = file.read(1)
            yield from _listed(path, file) if first == "[" else _lines(path, file, first)
    except UnicodeDecodeError as error:
        raise InputError(
            where=path,
            expected=f"text in UTF-8, which it is not ({error.reason} at byte {error.start})",
            remedy="write it again as UTF-8",
        ) from error
    except OSError as error:
        raise InputError(
            where=path,
            expected=f"a log, which cannot be read ({error.strerror})",
            remedy="correct the name",
        ) from error


def _lines(path: Path, file: TextIO, first: str) -> Iterator[tuple[str, dict[str, Json]]]:
    for number, line in enumerate(file, 1):
        text = first + line if number == 1 else line
        if text.strip():
            where = f"{path}, line {number}"
            yield where, _object(text, where, torn=not text.endswith("\n"))


def _listed(path: Path, file: TextIO) -> Iterator[tuple[str, dict[str, Json]]]:
    decoder, number = json.JSONDecoder(), 1
    text, at, size = "", 0, CHUNK
    while True:
        at = BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        where, end = f"{path}, row {number}", 0
        if text.startswith("]", at):
            return
        if at < len(text):
            if text[at] != "{":
                raise InputError(
                    where=where, expected="a JSON object", got=f"{text[at : at + 40]!r}"
                )
            try:
                end = decoder.raw_decode(text, at)[1]
            except json.JSONDecodeError:
                end = 0  # it is not whole yet, or no JSON
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: no JSON object ({error}); correct the row.") from error
        if end:
            yield where, _object(text[at:end], where, torn=False)
            number, at, size = number + 1, end, CHUNK
        elif more := file.read(size):
            # The row is read again from its start: ever larger parts keep that cheap.
            text, at, size = text[at:] + more, 0, 2 * size
        else:
            raise InputError(
                f"{where}: no JSON object, or the file ends before it does; the rows before it are "
                "whole: close the list by ']' behind them, or write the log again."
            )


def _object(text: str, where: str, *, torn: bool) -> dict[str, Json]:
    """The object of one text."""
    try:
        value = parse_json(text)
    except UnicodeError as error:
        raise InputError(
            f"{where}: half a surrogate pair is no text ({error}); correct the row."
        ) from error
    except ValueError as error:
        hint = (
            "; the file ends in the midst of it: remove it or write the log again" if torn else ""
        )
        raise InputError(f"{where}: no JSON object ({str(error)[:200]}){hint}.") from error
    if not isinstance(value, dict):
        raise InputError(where=where, expected="a JSON object", got=f"{text.strip()[:40]!r}")
    return value
