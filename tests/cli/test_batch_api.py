"""Files of requests, sent by examples/batch_api.py, give the scores of a server asked directly."""

import json
import runpy
import sys
from pathlib import Path

import api_server
import batch_server
import jax.numpy as jnp
import numpy as np
import pytest
from naive_scoring import whole_log_softmax
from table_scores import equal, scores

from batch_calibration import cli
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "batch_api.py"
STUDY = ("--data=mini", "--tasks=sst2", "--limit=20", "--shots=0", "--model=m")
ASKED = 64  # requests of the study: one for each prompt


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("API_KEY", "a secret of twenty letters")


@pytest.fixture
def send(monkeypatch):
    """Runs the example for the workdir W."""

    def run(server):
        words = [str(EXAMPLE), "W", f"--server={server.address}", "--seconds=0"]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(EXAMPLE), run_name="__main__")

    return run


def write(*flags, study=STUDY):
    cli.run(["requests", *study, "--workdir=W", *flags])


def bring(code=0):
    """Runs `answers`, which fails while contexts lack answers."""
    if code:
        with pytest.raises(SystemExit):
            cli.run(["answers", "W", "W/answers"])
    else:
        cli.run(["answers", "W", "W/answers"])


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """The scores of the study, from the same answers asked for one by one."""
    workdir = tmp_path_factory.mktemp("direct")
    with api_server.running() as server:
        asks = ("--scorer=api", f"--server={server.address}", "--api_scores=chat")
        cli.run(["score", *STUDY, *asks, f"--workdir={workdir}"])
        assert len(server.asked) == ASKED
    return scores(workdir)


def test_batches_give_the_scores_of_the_server_and_are_sent_once(send, direct, capsys):
    write("--shard-size=30")
    with batch_server.running() as server:
        send(server)
        assert server.count("POST", "files") == server.count("POST", "batches") == 3
        server.asked.clear()
        send(server)
        assert server.asked == []
    bring()
    equal(scores("W"), direct)
    shown = capsys.readouterr()
    assert "next: batch-calibration answers W W/answers" in shown.out
    assert f"{ASKED} requests: {ASKED} answered, 0 refused, 0 missing" in shown.out
    texts = [*Path("W/requests").glob("*"), *Path("W/answers").glob("*")]
    written = "".join(path.read_text() for path in texts)
    assert "secret" not in f"{shown}{written}"
    assert {ids["end"] for ids in kept().values()} == {"answered"}


def kept():
    return json.loads(Path("W/requests/batches.json").read_text())


def every(number, status, seen):
    """A fault of each `number`-th line, at the first time that its request comes."""

    def fault(line):
        is_first = line["custom_id"] not in seen
        seen.add(line["custom_id"])
        return status if is_first and len(seen) % number == 0 else 200

    return fault


@pytest.mark.parametrize("status", [500, batch_server.EXPIRED])
def test_a_second_batch_has_the_requests_that_failed_or_expired(send, direct, capsys, status):
    write()
    with batch_server.running() as server:
        server.fault = every(8, status, set())
        send(server)
        bring(code=1)
        shown = capsys.readouterr().out
        assert f"{ASKED} lines of 2 files: 8 failed, 56 new" in shown
        assert f"{ASKED} requests: 56 answered, 0 refused, 8 missing" in shown
        first = set(kept())
        cli.run(["requests", "--workdir=W"])
        send(server)
        (path,) = Path("W/requests").glob("*.jsonl")
        assert len(path.read_text().splitlines()) == 8 and len(set(kept()) - first) == 1
        assert server.count("POST", "files") == 2
    bring()
    equal(scores("W"), direct)


def test_refused_requests_are_final_and_cost_their_rows(send, direct, capsys):
    write()
    with batch_server.running() as server:
        server.fault = every(16, 400, set())
        send(server)
    bring()
    shown = capsys.readouterr().out
    assert "the first refused line: status 400: 'refused'" in " ".join(shown.split())
    assert "60 answered, 4 refused, 0 missing" in shown
    left, whole = (sum(map(len, found.values())) for found in (scores("W"), direct))
    assert whole - 4 <= left < whole
    assert {ids["end"] for ids in kept().values()} == {"answered"}


def test_a_batch_without_an_answer_is_sent_again(send, direct, capsys):
    write()
    with batch_server.running() as server:
        server.refuses = True
        send(server)
        assert "batch_0: failed, None too many tokens" in capsys.readouterr().out
        server.refuses, server.fault = False, lambda line: 500
        send(server)
        bring(code=1)
        cli.run(["requests", "--workdir=W"])
        server.fault = lambda line: 200
        send(server)
        assert server.count("POST", "files") == 3
    bring()
    equal(scores("W"), direct)


class Killed(BaseException):
    """The process is gone."""


def test_a_stopped_run_goes_on_and_a_batch_is_not_created_twice(send, direct, monkeypatch, capsys):
    write("--shard-size=30")
    with batch_server.running() as server:
        replace, moves = Path.replace, []

        def stop(path, target):
            moves.append(path)
            if len(moves) == 4:  # the id of the second batch
                raise Killed
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", stop)
        with pytest.raises(Killed):
            send(server)
        monkeypatch.setattr(Path, "replace", replace)
        assert server.count("POST", "batches") == 2 and len(kept()) == 2
        server.away = 3
        send(server)
        assert server.count("POST", "files") == server.count("POST", "batches") == 3
        assert "status 503" in capsys.readouterr().err
    bring()
    equal(scores("W"), direct)


def test_new_files_wait_for_the_batches_of_replaced_ones(send, direct, capsys):
    write("--shard-size=30")
    with batch_server.running() as server:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr("time.sleep", stop)
            send(server)
        write("--shard-size=40")
        send(server)
        assert server.count("POST", "batches") == 3
    assert "no other file was sent" in capsys.readouterr().out
    bring()
    equal(scores("W"), direct)


def stop(_):
    raise Killed


def test_the_key_is_hidden_where_the_server_repeats_it(send, monkeypatch):
    write()
    with batch_server.running() as server:
        monkeypatch.setenv("API_KEY", wrong := server.key[::-1])
        with pytest.raises(SystemExit) as caught:
            send(server)
    assert "POST files: status 401" in str(caught.value) and "..." in str(caught.value)
    assert wrong not in str(caught.value)


@pytest.mark.parametrize("form", ["openai", "vllm"])
def test_files_have_the_published_form(form):
    """vLLM's BatchRequestInput has these four members, too; its url is /v1/chat/completions."""
    write(f"--form={form}", "--shard-size=30")
    paths = sorted(Path("W/requests").glob("*.jsonl"))
    contents = [path.read_bytes() for path in paths]
    assert [content.count(b"\n") for content in contents] == [30, 30, 4]
    for content in contents:
        assert batch_server.line_errors(content, "/v1/chat/completions") == []
        for line in map(json.loads, content.splitlines()):
            body = line["body"]
            (message,) = body.pop("messages")
            assert message["role"] == "user" and isinstance(message["content"], str)
            # Types and ranges of ChatCompletionRequest.
            assert body == {
                "model": "m", "max_tokens": 1, "temperature": 0, "logprobs": True,
                "top_logprobs": 20,
            }  # fmt: skip
    ids = [json.loads(line)["custom_id"] for line in b"".join(contents).splitlines()]
    assert len(set(ids)) == ASKED


def test_completions_have_an_endpoint_of_their_own():
    write("--api_scores=top_k")
    (path,) = Path("W/requests").glob("*.jsonl")
    assert batch_server.line_errors(path.read_bytes(), "/v1/completions") == []


ENGINE = ("--data=mini", "--tasks=sst2", "--limit=10", "--dc_texts=2", "--model=mini")


@pytest.fixture(scope="module")
def checkpoint():
    return load_checkpoint(CHECKPOINTS["mini"])


def echo(checkpoint):
    """An engine that returns the log-probabilities of a prompt's tokens, one at a time."""
    tokenizer, size = checkpoint.tokenizer, checkpoint.config.positions

    def answer(path, body):
        assert path == "/v1/completions" and body["echo"] and body["logprobs"] == 1
        encoded = tokenizer.encode(body["prompt"], add_special_tokens=False)
        start = [] if checkpoint.bos is None else [checkpoint.bos]
        sequence = [*start, *encoded.ids]
        padded = jnp.array([sequence + [0] * (size - len(sequence))], jnp.int32)
        log_probs = np.asarray(whole_log_softmax(checkpoint.model, padded))[0]
        places = list(zip(log_probs, sequence[1:], strict=False))
        listed = [None, *(float(place[token]) for place, token in places), -0.5]
        texts = [tokenizer.id_to_token(token) for token in start]
        texts += [body["prompt"][i:j] for i, j in encoded.offsets]
        lists = {"tokens": [*texts, "\n"], "token_logprobs": listed}
        return api_server.completion(body["prompt"] + "\n", lists)

    return answer


@pytest.mark.slow
def test_the_embedded_model_behind_the_batch_api_scores_as_it_does_here(send, checkpoint):
    write("--api_scores=echo", study=ENGINE)
    with batch_server.running(answer=echo(checkpoint)) as server:
        send(server)
    bring()
    cli.run(["score", *ENGINE, "--workdir=here"])
    equal(scores("W"), scores("here"), 1e-5)
