"""Sends requests to a server, again where that may help, and says in a sentence why it did not."""

import math
import os
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from batch_calibration.errors import InputError
from batch_calibration.files import Json, parse_json
from batch_calibration.scoring.api.answers import Asked
from batch_calibration.scoring.api.pace import Pace

if TYPE_CHECKING:
    import httpx2

ATTEMPTS = 8
"""How often a request is sent before it is given up."""
FIRST = 1.0
"""Seconds before the second attempt; each further wait is twice as long, with jitter."""
MOST = 60.0
"""Most seconds between two attempts where the server names no time."""
PATIENCE = 600.0
"""Longest time in seconds that a server may ask to be waited for."""
SECRET = 8
"""Letters below which a key is a placeholder, such as EMPTY, and may be a word of an answer."""
AGAIN = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
"""Statuses that another attempt may mend; all others are final."""


class Server(NamedTuple):
    """Where requests go, and with which key.

    Attributes:
        address: such as "http://127.0.0.1:8000/v1".
        key_variable: the environment variable that holds the key.
        key: its value, "" for none.
    """

    address: str
    key_variable: str = "API_KEY"
    key: str = ""

    def __repr__(self) -> str:
        return f"Server({self.address!r})"

    @classmethod
    def of(cls, address: str, key_variable: str) -> "Server":
        """A server whose key the environment holds.

        Raises:
            InputError: no address of http or https, one that holds a key, a key that no header
                can hold.
        """
        parts = urlsplit(address) if address.isprintable() and " " not in address else urlsplit("")
        try:
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fine = False
        if parts.username is not None or parts.password is not None or parts.query:
            raise InputError(
                where="config.server",
                expected="an address without a user, a password or a query",
                got=f"one for {parts.hostname}",
                remedy=f"put a key into the environment variable {key_variable}",
            )
        if not fine:
            raise InputError(
                where="config.server",
                expected="an address such as http://127.0.0.1:8000/v1",
                got=f"{address!r}",
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
        """A text from the server, in which the key would stand if the server repeats it."""
        return text.replace(self.key, "...") if len(self.key) >= SECRET else text


class Client:
    """Sends requests, as often as it may help.

    A request is sent again after statuses such as 429 and 500, timeouts, dropped connections and
    torn answers, each time after twice as long, and not before the server's `Retry-After`. All
    other statuses are final.

    Args:
        server: where requests go.
        connection: an open `httpx2.AsyncClient`.
        pace: when they may be sent.
        jitter: a number from 0 to 1, drawn for each wait.
    """

    def __init__(
        self,
        server: Server,
        connection: "httpx2.AsyncClient",
        pace: Pace,
        jitter: Callable[[], float] = random.random,
    ):
        self.server = server
        self._connection = connection
        self._pace = pace
        self._jitter = jitter
        self._answered = False

    async def ask(self, asked: Asked) -> tuple[Json, str]:
        """The answer to one request: its value, and its text without the key.

        Raises:
            InputError: a final status, no server, or no answer after `ATTEMPTS` attempts.
        """
        import httpx2

        reason = ""
        for attempt in range(ATTEMPTS):
            await self._pace.turn()
            wait = min(MOST, FIRST * 2**attempt) * (0.5 + 0.5 * self._jitter())
            try:
                response = await self._connection.post(asked.path, json=asked.body)
            except httpx2.RequestError as error:
                reason = type(error).__name__
                if isinstance(error, httpx2.ConnectError) and not self._answered:
                    raise InputError(
                        where=self.server.address,
                        expected="a server, which cannot be reached "
                        f"({self.server.without_key(str(error))})",
                        remedy="start it, or correct config.server",
                    ) from error
            else:
                self._answered = True
                text = self.server.without_key(response.text)
                if response.is_success:
                    try:
                        return parse_json(text), text
                    except ValueError as error:
                        reason = f"no JSON: {text[:80]!r}"
                        if text.strip() and text.strip()[0] not in "{[":
                            raise InputError(
                                where=f"{self.server.address}/{asked.path}",
                                expected="JSON",
                                got=f"{text[:80]!r}",
                                remedy="correct config.server (it usually ends in /v1)",
                            ) from error
                elif response.status_code not in AGAIN:
                    raise InputError(self._refusal(response.status_code, text, asked))
                else:
                    reason = f"status {response.status_code}: {said(text)}"
                    least = retry_after(response.headers)
                    if least > PATIENCE:
                        reason += f", come again in {least:.0f} seconds"
                        break
                    wait = max(wait, least)
                    if response.status_code == 429:
                        self._pace.hold(wait)
                        continue
            if attempt + 1 < ATTEMPTS:
                await self._pace.sleep(wait)
        raise InputError(
            where=f"{self.server.address}/{asked.path}",
            expected="an answer",
            got=f"none after attempt {attempt + 1} of {ATTEMPTS} ({reason})",
            remedy="lower config.in_flight or set config.per_minute if the server is busy, "
            "and raise config.timeout if it is slow",
        )

    def _refusal(self, status: int, text: str, asked: Asked) -> str:
        """The sentence for a final status."""
        where = f"{self.server.address}/{asked.path}"
        came = f"expected an answer, got status {status}: {said(text)}"
        if status in (401, 403):
            variable = self.server.key_variable
            if self.server.key:
                return f"{where}: {came}; correct the key in the environment variable {variable}."
            return (
                f"{where}: {came}; put the server's key into the environment variable {variable}, "
                "or name another one with config.key_variable."
            )
        if status in (404, 405, 501):
            return (
                f"{where}: {came}; correct config.server (it usually ends in /v1) or config.model, "
                "or choose another config.api_scores: this server may not have this one."
            )
        return f"{where}: {came}; correct what it names, or choose another config.api_scores."


def connect(server: Server, timeout: float) -> AbstractAsyncContextManager["httpx2.AsyncClient"]:
    """A connection to a server that sends its key with every request.

    Raises:
        InputError: the library that this takes is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise InputError(
            "config.scorer: asking a server takes the package httpx2, which is not installed; run "
            "pip install 'batch-calibration[api]'."
        ) from error
    return httpx2.AsyncClient(
        base_url=server.address,
        headers={"Authorization": f"Bearer {server.key}"} if server.key else {},
        timeout=timeout if math.isfinite(timeout) else None,
        limits=httpx2.Limits(max_connections=None),
    )


def retry_after(headers: "httpx2.Headers") -> float:
    """Seconds that the header `Retry-After` asks to wait, 0 where there is none.

    A date counts from the answer's own date, so that no clock of ours matters.
    """
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            now, then = (parsedate_to_datetime(one) for one in (headers.get("date", ""), value))
            seconds = (then - now).total_seconds()
        except (TypeError, ValueError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def said(text: str) -> str:
    """What an error answer says, in short: its message, or else its beginning.

    >>> said('{"error": {"message": "no such model"}}')
    "'no such model'"
    """
    try:
        value = parse_json(text)
    except ValueError:
        value = text
    for name in ("error", "detail", "message"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return repr(value if len(f"{value}") <= 200 else f"{value}"[:200] + "...")
