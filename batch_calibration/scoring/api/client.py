"""Sends many requests to a server at a time, and again if another attempt may succeed.

Answers are stored at once. A final message gives the reason for failed requests. Bodies are read up
to a limit, compressed or not.
"""

import asyncio
import json
import math
import random
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from batch_calibration.errors import InputError, answering, extra, spell, step
from batch_calibration.files import Json, RepeatedKey, parse_json, value_at
from batch_calibration.scoring import NoAnswer, Refused
from batch_calibration.scoring.api.answers import Answers, Request
from batch_calibration.scoring.api.server import Server

if TYPE_CHECKING:
    import httpx2

MAX_ATTEMPTS = 8  # attempts per request
FIRST_WAIT = 1.0
"""Seconds before the second attempt; each further wait is twice as long, with jitter."""
LONGEST_WAIT = 60.0  # maximum seconds between attempts if the server names no time
LONGEST_RETRY_AFTER = 600.0  # maximum seconds of `Retry-After`
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
"""Statuses after which another attempt may succeed; all others are final."""
REFUSING_STATUSES = {400, 413, 422}
"""Final statuses with which a server may refuse one prompt: content filters, too long prompts."""
MIN_REPORTED_WAIT = 5.0  # seconds; longer waits are reported with their reason
LONGEST_MESSAGE = 200  # maximum letters of a server's message that an error repeats
USUAL_ANSWER = 4 << 20  # bytes that every answer may have: 20,000 tokens of one position
ANSWER_PER_BYTE = 256
"""Bytes that an answer may have for each byte sent: a server scores every token of a prompt."""
ENCODINGS = "gzip"
"""Compression that servers may use. zlib inflates it piece by piece, so that a small answer that
would fill the memory is detected in time."""
CLAIM_WAIT = 0.05  # seconds between checks for another run's answer
ABOUT_PROMPT = re.compile(
    rb"content[_ ]?(filter|policy)|responsibleai|context[_ ]length|data_inspection_failed", re.I
)
"""Words of servers that refuse a request because of its prompt."""
NO_QUOTA = re.compile(
    rb"insufficient_quota|billing_|exceeded_current_quota|insufficient[_ ]balance"
)
"""Words of servers that refuse a request because the quota is used up; no wait helps."""
MOST_USELESS = 0.2
"""Maximum ratio of useless to other answers; above it, the server is at fault."""
MAX_FAILURES_IN_A_ROW = 8
"""Consecutive final failures after which no more requests are sent."""
T = TypeVar("T")


class NoQuota(InputError):
    """An error of a server that answers nothing more until somebody pays."""


class TornAnswer(ValueError):
    """An error for an incomplete answer; another attempt may succeed."""


class ApiCost(NamedTuple):
    """The cost of asking a server.

    Attributes:
        requests: requests without an answer yet.
        tokens: tokens that these requests send.
        answered: requests with an answer from earlier runs.
        dollars: price of the tokens.
        interrupted: requests that were in progress when their run stopped.
    """

    requests: int
    tokens: int
    answered: int
    dollars: float = 0.0
    interrupted: int = 0

    def __str__(self) -> str:
        dollars = f"${self.dollars:,.2f}" if self.dollars >= 0.01 else "less than $0.01"
        price = f", {dollars} at {spell('price')}" if self.dollars else ""
        answered = f"; {self.answered:,} more were answered before" if self.answered else ""
        if self.interrupted:
            answered += f"; {self.interrupted:,} were in progress when a run stopped, and the "
            answered += "server may have charged for them"
        return f"{self.requests:,} requests, about {self.tokens:,} tokens{price}{answered}"


class Failures(NamedTuple, Generic[T]):
    """Requests without an answer."""

    sentences: list[str]  # the reason for each final failure
    stopped: bool  # whether later requests were not sent
    # Names of requests that the server refuses although it answers others, and the reasons.
    refused: list[tuple[T, str]]


@dataclass
class Pace:
    """Spaces requests evenly, so that no minute has more than `per_minute`; 0 is no limit."""

    per_minute: int = 0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    _next: float = field(default=-math.inf, init=False)
    _held_until: float = field(default=-math.inf, init=False)

    async def wait_for_turn(self) -> None:
        """Waits until the next request may be sent."""
        turn = max(self._next, self.clock())  # seconds of the clock
        # The turn is reserved before the wait, so that no two requests share one.
        self._next = turn + (60.0 / self.per_minute if self.per_minute else 0.0)
        # During the wait, another answer may delay all requests further.
        while (wait := max(turn, self._held_until) - self.clock()) > 0:
            await self.sleep(wait)

    def hold(self, seconds: float) -> None:
        """Holds all requests back for at least this many seconds."""
        self._held_until = max(self._held_until, self.clock() + seconds)


@dataclass
class Client:
    """Sends requests, with further attempts if they may succeed.

    A request is sent again after statuses such as 429 and 500, timeouts, dropped connections and
    torn answers. Each wait is twice as long as the one before, and at least the server's
    `Retry-After`. All other statuses are final.

    Args:
        server: the server that receives the requests.
        connection: an open `httpx2.AsyncClient`.
        pace: the pace of the requests.
        timeout: seconds within which a whole answer must arrive; infinity is no limit.
        notify: called with a sentence on a long wait and its reason, once for overlapping waits.
        jitter: draws a number from 0 to 1 for each wait.
    """

    server: Server
    connection: "httpx2.AsyncClient"
    pace: Pace
    timeout: float = math.inf
    notify: Callable[[str], None] | None = None
    jitter: Callable[[], float] = field(default=random.random, kw_only=True)
    _told_until: float = field(default=-math.inf, init=False)  # of the pace's clock
    _has_answered: bool = field(default=False, init=False)  # whether the server ever answered

    async def ask(self, request: Request) -> tuple[Json, str]:
        """Sends one request and returns the value of its answer and its JSON, both without the key.

        Raises:
            InputError: a final status, no server, or no answer after `MAX_ATTEMPTS` attempts.
        """
        import httpx2

        where, reason = f"{self.server.address}/{request.path}", ""
        for attempt in range(MAX_ATTEMPTS):
            await self.pace.wait_for_turn()
            # Jitter shortens the wait, so that requests that failed together spread out.
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * (0.5 + 0.5 * self.jitter())
            try:
                status, headers, content = await self._send(request)
                self._has_answered, status_name = True, f"status {status}"
                if 200 <= status < 300:
                    answer, text = self._read(content, where)
                    status, status_name = error_status(answer), f"status {status} with an error"
                    if not status:
                        return answer, text
            except TimeoutError:
                reason = f"no complete answer within {self.timeout:g} seconds"
            except TornAnswer as error:
                reason = str(error)
            except httpx2.RequestError as error:
                reason = type(error).__name__
                # A server that has answered before may come back. Another one is not running.
                if isinstance(error, httpx2.ConnectError) and not self._has_answered:
                    why = self.server.without_key(str(error))
                    expected = f"a server, which cannot be reached ({why})"
                    remedy = f"start it, or correct {spell('server')}"
                    raise InputError.at(self.server.address, expected, remedy=remedy) from error
            else:
                reason = f"{status_name}: {self._message(content)}"
                if status == 402 or (status in (403, 429) and NO_QUOTA.search(content.lower())):
                    remedy = "pay, or wait until the quota is renewed, and run the command again"
                    raise NoQuota(where=where, expected="a quota", got=reason, remedy=remedy)
                if status not in PASSING_STATUSES:
                    is_of_prompt = ABOUT_PROMPT.search(content) is not None
                    self._refuse_status(status, reason, where, is_of_prompt=is_of_prompt)
                shortest = retry_after(headers)
                if shortest > LONGEST_RETRY_AFTER:
                    reason += f", retry after {shortest:.0f} seconds"
                    break  # The user decides whether to wait so long.
                wait = max(wait, shortest)
                if status == 429:
                    self.pace.hold(wait)  # This delays all requests, not only this one.
                    self._tell_wait(reason, wait)
                    continue
            if attempt + 1 < MAX_ATTEMPTS:  # There is no wait after the last attempt.
                self._tell_wait(reason, wait)
                await self.pace.sleep(wait)
        got = f"none after attempt {attempt + 1} of {MAX_ATTEMPTS} ({reason})"
        remedy = f"lower {spell('in_flight')} or set {spell('per_minute')} if the server is busy, "
        remedy += f"and raise {spell('timeout')} if it is slow"
        raise InputError.at(where, "an answer", got, remedy)

    def _tell_wait(self, reason: str, seconds: float) -> None:
        """Notifies the user of a wait and its reason, unless a reported wait is still going on."""
        time = self.pace.clock()
        if self.notify and seconds >= MIN_REPORTED_WAIT and time >= self._told_until:
            self._told_until = time + seconds
            self.notify(f"{self.server.address}: {reason}; waiting {seconds:.0f} seconds")

    async def _send(self, request: Request) -> tuple[int, "httpx2.Headers", bytes]:
        """Sends one attempt and returns its status, headers and body."""
        async with asyncio.timeout(self.timeout if math.isfinite(self.timeout) else None):
            stream = self.connection.stream("POST", request.path, json=request.body)
            async with stream as response:
                sent = int(response.request.headers["content-length"])
                content = await read_body(response, sent)
        return response.status_code, response.headers, content

    def _read(self, content: bytes, where: str) -> tuple[Json, str]:
        """Parses an answer and returns its value and its JSON, both without the key.

        Raises:
            InputError: the answer is not from this kind of server.
            TornAnswer: the JSON is damaged; another attempt may succeed.
        """
        try:
            # JSON may escape every letter of the key, so it is removed after parsing.
            answer = self.server.hide_key(_parse(content))
            return answer, json.dumps(answer)
        except RepeatedKey as error:
            got = self.server.without_key(str(error))
            raise InputError(where=where, expected="each key once", got=got) from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            text = self.server.without_key(content.decode(errors="replace"))
            # A torn answer still begins as JSON does. Other text comes from another kind of page.
            if text.strip() and text.strip()[0] not in "{[":
                remedy = f"correct {spell('server')} (usually .../v1)"
                raise InputError.at(where, "JSON", repr(text[:80]), remedy) from error
            raise TornAnswer(f"no JSON: {text[:80]!r}") from error

    def _message(self, content: bytes) -> str:
        """Returns the message of an error answer, without the key."""
        try:
            return error_message(self.server.hide_key(_parse(content)))
        except (ValueError, RecursionError):
            return error_message(self.server.without_key(content.decode(errors="replace")))

    def _refuse_status(self, status: int, got: str, where: str, *, is_of_prompt: bool) -> None:
        """Raises the error for a final status."""
        remedy = f"correct the named fault, or choose another {spell('api_scores')}"
        if status in REFUSING_STATUSES:
            refused = Refused(where=where, expected="an answer", got=got, remedy=remedy)
            refused.is_of_prompt = is_of_prompt
            raise refused
        if status in (401, 403):
            variable = self.server.key_variable
            remedy = f"put the key into the variable {variable}, named by {spell('key_variable')}"
            if self.server.key:
                remedy = f"correct the key in the environment variable {variable}"
        elif status in (404, 405, 501):
            remedy = f"correct {spell('server')} (usually .../v1) or {spell('model')}, or "
            remedy += f"choose another {spell('api_scores')}: this server may not support this one"
        raise InputError(where=where, expected="an answer", got=got, remedy=remedy)


def connect(server: Server, timeout: float) -> AbstractAsyncContextManager["httpx2.AsyncClient"]:
    """Opens a connection to a server that sends its key with every request."""
    with answering(ImportError, "", "httpx2, which sends requests", extra("api"), "scorer"):
        import httpx2
    authorization = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    return httpx2.AsyncClient(
        base_url=server.address,
        headers={"Accept-Encoding": ENCODINGS, **authorization},
        timeout=timeout if math.isfinite(timeout) else None,  # no limit if None
        follow_redirects=False,  # A redirect would send the key to another server.
        limits=httpx2.Limits(max_connections=None),  # `in_flight` is the limit.
    )


def retry_after(headers: "httpx2.Headers") -> float:
    """Returns the seconds that the header `Retry-After` asks to wait, or 0 without it.

    A date counts from the answer's own date, so that the local clock does not matter.
    """
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)  # Otherwise it is a date.
    except ValueError:
        try:
            sent = parsedate_to_datetime(headers.get("date", ""))
            seconds = (parsedate_to_datetime(header) - sent).total_seconds()
        except (TypeError, ValueError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def error_status(answer: Json) -> int:
    """Returns the status that an answer of status 200 reports: 0 without an error, 400 by default.

    >>> error_status({"choices": []}), error_status({"error": {"code": 429}})
    (0, 429)
    """
    if not value_at(answer, "error") and value_at(answer, "object") != "error":
        return 0
    code = value_at(answer, "error", "code") or value_at(answer, "code")
    return code if isinstance(code, int) and 400 <= code < 600 else 400


def error_message(message: Json) -> str:
    """Returns the message of an error answer, shortened; without a message, the answer.

    >>> error_message({"error": {"message": "no such model"}})
    "'no such model'"
    """
    # OpenAI sends {"error": {"message": ...}}, FastAPI {"detail": ...}.
    for name in ("error", "detail", "message"):
        if isinstance(message, dict) and name in message:
            message = message[name]
    written = f"{message}"
    return repr(message if len(written) <= LONGEST_MESSAGE else f"{written[:LONGEST_MESSAGE]}...")


async def read_body(response: "httpx2.Response", sent: int) -> bytes:
    """Reads and inflates the body of a streamed answer to a request of `sent` bytes.

    Raises:
        InputError: the body is too large for a request of this size, inflated or not; or its
            compression is not one of `ENCODINGS`.
        TornAnswer: the compressed body is damaged or incomplete.
    """
    most = USUAL_ANSWER + ANSWER_PER_BYTE * sent
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        expected = f"one that is not compressed, or with {ENCODINGS}"
        remedy = "configure the server, or the proxy before it, not to compress answers"
        raise InputError.at("the answer", expected, "another content-encoding", remedy)
    # 32 more than the largest window makes zlib detect gzip or zlib from the header.
    inflater = None if encoding in ("", "identity") else zlib.decompressobj(32 + zlib.MAX_WBITS)
    received, content = 0, bytearray()
    async for chunk in response.aiter_raw():
        received += len(chunk)
        try:
            # The limit is one byte more than allowed and never 0, which zlib takes as no limit.
            content += inflater.decompress(chunk, most + 1 - len(content)) if inflater else chunk
        except zlib.error as error:
            raise TornAnswer(f"its {encoding} is damaged") from error
        if max(received, len(content)) > most:
            remedy = f"correct {spell('server')}, or lower {spell('top_logprobs')}"
            raise InputError.at("the answer", f"at most {most:,} bytes", "more", remedy)
    if inflater and content and not inflater.eof:
        raise TornAnswer(f"its {encoding} ends too early")
    return bytes(content)


def _parse(content: bytes) -> Json:
    """Parses an answer as JSON in UTF-8, UTF-16 or UTF-32; a charset header is ignored.

    Raises:
        ValueError: the content is not JSON, or an object has a key twice, with unclear values.
    """
    return parse_json(content.decode(json.detect_encoding(content)), unique_keys=True)


async def ask_all(
    requests: Iterator[tuple[T, Request]],
    client: Client,
    answers: Answers,
    receive: Callable[[T, Json], None],
    in_flight: int,
) -> Failures[T]:
    """Sends each request without a stored answer once, even if other runs send requests meanwhile.

    A final failure does not stop other requests. `receive` takes the name of a request and its
    answer; it raises `InputError` if the answer is useless. If the server answers other requests,
    refusals and useless answers are stored, so that these requests are not sent again. Sending
    stops after `MAX_FAILURES_IN_A_ROW` failures without an answer in between, not counting requests
    that the server rejects because of the prompt. It also stops if the quota is used up.
    """
    failures: list[str] = []
    refused: list[tuple[T, str]] = []
    # Refusals before the first answer; refusals and useless answers since the last good answer.
    unproven, doubtful = list[tuple[Request, str]](), list[tuple[Request, str]]()
    useless: list[tuple[Request, str]] = []  # useless answers of the whole run
    in_a_row = 0  # failures since the last answer
    answered = 0  # requests
    server = client.server.address

    def is_settled(name: T, request: Request) -> bool:
        """Checks whether an earlier answer or refusal settles a request."""
        nonlocal answered
        earlier = answers.get(server, request)
        if earlier is not None:
            # An answer stored by an earlier version may be useless now. It is requested again.
            with suppress(InputError):
                hidden = client.server.hide_key(earlier)
                if hidden != earlier:
                    answers.keep(server, request, json.dumps(hidden))
                receive(name, hidden)
                answered += 1
                return True
        reason = answers.refusal(server, request)
        if reason is not None:
            refused.append((name, reason))
        return reason is not None

    async def claim(request: Request) -> None:
        """Waits while another worker or run has the same request in progress.

        The wait is limited, because that run may be on a machine that has stopped.
        """
        waited = 0.0
        while not answers.start(server, request) and waited < LONGEST_RETRY_AFTER:
            await client.pace.sleep(CLAIM_WAIT)
            waited += CLAIM_WAIT

    async def ask(name: T, request: Request) -> None:
        nonlocal in_a_row, answered
        text = ""
        try:
            answer, text = await client.ask(request)
            receive(name, answer)
            answers.keep(server, request, text)
            in_a_row, answered = 0, answered + 1
            for earlier, why in unproven:
                answers.refuse(server, earlier, why)
            unproven.clear()
            doubtful.clear()
            return
        except InputError as error:
            sentence = client.server.without_key(str(error))
            is_refused = isinstance(error, Refused)
            is_of_prompt = isinstance(error, Refused) and error.is_of_prompt
            is_unpaid = isinstance(error, NoQuota)
        if is_refused or (text and answered):  # The second case is an answer that is useless.
            refused.append((name, sentence))
        else:
            failures.append(sentence)
        if is_of_prompt or (answered and (is_refused or text)):
            if text:
                answers.keep(server, request, text)
            answers.refuse(server, request, sentence)
            doubtful.extend([] if is_of_prompt else [(request, sentence)])
            useless.extend([] if is_refused else [(request, sentence)])
        else:
            unproven.extend([(request, sentence)] if is_refused else [])
            answers.give_up(server, request)
        in_a_row += MAX_FAILURES_IN_A_ROW if is_unpaid else not is_of_prompt

    async def work() -> None:
        # The workers share one iterator. Each takes the next request when it is free.
        for name, request in requests:
            if not is_settled(name, request):
                await claim(request)
                # Another worker or run may have received the answer meanwhile.
                if is_settled(name, request):
                    answers.give_up(server, request)
                else:
                    await ask(name, request)
            # The other workers see the same count and stop too.
            if in_a_row >= MAX_FAILURES_IN_A_ROW:
                return

    await asyncio.gather(*(work() for _ in range(in_flight)))
    # A request still in the iterator was never sent.
    stopped = next(requests, None) is not None
    # A server that stopped answering or gives few useful answers may be repaired, so these
    # requests are sent again later.
    broken = doubtful if stopped else useless if len(useless) > MOST_USELESS * answered else []
    for request, sentence in broken:
        answers.ask_again(server, request)
        failures.append(sentence)
    # A server that refuses all requests refuses the way of asking, not single prompts.
    if stopped or broken or not answered:
        return Failures([*failures, *(sentence for _, sentence in refused)], stopped, [])
    return Failures(failures, stopped, refused)


def read_stored(
    requests: Iterator[tuple[T, Request]],
    server: Server,
    answers: Answers,
    receive: Callable[[T, Json], None],
) -> Failures[T]:
    """Receives the stored answer to each request, as `ask_all` does, and sends nothing.

    A useless answer costs only its own request if at most `MOST_USELESS` of the answers are
    useless.
    """
    refused, useless = list[tuple[T, str]](), list[tuple[T, str]]()
    answered = lacking = 0
    for name, request in requests:
        answer = answers.get(server.address, request)
        if answer is not None:
            try:
                receive(name, server.hide_key(answer))
                answered += 1
            except InputError as error:
                useless.append((name, str(error)))
        elif reason := answers.refusal(server.address, request):
            refused.append((name, reason))
        else:
            lacking += 1
    unread = [why for _, why in useless]
    if len(useless) <= MOST_USELESS * answered:
        refused, unread = [*refused, *useless], []
    left = (
        "Their answers are not stored, or their prompts changed after the requests were written: "
    )
    left += f"{step('requests')} to write them to files, or score with {spell('server')}."
    return Failures([*unread, *[left] * lacking], stopped=False, refused=refused)


def refuse_unanswered(sentences: Sequence[str], stopped: bool, requests: int) -> None:
    """Raises if requests have no answer, with their number and the first reason."""
    if sentences:
        unsent = ", and later requests were not sent" if stopped else ""
        raise NoAnswer(
            f"{len(sentences):,} of {requests:,} requests have no answer{unsent}. {sentences[0]} "
            "Answers are kept: run the same command again to ask only for the rest."
        )


def run_coroutine(work: Coroutine[None, None, T]) -> T:
    """Runs a coroutine and returns its result, also in a notebook with a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # No loop runs in this thread.
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
