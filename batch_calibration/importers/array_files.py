"""npz, npy and safetensors files: named arrays, of which one or several hold scores."""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from batch_calibration.errors import InputError, shown
from batch_calibration.files import parse_json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.named_arrays import Arrays, from_arrays

DAMAGED = (
    ValueError, TypeError, KeyError, OSError, EOFError, MemoryError, OverflowError, SyntaxError,
    NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error,
    SafetensorError, tokenize.TokenError,
)  # fmt: skip
"""What numpy and safetensors raise where a file is not whole."""


def is_npz(path: Path, start: bytes) -> bool:
    """Whether a file is a zip whose first file is an array."""
    name = start[30 : 30 + int.from_bytes(start[26:28], "little")]
    return start[:4] == b"PK\3\4" and (name.endswith(b".npy") or path.suffix == ".npz")


def is_npy(path: Path, start: bytes) -> bool:
    """Whether a file is one array of numpy."""
    return path.suffix == ".npy" or start.startswith(b"\x93NUMPY")


def is_safetensors(path: Path, start: bytes) -> bool:
    """Whether a file begins with a header of safetensors."""
    return path.suffix == ".safetensors" or start[5:9] == b"\0\0\0{"


def read_npz(path: Path, reading: Reading) -> list[Imported]:
    """The scores of an npz file; nothing in it is unpickled."""

    def arrays() -> Arrays:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}

    return _read(path, reading, arrays)


def read_npy(path: Path, reading: Reading) -> list[Imported]:
    """The scores of an npy file, an array [n, k]; nothing in it is unpickled."""

    def arrays() -> Arrays:
        with path.open("rb") as file:
            return {"scores": np.load(file, allow_pickle=False)}

    return _read(path, reading, arrays)


def read_safetensors(path: Path, reading: Reading) -> list[Imported]:
    """The scores of a safetensors file; lists of texts in its metadata are names."""

    def arrays() -> Arrays:
        with safe_open(path, framework="numpy") as file:
            found: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
        for name, text in metadata.items():
            try:
                names = parse_json(text)
            except ValueError:
                continue
            if isinstance(names, list) and all(isinstance(one, str) for one in names):
                found.setdefault(name, np.array(names, np.str_))
        return found

    return _read(path, reading, arrays)


def _read(path: Path, reading: Reading, arrays: Callable[[], Arrays]) -> list[Imported]:
    """The contexts of a file whose arrays one function gives."""
    try:
        found = arrays()
    except DAMAGED as error:
        # A zip's error repeats its headers, of any length.
        said = shown(str(error).partition("\n")[0]) if str(error) else type(error).__name__
        raise InputError(
            where=path, expected="a whole file of arrays", got=f"none ({said})"
        ) from error
    return from_arrays(str(path), found, reading, task=path.stem)
