"""Attention for GPUs in one Pallas kernel that keeps no logits and reads no mask."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from batch_calibration.models.attention import SMALLEST, AttentionOptions, in_window

QUERIES, KEYS = 128, 64
"""Queries of a tile, and keys that it meets at a time; fewer where heads are wider than 128."""
NARROWEST = 16
"""The least head size that matrix units take; heads are padded to it, or to a power of two."""

Online = tuple[jax.Array, jax.Array, jax.Array]
"""Each query's largest logit so far, the sum of its weights, and of its weighted values."""


# Compiled as a part of the network; by itself it is traced for one layer and not for each.
@partial(jax.jit, static_argnames=("options", "interpret"))
def fused_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ends: jax.Array,
    positions: jax.Array,
    cached: tuple[jax.Array, jax.Array] | None,
    options: AttentionOptions,
    *,
    interpret: bool = False,
) -> jax.Array:
    """Attention `[b, t, heads, d]` of packed sequences over a cached prefix and over themselves.

    Slot `i` sees slot `j` of its own sequence if `j <= i < ends[j]`, and all of the prefix, both
    within the window. One softmax runs over both, block after block of keys; blocks that no query
    of a tile sees are skipped.

    Args:
        q: `[b, t, heads, d]`.
        k: `[b, t, groups, d]`, where `groups` divides `heads`.
        v: `[b, t, groups, d]`.
        ends: `[b, t]` slot after the last that sees each slot.
        positions: `[b, t]` tokens before each slot in its sequence.
        cached: Keys and values of the prefix as `append_cache` lays them, or None.
        options: How it differs from plain attention.
        interpret: Run the kernel as ordinary operations, on any device: slow, for tests.
    """
    _, t, heads, d = q.shape
    wide = max(NARROWEST, pl.next_power_of_2(d))
    tile, block = (max(NARROWEST, size * 128 // max(128, wide)) for size in (QUERIES, KEYS))
    q, k, v = (_pad(_pad(x, 1, tile), 3, wide) for x in (q, k, v))
    ends, positions = _pad(ends, 1, tile), _pad(positions, 1, tile)  # seen by no slot
    if cached is None:
        cached = jnp.zeros((block, 1, d), k.dtype), jnp.zeros((block, 1, d + 1), v.dtype)
    length = jnp.sum(cached[1][:, 0, -1].astype(jnp.int32))
    keys, values = (_pad(_pad(x[..., :d], 0, block), 2, wide) for x in cached)
    b, slots = ends.shape
    loops = _loops(ends, positions, length, options.window, tile, block)

    def index(array: jax.Array) -> Any:
        """The group's keys or values, whole."""
        each = heads // array.shape[-2]
        if array.ndim == 3:
            return pl.BlockSpec((len(array), None, wide), lambda h, i, n: (0, h // each, 0))
        return pl.BlockSpec((None, slots, None, wide), lambda h, i, n: (n, 0, h // each, 0))

    tiles = pl.BlockSpec((None, tile, None, wide), lambda h, i, n: (n, i, h, 0))
    each_slot = pl.BlockSpec((None, slots), lambda h, i, n: (n, 0))
    found: jax.Array = pl.pallas_call(
        partial(_kernel, options=options, scale=options.scale or d**-0.5, block=block),
        out_shape=jax.eval_shape(lambda: q),
        grid=(heads, slots // tile, b),
        in_specs=[
            pl.BlockSpec((None, None, 4), lambda h, i, n: (n, i, 0)),
            each_slot, each_slot, tiles, *map(index, (k, v, keys, values)),
        ],
        out_specs=tiles,
        interpret=interpret,
        compiler_params=None if interpret else _gpu(wide),
    )(loops, ends, positions, q, k, v, keys, values)  # fmt: skip
    return found[:, :t, :, :d]


def _kernel(
    loops: Any, ends: Any, positions: Any, q: Any, k: Any, v: Any, keys: Any, values: Any, out: Any,
    *, options: AttentionOptions, scale: float, block: int,
) -> None:  # fmt: skip
    """One head's attention of one tile of queries `q [tile, wide]`, which goes to `out`."""
    tile = q.shape[0]
    slot = pl.program_id(1) * tile + jnp.arange(tile)
    queries = q[...]
    position = positions[pl.ds(pl.program_id(1) * tile, tile)]

    def meet(so_far: Online, keys: jax.Array, values: jax.Array, seen: jax.Array) -> Online:
        top, norm, total = so_far
        logits = jax.lax.dot_general(
            queries, keys, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        logits = logits * scale
        if options.cap is not None:
            logits = options.cap * jnp.tanh(logits / options.cap)
        now = jnp.maximum(top, jnp.where(seen, logits, SMALLEST).max(axis=1))
        weights = jnp.where(seen, jnp.exp(logits - now[:, None]), 0.0)
        kept = jnp.exp(top - now)
        new = jnp.dot(weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
        return now, kept * norm + weights.sum(axis=1), kept[:, None] * total + new

    def prefix(i: jax.Array, so_far: Online) -> Online:
        here = pl.ds(i * block, block)
        where = i * block + jnp.arange(block)
        seen = (where < loops[1])[None]
        if options.window is not None:
            seen &= in_window(position, where, options.window)
        return meet(so_far, keys[here], values[here], seen)

    def own(i: jax.Array, so_far: Online) -> Online:
        here = pl.ds(i * block, block)
        where = i * block + jnp.arange(block)
        seen = (where[None] <= slot[:, None]) & (slot[:, None] < ends[here][None])
        if options.window is not None:
            seen &= in_window(position, positions[here], options.window)
        return meet(so_far, k[here], v[here], seen)

    so_far = (
        jnp.full(tile, SMALLEST, jnp.float32),
        jnp.zeros(tile, jnp.float32),
        jnp.zeros(queries.shape, jnp.float32),
    )
    so_far = jax.lax.fori_loop(loops[0], (loops[1] + block - 1) // block, prefix, so_far)
    _, norm, total = jax.lax.fori_loop(loops[2], loops[3], own, so_far)
    out[...] = (total / jnp.where(norm > 0, norm, 1.0)[:, None]).astype(out.dtype)


def _loops(
    ends: jax.Array,
    positions: jax.Array,
    length: jax.Array,
    window: int | None,
    tile: int,
    block: int,
) -> jax.Array:
    """What each tile visits, `[b, tiles, 4]`.

    The first block of the prefix and the prefix's length, the first block of its own sequence and
    the one after the last.
    """
    b, slots = ends.shape
    start = jnp.arange(0, slots, tile)
    # Trees stand in preorder: no slot before the first that a tile still sees is seen by it.
    seen = ends.reshape(b, 1, -1, block).max(axis=3) > start[:, None]
    first = jnp.argmax(seen, axis=2)
    before = jnp.zeros_like(first)
    if window is not None:
        before = jnp.maximum(0, positions.reshape(b, -1, tile).min(axis=2) - window + 1) // block
    last = jnp.broadcast_to(start // block + tile // block, first.shape)
    parts = (before, jnp.broadcast_to(length, first.shape), first, last)
    return jnp.stack([part.astype(jnp.int32) for part in parts], axis=2)


def _pad(x: jax.Array, axis: int, multiple: int) -> jax.Array:
    """An array with an axis padded with zeros to a multiple."""
    wanted = [(0, 0)] * x.ndim
    wanted[axis] = (0, -x.shape[axis] % multiple)
    return jnp.pad(x, wanted) if any(after for _, after in wanted) else x


def _gpu(wide: int) -> Any:
    """How the compiler for GPUs runs a tile."""
    from jax.experimental.pallas import triton

    return triton.CompilerParams(num_warps=4 if wide <= 64 else 8, num_stages=2)
