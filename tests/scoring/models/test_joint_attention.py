"""Attention in one softmax, for GPUs: against float64, lowered for CUDA, and in scoring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo  # its version check asks for a GPU
from naive_scoring import SHOTS, UP_TO_SEVEN_TOKENS, queries
from test_attention import softmax
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine import forward, programs
from batch_calibration.scoring.models import attention
from batch_calibration.scoring.models.attention import AttentionOptions, Heads, joint_attention
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint


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
    return position, np.array([np.flatnonzero(column)[-1] + 1 for column in sees.T]), sees


def made(random, dtype, *shape):
    return jnp.asarray(random.normal(0, 1.5, shape), dtype)


@pytest.mark.slow_except("8*", "bfloat16", "groups, a prefix*")
@pytest.mark.parametrize(
    ("heads", "groups", "d", "slots", "prefix", "options", "dtype"),
    [
        pytest.param(2, 2, 64, 256, 0, {}, jnp.float32, id="no prefix"),
        pytest.param(4, 2, 64, 256, 300, {}, jnp.float32, id="groups, a prefix with padding"),
        pytest.param(2, 1, 80, 128, 128, {"scale": 0.3}, jnp.float32, id="80, a full prefix"),
        pytest.param(2, 1, 96, 100, 1, {}, jnp.float32, id="96, an odd length"),
        pytest.param(2, 2, 128, 256, 300, {"window": 40}, jnp.float32, id="128, a window"),
        pytest.param(2, 1, 72, 200, 70, {"window": 90, "scale": 0.2}, jnp.float32, id="72, all"),
        pytest.param(4, 2, 8, 130, 40, {"window": 3}, jnp.float32, id="8, a narrow window"),
        pytest.param(2, 1, 128, 128, 140, {}, jnp.bfloat16, id="bfloat16"),
        pytest.param(2, 1, 64, 128, 0, {}, jnp.float16, id="float16"),
    ],
)
@pytest.mark.usefixtures("standard_promotion")  # XLA's function promotes 16 bits by itself
def test_equals_softmax_in_float64(heads, groups, d, slots, prefix, options, dtype):
    random = np.random.default_rng(d)
    options, b = AttentionOptions(**options), 2
    q = made(random, dtype, b, slots, heads, d)
    k, v = (made(random, dtype, b, slots, groups, d) for _ in "kv")
    keys, values = (made(random, dtype, 1, prefix, groups, d) for _ in "kv")
    trees = zip(*(forest(random, slots, prefix) for _ in range(b)), strict=True)
    position, ends, sees = map(np.stack, trees)
    whole = -(-prefix // 128) * 128
    cached = attention.append_cache(None, keys, values, 0, prefix, whole) if prefix else ()
    places = jnp.asarray(position), jnp.asarray(ends)
    one_layer = tuple(array[None] for array in cached)
    attend = programs._attention(one_layer, *places, programs.Attention("joint"))
    # XLA compiles no such product of float16 for CPUs in one program; it runs step by step.
    together = (lambda function: function) if dtype == jnp.float16 else jax.jit
    got = together(lambda *columns: attend(0, Heads(*columns, options)))(q, k, v)
    assert got.shape == q.shape and got.dtype == dtype
    got, q, k, v, keys, values = (np.asarray(x, np.float64) for x in (got, q, k, v, keys, values))
    window = options.window or 1 << 30
    for i in range(b):
        distance = position[i][:, None] - np.concatenate([np.arange(prefix), position[i]])
        seen = distance < window
        seen[:, prefix:] &= sees[i]
        all_keys, all_values = np.concatenate([keys[0], k[i]]), np.concatenate([values[0], v[i]])
        scale = options.scale or d**-0.5
        expected, _ = softmax(q[i][None], all_keys[None], all_values[None], seen[None], scale)
        exact, rounding = dtype == jnp.float32, 2 * float(jnp.finfo(dtype).eps)
        near = {"atol": 1e-5, "rtol": 0} if exact else {"atol": 0.01, "rtol": rounding}
        np.testing.assert_allclose(got[i], expected[0], **near)


@pytest.mark.parametrize("d", [64, 80, 96, 128])
@pytest.mark.parametrize("options", [AttentionOptions(), AttentionOptions(0.2, 40)])
def test_lowers_to_cudnn(d, options, monkeypatch):
    """As far as a machine without a GPU can tell: cuDNN's kernel is asked for these shapes."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91_100)
    shapes = (2, 256, 8, d), (2, 256, 4, d), (2, 256, 4, d), (384, 4, d), (384, 4, d + 1)
    q, k, v, keys, values = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes)
    mask = jax.ShapeDtypeStruct((2, 256, 256), jnp.bool_)

    @jax.jit
    def run(q, k, v, mask, *prefix):
        return joint_attention(Heads(q, k, v, options), mask, (*prefix, None))

    lowered = run.trace(q, k, v, mask, keys, values).lower(lowering_platforms=("cuda",))
    assert "__cudnn$fmha" in lowered.as_text()


def test_layers_that_cudnn_does_not_take_run_in_turn():
    fits = attention.fits_joint_attention
    assert fits(64, AttentionOptions(0.2, 40)) and fits(128, AttentionOptions())
    assert not fits(64, AttentionOptions(cap=5.0))
    assert not fits(256, AttentionOptions()) and not fits(20, AttentionOptions())


@pytest.mark.slow_except("gemma2")
@pytest.mark.parametrize("family", ["llama", "ministral", "gemma2"])
def test_the_engine_scores_alike(family, tmp_path, monkeypatch):
    raw = {"model_type": family} | CAUSAL_FAMILIES[family] | {"head_dim": 8}
    checkpoint = load_checkpoint(write(tmp_path, raw, noise=0.4))
    texts = [SHOTS + query for query in queries(5)]
    expected = CausalLM(checkpoint).score(texts, UP_TO_SEVEN_TOKENS).log_probs
    monkeypatch.setattr(programs, "attention_kind", lambda *_: "joint")
    monkeypatch.setattr(forward, "PREFIX_CHUNK", 128)  # a prefix in chunks, each over those before
    scorer = CausalLM(checkpoint)
    np.testing.assert_allclose(
        scorer.score(texts, UP_TO_SEVEN_TOKENS).log_probs, expected, atol=2e-5
    )
    alone = queries(3)
    got = scorer.score(alone, UP_TO_SEVEN_TOKENS).log_probs
    monkeypatch.undo()
    expected = CausalLM(checkpoint).score(alone, UP_TO_SEVEN_TOKENS).log_probs
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_attention_in_turns_takes_large_turns_on_accelerators(monkeypatch):
    # 65,536 queries over 1,024 keys, 16 heads in 8 groups
    sizes = 8, 2, 65_536, 4 * 65_536 * 1024
    assert attention._turn(*sizes) == (1, 1, 64)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert attention._turn(*sizes) == (1, 2, 1)


def test_which_attention_runs_where():
    kind = programs.attention_kind
    assert kind("gpu", "bfloat16", False) == kind("gpu", "float16", False) == "joint"
    # cuDNN computes in 16 bits alone, and several devices share heads.
    assert kind("gpu", "float32", False) == "in turn"
    assert kind("gpu", "bfloat16", True) == "at once"
    assert {kind("tpu", dtype, split) for dtype in ("float32", "bfloat16") for split in (0, 1)} == {
        "packed"
    }
    assert {kind("cpu", dtype, False) for dtype in ("float32", "bfloat16")} == {"in turn"}
