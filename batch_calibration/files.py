"""Files that are written whole or not at all, names that become paths, JSON, process names."""

import dataclasses
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import tempfile
import types
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeVar, Union, get_args, get_origin, get_type_hints

from batch_calibration.errors import shown

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""A value that JSON can hold."""
PARTIAL = ".partial"
"""The ending of a file that is being written."""
LONGEST = 180
"""Bytes of a file's name, below the 255 that file systems take with endings and `PARTIAL`."""
DAY = 86400
"""Seconds."""


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name, flush it to the disk, then rename it to `path`.

    Raises:
        OSError: the disk is full, the folder cannot be written; what was at `path` is still there.
    """
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the name `path` once all of it is on the disk.

    Where writing ends in an error, what was at `path` is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whose file it is: `remove_unfinished` leaves those of processes that still run.
    partial = path.with_name(f".{path.name}.{process_name()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    # The data are safe; that the name is, too, not every file system can promise.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left below `folder`.

    What a process on another machine left, of which it is not known whether it ended, is removed
    when it is a day old by the clock of the file system.
    """
    for place, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            if name.startswith(".") and name.endswith(PARTIAL):
                path = Path(place, name)
                with suppress(OSError):
                    if ended(path.stem.rpartition(".")[2]) or _old(path):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _old(path: Path) -> bool:
    with tempfile.TemporaryFile(dir=path.parent) as new:
        return os.fstat(new.fileno()).st_mtime - path.stat().st_mtime > DAY


def file_name(text: str) -> str:
    """`text` as one part of a path: letters, digits, `.`, `_`, `-`; others as `%` and their code.

    Different texts have different names. What is too long is cut and ends in a hash of the whole.

    >>> file_name("../a b"), file_name("mini-1shot")
    ('..%2Fa%20b', 'mini-1shot')
    """
    name = re.sub(r"[^\w.-]", lambda found: f"%{ord(found[0]):02X}", text)
    if len(name.encode()) <= LONGEST and name.strip("."):
        return name
    whole = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name.encode()[: LONGEST - 17].decode(errors='ignore')}-{whole}"


def parse_json(text: str) -> Json:
    """The value of a JSON text.

    Raises:
        UnicodeError: half a surrogate pair, which no file or tokenizer can take.
        ValueError: no JSON; nested too deeply; a whole number of thousands of digits.
    """
    try:
        value: Json = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


class WrongJson(ValueError):
    """A JSON value that is not of its field's type."""


T = TypeVar("T")


def read_as(kind: type[T], value: object, where: str) -> T:
    """A JSON value as a field's type: dataclass, tuple, mapping, optional, plain.

    Raises:
        WrongJson: it is of another type, lacks a field, is no finite number or none of 64 bits.

    >>> read_as(tuple[int, ...], [1, 2], "sizes")
    (1, 2)
    """
    # First, for most values of a file are numbers.
    if kind is float and type(value) in (int, float) and _finite(value):
        return float(value)  # type: ignore
    if kind in (int, str) and type(value) is kind and _fits(value):
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        hints = _types_of_fields(kind)
        lacking = [
            f.name
            for f in dataclasses.fields(kind)
            if f.name not in value
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if lacking:
            raise WrongJson(f"expected {', '.join(lacking)} in the {where}; got none")
        known = {name: value[name] for name in hints if name in value}
        return kind(**{name: read_as(hints[name], x, name) for name, x in known.items()})
    if kind is object:
        return value  # type: ignore[return-value]
    if origin in (Union, types.UnionType):
        (kept,) = [part for part in parts if part is not type(None)]
        return value if value is None else read_as(kept, value, where)  # type: ignore[return-value]
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(read_as(parts[0], x, where) for x in value)  # type: ignore[return-value]
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(k): read_as(parts[1], x, where) for k, x in value.items()}  # type: ignore
    name = kind.__name__ if isinstance(kind, type) and not origin else str(kind)
    raise WrongJson(f"expected {where} to be {name}; got {shown(value)}")


_types_of_fields = cache(get_type_hints)


def _finite(value: object) -> bool:
    """Whether a number is finite as a float."""
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:
        return False


def _fits(value: object) -> bool:
    """Whether a value is no whole number that numpy and Arrow cannot hold in 64 bits."""
    return not isinstance(value, int) or value.bit_length() < 64


def process_name() -> str:
    """The name of this process: its machine, its number there, and when it began.

    >>> ended(process_name()), process_name().count("-")
    (False, 2)
    """
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def ended(name: str) -> bool:
    """Whether the process of that name, which more may follow after a `-`, is known to have ended.

    False of processes on other machines, of which nothing is known here.
    """
    machine, number, began, *_ = [*name.split("-"), "", "", ""]
    if machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _began(int(number)) != began


@cache
def _machine() -> str:
    """A name for the running system, another one after it was started anew or in a container."""
    about = f"{socket.gethostname()} {uuid.getnode()}"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        about = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return sha256(about.encode()).hexdigest()[:12]


def _began(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it ended or nothing tells."""
    with suppress(OSError):
        # The name of the program, in parentheses, may hold spaces.
        about = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()
        return "" if about[0] in (b"Z", b"X") else about[19].decode()
    return ""
