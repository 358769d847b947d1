"""The BLOOM family: no positions but a penalty for distance (ALiBi), normalized embeddings."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import attrgetter

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import Attend, AttentionOptions, Heads


@dataclass(frozen=True, kw_only=True)
class Config:
    """Shape of a BLOOM network, in the names of its Hugging Face `config.json`.

    `seq_length` is the length it was trained on; the network itself has no longest sequence.
    """

    vocab_size: int
    hidden_size: int
    n_layer: int
    n_head: int
    seq_length: int = 2048  # tokens
    layer_norm_epsilon: float = 1e-5
    apply_residual_connection_post_layernorm: bool = False

    positions = property(attrgetter("seq_length"))
    layers = property(attrgetter("n_layer"))
    width = property(attrgetter("hidden_size"))
    heads = property(attrgetter("n_head"))


def slopes(heads: int) -> tuple[float, ...]:
    """The loss of each head's logits per token of distance (Press et al. 2022, section 3)."""
    power = 1 << (heads.bit_length() - 1)  # the largest power of two among the heads
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]  # 2^(-8/power), its square, ...
    return (*first, *(2 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)))


def with_distances(q: jax.Array, k: jax.Array, v: jax.Array, positions: jax.Array) -> Heads:
    """Queries, keys and values `[b, t, heads, d + 2]` whose plain attention is ALiBi's.

    A key's position, times its head's slope, is part of the product of queries and keys: softmax
    is blind to what all keys of a query have in common. The position is two numbers, both exact in
    half precision. The additional numbers of the values are 0.
    """
    scale = q.shape[-1] ** -0.5
    low = positions % 256  # whole numbers up to 256 are exact in bfloat16, and so is the rest
    high_and_low = jnp.stack([positions - low, low], axis=-1)[..., None, :].astype(k.dtype)
    # The scale, which attention multiplies by, is taken out again.
    slope = (jnp.array(slopes(q.shape[-2])) / scale).astype(q.dtype)
    shape = (*q.shape[:-1], 2)
    q = jnp.concatenate([q, jnp.broadcast_to(slope[:, None], shape)], axis=-1)
    k = jnp.concatenate([k, jnp.broadcast_to(high_and_low, shape)], axis=-1)
    v = jnp.concatenate([v, jnp.zeros(shape, v.dtype)], axis=-1)
    return Heads(q, k, v, AttentionOptions(scale))


class Block(nnx.Module):
    """Attention, then a two-layer MLP, each added to its input or to that input normalized."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.layer_norm_epsilon
        self.after = config.apply_residual_connection_post_layernorm
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.ln_2 = layers.layer_norm(width, eps, rngs)
        self.attention = layers.Attention(width, config.n_head, rngs, fused="by group")
        self.mlp = layers.MLP(width, 4 * width, "gelu_new", rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend, positions: jax.Array) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        normed = self.ln_1(h)
        heads = with_distances(*self.attention.split(normed), positions)
        mean = attend(layer, heads)[..., :-2]  # without the numbers that were added
        h = (normed if self.after else h) + self.attention.out(mean.reshape(h.shape))
        normed = self.ln_2(h)
        return (normed if self.after else h) + self.mlp(normed)


class Model(family.Decoder):
    """BLOOM (BigScience 2022), loadable from any Hugging Face `bloom` directory."""

    block = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.hidden_size, config.layer_norm_epsilon)
        self.make(config, norm, is_tied=True, rngs=rngs)
        self.ln_embed = norm(rngs)

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """The positions, for the distances."""
        return repeat((positions,))


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config with `hidden_size` and `n_head`, which older files call otherwise."""
    older = {"hidden_size": raw.get("n_embed"), "n_head": raw.get("num_attention_heads")}
    return {key: setting for key, setting in older.items() if setting is not None} | raw


LAYER = "transformer.h.{i}"
WEIGHTS = {
    "transformer.word_embeddings.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("transformer.word_embeddings_layernorm", "ln_embed"),
    **family.norm_weights(f"{LAYER}.input_layernorm", "blocks.{i}.ln_1"),
    **family.fused_weights(LAYER, "self_attention"),
    **family.norm_weights(f"{LAYER}.post_attention_layernorm", "blocks.{i}.ln_2"),
    **family.norm_weights("transformer.ln_f", "ln"),
}
INERT = "attention_softmax_in_fp32 masked_softmax_fusion offset_alibi skip_bias_add*"
FAMILY = family.Family(
    name="bloom",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    # With slow_but_exact and pretraining_tp above 1 transformers leaves biases out.
    fixed={"tie_word_embeddings": True, "n_inner": None, "slow_but_exact": False},
    keys=("n_embed", "num_attention_heads"),
    inert=tuple(INERT.split()),
    flatten=flatten,
)  # fmt: skip
