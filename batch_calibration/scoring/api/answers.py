"""The answers of a server, kept on disk as they come: nothing is asked twice."""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.files import Json, ended, parse_json, process_name
from batch_calibration.scores import canonical

CHECKED = b"\1"
"""The first byte of an answer with a checksum before it; older versions wrote none."""
STOPPED = ""  # what stands for the process of a request that no process has under way any more
CHECKSUM_BYTES = 16  # bytes of a checksum, the first of SHA-256's


class Request(NamedTuple):
    """One request."""

    path: str  # behind the server's address, such as "completions"
    body: dict[str, Json]  # what is sent


class Answers:
    """A file of answers, each under the hash of the server's address and what was asked.

    Every answer is a transaction of its own: a run that is killed loses at most the last, a
    computer that loses power a few. Several runs may share the file, which knows what they have
    under way: no two ask the same, and a server may have charged for what a killed run asked and
    did not hear. A refusal is kept as an answer is.

    >>> with Answers(None).opened() as answers:
    ...     answers.keep("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}), "{}")
    ...     answers.get("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}))
    {}

    Args:
        path: the file, made where there is none; None keeps the answers in memory.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self.damaged: set[bytes] = set()  # what was asked of answers that cannot be read
        self._rows: sqlite3.Connection | None = None

    @contextmanager
    def opened(self) -> Iterator["Answers"]:
        """The answers, open for reading and writing."""
        try:
            self._rows = self._rows or self._connect()  # answers in memory are still open
            yield self
        except sqlite3.Error as error:
            expected = "the answers of earlier runs, which cannot be read or written "
            expected += f"({error}); make room, or move the file away"
            raise InputError.at(self.path, expected, remedy="all is then asked again") from error
        finally:
            if self._rows:
                with suppress(sqlite3.Error), self._rows as transaction:  # said above
                    transaction.rollback()
                    query = "UPDATE started SET process = ? WHERE process = ?"
                    transaction.execute(query, (STOPPED, process_name()))
            # Answers in memory are lost with their connection, which stays open.
            if self.path and self._rows:
                self._rows.close()
                self._rows = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While it is open, other runs that share the file wait before they write."""
        with self.opened(), self._open_rows as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            yield

    def get(self, server: str, request: Request) -> Json:
        """The answer to a request, None where there is none, or a damaged one."""
        request_hash = _hash(server, request)
        query = "SELECT answer FROM answers WHERE asked = ?"
        row = self._open_rows.execute(query, (request_hash,)).fetchone()
        try:
            return parse_json(_unpack(request_hash, row[0])) if row else None
        except (ValueError, TypeError, zlib.error):
            self.damaged.add(request_hash)
            return None

    def start(self, server: str, request: Request) -> bool:
        """Keep that a request is under way; False where it is so already, here or elsewhere."""
        request_hash = _hash(server, request)
        with self._open_rows as transaction:
            # Locked before it is read: two runs may look at the same time.
            transaction.execute("BEGIN IMMEDIATE")
            query = "SELECT process FROM started WHERE asked = ?"
            row = transaction.execute(query, (request_hash,)).fetchone()
            if row and row[0] != STOPPED and not ended(row[0]):
                return False
            query = "INSERT OR REPLACE INTO started VALUES (?, ?)"
            transaction.execute(query, (request_hash, process_name()))
        return True

    def keep(self, server: str, request: Request, answer: str) -> None:
        """Keep the text of an answer."""
        request_hash = _hash(server, request)
        with self._open_rows as transaction:
            # Another run may have asked the same.
            row = (request_hash, _pack(request_hash, answer))
            transaction.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)
            transaction.execute("DELETE FROM started WHERE asked = ?", (request_hash,))

    def refusal(self, server: str, request: Request) -> str | None:
        """Why a request has no answer for good, None where it may have one."""
        query = "SELECT reason FROM refused WHERE asked = ?"
        row = self._open_rows.execute(query, (_hash(server, request),)).fetchone()
        return str(row[0]) if row else None

    def refuse(self, server: str, request: Request, reason: str) -> None:
        """Keep why a request has no answer, so that it is not asked again."""
        with self._open_rows as transaction:
            row = (_hash(server, request), reason)
            transaction.execute("INSERT OR REPLACE INTO refused VALUES (?, ?)", row)
            transaction.execute("DELETE FROM started WHERE asked = ?", row[:1])

    def ask_again(self, server: str, request: Request) -> None:
        """Forget a refusal."""
        with self._open_rows as transaction:
            transaction.execute("DELETE FROM refused WHERE asked = ?", (_hash(server, request),))

    def give_up(self, server: str, request: Request) -> None:
        """Keep that a request is not under way: it failed."""
        with self._open_rows as transaction:
            transaction.execute("DELETE FROM started WHERE asked = ?", (_hash(server, request),))

    def count_interrupted(self) -> int:
        """Requests that a run had under way when it was stopped, and that have no answer yet."""
        query = "SELECT process FROM started WHERE asked NOT IN (SELECT asked FROM answers)"
        processes = self._open_rows.execute(query).fetchall()
        return sum(name == STOPPED or ended(name) for (name,) in processes)

    @property
    def _open_rows(self) -> sqlite3.Connection:
        assert self._rows is not None, "inside `with answers.opened():` alone"
        return self._rows

    def _connect(self) -> sqlite3.Connection:
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # 60 seconds, for other runs may be writing; a notebook asks from a thread of its own.
        rows = sqlite3.connect(self.path or ":memory:", timeout=60, check_same_thread=False)
        # Without waiting for the disk at each answer: a process that is killed loses none of them.
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=NORMAL")
        # What an answer that is replaced held, a key perhaps, is overwritten.
        rows.execute("PRAGMA secure_delete=ON")
        rows.execute("CREATE TABLE IF NOT EXISTS answers (asked BLOB PRIMARY KEY, answer BLOB)")
        rows.execute("CREATE TABLE IF NOT EXISTS started (asked BLOB PRIMARY KEY, process TEXT)")
        rows.execute("CREATE TABLE IF NOT EXISTS refused (asked BLOB PRIMARY KEY, reason TEXT)")
        return rows


def _hash(server: str, request: Request) -> bytes:
    # Canonical: the order of keys does not matter.
    return hashlib.sha256(canonical([server, request.path, request.body]).encode()).digest()


def _pack(request_hash: bytes, answer: str) -> bytes:
    """An answer as it is kept, with a checksum of it and of what was asked."""
    compressed = zlib.compress(answer.encode())
    return CHECKED + _checksum(request_hash, compressed) + compressed


def _unpack(request_hash: bytes, stored: bytes) -> str:
    """The answer in what `_pack` gave.

    Raises:
        ValueError, TypeError, zlib.error: it is damaged.
    """
    if not isinstance(stored, bytes):  # a damaged row may hold anything
        raise TypeError("no bytes")
    if stored.startswith(CHECKED):
        checksum, stored = stored[1 : 1 + CHECKSUM_BYTES], stored[1 + CHECKSUM_BYTES :]
        if checksum != _checksum(request_hash, stored):
            raise ValueError("another checksum")
    return zlib.decompress(stored).decode()


def _checksum(request_hash: bytes, compressed: bytes) -> bytes:
    return hashlib.sha256(request_hash + compressed).digest()[:CHECKSUM_BYTES]
