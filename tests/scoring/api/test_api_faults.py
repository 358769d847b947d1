"""The scorer "api" keeps its limits, asks again after faults that pass, and refuses the others."""

import asyncio
import math
import random
import threading

import httpx2
import numpy as np
import pytest
from api_server import LABELS, TEXTS, Reply, Time, answer, running, scorer, want
from damage import VALUES, other

from batch_calibration.errors import InputError
from batch_calibration.scoring.api.answers import Request
from batch_calibration.scoring.api.client import Client
from batch_calibration.scoring.api.protocols import PROTOCOLS
from batch_calibration.scoring.api.server import Server


def streamed(status, content=b"", headers=None):
    """A response as it comes over a wire, whose body is read later."""
    return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(content))


# Limits


def test_no_more_requests_are_in_flight_than_the_limit():
    barrier = threading.Barrier(4)
    fault = lambda _, path, body: Reply(answer(path, body), wait=lambda: barrier.wait(60))  # noqa: E731
    with running(fault) as server:
        scorer(server.address, in_flight=4).score(TEXTS, LABELS)
        assert server.most == 4 and len(server.asked) == 24


def test_no_minute_has_more_requests_than_the_limit():
    time, sent = Time(), []

    async def work(pace):
        for _ in range(5):
            await pace.wait_for_turn()
            sent.append(time.now)

    async def run():
        pace = time.pace(per_minute=6)
        await asyncio.gather(*(work(pace) for _ in range(4)))

    asyncio.run(run())
    assert len(sent) == 20
    assert all(later - first >= 60 - 1e-6 for first, later in zip(sent, sent[6:], strict=False))
    with running() as server:
        scorer(server.address, "top_k", time=(time := Time()), per_minute=60).score(TEXTS, LABELS)
    assert math.isclose(time.now, 11)


# Faults that pass


def once(reply):
    """A server whose first answer is wrong."""
    return lambda number, *_: reply if number == 0 else None


PASSING = [Reply("busy", 429), Reply("broken", 500), Reply("<html>", 502), Reply("", 503)]
PASSING += [Reply(send=lambda _: None), Reply('{"choices": [{"te'), Reply("[" * 100_000)]


@pytest.mark.parametrize("reply", [*PASSING, Reply('{"a": "\\ud800"}')])
def test_a_fault_that_passes_is_asked_again(reply):
    with running(once(reply)) as server:
        got = scorer(server.address, time=(time := Time())).score(TEXTS, LABELS)
        assert len(server.asked) == 25
    np.testing.assert_allclose(got.log_probs, want(), rtol=1e-6)
    assert 0.5 <= time.slept[0] <= 1.0


def test_an_answer_that_does_not_come_is_asked_again():
    free = threading.Event()
    with running(once(Reply("{}", wait=lambda: free.wait(60)))) as server:
        got = scorer(server.address, timeout=0.5, in_flight=1).score(TEXTS[:1], LABELS)
        assert len(server.asked) >= 3
        free.set()
    np.testing.assert_allclose(got.log_probs, want(TEXTS[:1]), rtol=1e-6)


AGAIN = {"7": 7.0, "0.25": 0.0, "Sun, 22 Nov 2026 05:00:09 GMT": 9.0}
AGAIN |= {"soon": 0.0, "nan": 0.0, "-3": 0.0}


def busy_once(time, status, **headers):
    """A server that answers from the second request on, and the times of all requests."""
    sent = []

    def handler(_):
        sent.append(time.now)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return streamed(200, b"{}") if sent[1:] else streamed(status, headers=named)

    return handler, sent


@pytest.mark.parametrize("after", AGAIN)
def test_the_server_says_when_to_come_again(after):
    time, seconds = Time(), AGAIN[after]
    date = {"date": "Sun, 22 Nov 2026 05:00:00 GMT"} if "GMT" in after else {}
    handler, sent = busy_once(time, 503, retry_after=after, **date)
    asyncio.run(ask(handler, time))
    assert len(sent) == 2
    assert sent[1] - sent[0] == seconds if seconds else 0.5 <= sent[1] - sent[0] <= 1.0


def test_long_waits_are_told_once_with_their_reason(monkeypatch):
    monkeypatch.setenv("API_KEY", "sk-planted-0123456789")
    notes, time = [], Time()
    content = {"error": {"message": "rate limit of sk-planted-0123456789"}}
    busy = Reply(content, 429, {"retry-after": "30"})
    with running(lambda number, *_: busy if number < 3 else None) as server:
        asks = scorer(server.address, time=time)
        asks.notify = notes.append
        asks.score(TEXTS, LABELS)
    assert notes[0] == f"{server.address}: status 429: 'rate limit of ...'; waiting 30 seconds"
    assert len(notes) <= 3 and time.now >= 30


def test_a_busy_server_is_left_alone_by_all():
    async def first_alone(client):
        await client.ask(Request("a", {}))
        await asyncio.gather(*(client.ask(Request("a", {})) for _ in range(3)))

    time = Time()
    handler, sent = busy_once(time, 429, retry_after="30")
    asyncio.run(ask(handler, time, use=first_alone))
    assert sent[0] == 0 and min(sent[1:]) >= 30


async def once_asked(client):
    await client.ask(Request("completions", {}))


async def ask(handler, time, jitter=lambda: 1.0, use=once_asked):
    server, transport = Server("http://127.0.0.1/v1"), httpx2.MockTransport(handler)
    async with httpx2.AsyncClient(base_url=server.address, transport=transport) as connection:
        await use(Client(server, connection, time.pace(), jitter=jitter))


@pytest.mark.parametrize("fault", [httpx2.ReadTimeout, httpx2.ConnectTimeout, httpx2.ReadError])
def test_waits_double_and_end(fault, refuses):
    def handler(request):
        raise fault("key in request", request=request)

    time = Time()
    error = refuses(asyncio.run, ask(handler, time))
    assert error.got == f"none after attempt 8 of 8 ({fault.__name__})"
    assert time.slept == [1, 2, 4, 8, 16, 32, 60]
    for jitter in (0.0, 0.5):
        time = Time()
        with pytest.raises(InputError):
            asyncio.run(ask(handler, time, lambda: jitter))  # noqa: B023
        assert time.slept[:3] == [x * (1 + jitter) / 2 for x in (1, 2, 4)]


def test_a_server_that_says_tomorrow_is_not_waited_for(refuses):
    time = Time()
    tomorrow = streamed(429, headers={"retry-after": "86400"})
    error = refuses(asyncio.run, ask(lambda _: tomorrow, time))
    assert "retry after 86400 seconds" in error.got and not time.slept


# Faults that stay


@pytest.mark.parametrize(
    ("status", "text", "got"),
    [
        (400, '{"error": {"message": "logprobs above 5"}}', "'logprobs above 5'"),
        (401, '{"detail": "who?"}', "'who?': put the key"),
        (404, '{"message": "no model"}', "'no model'"),
        (501, "x" * 1000, "'xxx"),
        (422, "[1]", "422: [1]"),
        (200, "<html>Welcome", "'<html>Welcome'"),
    ],
)
def test_a_final_status_or_a_page_is_a_sentence(status, text, got, refuses):
    with running(lambda *_: Reply(text, status)) as server:
        time = Time()
        error = str(refuses(scorer(server.address, time=time).score, TEXTS, LABELS))
        assert not time.slept and 8 <= len(server.asked) < 24
    assert got in error and (status == 200 or f"status {status}" in error)


def test_a_decision_of_other_options_is_refused(refuses):
    reply = {"answers": {"label": {"probabilities": {"negative": 0.5, "other": 0.5}}}}
    with running(lambda *_: Reply(reply)) as server:
        error = refuses(scorer(server.address, "systemone").score, TEXTS, LABELS)
    assert "each of negative, positive; got {'negative': 0.5, 'other': 0.5}" in str(error)


def test_no_server_is_told_at_once(refuses):
    with running() as server:
        pass
    time = Time()
    error = refuses(scorer(server.address, time=time).score, TEXTS, LABELS)
    assert "cannot be reached" in str(error) and not time.slept


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_scores_that_are_all_equal_are_refused(value, tmp_path, refuses):
    def fault(_, path, body):
        reply = answer(path, body)
        lists = reply["choices"][0]["logprobs"]
        lists["token_logprobs"] = [None] + [value] * (len(lists["tokens"]) - 1)
        return Reply(reply)

    with running(fault) as server:
        asks = scorer(server.address, answers=tmp_path / "answers")
        error = str(refuses(asks.score, TEXTS, LABELS))
    assert f"every score is {value:g}" in error and "Try prompt_logprobs" in error


@pytest.mark.parametrize("way", PROTOCOLS)
def test_a_damaged_answer_is_a_sentence_or_a_number(way, tokenizer):
    draws = random.Random(0)
    asks = scorer("http://127.0.0.1/v1", way, tokenizer=tokenizer)
    ((place_of_request, request), *_) = asks._requests(TEXTS[:1], LABELS)
    right, refused = answer(f"/v1/{request.path}", request.body), 0
    values = [*VALUES, *(other(draws, right) for _ in range(500))]
    for value in values:
        try:
            scores = PROTOCOLS[way].read(value, place_of_request.question, place_of_request.number)
        except InputError:
            refused += 1
            continue
        numbers = scores.values() if isinstance(scores, dict) else scores
        assert all(type(number) is float for number in numbers)
    assert 50 < refused < len(values)
