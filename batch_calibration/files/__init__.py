"""Files that are written whole or not at all, names of processes and paths, JSON and CSV."""

import csv
import dataclasses
import errno
import io
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from batch_calibration.errors import shown

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""A value that JSON can hold."""
PARTIAL = ".partial"  # the ending of a file that is being written
UNFINISHED = re.compile(rf"\..+\.[0-9a-f]{{12}}-\d+-\d*-[0-9a-f]{{8}}{re.escape(PARTIAL)}")
"""The name that `whole_file` gives it: that of the file, its process, random digits."""
LONGEST_NAME = 180
"""Bytes of a file's name, below the 255 that file systems take with endings and `PARTIAL`."""
SECONDS_OF_A_DAY = 86400
MAX_FLOAT = sys.float_info.max  # whole numbers of JSON may be larger
PASSING_ERRORS = (errno.EIO, errno.ESTALE, errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT)
"""Errors of a network file system whose server is busy, restarts or moves a file."""
PAUSES = (0.05, 0.2, 0.8)
"""Seconds before an operation on a file is tried again; after the last it has failed."""

T = TypeVar("T")


def retry(action: Callable[[], T]) -> T:
    """The result of `action`, called again where a file system fails that may recover soon.

    Raises:
        OSError: it fails for another reason, or every time.

    >>> retry(Path("absent").exists)
    False
    """
    for pause in PAUSES:
        try:
            return action()
        except OSError as error:
            if error.errno not in PASSING_ERRORS:
                raise
        time.sleep(pause)
    return action()


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder, in place of what has that name; tried again as in `retry`."""
    inode = retry(source.stat).st_ino

    def attempt() -> None:
        try:
            source.replace(target)
        except FileNotFoundError:
            # A server may rename and fail to say so: then the file is there, under its new name.
            if target.stat().st_ino != inode:
                raise

    retry(attempt)


def remove(path: Path) -> None:
    """Remove a file where there is one; tried again as in `retry`."""
    retry(lambda: path.unlink(missing_ok=True))


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` under a temporary name, flush it to the disk, then rename it to `path`.

    Raises:
        OSError: the disk is full, the folder cannot be written; what was at `path` is still there.
    """

    def attempt() -> None:
        with whole_file(path) as file:
            file.write(content)

    # All of it anew: what a failed write or flush left in the file is not known.
    retry(attempt)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the name `path` once all of it is on the disk.

    Where writing ends in an error, what was at `path` is still there.
    """
    retry(lambda: path.parent.mkdir(parents=True, exist_ok=True))
    # Whose file it is: `remove_unfinished` leaves those of processes that still run.
    partial = path.with_name(f".{path.name}.{process_name()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        with retry(lambda: partial.open("wb")) as file:
            yield file
            file.flush()
            # Before the rename, which else may outlive the content in a crash.
            os.fsync(file.fileno())
            rename(partial, path)
    finally:
        remove(partial)
    # The data are safe; that the name is, too, not every file system can promise.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_unfinished(folder: Path, *, is_ours: bool = True) -> None:
    """Remove what killed writers left below `folder`.

    What a process on another machine left, of which it is not known whether it ended, is removed
    when it is a day old by the clock of the file system. Of a folder that is not ours alone only
    what `whole_file` began is removed, and nothing in the folders in it.
    """
    for parent, folders, names in os.walk(folder):
        if not is_ours:
            folders.clear()  # os.walk goes into none then
            names = [name for name in names if UNFINISHED.fullmatch(name)]
        for name in [*folders, *names]:
            if name.startswith(".") and name.endswith(PARTIAL):
                _remove_left(Path(parent, name))


def _remove_left(path: Path) -> None:
    """Remove a file or folder whose name holds its process, if that has ended."""
    with suppress(OSError):
        # Process and random digits, before the ending.
        if ended(path.stem.rpartition(".")[2]) or is_day_old(path):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end of the block, or by the next where that is killed."""
    for path in Path(tempfile.gettempdir()).glob(f".batch-calibration.*{PARTIAL}"):
        _remove_left(path)
    prefix = f".batch-calibration.{process_name()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=PARTIAL) as name:
        yield Path(name)


def is_day_old(path: Path) -> bool:
    """True where a file or folder last changed a day ago, by the clock of its file system."""
    with tempfile.TemporaryFile(dir=path.parent) as new:
        return os.fstat(new.fileno()).st_mtime - path.stat().st_mtime > SECONDS_OF_A_DAY  # seconds


def file_name(text: str) -> str:
    """`text` as one part of a path: letters, digits, `.`, `_`, `-`; others as `%` and their code.

    Different texts have different names. What is too long is cut and ends in a hash of the whole.

    >>> file_name("../a b"), file_name("mini-1shot")
    ('..%2Fa%20b', 'mini-1shot')
    """
    name = re.sub(r"[^\w.-]", lambda letter: f"%{ord(letter[0]):02X}", text)
    if len(name.encode()) <= LONGEST_NAME and name.strip("."):  # "." and ".." are folders
        return name
    digest = sha256(name.encode()).hexdigest()[:16]
    # 17 bytes for the dash and the digest; the cut may halve a letter, which is left out.
    return f"{name.encode()[: LONGEST_NAME - 17].decode(errors='ignore')}-{digest}"


class RepeatedKey(ValueError):
    """A JSON object has a key twice; the error's text says which."""


def parse_json(text: str, *, unique_keys: bool = False) -> Json:
    """The value of a JSON text.

    Args:
        text: JSON.
        unique_keys: whether a repeated key of an object is refused; Python keeps the last
            value and drops the first without a word.

    Raises:
        RepeatedKey: a key appears twice.
        UnicodeError: half a surrogate pair, which no file or tokenizer can take.
        ValueError: no JSON; nested too deeply; a whole number of thousands of digits.
    """
    try:
        document: Json = json.loads(text, object_pairs_hook=_unique if unique_keys else None)
        if "\\ud" in text.lower():  # as the escape of a surrogate begins
            json.dumps(document, ensure_ascii=False).encode()  # which raises
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return document


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """A JSON object with unique keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(f"{repr(key)[:80]} twice")
            seen.add(key)
    return members


def value_at(document: object, *keys: str | int) -> object:
    """The value at the end of a path through objects and lists, None where the path breaks off.

    >>> value_at({"choices": [{"text": "yes"}]}, "choices", 0, "text")
    'yes'
    """
    for key in keys:
        if isinstance(key, str) and isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(key, int) and isinstance(document, list) and len(document) > key:
            document = document[key]
        else:
            return None
    return document


def object_at(document: object, *keys: str | int) -> dict[str, Json]:
    """The object at the end of a path, an empty one where there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, dict) else {}


def list_at(document: object, *keys: str | int) -> list[Json]:
    """The list at the end of a path, an empty one where there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, list) else []


def text_at(document: object, *keys: str | int) -> str:
    """The text at the end of a path, an empty one where there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, str) else ""


def count_at(document: object, *keys: str | int) -> int | None:
    """The whole number from 0 on at the end of a path, None where there is none."""
    found = value_at(document, *keys)
    return found if type(found) is int and found >= 0 else None


class WrongJson(ValueError):
    """A JSON value that is not of its field's type."""


def read_as(kind: type[T], value: object, where: str) -> T:
    """A JSON value as a field's type: dataclass, tuple, mapping, optional, plain.

    Raises:
        WrongJson: it is of another type, lacks a field, is no finite number or none of 64 bits.

    >>> read_as(tuple[int, ...], [1, 2], "sizes")
    (1, 2)
    """
    # First, for most values of a file are numbers.
    if kind is float and type(value) in (int, float) and abs(value) <= MAX_FLOAT:  # type: ignore
        return float(value)  # type: ignore
    # Not isinstance: True is an int. Of the 64 bits that numpy and Arrow hold one is the sign.
    is_too_long = type(value) is int and value.bit_length() > 63
    if kind in (int, str) and type(value) is kind and not is_too_long:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        hints, fields = _types_of_fields(kind), dataclasses.fields(kind)
        required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        lacking = [name for name in required if name not in value]
        if lacking:
            raise WrongJson(f"expected {', '.join(lacking)} in the {where}; got none")
        members = {}
        for field in fields:
            if field.name in value:
                members[field.name] = read_as(hints[field.name], value[field.name], field.name)
        return kind(**members)
    if kind is object:
        return value  # type: ignore[return-value]
    if origin in (Union, types.UnionType):
        # An optional field holds None or a value of the one other type.
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return value if value is None else read_as(kind, value, where)  # type: ignore[return-value]
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[0] is str and set(map(type, value)) <= {str}:  # ids of many rows, at once
            return tuple(value)  # type: ignore
        return tuple(read_as(arguments[0], member, where) for member in value)  # type: ignore
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        kind = arguments[1]
        return {str(key): read_as(kind, value[key], where) for key in value}  # type: ignore
    name = kind.__name__ if isinstance(kind, type) and not origin else str(kind)
    raise WrongJson(f"expected {where} to be {name}; got {shown(value)}")


_types_of_fields = cache(get_type_hints)


def process_name() -> str:
    """The name of this process: its machine, its number there, and when it began.

    >>> ended(process_name()), process_name().count("-")
    (False, 2)
    """
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def ended(name: str) -> bool:
    """True where the process of that name (more may follow after a `-`) is known to have ended.

    False of processes on other machines, of which nothing is known here.
    """
    machine, number, began, *_ = [*name.split("-"), "", "", ""]  # what is no such name, too
    if machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except OSError:  # it runs, as another user
        return False
    return _began(int(number)) != began  # the number is another process's by now


@cache
def _machine() -> str:
    """A name for the running system, another one after it was started anew or in a container."""
    system = f"{socket.gethostname()} {uuid.getnode()}"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        # Another text after a restart, and in each container.
        system = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return sha256(system.encode()).hexdigest()[:12]


def _began(number: int) -> str:
    """When a process began, in the kernel's ticks; empty where it ended or nothing tells."""
    with suppress(OSError):
        # The name of the program, in parentheses, may hold spaces.
        fields = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()
        has_ended = fields[0] in (b"Z", b"X")  # a zombie, or dead
        return "" if has_ended else fields[19].decode()  # starttime, 22nd field of proc(5)
    return ""


FORMULA_SIGNS = tuple("=+-@\t\r")
"""First characters of a formula in a spreadsheet."""


class Number(str):
    """A number as text, such as one with an interval behind it: no formula, whatever its sign."""


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Rows as CSV; a text that a spreadsheet would take for a formula is quoted with `'`."""
    return write_csv((map(quote_formula, row) for row in rows), delimiter)


def write_csv(rows: Iterable[Iterable[object]], delimiter: str) -> str:
    """Rows as CSV; every cell is in quotes where one holds a bare CR, which else ends a line."""
    cells = list(map(list, rows))
    text = _csv_of(cells, delimiter, csv.QUOTE_MINIMAL)
    return _csv_of(cells, delimiter, csv.QUOTE_ALL) if "\r" in text else text


def _csv_of(rows: Iterable[Iterable[object]], delimiter: str, quoting: Literal[0, 1]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n", quoting=quoting).writerows(rows)
    return buffer.getvalue()


def quote_formula(cell: object) -> object:
    """The cell; a text that a spreadsheet would take for a formula begins with `'`."""
    if not isinstance(cell, str) or isinstance(cell, Number) or not cell.startswith(FORMULA_SIGNS):
        return cell
    return cell if cell == "-" or _is_number(cell) else f"'{cell}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
