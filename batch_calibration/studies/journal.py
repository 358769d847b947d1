"""Keeps the finished batches of a context until its table is written: a stop loses one batch.

Each worker appends to its own file, so no worker needs a lock. The last record in a killed worker's
file may be incomplete; readers ignore it.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self

import numpy as np
from safetensors import SafetensorError

from batch_calibration.files import process_name, read_as, remove, retry
from batch_calibration.scores import canonical, seal, unseal

SYNC = 5.0
"""Seconds of work that a power failure may lose; a killed process loses no finished batch."""
NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True)
class BlockPlan:
    """A block that is scored together with others: name, digest of the spec, number of rows."""

    block: str
    spec: str
    size: int


@dataclass(frozen=True)
class _Header:
    """The header of a record: the blocks that its row numbers refer to, and the failed rows."""

    parts: tuple[BlockPlan, ...]
    failed: Mapping[str, str]


class Journal:
    """The finished rows of some blocks of a context; row numbers continue from block to block.

    Attributes:
        rows: number of a row -> its scores, from this worker or an earlier one.
        failed: number of a row -> the reason why it cannot be read.

    Args:
        folder: the folder of the context's journals.
        blocks: the blocks to score, in order.
    """

    def __init__(self, folder: Path, blocks: Sequence[BlockPlan]):
        self._folder, self._blocks = folder, tuple(blocks)
        self._file: BinaryIO | None = None
        self._synced = time.monotonic()
        self.rows, self.failed = dict[int, np.ndarray](), dict[int, str]()
        starts, start = dict[BlockPlan, int](), 0
        for block in blocks:
            starts[block] = start  # number of the block's first row
            start += block.size
        for path in sorted(folder.glob("*.batches")):
            for header, rows, scores in _records(path):
                # An earlier worker may have scored other blocks and thus used other row numbers.
                numbers = _renumber(header.parts, starts)
                for row, row_scores in zip(rows.tolist(), scores, strict=True):
                    if row in numbers:
                        self.rows[numbers[row]] = row_scores
                for name, reason in header.failed.items():
                    if int(name) in numbers:
                        self.failed[numbers[int(name)]] = reason

    def add(
        self, rows: Sequence[int], scores: np.ndarray, failed: Mapping[int, str] = NONE
    ) -> None:
        """Appends a finished batch: the scores of its rows and the reasons of failed rows.

        Raises:
            OSError: the batch cannot be written.
        """
        header = _Header(self._blocks, {str(row): reason for row, reason in failed.items()})
        arrays = {"rows": np.asarray(rows, np.int64), "values": np.ascontiguousarray(scores)}
        record = seal(arrays, canonical(asdict(header)))
        if self._file is None:
            retry(lambda: self._folder.mkdir(parents=True, exist_ok=True))
            path = self._folder / f"{process_name()}-{secrets.token_hex(4)}.batches"
            # Unbuffered, so that written batches survive a killed process.
            self._file = retry(lambda: path.open("wb", buffering=0))
        file, start = self._file, self._file.tell()

        def write() -> None:
            file.seek(start)  # overwrites a failed attempt
            unwritten = memoryview(len(record).to_bytes(8, "little") + record)
            while unwritten:  # A nearly full disk may accept only a part.
                unwritten = unwritten[file.write(unwritten) :]

        retry(write)
        # A sync after each batch would take longer than scoring it.
        if time.monotonic() - self._synced > SYNC:
            retry(lambda: os.fsync(file.fileno()))
            self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def remove_stored(folder: Path, stored: Collection[BlockPlan]) -> None:
    """Removes the journals of a context if its table holds all their blocks."""
    for path in folder.glob("*.batches"):
        if all(set(header.parts) <= set(stored) for header, _, _ in _records(path)):
            remove(path)
    with suppress(OSError):  # The folder may hold other journals.
        folder.rmdir()


def _renumber(blocks: Sequence[BlockPlan], starts: Mapping[BlockPlan, int]) -> dict[int, int]:
    """Maps row numbers in a list of blocks to row numbers with these blocks at `starts`."""
    numbers, start = dict[int, int](), 0
    for block in blocks:
        if block in starts:
            numbers |= {start + row: starts[block] + row for row in range(block.size)}
        start += block.size
    return numbers


def _records(path: Path) -> Iterator[tuple[_Header, np.ndarray, np.ndarray]]:
    """Yields each record up to the first incomplete one."""
    unreadable = suppress(OSError, SafetensorError, KeyError, ValueError)
    with unreadable, retry(lambda: path.open("rb")) as file:
        while size := file.read(8):  # size of the next record in bytes
            record = file.read(int.from_bytes(size, "little"))
            # After an incomplete or damaged record, the next record cannot be found.
            if hashlib.sha256(record[:-32]).digest() != record[-32:]:
                return
            arrays, header = unseal(record)
            yield read_as(_Header, header, "header"), arrays["rows"], arrays["values"]
