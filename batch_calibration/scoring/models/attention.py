"""Attention: the interface between networks and the scorer, and the prefix cache."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

SMALLEST = float(jnp.finfo(jnp.float32).min)  # type: ignore[no-untyped-call]  # jax has no type


class AttentionOptions(NamedTuple):
    """Settings in which a layer's attention differs from plain attention.

    Attributes:
        scale: The factor of the products `q k`; 1 / sqrt(d) if None.
        window: The attention window: a query sees the last `window` positions, its own included.
        cap: The soft cap of logits: `cap tanh(logits / cap)`.
    """

    scale: float | None = None  # 1 / sqrt(d)
    window: int | None = None  # None: all keys
    cap: float | None = None  # None: no cap


PLAIN = AttentionOptions()
LOGITS_BYTES = {"cpu": 4 << 20}
"""Bytes of logits that are computed at a time, by backend: on CPUs, as many as fit the caches."""
CAUSAL_BLOCK, CAUSAL_BLOCKS = 256, 4
"""The fewest queries of a causal block, and about the most blocks of a sequence."""


class Heads(NamedTuple):
    """The inputs of one layer's attention.

    Attributes:
        q: Queries `[b, t, heads, d]`.
        k: Keys `[b, s, groups, d]`; `groups` divides `heads`.
        v: Values `[b, s, groups, d]`.
        options: Differences from plain attention.
        sinks: Logits `[heads]` of the attention sink, an additional key with value 0 that every
            query sees.
    """

    q: jax.Array
    k: jax.Array
    v: jax.Array
    options: AttentionOptions = PLAIN
    sinks: jax.Array | None = None


Layer = int | jax.Array
"""The index of a layer; it is traced if layers are scanned."""
Attend = Callable[[Layer, Heads], jax.Array]
"""The attention function of a network: `(layer, heads)` -> means `[b, t, heads, d]`.

The caller of the network chooses it, and with it the masks, the prefixes and the batches.
"""
Kept = list[tuple[jax.Array, jax.Array]]
"""The keys and values of each layer that an attention function keeps."""


def causal(layer: Layer, heads: Heads) -> jax.Array:
    """Computes causal attention within each sequence, for consecutive positions."""
    position = jnp.arange(heads.q.shape[1])  # [t]
    mask = in_window(position, position, heads.options.window) & (position <= position[:, None])
    return self_attention(heads, mask[None])[0]


def full(layer: Layer, heads: Heads) -> jax.Array:
    """Computes attention of each query over all keys."""
    return self_attention(heads)[0]


def in_window(queries: jax.Array, keys: jax.Array, window: int | None) -> jax.Array:
    """Checks whether keys at positions `[..., s]` lie in the window of queries at `[..., t]`.

    Returns a mask `[..., t, s]`.
    """
    distance = queries[..., :, None] - keys[..., None, :]  # [..., t, s]
    return distance < (window or 1 << 30)  # longer than any sequence


def self_attention(
    heads: Heads, mask: jax.Array | None = None, *, at_once: bool = False, causal: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Computes attention of queries over the keys and values of the same sequences.

    Args:
        heads: Queries, keys and values.
        mask: `[b | 1, t | 1, s]`, True if a query sees a key, with the window applied; None: all.
        at_once: Whether all heads are computed at once, see `attend_in_turns`.
        causal: Whether `mask`, of `t` rows, hides all later keys from each query. Then each block
            of queries skips the keys after it.

    Returns:
        The mean value `[b, t, heads, d]`, and the log-sum-exp of the logits `[b, t, heads]` in
        float32.
    """
    q, k, v, options, sinks = heads
    t = q.shape[1]
    size = max(CAUSAL_BLOCK, t // CAUSAL_BLOCKS) if causal and mask is not None else t
    blocks = []
    for start in range(0, t, size):
        own, seen = slice(start, start + size), slice(start + size if size < t else None)
        part = None if mask is None else mask[..., own, seen]
        blocks.append(attend_in_turns(q[:, own], k[:, seen], v[:, seen], part, options, at_once))
    mean, mass = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *blocks)
    if sinks is None:
        return mean, mass
    sinks = sinks.astype(jnp.float32)
    # The part of the softmax that the sink leaves to the keys with a value.
    share = jax.nn.sigmoid(mass - sinks)[..., None]
    return mean * share.astype(mean.dtype), jnp.logaddexp(mass, sinks)


# The network's own compilation covers this function, too. Its jit makes layers share one trace.
@partial(jax.jit, static_argnames=("options", "at_once"))
def attend_in_turns(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    options: AttentionOptions,
    at_once: bool,
) -> tuple[jax.Array, jax.Array]:
    """Computes softmax attention in turns, so that the logits of one turn fit `LOGITS_BYTES`.

    A turn takes some of the heads, or a block of the queries of one head. With `at_once` there is
    one turn: devices that share the heads compute all of them in parallel.
    """
    b, t, heads, d = q.shape
    s, groups = k.shape[1:3]
    scale, _, cap = options
    # A turn takes `wide` groups of keys, `deep` of the heads in each, and one block of queries.
    wide, deep, blocks = groups, heads // groups, 1
    if not at_once:
        wide, deep, blocks = _turn(groups, heads // groups, t, 4 * b * t * s)
    steps_wide, steps_deep = groups // wide, heads // groups // deep
    turns = steps_wide * steps_deep * blocks

    if mask is not None:
        rows = blocks if mask.shape[1] == t else 1
        mask = mask.reshape(mask.shape[0], rows, -1, s).swapaxes(0, 1)  # [blocks | 1, b | 1, ...]
        mask = jnp.tile(mask, (1, 1, deep if mask.shape[2] > 1 else 1, 1))
    scaled = q * (d**-0.5 if scale is None else scale)
    scaled = scaled.reshape(b, blocks, t // blocks, steps_wide, wide, steps_deep, deep, d)
    # The first axis counts turns: [turns, wide, b, deep t / blocks, d].
    queries = scaled.transpose(3, 5, 1, 4, 0, 6, 2, 7).reshape(turns, wide, b, -1, d)
    keys = k.transpose(2, 0, 1, 3).reshape(-1, wide, b, s, d)
    values = v.transpose(2, 0, 1, 3).reshape(-1, wide, b, s, d)

    def attend_turn(turn: jax.Array | int, queries: jax.Array) -> tuple[jax.Array, jax.Array]:
        group = turn * len(keys) // turns  # consecutive turns share a group
        logits = jnp.einsum(
            "gbtd,gbsd->gbts", queries, keys[group], preferred_element_type=jnp.float32
        )
        if cap is not None:
            logits = cap * jnp.tanh(logits / cap)
        if mask is not None:
            logits = jnp.where(mask[turn % len(mask)], logits, SMALLEST)
        top = logits.max(axis=-1, keepdims=True)  # subtracted to avoid overflow
        # Not normalized yet: dividing the mean below is cheaper, as it has fewer numbers.
        weights = jnp.exp(logits - top)
        norm = weights.sum(axis=-1)  # [g, b, t]
        weights = weights.astype(v.dtype)
        mean = jnp.einsum(
            "gbts,gbsd->gbtd", weights, values[group], preferred_element_type=jnp.float32
        )
        seen = top[..., 0] > SMALLEST  # False if the mask hides all keys from a query
        mean = jnp.where(seen, 1 / norm, 0)[..., None] * mean
        return mean.astype(q.dtype), jnp.where(seen, top[..., 0] + jnp.log(norm), SMALLEST)

    def step(turn: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        mean, mass = attend_turn(turn, carry[0][turn])
        return carry[0].at[turn].set(mean), carry[1].at[turn].set(mass)

    if turns == 1:
        mean, mass = attend_turn(0, queries[0])
    else:
        # Each mean overwrites its queries. `jax.lax.map` would return a new buffer, and XLA
        # allocates such buffers of all layers at the start, so memory would grow with the depth.
        none = jnp.zeros(queries.shape[:-1], jnp.float32)
        mean, mass = jax.lax.fori_loop(0, turns, step, (queries, none))
    # Reorders the turns to `[b, t, heads]`.
    shape = steps_wide, steps_deep, blocks, wide, b, deep, t // blocks
    mean = mean.reshape(*shape, d).transpose(4, 2, 6, 0, 3, 1, 5, 7).reshape(q.shape)
    return mean, mass.reshape(shape).transpose(4, 2, 6, 0, 3, 1, 5).reshape(b, t, heads)


def _turn(groups: int, heads_per_group: int, t: int, size: int) -> tuple[int, int, int]:
    """Returns how many groups and how many heads per group a turn takes, and the blocks of queries.

    `t` is the number of queries and `size` the bytes of one head's logits.
    """

    def divisor(number: int, largest: int) -> int:
        return max(n for n in range(1, number + 1) if number % n == 0 and n <= max(1, largest))

    max_bytes = LOGITS_BYTES.get(jax.default_backend(), 1 << 29)
    wide = divisor(groups, max_bytes // (heads_per_group * size))
    # Heads of a group are divided only if one group is too large, then the queries of one head.
    deep = heads_per_group if wide > 1 else divisor(heads_per_group, max_bytes // size)
    blocks = t // divisor(t, t * max_bytes // size) if size > max_bytes else 1
    return wide, deep, blocks


def prefix_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    options: AttentionOptions = PLAIN,
    *,
    at_once: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Computes attention of queries `[n, heads, d]` over cached keys and values `[s, groups, d]`.

    The values are `d + 1` wide: the last column is the weight of each position, see `append_cache`.
    `mask [n, s]` is True if a query sees a key, with the window applied; None: all.

    Returns:
        The mean value `[n, heads, d]` and the log-sum-exp of the logits `[n, heads]` in float32.
        A query that sees no key has a mean of 0 and the smallest finite log-sum-exp.
    """
    real = (v[:, 0, -1] > 0)[None]  # [1, s], from the weights that `append_cache` stores
    seen = (real if mask is None else real & mask)[None]  # [1, n | 1, s]
    mean, mass = attend_in_turns(q[None], k[None], v[None, ..., :-1], seen, options, at_once)
    return mean[0], mass[0]  # without the batch axis of size 1


def fits_joint_attention(head_size: int, options: AttentionOptions) -> bool:
    """Checks whether `joint_attention` supports a layer: cuDNN has no soft cap and limits heads."""
    # Hopper supports head sizes up to 256; earlier GPUs support sizes up to 128.
    return options.cap is None and head_size % 8 == 0 and head_size <= 128


def joint_attention(
    heads: Heads, mask: jax.Array, prefix: tuple[jax.Array, jax.Array, jax.Array | None] | None
) -> jax.Array:
    """Computes attention `[b, t, heads, d]` over a cached prefix and the sequences, in one softmax.

    Uses JAX's own function: cuDNN's kernel on GPUs, which stores no logits, and XLA elsewhere.
    `mask [b, t, t]` covers the sequences. `prefix` holds keys, values and mask, as in
    `prefix_attention`.
    """
    q, k, v = heads[:3]
    b, t = q.shape[:2]
    if prefix is not None:
        keys, values, near = prefix
        real = (values[:, 0, -1] > 0)[None]
        seen = jnp.broadcast_to(real if near is None else real & near, (b * t, len(keys)))
        mask = jnp.concatenate([seen.reshape(b, t, -1), mask], axis=2)
        values = values[..., :-1]  # without the weights
        # cuDNN does not support keys that sequences share, so each gets a copy of the prefix.
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
    """Appends the first `count` positions of `k` and `v` to a prefix cache, resized to `size`.

    `k` and `v` are `[1, c, groups, d]`; the cache holds `start` positions so far. Returns keys
    `[size, groups, d]` and values `[size, groups, d + 1]`. The last column of the values is the
    weight of each position, 1 or 0, so that `prefix_attention` needs no mask for empty positions.
    """
    keys, values = k[0], jnp.concatenate([v[0], jnp.ones_like(v[0, ..., :1])], axis=-1)  # [c, ...]
    if cached is None:
        return truncate_cache(_fit(keys, size), _fit(values, size), start + count)
    where = start + jnp.arange(len(keys))  # positions beyond the cache's end are dropped
    old_keys, old_values = cached
    keys = _fit(old_keys, size).at[where].set(keys, mode="drop")
    values = _fit(old_values, size).at[where].set(values, mode="drop")
    return truncate_cache(keys, values, start + count)


def truncate_cache(
    k: jax.Array, v: jax.Array, length: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Keeps the first `length` cached positions; the others get the first key, and values of 0."""
    real = (jnp.arange(len(k)) < length)[:, None, None]  # [s, 1, 1]
    return jnp.where(real, k, k[:1]), jnp.where(real, v, jnp.zeros_like(v))


def _fit(array: jax.Array, size: int) -> jax.Array:
    """Truncates the first axis of an array to `size`, or pads it with zeros."""
    return jnp.pad(array[:size], ((0, max(0, size - len(array))), *[(0, 0)] * (array.ndim - 1)))
