"""The scorer "api" against a small server of ours: ways of asking, missing labels, the estimate."""

import asyncio

import api_server
import numpy as np
import pytest
from api_server import LABELS, TEXTS, Reply, answer, running, scorer, want, want_first, want_ids

from batch_calibration.arrays.missing_scores import BELOW
from batch_calibration.scoring.api import client as clients
from batch_calibration.scoring.api.scorer import ApiScorer, count_tokens
from batch_calibration.scoring.api.server import Server
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.inputs import ImageInputs
from batch_calibration.settings import ApiSettings

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
    sum_of_both = np.logaddexp(*want(labels=labels)[:, 1:].T)
    np.testing.assert_allclose(several[:, 1], sum_of_both, rtol=1e-6)


@pytest.mark.parametrize("way", ["top_k", "chat"])
def test_first_tokens_are_those_of_the_labels(way):
    with running() as server:
        got = scorer(server.address, way, top_logprobs=7).score(TEXTS, LABELS)
        (body, *_) = [body for _, body, _ in server.asked]
    np.testing.assert_allclose(got.log_probs, want_first(), rtol=1e-6)
    assert (body["logprobs"], body.get("top_logprobs")) in ((7, None), (True, 7))
    assert len(server.asked) == 12 and body["max_tokens"] == 1


@pytest.mark.parametrize("way", ["logprob_token_ids", "score"])
def test_token_ids_are_those_that_our_own_scorer_reads(way, tokenizer):
    with running() as server:
        got = scorer(server.address, way, tokenizer=tokenizer).score(TEXTS, LABELS)
    np.testing.assert_allclose(got.log_probs, want_ids(tokenizer), rtol=1e-5)
    prompts, _ = encode(tokenizer.tokenizer, TEXTS, LABELS, tokenizer.bos)
    assert got.tokens.tolist() == list(map(len, prompts))


def test_a_study_can_ask_for_decisions_with_options_in_the_order_of_their_names():
    with running() as server:
        asks = scorer(server.address, "systemone")
        assert asks.estimate(TEXTS, LABELS).requests == len(TEXTS)
        got = asks.score(TEXTS, LABELS).log_probs
        turned = scorer(server.address, "systemone").score(TEXTS, LABELS[::-1]).log_probs
        assert len(server.asked) == 2 * len(TEXTS)
        for _, body, _ in server.asked:
            (question,) = body["questions"].values()
            assert list(question["criteria"]) == ["negative", "positive"]
            assert body["state"] in TEXTS and question["type"] == "choice"
    raw = np.array([[api_server.nats(text, label) for label in LABELS] for text in TEXTS])
    want = raw - np.log(np.exp(raw).sum(1, keepdims=True))
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(turned, want[:, ::-1], atol=1e-5)


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
        reply = answer(path, body)
        if body["prompt"] in [TEXTS[row] for row in rows]:
            del reply["choices"][0]["logprobs"]["top_logprobs"][0][label]
        return Reply(reply)

    return fault


def below_the_list(texts):
    """What " positive" has where no list holds it."""
    lists = [api_server.first_tokens(text) | {" positive": 0.0} for text in texts]
    return [min(tops.values()) - BELOW for tops in lists]


def test_a_missing_label_is_censored_and_another_rule_asks_nothing_again(tmp_path):
    path = tmp_path / "answers"
    with running(without(" positive", [1, 4])) as server:
        filling = scorer(server.address, "top_k", answers=path)
        got = filling.score(TEXTS, LABELS).log_probs
        np.testing.assert_allclose(got[[1, 4], 1], below_the_list([TEXTS[1], TEXTS[4]]), rtol=1e-6)
        assert filling.notes[-1].startswith("2 answers lack a label among their 20 most probable")
        drop = scorer(server.address, "top_k", answers=path, missing="drop")
        dropped = drop.score(TEXTS, LABELS)
        assert sorted(dropped.failed) == [1, 4] and np.isnan(dropped.log_probs[1]).all()
        fixed = scorer(server.address, "top_k", answers=path, missing="-30")
        assert fixed.score(TEXTS, LABELS).log_probs[4, 1] == -30
        assert len(server.asked) == 12
    assert len({str(asker.identity) for asker in (filling, drop, fixed)}) == 3


def test_a_label_that_no_answer_has_is_told():
    with running(without(" positive", range(12))) as server:
        scorer_of_least = scorer(server.address, "top_k")
        got = scorer_of_least.score(TEXTS, LABELS).log_probs
        np.testing.assert_allclose(got[:, 1], below_the_list(TEXTS), rtol=1e-6)
        drop = scorer(server.address, "top_k", missing="drop")
        failed = drop.score(TEXTS, LABELS).failed
    assert len(failed) == 12 and failed[3].startswith("No answer has a token of the label 'positiv")
    for asks in (scorer_of_least, drop):
        assert asks.notes[-1] == failed[0]


# The rest


def test_the_estimate_counts_what_is_not_answered(tokenizer, tmp_path):
    with running() as server:
        for own in (tokenizer, None):
            asks = scorer(server.address, answers=tmp_path / "a", tokenizer=own)
            tokens = sum(a + b for a in count_tokens(TEXTS, own) for b in count_tokens(LABELS, own))
            assert asks.estimate(TEXTS, LABELS)[:3] == (24, tokens, 0)
            assert not server.asked
        asks.score(TEXTS[:4], LABELS)
        assert asks.estimate(TEXTS, LABELS)[:3:2] == (16, 8)
        assert asks.estimate(TEXTS[:4], LABELS)[:3] == (0, 0, 8)


def test_settings_that_do_not_go_together_are_refused(tokenizer, refuses):
    address = "http://127.0.0.1/v1"
    assert refuses(scorer, address, "score").key == "tokenizer"
    assert refuses(scorer, address, "top_k", missing="most").got == "'most'"
    assert refuses(ApiScorer, ApiSettings(server=address), "").key == "model"
    assert "image" in str(refuses(scorer(address).score, ImageInputs([]), LABELS))
    asks = scorer(address, "score", tokenizer=tokenizer)
    assert "label ' not good'; got 2" in str(refuses(asks.score, TEXTS, (" not good", " positive")))
    assert refuses(asks.score, [" film"], LABELS).got == "' film'"


def test_the_identity_names_what_decides_the_numbers_alone(tokenizer):
    address = "http://127.0.0.1/v1"
    usual = scorer(address).identity
    expected = {"kind": "api", "version": "1", "server": address, "model": "m"}
    assert usual == expected | {"api_scores": "echo"}
    ignored = {"in_flight": 2, "per_minute": 9, "timeout": 5.0, "price": 3.0, "missing": "drop"}
    ignored |= {"key_variable": "K", "top_logprobs": 3}
    assert scorer(address, tokenizer=tokenizer, **ignored).identity == usual
    top = scorer(address, "top_k")
    assert top.identity | {"top_logprobs": 3} == scorer(address, "top_k", top_logprobs=3).identity
    assert "tokenizer" in scorer(address, "score", tokenizer=tokenizer).identity


def test_without_the_library_the_extra_is_named(monkeypatch, refuses):
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    error = refuses(clients.connect, Server("http://127.0.0.1/v1"), 1.0)
    assert error.key == "scorer" and "[api]" in error.remedy
