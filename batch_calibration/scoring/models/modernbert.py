"""The ModernBERT family: pre-norm rotary encoders, most layers of which see a window."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, llama, rotary
from batch_calibration.scoring.models.attention import Attend, AttentionOptions


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """Shape of a ModernBERT network, in the names of its Hugging Face `config.json`.

    `sliding_window` is how far a layer with a window sees, the token itself counted: half of the
    file's `local_attention` and one.
    """

    hidden_activation: str = "gelu"
    norm_eps: float = 1e-5
    norm_bias: bool = False
    mlp_bias: bool = False


class Block(family.Block):
    """Attention, then a gated MLP, each normalized before it; the first attention is not."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        norm = config.hidden_size, config.norm_eps, rngs, config.norm_bias
        self.ln_1, self.ln_2 = layers.layer_norm(*norm), layers.layer_norm(*norm)
        self.attention = gated.Attention(config, AttentionOptions(window=window), rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_activation, config.mlp_bias, rngs=rngs)


class Model(llama.Model):
    """ModernBERT (Warner et al. 2024) without its heads."""

    block = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, eps, bias = config.hidden_size, config.norm_eps, config.norm_bias
        norm = partial(layers.layer_norm, width, eps, bias=bias)
        self.begin(config, norm, rngs)
        self.blocks[0].ln_1 = nnx.static(layers.unchanged)
        self.ln_embed = norm(rngs=rngs)

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """Final hidden states `[b, t, d]`; ModernBERT has no token types."""
        return super().hidden(tokens, positions, attend)


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config in `Config`'s fields."""
    raw = {"max_position_embeddings": 8192, "local_attention": 128} | raw
    every: Any = raw.get("global_attn_every_n_layers", 3)
    raw = gated.layer_types(raw, lambda layer: layer % every != 0)
    both_ways: Any = raw["local_attention"]
    half = both_ways // 2 if type(both_ways) is int else None
    raw |= {
        "sliding_window": half and half + 1,
        # What the other networks with this attention have a choice of.
        "head_dim": None, "num_key_value_heads": None, "qk_norm": False, "fused": True,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "rope_theta": raw.get("global_rope_theta", 160_000.0),
    }  # fmt: skip
    return rotary.flatten_by_kind(raw, local_theta=raw.get("local_rope_theta", 10_000.0))


LAYER = "model.layers.{i}"
WEIGHTS = {
    "model.embeddings.tok_embeddings.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("model.embeddings.norm", "ln_embed"),
    **family.norm_weights(f"{LAYER}.attn_norm", "blocks.{i}.ln_1"),
    **family.linear_weights(f"{LAYER}.attn.Wqkv", "blocks.{i}.attention.qkv", 1),
    **family.linear_weights(f"{LAYER}.attn.Wo", "blocks.{i}.attention.out", 0),
    **family.norm_weights(f"{LAYER}.mlp_norm", "blocks.{i}.ln_2"),
    **family.linear_weights(f"{LAYER}.mlp.Wi", "blocks.{i}.mlp.gate_up", 1),
    **family.linear_weights(f"{LAYER}.mlp.Wo", "blocks.{i}.mlp.down", 0),
    **family.norm_weights("model.final_norm", "ln"),
}
KEYS = (
    "rope_parameters global_rope_theta local_rope_theta local_attention global_attn_every_n_layers"
)
INERT = (
    "classifier_* decoder_bias sparse_pred* repad_logits_with_grad reference_compile "
    "deterministic_flash_attn initializer_cutoff_factor layer_norm_eps position_embedding_type"
)
FAMILY = family.Family(
    name="modernbert",
    kind="sentence_encoder",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    tied={},
    # Of both kinds of layers at once, which no checkpoint has.
    fixed={"rope_scaling": None},
    keys=tuple(KEYS.split()),
    # Heads of other tasks, and what transformers does not read.
    inert=tuple(INERT.split()),
    ignored=("head.*", "decoder.*", "classifier.*"),
    flatten=flatten,
)  # fmt: skip
