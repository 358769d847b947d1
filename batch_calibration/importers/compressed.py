"""Unpacks compressed files, with limits on the unpacked size."""

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
MAX_UNPACKED = 1 << 29  # unpacked bytes that are allowed for a file of any size
MAX_RATIO = 100
"""The largest ratio of unpacked to packed size of larger files. Scores and logs have 2 to 30."""
NUMBER_SIZE = 8  # bytes per number in memory
CHUNK = 1 << 20  # bytes read at a time
COMPRESSED = (".gz", ".zst")
"""File name suffixes that unpacking removes; a file's first bytes show its compression."""
UNPACK = "pip install pyarrow, or unpack it"
GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextmanager
def plain_copy(path: Path) -> Iterator[Path]:
    """Yields a plain file itself, or an unpacked temporary copy of a compressed file.

    Errors name the original file. The results file of a harness log is copied, too.

    Raises:
        InputError: The path is a URL, a package for unpacking is not installed, or the file is
            damaged or unpacks to more than `MAX_UNPACKED` and `MAX_RATIO` allow.
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
    """Returns the first bytes of a file, which show its compression; b"" if it is no file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(4)


def _max_unpacked(path: Path) -> int:
    return max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size)


def _unpack(path: Path, folder: Path, *, is_gzip: bool) -> Path:
    """Unpacks a file into a folder and returns its path; raises an error if it is too large."""
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
        # Errors of the file system have an errno; errors of gzip and pyarrow have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        expected = "an intact compressed file"
        raise InputError.at(path, expected, str(error)[:200], "copy it again") from error
    return plain


def open_zstandard(
    source: str | BinaryIO, where: object, remedy: str
) -> AbstractContextManager[BinaryIO]:
    """Opens a Zstandard file, given by its path or as an open file, as a stream of plain bytes."""
    with answering(ImportError, where, "pyarrow, which unpacks Zstandard", remedy):
        import pyarrow
    stream: AbstractContextManager[BinaryIO] = pyarrow.CompressedInputStream(source, "zstd")
    return stream


def _copy_results(path: Path, folder: Path) -> None:
    """Copies the results file of a harness log, which holds the model and the shots."""
    dated = re.fullmatch(r"samples_.+_(\d{4}-.*)\.jsonl(\.gz|\.zst)?", path.name)
    if not dated:
        return
    source = path.with_name(f"results_{dated[1]}.json")
    if source.is_file():
        shutil.copyfile(source, folder / source.name)


def check_unpacked(path: Path, unpacked: int) -> None:
    """Raises an error if the declared unpacked size of a file exceeds its limit."""
    size, most = path.stat().st_size, _max_unpacked(path)
    if unpacked > most:
        expected = f"a file of {size:,} bytes that unpacks to at most {most / GIB:.3g} GiB"
        remedy = "if it repeats one number on purpose, save it without compression"
        raise InputError.at(path, expected, f"{unpacked / GIB:.3g} GiB", remedy)


def check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises an error if the declared unpacked size of a zip exceeds its limit.

    zipfile never reads more of a member than its header declares, so declared sizes are bounds.
    """
    check_unpacked(path, sum(member.file_size for member in archive.infolist()))


def check_rows(path: Path, rows: int, columns: int) -> None:
    """Raises an error if the rows of a columnar file exceed its limit in memory.

    Run-length encoding can store many equal rows in a few bytes.
    """
    check_unpacked(path, NUMBER_SIZE * rows * columns)
