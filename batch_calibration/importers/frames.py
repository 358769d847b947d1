"""Reads scores from Parquet and Arrow files, and from frames, dicts and arrays in memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.arrays.numbers import read_numbers
from batch_calibration.errors import InputError, answering
from batch_calibration.files import list_at, object_at, parse_json, value_at
from batch_calibration.files.rows import arrow_errors, arrow_numbers, need_pyarrow, refuse_repeated
from batch_calibration.importers.array_files import from_arrays
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Column
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.compressed import check_rows
from batch_calibration.importers.gold import ClassIndices
from batch_calibration.importers.tables import to_tables
from batch_calibration.importers.vectors import Names
from batch_calibration.scores import ScoreTable

if TYPE_CHECKING:
    import pyarrow as pa

WHERE = "scores"  # the name of scores in memory, for messages
ARROW_ENDINGS = (".arrow", ".feather", ".ipc", ".arrows")
STREAM_START = b"\xff\xff\xff\xff"  # start of an Arrow stream, a format without a file header


def is_parquet(path: Path, start: bytes) -> bool:
    """Checks whether a file is Parquet."""
    return path.suffix.lower() in (".parquet", ".pq") or start.startswith(b"PAR1")


def is_arrow(path: Path, start: bytes) -> bool:
    """Checks whether a file has Arrow's own format, as a file (Feather) or as a stream."""
    return path.suffix.lower() in ARROW_ENDINGS or start.startswith(b"ARROW1")


def load_parquet(path: Path) -> "pa.Table":
    """Loads the table of a Parquet file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        check_rows(path, file.metadata.num_rows, file.metadata.num_columns)
        return file.read()


def load_arrow(path: Path) -> "pa.Table":
    """Loads the table of an Arrow or Feather file."""
    from pyarrow import feather, ipc

    with path.open("rb") as file:
        if file.read(len(STREAM_START)) == STREAM_START:
            file.seek(0)
            return ipc.open_stream(file).read_all()
    return feather.read_table(path)


def read(load: "Callable[[Path], pa.Table]", path: Path, reading: Reading) -> list[Imported]:
    """Reads the scores of a file of columns; `load` returns its table."""
    return [from_columns(str(path), load_columns(load, path), reading, task=path.stem)]


def load_columns(load: "Callable[[Path], pa.Table]", path: Path) -> Mapping[str, Column]:
    """Loads the columns of an Arrow or Parquet file."""
    need_pyarrow(str(path))
    with arrow_errors(path):
        table = load(path)
        # Damaged offsets would make pyarrow read beyond its buffers.
        table.validate(full=True)
        return arrow_columns(str(path), table)


def arrow_columns(where: str, table: "pa.Table") -> Mapping[str, Column]:
    """Converts the columns of an Arrow table: numbers to numpy arrays, other cells to lists."""
    import pyarrow as pa

    refuse_repeated(where, table.column_names)
    columns: dict[str, Column] = {}
    classes = names_of_classes(table.schema)
    for name in table.column_names:
        column = table[name]
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())  # numpy has no decimals
        is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        at = f"{where}, column {name!r}"
        # A date may lie outside the range of Python's dates.
        with answering(ValueError, at, "readable cells", "write the file again"):
            columns[name] = arrow_numbers(column) if is_number else column.to_pylist()
        if name in classes:
            columns[name] = ClassIndices(column.to_pylist(), classes[name])
    return columns


def names_of_classes(schema: "pa.Schema") -> dict[str, Names]:
    """Returns the class names of each ClassLabel, from the metadata that `datasets` writes."""
    names = {}
    with suppress(ValueError, KeyError):
        features = object_at(
            parse_json((schema.metadata or {})[b"huggingface"].decode()), "info", "features"
        )
        for name, feature in features.items():
            if value_at(feature, "_type") == "ClassLabel":
                names[name] = tuple(map(str, list_at(feature, "names")))
    return names


def tables_of(scores: object, reading: Reading | None = None) -> list[ScoreTable]:
    """Returns the score tables in an object of numpy, pandas, polars, pyarrow, torch or Python.

    Args:
        scores: An array or tensor [n, k] or [contexts, n, k]; or a frame, an Arrow table, a dict
            of columns or a list of dicts, with columns as in a file.
        reading: The user's description of the scores.

    Raises:
        InputError: The object has another type, or its columns or arrays are not valid scores.

    >>> table, = tables_of({"no": [-1.5, -0.2], "yes": [-0.4, -2.0], "gold": ["yes", "no"]},
    ...                    Reading(gold="gold"))
    >>> table.label_names, table.blocks["test"].labels.tolist()
    (('no', 'yes'), [1, 0])
    """
    reading = reading or Reading()
    columns = columns_of(scores)
    if columns is None:
        # All other objects have to be arrays, or convertible to arrays by numpy.
        array = np.asarray(read_numbers(scores, WHERE))
        return to_tables(from_arrays(WHERE, {WHERE: array}, reading, task=WHERE), reading)
    lengths = set(map(len, columns.values()))
    if len(lengths) > 1:
        raise InputError.at(WHERE, "columns of equal length", f"lengths {sorted(lengths)}")
    return to_tables([from_columns(WHERE, columns, reading, task=WHERE)], reading)


def columns_of(scores: object) -> dict[str, Column] | None:
    """Returns the columns of a frame, an Arrow table, a dict or a list of dicts; otherwise None."""
    if isinstance(scores, Mapping):
        return {str(name): _column(column) for name, column in scores.items()}
    is_list = isinstance(scores, list | tuple) and bool(scores)
    if is_list and all(isinstance(row, Mapping) for row in scores):  # type: ignore[attr-defined]
        return rows_to_columns(scores)  # type: ignore[arg-type]
    names = getattr(scores, "columns", None)
    if isinstance(names, Iterable) and hasattr(scores, "to_dict"):  # pandas and polars
        keys = list(names)
        # pandas allows two columns of one name, and both 1 and "1" as names.
        refuse_repeated(WHERE, list(map(str, keys)))
        return {str(key): _column(scores[key]) for key in keys}  # type: ignore[index]
    if hasattr(scores, "__arrow_c_stream__"):
        need_pyarrow(WHERE)
        import pyarrow as pa

        return dict(arrow_columns(WHERE, pa.table(scores)))
    return None


def rows_to_columns(rows: Sequence[Mapping[str, object]]) -> dict[str, Column]:
    """Converts rows of named cells to columns, with None for cells that a row lacks."""
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        columns[str(name)] = [row.get(name) for row in rows]
    return columns


def _column(column: object) -> Column:
    """Converts a column to an array or a list, with NaN or None for missing cells."""
    if hasattr(column, "isna") and hasattr(column, "to_numpy"):  # pandas
        cells = np.asarray(column.to_numpy())
        if cells.dtype.kind in "fiu":  # missing numbers are NaN
            return cells
        is_absent = np.asarray(column.isna())
        return [None if gone else cell for gone, cell in zip(is_absent, cells, strict=True)]
    if isinstance(column, list | tuple):
        return column
    if hasattr(column, "to_list"):  # polars
        return list(column.to_list())
    cells = np.asarray(column)
    if cells.ndim != 1:
        expected = "columns with one value per row"
        raise InputError.at(WHERE, expected, f"{type(column).__name__} of shape {cells.shape}")
    return cells
