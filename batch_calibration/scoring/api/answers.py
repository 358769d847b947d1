"""The answers of a server, kept on disk as they come: nothing is asked twice."""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.files import Json, parse_json
from batch_calibration.scores import canonical


class Request(NamedTuple):
    """One request.

    Attributes:
        path: behind the server's address, such as "completions".
        body: what is sent.
    """

    path: str
    body: dict[str, Json]


class Answers:
    """A file of answers, each under the hash of the server's address and what was asked.

    Every answer is a transaction of its own: a run that is killed loses at most the last, a
    computer that loses power a few. Several runs may share the file.

    >>> with Answers(None).opened() as answers:
    ...     answers.keep("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}), "{}")
    ...     answers.get("http://127.0.0.1/v1", Request("completions", {"prompt": "a"}))
    {}

    Args:
        path: the file, made where there is none; None keeps the answers in memory.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self._rows: sqlite3.Connection | None = None

    @contextmanager
    def opened(self) -> Iterator["Answers"]:
        """The answers, open for reading and writing.

        Raises:
            InputError: the file is damaged, or cannot be read or written.
        """
        try:
            self._rows = self._rows or self._connect()  # answers in memory are still open
            yield self
        except sqlite3.Error as error:
            raise InputError(
                where=self.path,
                expected="the answers of earlier runs, which cannot be read or written "
                f"({error}); make room, or move the file away",
                remedy="all is then asked again",
            ) from error
        finally:
            # Answers in memory are lost with their connection, which stays open.
            if self.path and self._rows:
                self._rows.close()
                self._rows = None

    def get(self, server: str, request: Request) -> Json:
        """The answer to a request, None where there is none."""
        query = "SELECT answer FROM answers WHERE asked = ?"
        row = self._open_rows.execute(query, (_hash(server, request),)).fetchone()
        return parse_json(zlib.decompress(row[0]).decode()) if row else None

    def keep(self, server: str, request: Request, answer: str) -> None:
        """Keep the text of an answer."""
        row = (_hash(server, request), zlib.compress(answer.encode()))
        with self._open_rows as transaction:
            # Another run may have asked the same.
            transaction.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)

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
        rows.execute("CREATE TABLE IF NOT EXISTS answers (asked BLOB PRIMARY KEY, answer BLOB)")
        return rows


def _hash(server: str, request: Request) -> bytes:
    # Canonical: the order of keys does not matter.
    return hashlib.sha256(canonical([server, request.path, request.body]).encode()).digest()
