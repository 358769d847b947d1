"""The scorer "api" against a real server, llama.cpp's, that holds the embedded language model."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from batch_calibration.errors import InputError
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.models.layers import ACTIVATIONS
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, run_scoring
from batch_calibration.studies.loading import load_scorer
from batch_calibration.studies.scoring import render_contexts

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-server" / "bin" / "python"
SETTINGS = Settings.of(
    data="mini", tasks="sst2,mnli", limit=16, seeds=1, labeled_per_class=2, dc_texts=4
)
MOST_CLOSE, ALL_CLOSE = 2e-4, 2e-3
"""Nats that nine of ten scores, and all of them, may lie apart.

Without the rounding below they lie 7e-4 and 2.9e-3 apart. With it what remains are sums whose last
bit differs, so that GELU's input rounds to the next float16: inputs that are larger by a factor of
1 + 1e-7 move our own scores by 9e-5 and 1.1e-3. Which of them do depends on the processor.
"""


@pytest.fixture(autouse=True)
def rounded_gelu(monkeypatch):
    """Our GELU rounded as llama.cpp's is, which looks it up in a table of float16."""
    usual = ACTIVATIONS["gelu_new"]

    def half(x):
        return x.astype(jnp.float16).astype(jnp.float32)

    monkeypatch.setitem(ACTIVATIONS, "gelu_new", lambda x: half(usual(half(x))))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The embedded model as it is, and with a token that begins each sequence."""
    folder = tmp_path_factory.mktemp("begun")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(CHECKPOINTS["mini"] / name, folder)
    tokenizer = Tokenizer.from_file(str(CHECKPOINTS["mini"] / "tokenizer.json"))
    tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return {"plain": CHECKPOINTS["mini"], "begun": folder}


@pytest.fixture(scope="module")
def address(checkpoints, tmp_path_factory):
    """llama.cpp's server with both."""
    if not PYTHON.exists():
        pytest.skip(f"needs llama-cpp-python, and there is no {PYTHON}: make reference makes it")
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    models = []
    for name, checkpoint in checkpoints.items():
        path = folder / f"{name}.gguf"
        script = Path(__file__).with_name("to_gguf.py")
        subprocess.run([PYTHON, script, checkpoint, path], check=True)
        options = {"n_ctx": 576, "n_threads": 1, "type_k": 0, "type_v": 0, "verbose": False}
        models.append({"model": str(path), "model_alias": name, "logits_all": True, **options})
    config = {"host": "127.0.0.1", "port": port, "models": models}
    (folder / "config.json").write_text(json.dumps(config))
    log = (folder / "log").open("wb")
    command = [PYTHON, "-m", "llama_cpp.server", "--config_file", folder / "config.json"]
    server = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}/v1"
    try:
        _wait(server, address, folder / "log")
        yield address
    finally:
        server.terminate()
        server.wait()
        log.close()


def _wait(server: subprocess.Popen, address: str, log: Path) -> None:
    """Until the server answers: it loads its libraries first."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/models").close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
    pytest.fail(f"no answer within a minute: {log.read_text()}")


def asking(address: str, name: str, checkpoint: Path, way: str) -> Settings:
    # All tokens: after the short prompt of pmi no label is among the likeliest 20, or 200.
    asked = {"scorer": "api", "server": address, "model": name, "api_scores": way}
    return SETTINGS.replace(**asked, tokenizer=str(checkpoint), top_logprobs=5000)


@pytest.mark.parametrize(
    ("name", "way"), [("plain", "top_k"), ("begun", "top_k"), ("begun", "echo")]
)
def test_a_servers_scores_are_those_of_our_own_scorer(address, checkpoints, tmp_path, name, way):
    run_scoring(SETTINGS.replace(model=str(checkpoints[name])), store=tmp_path / "ours")
    settings = asking(address, name, checkpoints[name], way)
    report = run_scoring(settings, store=tmp_path / "api")
    assert report.scored == report.inputs > 40
    stored = [Store(tmp_path / run).tables()[0] for run in ("ours", "api")]
    tables = [{table.context["task"]: table for table in of_run} for of_run in stored]
    distances, agree = list[float](), list[bool]()
    for task, own_table in tables[0].items():
        theirs = tables[1][task]
        assert theirs.label_names == own_table.label_names
        assert set(theirs.blocks) == set(own_table.blocks)
        for block, own in own_table.blocks.items():
            peer = theirs.blocks[block]
            assert peer.row_ids == own.row_ids and peer.tokens.tolist() == own.tokens.tolist()
            distances += np.abs(peer.log_probs - own.log_probs).ravel().tolist()
            agree += (peer.log_probs.argmax(1) == own.log_probs.argmax(1)).tolist()
    most, furthest = np.quantile(distances, 0.9), max(distances)
    apart = f"most {most:.1e}, all {furthest:.1e} nats apart"
    print(f"{name}, {way}: {apart}, {np.mean(agree):.1%} predicted alike")
    assert most < MOST_CLOSE and furthest < ALL_CLOSE and np.mean(agree) > 0.99
    # A second study asks nothing: what it needs is among the answers.
    (context, _) = render_contexts(settings)
    scorer = load_scorer(settings, tmp_path / "api")
    assert isinstance(scorer, ApiScorer)
    estimate = scorer.estimate(context.blocks["test"].inputs, context.label_texts)
    assert estimate[:2] == (0, 0) and estimate.answered > 0


def test_echo_without_a_beginning_token_is_refused(address, checkpoints):
    scorer = load_scorer(asking(address, "plain", checkpoints["plain"], "echo"))
    with pytest.raises(InputError, match="use first-token lists"):
        scorer.score(["Review: a fine film\nSentiment:"], [" negative", " positive"])


def test_a_way_that_the_server_lacks_is_a_sentence(address, checkpoints):
    for way, sentence in (("prompt_logprobs", "try echo"), ("score", "status 404")):
        scorer = load_scorer(asking(address, "plain", checkpoints["plain"], way))
        with pytest.raises(InputError, match=sentence):
            scorer.score(["Review: a fine film\nSentiment:"], [" negative", " positive"])


def test_the_server_splits_texts_as_the_tokenizer_does(address, checkpoints):
    scorer = load_scorer(asking(address, "plain", checkpoints["plain"], "top_k"))
    tokenizer = Tokenizer.from_file(str(CHECKPOINTS["mini"] / "tokenizer.json"))
    texts = [t for c in render_contexts(SETTINGS) for b in c.blocks.values() for t in b.inputs]
    for text in texts:
        request = urllib.request.Request(
            address.removesuffix("/v1") + "/extras/tokenize",
            json.dumps({"model": scorer.model, "input": text}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["tokens"] == tokenizer.encode(text).ids, text
