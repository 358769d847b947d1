"""A real Llama of 260 thousand parameters: llama2.c's own arithmetic, and sane English."""

import struct
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from llama2c import convert
from naive_scoring import naive

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.attention import causal
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

pytestmark = pytest.mark.slow  # shared weights

PROMPT = "Once upon a time"
STORY = """Once upon a time, there was a little girl named Lily. She loved to play outside in the \
park. One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do."""


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "weights" / "stories260K"


@pytest.fixture(scope="module")
def checkpoint(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("stories") / "llama"
    assert convert(folder / "stories260K.bin", folder / "tok512.bin", out) == 260_032
    read = load_checkpoint(out)
    assert read.tokenizer.get_vocab_size() == 512
    return read


def llama2c(path, tokens):
    """Logits `[t, v]` by llama2.c's forward pass, one position at a time, in float64."""
    data = path.read_bytes()
    width, inner, layers, heads, groups, vocabulary, _ = struct.unpack_from("7i", data)
    numbers, d = np.frombuffer(data, np.float32, offset=28).astype(np.float64), width // heads
    start = 0

    def take(*shape):
        nonlocal start
        start += np.prod(shape)
        return numbers[start - np.prod(shape) : start].reshape(shape)

    table, norm_1 = take(vocabulary, width), take(layers, width)
    wq, wk = take(layers, width, width), take(layers, groups * d, width)
    wv, wo = take(layers, groups * d, width), take(layers, width, width)
    norm_2, w1 = take(layers, width), take(layers, inner, width)
    w2, w3, last = take(layers, width, inner), take(layers, inner, width), take(width)

    def norm(x, scale):
        return scale * x / np.sqrt((x * x).mean() + 1e-5)

    def rotate(x, position):
        out = x.copy()
        for i in range(0, len(x), 2):
            angle = position * 10000.0 ** -((i % d) / d)
            turn = np.exp(1j * angle) * (x[i] + 1j * x[i + 1])
            out[i], out[i + 1] = turn.real, turn.imag
        return out

    keys, values = ([[] for _ in range(layers)] for _ in range(2))
    logits = []
    for position, token in enumerate(tokens):
        x = table[token].copy()
        for layer in range(layers):
            h = norm(x, norm_1[layer])
            q = rotate(wq[layer] @ h, position)
            keys[layer].append(rotate(wk[layer] @ h, position))
            values[layer].append(wv[layer] @ h)
            seen = np.zeros(width)
            for head in range(heads):
                group = slice(head * groups // heads * d, (head * groups // heads + 1) * d)
                span = slice(head * d, (head + 1) * d)
                scores = np.array([k[group] @ q[span] for k in keys[layer]]) / d**0.5
                share = np.exp(scores - scores.max())
                share /= share.sum()
                seen[span] = sum(s * v[group] for s, v in zip(share, values[layer], strict=True))
            x += wo[layer] @ seen
            h = norm(x, norm_2[layer])
            gate = w1[layer] @ h
            x += w2[layer] @ (gate / (1 + np.exp(-gate)) * (w3[layer] @ h))
        logits.append(table @ norm(x, last))
    return np.array(logits)


def sentencepiece(path, text):
    """llama2.c's tokenizer: join the best-scored neighbors until none can be joined."""
    data, offset, vocabulary, scores = path.read_bytes(), 4, {}, []
    while offset < len(data):
        score, size = struct.unpack_from("fi", data, offset)
        vocabulary[data[offset + 8 : offset + 8 + size]] = len(scores)
        scores.append(score)
        offset += 8 + size
    pieces = []
    for character in " " + text:
        raw = character.encode()
        pieces += [raw] if raw in vocabulary else [b"<0x%02X>" % byte for byte in raw]
    while True:
        joined = [a + b for a, b in pairwise(pieces)]
        candidates = [(-scores[vocabulary[j]], i) for i, j in enumerate(joined) if j in vocabulary]
        if not candidates:
            return [vocabulary[piece] for piece in pieces]
        _, best = min(candidates)
        pieces[best : best + 2] = [joined[best]]


def test_logits_equal_those_of_llama2c(checkpoint, folder):
    text = "Lily saw a big dog. The dog was sad because it could not find its ball."
    tokens = checkpoint.tokenizer.encode(text).ids
    assert tokens[0] == checkpoint.bos == 1
    h = checkpoint.model.hidden(jnp.array([tokens]), jnp.arange(len(tokens))[None], causal)
    expected = llama2c(folder / "stories260K.bin", tokens)
    np.testing.assert_allclose(checkpoint.model.unembed(h)[0], expected, atol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        PROMPT,
        'Lily and Tom went to the park.  They saw a big, red ball!\n"Let\'s play," said Tom.',
        "naïve café № 5 — 👍 x_y@z",
        " a",
    ],
)
def test_tokens_equal_those_of_llama2c(checkpoint, folder, text):
    ids = checkpoint.tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == sentencepiece(folder / "tok512.bin", text)
    assert checkpoint.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_once_upon_a_time(checkpoint):
    most = 120

    @jax.jit
    def best(tokens):
        h = checkpoint.model.hidden(tokens, jnp.arange(most)[None], causal)
        return checkpoint.model.unembed(h)[0].argmax(-1)

    line = checkpoint.tokenizer.encode(PROMPT).ids
    while len(line) < most:
        padded = jnp.array([line + [0] * (most - len(line))])
        line.append(int(best(padded)[len(line) - 1]))
    assert checkpoint.tokenizer.decode(line).startswith(STORY)


def test_the_engine_scores_what_is_sane_above_what_is_not(checkpoint):
    texts = ["Once upon a time, there was a little", "Tom was very happy. He went to the"]
    labels = [" girl", " park", " was"]
    scores = CausalLM(checkpoint).score(texts, labels).log_probs
    np.testing.assert_allclose(scores, naive(checkpoint, texts, labels), atol=1e-4)
    assert scores.argmax(axis=1).tolist() == [0, 1]
