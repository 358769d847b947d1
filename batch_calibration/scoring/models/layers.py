"""The parts of networks: activations, norms, heads of attention, the output layer."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding

from batch_calibration.errors import refuse_unknown
from batch_calibration.scoring.models.attention import PLAIN, Attend, AttentionOptions, Heads

INIT = nnx.initializers.normal(0.02)  # GPT-2's, and of all that came after it


def _quick_gelu(h: jax.Array) -> jax.Array:
    return h * jax.nn.sigmoid(1.702 * h)


# gelu_new is the tanh approximation, gelu the exact one
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    **dict.fromkeys(("gelu_fast", "gelu_new", "gelu_pytorch_tanh"), jax.nn.gelu),
    "quick_gelu": _quick_gelu,
    "relu": jax.nn.relu,
    **dict.fromkeys(("silu", "swish"), jax.nn.silu),
    "tanh": jnp.tanh,
}
"""The activation functions, under the names that Hugging Face configs give them."""


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """The function a config calls `name`; `InputError` lists the ones there are."""
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
    """A linear layer whose weights are drawn as `init` says."""
    return nnx.Linear(inputs, outputs, use_bias=bias, kernel_init=init, rngs=rngs)


def embedding(rows: int, width: int, rngs: nnx.Rngs, init: nnx.Initializer = INIT) -> nnx.Embed:
    """A table of embeddings, drawn as `init` says."""
    return nnx.Embed(rows, width, embedding_init=init, rngs=rngs)


def parameter(rngs: nnx.Rngs, *shape: int) -> nnx.Param[jax.Array]:
    """A parameter of a shape, drawn as `INIT` says."""
    return nnx.Param(INIT(rngs.params(), shape))


def split_heads(h: jax.Array, heads: int) -> jax.Array:
    """`[b, t, heads d]` as `[b, t, heads, d]`."""
    return h.reshape(*h.shape[:-1], heads, -1)


Layout = Literal["", "in order", "by head"]
Turn = Callable[[jax.Array], jax.Array]
"""Rotates heads `[b, t, heads, d]` by their positions."""


def unchanged(heads: jax.Array) -> jax.Array:
    """The heads as they are, of networks without rotary positions."""
    return heads


class Attention(nnx.Module):
    """Attention whose queries may share keys and values in groups.

    Args:
        width: of the hidden states.
        heads: of queries.
        rngs: draws the weights.
        bias: whether queries, keys and values have biases, and whether the output has.
        groups: heads of keys and of values; None: as many as of queries.
        size: of a head; None: the heads share the width.
        fused: "in order" where one matrix gives all queries, then all keys, then all values; "by
            head" where it gives each head's query, key and value in turn.
        options: how it differs from plain attention.
        out_init: draws the output's weights.

    Attributes:
        sinks: one for each head, as in `Heads`; None for none.
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
        """Queries `[b, t, heads, d]`, keys and values `[b, t, groups, d]` of `h [b, t, d]`."""
        if self.fused == "in order":
            qkv = split_heads(self.qkv(h), self.heads + 2 * self.groups)
            q, k, v = jnp.split(qkv, (self.heads, self.heads + self.groups), axis=-2)
            return q, k, v
        if self.fused == "by head":
            qkv = self.qkv(h).reshape(*h.shape[:-1], self.heads, 3, -1)
            return qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
        q = split_heads(self.q(h), self.heads)
        return q, split_heads(self.k(h), self.groups), split_heads(self.v(h), self.groups)

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, turn: Turn = unchanged
    ) -> jax.Array:
        """Attention of `h [b, t, d]`; `turn` rotates heads of queries and of keys."""
        q, k, v = self.split(h)
        sinks = None if self.sinks is None else self.sinks[...]
        mean = attend(layer, Heads(turn(q), turn(k), v, self.options, sinks))  # [b, t, heads, d]
        return self.out(mean.reshape(*h.shape[:-1], -1))


class MLP(nnx.Module):
    """`proj(act(fc(h)))`."""

    def __init__(
        self, width: int, inner: int, act: str, rngs: nnx.Rngs, bias: bool = True,
        out_init: nnx.Initializer = INIT,
    ):  # fmt: skip
        self.activation = activation(act)
        self.fc = linear(width, inner, rngs, bias)
        self.proj = linear(inner, width, rngs, bias, out_init)

    def __call__(self, h: jax.Array) -> jax.Array:
        """The MLP of `h [b, t, d]`."""
        return self.proj(self.activation(self.fc(h)))


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
    h = h.astype(rows.dtype)
    return jnp.einsum("...d,vd->...v", h, rows, preferred_element_type=jnp.float32)


def product(
    h: jax.Array,
    kernel: jax.Array,
    dimensions: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    out_sharding: NamedSharding | None = None,
) -> jax.Array:
    """`jax.lax.dot_general` in the dtype of `kernel`, its result in `product_dtype`.

    XLA sums in float32 either way. Where the result is to be bfloat16, though, it makes a float32
    copy of every kernel on CPUs, of all layers at once, and leaves the processor's products of
    bfloat16 unused.

    >>> half = jnp.ones((2, 300), jnp.bfloat16)
    >>> product(half, half.T, (((1,), (0,)), ((), ()))).dtype.name  # on a CPU
    'float32'
    """
    asked = product_dtype(kernel.dtype)
    h = h.astype(kernel.dtype)
    return jax.lax.dot_general(h, kernel, dimensions, precision, asked, out_sharding=out_sharding)


def product_dtype(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of all but the matrices, in networks whose matrices are of `dtype`.

    On CPUs it is float32: they have products of half precision, but round each number of a norm or
    an activation in several instructions. On a GPU float32 would be written to its memory and read
    again.
    """
    return jnp.dtype(jnp.float32) if jax.default_backend() == "cpu" else dtype


def exactness(dtype: str) -> str | None:
    """The precision of products for a network that computes in `dtype`: float32 is float32.

    GPUs else multiply it in TF32 and TPUs in bfloat16, with 10 and 7 bits after the point of 23.
    """
    return "highest" if dtype == "float32" else None
