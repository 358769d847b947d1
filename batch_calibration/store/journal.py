"""Keeps finished batches of a context's rows until its table is written: a stop loses one batch.

Every worker adds to a file of its own, so none needs a lock. A record is whole or, at the end of a
killed worker's file, ignored.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO, Self

import numpy as np
from safetensors import SafetensorError

from batch_calibration.files import WrongJson, process_name, read_as
from batch_calibration.scores import canonical, sealed, unsealed

SYNC = 5.0
"""Seconds of work that a computer may lose that loses power; a killed process loses none."""
NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True)
class Part:
    """Rows that are scored together with others: a block, the digest of its spec, its size."""

    block: str
    spec: str
    size: int


@dataclass(frozen=True)
class _Header:
    """What a record says beside its arrays: of which rows its numbers count, and which failed."""

    parts: tuple[Part, ...]
    failed: Mapping[str, str]


class Journal:
    """The finished rows of some parts of a context, numbered through all parts.

    Attributes:
        rows: the values of each row that this or an earlier worker finished.
        failed: a sentence on each that could not be read.

    Args:
        folder: where the journals of the context lie.
        parts: what is scored, in order.
    """

    def __init__(self, folder: Path, parts: Sequence[Part]):
        self._folder, self._parts = folder, tuple(parts)
        self._file: BinaryIO | None = None
        self._synced = time.monotonic()
        self.rows, self.failed = dict[int, np.ndarray](), dict[int, str]()
        places, start = dict[Part, int](), 0
        for part in parts:
            places[part] = start
            start += part.size
        for path in sorted(folder.glob("*.batches")):
            for header, rows, values in _records(path):
                place = _places(header.parts, places)
                numbered = zip(rows.tolist(), values, strict=True)
                self.rows |= {place[row]: value for row, value in numbered if row in place}
                said = {int(row): why for row, why in header.failed.items()}
                self.failed |= {place[row]: why for row, why in said.items() if row in place}

    def add(
        self, rows: Sequence[int], values: np.ndarray, failed: Mapping[int, str] = NONE
    ) -> None:
        """Keep a finished batch: the values of its rows, and what could not be read.

        Raises:
            OSError: it cannot be written.
        """
        header = _Header(self._parts, {str(row): why for row, why in failed.items()})
        arrays = {"rows": np.asarray(rows, np.int64), "values": np.ascontiguousarray(values)}
        record = sealed(arrays, canonical(asdict(header)))
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{process_name()}-{secrets.token_hex(4)}.batches"
            self._file = (self._folder / name).open("xb", buffering=0)
        left = memoryview(len(record).to_bytes(8, "little") + record)
        while left:  # a disk that is nearly full takes a part first
            left = left[self._file.write(left) :]
        if time.monotonic() - self._synced > SYNC:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._file:
            self._file.close()


def forget(folder: Path, stored: Collection[Part]) -> None:
    """Remove the journals of a context whose parts are all stored in its table."""
    for path in folder.glob("*.batches"):
        if all(set(header.parts) <= set(stored) for header, _, _ in _records(path)):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _places(parts: Sequence[Part], wanted: Mapping[Part, int]) -> dict[int, int]:
    """The number that each row of some parts has among those wanted."""
    found, start = dict[int, int](), 0
    for part in parts:
        if part in wanted:
            found |= {start + row: wanted[part] + row for row in range(part.size)}
        start += part.size
    return found


def _records(path: Path) -> Iterator[tuple[_Header, np.ndarray, np.ndarray]]:
    """Every record up to the first that is not whole."""
    with suppress(OSError, SafetensorError, KeyError, ValueError, WrongJson), path.open("rb") as f:
        while size := f.read(8):
            record = f.read(int.from_bytes(size, "little"))
            if hashlib.sha256(record[:-32]).digest() != record[-32:]:
                return
            arrays, header = unsealed(record)
            yield read_as(_Header, header, "header"), arrays["rows"], arrays["values"]
