"""BLOOM and Falcon: a penalty for distance (ALiBi), which not every Falcon has."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import attrgetter

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import family, gated, layers, neox, rotary
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
NAMES = ("transformer.word_embeddings", LAYER, family.TWO_NORMS, (), "transformer.ln_f")
INERT = "attention_softmax_in_fp32 masked_softmax_fusion offset_alibi skip_bias_add*"
FAMILY = family.Family(
    name="bloom",
    config=Config,
    model=Model,
    weights={
        **family.decoder_weights(*NAMES),
        **family.norm_weights("transformer.word_embeddings_layernorm", "ln_embed"),
        **family.fused_weights(LAYER, "self_attention"),
    },
    prefixes=("transformer.",),
    # With slow_but_exact and pretraining_tp above 1 transformers leaves biases out.
    fixed={"tie_word_embeddings": True, "n_inner": None, "slow_but_exact": False},
    keys=("n_embed", "num_attention_heads"),
    inert=tuple(INERT.split()),
    flatten=flatten,
)  # fmt: skip


# --- Falcon: queries that share keys and values, attention parallel to the MLP


@dataclass(frozen=True, kw_only=True)
class FalconConfig(gated.RotaryConfig):
    """Shape of a Falcon network, in the names of its Hugging Face `config.json`.

    `new_decoder_architecture` is that of Falcon 40B and later: it has groups of queries, and two
    norms side by side unless `num_ln_in_parallel_attn` is 1. `layer_norm_eps` is the file's
    `layer_norm_epsilon`.
    """

    num_kv_heads: int | None = None  # read with new_decoder_architecture alone
    new_decoder_architecture: bool = False
    alibi: bool = False  # a penalty for distance in place of rotation, as in Falcon-RW
    multi_query: bool = True
    parallel_attn: bool = True
    num_ln_in_parallel_attn: int | None = None
    bias: bool = False
    ffn_hidden_size: int | None = None
    activation: str = "gelu"
    layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        if self.new_decoder_architecture:
            return self.num_kv_heads or self.heads
        return 1 if self.multi_query else self.heads

    @property
    def two_norms(self) -> bool:
        """True where attention and MLP, in parallel, have a norm each."""
        return self.new_decoder_architecture and self.num_ln_in_parallel_attn != 1


class FalconBlock(nnx.Module):
    """Attention and a two-layer MLP, in parallel or in sequence."""

    def __init__(self, config: FalconConfig, *, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.ffn_hidden_size or 4 * config.hidden_size
        self.parallel, self.alibi = config.parallel_attn, config.alibi
        norm = partial(layers.layer_norm, width, config.layer_norm_eps, rngs)
        self.two_norms = config.two_norms
        if self.two_norms:
            self.ln_attention, self.ln_mlp = norm(), norm()
        else:
            self.ln_1, self.ln_2 = norm(), None if self.parallel else norm()
        bias, groups = (config.bias, config.bias), config.groups
        self.attention = layers.Attention(width, config.heads, rngs, bias, groups, fused="by group")
        self.mlp = layers.MLP(width, inner, config.activation, rngs, config.bias)

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, position: layers.Turn | jax.Array
    ) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`.

        `position` is the rotation, or of ALiBi what `penalties` says.
        """
        normed = self.ln_attention(h) if self.two_norms else self.ln_1(h)
        if isinstance(position, jax.Array):
            heads = with_penalties(*self.attention.split(normed), position)
            mean = attend(layer, heads)[..., :-1]  # without the number that was added
            attended = h + self.attention.out(mean.reshape(h.shape))
        else:
            attended = h + self.attention(normed, layer, attend, position)
        # The MLP reads the attention's input, or, one after the other, its output.
        if self.two_norms:
            normed = self.ln_mlp(h)
        elif self.ln_2 is not None:
            normed = self.ln_2(attended)
        return attended + self.mlp(normed)


def penalties(positions: jax.Array, heads: int) -> jax.Array:
    """The addition of each head to the product with a key at `positions [b, t]`: `[b, t, heads]`.

    ALiBi's slope times the position, as in BLOOM; but Falcon rounds slopes and penalties to
    bfloat16 for any dtype, and adds them before the product is scaled.
    """
    slope = jnp.array(slopes(heads), jnp.bfloat16).astype(jnp.float32)
    return (slope * positions[..., None].astype(jnp.float32)).astype(jnp.bfloat16)


def with_penalties(q: jax.Array, k: jax.Array, v: jax.Array, added: jax.Array) -> Heads:
    """Heads whose logits are `(q k + added) / sqrt(d)`, by one more number of each.

    Softmax is blind to what all keys of a query have in common, so that a key's penalty may be
    counted from the first position. The additional number of the values is 0.
    """
    one_more = (*k.shape[:-1], 1)
    added = jnp.broadcast_to(added[..., None], one_more).astype(k.dtype)  # of a batch of one, too
    options = AttentionOptions(q.shape[-1] ** -0.5)
    q = jnp.concatenate([q, jnp.ones(one_more, q.dtype)], axis=-1)
    v = jnp.concatenate([v, jnp.zeros(one_more, v.dtype)], axis=-1)
    return Heads(q, jnp.concatenate([k, added], axis=-1), v, options)


class FalconModel(neox.Model):
    """Falcon (Almazrouei et al. 2023), loadable from any Hugging Face `falcon` directory."""

    block = FalconBlock

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """The information on `positions [b, t]` that blocks take."""
        block = self.blocks[0]
        if block.alibi:
            return repeat((penalties(positions, block.attention.heads),))
        return super().block_terms(positions, dtype)


def flatten_falcon(raw: family.RawConfig) -> family.RawConfig:
    """The raw config in `FalconConfig`'s fields; combinations that no Falcon has are refused."""
    raw = {"max_position_embeddings": 2048} | raw
    raw["layer_norm_eps"] = raw.get("layer_norm_epsilon", 1e-5)
    if raw.get("n_embed") is not None:
        raw["hidden_size"] = raw["n_embed"]
    new, norms = raw.get("new_decoder_architecture") or False, raw.get("num_ln_in_parallel_attn")
    norm_counts = (None, 1, 2) if new else (None, 1)  # that Falcons are known to have
    if (new and raw.get("parallel_attn") is False) or norms not in norm_counts:
        raise InputError(
            f"config.json says num_ln_in_parallel_attn = {norms!r:.200} and parallel_attn = "
            f"{raw.get('parallel_attn')!r:.200}, which no network of new_decoder_architecture = "
            f"{new!r:.200} has; fetch the file again."
        )
    if raw.get("alibi") and (new or raw.get("multi_query", True)):
        raise InputError(
            "config.json says alibi = true of heads that share keys, which no Falcon has: the "
            f"penalties for distance differ by head; score it with "
            f"{spell('scorer', 'transformers')}."
        )
    return rotary.flatten(raw)


FALCON = family.Family(
    name="falcon",
    config=FalconConfig,
    model=FalconModel,
    weights={
        **family.decoder_weights(*NAMES, "lm_head"),
        **family.fused_weights(LAYER, "self_attention"),
        **family.norm_weights(f"{LAYER}.ln_attn", "blocks.{i}.ln_attention"),
        **family.norm_weights(f"{LAYER}.ln_mlp", "blocks.{i}.ln_mlp"),
    },
    prefixes=("transformer.",),
    fixed={"partial_rotary_factor": 1.0, "apply_residual_connection_post_layernorm": False},
    keys=(*rotary.KEYS, "n_embed", "layer_norm_epsilon"),
    inert=("ff_factor",),  # ffn_hidden_size says it
    ignored=("h.{i}.self_attention.rotary_emb.inv_freq",),
    flatten=flatten_falcon,
)
