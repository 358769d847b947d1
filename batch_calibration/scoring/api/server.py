"""The server that is asked."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scoring.api.keys import key_of

LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2",
           "httpcore2.proxy", "httpcore2.socks")  # fmt: skip
"""The HTTP library's loggers, whose records hold headers and reasons of a server."""


class Server(NamedTuple):
    """Where requests go, and with which key."""

    address: str  # such as "http://127.0.0.1:8000/v1"
    key_variable: str = "API_KEY"  # the environment variable that holds the key
    key: str = ""  # its value, "" for none

    def __repr__(self) -> str:
        return f"Server({self.address!r})"  # without the key

    @classmethod
    def from_environment(cls, address: str, key_variable: str) -> "Server":
        """A server whose key the environment holds.

        Raises:
            InputError: no address of http or https, one that holds a key, a key that no header
                can hold.
        """
        parsed = urlsplit(address) if address.isprintable() and " " not in address else urlsplit("")
        try:
            is_address = parsed.scheme in ("http", "https") and bool(parsed.hostname)
            is_address = is_address and parsed.port != 0
        except ValueError:  # a port that is no number
            is_address = False
        # Before the other check, whose sentence repeats the address and with it a password.
        if parsed.username is not None or parsed.password is not None or parsed.query:
            raise InputError(
                where="config.server",
                expected="an address without a user, a password or a query",
                got=f"one for {parsed.hostname}",
                remedy=f"put a key into the environment variable {key_variable}",
            )
        if not is_address:
            raise InputError(
                where="config.server",
                expected="an address such as http://127.0.0.1:8000/v1",
                got=repr(address),
            )
        key = os.environ.get(key_variable, "").strip() if key_variable else ""
        if not (key.isascii() and key.isprintable()):
            raise InputError(
                where=f"the environment variable {key_variable}",
                expected="a key of printable ASCII letters",
                got="others",
                remedy="set it again",
            )
        return cls(address.rstrip("/"), key_variable, key)

    def without_key(self, text: str) -> str:
        """A text from the server, without the key in any writing."""
        return key_of(self.key).hide(text)

    def hide_key(self, document: Json) -> Json:
        """A JSON value from the server, without the key in any writing."""
        return key_of(self.key).hide_in(document)

    @contextmanager
    def logs_without_key(self) -> Iterator[None]:
        """While it is open, the HTTP library's log records hold no key that a server repeats."""

        def hide(record: logging.LogRecord) -> bool:
            message = record.getMessage()
            if self.without_key(message) != message:
                record.msg, record.args = self.without_key(message), ()
            return True

        loggers = list(map(logging.getLogger, LOGGERS))
        for logger in loggers:
            logger.addFilter(hide)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(hide)
