"""The parts of networks: activations, norms, heads of attention, the output layer."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.errors import InputError

INIT = nnx.initializers.normal(0.02)  # GPT-2's, and of all that came after it


def _exact_gelu(h: jax.Array) -> jax.Array:
    return jax.nn.gelu(h, approximate=False)


def _quick_gelu(h: jax.Array) -> jax.Array:
    return h * jax.nn.sigmoid(1.702 * h)


# gelu_new is the tanh approximation, gelu the exact one
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _exact_gelu,
    "gelu_fast": jax.nn.gelu,
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "quick_gelu": _quick_gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "tanh": jnp.tanh,
}
"""The activation functions, under the names that Hugging Face configs give them."""


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """The function a config calls `name`; `InputError` lists the ones there are."""
    if name not in ACTIVATIONS:
        raise InputError.unknown("activation function", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def layer_norm(width: int, eps: float, rngs: nnx.Rngs, bias: bool = True) -> nnx.LayerNorm:
    """A layer norm with a scale, and with a bias if it has one."""
    # The fast variance, E[h^2] - E[h]^2, loses digits where the mean is large.
    return nnx.LayerNorm(width, epsilon=eps, use_bias=bias, use_fast_variance=False, rngs=rngs)


def linear(inputs: int, outputs: int, rngs: nnx.Rngs, bias: bool = True) -> nnx.Linear:
    """A linear layer whose weights are drawn as `INIT` says."""
    return nnx.Linear(inputs, outputs, use_bias=bias, kernel_init=INIT, rngs=rngs)


def embedding(rows: int, width: int, rngs: nnx.Rngs) -> nnx.Embed:
    """A table of embeddings, drawn as `INIT` says."""
    return nnx.Embed(rows, width, embedding_init=INIT, rngs=rngs)


def split_heads(h: jax.Array, heads: int) -> jax.Array:
    """`[b, t, heads d]` as `[b, t, heads, d]`."""
    return h.reshape(*h.shape[:-1], heads, -1)


class Span(NamedTuple):
    """`size` tokens of the vocabulary from id `start` on."""

    start: jax.Array | int
    size: int


TokenSet = jax.Array | Span | None
"""The tokens whose logits are computed: ids `[v]`, a span of ids, or all (None)."""


def select_rows(table: jax.Array, token_set: TokenSet) -> jax.Array:
    """The rows of `table [vocabulary, ...]` that belong to some tokens."""
    if token_set is None:
        return table
    if isinstance(token_set, Span):
        rows: jax.Array = jax.lax.dynamic_slice_in_dim(table, token_set.start, token_set.size)
        return rows
    return table[token_set]  # token ids


def logits(h: jax.Array, embeddings: jax.Array, token_set: TokenSet = None) -> jax.Array:
    """Logits `[..., v]` of `h [..., d]` and the tokens' rows among `embeddings [vocabulary, d]`.

    In float32 for any dtype of the network: scores are differences of large logits.
    """
    rows = select_rows(embeddings, token_set)
    return jnp.einsum("...d,vd->...v", h, rows, preferred_element_type=jnp.float32)


def output_table(is_tied: bool, vocabulary: int, width: int, rngs: nnx.Rngs) -> nnx.Embed | None:
    """The embeddings that logits are computed with, None where the input has them."""
    return None if is_tied else embedding(vocabulary, width, rngs)


def product(
    h: jax.Array,
    kernel: jax.Array,
    dimensions: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    out_sharding: NamedSharding | None = None,
) -> jax.Array:
    """`jax.lax.dot_general`, its result in the dtype of `h` but asked for in float32.

    XLA sums in float32 either way. Where the result is to be bfloat16, though, it makes a float32
    copy of every kernel on CPUs, of all layers at once, and leaves the processor's products of
    bfloat16 unused.

    >>> half = jnp.ones((2, 300), jnp.bfloat16)
    >>> product(half, half.T, (((1,), (0,)), ((), ()))).dtype.name
    'bfloat16'
    """
    summed = jax.lax.dot_general(
        h, kernel, dimensions, precision, jnp.float32, out_sharding=out_sharding
    )
    return summed.astype(h.dtype)
