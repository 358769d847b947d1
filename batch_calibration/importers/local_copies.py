"""Files that are compressed or lie elsewhere, as plain files of this machine."""

import gzip
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from batch_calibration.errors import InputError, answering, extra
from batch_calibration.files import temporary_folder

GIB = 1 << 30
MAX_UNPACKED = 1 << 29  # bytes that any file may unpack to
MAX_RATIO = 100
"""Times its own size that a larger one may unpack to: scores and logs compress 2 to 30 times."""
NUMBER_SIZE = 8  # bytes of a number in memory
CHUNK = 1 << 20  # bytes in memory at a time
SCHEME = re.compile(r"([a-z][a-z0-9+]+):/+(?=[^/])")
"""Scheme of an address, of two letters or more; pathlib keeps one of the slashes."""
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs",
            "az": "adlfs", "hf": "huggingface_hub"}  # fmt: skip
"""Scheme -> what fsspec needs for it."""
COMPRESSED = (".gz", ".zst")
"""Endings of compressed files; what they are is read from their first bytes."""
UNPACK = "pip install pyarrow, or unpack it"
GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MAGIC = re.compile(r"[*?\[]")  # what makes an address a pattern


def is_remote(path: str | Path) -> bool:
    """True for an address of another machine, such as s3://bucket/log.jsonl.

    >>> is_remote("s3://bucket/log.jsonl"), is_remote(Path("s3://bucket/log.jsonl"))
    (True, True)
    >>> is_remote("logs/log.jsonl"), is_remote("C:/log.jsonl")
    (False, False)
    """
    return SCHEME.match(str(path)) is not None


def address(path: str | Path) -> str:
    """The address that a path was made of.

    >>> address(Path("s3://bucket/log.jsonl"))
    's3://bucket/log.jsonl'
    """
    name = SCHEME.sub(r"\1://", str(path), count=1)
    # Paths of this machine are absolute in addresses, and pathlib keeps no slash of theirs.
    if name.startswith("file://") and not Path(name.removeprefix("file://")).exists():
        name = name.replace("file://", "file:///", 1)
    return name


def list_files(name: str) -> tuple[list[Path], bool]:
    """The files at an address: one file, all below a folder, or those that a pattern matches.

    Returns:
        The files, and whether the address is a file or a pattern, which chooses them.
    """
    with _reachable(name):
        system, path = _file_system(name)
        if MAGIC.search(path):
            names, is_choice = system.glob(path), True
        elif system.isdir(path):
            names, is_choice = system.find(path), False
        else:
            names, is_choice = ([path] if system.exists(path) else []), True
        files = [Path(system.unstrip_protocol(file)) for file in sorted(names)]
    if not files:
        raise InputError.at(name, "a file of scores", "none", "correct the address")
    return files, is_choice


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """Yields a local, uncompressed path; a temporary copy where needed.

    Errors name the file as the user does. A log's file of results is copied too.

    Raises:
        InputError: no file; a package is not installed; it unpacks to far more than it
            holds.
    """
    if not is_remote(path) and not _start(path).startswith((GZIP, ZSTANDARD)):
        yield path
        return
    with temporary_folder() as folder:
        copy = path
        if is_remote(path):
            copy = folder / path.name
            _fetch(path, copy)
        start = _start(copy)
        if start.startswith((GZIP, ZSTANDARD)):
            copy = _unpack(copy, folder, is_gzip=start.startswith(GZIP), where=address(path))
        _copy_results(path, copy.parent)
        try:
            yield copy
        except InputError as error:
            raise error.replacing(str(copy), address(path)) from error


def _start(path: Path) -> bytes:
    """The first bytes of a file, which tell how it is compressed; none where it is no file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(4)


def _max_unpacked(path: Path) -> int:
    return max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size)


def _unpack(path: Path, folder: Path, *, is_gzip: bool, where: str) -> Path:
    """A file without its compression, in a folder; never more than `MAX_UNPACKED` allows."""
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED else path.name
    plain = folder / "plain" / name
    plain.parent.mkdir()
    most, size = _max_unpacked(path), 0
    try:
        zstandard = partial(open_zstandard, str(path), where, UNPACK)
        unpacked = partial(gzip.open, path) if is_gzip else zstandard
        with unpacked() as source, plain.open("wb") as target:
            while chunk := source.read(CHUNK):
                size += len(chunk)
                if size > most:
                    expected = f"a file that unpacks to at most {most / GIB:.3g} GiB"
                    raise InputError.at(where, expected, "more", "if meant, unpack it yourself")
                target.write(chunk)
    except (EOFError, zlib.error, OSError) as error:
        # Those of gzip and pyarrow have no number; those of the disk have one.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError.at(
            where, "a whole compressed file", str(error)[:200], "copy it again"
        ) from error
    return plain


def open_zstandard(
    source: str | BinaryIO, where: object, remedy: str
) -> AbstractContextManager[BinaryIO]:
    """What a file, by its name or open, holds when it is unpacked."""
    with answering(ImportError, where, "pyarrow, which unpacks Zstandard", remedy):
        import pyarrow
    stream: AbstractContextManager[BinaryIO] = pyarrow.CompressedInputStream(source, "zstd")
    return stream


def _fetch(path: Path, target: Path) -> None:
    """Copy a file from elsewhere, a part in memory at a time."""
    with _reachable(address(path)):
        system, name = _file_system(address(path))
        with system.open(name, "rb") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK)


def _copy_results(path: Path, folder: Path) -> None:
    """Copy the file of results of a harness log, which names its model and shots."""
    dated = re.fullmatch(r"samples_.+_(\d{4}-.*)\.jsonl(\.gz|\.zst)?", path.name)
    if not dated:
        return
    source = path.with_name(f"results_{dated[1]}.json")
    if is_remote(source):
        system, name = _file_system(address(source))
        if system.exists(name):
            _fetch(source, folder / source.name)
    elif source.is_file():
        shutil.copyfile(source, folder / source.name)


def _file_system(name: str) -> tuple[Any, str]:
    """The file system of an address, and what the file is called in it."""
    scheme = name.partition(":")[0]
    package = PACKAGES.get(scheme, "a package of its own")
    install = f"{extra('remote')} {PACKAGES.get(scheme, '')}".strip()
    expected, schemes = f"what reads {scheme}://, fsspec and {package}", "such as s3, gs or hf"
    with (
        answering(ImportError, name, expected, install),
        answering(ValueError, name, f"a scheme of fsspec, {schemes}", "correct the address"),
    ):
        import fsspec

        connect: Callable[[str], tuple[Any, str]] = fsspec.core.url_to_fs
        return connect(name)


@contextmanager
def _reachable(name: str) -> Iterator[None]:
    """Answer in a sentence where an address cannot be read, whatever its package raises."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError.at(
            name, "a file that you may read there", f"{type(error).__name__}: {str(error)[:200]}"
        ) from error


def check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse a file that says to unpack to far more than it holds."""
    size, most = path.stat().st_size, _max_unpacked(path)
    if unpacked > most:
        expected = f"a file of {size:,} bytes to unpack to at most {most / GIB:.3g} GiB"
        remedy = "these files fill the memory on purpose, or by one number repeated; if it is "
        remedy += "meant, save it without compression"
        raise InputError.at(path, expected, f"{unpacked / GIB:.3g} GiB", remedy)


def check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip whose files unpack to far more than it holds.

    zipfile reads no more of a file than its header declares, so the declared sizes bound the real.
    """
    check_unpacked(path, sum(member.file_size for member in archive.infolist()))


def check_rows(path: Path, rows: int, columns: int) -> None:
    """Refuse a file of columns whose rows, run-length encoded, are far more than it holds."""
    check_unpacked(path, NUMBER_SIZE * rows * columns)
