"""A GGUF file beside transformers, which reads it into torch, and beside llama.cpp.

SmolLM2 without a word; Gemma, whose packages CI does not fetch:

    REAL_MODEL=gemma3 .venv-reference/bin/python -m pytest tests/reference/test_live_gguf.py
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("gguf", reason="needs the library gguf: run `make reference`")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from batch_calibration.errors import InputError  # noqa: E402
from batch_calibration.scoring.causal_lm import CausalLM  # noqa: E402
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint  # noqa: E402
from experiments.evidence import rated_sentences as real  # noqa: E402
from experiments.evidence import real_models  # noqa: E402

SERVER = Path(__file__).resolve().parents[2] / ".venv-server" / "bin" / "python"
LABELS = [" negative", " positive"]
NEAR_LLAMA_CPP = 0.3
"""Nats: llama.cpp multiplies numbers of 4 bits with states rounded to 8."""
PROGRAM = """
import json, sys
import numpy as np
from llama_cpp import Llama
asked = json.load(sys.stdin)
model = Llama(asked["path"], n_ctx=512, n_threads=2, verbose=False)
answers = []
for ids in asked["prompts"]:
    model.reset()
    model.eval(ids)
    # of the last token alone
    logits = np.ctypeslib.as_array(model._ctx.get_logits(), shape=(model.n_vocab(),))
    logits = logits.astype(np.float64)
    peak = logits.max()
    log_probs = logits - peak - np.log(np.exp(logits - peak).sum())
    answers.append([log_probs[label] for label in asked["labels"]])
print(json.dumps([answers, [model.tokenize(t.encode(), add_bos=False, special=True)
                            for t in asked["texts"]]]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The GGUF file, and 25 prompts of each of four tasks."""
    try:
        name = os.environ.get("REAL_MODEL", "smollm2")
        path = real_models.get_path(name, tmp_path_factory.mktemp("real"))
        source = real.fetch_source()
    except InputError as error:
        pytest.skip(f"needs the packages of `make real`: {error}")
    prompts = []
    for stem, noun, least in real.TASKS.values():
        rows = real.sentences(source, stem, least)
        shot = f"{noun}: {rows[30]['text']}\nSentiment: {rows[30]['label']}\n\n"
        prompts += [f"{shot}{noun}: {row['text']}\nSentiment:" for row in rows[:25]]
    return path, prompts


@pytest.fixture(scope="module")
def scores(model):
    path, prompts = model
    checkpoint = load_checkpoint(path, "float32")
    return checkpoint, CausalLM(checkpoint).score(prompts, LABELS).log_probs


def encode(checkpoint, text):
    """Token ids with the token that begins each sequence, if there is one."""
    start = [] if checkpoint.bos is None else [checkpoint.bos]
    return start + checkpoint.tokenizer.encode(text).ids


def sequences(checkpoint, prompts):
    """Token ids of each prompt with each label, and how many are the label's."""
    for prompt in prompts:
        begun = encode(checkpoint, prompt)
        for label in LABELS:
            whole = encode(checkpoint, prompt + label)
            assert whole[: len(begun)] == begun
            yield whole, len(whole) - len(begun)


def test_scores_are_those_of_transformers_with_the_same_file(model, scores):
    path, prompts = model
    checkpoint, ours = scores
    options = {"gguf_file": path.name, "dtype": torch.float32}
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, **options).eval()
    answers = []
    with torch.inference_mode():
        for ids, count in sequences(checkpoint, prompts):
            log_probs = theirs(torch.tensor([ids])).logits[0].log_softmax(-1)
            answers.append(float(log_probs[range(len(ids) - 1), ids[1:]][-count:].sum()))
    difference = np.abs(np.reshape(answers, ours.shape) - ours).max()
    print(f"transformers: at most {difference:.1e} nats apart over {len(prompts)} rows")
    assert difference < 1e-4


def test_tokens_are_those_of_transformers(model, scores):
    path, prompts = model
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for prompt in prompts:
        ids = theirs(prompt, add_special_tokens=False)["input_ids"]
        assert scores[0].tokenizer.encode(prompt).ids == ids


def test_scores_are_near_llama_cpp_and_tokens_its(model, scores):
    path, prompts = model
    if not SERVER.exists():
        pytest.skip(f"needs llama-cpp-python, and there is no {SERVER}: make reference makes it")
    checkpoint, ours = scores
    some = [0, 1, 2, 25, 26, 27]  # it is compiled without what makes it fast
    plain = checkpoint.tokenizer.encode
    labels = [plain(label).ids for label in LABELS]
    assert [len(ids) for ids in labels] == [1, 1]
    texts = [*prompts, "12 345 it's  <|im_start|>user\n\n\nÉcole", "\t tab\r\n 7th"]
    asked = {"path": str(path), "texts": texts, "labels": [ids[0] for ids in labels]}
    asked["prompts"] = [encode(checkpoint, prompts[number]) for number in some]
    stdout = subprocess.check_output([SERVER, "-c", PROGRAM], input=json.dumps(asked), text=True)
    answers, tokens = json.loads(stdout.splitlines()[-1])
    assert tokens == [plain(text).ids for text in texts]
    difference = np.abs(np.array(answers) - ours[some])
    print(f"llama.cpp: {difference.mean():.3f} nats apart, at most {difference.max():.3f}")
    assert difference.max() < NEAR_LLAMA_CPP
