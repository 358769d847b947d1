"""Attention over the cached keys and values of a prefix, and how these are kept."""

from typing import Literal

import jax
import jax.numpy as jnp

from batch_calibration.scoring.models.attention import (
    PLAIN,
    AttentionOptions,
    Heads,
    attend_in_turns,
)


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
    real = (v[:, 0, -1] > 0)[None]  # [1, s], by the weights that `append_cache` puts there
    seen = (real if mask is None else real & mask)[None]  # [1, n | 1, s]
    mean, mass = attend_in_turns(q[None], k[None], v[None, ..., :-1], seen, None, options, at_once)
    return mean[0], mass[0]  # without the batch of one


def fits_joint_attention(head_size: int, options: AttentionOptions) -> bool:
    """True where `joint_attention` takes a layer: cuDNN knows no soft cap and no wider heads."""
    # Hopper takes heads of up to 256, GPUs before it of up to 128.
    return options.cap is None and head_size % 8 == 0 and head_size <= 128


def joint_attention(
    heads: Heads, mask: jax.Array, prefix: tuple[jax.Array, jax.Array, jax.Array | None] | None
) -> jax.Array:
    """Attention `[b, t, heads, d]` over a cached prefix and over the sequences, in one softmax.

    By JAX's own function: cuDNN's kernel on GPUs, which keeps no logits, and XLA's elsewhere.
    `mask [b, t, t]` is of the sequences; `prefix` is as in `prefix_attention`: keys, values, mask.
    """
    q, k, v = heads[:3]
    b, t = q.shape[:2]
    if prefix is not None:
        keys, values, near = prefix
        real = (values[:, 0, -1] > 0)[None]
        seen = jnp.broadcast_to(real if near is None else real & near, (b * t, len(keys)))
        mask = jnp.concatenate([seen.reshape(b, t, -1), mask], axis=2)
        values = values[..., :-1]  # without the weights
        # cuDNN knows no keys that sequences share: each has a copy of the prefix.
        k = jnp.concatenate([jnp.broadcast_to(keys, (b, *keys.shape)), k], axis=1)
        v = jnp.concatenate([jnp.broadcast_to(values, (b, *values.shape)), v], axis=1)
    kernel: Literal["cudnn", "xla"] = "cudnn" if jax.default_backend() == "gpu" else "xla"
    return jax.nn.dot_product_attention(
        q, k, v, mask=mask[:, None], scale=heads.options.scale, implementation=kernel
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
    keys, values = k[0], jnp.concatenate([v[0], jnp.ones_like(v[0, ..., :1])], axis=-1)  # [c, ...]
    if cached is None:
        return truncate_cache(_fit(keys, size), _fit(values, size), start + count)
    where = start + jnp.arange(len(keys))  # beyond the cache's end nothing is written
    old_keys, old_values = cached
    keys = _fit(old_keys, size).at[where].set(keys, mode="drop")
    values = _fit(old_values, size).at[where].set(values, mode="drop")
    return truncate_cache(keys, values, start + count)


def truncate_cache(
    k: jax.Array, v: jax.Array, length: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Only the first `length` cached positions; beyond, the first key repeated, of weight 0."""
    real = (jnp.arange(len(k)) < length)[:, None, None]  # [s, 1, 1]
    return jnp.where(real, k, k[:1]), jnp.where(real, v, jnp.zeros_like(v))


def _fit(array: jax.Array, size: int) -> jax.Array:
    """An array with its first axis cut, or padded with zeros, to `size`."""
    return jnp.pad(array[:size], ((0, max(0, size - len(array))), *[(0, 0)] * (array.ndim - 1)))
