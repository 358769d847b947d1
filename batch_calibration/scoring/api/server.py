"""The server that is asked, and its key, which is removed from all that the server says."""

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
from urllib.parse import unquote, urlsplit

from batch_calibration.errors import InputError
from batch_calibration.files import Json

CORE_LOGGERS = ("connection", "http11", "http2", "proxy", "socks")
LOGGERS = ("httpx2", *map("httpcore2.{}".format, CORE_LOGGERS))
"""The HTTP library's loggers, whose records hold headers and reasons of a server."""
SHORTEST_KEY = 8
"""Letters below which a key is a placeholder, such as EMPTY, and may be a word of an answer."""
SHORTEST_SECRET = 16
"""Letters and digits from which a key is searched for across signs and texts too; a shorter one,
such as not-needed, may be words of an answer."""
FIRST_LETTERS = 16
"""Letters of a key that stand for all of it: debug pages print the beginning alone."""
DECODINGS = 3  # how often escapes are undone, one inside another
HIDDEN = "..."  # replaces the key

# Of JSON, Python and C: \u0073, \u{73}, \x73, \163, \/
_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{1,6})\}?|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.DOTALL)
_NO_LETTERS = re.compile(r"[^0-9A-Za-z]+")
_NO_BASE64 = re.compile(r"[^0-9A-Za-z+/]+")
_NO_HEX = re.compile(r"0x|[^0-9a-f]+")
_NO_BASE32 = re.compile(r"[^A-Z2-7]+")
_NO_DIGITS = re.compile(r"\D+")


class Server(NamedTuple):
    """Where requests go, and with which key."""

    address: str  # such as "http://127.0.0.1:8000/v1"
    key_variable: str = "API_KEY"  # the environment variable that holds the key
    key: str = ""  # its value, "" for none

    def __repr__(self) -> str:
        return f"Server({self.address!r})"  # without the key

    @classmethod
    def from_environment(cls, address: str, key_variable: str) -> "Server":
        """A server whose key the environment holds."""
        parsed = urlsplit(address) if address.isprintable() and " " not in address else urlsplit("")
        try:
            is_address = parsed.scheme in ("http", "https") and bool(parsed.hostname)
            is_address = is_address and parsed.port != 0
        except ValueError:  # a port that is no number
            is_address = False
        # Before the other check, whose sentence repeats the address and with it a password.
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
            raise InputError.at(where, "a key of printable ASCII", "others")
        return cls(address.rstrip("/"), key_variable, key)

    def without_key(self, text: str) -> str:
        """A text from the server, without the key in any writing."""
        return _key_of(self.key).hide(text)

    def hide_key(self, document: Json) -> Json:
        """A JSON value from the server, without the key in any writing."""
        return _key_of(self.key).hide_in(document)

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


class SecretKey:
    r"""A key, and all writings of it that a text is searched for; a short one for nothing.

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
        # Once encoded, and what is made of that: base64 of hex, and so on.
        once = [content, *map(str.encode, _encoded(content))]
        self._encoded = set(chain.from_iterable(map(_encoded, once)))
        # Between commas, so that no digit of another number is one of these.
        self._codes = f",{','.join(map(str, content))},"
        letters = _NO_LETTERS.sub("", text).lower()
        # Backwards too: some pages are written from right to left.
        self._letters = (letters, letters[::-1]) if len(letters) >= SHORTEST_SECRET else ()

    def hide(self, text: str) -> str:
        """A text without the key: `HIDDEN` stands for it, or for a text that holds it escaped."""
        if not self._is_secret:
            return text
        text = text.replace(self._text, HIDDEN)
        return HIDDEN if self._is_in(text) else text

    def hide_in(self, document: Json) -> Json:
        """A JSON value without the key."""
        if not self._is_secret or not self._is_in(self._joined(document)):
            return document
        document = self._hide_in_each(document)
        if self._is_in(self._joined(document)):
            remedy = "ask another server, and change the key"
            raise InputError.at("the answer", "no key", "parts of it", remedy)
        return document

    def _is_in(self, text: str) -> bool:
        return any(map(self._is_in_plain, _decodings(text)))

    def _is_in_plain(self, text: str) -> bool:
        letters = _NO_LETTERS.sub("", text).lower()
        base64_digits = _NO_BASE64.sub("", text.replace("-", "+").replace("_", "/"))  # URLs' too
        spaces = (base64_digits, _NO_BASE32.sub("", text.upper()), _NO_HEX.sub("", text.lower()))
        return (
            self._start in text
            or any(key in letters for key in self._letters)
            or any(part in digits for part, digits in product(self._encoded, spaces))
            or self._codes in f",{_NO_DIGITS.sub(',', text)},"
        )

    def _joined(self, document: Json) -> str:
        """All texts of a JSON value in order; with a short key they stay apart."""
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


_key_of = lru_cache(SecretKey)  # made once


def _decodings(text: str) -> Iterator[str]:
    """A text, and what is left of it each time that its escapes are undone."""
    for _ in range(DECODINGS):
        yield text
        plain = html.unescape(unquote(_ESCAPE.sub(_unescape, text)))
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
    """Every text of a JSON value in its order, names of members among them."""
    stack = [document]  # no recursion: a hostile answer is nested deeply
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
    """The text that a list of bytes spells, as servers write a token's; "" of any other list."""
    try:
        return bytes(numbers).decode("latin-1")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def _encoded(content: bytes) -> list[str]:
    """Some bytes in hex, base64 and base32, after whatever other bytes."""
    parts = [content.hex()]
    for encode, bits, places in ((base64.b64encode, 6, 3), (base64.b32encode, 5, 5)):
        for offset in range(places):
            letters = encode(bytes(offset) + content).decode()
            # A letter at either end may hold bits of a neighbor.
            parts.append(letters[-(-8 * offset // bits) : 8 * (offset + len(content)) // bits])
    return parts
