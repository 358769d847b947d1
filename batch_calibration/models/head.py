"""Computes logits from hidden states."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Span(NamedTuple):
    """`size` words of the vocabulary from `start` on."""

    start: jax.Array | int
    size: int


Words = jax.Array | Span | None
"""Which words have logits: token ids `[v]`, some that follow each other, or all (None)."""


def choose(table: jax.Array, words: Words) -> jax.Array:
    """The rows of `table [vocabulary, ...]` that belong to `words`."""
    if words is None:
        return table
    if isinstance(words, Span):
        rows: jax.Array = jax.lax.dynamic_slice_in_dim(table, words.start, words.size)
        return rows
    return table[words]


def logits(h: jax.Array, embeddings: jax.Array, words: Words = None) -> jax.Array:
    """Logits `[..., v]` of `h [..., d]` and the embeddings of `words` among `[vocabulary, d]`.

    In float32, whatever the network computes in: scores are differences of large logits.
    """
    chosen = choose(embeddings, words)
    return jnp.einsum("...d,vd->...v", h, chosen, preferred_element_type=jnp.float32)
