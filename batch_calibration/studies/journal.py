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
from types import MappingProxyType
from typing import BinaryIO, Self

import numpy as np
from safetensors import SafetensorError

from batch_calibration.files import process_name, read_as, remove, retry
from batch_calibration.scores import canonical, seal, unseal

SYNC = 5.0
"""Seconds of work that a computer may lose that loses power; a killed process loses none."""
NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True)
class BlockPlan:
    """A block whose rows are scored with others': its name, its spec's digest, how many rows."""

    block: str
    spec: str
    size: int


@dataclass(frozen=True)
class _Header:
    """The header of a record: how many rows its numbers are of, and which rows failed."""

    parts: tuple[BlockPlan, ...]
    failed: Mapping[str, str]


class Journal:
    """The finished rows of some blocks of a context, numbered through all blocks.

    Attributes:
        rows: the scores of each row that this or an earlier worker finished.
        failed: a sentence on each that could not be read.

    Args:
        folder: where the journals of the context lie.
        blocks: what is scored, in order.
    """

    def __init__(self, folder: Path, blocks: Sequence[BlockPlan]):
        self._folder, self._blocks = folder, tuple(blocks)
        self._file: BinaryIO | None = None
        self._synced = time.monotonic()
        self.rows, self.failed = dict[int, np.ndarray](), dict[int, str]()
        starts, start = dict[BlockPlan, int](), 0
        for block in blocks:
            starts[block] = start  # number of its first row
            start += block.size
        for path in sorted(folder.glob("*.batches")):
            for header, rows, scores in _records(path):
                # An earlier worker may have scored other blocks, and numbered its rows otherwise.
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
        """Keep a finished batch: the scores of its rows, and what could not be read.

        Raises:
            OSError: it cannot be written.
        """
        header = _Header(self._blocks, {str(row): reason for row, reason in failed.items()})
        arrays = {"rows": np.asarray(rows, np.int64), "values": np.ascontiguousarray(scores)}
        record = seal(arrays, canonical(asdict(header)))
        if self._file is None:
            retry(lambda: self._folder.mkdir(parents=True, exist_ok=True))
            path = self._folder / f"{process_name()}-{secrets.token_hex(4)}.batches"
            # Unbuffered: what is written survives this process.
            self._file = retry(lambda: path.open("wb", buffering=0))
        file, start = self._file, self._file.tell()

        def write() -> None:
            file.seek(start)  # what an attempt wrote before it failed is written over
            unwritten = memoryview(len(record).to_bytes(8, "little") + record)
            while unwritten:  # a disk that is nearly full takes a part first
                unwritten = unwritten[file.write(unwritten) :]

        retry(write)
        # A sync of each batch would take longer than the batch.
        if time.monotonic() - self._synced > SYNC:
            retry(lambda: os.fsync(file.fileno()))
            self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def remove_stored(folder: Path, stored: Collection[BlockPlan]) -> None:
    """Remove the journals of a context whose blocks are all stored in its table."""
    for path in folder.glob("*.batches"):
        if all(set(header.parts) <= set(stored) for header, _, _ in _records(path)):
            remove(path)
    with suppress(OSError):  # others lie in it still
        folder.rmdir()


def _renumber(blocks: Sequence[BlockPlan], starts: Mapping[BlockPlan, int]) -> dict[int, int]:
    """Number of each row in its own list of blocks -> where blocks begin at `starts`."""
    numbers, start = dict[int, int](), 0
    for block in blocks:
        if block in starts:
            numbers |= {start + row: starts[block] + row for row in range(block.size)}
        start += block.size
    return numbers


def _records(path: Path) -> Iterator[tuple[_Header, np.ndarray, np.ndarray]]:
    """Every record up to the first that is not whole."""
    unreadable = suppress(OSError, SafetensorError, KeyError, ValueError)
    with unreadable, retry(lambda: path.open("rb")) as file:
        while size := file.read(8):  # bytes of the record that follows
            record = file.read(int.from_bytes(size, "little"))
            # The end of a killed worker's file, or a damaged one: what follows has no beginning.
            if hashlib.sha256(record[:-32]).digest() != record[-32:]:
                return
            arrays, header = unseal(record)
            yield read_as(_Header, header, "header"), arrays["rows"], arrays["values"]
