"""The Falcon family: queries that share keys and values, attention parallel to the MLP."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import bloom, family, gated, layers, neox, rotary
from batch_calibration.scoring.models.attention import Attend, AttentionOptions, Heads


@dataclass(frozen=True, kw_only=True)
class Config(gated.RotaryConfig):
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


class Block(nnx.Module):
    """Attention and a two-layer MLP, in parallel or in sequence."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
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
    slopes = jnp.array(bloom.slopes(heads), jnp.bfloat16).astype(jnp.float32)
    return (slopes * positions[..., None].astype(jnp.float32)).astype(jnp.bfloat16)


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


class Model(neox.Model):
    """Falcon (Almazrouei et al. 2023), loadable from any Hugging Face `falcon` directory."""

    block = Block

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """The information on `positions [b, t]` that blocks take."""
        block = self.blocks[0]
        if block.alibi:
            return repeat((penalties(positions, block.attention.heads),))
        return super().block_terms(positions, dtype)


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config in `Config`'s fields; combinations that no Falcon has are refused."""
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


LAYER = "transformer.h.{i}"
WEIGHTS = {
    "transformer.word_embeddings.weight": family.Weight("embed.embedding", split=0),
    **family.fused_weights(LAYER, "self_attention"),
    **family.norm_weights("transformer.ln_f", "ln"),
    **family.norm_weights(f"{LAYER}.input_layernorm", "blocks.{i}.ln_1"),
    **family.norm_weights(f"{LAYER}.post_attention_layernorm", "blocks.{i}.ln_2"),
    **family.norm_weights(f"{LAYER}.ln_attn", "blocks.{i}.ln_attention"),
    **family.norm_weights(f"{LAYER}.ln_mlp", "blocks.{i}.ln_mlp"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
}
FAMILY = family.Family(
    name="falcon",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    fixed={"partial_rotary_factor": 1.0, "apply_residual_connection_post_layernorm": False},
    keys=(*rotary.KEYS, "n_embed", "layer_norm_epsilon"),
    inert=("ff_factor",),  # ffn_hidden_size says it
    ignored=("h.{i}.self_attention.rotary_emb.inv_freq",),
    flatten=flatten,
)
