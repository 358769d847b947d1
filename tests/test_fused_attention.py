"""The attention kernel for GPUs: interpreted against float64, lowered for CUDA, and in scoring."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_causal_lm import SHOTS, queries
from test_engine_families import CASES, SIX
from tiny import write

from batch_calibration.models import attention
from batch_calibration.models.attention import AttentionOptions, append_cache
from batch_calibration.models.checkpoint import load_checkpoint
from batch_calibration.models.fused_attention import fused_attention
from batch_calibration.scoring import forward, programs
from batch_calibration.scoring.causal_lm import CausalLM

interpreted = partial(fused_attention, interpret=True)


def forest(random, slots, shared):
    """Random trees in preorder: each slot's parent or -1, its position, and where its tree ends."""
    parent, position = np.full(slots, -1), np.full(slots, shared)
    root = 0
    while root < slots:
        size = min(int(random.integers(1, slots)), slots - root)
        chain = int(random.integers(0, size))  # a prompt, from whose last token labels branch
        for i in range(root + 1, root + size):
            # In preorder a slot hangs from the one before it or from one of that one's ancestors.
            up = i - 1
            while i - root > chain and up > root and random.random() < 0.5:
                up = parent[up]
            parent[i], position[i] = up, position[up] + 1
        root += size
    sees = np.eye(slots, dtype=bool)
    for i in range(slots):
        if parent[i] >= 0:
            sees[i] |= sees[parent[i]]
    ends = np.array([np.flatnonzero(column)[-1] + 1 for column in sees.T])
    return position, ends, sees


def oracle(q, k, v, sees, keys, values, near, scale, cap):
    """Attention `[t, heads, d]` of one sequence in float64, one head at a time."""
    q, k, v, keys, values = (np.asarray(x, np.float64) for x in (q, k, v, keys, values))
    mean = np.zeros(q.shape)
    for head in range(q.shape[1]):
        group = head * k.shape[1] // q.shape[1]
        logits = q[:, head] @ np.concatenate([keys, k])[:, group].T * scale
        logits = cap * np.tanh(logits / cap) if cap else logits
        logits = np.where(np.concatenate([near, sees], axis=1), logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mean[:, head] = weights @ np.concatenate([values, v])[:, group]
    return mean


def made(random, dtype, *shape):
    return jnp.asarray(random.normal(0, 1.5, shape), dtype)


@pytest.mark.parametrize(
    ("heads", "groups", "d", "slots", "prefix", "options", "dtype"),
    [
        pytest.param(2, 2, 64, 256, 0, {}, jnp.float32, id="no prefix"),
        pytest.param(4, 2, 64, 256, 300, {}, jnp.float32, id="groups, a prefix with padding"),
        pytest.param(2, 1, 80, 128, 128, {"scale": 0.3}, jnp.float32, id="80, a full prefix"),
        pytest.param(2, 1, 96, 100, 1, {"cap": 3.0}, jnp.float32, id="96, an odd length, a cap"),
        pytest.param(2, 2, 128, 256, 300, {"window": 40}, jnp.float32, id="128, a window"),
        pytest.param(2, 1, 256, 200, 70, {"window": 90, "cap": 5.0}, jnp.float32, id="256, all"),
        pytest.param(4, 2, 6, 130, 40, {"window": 3}, jnp.float32, id="6, a narrow window"),
        pytest.param(2, 1, 128, 128, 140, {"cap": 5.0}, jnp.bfloat16, id="bfloat16"),
        pytest.param(2, 1, 64, 128, 0, {}, jnp.float16, id="float16"),
    ],
)
def test_equals_softmax_in_float64(heads, groups, d, slots, prefix, options, dtype):
    random = np.random.default_rng(d)
    options, b = AttentionOptions(**options), 2
    q = made(random, dtype, b, slots, heads, d)
    k, v = (made(random, dtype, b, slots, groups, d) for _ in "kv")
    keys, values = (made(random, dtype, 1, prefix, groups, d) for _ in "kv")
    position, ends, sees = (
        np.stack(parts)
        for parts in zip(*(forest(random, slots, prefix) for _ in range(b)), strict=True)
    )
    cached = (
        append_cache(None, keys, values, 0, prefix, -(-prefix // 128) * 128) if prefix else None
    )
    got = interpreted(q, k, v, jnp.asarray(ends), jnp.asarray(position), cached, options)
    assert got.shape == q.shape and got.dtype == dtype
    window = options.window or 1 << 30
    for i in range(b):
        distance = position[i][:, None] - np.concatenate([np.arange(prefix), position[i]])
        near = distance < window
        expected = oracle(
            q[i], k[i], v[i], sees[i] & near[:, prefix:], keys[0], values[0], near[:, :prefix],
            options.scale or d**-0.5, options.cap,
        )  # fmt: skip
        exact = dtype == jnp.float32
        np.testing.assert_allclose(
            np.asarray(got[i], np.float64), expected,
            atol=1e-5 if exact else 0.01, rtol=0 if exact else 2 * float(jnp.finfo(dtype).eps),
        )  # fmt: skip


def test_blocks_that_no_query_of_a_tile_sees_are_skipped():
    """What is not a number in them would be in all sums otherwise."""
    random = np.random.default_rng(0)
    q, k, v = (made(random, jnp.float32, 1, 256, 1, 64) for _ in "qkv")
    keys, values = (made(random, jnp.float32, 1, 256, 1, 64) for _ in "kv")
    # Two sequences of 128 slots; the window of the second reaches 20 tokens back.
    ends = jnp.repeat(jnp.array([[128, 256]]), 128, axis=1)
    position = jnp.tile(236 + jnp.arange(128), 2)[None]
    near = AttentionOptions(window=40)

    def run(k, keys):
        return interpreted(
            q, k, v, ends, position, append_cache(None, keys, values, 0, 236, 256), near
        )

    expected = run(k, keys)
    got = run(k.at[:, :64].set(jnp.nan), keys.at[:, :128].set(jnp.nan))
    np.testing.assert_array_equal(got[:, 128:], expected[:, 128:])
    assert np.isnan(run(k.at[:, 200:].set(jnp.nan), keys)[:, 128:]).any()


@pytest.mark.parametrize("d", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("options", [AttentionOptions(), AttentionOptions(0.2, 40, 5.0)])
def test_lowers_for_cuda(d, options):
    """As far as a machine without a GPU can tell: the compiler takes each operation and shape."""
    shapes = (2, 256, 8, d), (2, 256, 4, d), (2, 256, 4, d), (384, 4, d), (384, 4, d + 1)
    q, k, v, keys, values = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes)
    slots = jax.ShapeDtypeStruct((2, 256), jnp.int32)
    run = jax.jit(lambda *args: fused_attention(*args, options))
    lowered = run.trace(q, k, v, slots, slots, (keys, values)).lower(lowering_platforms=("cuda",))
    assert "__gpu$xla.gpu.triton" in lowered.as_text()


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_the_engine_scores_alike(family, tmp_path, monkeypatch):
    raw = {"model_type": family} | CASES[family]
    checkpoint = load_checkpoint(write(tmp_path, raw, noise=0.4))
    texts = [SHOTS + query for query in queries(5)]
    expected = CausalLM(checkpoint).score(texts, SIX).log_probs
    monkeypatch.setattr(programs, "attention_kind", lambda *_: "interpreted")
    monkeypatch.setattr(forward, "CHUNK", 128)  # a prefix in chunks, each over those before
    scorer = CausalLM(checkpoint)
    np.testing.assert_allclose(scorer.score(texts, SIX).log_probs, expected, atol=2e-5)
    alone = queries(3)
    got = scorer.score(alone, SIX).log_probs
    monkeypatch.undo()
    np.testing.assert_allclose(got, CausalLM(checkpoint).score(alone, SIX).log_probs, atol=2e-5)


def test_attention_in_turns_takes_large_turns_on_accelerators(monkeypatch):
    # 65,536 queries over 1,024 keys, 16 heads in 8 groups
    sizes = 8, 2, 65_536, 4 * 65_536 * 1024
    assert attention._turn(*sizes) == (1, 1, 64)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert attention._turn(*sizes) == (1, 2, 1)


def test_which_attention_runs_where():
    kind = programs.attention_kind
    assert kind("gpu", "bfloat16", False) == kind("gpu", "float16", False) == "fused"
    # The kernel's products would be rounded to 10 bits, and several devices share heads.
    assert kind("gpu", "float32", False) == kind("tpu", "bfloat16", False) == "in turn"
    assert kind("gpu", "bfloat16", True) == "at once"
    assert {kind("cpu", dtype, False) for dtype in ("float32", "bfloat16")} == {"in turn"}
