"""Compiled programs of `CausalLM`: prefill a prefix, run packed sequences, gather log-probs."""

from collections.abc import Hashable
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.models.attention import (
    PLAIN,
    Attend,
    AttentionOptions,
    append_cache,
    in_window,
    prefix_attention,
    self_attention,
    truncate_cache,
)
from batch_calibration.models.family import CausalNetwork
from batch_calibration.scoring.sharding import replicate

READS = 64
"""Positions that are unembedded at once; a packed sequence's length is a multiple of it."""

State = nnx.State[Hashable, object]
Graph = nnx.GraphDef[CausalNetwork]
Cache = tuple[tuple[jax.Array, jax.Array], ...]
"""Each layer's keys and values of a prefix, as `append_cache` lays them."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def prefill(
    graph: Graph,
    size: int,
    at_once: bool,
    state: State,
    cache: Cache,
    start: jax.Array,
    tokens: jax.Array,
    count: jax.Array,
) -> Cache:
    """Keys and values, in `size` positions, of the first `start` cached tokens and `count` more.

    `tokens [1, c]` come after those cached; what lies beyond `count` is padding.
    """
    offset = jnp.arange(tokens.shape[1])
    positions = (start + jnp.minimum(offset, count - 1))[None]
    before = tuple(truncate_cache(*layer, start) for layer in cache)
    attention = _attention(before, positions, (offset <= offset[:, None])[None], at_once)
    extended = []

    def attend(
        layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
    ) -> jax.Array:
        cached = before[layer] if before else None
        extended.append(append_cache(cached, k, v, start, count, size))
        return attention(layer, q, k, v, options)

    nnx.merge(graph, state).hidden(tokens, positions, attend)
    return tuple(extended)


@partial(jax.jit, static_argnums=(0, 1))
def forward_packed(
    graph: Graph,
    at_once: bool,
    state: State,
    cache: Cache,
    tokens: jax.Array,
    positions: jax.Array,
    ends: jax.Array,
) -> jax.Array:
    """Hidden states `[b t, d]` of packed sequences, their prompts after the cached prefix."""
    slot = jnp.arange(tokens.shape[1])
    mask = (slot <= slot[:, None]) & (slot[:, None] < ends[:, None])
    attend = _attention(cache, positions, mask, at_once)
    h = nnx.merge(graph, state).hidden(tokens, positions, attend)
    return h.reshape(-1, h.shape[-1])


@partial(jax.jit, static_argnums=(0, 1))
def gather_log_probs(
    graph: Graph,
    whole: NamedSharding | None,
    state: State,
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
    return replicate(jax.lax.fori_loop(0, (count + READS - 1) // READS, part, found), whole)


@partial(jax.jit, static_argnums=(0, 1))
def gather_logits(
    graph: Graph,
    whole: NamedSharding | None,
    state: State,
    h: jax.Array,
    slots: jax.Array,
    tokens: jax.Array,
    indices: jax.Array,
) -> jax.Array:
    """Logits `[m, c]` of `tokens [indices]`, the rest of the vocabulary left alone."""
    logits = nnx.merge(graph, state).unembed(h[slots], tokens)
    return replicate(jnp.take_along_axis(logits, indices, axis=1), whole)


def _attention(cache: Cache, positions: jax.Array, mask: jax.Array, at_once: bool) -> Attend:
    """Attention of sequences over themselves under `mask [b, t, t]` and over the shared prefix."""

    def attend(
        layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
    ) -> jax.Array:
        window, own_mask, prefix_mask = options.window, mask, None
        if window is not None:
            own_mask = mask & in_window(positions, positions, window)
        own, own_mass = self_attention(q, k, v, own_mask, options, at_once=at_once)
        if not cache:
            return own
        keys, values = cache[layer]
        if window is not None:
            # Padding weighs nothing, but is the first key again: it must not be the largest either.
            near = in_window(positions.reshape(-1), jnp.arange(len(keys)), window)
            prefix_mask = near & (values[:, 0, -1] > 0)
        prefix, prefix_mass = prefix_attention(
            q.reshape(-1, *q.shape[2:]), keys, values, prefix_mask, options, at_once=at_once
        )
        share = jax.nn.sigmoid(prefix_mass.reshape(own_mass.shape) - own_mass)[..., None]
        return own + share.astype(own.dtype) * (prefix.reshape(own.shape) - own)

    return attend
