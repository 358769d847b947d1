"""Compressed files as plain ones, and limits on the size that a file unpacks to."""

import gzip
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from batch_calibration.errors import InputError, answering
from batch_calibration.files import temporary_folder
from batch_calibration.files.rows import refuse_remote

GIB = 1 << 30
MAX_UNPACKED = 1 << 29  # bytes that any file may unpack to
MAX_RATIO = 100
"""Times its own size that a larger one may unpack to: scores and logs compress 2 to 30 times."""
NUMBER_SIZE = 8  # bytes of a number in memory
CHUNK = 1 << 20  # bytes in memory at a time
COMPRESSED = (".gz", ".zst")
"""Endings of compressed files; what they are is read from their first bytes."""
UNPACK = "pip install pyarrow, or unpack it"
GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextmanager
def plain_copy(path: Path) -> Iterator[Path]:
    """Yields the file itself, or an unpacked temporary copy; errors name the file itself.

    A log's file of results is copied too.

    Raises:
        InputError: an address of another machine; a package is not installed; the file unpacks to
            far more than it holds.
    """
    refuse_remote(path)
    start = _start(path)
    if not start.startswith((GZIP, ZSTANDARD)):
        yield path
        return
    with temporary_folder() as folder:
        copy = _unpack(path, folder, is_gzip=start.startswith(GZIP))
        _copy_results(path, folder)
        try:
            yield copy
        except InputError as error:
            raise error.replacing(str(copy), str(path)) from error


def _start(path: Path) -> bytes:
    """The first bytes of a file, which tell how it is compressed; none where it is no file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(4)


def _max_unpacked(path: Path) -> int:
    return max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size)


def _unpack(path: Path, folder: Path, *, is_gzip: bool) -> Path:
    """Unpacks a file into a folder; never more than `MAX_UNPACKED` allows."""
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED else path.name
    plain = folder / name
    most, size = _max_unpacked(path), 0
    try:
        zstandard = partial(open_zstandard, str(path), path, UNPACK)
        unpacked = partial(gzip.open, path) if is_gzip else zstandard
        with unpacked() as source, plain.open("wb") as target:
            while chunk := source.read(CHUNK):
                size += len(chunk)
                if size > most:
                    expected = f"a file that unpacks to at most {most / GIB:.3g} GiB"
                    raise InputError.at(path, expected, "more", "if intended, unpack it yourself")
                target.write(chunk)
    except (EOFError, zlib.error, OSError) as error:
        # Those of gzip and pyarrow have no number; those of the disk have one.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        expected = "an intact compressed file"
        raise InputError.at(path, expected, str(error)[:200], "copy it again") from error
    return plain


def open_zstandard(
    source: str | BinaryIO, where: object, remedy: str
) -> AbstractContextManager[BinaryIO]:
    """What a file, by its name or open, holds when it is unpacked."""
    with answering(ImportError, where, "pyarrow, which unpacks Zstandard", remedy):
        import pyarrow
    stream: AbstractContextManager[BinaryIO] = pyarrow.CompressedInputStream(source, "zstd")
    return stream


def _copy_results(path: Path, folder: Path) -> None:
    """Copy the file of results of a harness log, which names its model and shots."""
    dated = re.fullmatch(r"samples_.+_(\d{4}-.*)\.jsonl(\.gz|\.zst)?", path.name)
    if not dated:
        return
    source = path.with_name(f"results_{dated[1]}.json")
    if source.is_file():
        shutil.copyfile(source, folder / source.name)


def check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse a file that says to unpack to far more than it holds."""
    size, most = path.stat().st_size, _max_unpacked(path)
    if unpacked > most:
        expected = f"a file of {size:,} bytes that unpacks to at most {most / GIB:.3g} GiB"
        remedy = "it may be a decompression bomb, or repeat one number; if that is intended, "
        remedy += "save it without compression"
        raise InputError.at(path, expected, f"{unpacked / GIB:.3g} GiB", remedy)


def check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip whose files unpack to far more than it holds.

    zipfile reads no more of a file than its header declares, so the declared sizes bound the real.
    """
    check_unpacked(path, sum(member.file_size for member in archive.infolist()))


def check_rows(path: Path, rows: int, columns: int) -> None:
    """Refuse a file of columns whose rows, run-length encoded, are far more than it holds."""
    check_unpacked(path, NUMBER_SIZE * rows * columns)
