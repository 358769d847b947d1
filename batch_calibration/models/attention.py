"""Attention functions that callers hand a network: causal, full, masked, over a cached prefix."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

SMALLEST = float(jnp.finfo(jnp.float32).min)  # type: ignore[no-untyped-call]  # jax has no type


class AttentionOptions(NamedTuple):
    """How a family's attention differs from the plain one.

    Attributes:
        scale: What `q k` is multiplied by; 1 / sqrt(d) where it is None.
        window: A query sees the keys of the last `window` positions, its own among them.
        cap: Logits are at most this in size, by `cap tanh(logits / cap)`.
    """

    scale: float | None = None
    window: int | None = None
    cap: float | None = None


PLAIN = AttentionOptions()


class Attend(Protocol):
    """Attention as a network asks for it; masks, prefixes and batches are the caller's."""

    def __call__(
        self,
        layer: int,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        options: AttentionOptions = PLAIN,
    ) -> jax.Array:
        """Attention `[b, t, heads, d]` of one layer.

        `q [b, t, heads, d]`, `k` and `v [b, t, groups, d]`, where `groups` divides `heads`.
        """
        ...


def causal(
    layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
) -> jax.Array:
    """Causal attention over keys and values of the same sequence, its positions consecutive."""
    del layer
    position = jnp.arange(q.shape[1])
    mask = in_window(position, position, options.window) & (position <= position[:, None])
    return self_attention(q, k, v, mask[None], options)[0]


def full(
    layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
) -> jax.Array:
    """Attention of queries `[b, t, heads, d]` over all keys `[b, s, groups, d]`."""
    del layer
    return self_attention(q, k, v, options=options)[0]


def masked(mask: jax.Array) -> Attend:
    """Attention where `mask` is true: `[b, s]` of keys (padding), or `[b, t, s]` of queries too."""
    mask = mask[:, None] if mask.ndim == 2 else mask

    def attend(
        layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
    ) -> jax.Array:
        del layer
        return self_attention(q, k, v, mask, options)[0]

    return attend


def in_window(queries: jax.Array, keys: jax.Array, window: int | None) -> jax.Array:
    """Whether keys at positions `[..., s]` lie in the window of queries at `[..., t]`."""
    distance = queries[..., :, None] - keys[..., None, :]
    return distance < (window or 1 << 30)


def self_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    options: AttentionOptions = PLAIN,
    *,
    at_once: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Attention of `q [b, t, heads, d]` over `k` and `v [b, s, groups, d]` of the same sequences.

    `mask [b | 1, t | 1, s]` says what a query sees, the window included; all, where it is left
    out.

    Returns the mean value `[b, t, heads, d]` and the log-sum-exp of the logits `[b, t, heads]`,
    in float32.
    """
    values = jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)
    return _by_group(q, k, values, mask, options, at_once)


def prefix_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    options: AttentionOptions = PLAIN,
    *,
    at_once: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Attention of queries `[n, heads, d]` over cached keys and values `[s, groups, d]`.

    `mask [n, s]` says which of them a query sees, the window included; all, where it is left out.

    Returns the mean value `[n, heads, d]` and the log-sum-exp of the logits `[n, heads]`, in
    float32. A query that sees none has a mean of 0 and the smallest finite log-sum-exp.
    """
    mask = None if mask is None else mask[None]
    mean, mass = _by_group(q[None], k[None], v[None], mask, options, at_once)
    return mean[0], mass[0]


def _by_group(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    options: AttentionOptions,
    at_once: bool,
) -> tuple[jax.Array, jax.Array]:
    """Softmax attention; the last column of `v [b, s, groups, d + 1]` weighs each key.

    Groups take turns, which keeps the logits in the caches (`python -m benchmarks.attention`);
    they go `at_once` on devices that share the heads.
    """
    b, t, heads, d = q.shape
    groups = k.shape[2]
    scale, _, cap = options
    if mask is not None:
        mask = jnp.tile(mask, (1, heads // groups if mask.shape[1] == t else 1, 1))

    def one(parts: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        queries, keys, values = parts
        logits = jnp.einsum("btd,bsd->bts", queries, keys, preferred_element_type=jnp.float32)
        if cap is not None:
            logits = cap * jnp.tanh(logits / cap)
        if mask is not None:
            logits = jnp.where(mask, logits, SMALLEST)
        top = logits.max(axis=2, keepdims=True)
        weights = jnp.exp(logits - top)
        if mask is not None:
            weights = jnp.where(mask, weights, 0)
        # The weight of each key among its values: the normalizer is a column of the product.
        total = jnp.einsum(
            "bts,bsd->btd", weights.astype(values.dtype), values, preferred_element_type=jnp.float32
        )
        norm = total[..., -1]
        mean = total[..., :-1] / jnp.where(norm > 0, norm, 1)[..., None]
        return mean.astype(q.dtype), jnp.where(norm > 0, top[..., 0] + jnp.log(norm), SMALLEST)

    queries = (q * (d**-0.5 if scale is None else scale)).reshape(b, t, groups, -1, d)
    by_group = queries.transpose(2, 0, 3, 1, 4).reshape(groups, b, -1, d)
    parts = by_group, k.transpose(2, 0, 1, 3), v.transpose(2, 0, 1, 3)
    mean, mass = jax.vmap(one)(parts) if at_once else jax.lax.map(one, parts)
    return (
        mean.reshape(groups, b, -1, t, d).transpose(1, 3, 0, 2, 4).reshape(q.shape),
        mass.reshape(groups, b, -1, t).transpose(1, 3, 0, 2).reshape(b, t, heads),
    )


def append_cache(
    cached: tuple[jax.Array, jax.Array] | None,
    k: jax.Array,
    v: jax.Array,
    start: jax.Array | int,
    count: jax.Array | int,
    size: int,
) -> tuple[jax.Array, jax.Array]:
    """Keys and values of `size` positions: `start` cached ones, then `count` of `k` and `v`.

    `k` and `v` are `[1, c, groups, d]`. The values' last column, `d + 1` wide, is the weight of
    each position, so that `prefix_attention` needs no mask.
    """
    keys, values = k[0], jnp.concatenate([v[0], jnp.ones_like(v[0, ..., :1])], axis=-1)
    if cached is None:
        keys, values = (_fit(new, size) for new in (keys, values))
    else:
        where = start + jnp.arange(len(keys))
        keys, values = (
            _fit(old, size).at[where].set(new, mode="drop")
            for old, new in zip(cached, (keys, values), strict=True)
        )
    return truncate_cache(keys, values, start + count)


def truncate_cache(
    k: jax.Array, v: jax.Array, length: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Only the first `length` cached positions; beyond, the first key repeated, of weight 0."""
    real = (jnp.arange(len(k)) < length)[:, None, None]
    return jnp.where(real, k, k[:1]), jnp.where(real, v, jnp.zeros_like(v))


def _fit(x: jax.Array, size: int) -> jax.Array:
    """An array with its first axis cut, or padded with zeros, to `size`."""
    return jnp.pad(x[:size], ((0, max(0, size - len(x))), *[(0, 0)] * (x.ndim - 1)))
