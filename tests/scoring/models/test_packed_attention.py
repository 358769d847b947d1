"""The kernel for TPUs, interpreted: against float64, and in scoring."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from naive_scoring import SHOTS, UP_TO_SEVEN_TOKENS, queries
from test_joint_attention import forest, made
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine import forward, programs
from batch_calibration.scoring.models import attention, packed_attention
from batch_calibration.scoring.models.attention import AttentionOptions, Heads
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint


def expected_means(heads, position, sees, prefix, count):
    """Softmax over the prefix and the trees in float64, with cap and sinks, row by row."""
    q, k, v = (np.asarray(array, np.float64) for array in heads[:3])
    keys, values = (np.asarray(array, np.float64)[:count] for array in prefix)
    options, rows = heads.options, []
    for i in range(len(q)):
        distance = position[i][:, None] - np.concatenate([np.arange(count), position[i]])
        seen = distance < (options.window or 1 << 30)
        seen[:, count:] &= sees[i]
        all_keys, all_values = np.concatenate([keys, k[i]]), np.concatenate([values, v[i]])
        rep = q.shape[2] // all_keys.shape[1]
        all_keys, all_values = (np.repeat(x, rep, axis=1) for x in (all_keys, all_values))
        scale = options.scale or q.shape[-1] ** -0.5
        logits = np.einsum("thd,shd->ths", q[i], all_keys) * scale
        if options.cap:
            logits = options.cap * np.tanh(logits / options.cap)
        weights = np.where(seen[:, None], np.exp(logits), 0)
        norm = weights.sum(axis=-1)
        if heads.sinks is not None:
            norm = norm + np.exp(np.asarray(heads.sinks, np.float64))
        rows.append(np.einsum("ths,shd->thd", weights, all_values) / norm[..., None])
    return np.stack(rows)


CASES = [
    pytest.param(2, 2, 64, 256, 0, {}, False, jnp.float32, id="no prefix"),
    pytest.param(4, 2, 64, 256, 300, {}, False, jnp.float32, id="groups, a prefix with padding"),
    pytest.param(6, 2, 32, 100, 1, {"scale": 0.3}, False, jnp.float32, id="an odd length"),
    pytest.param(4, 1, 64, 256, 300, {"window": 40}, False, jnp.float32, id="a window"),
    pytest.param(2, 1, 72, 200, 70, {"window": 90, "cap": 3.0}, False, jnp.float32, id="a cap"),
    pytest.param(4, 2, 16, 130, 40, {"window": 3}, True, jnp.float32, id="sinks"),
    pytest.param(2, 1, 128, 128, 140, {}, True, jnp.bfloat16, id="bfloat16, sinks"),
]


@pytest.mark.parametrize(
    ("heads", "groups", "d", "slots", "count", "options", "sinks", "dtype"), CASES
)
@pytest.mark.parametrize("blocks", ["small", "large"])
def test_equals_softmax_in_float64(
    heads, groups, d, slots, count, options, sinks, dtype, blocks, monkeypatch
):
    if blocks == "small":  # several blocks of queries, of keys and of the prefix
        monkeypatch.setattr(packed_attention, "MAX_KEYS", 128)
        monkeypatch.setattr(packed_attention, "MAX_LOGITS", 128 * 32 * heads // groups)
    random, b = np.random.default_rng(d), 2
    q = made(random, dtype, b, slots, heads, d)
    k, v = (made(random, dtype, b, slots, groups, d) for _ in "kv")
    keys, values = (made(random, dtype, 1, count, groups, d) for _ in "kv")
    trees = zip(*(forest(random, slots, count) for _ in range(b)), strict=True)
    position, ends, sees = map(np.stack, trees)
    size = -(-count // 64) * 64 + 64  # padding, and a length that is no multiple of a block
    prefix = attention.append_cache(None, keys, values, 0, count, size) if count else None
    logits = made(random, jnp.float32, heads) if sinks else None
    given = Heads(q, k, v, AttentionOptions(**options), logits)
    got = packed_attention.packed_attention(
        given, jnp.asarray(ends, jnp.int32), jnp.asarray(position, jnp.int32), prefix,
        interpret=True,
    )  # fmt: skip
    assert got.shape == q.shape and got.dtype == dtype
    expected = expected_means(given, position, sees, (keys[0], values[0]), count)
    near = 1e-5 if dtype == jnp.float32 else 0.05
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, atol=near)


@pytest.mark.parametrize("family", ["gpt2", "ministral", "gemma2", "gpt_oss"])
def test_the_engine_scores_alike(family, tmp_path, monkeypatch):
    raw = {"model_type": family} | CAUSAL_FAMILIES[family]
    checkpoint = load_checkpoint(write(tmp_path, raw, noise=0.4))
    texts = [SHOTS + query for query in queries(5)]
    expected = CausalLM(checkpoint).score(texts, UP_TO_SEVEN_TOKENS).log_probs
    monkeypatch.setattr(programs, "attention_kind", lambda *_: "packed")
    interpreted = partial(packed_attention.packed_attention, interpret=True)
    monkeypatch.setattr(packed_attention, "packed_attention", interpreted)
    monkeypatch.setattr(forward, "PREFIX_CHUNK", 128)  # a prefix in chunks, each over those before
    got = CausalLM(checkpoint).score(texts, UP_TO_SEVEN_TOKENS).log_probs
    np.testing.assert_allclose(got, expected, atol=2e-5)
