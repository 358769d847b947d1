"""From hidden states to logits."""

import jax
import jax.numpy as jnp


def logits(h: jax.Array, words: jax.Array, tokens: jax.Array | None = None) -> jax.Array:
    """Logits `[..., vocabulary]` of `h [..., d]` and `words [vocabulary, d]`, or of `tokens [v]`.

    In float32, whatever the network computes in: scores are differences of large logits.
    """
    chosen = words if tokens is None else words[tokens]
    return jnp.einsum("...d,vd->...v", h, chosen, preferred_element_type=jnp.float32)
