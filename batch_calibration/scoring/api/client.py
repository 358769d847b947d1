"""Sends requests to a server, again where that may help, and says in a sentence why it did not."""

import asyncio
import math
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from batch_calibration.errors import InputError
from batch_calibration.files import Json, parse_json
from batch_calibration.scoring.api.answers import Request

if TYPE_CHECKING:
    import httpx2

MAX_ATTEMPTS = 8
"""How often a request is sent before it is given up."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt; each further wait is twice as long, with jitter."""
LONGEST_WAIT = 60.0
"""Most seconds between two attempts where the server names no time."""
LONGEST_RETRY_AFTER = 600.0
"""Longest time in seconds that a server may ask to be waited for."""
SHORTEST_KEY = 8
"""Letters below which a key is a placeholder, such as EMPTY, and may be a word of an answer."""
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
"""Statuses that another attempt may mend; all others are final."""
LONGEST_MESSAGE = 200
"""Letters of a server's message that a sentence repeats."""


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
        """A text from the server, in which the key would stand if the server repeats it."""
        return text.replace(self.key, "...") if len(self.key) >= SHORTEST_KEY else text


class Pace:
    """Spaces requests evenly, so that no minute has more than `per_minute`.

    Args:
        per_minute: most requests a minute; 0 is no limit.
        sleep: waits so many seconds.
        clock: seconds since some moment.
    """

    def __init__(
        self,
        per_minute: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.sleep = sleep
        self._clock = clock
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._held_until = -math.inf

    async def wait_for_turn(self) -> None:
        """Wait until the next request may be sent."""
        turn = max(self._next, self._clock())  # seconds of the clock
        # The turn is taken before the wait, so that no two requests share one.
        self._next = turn + self._gap
        # While it waits, another answer may hold all requests for longer.
        while (wait := max(turn, self._held_until) - self._clock()) > 0:
            await self.sleep(wait)

    def hold(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        self._held_until = max(self._held_until, self._clock() + seconds)


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
        self._has_answered = False  # whether there is a server at all

    async def ask(self, request: Request) -> tuple[Json, str]:
        """The answer to one request: its value, and its text without the key.

        Raises:
            InputError: a final status, no server, or no answer after `MAX_ATTEMPTS` attempts.
        """
        import httpx2

        where, reason = f"{self.server.address}/{request.path}", ""
        for attempt in range(MAX_ATTEMPTS):
            await self._pace.wait_for_turn()
            # Up to half is drawn, so that requests that failed together do not come back together.
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * (0.5 + 0.5 * self._jitter())
            try:
                response = await self._connection.post(request.path, json=request.body)
            except httpx2.RequestError as error:
                reason = type(error).__name__
                # A server that has answered before may come back; another is not there.
                if isinstance(error, httpx2.ConnectError) and not self._has_answered:
                    raise InputError(
                        where=self.server.address,
                        expected="a server, which cannot be reached "
                        f"({self.server.without_key(str(error))})",
                        remedy="start it, or correct config.server",
                    ) from error
            else:
                self._has_answered = True
                text = self.server.without_key(response.text)  # an error page may repeat the key
                if response.is_success:
                    try:
                        return parse_json(text), text
                    except ValueError as error:
                        reason = f"no JSON: {text[:80]!r}"
                        # A torn answer begins as JSON does; a page that does not is no fault.
                        if text.strip() and text.strip()[0] not in "{[":
                            raise InputError(
                                where=where,
                                expected="JSON",
                                got=repr(text[:80]),
                                remedy="correct config.server (it usually ends in /v1)",
                            ) from error
                elif response.status_code not in PASSING_STATUSES:
                    self._refuse_status(response.status_code, text, where)
                else:
                    reason = f"status {response.status_code}: {error_message(text)}"
                    shortest = retry_after(response.headers)
                    if shortest > LONGEST_RETRY_AFTER:
                        reason += f", come again in {shortest:.0f} seconds"
                        break  # whether to wait so long is for a person to say
                    wait = max(wait, shortest)
                    if response.status_code == 429:
                        self._pace.hold(wait)  # for all requests, this one among them
                        continue
            if attempt + 1 < MAX_ATTEMPTS:  # no wait after the last attempt
                await self._pace.sleep(wait)
        raise InputError(
            where=where,
            expected="an answer",
            got=f"none after attempt {attempt + 1} of {MAX_ATTEMPTS} ({reason})",
            remedy="lower config.in_flight or set config.per_minute if the server is busy, "
            "and raise config.timeout if it is slow",
        )

    def _refuse_status(self, status: int, text: str, where: str) -> None:
        """Raise the sentence for a final status."""
        remedy = "correct what it names, or choose another config.api_scores"
        if status in (401, 403):
            variable = self.server.key_variable
            remedy = f"put the server's key into the environment variable {variable}, or name "
            remedy += "another one with config.key_variable"
            if self.server.key:
                remedy = f"correct the key in the environment variable {variable}"
        elif status in (404, 405, 501):
            remedy = "correct config.server (it usually ends in /v1) or config.model, or choose "
            remedy += "another config.api_scores: this server may not have this one"
        got = f"status {status}: {error_message(text)}"
        raise InputError(where=where, expected="an answer", got=got, remedy=remedy)


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
        timeout=timeout if math.isfinite(timeout) else None,  # None is no limit
        limits=httpx2.Limits(max_connections=None),  # config.in_flight is the limit
    )


def retry_after(headers: "httpx2.Headers") -> float:
    """Seconds that the header `Retry-After` asks to wait, 0 where there is none.

    A date counts from the answer's own date, so that no clock of ours matters.
    """
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)  # or else a date
    except ValueError:
        try:
            sent = parsedate_to_datetime(headers.get("date", ""))
            seconds = (parsedate_to_datetime(header) - sent).total_seconds()
        except (TypeError, ValueError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def error_message(text: str) -> str:
    """What an error answer says, in short: its message, or else its beginning.

    >>> error_message('{"error": {"message": "no such model"}}')
    "'no such model'"
    """
    try:
        message = parse_json(text)
    except ValueError:
        message = text
    # {"error": {"message": ...}} as OpenAI answers, {"detail": ...} as FastAPI does.
    for name in ("error", "detail", "message"):
        if isinstance(message, dict) and name in message:
            message = message[name]
    written = f"{message}"
    return repr(message if len(written) <= LONGEST_MESSAGE else f"{written[:LONGEST_MESSAGE]}...")
