"""The attentions that callers hand a network: causal, masked, and over a shared past."""

from typing import Protocol

import jax
import jax.numpy as jnp


class Attend(Protocol):
    """Attention as a network asks for it: the caller's own, masks, prefixes, batches and all.

    `q [b, t, heads, d]`, `k` and `v [b, t, groups, d]`, where `groups` divides `heads`; returns
    `[b, t, heads, d]`. What a family's attention is, it says with each call: logits are `q k scale`
    (1 / sqrt(d) where left out), at most `cap` in size by `cap tanh(logits / cap)`, and a query
    sees the keys of the last `window` positions, its own among them.
    """

    def __call__(
        self,
        layer: int,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        *,
        scale: float | None = None,
        window: int | None = None,
        cap: float | None = None,
    ) -> jax.Array:
        """Attention of one layer."""
        ...


def causal(
    layer: int,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    scale: float | None = None,
    window: int | None = None,
    cap: float | None = None,
) -> jax.Array:
    """Causal attention over keys and values of the same sequence, its positions consecutive."""
    del layer
    place = jnp.arange(q.shape[1])
    mask = within(place, place, window) & (place <= place[:, None])
    return own(q, k, v, mask[None], scale=scale, cap=cap)[0]


def masked(mask: jax.Array) -> Attend:
    """Attention where `mask` is true: `[b, s]` of keys (padding), or `[b, t, s]` of queries too."""
    mask = mask[:, None] if mask.ndim == 2 else mask

    def attend(
        layer: int,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        *,
        scale: float | None = None,
        window: int | None = None,
        cap: float | None = None,
    ) -> jax.Array:
        del layer, window
        return own(q, k, v, mask, scale=scale, cap=cap)[0]

    return attend


def within(queries: jax.Array, keys: jax.Array, window: int | None) -> jax.Array:
    """Whether keys at positions `[..., s]` lie in the window of queries at `[..., t]`."""
    near = queries[..., :, None] - keys[..., None, :]
    return near < (window or 1 << 30)


def own(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
    at_once: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Attention of `q [b, t, heads, d]` over `k` and `v [b, s, groups, d]` of the same lines.

    `mask [b | 1, t | 1, s]` says what a query sees; all, where it is left out.

    Returns the mean value `[b, t, heads, d]` and the log-sum-exp of the logits `[b, t, heads]`,
    in float32.
    """
    values = jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)
    return _by_group(q, k, values, mask, scale, cap, at_once)


def past(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    seen: jax.Array | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
    at_once: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Attention of queries `[n, heads, d]` over kept keys and values `[s, groups, d]`.

    `seen [n, s]` says which of them are in a query's window; all are, where it is left out.

    Returns the mean value `[n, heads, d]` and the log-sum-exp of the logits `[n, heads]`, in
    float32. A query that sees none has a mean of 0 and the smallest finite log-sum-exp.
    """
    mask = None if seen is None else seen[None]
    mean, mass = _by_group(q[None], k[None], v[None], mask, scale, cap, at_once)
    return mean[0], mass[0]


def _by_group(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    scale: float | None,
    cap: float | None,
    at_once: bool,
) -> tuple[jax.Array, jax.Array]:
    """Softmax attention; the last column of `v [b, s, groups, d + 1]` weighs each key.

    Groups take turns, which keeps the logits in the caches (`python -m benchmarks.attention`);
    they go `at_once` on devices that share the heads.
    """
    b, t, heads, d = q.shape
    groups = k.shape[2]
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


def keep(
    old: tuple[jax.Array, jax.Array] | None,
    k: jax.Array,
    v: jax.Array,
    start: jax.Array | int,
    count: jax.Array | int,
    size: int,
) -> tuple[jax.Array, jax.Array]:
    """Keys and values in `size` places for `past`: `start` old ones, then `count` of `k` and `v`.

    `k` and `v` are `[1, c, groups, d]`. The values' last column, `d + 1` wide, is the weight of
    each place, so that `past` needs no mask.
    """
    keys, values = k[0], jnp.concatenate([v[0], jnp.ones_like(v[0, ..., :1])], axis=-1)
    if old is None:
        keys, values = (_places(new, size) for new in (keys, values))
    else:
        where = start + jnp.arange(len(keys))
        keys, values = (
            _places(kept, size).at[where].set(new, mode="drop")
            for kept, new in zip(old, (keys, values), strict=True)
        )
    return cut(keys, values, start + count)


def cut(k: jax.Array, v: jax.Array, length: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """Only the first `length` kept keys and values; beyond, the first key repeated, of weight 0."""
    real = (jnp.arange(len(k)) < length)[:, None, None]
    return jnp.where(real, k, k[:1]), jnp.where(real, v, jnp.zeros_like(v))


def _places(x: jax.Array, size: int) -> jax.Array:
    """An array with its first axis cut, or padded with zeros, to `size`."""
    return jnp.pad(x[:size], ((0, max(0, size - len(x))), *[(0, 0)] * (x.ndim - 1)))


SMALLEST = float(jnp.finfo(jnp.float32).min)
