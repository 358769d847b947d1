"""Writes files atomically; names processes and paths; reads JSON and writes CSV."""

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
"""A JSON value."""
PARTIAL = ".partial"  # suffix of an unfinished file
UNFINISHED = re.compile(rf"\..+\.[0-9a-f]{{12}}-\d+-\d*-[0-9a-f]{{8}}{re.escape(PARTIAL)}")
"""Temporary names by `whole_file`: the file's name, its process, random digits."""
LONGEST_NAME = 180
"""Maximum bytes of a file name. File systems allow 255, and suffixes and `PARTIAL` need some."""
SECONDS_OF_A_DAY = 86400
MAX_FLOAT = sys.float_info.max  # integers in JSON may be larger
PASSING_ERRORS = (errno.EIO, errno.ESTALE, errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT)
"""Temporary errors of a network file system: its server is busy, restarts or moves a file."""
PAUSES = (0.05, 0.2, 0.8)
"""Seconds before each retry of a file operation; after the last retry, its error is raised."""

T = TypeVar("T")


def retry(action: Callable[[], T]) -> T:
    """Returns the result of `action`; retries after temporary errors of the file system.

    Raises:
        OSError: The error is permanent, or the last retry failed.

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
    """Renames a file or folder and replaces an existing one; retries as `retry` does."""
    inode = retry(source.stat).st_ino

    def attempt() -> None:
        try:
            source.replace(target)
        except FileNotFoundError:
            # A server may rename without a reply; a retry then finds the file at its new name.
            if target.stat().st_ino != inode:
                raise

    retry(attempt)


def remove(path: Path) -> None:
    """Removes a file if it exists; retries as `retry` does."""
    retry(lambda: path.unlink(missing_ok=True))


def write_whole(path: Path, content: bytes | Callable[[], Iterable[bytes]]) -> None:
    """Writes `content` under a temporary name, flushes it to the disk, and renames it to `path`.

    A function gives the parts of a large content, again for each retry.

    Raises:
        OSError: The disk is full or the folder is not writable; an old file at `path` is kept.
    """

    def attempt() -> None:
        with whole_file(path) as file:
            file.writelines(content() if callable(content) else [content])

    # A retry writes the whole file, because a failed write leaves unknown content.
    retry(attempt)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file, which is renamed to `path` once it is completely on the disk.

    If the block raises an error, an old file at `path` is kept.
    """
    retry(lambda: path.parent.mkdir(parents=True, exist_ok=True))
    # The name identifies the process: `remove_unfinished` skips files of running processes.
    partial = path.with_name(f".{path.name}.{process_name()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        with retry(lambda: partial.open("wb")) as file:
            yield file
            file.flush()
            # Before the rename: otherwise a crash could leave the name without the content.
            os.fsync(file.fileno())
            rename(partial, path)
    finally:
        remove(partial)
    # The content is safe now; some file systems cannot guarantee the name.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_unfinished(folder: Path, *, is_ours: bool = True) -> None:
    """Removes the unfinished files and folders of killed processes below `folder`.

    It is unknown whether a process of another machine has ended, so its files are removed when
    they are a day old by the clock of the file system. If the folder is not `is_ours`, only files
    of `whole_file` are removed, and subfolders are skipped.
    """
    for parent, folders, names in os.walk(folder):
        if not is_ours:
            folders.clear()  # so that os.walk skips subfolders
            names = [name for name in names if UNFINISHED.fullmatch(name)]
        for name in [*folders, *names]:
            if name.startswith(".") and name.endswith(PARTIAL):
                _remove_left(Path(parent, name))


def _remove_left(path: Path) -> None:
    """Removes a file or folder if the process in its name has ended."""
    with suppress(OSError):
        # The name ends with the process and random digits, before the suffix.
        if ended(path.stem.rpartition(".")[2]) or is_day_old(path):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Opens a temporary folder, and removes it afterwards.

    It also removes the folders of killed processes.
    """
    for path in Path(tempfile.gettempdir()).glob(f".batch-calibration.*{PARTIAL}"):
        _remove_left(path)
    prefix = f".batch-calibration.{process_name()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=PARTIAL) as name:
        yield Path(name)


def is_day_old(path: Path) -> bool:
    """Checks whether a file or folder was unchanged for a day, by the clock of its file system."""
    with tempfile.TemporaryFile(dir=path.parent) as new:
        return os.fstat(new.fileno()).st_mtime - path.stat().st_mtime > SECONDS_OF_A_DAY  # seconds


def file_name(text: str) -> str:
    """Converts `text` to a part of a path: escapes all but letters, digits, `.`, `_`, `-` as `%XX`.

    Different texts have different names. Long names are cut and end with a hash of the full name.

    >>> file_name("../a b"), file_name("mini-1shot")
    ('..%2Fa%20b', 'mini-1shot')
    """
    name = re.sub(r"[^\w.-]", lambda letter: f"%{ord(letter[0]):02X}", text)
    if len(name.encode()) <= LONGEST_NAME and name.strip("."):  # "." and ".." are folders
        return name
    digest = sha256(name.encode()).hexdigest()[:16]
    # 17 bytes for the dash and the digest; a character that the cut splits is left out.
    return f"{name.encode()[: LONGEST_NAME - 17].decode(errors='ignore')}-{digest}"


class RepeatedKey(ValueError):
    """An error about a repeated key in a JSON object; the message names the key."""


def parse_json(text: str, *, unique_keys: bool = False) -> Json:
    """Parses a JSON text.

    Args:
        text: JSON.
        unique_keys: Raises an error for repeated keys of an object. By default, the last value is
            kept, as in Python.

    Raises:
        RepeatedKey: An object has a key twice.
        UnicodeError: A text has half a surrogate pair, which files and tokenizers cannot hold.
        ValueError: The text is no JSON, is nested too deeply, or has an integer of thousands of
            digits.
    """
    try:
        document: Json = json.loads(text, object_pairs_hook=_unique if unique_keys else None)
        if "\\ud" in text.lower():  # beginning of an escaped surrogate
            json.dumps(document, ensure_ascii=False).encode()  # raises for half a pair
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return document


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Builds a JSON object; raises an error for repeated keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(f"{repr(key)[:80]} twice")
            seen.add(key)
    return members


def value_at(document: object, *keys: str | int) -> object:
    """Returns the value at a path of keys and indices; a missing path gives None.

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
    """Returns the object at a path, or an empty dict if there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, dict) else {}


def list_at(document: object, *keys: str | int) -> list[Json]:
    """Returns the list at a path, or an empty list if there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, list) else []


def text_at(document: object, *keys: str | int) -> str:
    """Returns the text at a path, or "" if there is none."""
    found = value_at(document, *keys)
    return found if isinstance(found, str) else ""


def count_at(document: object, *keys: str | int) -> int | None:
    """Returns the nonnegative integer at a path; anything else gives None."""
    found = value_at(document, *keys)
    return found if type(found) is int and found >= 0 else None


class WrongJson(ValueError):
    """An error about a JSON value that does not have the type of its field."""


def read_as(kind: type[T], value: object, where: str) -> T:
    """Converts a JSON value to a field's type: dataclass, tuple, mapping, optional, plain.

    Raises:
        WrongJson: The value has another type, lacks a field, is infinite, or needs over 64 bits.

    >>> read_as(tuple[int, ...], [1, 2], "sizes")
    (1, 2)
    """
    # This case is first because most values of a file are numbers.
    if kind is float and type(value) in (int, float) and abs(value) <= MAX_FLOAT:  # type: ignore
        return float(value)  # type: ignore
    # type, not isinstance, because True is an int. 63 bits and a sign fit NumPy and Arrow.
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
        # An optional field holds None or a value of the only other type.
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return value if value is None else read_as(kind, value, where)  # type: ignore[return-value]
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[0] is str and set(map(type, value)) <= {str}:  # faster for ids of many rows
            return tuple(value)  # type: ignore
        return tuple(read_as(arguments[0], member, where) for member in value)  # type: ignore
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        kind = arguments[1]
        return {str(key): read_as(kind, value[key], where) for key in value}  # type: ignore
    name = kind.__name__ if isinstance(kind, type) and not origin else str(kind)
    raise WrongJson(f"expected {where} to be {name}; got {shown(value)}")


_types_of_fields = cache(get_type_hints)


def process_name() -> str:
    """Returns a name of this process: its machine, its process id, and its start time.

    >>> ended(process_name()), process_name().count("-")
    (False, 2)
    """
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid())}"


def ended(name: str) -> bool:
    """Checks whether the process in a name (with more after a `-`) is known to have ended.

    Returns False for processes of other machines, because their state is unknown.
    """
    machine, number, began, *_ = [*name.split("-"), "", "", ""]  # also accepts other names
    if machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return True
    except OSError:  # it is running as another user
        return False
    return _began(int(number)) != began  # another process may have the number now


@cache
def _machine() -> str:
    """Returns a name of the running system; it changes with each restart and container."""
    system = f"{socket.gethostname()} {uuid.getnode()}"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        # Both texts together differ after each restart and in each container.
        system = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return sha256(system.encode()).hexdigest()[:12]


def _began(number: int) -> str:
    """Returns the start time of a process in kernel ticks; "" if it has ended or is unknown."""
    with suppress(OSError):
        # The program's name is in parentheses and may contain spaces.
        fields = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()
        has_ended = fields[0] in (b"Z", b"X")  # a zombie, or dead
        return "" if has_ended else fields[19].decode()  # starttime, 22nd field of proc(5)
    return ""


FORMULA_SIGNS = tuple("=+-@\t\r")
"""First characters of a formula in a spreadsheet."""


class Number(str):
    """A number as text, perhaps with an interval; its sign does not make it a formula."""


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Formats rows as CSV; a leading `'` quotes texts that spreadsheets would read as formulas."""
    return write_csv((map(quote_formula, row) for row in rows), delimiter)


def write_csv(rows: Iterable[Iterable[object]], delimiter: str, *, quote_all: bool = False) -> str:
    """Formats rows as CSV; quotes all cells if one has a bare CR, which would end a line."""
    cells, buffer = list(map(list, rows)), io.StringIO()
    rule: Literal[0, 1] = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n", quoting=rule).writerows(cells)
    text = buffer.getvalue()
    return text if quote_all or "\r" not in text else write_csv(cells, delimiter, quote_all=True)


def quote_formulas(cells: Sequence[object]) -> list[object]:
    """Returns the cells of a column of texts as `quote_formula` does; most columns have none."""
    are_plain = {str(cell)[:1] for cell in cells}.isdisjoint(FORMULA_SIGNS)
    return [*(cells if are_plain else map(quote_formula, cells))]


def quote_formula(cell: object) -> object:
    """Returns the cell; prepends `'` to a text that a spreadsheet would read as a formula."""
    if not isinstance(cell, str) or isinstance(cell, Number) or not cell.startswith(FORMULA_SIGNS):
        return cell
    return cell if cell == "-" or _is_number(cell) else f"'{cell}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
