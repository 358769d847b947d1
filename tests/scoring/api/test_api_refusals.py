"""Useless answers of a server raise a sentence that names another way to ask."""

import random

import pytest
from api_asking import TEXTS, Time, scorer
from api_server import LABELS, Reply, answer, running
from damage import VALUES, other

from batch_calibration.errors import InputError
from batch_calibration.scoring.api.protocols import PROTOCOLS

# Faults that stay


@pytest.mark.parametrize(
    ("status", "text", "got"),
    [
        (
            400,
            '{"error": {"message": "logprobs must be at most 5"}}',
            "'logprobs must be at most 5'",
        ),
        (401, '{"detail": "who?"}', "'who?'; put the server's key"),
        (404, '{"message": "no model"}', "'no model'"),
        (501, "x" * 1000, f"'{'x' * 199}..."),
        (422, "[1]", "'[1]'"),
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
