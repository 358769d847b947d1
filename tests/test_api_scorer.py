"""The scorer "api" against a small server of ours: what is sent and read, limits, faults."""

import asyncio
import logging
import math
import random
import threading
import zlib

import httpx2
import numpy as np
import pytest
from api_server import (
    LABELS,
    Reply,
    answer,
    completion,
    first_tokens,
    nats,
    running,
    summed,
    token_of,
)

from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.inputs import ImageInputs
from batch_calibration.models.checkpoint import load_tokenizer
from batch_calibration.scoring.api import client as clients
from batch_calibration.scoring.api.answers import Answers, Asked
from batch_calibration.scoring.api.client import Client, Server
from batch_calibration.scoring.api.pace import Pace
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.api.tokens import count_tokens
from batch_calibration.scoring.api.ways import WAYS
from batch_calibration.scoring.tokens import encode
from batch_calibration.settings import ApiSettings

TEXTS = [f"Review: film {i}\nSentiment:" for i in range(12)]
KEY = "sk-planted-0123456789"


class Time:
    """A clock that goes on to when the first of those who sleep wakes."""

    def __init__(self):
        self.now, self.slept, self._until = 0.0, [], []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        until = self.now + seconds
        self._until.append(until)
        while self.now < until:
            await asyncio.sleep(0)
            if min(self._until) == until:
                self.now = max(self.now, until)
        self._until.remove(until)

    def pace(self, per_minute=0):
        return Pace(per_minute, self.sleep, lambda: self.now)


def scorer(address, way="echo", time=None, answers=None, tokenizer=None, **settings):
    made = ApiSettings(server=address, api_scores=way, **settings)
    return ApiScorer(made, "m", tokenizer, answers, (time or Time()).pace(made.per_minute))


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(CHECKPOINTS["mini"])


def want(texts=TEXTS, labels=LABELS):
    return np.array([[summed(text, label) for label in labels] for text in texts])


def want_first(texts=TEXTS):
    return np.array([[first_tokens(text)[label] for label in LABELS] for text in texts])


# The ways of asking


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_whole_labels_of_any_number_of_tokens_are_summed(way):
    labels = (" very negative", " positive", " good indeed!")
    with running() as server:
        asks = scorer(server.address, way)
        got = asks.score(TEXTS, labels)
        np.testing.assert_allclose(got.log_probs, want(labels=labels), rtol=1e-6)
        assert len(server.asked) == 36 and not got.failed and not got.tokens.any()
        several = asks.score(TEXTS, [labels[:1], labels[1:]]).log_probs
    both = np.logaddexp(*want(labels=labels)[:, 1:].T)
    np.testing.assert_allclose(several[:, 1], both, rtol=1e-6)


@pytest.mark.parametrize("way", ["top_k", "chat"])
def test_first_tokens_are_those_of_the_labels(way):
    with running() as server:
        asks = scorer(server.address, way, top_logprobs=7)
        got = asks.score(TEXTS, LABELS)
        (body, *_) = [body for _, body, _ in server.asked]
    np.testing.assert_allclose(got.log_probs, want_first(), rtol=1e-6)
    assert (body["logprobs"], body.get("top_logprobs")) in ((7, None), (True, 7))
    assert len(server.asked) == 12 and body["max_tokens"] == 1


@pytest.mark.parametrize("way", ["logprob_token_ids", "score"])
def test_token_ids_are_those_that_our_own_scorer_reads(way, tokenizer):
    with running() as server:
        got = scorer(server.address, way, tokenizer=tokenizer).score(TEXTS, LABELS)
    prompts, labels = encode(tokenizer.tokenizer, TEXTS, LABELS, tokenizer.bos)
    expected = [
        [nats(str(prompt), token_of(ids[0])) - 1 for ids in of]
        for prompt, of in zip(prompts, labels, strict=True)
    ]
    np.testing.assert_allclose(got.log_probs, expected, rtol=1e-5)
    assert got.tokens.tolist() == [len(prompt) for prompt in prompts]


def test_a_progress_bar_hears_of_every_row():
    heard = []
    with running() as server:
        scorer(server.address).score(TEXTS, LABELS, progress=heard.append)
    assert heard == sorted(heard) and heard[-1] == 12


def test_a_notebook_has_a_loop_of_its_own():
    async def cell(address):
        return scorer(address).score(TEXTS, LABELS).log_probs

    with running() as server:
        np.testing.assert_allclose(asyncio.run(cell(server.address)), want(), rtol=1e-6)


# Labels that are not among the likeliest tokens


def without(label, rows):
    """A server whose lists lack a label in some rows."""

    def fault(_, path, body):
        said = answer(path, body)
        if body["prompt"] in [TEXTS[row] for row in rows]:
            del said["choices"][0]["logprobs"]["top_logprobs"][0][label]
        return Reply(said)

    return fault


def test_a_missing_label_is_censored_and_another_rule_asks_nothing_again(tmp_path):
    path = tmp_path / "answers"
    with running(without(" positive", [1, 4])) as server:
        least = scorer(server.address, "top_k", answers=path)
        got = least.score(TEXTS, LABELS).log_probs
        rows = [min(v for t, v in first_tokens(TEXTS[i]).items() if t != " positive")
                for i in (1, 4)]  # fmt: skip
        np.testing.assert_allclose(got[[1, 4], 1], np.array(rows) - 1e-3, rtol=1e-6)
        assert least.notes[-1].startswith("2 answers lack a label among their 20 likeliest")
        drop = scorer(server.address, "top_k", answers=path, missing="drop")
        dropped = drop.score(TEXTS, LABELS)
        assert sorted(dropped.failed) == [1, 4] and np.isnan(dropped.log_probs[1]).all()
        fixed = scorer(server.address, "top_k", answers=path, missing="-30")
        assert fixed.score(TEXTS, LABELS).log_probs[4, 1] == -30
        assert len(server.asked) == 12
    assert len({str(one.identity) for one in (least, drop, fixed)}) == 3


def test_a_label_that_no_answer_has_is_told():
    with running(without(" positive", range(12))) as server:
        least = scorer(server.address, "top_k")
        got = least.score(TEXTS, LABELS).log_probs
        rows = [min(v for t, v in first_tokens(text).items() if t != " positive") for text in TEXTS]
        np.testing.assert_allclose(got[:, 1], np.array(rows) - 1e-3, rtol=1e-6)
        drop = scorer(server.address, "top_k", missing="drop")
        failed = drop.score(TEXTS, LABELS).failed
    assert len(failed) == 12 and failed[3].startswith("No answer has a token of the label 'positiv")
    for asks in (least, drop):
        assert asks.notes[-1] == failed[0]


def test_little_mass_is_told():
    def fault(_, path, body):
        tops = {token: value - 4 for token, value in first_tokens(body["prompt"]).items()}
        return Reply(completion(" the", {"top_logprobs": [tops]}))

    with running(fault) as server:
        asks = scorer(server.address, "top_k")
        asks.score(TEXTS, LABELS)
    assert asks.notes[0].startswith("All labels together have ") and len(asks.notes) == 1


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
            await pace.turn()
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


@pytest.mark.parametrize(
    "reply",
    [
        Reply("busy", 429),
        Reply("broken", 500),
        Reply("<html>", 502),
        Reply("", 503),
        Reply(drop=True),
        Reply('{"choices": [{"te'),
        Reply("[" * 100_000),
        Reply('{"a": "\\ud800"}'),
    ],
)
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


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.0),
        ({"retry-after": "Sun, 22 Nov 2026 05:00:09 GMT",
          "date": "Sun, 22 Nov 2026 05:00:00 GMT"}, 9.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
def test_the_server_says_when_to_come_again(headers, seconds, status):
    time, sent = Time(), []

    def handler(request):
        sent.append(time.now)
        if len(sent) == 1:
            return httpx2.Response(status, headers=headers)
        return httpx2.Response(200, json={})

    asyncio.run(ask(handler, time))
    assert len(sent) == 2
    assert sent[1] - sent[0] == seconds if seconds else 0.5 <= sent[1] - sent[0] <= 1.0


def test_a_busy_server_is_left_alone_by_all():
    time, sent = Time(), []

    def handler(request):
        sent.append(time.now)
        if len(sent) == 1:
            return httpx2.Response(429, headers={"retry-after": "30"})
        return httpx2.Response(200, json={})

    async def run():
        async with httpx2.AsyncClient(
            base_url="http://127.0.0.1/v1", transport=httpx2.MockTransport(handler)
        ) as connection:
            client = Client(Server("http://127.0.0.1/v1"), connection, time.pace())
            await client.ask(Asked("a", {}))
            await asyncio.gather(*(client.ask(Asked("a", {})) for _ in range(3)))

    asyncio.run(run())
    assert sent[0] == 0 and min(sent[1:]) >= 30


async def ask(handler, time, jitter=lambda: 1.0):
    server = Server("http://127.0.0.1/v1")
    async with httpx2.AsyncClient(
        base_url=server.address, transport=httpx2.MockTransport(handler)
    ) as connection:
        return await Client(server, connection, time.pace(), jitter).ask(Asked("completions", {}))


@pytest.mark.parametrize("error", [httpx2.ReadTimeout, httpx2.ConnectTimeout, httpx2.ReadError])
def test_waits_double_and_end(error):
    def handler(request):
        raise error("key in request", request=request)

    time = Time()
    with pytest.raises(InputError, match=rf"none in 8 attempts, the last time {error.__name__}"):
        asyncio.run(ask(handler, time))
    assert time.slept == [1, 2, 4, 8, 16, 32, 60]
    for jitter in (0.0, 0.5):
        time = Time()
        with pytest.raises(InputError):
            asyncio.run(ask(handler, time, lambda: jitter))  # noqa: B023
        assert time.slept[:3] == [x * (1 + jitter) / 2 for x in (1, 2, 4)]


def test_a_server_that_says_tomorrow_is_not_waited_for():
    time = Time()
    with pytest.raises(InputError, match="none in 1 attempts, the last time status 429"):
        asyncio.run(ask(lambda _: httpx2.Response(429, headers={"retry-after": "86400"}), time))
    assert not time.slept


# Faults that stay


@pytest.mark.parametrize(
    ("status", "text", "sentence"),
    [
        (400, '{"error": {"message": "logprobs must be at most 5"}}',
         r"status 400: 'logprobs must be at most 5'; correct what it names"),
        (401, '{"detail": "who?"}', r"status 401: 'who\?'; put the server's key into .* API_KEY"),
        (404, '{"message": "no model"}', r"status 404: 'no model'; correct config.server"),
        (501, "x" * 1000, r"status 501: 'x{200}\.\.\.'; correct config.server"),
        (307, "", r"status 307: ''; correct what it names"),
        (422, "[1]", r"status 422: \[1\]; correct"),
    ],
)  # fmt: skip
def test_a_final_status_is_a_sentence(status, text, sentence):
    with running(lambda *_: Reply(text, status)) as server:
        time = Time()
        with pytest.raises(InputError, match=sentence):
            scorer(server.address, time=time).score(TEXTS, LABELS)
        assert not time.slept and 8 <= len(server.asked) < 24


def test_a_page_is_no_answer():
    with running(lambda *_: Reply("<html>Welcome")) as server:
        time = Time()
        with pytest.raises(InputError, match=r"expected JSON, got '<html>Welcome'; correct conf"):
            scorer(server.address, time=time).score(TEXTS, LABELS)
        assert not time.slept


def test_no_server_is_told_at_once():
    with running() as server:
        pass
    time = Time()
    with pytest.raises(InputError, match="expected a server, which cannot be reached"):
        scorer(server.address, time=time).score(TEXTS, LABELS)
    assert not time.slept


def changed(path, *keys, to):
    """The right answer with one thing in it changed."""

    def fault(_, where, body):
        said = answer(where, body)
        inner = said
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        return Reply(said)

    return fault


LOGPROBS = ("choices", 0, "logprobs")


@pytest.mark.parametrize(
    ("way", "fault", "sentence"),
    [
        ("echo", changed("", *LOGPROBS, to=None), r"logprobs are null.* try prompt_logprobs"),
        ("echo", changed("", *LOGPROBS, "token_logprobs", to=[-1.0]), "as many tokens"),
        ("echo", lambda *_: Reply(completion("\n", {"tokens": ["\n"], "token_logprobs": [-1.0]})),
         "found those of the answer alone"),
        ("prompt_logprobs", changed("", "choices", 0, "prompt_logprobs", to=None),
         r"prompt_logprobs are null.* try echo"),
        ("top_k", changed("", *LOGPROBS, "top_logprobs", to=[{}]), "no list of the likeliest"),
        ("top_k", changed("", *LOGPROBS, "top_logprobs", to=[{" a": 0.0, " b": 0.0}]),
         "sum to the probability 2"),
        ("top_k", changed("", *LOGPROBS, to=None), r"logprobs are null.* try chat or echo"),
        ("chat", lambda *_: Reply({"choices": [{"logprobs": {"content": None}}]}),
         "no list of the likeliest"),
        ("logprob_token_ids", changed("", *LOGPROBS, "top_logprobs", to=[{"token_id:5": -1.0}]),
         "found none of token_id"),
        ("score", lambda *_: Reply({"scores": [[0.2, 0.2, 0.1]]}), r"expected scores \[1, 2\]"),
        ("score", lambda *_: Reply({"scores": [[0.2, 0.0]]}), "a label's probability is 0"),
        ("score", lambda *_: Reply({"scores": []}), "expected scores"),
        ("score", lambda *_: Reply([1]), "expected a JSON object"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_do_it_is_told_which_way_to_try(
    way, fault, sentence, tokenizer, tmp_path
):
    path = tmp_path / "answers"
    with running(fault) as server:
        with pytest.raises(InputError, match=sentence):
            scorer(server.address, way, tokenizer=tokenizer, answers=path).score(TEXTS, LABELS)
        # What was of no use is not kept.
        asks = scorer(server.address, way, tokenizer=tokenizer, answers=path)
        assert asks.estimate(TEXTS, LABELS).answered == 0


def test_log_probs_that_stand_one_token_too_early_are_refused():
    def shift(_, path, body):
        said = answer(path, body)
        lists = said["choices"][0]["logprobs"]
        lists["tokens"], lists["token_logprobs"] = (lists[x][:-1] for x in lists)
        return Reply(said)

    with running(shift) as server, pytest.raises(InputError, match="each is that of the token bef"):
        scorer(server.address).score(TEXTS, LABELS)


def test_a_log_probability_above_0_is_refused():
    def fault(_, path, body):
        said = answer(path, body)
        said["choices"][0]["logprobs"]["token_logprobs"][-2] += 30
        return Reply(said)

    with running(fault) as server, pytest.raises(InputError, match=r"at most 0, got 2\d\."):
        scorer(server.address).score(TEXTS, LABELS)


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_scores_that_are_all_equal_are_refused(value, tmp_path):
    def fault(_, path, body):
        said = answer(path, body)
        lists = said["choices"][0]["logprobs"]
        lists["token_logprobs"] = [None] + [value] * (len(lists["tokens"]) - 1)
        return Reply(said)

    told = r"every score is .* Try prompt_logprobs .*, or mend it, move .*/answers away"
    with running(fault) as server, pytest.raises(InputError, match=told):
        scorer(server.address, answers=tmp_path / "answers").score(TEXTS, LABELS)


WRONG = [None, 1, "a", [], {}, [None], {"choices": None}, {"choices": []}, {"choices": [None]},
         {"choices": [{"logprobs": 3}]}, {"choices": [{"logprobs": {"content": [{}]}}]},
         {"choices": [{"logprobs": {"tokens": 1, "token_logprobs": [None, "x"]}}]},
         {"choices": [{"text": 3, "logprobs": {"tokens": [1], "token_logprobs": [1e400]}}]},
         {"choices": [{"logprobs": {"top_logprobs": [{"a": "b"}], "token_logprobs": []}}]},
         {"choices": [{"logprobs": {"top_logprobs": [{" positive": math.nan}]}}]},
         {"choices": [{"prompt_logprobs": [None, 3]}]}, {"scores": [["a"]]},
         {"scores": [[math.nan]]}, {"error": "x"}]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_an_answer_of_any_shape_is_a_sentence(way, value, tokenizer):
    with running(lambda *_: Reply(value)) as server, pytest.raises(InputError):
        scorer(server.address, way, tokenizer=tokenizer).score(TEXTS[:2], LABELS)


def damaged(value, random):
    """A JSON value of which one part is another, or is gone."""
    if isinstance(value, dict | list) and value and random.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(keys)
        changed = dict(value) if isinstance(value, dict) else list(value)
        if random.random() < 0.1:
            del changed[key]
        else:
            changed[key] = damaged(value[key], random)
        return changed
    return random.choice([None, 0, -1.5, 1e308, math.nan, -math.inf, True, "", "\ud800", [], {},
                          " positive", [[]], [None] * 3, {"logprob": -1}, 10**400])  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_answer_is_a_sentence_or_a_number(way, tokenizer):
    draws = random.Random(0)
    asks = scorer("http://127.0.0.1/v1", way, tokenizer=tokenizer)
    ((place, asked), *_) = asks._questions(TEXTS[:1], LABELS)
    right, refused = answer(f"/v1/{asked.path}", asked.body), 0
    for _ in range(500):
        value = damaged(right, draws)
        try:
            part = WAYS[way].read(value, place.question, place.number)
        except InputError:
            refused += 1
            continue
        numbers = part.values() if isinstance(part, dict) else part
        assert all(type(number) is float for number in numbers)
    assert 50 < refused < 500


# What was answered is kept


def test_one_request_that_fails_for_good_loses_no_other(tmp_path):
    path = tmp_path / "answers"

    def fault(_, where, body):
        return Reply("too long", 400) if body["prompt"].startswith(TEXTS[3]) else None

    with running(fault) as server:
        with pytest.raises(InputError, match=r"^2 of 24 requests have no answer\. .*'too long'"):
            scorer(server.address, answers=path).score(TEXTS, LABELS)
        assert len(server.asked) == 24
        server.fault = lambda *_: None
        again = scorer(server.address, answers=path)
        assert again.estimate(TEXTS, LABELS)[::2] == (2, 22)
        np.testing.assert_allclose(again.score(TEXTS, LABELS).log_probs, want(), rtol=1e-6)
        assert len(server.asked) == 26
        again.score(TEXTS, LABELS)
        assert len(server.asked) == 26


@pytest.mark.parametrize("answered", [1, 5, 23])
def test_a_run_that_is_stopped_goes_on(tmp_path, answered):
    path = tmp_path / "answers"
    heard = []

    def stop(done):
        heard.append(done)
        if len(heard) == answered + 1:
            raise KeyboardInterrupt

    with running() as server:
        with pytest.raises(KeyboardInterrupt):
            scorer(server.address, answers=path, in_flight=1).score(TEXTS, LABELS, progress=stop)
        assert len(server.asked) == answered + 1
        got = scorer(server.address, answers=path, in_flight=1).score(TEXTS, LABELS)
        # The answer that came with the interruption alone is asked for again.
        assert len(server.asked) == 25
    np.testing.assert_allclose(got.log_probs, want(), rtol=1e-6)


def test_another_model_server_or_way_has_answers_of_its_own(tmp_path):
    path = tmp_path / "answers"
    with running() as one, running() as two:
        scorer(one.address, "top_k", answers=path).score(TEXTS, LABELS)
        scorer(two.address, "top_k", answers=path).score(TEXTS, LABELS)
        scorer(one.address, "chat", answers=path).score(TEXTS, LABELS)
        settings = ApiSettings(server=one.address, api_scores="top_k")
        ApiScorer(settings, "other", None, path, Time().pace()).score(TEXTS, LABELS)
        assert (len(one.asked), len(two.asked)) == (36, 12)


def test_a_damaged_file_of_answers_is_a_sentence(tmp_path):
    path = tmp_path / "answers"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"expected the answers of earlier runs, .* move the file"):
        scorer("http://127.0.0.1:9/v1", answers=path).score(TEXTS, LABELS)


def test_a_transaction_that_was_cut_short_loses_the_last_answer_alone(tmp_path):
    path, server = tmp_path / "answers", "http://127.0.0.1/v1"
    asked = [Asked("completions", {"prompt": str(i)}) for i in range(3)]
    with Answers(path).opened() as answers:
        for one in asked:
            answers.keep(server, one, '{"a": 1}')
    with Answers(path).opened() as answers:
        answers._rows.execute("BEGIN")
        answers._rows.execute("DELETE FROM answers")
        # Closed without a commit, as when the process is killed.
    with Answers(path).opened() as answers:
        assert [answers.get(server, one) for one in asked] == [{"a": 1}] * 3


# The key


def test_the_key_is_sent_and_written_nowhere(tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "answers"

    def repeat(number, where, body):
        if number % 5 == 0:
            return Reply(f"no quota for {KEY}", 503)
        said = answer(where, body)
        return Reply({**said, "debug": f"Bearer {KEY}"})

    with running(repeat) as server:
        asks = scorer(server.address, answers=path, key_variable="MY_KEY")
        asks.score(TEXTS, LABELS)
        sent = {
            headers.get("authorization", headers.get("Authorization"))
            for *_, headers in server.asked
        }
        assert sent == {f"Bearer {KEY}"}
        server.fault = lambda *_: Reply(f"wrong key {KEY}", 401)
        with pytest.raises(InputError, match=r"correct the key in the .* MY_KEY") as refused:
            scorer(server.address, key_variable="MY_KEY").score(TEXTS, LABELS)
        assert "wrong key ..." in str(refused.value)
    with Answers(path).opened() as answers:
        kept = [
            zlib.decompress(row[0]) for row in answers._rows.execute("SELECT answer FROM answers")
        ]
    assert len(kept) == 24 and b"Bearer ..." in kept[0]
    told = [str(refused.value), repr(asks._server), str(asks.identity), caplog.text, *asks.notes]
    files = [one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()]
    for text in (*told, *capfd.readouterr(), *kept, *files):
        assert KEY not in (text if isinstance(text, str) else text.decode(errors="replace"))


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("", "such as http://127.0.0.1:8000/v1, got ''"),
        ("127.0.0.1:8000", "such as http://"),
        ("ftp://a/v1", "such as http://"),
        ("http://", "such as http://"),
        ("http://a:b/v1", "such as http://"),
        ("http://a b/v1", "such as http://"),
        ("http://a\n/v1", "such as http://"),
        (f"http://me:{KEY}@host/v1", "got one for host; put a key into .* API_KEY"),
        (f"http://host/v1?key={KEY}", "got one for host"),
    ],
)
def test_an_address_is_checked_and_holds_no_key(server, sentence):
    with pytest.raises(InputError, match=sentence) as refused:
        scorer(server)
    assert KEY not in str(refused.value)


def test_a_placeholder_for_a_key_changes_no_answer(monkeypatch):
    monkeypatch.setenv("API_KEY", "positive"[:3])
    with running() as server:
        got = scorer(server.address).score(TEXTS, LABELS)
    np.testing.assert_allclose(got.log_probs, want(), rtol=1e-6)


@pytest.mark.parametrize("key", ["sk-\N{EN DASH}planted", "sk-planted\r\nX: y"])
def test_a_key_that_no_header_can_hold_is_refused_without_it(monkeypatch, key):
    monkeypatch.setenv("API_KEY", key)
    with pytest.raises(InputError, match="API_KEY: expected a key of printable ASCII") as refused:
        scorer("http://127.0.0.1/v1")
    assert "planted" not in str(refused.value)


# The rest


def test_the_estimate_counts_what_is_not_answered(tokenizer, tmp_path):
    with running() as server:
        for own in (tokenizer, None):
            asks = scorer(server.address, answers=tmp_path / "a", tokenizer=own)
            tokens = sum(a + b for a in count_tokens(TEXTS, own) for b in count_tokens(LABELS, own))
            assert asks.estimate(TEXTS, LABELS) == (24, tokens, 0)
            assert not server.asked
        asks.score(TEXTS[:4], LABELS)
        assert asks.estimate(TEXTS, LABELS)[::2] == (16, 8)
        assert asks.estimate(TEXTS[:4], LABELS) == (0, 0, 8)


def test_settings_that_do_not_go_together_are_refused(tokenizer):
    address = "http://127.0.0.1/v1"
    with pytest.raises(
        InputError, match=r"config\.tokenizer: config\.api_scores=score sends token"
    ):
        scorer(address, "score")
    with pytest.raises(InputError, match="missing: expected 'least', 'drop' or a number"):
        scorer(address, "top_k", missing="most")
    with pytest.raises(
        InputError, match=r"config\.model: expected what the server calls the model"
    ):
        ApiScorer(ApiSettings(server=address), "")
    with pytest.raises(InputError, match="'api' sends text alone"):
        scorer(address).score(ImageInputs([]), LABELS)
    asks = scorer(address, "score", tokenizer=tokenizer)
    with pytest.raises(InputError, match=r"row 0: the label ' not good' is \d tokens"):
        asks.score(TEXTS, (" not good", " positive"))
    with pytest.raises(InputError, match="expected a prompt of two tokens or more"):
        asks.score([" film"], LABELS)


def test_the_identity_names_what_decides_the_numbers_alone(tokenizer):
    address = "http://127.0.0.1/v1"
    usual = scorer(address).identity
    assert usual == {"kind": "api", "version": "1", "server": address, "model": "m",
                     "api_scores": "echo"}  # fmt: skip
    same = {"in_flight": 2, "per_minute": 9, "timeout": 5.0, "price": 3.0, "key_variable": "K",
            "missing": "drop", "top_logprobs": 3}  # fmt: skip
    assert scorer(address, tokenizer=tokenizer, **same).identity == usual
    top = scorer(address, "top_k")
    assert top.identity | {"top_logprobs": 3} == scorer(address, "top_k", top_logprobs=3).identity
    assert "tokenizer" in scorer(address, "score", tokenizer=tokenizer).identity


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    with pytest.raises(InputError, match=r"pip install 'batch-calibration\[api\]'"):
        clients.connect(Server("http://127.0.0.1/v1"), 1.0)
