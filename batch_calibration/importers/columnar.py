"""Parquet, Arrow and Feather files, one row a row and one column a label."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Column
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.labels import twice

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_ENDINGS = (".arrow", ".feather", ".ipc", ".arrows")


def is_parquet(path: Path, start: bytes) -> bool:
    """Whether a file is Parquet."""
    return path.suffix.lower() in (".parquet", ".pq") or start.startswith(b"PAR1")


def is_arrow(path: Path, start: bytes) -> bool:
    """Whether a file is of Arrow's own format, as a file or a stream; Feather is the former."""
    return path.suffix.lower() in ARROW_ENDINGS or start.startswith(b"ARROW1")


def read_parquet(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a Parquet file.

    Raises:
        InputError: pyarrow is not installed; no whole file; what `from_columns` refuses.
    """
    need_pyarrow(str(path))
    from pyarrow import parquet

    return _read(path, reading, lambda: parquet.ParquetFile(path).read())


def read_arrow(path: Path, reading: Reading) -> list[Imported]:
    """The scores of an Arrow or Feather file.

    Raises:
        InputError: pyarrow is not installed; no whole file; what `from_columns` refuses.
    """
    need_pyarrow(str(path))
    from pyarrow import feather, ipc

    def table() -> "pa.Table":
        with path.open("rb") as file:
            if file.read(4) == b"\xff\xff\xff\xff":
                file.seek(0)
                return ipc.open_stream(file).read_all()
        return feather.read_table(path)

    return _read(path, reading, table)


def need_pyarrow(where: str) -> None:
    """Answer in a sentence where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{where}: Parquet and Arrow need pyarrow; pip install 'batch-calibration[tables]'."
        ) from error


def _read(path: Path, reading: Reading, table: "Callable[[], pa.Table]") -> list[Imported]:
    """The scores of a file that one function reads."""
    import pyarrow as pa

    try:
        read = table()
        # Damaged offsets would be followed out of memory.
        read.validate(full=True)
        found = arrow_columns(str(path), read)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        said = str(error).partition("\n")[0]
        raise InputError(f"{path}: no whole Parquet or Arrow file ({said}).") from error
    return [from_columns(str(path), found, reading, task=path.stem)]


def arrow_columns(where: str, table: "pa.Table") -> Mapping[str, Column]:
    """The columns of an Arrow table; lists become lists, all else numpy arrays."""
    import pyarrow as pa

    names = table.column_names
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: the column {twice(names)!r} stands twice; give each a name of its own."
        )
    columns: dict[str, Column] = {}
    for name in names:
        column = table[name]
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        try:
            columns[name] = np.asarray(column.to_numpy()) if plain else column.to_pylist()
        except ValueError as error:
            raise InputError(
                f"{where}: the column {name!r} cannot be read ({error}); write it again."
            ) from error
    return columns
