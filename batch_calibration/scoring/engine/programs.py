"""Compiled programs of a causal network: prefill a prefix, run packed sequences, read scores."""

from collections.abc import Hashable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding

from batch_calibration.scoring.engine.sharding import replicate
from batch_calibration.scoring.models import attention
from batch_calibration.scoring.models.attention import Attend, Heads, Kept, Layer
from batch_calibration.scoring.models.family import CausalNetwork
from batch_calibration.scoring.models.layers import Span

State = nnx.State[Hashable, object]
Graph = nnx.GraphDef[CausalNetwork]
Cache = tuple[jax.Array, jax.Array] | tuple[()]
"""The keys and values of a prefix, `[layers, ...]`, each layer as `append_cache` lays them out."""
Kind = Literal["in turn", "at once", "joint", "packed"]
"""The kind of attention: head groups in turn, all at once, JAX's fused kernel for GPUs (decision
20), or our kernel for TPUs (decision 34)."""


class Attention(NamedTuple):
    """The kind of attention, and the devices that share its rows and heads; None for one device."""

    kind: Kind
    mesh: Mesh | None = None


def attention_kind(backend: str, dtype: str, split: bool) -> Kind:
    """Returns the fastest attention on a backend for networks that compute in `dtype`.

    `split` is True if several devices share the heads.

    >>> attention_kind("gpu", "bfloat16", False), attention_kind("cpu", "bfloat16", False)
    ('joint', 'in turn')
    >>> attention_kind("tpu", "bfloat16", True)
    'packed'
    """
    if backend == "tpu":
        return "packed"
    if split:
        return "at once"
    # cuDNN computes only in 16 bits.
    return "joint" if backend == "gpu" and dtype != "float32" else "in turn"


@partial(jax.jit, static_argnums=(0, 1, 2))
def prefill(
    graph: Graph,
    size: int,
    how: Attention,
    state: State,
    cache: Cache,
    start: jax.Array,
    tokens: jax.Array,
    count: jax.Array,
) -> Cache:
    """Computes the keys and values of `start` cached tokens and `count` new ones.

    They lie in `size` positions. `tokens [1, c]` follow the cached tokens and are padding beyond
    `count`.
    """
    offset = jnp.arange(tokens.shape[1])  # [c]
    # Padding repeats the last position, so that it stays within the network's positions.
    positions = (start + jnp.minimum(offset, count - 1))[None]
    before: Cache = ()
    if cache:
        before = jax.vmap(attention.truncate_cache, in_axes=(0, 0, None))(*cache, start)
    ends = jnp.full((1, tokens.shape[1]), tokens.shape[1])
    attend_all = _attention(before, positions, ends, how)
    extended: Kept = []

    def attend(layer: Layer, heads: Heads) -> jax.Array:
        cached = _of_layer(before, layer)
        extended.append(attention.append_cache(cached, heads.k, heads.v, start, count, size))
        return attend_all(layer, heads)

    nnx.merge(graph, state).hidden(tokens, positions, attend, extended)
    keys, values = zip(*extended, strict=True)
    return jnp.stack(keys), jnp.stack(values)


@partial(jax.jit, static_argnums=(0, 1))
def forward_packed(
    graph: Graph,
    how: Attention,
    state: State,
    cache: Cache,
    tokens: jax.Array,
    positions: jax.Array,
    ends: jax.Array,
) -> jax.Array:
    """Computes the hidden states `[b t, d]` of packed sequences that follow the cached prefix."""
    attend = _attention(cache, positions, ends, how)
    h = nnx.merge(graph, state).hidden(tokens, positions, attend)
    return h.reshape(-1, h.shape[-1])


@jax.jit
def take(h: jax.Array, slots: jax.Array) -> jax.Array:
    """Gathers the hidden states `[m, d]` at `slots` of `h [b t, d]`."""
    return h[slots]


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def read(
    graph: Graph,
    home: NamedSharding | None,
    vocabulary: int,
    at_a_time: int | None,
    state: State,
    h: jax.Array,
    tokens: jax.Array,
    rows: jax.Array,
    indices: jax.Array,
) -> jax.Array:
    """Computes log-probabilities `[e]` of `tokens[indices]` after `h[rows]`.

    The softmax's denominator is summed over the `vocabulary` in chunks of `at_a_time` words, so
    that their logits stay in the caches. With None it is left out and logits are returned. Tasks
    share the compiled program.
    """
    model = nnx.merge(graph, state)
    log_probs = model.unembed(h, tokens)[rows, indices]
    if at_a_time:

        def add(total: jax.Array, span: Span) -> jax.Array:
            return jnp.logaddexp(total, jax.nn.logsumexp(model.unembed(h, span), axis=-1))

        size = min(at_a_time, vocabulary)
        turns, remainder = divmod(vocabulary, size)  # spans of the vocabulary
        none = jnp.full(len(h), -jnp.inf)
        total = jax.lax.fori_loop(0, turns, lambda i, sums: add(sums, Span(i * size, size)), none)
        if remainder:
            total = add(total, Span(vocabulary - remainder, remainder))
        # The logit and the sum are rounded separately, but a probability is at most 1.
        log_probs = jnp.minimum(log_probs - total[rows], 0)
    return replicate(log_probs, home)


def _attention(cache: Cache, positions: jax.Array, ends: jax.Array, how: Attention) -> Attend:
    """Returns the attention over the shared prefix and within sequences, `ends` as in `Layout`."""
    kind, mesh = how
    if kind == "packed":
        # Only TPUs need Pallas, whose import takes a while.
        from batch_calibration.scoring.models.packed_attention import packed_attention

        def attend_packed(layer: Layer, heads: Heads) -> jax.Array:
            prefix = _of_layer(cache, layer)
            return packed_attention(heads, ends, positions, prefix, mesh=mesh)

        return attend_packed
    slot = jnp.arange(ends.shape[1])  # [t]
    mask = (slot <= slot[:, None]) & (slot[:, None] < ends[:, None])  # [b, t, t]
    at_once = kind == "at once"

    def attend(layer: Layer, heads: Heads) -> jax.Array:
        q, window, own_mask = heads.q, heads.options.window, mask
        if window is not None:
            own_mask = mask & attention.in_window(positions, positions, window)
        cached = _of_layer(cache, layer)
        prefix = _prefix(*cached, positions, window) if cached else None
        fits = attention.fits_joint_attention(q.shape[-1], heads.options)
        # cuDNN's softmax has no sinks.
        if kind == "joint" and heads.sinks is None and fits:
            return attention.joint_attention(heads, own_mask, prefix)
        own, own_mass = attention.self_attention(heads, own_mask, at_once=at_once, causal=True)
        if prefix is None:
            return own
        flat = q.reshape(-1, *q.shape[2:])
        mean, mass = attention.prefix_attention(flat, *prefix, heads.options, at_once=at_once)
        # Two softmaxes merge if each is weighted by the sum of its exponentials.
        share = jax.nn.sigmoid(mass.reshape(own_mass.shape) - own_mass)[..., None]
        return own + share.astype(own.dtype) * (mean.reshape(own.shape) - own)

    return attend


def _of_layer(cache: Cache, layer: Layer) -> tuple[jax.Array, jax.Array] | None:
    """Returns the keys and values of one layer; None for an empty cache."""
    if not cache:
        return None
    keys, values = cache
    return keys[layer], values[layer]


def _prefix(
    keys: jax.Array, values: jax.Array, positions: jax.Array, window: int | None
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Returns the prefix's keys and values that a layer sees, and the window's mask `[n, s]`."""
    if window is None:
        return keys, values, None
    # Queries follow the prefix, so a window covers only its last keys.
    size = min(window, len(keys))
    first = jnp.clip((values[:, 0, -1] > 0).sum() - size, 0)
    keys, values = (jax.lax.dynamic_slice_in_dim(array, first, size) for array in (keys, values))
    # Padding repeats the first key with zero weight. The mask keeps its logit from the maximum.
    near = attention.in_window(positions.reshape(-1), first + jnp.arange(size), window)
    return keys, values, near & (values[:, 0, -1] > 0)
