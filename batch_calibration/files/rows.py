"""Reads files of rows: JSON Lines, CSV and Parquet; each row comes with a text that locates it."""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from batch_calibration.errors import InputError, answering, extra, shown
from batch_calibration.files import Json, RepeatedKey, parse_json

if TYPE_CHECKING:
    import pyarrow as pa

SCORES = "a file of scores"
BEGINNING = 65_536  # bytes from which a format is recognized
CHUNK = 1 << 16  # characters of a JSON list to read at once
BETWEEN = re.compile(r"[\s,]*")  # text between the rows of a JSON list
DELIMITERS = "\t,;"
SEPARATOR_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)
REMOTE = re.compile(r"[a-z][a-z0-9+]+:/+[^/]")
"""Start of a URL, with a scheme of two or more letters; pathlib merges the two slashes."""


def refuse_remote(path: str | Path, where: str = "") -> None:
    """Raises an error if `path` is a URL; the message begins with `where`, or else with the path.

    >>> refuse_remote("C:/log.jsonl")
    >>> refuse_remote("s3://bucket/log.jsonl")
    Traceback (most recent call last):
    batch_calibration.errors.InputError: s3://bucket/log.jsonl: expected a path of this machine...
    """
    if REMOTE.match(str(path)):
        remedy = "download the file and use its path; upload outputs afterwards"
        raise InputError.at(where or path, "a path of this machine", path if where else "", remedy)


@contextmanager
def readable(path: Path, kind: str = SCORES) -> Iterator[None]:
    """Raises an `InputError` if the block cannot read a file of a `kind`, or it is no text."""
    try:
        yield
    except UnicodeDecodeError as error:
        got = f"a byte at {error.start} ({error.reason})"
        raise InputError.at(path, "text in UTF-8", got, "write it as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError.at(path, kind, reason, "correct the name or the file") from error


def beginning(path: Path) -> bytes:
    """Returns the first bytes of a file, after a byte order mark."""
    with readable(path), path.open("rb") as file:
        return file.read(BEGINNING).removeprefix(b"\xef\xbb\xbf")


def read_text(path: Path) -> str:
    """Returns the text of a UTF-8 file, without a byte order mark."""
    with readable(path):
        return path.read_text(encoding="utf-8-sig")


def parse_value(text: str, where: str, unit: str = "file") -> Json:
    """Parses the JSON value of a text; `unit` names the part of a file that may be truncated."""
    try:
        return parse_json(text, unique_keys=True)
    except ValueError as error:
        expected, remedy = "JSON", f"is the {unit} truncated?"
        if isinstance(error, UnicodeError):
            expected, remedy = "no half of a surrogate pair", f"correct the {unit}"
        if isinstance(error, RepeatedKey):
            expected, remedy = "each key once", f"keep one in this {unit}"
        with answering(ValueError, where, expected, remedy):
            raise


def parse_object(text: str, where: str, unit: str = "file") -> dict[str, Json]:
    """Parses the JSON object of a text."""
    document = parse_value(text, where, unit)
    if not isinstance(document, dict):
        raise InputError.at(where, "a JSON object", shown(document))
    return document


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Returns the lines of a text that are not blank, with their numbers."""
    # JSON allows U+2028 and similar characters inside texts, so only "\n" ends a line.
    return [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]


def json_rows(
    path: Path, kind: str = SCORES, *, is_gzip: bool = False
) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yields each object of JSON Lines or of a JSON list, with its place; keeps one in memory."""
    opener: Any = gzip.open if is_gzip else open
    with readable(path, kind), opener(path, "rt", encoding="utf-8-sig") as file:
        first = file.read(1)
        while first.isspace():  # skips spaces before the first row or bracket
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
                pass  # the object is incomplete so far, or no JSON
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: no JSON object ({error}); correct the row.") from error
        if end:
            yield where, parse_object(text[start:end], where, "row")
            number, start, size = number + 1, end, CHUNK
        elif more := file.read(size):
            # The row is parsed again from its start; doubling the chunk size keeps that cheap.
            text, start, size = text[start:] + more, 0, 2 * size
        else:
            remedy = "end the list with ']' after the rows before it, or write the log again"
            raise InputError.at(where, "a whole JSON object", shown(text[start:], 40), remedy)


def delimited_rows(path: Path, kind: str = SCORES) -> Iterator[tuple[str, list[str]]]:
    """Yields the column names of a CSV or TSV file, then the cells of each row, with places."""
    # With newline="", the csv module handles line breaks itself.
    with readable(path, kind), path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
        first = next(file, "")
        separator = SEPARATOR_LINE.fullmatch(first)
        if separator:  # Excel writes its delimiter in a line before the names.
            first = next(file, "")
        delimiter = (
            separator[1] if separator else max(DELIMITERS, key=first.count)
        )  # for equal counts, a tab precedes a comma
        lines = csv.reader(chain([first], file), delimiter=delimiter, strict=True)
        try:
            names = [name.strip() for name in next(lines, [])]
            refuse_repeated(f"{path}, line 1", names)
            yield f"{path}, line 1", names
            for cells in filter(any, lines):  # skips lines that are empty or only commas
                where = f"{path}, line {lines.line_num}"
                if len(cells) != len(names):
                    expected = f"{len(names)} cells ({shown(delimiter.join(names))})"
                    remedy = f"complete a truncated line, or put cells with {delimiter!r} "
                    remedy += "in quotes"
                    raise InputError.at(where, expected, len(cells), remedy)
                yield where, cells
        except csv.Error as error:
            where, remedy = f"{path}, line {lines.line_num}", "is a closing quote missing?"
            raise InputError.at(where, "CSV", error, remedy) from error


def read_plain_csv(path: Path, names: Sequence[str]) -> "pa.Table | None":
    """Reads a CSV or TSV file without quotes by pyarrow, all cells as texts.

    Returns None for other files, for files with errors, and if pyarrow is not installed: Python's
    own reader, which is slower, then reads the file or describes the error.
    """
    data = path.read_bytes()
    first = data[: data.find(b"\n")].decode(errors="replace")
    delimiter = max(DELIMITERS, key=first.count)
    # Commas may be decimal commas if they are not the delimiter; a bare CR may end a line.
    unplain = [b'"', b"\0", *([] if delimiter == "," else [b","])]
    has_bare_returns = data.count(b"\r") != data.count(b"\r\n")
    if SEPARATOR_LINE.match(first) or has_bare_returns or any(map(data.__contains__, unplain)):
        return None
    try:
        import pyarrow as pa
        from pyarrow import compute, csv
    except ImportError:
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=names, skip_rows=1),
            csv.ParseOptions(delimiter=delimiter, quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowException:
        return None
    lengths = sum(arrow_numbers(compute.binary_length(column)) for column in table.columns)
    return table if np.all(lengths) else table.filter(lengths > 0)  # Lines of only commas go.


def arrow_numbers(column: "pa.ChunkedArray") -> np.ndarray:
    """Returns the numbers [n] of an Arrow column, NaN for null."""
    if column.null_count or not column.num_chunks:
        return np.asarray(column.to_numpy())
    # pyarrow's to_numpy imports pandas, which takes a second.
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


@contextmanager
def _long_cells() -> Iterator[None]:
    """Lets the csv module read cells of any length, such as prompts, while the block runs."""
    limit = csv.field_size_limit(2**31 - 1)  # the largest C long on all platforms
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def first_repeated(names: Sequence[str]) -> str:
    """Returns the first repeated name, or "" if all names are different."""
    return next((name for i, name in enumerate(names) if name in names[:i]), "")


def refuse_repeated(where: object, names: Sequence[str]) -> None:
    """Raises an error if two columns have the same name."""
    if len(set(names)) < len(names):
        got = f"{first_repeated(names)!r} twice"
        raise InputError.at(where, "columns of different names", got, "give each its own name")


def parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yields each row of a Parquet file, with its place."""
    need_pyarrow(str(path))
    from pyarrow import parquet

    with arrow_errors(path), parquet.ParquetFile(path) as file:
        # Rows are read in batches, because a file may be larger than memory.
        rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches())
        for number, row in enumerate(rows, 1):
            yield f"{path}, row {number}", row


def need_pyarrow(where: str) -> None:
    """Raises an `InputError` if pyarrow is not installed."""
    with answering(ImportError, where, "pyarrow, for Parquet and Arrow", extra("tables")):
        import pyarrow  # noqa: F401


def arrow_errors(path: Path) -> AbstractContextManager[None]:
    """Raises an `InputError` if the block cannot read or write an Arrow or Parquet file."""
    import pyarrow as pa

    kinds = (pa.ArrowException, OSError, ValueError, TypeError, MemoryError)
    return answering(kinds, path, "a complete Parquet or Arrow file, and space on the disk")
