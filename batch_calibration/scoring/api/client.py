"""Sends requests to a server, many at a time, and again where that may help.

Answers are kept at once; a sentence at the end says why others failed. Bodies are read up to a
limit, compressed or not.
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

from batch_calibration.errors import InputError, answering, extra, spell
from batch_calibration.files import Json, RepeatedKey, parse_json, value_at
from batch_calibration.scoring import NoAnswer, Refused
from batch_calibration.scoring.api.answers import Answers, Request
from batch_calibration.scoring.api.server import Server

if TYPE_CHECKING:
    import httpx2

MAX_ATTEMPTS = 8  # how often a request is sent before it is given up
FIRST_WAIT = 1.0
"""Seconds before the second attempt; each further wait is twice as long, with jitter."""
LONGEST_WAIT = 60.0  # most seconds between two attempts where the server names no time
LONGEST_RETRY_AFTER = 600.0  # longest time in seconds that a server may ask to be waited for
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
"""Statuses that another attempt may mend; all others are final."""
REFUSING_STATUSES = {400, 413, 422}
"""Final statuses by which a server may refuse one prompt: content filters, prompts too long."""
MIN_REPORTED_WAIT = 5.0  # seconds; longer waits are reported with their reason
LONGEST_MESSAGE = 200  # letters of a server's message that a sentence repeats
USUAL_ANSWER = 4 << 20  # bytes that every answer may have: 20,000 tokens of one place
ANSWER_PER_BYTE = 256
"""Bytes that an answer may have for each byte sent: a server scores every token of a prompt."""
ENCODINGS = "gzip"
"""Compression that servers may use: zlib inflates it piece by piece, so that a small answer
that would fill the memory is seen in time."""
CLAIM_WAIT = 0.05  # seconds before it is looked again whether another run has the answer
ABOUT_PROMPT = re.compile(
    rb"content[_ ]?(filter|policy)|responsibleai|context[_ ]length|data_inspection_failed", re.I
)
"""Words by which servers say that the prompt is why they refuse."""
NO_QUOTA = re.compile(
    rb"insufficient_quota|billing_|exceeded_current_quota|insufficient[_ ]balance"
)
"""Words by which servers say that nothing more is paid for, which no wait mends."""
MOST_USELESS = 0.2
"""Share of answers of no use among the others, beyond which the server is at fault."""
MAX_FAILURES_IN_A_ROW = 8
"""Consecutive requests that fail for good, before no more are sent."""
T = TypeVar("T")


class NoQuota(InputError):
    """The server answers nothing more until somebody pays."""


class TornAnswer(ValueError):
    """An answer that is not whole; another attempt may mend it."""


class ApiCost(NamedTuple):
    """The cost of asking a server.

    Attributes:
        requests: without an answer yet.
        tokens: sent with them.
        answered: requests that earlier runs asked.
        dollars: for the tokens.
        interrupted: requests that a run had under way when it was stopped.
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
            answered += f"; {self.interrupted:,} were under way when a run was stopped, and the "
            answered += "server may have charged them"
        return f"{self.requests:,} requests, about {self.tokens:,} tokens{price}{answered}"


class Failures(NamedTuple, Generic[T]):
    """Requests that have no answer."""

    sentences: list[str]  # why, one for each request that failed for good
    stopped: bool  # whether requests after them were not sent
    # What requests are called that the server, which answers others, refuses; and why.
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
        """Wait until the next request may be sent."""
        turn = max(self._next, self.clock())  # seconds of the clock
        # The turn is taken before the wait, so that no two requests share one.
        self._next = turn + (60.0 / self.per_minute if self.per_minute else 0.0)
        # While it waits, another answer may hold all requests for longer.
        while (wait := max(turn, self._held_until) - self.clock()) > 0:
            await self.sleep(wait)

    def hold(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        self._held_until = max(self._held_until, self.clock() + seconds)


@dataclass
class Client:
    """Sends requests, as often as it may help.

    A request is sent again after statuses such as 429 and 500, timeouts, dropped connections and
    torn answers, each time after twice as long, and not before the server's `Retry-After`. All
    other statuses are final.

    Args:
        server: where requests go.
        connection: an open `httpx2.AsyncClient`.
        pace: when they may be sent.
        timeout: seconds in which a whole answer must come; infinity is no limit.
        notify: called with a sentence on a long wait and its reason; of several at a time one.
        jitter: a number from 0 to 1, drawn for each wait.
    """

    server: Server
    connection: "httpx2.AsyncClient"
    pace: Pace
    timeout: float = math.inf
    notify: Callable[[str], None] | None = None
    jitter: Callable[[], float] = field(default=random.random, kw_only=True)
    _told_until: float = field(default=-math.inf, init=False)  # of the pace's clock
    _has_answered: bool = field(default=False, init=False)  # whether there is a server at all

    async def ask(self, request: Request) -> tuple[Json, str]:
        """The answer to one request without the key: its value, and the JSON of it.

        Raises:
            InputError: a final status, no server, or no answer after `MAX_ATTEMPTS` attempts.
        """
        import httpx2

        where, reason = f"{self.server.address}/{request.path}", ""
        for attempt in range(MAX_ATTEMPTS):
            await self.pace.wait_for_turn()
            # Up to half is drawn, so that requests that failed together do not come back together.
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
                reason = f"no whole answer within {self.timeout:g} seconds"
            except TornAnswer as error:
                reason = str(error)
            except httpx2.RequestError as error:
                reason = type(error).__name__
                # A server that has answered before may come back; another is not there.
                if isinstance(error, httpx2.ConnectError) and not self._has_answered:
                    why = self.server.without_key(str(error))
                    expected = f"a server, which cannot be reached ({why})"
                    remedy = f"start it, or correct {spell('server')}"
                    raise InputError.at(self.server.address, expected, remedy=remedy) from error
            else:
                reason = f"{status_name}: {self._message(content)}"
                if status == 402 or (status in (403, 429) and NO_QUOTA.search(content.lower())):
                    remedy = "pay, or wait until it is there again, and give the same command again"
                    raise NoQuota(where=where, expected="a quota", got=reason, remedy=remedy)
                if status not in PASSING_STATUSES:
                    is_of_prompt = ABOUT_PROMPT.search(content) is not None
                    self._refuse_status(status, reason, where, is_of_prompt=is_of_prompt)
                shortest = retry_after(headers)
                if shortest > LONGEST_RETRY_AFTER:
                    reason += f", come again in {shortest:.0f} seconds"
                    break  # whether to wait so long is for a person to say
                wait = max(wait, shortest)
                if status == 429:
                    self.pace.hold(wait)  # for all requests, this one among them
                    self._tell_wait(reason, wait)
                    continue
            if attempt + 1 < MAX_ATTEMPTS:  # no wait after the last attempt
                self._tell_wait(reason, wait)
                await self.pace.sleep(wait)
        got = f"none after attempt {attempt + 1} of {MAX_ATTEMPTS} ({reason})"
        remedy = f"lower {spell('in_flight')} or set {spell('per_minute')} if the server is busy, "
        remedy += f"and raise {spell('timeout')} if it is slow"
        raise InputError.at(where, "an answer", got, remedy)

    def _tell_wait(self, reason: str, seconds: float) -> None:
        """Say that a request waits and why, unless another wait that was told goes on."""
        time = self.pace.clock()
        if self.notify and seconds >= MIN_REPORTED_WAIT and time >= self._told_until:
            self._told_until = time + seconds
            self.notify(f"{self.server.address}: {reason}; waiting {seconds:.0f} seconds")

    async def _send(self, request: Request) -> tuple[int, "httpx2.Headers", bytes]:
        """Status, headers and body of one attempt."""
        async with asyncio.timeout(self.timeout if math.isfinite(self.timeout) else None):
            stream = self.connection.stream("POST", request.path, json=request.body)
            async with stream as response:
                sent = int(response.request.headers["content-length"])
                content = await read_body(response, sent)
        return response.status_code, response.headers, content

    def _read(self, content: bytes, where: str) -> tuple[Json, str]:
        """The value of an answer without the key, and its JSON.

        Raises:
            InputError: no answer of this kind of server.
            TornAnswer: JSON that another attempt may mend.
        """
        try:
            # Searched for behind the escapes of JSON, which a text may have for each letter.
            answer = self.server.hide_key(_parse(content))
            return answer, json.dumps(answer)
        except RepeatedKey as error:
            got = self.server.without_key(str(error))
            raise InputError(where=where, expected="each key once", got=got) from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            text = self.server.without_key(content.decode(errors="replace"))
            # A torn answer begins as JSON does; a page that does not is no fault.
            if text.strip() and text.strip()[0] not in "{[":
                remedy = f"correct {spell('server')} (usually .../v1)"
                raise InputError.at(where, "JSON", repr(text[:80]), remedy) from error
            raise TornAnswer(f"no JSON: {text[:80]!r}") from error

    def _message(self, content: bytes) -> str:
        """The message of an error answer, without the key."""
        try:
            return error_message(self.server.hide_key(_parse(content)))
        except (ValueError, RecursionError):
            return error_message(self.server.without_key(content.decode(errors="replace")))

    def _refuse_status(self, status: int, got: str, where: str, *, is_of_prompt: bool) -> None:
        """Raise the sentence for a final status."""
        remedy = f"correct what it names, or choose another {spell('api_scores')}"
        if status in REFUSING_STATUSES:
            refused = Refused(where=where, expected="an answer", got=got, remedy=remedy)
            refused.is_of_prompt = is_of_prompt
            raise refused
        if status in (401, 403):
            variable = self.server.key_variable
            remedy = f"put the server's key into the environment variable {variable}, or name "
            remedy += f"another one with {spell('key_variable')}"
            if self.server.key:
                remedy = f"correct the key in the environment variable {variable}"
        elif status in (404, 405, 501):
            remedy = f"correct {spell('server')} (usually .../v1) or {spell('model')}, or "
            remedy += f"choose another {spell('api_scores')}: this server may not have this one"
        raise InputError(where=where, expected="an answer", got=got, remedy=remedy)


def connect(server: Server, timeout: float) -> AbstractAsyncContextManager["httpx2.AsyncClient"]:
    """A connection to a server that sends its key with every request."""
    with answering(ImportError, "", "httpx2, which asks servers", extra("api"), "scorer"):
        import httpx2
    authorization = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    return httpx2.AsyncClient(
        base_url=server.address,
        headers={"Accept-Encoding": ENCODINGS, **authorization},
        timeout=timeout if math.isfinite(timeout) else None,  # None is no limit
        follow_redirects=False,  # to whoever a redirect names the key would go too
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


def error_status(answer: Json) -> int:
    """The status that an answer of status 200 means: 0 for none, 400 for an error without one.

    >>> error_status({"choices": []}), error_status({"error": {"code": 429}})
    (0, 429)
    """
    if not value_at(answer, "error") and value_at(answer, "object") != "error":
        return 0
    code = value_at(answer, "error", "code") or value_at(answer, "code")
    return code if isinstance(code, int) and 400 <= code < 600 else 400


def error_message(message: Json) -> str:
    """The message of an error answer in short, or else its beginning.

    >>> error_message({"error": {"message": "no such model"}})
    "'no such model'"
    """
    # {"error": {"message": ...}} as OpenAI answers, {"detail": ...} as FastAPI does.
    for name in ("error", "detail", "message"):
        if isinstance(message, dict) and name in message:
            message = message[name]
    written = f"{message}"
    return repr(message if len(written) <= LONGEST_MESSAGE else f"{written[:LONGEST_MESSAGE]}...")


async def read_body(response: "httpx2.Response", sent: int) -> bytes:
    """The body of a streamed answer to so many bytes `sent`, inflated.

    Raises:
        InputError: it is larger than an answer to so much can be, before or after it is inflated;
            it is compressed in another way than `ENCODINGS`.
        TornAnswer: what was compressed is damaged, or ends too early.
    """
    most = USUAL_ANSWER + ANSWER_PER_BYTE * sent
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        expected = f"one that is not compressed, or with {ENCODINGS}"
        remedy = "set the server, or the proxy before it, to leave answers as they are"
        raise InputError.at("the answer", expected, "another content-encoding", remedy)
    # 32 more than the largest window: gzip or zlib, whichever the header says.
    inflater = None if encoding in ("", "identity") else zlib.decompressobj(32 + zlib.MAX_WBITS)
    received, content = 0, bytearray()
    async for chunk in response.aiter_raw():
        received += len(chunk)
        try:
            # One byte more than may come, and never 0, which is no limit to zlib.
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
    """The value of an answer, in UTF-8 as JSON is, or UTF-16 or 32; a charset says nothing.

    Raises:
        ValueError: no JSON; an object that has a key twice, so that one of two values is wrong.
    """
    return parse_json(content.decode(json.detect_encoding(content)), unique_keys=True)


async def ask_all(
    requests: Iterator[tuple[T, Request]],
    client: Client,
    answers: Answers,
    receive: Callable[[T, Json], None],
    in_flight: int,
) -> Failures[T]:
    """Send every request that has no answer yet, each once, whatever other runs ask meanwhile.

    One that fails for good leaves the others be. `receive` takes what a request is called and its
    answer; an `InputError` of it says that the answer is of no use. From a server that answers
    others, this and a refusal are kept, so that they are not asked for again. No more requests are
    sent after `MAX_FAILURES_IN_A_ROW` without an answer in between, those that the server lays to
    the prompt not among them, nor where the quota is used up.
    """
    failures: list[str] = []
    refused: list[tuple[T, str]] = []
    # Refusals before the first answer; refusals and answers of no use since the last good one.
    unproven, doubtful = list[tuple[Request, str]](), list[tuple[Request, str]]()
    useless: list[tuple[Request, str]] = []  # answers of no use, of the whole run
    in_a_row = 0  # failures since the last answer
    answered = 0  # requests
    server = client.server.address

    def is_settled(name: T, request: Request) -> bool:
        """True where an earlier answer or refusal is all that is needed."""
        nonlocal answered
        earlier = answers.get(server, request)
        if earlier is not None:
            # What an earlier version kept may be of no use to this one: it is asked again.
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
        """Wait while another worker or run asks the same, which may be on a machine that ended."""
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
        if is_refused or (text and answered):  # an answer that was paid for, and is of no use
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
        # The workers share one iterator: each takes the next request when it is free.
        for name, request in requests:
            if not is_settled(name, request):
                await claim(request)
                # Another may have had the answer meanwhile.
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
    # A server that has ceased to answer, or gives few answers of use, may be mended: then these
    # are asked again.
    broken = doubtful if stopped else useless if len(useless) > MOST_USELESS * answered else []
    for request, sentence in broken:
        answers.ask_again(server, request)
        failures.append(sentence)
    # A server that refuses all it is asked refuses the way of asking.
    if stopped or broken or not answered:
        return Failures([*failures, *(sentence for _, sentence in refused)], stopped, [])
    return Failures(failures, stopped, refused)


def refuse_unanswered(sentences: Sequence[str], stopped: bool, requests: int) -> None:
    """Say what has no answer, one sentence each; whether others were not sent; of how many."""
    if sentences:
        unsent = ", and those after them were not sent" if stopped else ""
        raise NoAnswer(
            f"{len(sentences):,} of {requests:,} requests have no answer{unsent}. {sentences[0]} "
            "What was answered is kept: give the same command again to ask for the rest alone."
        )


def run_coroutine(work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine, in a notebook too, whose thread already runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # no loop runs in this thread
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
