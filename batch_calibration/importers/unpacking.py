"""How much a compressed file may unpack to."""

import zipfile
from pathlib import Path

from batch_calibration.errors import InputError

MAX_UNPACKED = 1 << 29
"""Bytes that any file may unpack to."""
MAX_RATIO = 100
"""Times its own size that a larger one may unpack to: scores and logs compress 2 to 30 times."""
GIB = 1 << 30
NUMBER_SIZE = 8
"""Bytes of a number in memory."""


def check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse a file that unpacks to far more than it holds.

    Args:
        path: the file.
        unpacked: bytes that it says to unpack to.

    Raises:
        InputError: more than any file of scores.
    """
    size = path.stat().st_size
    most = max(MAX_UNPACKED, MAX_RATIO * size)
    if unpacked > most:
        raise InputError(
            where=path,
            expected=f"a file of {size:,} bytes to unpack to at most {most / GIB:.3g} GiB",
            got=f"{unpacked / GIB:.3g} GiB",
            remedy="such files fill the memory on purpose, or by one number repeated; if it is "
            "meant, save it without compression",
        )


def check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip whose files unpack to far more than it holds.

    zipfile reads no more of a file than its header declares, so the declared sizes bound the real.
    """
    check_unpacked(path, sum(member.file_size for member in archive.infolist()))


def check_rows(path: Path, rows: int, columns: int) -> None:
    """Refuse a file of columns whose rows, run-length encoded, are far more than it holds."""
    check_unpacked(path, NUMBER_SIZE * rows * columns)
