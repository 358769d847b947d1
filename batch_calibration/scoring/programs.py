"""The compiled programs of the causal engine: grow a prefix, run lines of rows, read slots."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.models.attention import Attend, cut, keep, own, past, within

READS = 64
"""Positions that are unembedded at once; a line's length is a multiple of it."""

Cache = tuple[tuple[jax.Array, jax.Array], ...]
"""Each layer's keys and values of a prefix, as `keep` lays them."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def extend(
    graph: Any,
    size: int,
    at_once: bool,
    state: Any,
    cache: Cache,
    start: jax.Array,
    tokens: jax.Array,
    count: jax.Array,
) -> Cache:
    """Keys and values, in `size` places, of the first `start` cached tokens and `count` more.

    `tokens [1, c]` come after those cached; what lies beyond `count` is padding.
    """
    place = jnp.arange(tokens.shape[1])
    positions = (start + jnp.minimum(place, count - 1))[None]
    before = tuple(cut(*kept, start) for kept in cache)
    attention = _attention(before, positions, (place <= place[:, None])[None], at_once)
    grown = []

    def attend(layer: int, q: jax.Array, k: jax.Array, v: jax.Array, **options: Any) -> jax.Array:
        old = before[layer] if before else None
        grown.append(keep(old, k, v, start, count, size))
        return attention(layer, q, k, v, **options)

    nnx.merge(graph, state).hidden(tokens, positions, attend)
    return tuple(grown)


@partial(jax.jit, static_argnums=(0, 1))
def rows(
    graph: Any,
    at_once: bool,
    state: Any,
    cache: Cache,
    tokens: jax.Array,
    positions: jax.Array,
    ends: jax.Array,
) -> jax.Array:
    """Hidden states `[b t, d]` of lines of rows, each after the cached prefix."""
    slot = jnp.arange(tokens.shape[1])
    mask = (slot <= slot[:, None]) & (slot[:, None] < ends[:, None])
    attend = _attention(cache, positions, mask, at_once)
    h = nnx.merge(graph, state).hidden(tokens, positions, attend)
    return h.reshape(-1, h.shape[-1])


@partial(jax.jit, static_argnums=(0, 1))
def read(
    graph: Any,
    whole: NamedSharding | None,
    state: Any,
    h: jax.Array,
    slots: jax.Array,
    targets: jax.Array,
    count: jax.Array,
) -> jax.Array:
    """Log-probabilities `[m, c]`, the first `count` alone, a program apart that tasks share.

    Slots are unembedded `READS` at a time: logits of all at once might not fit.
    """
    model = nnx.merge(graph, state)

    def part(i: jax.Array, found: jax.Array) -> jax.Array:
        first = i * READS
        logits = model.unembed(h[jax.lax.dynamic_slice_in_dim(slots, first, READS)])
        wanted = jax.lax.dynamic_slice_in_dim(targets, first, READS)
        total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        log_probs = jnp.take_along_axis(logits, wanted, axis=-1) - total
        return jax.lax.dynamic_update_slice_in_dim(found, log_probs, first, axis=0)

    found = jnp.zeros(targets.shape, jnp.float32)
    found = jax.lax.fori_loop(0, (count + READS - 1) // READS, part, found)
    return found if whole is None else jax.lax.with_sharding_constraint(found, whole)


@partial(jax.jit, static_argnums=(0, 1))
def read_logits(
    graph: Any,
    whole: NamedSharding | None,
    state: Any,
    h: jax.Array,
    slots: jax.Array,
    tokens: jax.Array,
    places: jax.Array,
) -> jax.Array:
    """Logits `[m, c]` of `tokens [places]`, the rest of the vocabulary left alone."""
    logits = nnx.merge(graph, state).unembed(h[slots], tokens)
    found = jnp.take_along_axis(logits, places, axis=1)
    return found if whole is None else jax.lax.with_sharding_constraint(found, whole)


def _attention(cache: Cache, positions: jax.Array, mask: jax.Array, at_once: bool) -> Attend:
    """Attention of lines over themselves under `mask [b, t, t]` and over the shared prefix."""

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
        near = mask if window is None else mask & within(positions, positions, window)
        here, here_mass = own(q, k, v, near, scale=scale, cap=cap, at_once=at_once)
        if not cache:
            return here
        keys, values = cache[layer]
        seen = None
        if window is not None:
            # Padding weighs nothing, but is the first key again: it must not be the largest either.
            near_keys = within(positions.reshape(-1), jnp.arange(len(keys)), window)
            seen = near_keys & (values[:, 0, -1] > 0)
        flat = q.reshape(-1, *q.shape[2:])
        there, there_mass = past(flat, keys, values, seen, scale=scale, cap=cap, at_once=at_once)
        share = jax.nn.sigmoid(there_mass.reshape(here_mass.shape) - here_mass)[..., None]
        return here + share.astype(here.dtype) * (there.reshape(here.shape) - here)

    return attend
