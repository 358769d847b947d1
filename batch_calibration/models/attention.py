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
    mask: jax.Array,
    *,
    scale: float | None = None,
    cap: float | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention under `mask [b | 1, t | 1, s]`, which lets each query see some key.

    Returns the mean value `[b, t, heads, d]` and the log-sum-exp of the logits `[b, t, heads]`,
    in float32.
    """
    if cap is None:
        return jax.nn.dot_product_attention(
            q, k, v, mask=mask[:, None], scale=scale, return_residual=True
        )
    grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[-1])
    logits = jnp.einsum("btgrd,bsgd->bgrts", grouped, k, preferred_element_type=jnp.float32) * (
        q.shape[-1] ** -0.5 if scale is None else scale
    )
    logits = jnp.where(mask[:, None, None], cap * jnp.tanh(logits / cap), -jnp.inf)
    mass = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    weights = jnp.exp(logits - mass).astype(v.dtype)
    mean = jnp.einsum("bgrts,bsgd->btgrd", weights, v).reshape(q.shape)
    return mean, mass[..., 0].transpose(0, 3, 1, 2).reshape(q.shape[:-1])


def keep(k: jax.Array, v: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys and values of a padded sequence `[1, s, groups, d]`, made ready for `past`.

    Padding repeats the first key and weighs nothing: the last column of the values, `d + 1` wide,
    is each position's weight, so that `past` needs no mask.
    """
    real = (jnp.arange(k.shape[1]) < length)[:, None, None]
    weight = jnp.broadcast_to(real, (*v.shape[1:-1], 1)).astype(v.dtype)
    values = jnp.concatenate([jnp.where(real, v[0], jnp.zeros_like(v[0])), weight], axis=-1)
    return jnp.where(real, k[0], k[0, :1]), values


def past(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    seen: jax.Array | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention of queries `[n, heads, d]` over kept keys and values `[s, groups, d]`.

    `seen [n, s]` says which of them are in a query's window; all are, where it is left out.

    Returns the mean value `[n, heads, d]` and the log-sum-exp of the logits `[n, heads]`, in
    float32. A query that sees none has a mean of 0 and the smallest finite log-sum-exp.
    """
    n, heads, d = q.shape
    grouped = q.reshape(n, k.shape[1], -1, d) * (d**-0.5 if scale is None else scale)
    # Keys before queries: sums over keys then run along whole rows of memory, and the last column
    # of the values makes the normalizer a by-product of the product. Five times faster on CPUs.
    logits = jnp.einsum("sgd,ngrd->gsrn", k, grouped, preferred_element_type=jnp.float32)
    if cap is not None:
        logits = cap * jnp.tanh(logits / cap)
    if seen is not None:
        logits = jnp.where(seen.T[:, None], logits, SMALLEST)
    top = logits.max(axis=1)
    weights = jnp.exp(logits - top[:, None])
    if seen is not None:
        weights = jnp.where(seen.T[:, None], weights, 0)
    total = jnp.einsum(
        "sge,gsrn->gern", v, weights.astype(v.dtype), preferred_element_type=jnp.float32
    )
    mass = jnp.maximum(total[:, -1], jnp.finfo(jnp.float32).tiny)
    mean = (total[:, :-1] / mass[:, None]).transpose(3, 0, 2, 1).reshape(q.shape)
    return mean.astype(q.dtype), (top + jnp.log(mass)).transpose(2, 0, 1).reshape(n, heads)


SMALLEST = float(jnp.finfo(jnp.float32).min)
