"""The examples for DSPy and skorch, with both libraries themselves."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from api_server import Reply, first_tokens, running

EXAMPLES = Path(__file__).parents[2] / "examples"
LABELS = ("negative", "positive")
TEXTS = [f"film {i}" for i in range(12)]


def chat(_, path, body):
    """An answer in the form of DSPy's adapter, with the log-probabilities of each token."""
    tops = {token: nats for token, nats in first_tokens(body["messages"][-1]["content"]).items()}
    label = max((f" {name}" for name in LABELS), key=tops.__getitem__).strip()
    content = []
    for token in ("[[ ##", " label", " ## ]]", "\n", label, "\n\n", "[[ ## completed ## ]]"):
        listed = {token: -0.01}
        if token == label:
            listed = {name.strip() or "\n": nats for name, nats in tops.items()}
        each = [{"token": t, "logprob": x, "bytes": None} for t, x in listed.items()]
        content.append({"token": token, "logprob": -0.01, "bytes": None, "top_logprobs": each})
    text = "".join(entry["token"] for entry in content)
    choice = {"index": 0, "finish_reason": "stop", "logprobs": {"content": content}}
    choice["message"] = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 1, "completion_tokens": 7, "total_tokens": 8}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return Reply({**whole, "choices": [choice], "usage": usage})


def run(folder, example, *arguments):
    """The lines that an example prints: the corrected label, the label, the text."""
    # DSPy keeps answers of earlier runs in the user's folder.
    own = os.environ | {"DSPY_CACHEDIR": str(folder / "cache")}
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


def test_a_dspy_module_corrects_by_a_batch(texts, tmp_path):
    asked = {}

    def fault(number, path, body):
        content = body["messages"][-1]["content"]
        (text,) = [text for text in reversed(TEXTS) if text in content][:1]
        tops = first_tokens(content)
        asked[text] = [tops[f" {name}"] for name in LABELS]
        return chat(number, path, body)

    with running(fault) as server:
        lines = run(tmp_path, "dspy_labels.py", "openai/m", server.address, texts, *LABELS)
    scores = np.array([asked[text] for text in TEXTS])
    want = (scores - scores.mean(axis=0)).argmax(axis=1)
    assert [line[0] for line in lines] == [LABELS[i] for i in want]
    assert [line[1] for line in lines] == [LABELS[i] for i in scores.argmax(axis=1)]
    assert [line[2] for line in lines] == TEXTS


def test_skorchs_zero_shot_classifier_is_corrected(texts, tmp_path):
    from skorch.llm import ZeroShotClassifier
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = Tokenizer(models.BPE(dict(zip(map(chr, range(33, 127)), range(94), strict=True)), []))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path / "model"
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="~").save_pretrained(folder)
    sizes = {"n_positions": 512, "n_embd": 32, "n_layer": 1, "n_head": 2}
    GPT2LMHeadModel(
        GPT2Config(vocab_size=94, bos_token_id=93, eos_token_id=93, **sizes)
    ).save_pretrained(folder)
    lines = run(tmp_path, "skorch_labels.py", str(folder), texts, *LABELS)
    assert [line[2] for line in lines] == TEXTS
    scores = np.log(ZeroShotClassifier(str(folder)).fit(X=None, y=LABELS).predict_proba(TEXTS))
    want = (scores - scores.mean(axis=0)).argmax(axis=1)
    assert [line[0] for line in lines] == [LABELS[i] for i in want]
    assert {line[0] for line in lines} == {*LABELS}
    assert [line[1] for line in lines] == [LABELS[i] for i in scores.argmax(axis=1)]
