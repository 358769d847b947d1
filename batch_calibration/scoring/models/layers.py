"""Layers that networks share: activations, norms, attention, MLPs, the output layer."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.errors import refuse_unknown
from batch_calibration.scoring.models.attention import (
    PLAIN,
    Attend,
    AttentionOptions,
    Heads,
    Layer,
)

INIT = nnx.initializers.normal(0.02)  # as in GPT-2 and later decoders


def _quick_gelu(h: jax.Array) -> jax.Array:
    return h * jax.nn.sigmoid(1.702 * h)


# "gelu_new" is the tanh approximation; "gelu" is exact.
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    **dict.fromkeys(("gelu_fast", "gelu_new", "gelu_pytorch_tanh"), jax.nn.gelu),
    "quick_gelu": _quick_gelu,
    "relu": jax.nn.relu,
    **dict.fromkeys(("silu", "swish"), jax.nn.silu),
    "tanh": jnp.tanh,
}
"""The activation functions, keyed by their names in Hugging Face configs."""


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """Returns the activation function with this name in configs.

    Raises:
        InputError: The name is unknown; the message lists the known ones.
    """
    refuse_unknown("activation function", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def layer_norm(width: int, eps: float, rngs: nnx.Rngs, affine: bool = True) -> nnx.LayerNorm:
    """Makes a layer norm, with a scale and a bias if it is `affine`."""
    # The fast variance, E[h^2] - E[h]^2, loses digits where the mean is large.
    return nnx.LayerNorm(
        width, epsilon=eps, use_bias=affine, use_scale=affine, use_fast_variance=False, rngs=rngs
    )


def linear(
    inputs: int, outputs: int, rngs: nnx.Rngs, bias: bool = True, init: nnx.Initializer = INIT
) -> nnx.Linear:
    """Makes a linear layer with weights drawn by `init`."""
    return nnx.Linear(inputs, outputs, use_bias=bias, kernel_init=init, rngs=rngs)


def embedding(rows: int, width: int, rngs: nnx.Rngs, init: nnx.Initializer = INIT) -> nnx.Embed:
    """Makes a table of embeddings drawn by `init`."""
    return nnx.Embed(rows, width, embedding_init=init, rngs=rngs)


def parameter(rngs: nnx.Rngs, *shape: int) -> nnx.Param[jax.Array]:
    """Makes a parameter of this shape, drawn by `INIT`."""
    return nnx.Param(INIT(rngs.params(), shape))


def to_heads(layer: nnx.Linear, h: jax.Array, heads: int) -> jax.Array:
    """Applies a linear layer to `h [b, t, c]` and returns its outputs as `[b, t, heads, d]`."""
    return _contracted(layer, h, (h.shape[-1],), (heads, -1))


def from_heads(layer: nnx.Linear, heads: jax.Array) -> jax.Array:
    """Applies a linear layer to all numbers of `heads [b, t, heads, d]`, `[b, t, c]`."""
    return _contracted(layer, heads, heads.shape[-2:], (-1,))


def _contracted(
    layer: nnx.Linear, h: jax.Array, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> jax.Array:
    """Contracts the last axes of `h`, of sizes `inputs`, with a layer's kernel; adds its bias.

    The kernel is reshaped instead of `h`: TPUs would move all of `h` to another layout.
    """
    kernel = layer.kernel[...].reshape(*inputs, *outputs)
    own, first = tuple(range(len(inputs))), h.ndim - len(inputs)
    axes = (tuple(range(first, h.ndim)), own), ((), ())
    out: jax.Array = layer.dot_general(h, kernel, axes, precision=layer.precision)
    return out if layer.bias is None else out + layer.bias[...].reshape(outputs)


Layout = Literal["", "in order", "by head"]
Turn = Callable[[jax.Array], jax.Array]
"""Rotates heads `[b, t, heads, d]` by their positions."""


def unchanged(heads: jax.Array) -> jax.Array:
    """Returns the heads unchanged, for layers without rotary positions."""
    return heads


class Attention(nnx.Module):
    """Multi-head attention; groups of queries may share a key and a value head.

    Args:
        width: The size of the hidden states.
        heads: The number of query heads.
        rngs: The random keys of the weights.
        bias: Whether queries, keys and values have biases, and whether the output has one.
        groups: The number of key and value heads; None: the number of query heads.
        size: The size of a head; None: `width / heads`.
        fused: "in order" if one matrix computes all queries, then all keys, then all values; "by
            head" if it computes the query, the key and the value of each head in turn.
        options: Differences from plain attention.
        out_init: The initializer of the output's weights.

    Attributes:
        sinks: A logit for each head, as in `Heads`; None for attention without sinks.
    """

    sinks: nnx.Param[jax.Array] | None = None

    def __init__(
        self,
        width: int,
        heads: int,
        rngs: nnx.Rngs,
        bias: tuple[bool, bool] = (True, True),
        groups: int | None = None,
        size: int | None = None,
        fused: Layout = "",
        options: AttentionOptions = PLAIN,
        out_init: nnx.Initializer = INIT,
    ):
        groups, d = groups or heads, size or width // heads
        self.heads, self.groups, self.fused, self.options = heads, groups, fused, options
        if fused:
            self.qkv = linear(width, (heads + 2 * groups) * d, rngs, bias[0])
        else:
            self.q = linear(width, heads * d, rngs, bias[0])
            self.k = linear(width, groups * d, rngs, bias[0])
            self.v = linear(width, groups * d, rngs, bias[0])
        self.out = linear(heads * d, width, rngs, bias[1], out_init)

    def split(self, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Projects `h [b, t, d]` to q `[b, t, heads, d]`, and k and v `[b, t, groups, d]`."""
        if self.fused == "in order":
            qkv = to_heads(self.qkv, h, self.heads + 2 * self.groups)
            q, k, v = jnp.split(qkv, (self.heads, self.heads + self.groups), axis=-2)
            return q, k, v
        if self.fused == "by head":
            qkv = to_heads(self.qkv, h, 3 * self.heads)
            return qkv[..., ::3, :], qkv[..., 1::3, :], qkv[..., 2::3, :]
        q = to_heads(self.q, h, self.heads)
        return q, to_heads(self.k, h, self.groups), to_heads(self.v, h, self.groups)

    def __call__(
        self, h: jax.Array, layer: Layer, attend: Attend, turn: Turn = unchanged
    ) -> jax.Array:
        """Computes attention of `h [b, t, d]`; `turn` rotates query and key heads."""
        q, k, v = self.split(h)
        sinks = None if self.sinks is None else self.sinks[...]
        mean = attend(layer, Heads(turn(q), turn(k), v, self.options, sinks))  # [b, t, heads, d]
        return from_heads(self.out, mean)


class MLP(nnx.Module):
    """A two-layer MLP, `proj(act(fc(h)))`."""

    def __init__(
        self, width: int, inner: int, act: str, rngs: nnx.Rngs, bias: bool = True,
        out_init: nnx.Initializer = INIT,
    ):  # fmt: skip
        self.activation = activation(act)
        self.fc = linear(width, inner, rngs, bias)
        self.proj = linear(inner, width, rngs, bias, out_init)

    def __call__(self, h: jax.Array) -> jax.Array:
        """Applies the MLP to `h [b, t, d]`."""
        return self.proj(self.activation(self.fc(h)))


class Span(NamedTuple):
    """A range of token ids: `size` ids from `start` on."""

    start: jax.Array | int
    size: int


TokenSet = jax.Array | Span | None
"""The tokens for which logits are computed: ids `[v]`, a range of ids, or all (None)."""


def select_rows(table: jax.Array, token_set: TokenSet) -> jax.Array:
    """Selects the rows of `table [vocabulary, ...]` for these tokens."""
    if token_set is None:
        return table
    if isinstance(token_set, Span):
        rows: jax.Array = jax.lax.dynamic_slice_in_dim(table, token_set.start, token_set.size)
        return rows
    return table[token_set]  # token ids


def logits(h: jax.Array, embeddings: jax.Array, token_set: TokenSet = None) -> jax.Array:
    """Computes logits `[..., v]` of `h [..., d]` for tokens of `embeddings [vocabulary, d]`.

    They are float32 for every dtype of the network, as scores are differences of large logits.
    """
    rows = select_rows(embeddings, token_set)
    h = h.astype(rows.dtype)
    return jnp.einsum("...d,vd->...v", h, rows, preferred_element_type=jnp.float32)


def product(
    h: jax.Array,
    kernel: jax.Array,
    dimensions: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    out_sharding: NamedSharding | None = None,
) -> jax.Array:
    """Computes `jax.lax.dot_general` in the dtype of `kernel`, with a result in `product_dtype`.

    XLA accumulates in float32 in any case. For a bfloat16 result on CPUs, however, it copies the
    kernels of all layers to float32 at once, and does not use the processor's bfloat16 products.

    >>> half = jnp.ones((2, 300), jnp.bfloat16)
    >>> product(half, half.T, (((1,), (0,)), ((), ()))).dtype.name  # on a CPU
    'float32'
    """
    asked = product_dtype(kernel.dtype)
    h = h.astype(kernel.dtype)
    return jax.lax.dot_general(h, kernel, dimensions, precision, asked, out_sharding=out_sharding)


def product_dtype(dtype: jnp.dtype) -> jnp.dtype:
    """Returns the dtype of activations and norm layers in a network with weights in `dtype`.

    On CPUs this is float32: they multiply half-precision matrices fast, but need several
    instructions to round each number of a norm or an activation. On GPUs float32 activations would
    cost memory bandwidth.
    """
    return jnp.dtype(jnp.float32) if jax.default_backend() == "cpu" else dtype


def exactness(dtype: str) -> str | None:
    """Returns the matmul precision for a network in `dtype`: full float32 for "float32".

    By default, GPUs multiply float32 as TF32 and TPUs as bfloat16, with 10 and 7 bits of mantissa
    instead of 23.
    """
    return "highest" if dtype == "float32" else None
