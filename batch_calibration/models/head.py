"""Computes logits from hidden states."""

import jax
import jax.numpy as jnp


def logits(h: jax.Array, embeddings: jax.Array, tokens: jax.Array | None = None) -> jax.Array:
    """Logits `[..., v]` of `h [..., d]` and `embeddings [v, d]`, or of `tokens [v]` alone.

    In float32, whatever the network computes in: scores are differences of large logits.
    """
    chosen = embeddings if tokens is None else embeddings[tokens]
    return jnp.einsum("...d,vd->...v", h, chosen, preferred_element_type=jnp.float32)
