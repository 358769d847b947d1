"""Other people's scores: files, logs and frames read as score tables, one importer a format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.importers import array_files, columnar, delimited, json_lines, stored
from batch_calibration.importers.base import Imported, Reading, to_table, to_tables
from batch_calibration.importers.frames import tables_of
from batch_calibration.scores import ScoreTable

__all__ = [
    "IMPORTERS", "Imported", "Importer", "Reading", "read", "tables_of", "to_table", "to_tables",
]  # fmt: skip


NPY = "https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html"


class Importer(NamedTuple):
    """A format.

    Attributes:
        recognizes: path and first bytes of a file -> whether it is of this format.
        read: a file and what is said of it -> what is in it.
        source: where the format is documented.
    """

    recognizes: Callable[[Path, bytes], bool]
    read: Callable[[Path, Reading], list[Imported]]
    source: str


# Formats of logs stand before those of tables: a log may be JSON Lines or a zip as well.
IMPORTERS: dict[str, Importer] = {
    "npz": Importer(array_files.is_npz, array_files.read_npz, NPY),
    "npy": Importer(array_files.is_npy, array_files.read_npy, NPY),
    "safetensors": Importer(
        array_files.is_safetensors,
        array_files.read_safetensors,
        "https://huggingface.co/docs/safetensors",
    ),
    "parquet": Importer(
        columnar.is_parquet, columnar.read_parquet, "https://parquet.apache.org/docs/file-format/"
    ),
    "arrow": Importer(
        columnar.is_arrow,
        columnar.read_arrow,
        "https://arrow.apache.org/docs/format/Columnar.html",
    ),
    "json": Importer(json_lines.recognizes, json_lines.read, "https://jsonlines.org"),
    "csv": Importer(delimited.recognizes, delimited.read, "RFC 4180"),
}
"""Format -> importer; of those that recognize a file, the first one reads it."""


def read(path: str | Path, reading: Reading | None = None) -> list[ScoreTable]:
    """The score tables in a file of any known format.

    Args:
        path: the file; or a working folder, whose own tables come as they are.
        reading: what is said of it.

    Raises:
        InputError: a sentence on what is wrong with it.
    """
    path, reading = Path(path), reading or Reading()
    own = stored.tables(path)
    if own is not None:
        return own
    return to_tables(find(path, reading).read(path, reading), reading)


def find(path: Path, reading: Reading) -> Importer:
    """The importer of a file: the one named, or the first that recognizes it."""
    if reading.format:
        if reading.format not in IMPORTERS:
            raise InputError.unknown("format", reading.format, IMPORTERS)
        return IMPORTERS[reading.format]
    try:
        with path.open("rb") as file:
            start = file.read(65_536)
    except OSError as error:
        raise InputError(
            f"{path}: expected a file of scores, which cannot be read ({error.strerror})."
        ) from error
    for importer in IMPORTERS.values():
        if importer.recognizes(path, start):
            return importer
    raise InputError(
        f"{path}: its format is not known; name it with --format: {', '.join(IMPORTERS)}."
    )
