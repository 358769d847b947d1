"""The server to ask, and its key, which is removed from all text of the server."""

import base64
import html
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from batch_calibration.errors import InputError
from batch_calibration.files import Json

CORE_LOGGERS = ("connection", "http11", "http2", "proxy", "socks")
LOGGERS = ("httpx2", *map("httpcore2.{}".format, CORE_LOGGERS))
"""The HTTP library's loggers; their records hold headers and reasons of a server."""
SHORTEST_KEY = 8
"""Minimum letters of a key. A shorter value is a placeholder, such as EMPTY, and may be a word of
an answer."""
SHORTEST_SECRET = 16
"""Minimum letters and digits of a key that is also searched for across signs and texts. A shorter
key, such as not-needed, may be words of an answer."""
FIRST_LETTERS = 16
"""First letters of a key that identify it: debug pages print only these."""
DECODINGS = 3  # maximum rounds of undoing nested escapes
HIDDEN = "..."  # replaces the key

# Escapes of JSON, Python and C: \u0073, \u{73}, \x73, \163, \/
_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{1,6})\}?|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.DOTALL)
_NO_LETTERS = re.compile(r"[^0-9A-Za-z]+")
_NO_BASE64 = re.compile(r"[^0-9A-Za-z+/]+")
_NO_HEX = re.compile(r"0x|[^0-9a-f]+")
_NO_BASE32 = re.compile(r"[^A-Z2-7]+")
_NO_DIGITS = re.compile(r"\D+")


class Server(NamedTuple):
    """The address of a server and its key."""

    address: str  # such as "http://127.0.0.1:8000/v1"
    key_variable: str = "API_KEY"  # the environment variable that holds the key
    key: str = ""  # the key, or "" without one

    def __repr__(self) -> str:
        return f"Server({self.address!r})"  # The key must not be printed.

    @classmethod
    def from_environment(cls, address: str, key_variable: str) -> "Server":
        """Makes a server with the key from an environment variable."""
        parsed = urlsplit(address) if address.isprintable() and " " not in address else urlsplit("")
        try:
            is_address = parsed.scheme in ("http", "https") and bool(parsed.hostname)
            is_address = is_address and parsed.port != 0
        except ValueError:  # The port is not a number.
            is_address = False
        # The next check repeats the address in its message, so passwords are refused first.
        if parsed.username is not None or parsed.password is not None or parsed.query:
            expected = "an address without a user, a password or a query"
            remedy = f"put a key into the environment variable {key_variable}"
            raise InputError.at("", expected, f"one for {parsed.hostname}", remedy, "server")
        if not is_address:
            expected = "an address like http://127.0.0.1:8000/v1"
            raise InputError(key="server", expected=expected, got=repr(address))
        key = os.environ.get(key_variable, "").strip() if key_variable else ""
        if not (key.isascii() and key.isprintable()):
            where = f"environment variable {key_variable}"
            raise InputError.at(where, "a key of printable ASCII", "other characters")
        return cls(address.rstrip("/"), key_variable, key)

    def without_key(self, text: str) -> str:
        """Removes every spelling of the key from a text of the server."""
        return _key_of(self.key).hide(text)

    def hide_key(self, document: Json) -> Json:
        """Removes every spelling of the key from a JSON value of the server."""
        return _key_of(self.key).hide_in(document)

    @contextmanager
    def logs_without_key(self) -> Iterator[None]:
        """Removes the key from the HTTP library's log records while the context is open."""

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


class SecretKey:
    r"""A key and all its spellings that are removed from texts; a short key is not removed.

    >>> key = SecretKey("sk-0123456789")
    >>> key.hide("no quota for sk-0123456789"), SecretKey("EMPTY").hide("EMPTY list")
    ('no quota for ...', 'EMPTY list')
    >>> key.hide(r"no quota for sk\u002d0123456789")
    '...'
    """

    def __init__(self, text: str):
        self._text = text
        self._is_secret = len(text) >= SHORTEST_KEY
        self._start = text[:FIRST_LETTERS]
        content = self._start.encode()
        # The key may be encoded once or twice, such as base64 of hex.
        once = [content, *map(str.encode, _encoded(content))]
        self._encoded = set(chain.from_iterable(map(_encoded, once)))
        # The commas keep digits of other numbers from matching.
        self._codes = f",{','.join(map(str, content))},"
        letters = _NO_LETTERS.sub("", text).lower()
        # Some pages are written from right to left, so the reverse is searched for too.
        self._letters = (letters, letters[::-1]) if len(letters) >= SHORTEST_SECRET else ()

    def hide(self, text: str) -> str:
        """Replaces the key in a text by `HIDDEN`.

        A text that holds the key in escaped form is replaced as a whole.
        """
        if not self._is_secret:
            return text
        text = text.replace(self._text, HIDDEN)
        return HIDDEN if self._is_in(text) else text

    def hide_in(self, document: Json) -> Json:
        """Removes the key from a JSON value."""
        if not self._is_secret or not self._is_in(self._joined(document)):
            return document
        document = self._hide_in_each(document)
        if self._is_in(self._joined(document)):
            remedy = "use another server, and replace the API key, which it has exposed"
            raise InputError.at("the answer", "an answer without the key", "parts of it", remedy)
        return document

    def _is_in(self, text: str) -> bool:
        return any(map(self._is_in_plain, _decodings(text)))

    def _is_in_plain(self, text: str) -> bool:
        letters = _NO_LETTERS.sub("", text).lower()
        base64_digits = _NO_BASE64.sub("", text.replace("-", "+").replace("_", "/"))  # URL-safe too
        spaces = (base64_digits, _NO_BASE32.sub("", text.upper()), _NO_HEX.sub("", text.lower()))
        return (
            self._start in text
            or any(key in letters for key in self._letters)
            or any(part in digits for part, digits in product(self._encoded, spaces))
            or self._codes in f",{_NO_DIGITS.sub(',', text)},"
        )

    def _joined(self, document: Json) -> str:
        """Joins all texts of a JSON value in order; a short key keeps them on separate lines."""
        return ("" if self._letters else "\n").join(_texts(document))

    def _hide_in_each(self, document: Json) -> Json:
        if isinstance(document, str):
            return self.hide(document)
        if isinstance(document, dict):
            hidden: dict[str, Json] = {}
            for name, member in document.items():
                hidden[self.hide(name)] = self._hide_in_each(member)
            return hidden
        if isinstance(document, list):
            codes = _text_of_codes(document)
            if codes and self.hide(codes) != codes:
                return []
            return list(map(self._hide_in_each, document))
        return document


_key_of = lru_cache(SecretKey)  # A key's encodings are computed once.


def _decodings(text: str) -> Iterator[str]:
    """Yields a text and its decoded form after each round of undoing its escapes."""
    for _ in range(DECODINGS):
        yield text
        plain = normalize("NFKC", html.unescape(unquote(_ESCAPE.sub(_unescape, text))))
        if plain == text:
            return
        text = plain
    yield text


def _unescape(escape: re.Match[str]) -> str:
    unicode, hexadecimal, octal, letter = escape.groups()
    if letter is not None:
        return " " if letter in "bfnrt" else letter
    number = int(octal, 8) if octal else int(unicode or hexadecimal, 16)
    return chr(number) if number <= 0x10FFFF else ""


def _texts(document: Json) -> Iterator[str]:
    """Yields every text of a JSON value in order, with the names of members."""
    stack = [document]  # A hostile answer may be nested too deeply for recursion.
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            for name, member in reversed(node.items()):
                stack += (member, name)
        elif isinstance(node, list):
            codes = _text_of_codes(node)
            stack += [codes] if codes else reversed(node)


def _text_of_codes(numbers: list[Json]) -> str:
    """Decodes a list of bytes, as servers write a token; returns "" for other lists."""
    try:
        return bytes(numbers).decode("latin-1")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def _encoded(content: bytes) -> list[str]:
    """Encodes bytes in hex, base64 and base32, for every offset in the encoded text."""
    parts = [content.hex()]
    for encode, bits, places in ((base64.b64encode, 6, 3), (base64.b32encode, 5, 5)):
        for offset in range(places):
            letters = encode(bytes(offset) + content).decode()
            # The first and last letters may hold bits of neighboring bytes, so they are cut.
            parts.append(letters[-(-8 * offset // bits) : 8 * (offset + len(content)) // bits])
    return parts
