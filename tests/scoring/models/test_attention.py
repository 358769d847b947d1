"""Attention in turns against softmax in float64, whatever is computed at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.scoring.models import attention
from batch_calibration.scoring.models.attention import AttentionOptions, Heads, self_attention

SHAPES = [(2, 16, 6, 3, 8), (1, 24, 4, 1, 16)]
"""Sequences, their length, heads, groups, size of a head."""


@pytest.fixture(params=[500, 2_100, 13_000], autouse=True)
def logits(request, monkeypatch):
    """Bytes of logits at a time: blocks of queries, single heads, single groups, all."""
    monkeypatch.setattr(attention, "LOGITS_BYTES", {"cpu": request.param})
    jax.clear_caches()
    yield
    jax.clear_caches()


def softmax(q, k, v, mask, scale, cap=None, sinks=None):
    """Means `[b, t, heads, d]` and log-sum-exps, of which masked rows have 0 and the smallest."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group_size = q.shape[2] // k.shape[2]
    logits = np.einsum("bthd,bshd->bhts", q, np.repeat(k, group_size, axis=2)) * scale
    logits = logits if cap is None else cap * np.tanh(logits / cap)
    weights = np.exp(logits) * np.broadcast_to(mask, (len(q), *mask.shape[1:]))[:, None]
    total = weights.sum(axis=-1)  # [b, heads, t]
    if sinks is not None:
        total = total + np.exp(np.float64(sinks))[:, None]
    mean = np.einsum("bhts,bshd->bthd", weights, np.repeat(v, group_size, axis=2))
    seen = total.transpose(0, 2, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(seen[..., None] > 0, mean / seen[..., None], 0)
        return mean, np.where(seen > 0, np.log(seen), attention.SMALLEST)


@pytest.mark.parametrize(("shape", "cap"), list(zip(SHAPES, (None, 2.0), strict=True)))
def test_sequences_attend_to_themselves(shape, cap, monkeypatch):
    monkeypatch.setattr(attention, "CAUSAL_BLOCK", 7)
    b, t, n_heads, groups, d = shape
    random = np.random.default_rng(0)
    counts = (n_heads, groups, groups)
    q, k, v = (random.normal(size=(b, t, n, d)).astype(np.float32) for n in counts)
    tree = (np.tril(random.random((b, t, t))) > 0.4) | np.eye(t, dtype=bool)
    for mask in (tree, tree[:1], tree[:, -1:]):
        heads = Heads(*map(jnp.asarray, (q, k, v)), AttentionOptions(0.3, None, cap))
        want = softmax(q, k, v, mask, 0.3, cap)
        for causal in (False, mask.shape[1] == t):  # the last has blocks of 7 queries and the rest
            for ours, theirs in zip(self_attention(heads, mask, causal=causal), want, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("limit", [1 << 20, 1 << 9, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_sinks_take_part_in_the_softmax(shape, limit, monkeypatch):
    monkeypatch.setattr(attention, "LOGITS_BYTES", {"cpu": limit})  # heads and queries in turns
    b, t, heads, groups, d = shape
    random = np.random.default_rng(2)
    q, k, v = (random.normal(size=(b, t, n, d)).astype(np.float32) for n in (heads, groups, groups))
    sinks = random.normal(size=heads).astype(np.float32)
    mask = (random.random((b, t, t)) > 0.4) | np.eye(t, dtype=bool)
    options = AttentionOptions(0.3)
    jax.clear_caches()  # how many go in turn is decided while tracing
    heads = Heads(*map(jnp.asarray, (q, k, v)), options, jnp.asarray(sinks))
    attended = self_attention(heads, mask)
    for ours, theirs in zip(attended, softmax(q, k, v, mask, 0.3, None, sinks), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    jax.clear_caches()


@pytest.mark.parametrize("shape", SHAPES)
def test_queries_attend_to_a_prefix(shape):
    b, t, heads, groups, d = shape
    random = np.random.default_rng(1)
    n, s, real = b * t, 40, 33
    q = random.normal(size=(n, heads, d)).astype(np.float32)
    k, v = (random.normal(size=(s, groups, d)).astype(np.float32) for _ in "kv")
    weighed = jnp.concatenate([jnp.asarray(v), jnp.ones((s, groups, 1))], axis=-1)
    keys, values = attention.truncate_cache(jnp.asarray(k), weighed, real)
    allowed = random.random((n, s)) < 0.1
    allowed[0] = False
    for mask in (None, allowed):
        given = None if mask is None else jnp.asarray(mask)
        attended = attention.prefix_attention(jnp.asarray(q), keys, values, given)
        seen = np.ones((1, n, real), bool) if mask is None else mask[None, :, :real]
        expected = softmax(q[None], k[None, :real], v[None, :real], seen, d**-0.5)
        for ours, theirs in zip(attended, expected, strict=True):
            np.testing.assert_allclose(ours, theirs[0], rtol=1e-6, atol=2e-5)
