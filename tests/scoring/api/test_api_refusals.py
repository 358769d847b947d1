"""Useless answers of a server raise a sentence that names another way to ask."""

import random

import pytest
from api_asking import TEXTS, Time, scorer
from api_server import LABELS, Reply, answer, completion, running
from fuzz import VALUES, other

from batch_calibration.errors import InputError
from batch_calibration.scoring.api.protocols import PROTOCOLS

# Faults that stay


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, '{"error": {"message": "logprobs must be at most 5"}}'),
        (401, '{"detail": "who?"}'),
        (404, '{"message": "no model"}'),
        (501, "x" * 1000),
        (307, ""),
        (422, "[1]"),
        (200, "<html>Welcome"),
    ],
)
def test_a_final_status_or_a_page_is_a_sentence(status, text, refuses):
    with running(lambda *_: Reply(text, status)) as server:
        time = Time()
        refuses(scorer(server.address, time=time).score, TEXTS, LABELS)
        assert not time.slept and 8 <= len(server.asked) < 24


def test_a_decision_of_other_options_is_refused(refuses):
    reply = {"answers": {"label": {"probabilities": {"negative": 0.5, "other": 0.5}}}}
    with running(lambda *_: Reply(reply)) as server:
        refuses(scorer(server.address, "systemone").score, TEXTS, LABELS)


def test_no_server_is_told_at_once(refuses):
    with running() as server:
        pass
    time = Time()
    refuses(scorer(server.address, time=time).score, TEXTS, LABELS)
    assert not time.slept


def changed(path, *keys, to):
    """The right answer with one thing in it changed."""

    def fault(_, where, body):
        reply = answer(where, body)
        inner = reply
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        return Reply(reply)

    return fault


LOGPROBS = ("choices", 0, "logprobs")


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("echo", changed("", *LOGPROBS, to=None)),
        ("echo", changed("", *LOGPROBS, "token_logprobs", to=[-1.0])),
        ("echo", lambda *_: Reply(completion("\n", {"tokens": ["\n"], "token_logprobs": [-1.0]}))),
        ("prompt_logprobs", changed("", "choices", 0, "prompt_logprobs", to=None)),
        ("top_k", changed("", *LOGPROBS, "top_logprobs", to=[{}])),
        ("top_k", changed("", *LOGPROBS, "top_logprobs", to=[{" a": 0.0, " b": 0.0}])),
        ("top_k", changed("", *LOGPROBS, to=None)),
        ("chat", lambda *_: Reply({"choices": [{"logprobs": {"content": None}}]})),
        ("logprob_token_ids", changed("", *LOGPROBS, "top_logprobs", to=[{"token_id:5": -1.0}])),
        ("score", lambda *_: Reply({"scores": [[0.2, 0.2, 0.1]]})),
        ("score", lambda *_: Reply({"scores": [[0.2, 0.0]]})),
        ("score", lambda *_: Reply({"scores": []})),
        ("score", lambda *_: Reply([1])),
    ],
)
def test_a_server_that_cannot_do_it_is_told_which_way_to_try(
    way, fault, tokenizer, tmp_path, refuses
):
    path = tmp_path / "answers"
    with running(fault) as server:
        refuses(scorer(server.address, way, tokenizer=tokenizer, answers=path).score, TEXTS, LABELS)
        # What was of no use is not kept.
        asks = scorer(server.address, way, tokenizer=tokenizer, answers=path)
        assert asks.estimate(TEXTS, LABELS).answered == 0


def test_log_probs_that_stand_one_token_too_early_are_refused(refuses):
    def shift(_, path, body):
        reply = answer(path, body)
        lists = reply["choices"][0]["logprobs"]
        lists["tokens"], lists["token_logprobs"] = (lists[x][:-1] for x in lists)
        return Reply(reply)

    with running(shift) as server:
        refuses(scorer(server.address).score, TEXTS, LABELS)


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_scores_that_are_all_equal_are_refused(value, tmp_path, refuses):
    def fault(_, path, body):
        reply = answer(path, body)
        lists = reply["choices"][0]["logprobs"]
        lists["token_logprobs"] = [None] + [value] * (len(lists["tokens"]) - 1)
        return Reply(reply)

    with running(fault) as server:
        refuses(scorer(server.address, answers=tmp_path / "answers").score, TEXTS, LABELS)


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
