"""Stores a server's answers on disk as they arrive, so that no request is sent twice."""

import hashlib
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.files import Json, ended, parse_json, process_name
from batch_calibration.scores import canonical

CHECKED = b"\1"
"""The first byte of an answer with a checksum before it; older versions wrote no checksum."""
STOPPED = ""  # the process of a request that was in progress when its process stopped
CHECKSUM_BYTES = 16  # bytes of a checksum, the first of SHA-256's


class Request(NamedTuple):
    """One request."""

    path: str  # relative to the server's address, such as "completions"
    body: dict[str, Json]  # the JSON to send


class Brought(NamedTuple):
    """An answer to a request that somebody else sent, or the reason for a final refusal."""

    id: bytes  # the id of the request, from `request_id`
    answer: str = ""  # the JSON of the answer
    reason: str = ""


class Answers:
    """A file of answers, each under the hash of the server's address and the request.

    Each answer is a separate transaction. A killed run loses at most the last answer; a power
    failure may lose a few. Several runs may share the file. It lists the requests in progress, so
    that no two runs send the same request. A server may have charged for requests of a killed run
    that have no stored answer. The file also stores refusals.

    >>> with Answers(None).opened() as answers:
    ...     answers.keep("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}), "{}")
    ...     answers.get("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}))
    {}

    Args:
        path: the file, created if it is missing; None keeps the answers in memory.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self.damaged: set[bytes] = set()  # hashes of requests with unreadable answers
        self._rows: sqlite3.Connection | None = None
        self._is_open = False

    @contextmanager
    def opened(self) -> Iterator["Answers"]:
        """Opens the answers for reading and writing."""
        if self._is_open:  # by a caller, who closes it
            yield self
            return
        try:
            self._rows = self._rows or self._connect()  # Answers in memory stay open.
            self._is_open = True
            yield self
        except sqlite3.Error as error:
            remedy = "make room, or move the file away, and all is asked again"
            raise InputError.at(self.path, "answers to read and write", error, remedy) from error
        finally:
            self._is_open = False
            if self._rows:
                with suppress(sqlite3.Error), self._rows as transaction:
                    transaction.rollback()
                    query = "UPDATE started SET process = ? WHERE process = ?"
                    transaction.execute(query, (STOPPED, process_name()))
            # Closing the connection would lose answers in memory.
            if self.path and self._rows:
                self._rows.close()
                self._rows = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the file: other runs that share it wait before they write."""
        with self.opened(), self._open_rows as transaction:
            transaction.execute("BEGIN IMMEDIATE")
            yield

    def get(self, server: str, request: Request) -> Json:
        """Returns the answer to a request; None without an answer, or if it is damaged."""
        request_hash = request_id(server, request)
        query = "SELECT answer FROM answers WHERE asked = ?"
        row = self._open_rows.execute(query, (request_hash,)).fetchone()
        try:
            return parse_json(_unpack(request_hash, row[0])) if row else None
        except (ValueError, TypeError, zlib.error):
            self.damaged.add(request_hash)
            return None

    def start(self, server: str, request: Request) -> bool:
        """Marks a request as in progress; returns False if it is in progress already."""
        request_hash = request_id(server, request)
        with self._open_rows as transaction:
            # The lock comes before the read, because two runs may read at the same time.
            transaction.execute("BEGIN IMMEDIATE")
            query = "SELECT process FROM started WHERE asked = ?"
            row = transaction.execute(query, (request_hash,)).fetchone()
            if row and row[0] != STOPPED and not ended(row[0]):
                return False
            query = "INSERT OR REPLACE INTO started VALUES (?, ?)"
            transaction.execute(query, (request_hash, process_name()))
        return True

    def keep(self, server: str, request: Request, answer: str) -> None:
        """Stores the text of an answer."""
        request_hash = request_id(server, request)
        with self._open_rows as transaction:
            # Another run may have stored an answer to the same request.
            row = (request_hash, _pack(request_hash, answer))
            transaction.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)
            transaction.execute("DELETE FROM started WHERE asked = ?", (request_hash,))

    def refusal(self, server: str, request: Request) -> str | None:
        """Returns the reason for a final refusal of a request, or None."""
        query = "SELECT reason FROM refused WHERE asked = ?"
        row = self._open_rows.execute(query, (request_id(server, request),)).fetchone()
        return str(row[0]) if row else None

    def refuse(self, server: str, request: Request, reason: str) -> None:
        """Stores the reason for a refusal, so that the request is not sent again."""
        with self._open_rows as transaction:
            row = (request_id(server, request), reason)
            transaction.execute("INSERT OR REPLACE INTO refused VALUES (?, ?)", row)
            transaction.execute("DELETE FROM started WHERE asked = ?", row[:1])

    def ask_again(self, server: str, request: Request) -> None:
        """Deletes a refusal."""
        with self._open_rows as transaction:
            row = (request_id(server, request),)
            transaction.execute("DELETE FROM refused WHERE asked = ?", row)

    def give_up(self, server: str, request: Request) -> None:
        """Marks a request as no longer in progress, because it failed."""
        with self._open_rows as transaction:
            row = (request_id(server, request),)
            transaction.execute("DELETE FROM started WHERE asked = ?", row)

    @contextmanager
    def planned(self) -> Iterator[None]:
        """Opens a new list of expected requests, which replaces the old one if no error is raised.

        The new list is a temporary table, so that other runs can store answers meanwhile.
        """
        with self.opened():
            query = "CREATE TEMP TABLE planned (asked BLOB PRIMARY KEY) WITHOUT ROWID"
            self._open_rows.execute(query)
            yield
            with self._open_rows as transaction:
                transaction.execute("DELETE FROM expected")
                transaction.execute("INSERT INTO expected SELECT asked FROM planned")
            self._open_rows.execute("DROP TABLE planned")

    def expect(self, ids: Iterable[bytes]) -> list[bool]:
        """Adds ids to the new list; returns whether each of them is new. Needs `planned`."""
        query = "INSERT OR IGNORE INTO planned VALUES (?)"
        with self._open_rows as transaction:
            return [transaction.execute(query, (request,)).rowcount > 0 for request in ids]

    def keep_brought(self, brought: Iterable[Brought]) -> Counter[str]:
        """Stores answers and refusals in one transaction; the order of the answers is irrelevant.

        Of two different answers to one request the longer one is stored, or else the last one by
        alphabet: a useless answer is short.

        Returns:
            The number of answers that are new, repeated, different from a stored one, refused, and
            unknown because no expected request has their id.
        """
        counts = Counter[str]()
        with self._open_rows as transaction:
            for request, answer, reason in brought:
                query = "SELECT 1 FROM expected WHERE asked = ?"
                if not transaction.execute(query, (request,)).fetchone():
                    counts["unknown"] += 1
                    continue
                query = "SELECT answer FROM answers WHERE asked = ?"
                row = transaction.execute(query, (request,)).fetchone()
                if reason:
                    counts["refused"] += 1
                    query = "INSERT OR IGNORE INTO refused VALUES (?, ?)"
                    if not row:
                        transaction.execute(query, (request, reason))
                    continue
                earlier = ""
                with suppress(ValueError, TypeError, zlib.error):  # a damaged one is replaced
                    earlier = _unpack(request, row[0]) if row else ""
                kind = "repeated" if earlier == answer else "different" if earlier else "new"
                counts[kind] += 1
                if (len(answer), answer) > (len(earlier), earlier):
                    query = "INSERT OR REPLACE INTO answers VALUES (?, ?)"
                    transaction.execute(query, (request, _pack(request, answer)))
                transaction.execute("DELETE FROM refused WHERE asked = ?", (request,))
        return counts

    def count_expected(self) -> tuple[int, int, int]:
        """Counts the expected requests: those with an answer, the refused ones, and all."""
        counts, answered_ids = list[int](), "SELECT asked FROM answers"
        # A useless answer of a server is stored as an answer and as a refusal.
        refused_ids = f"SELECT asked FROM refused EXCEPT {answered_ids}"
        for test in (f"IN ({answered_ids})", f"IN ({refused_ids})", "NOT NULL"):
            query = f"SELECT count(*) FROM expected WHERE asked {test}"
            counts.append(self._open_rows.execute(query).fetchone()[0])
        answered, refused, total = counts
        return answered, refused, total

    def forget_refusals(self) -> None:
        """Deletes all refusals, so that the requests are sent again."""
        with self._open_rows as transaction:
            transaction.execute("DELETE FROM refused")

    def count_interrupted(self) -> int:
        """Counts the requests without an answer that were in progress when their run stopped."""
        query = "SELECT process FROM started WHERE asked NOT IN (SELECT asked FROM answers)"
        processes = self._open_rows.execute(query).fetchall()
        return sum(name == STOPPED or ended(name) for (name,) in processes)

    @property
    def _open_rows(self) -> sqlite3.Connection:
        assert self._rows is not None, "only inside `with answers.opened():`"
        return self._rows

    def _connect(self) -> sqlite3.Connection:
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # The timeout allows for other runs that write. A notebook uses another thread.
        rows = sqlite3.connect(self.path or ":memory:", timeout=60, check_same_thread=False)
        # These settings do not wait for the disk at each answer; a killed process loses no answer.
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=NORMAL")
        # A replaced answer may hold a key, so its bytes are overwritten.
        rows.execute("PRAGMA secure_delete=ON")
        rows.execute("CREATE TABLE IF NOT EXISTS answers (asked BLOB PRIMARY KEY, answer BLOB)")
        rows.execute("CREATE TABLE IF NOT EXISTS started (asked BLOB PRIMARY KEY, process TEXT)")
        rows.execute("CREATE TABLE IF NOT EXISTS refused (asked BLOB PRIMARY KEY, reason TEXT)")
        # The requests of the last plan; answers from files to other requests are not stored.
        rows.execute("CREATE TABLE IF NOT EXISTS expected (asked BLOB PRIMARY KEY) WITHOUT ROWID")
        return rows


def request_id(server: str, request: Request) -> bytes:
    """Hashes the address of a server and a request to 32 bytes, its id in files of requests."""
    # The canonical form makes the order of keys irrelevant.
    return hashlib.sha256(canonical([server, request.path, request.body]).encode()).digest()


def _pack(request_hash: bytes, answer: str) -> bytes:
    """Packs an answer: compressed, with a checksum of the answer and its request."""
    compressed = zlib.compress(answer.encode())
    return CHECKED + _checksum(request_hash, compressed) + compressed


def _unpack(request_hash: bytes, stored: bytes) -> str:
    """Reads an answer that `_pack` wrote.

    Raises:
        ValueError, TypeError, zlib.error: the answer is damaged.
    """
    if not isinstance(stored, bytes):  # A damaged row may hold any type.
        raise TypeError("no bytes")
    if stored.startswith(CHECKED):
        checksum, stored = stored[1 : 1 + CHECKSUM_BYTES], stored[1 + CHECKSUM_BYTES :]
        if checksum != _checksum(request_hash, stored):
            raise ValueError("another checksum")
    return zlib.decompress(stored).decode()


def _checksum(request_hash: bytes, compressed: bytes) -> bytes:
    return hashlib.sha256(request_hash + compressed).digest()[:CHECKSUM_BYTES]
