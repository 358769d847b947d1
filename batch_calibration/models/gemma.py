"""The Gemma family: Gemma 2, and Gemma 3 as a language model."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.models import gated, rotary
from batch_calibration.models.attention import Attend, AttentionOptions
from batch_calibration.models.family import Family, RawConfig, Weight
from batch_calibration.models.head import logits


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """Shape of a Gemma network, in the names of its Hugging Face `config.json`.

    `qk_norm` (Gemma 3) follows from its `model_type`. `rope_local_theta` is that of
    layers with a window where it is their own (Gemma 3); the other rope fields are as
    `rotary.flatten` says.
    """

    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 256
    max_position_embeddings: int = 8192
    hidden_activation: str = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: float = 256.0
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    sliding_window: int | None = 4096
    rope_local_theta: float | None = None


class Block(nnx.Module):
    """Attention, then a gated MLP, each normalized before and after."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.ln_1, self.ln_attention, self.ln_2, self.ln_mlp = (
            gated.RMSNorm(width, config.rms_norm_eps, centered=True, rngs=rngs) for _ in range(4)
        )
        self.attention = gated.Attention(
            config,
            AttentionOptions(
                config.query_pre_attn_scalar**-0.5, window, config.attn_logit_softcapping
            ),
            (config.attention_bias, config.attention_bias),
            centered=True,
            rngs=rngs,
        )
        self.mlp = gated.MLP(width, config.intermediate_size, config.hidden_activation, rngs=rngs)

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, angle: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        h = h + self.ln_attention(self.attention(self.ln_1(h), layer, attend, angle))
        return h + self.ln_mlp(self.mlp(self.ln_2(h)))


class Model(nnx.Module):
    """Gemma 2 and 3 (Gemma Team 2024, 2025), loadable from a Hugging Face directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.hidden_size
        self.embed = nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        self.blocks = nnx.List(
            [Block(config, window, rngs=rngs) for window in gated.windows(config)]
        )
        self.norm = gated.RMSNorm(width, config.rms_norm_eps, centered=True, rngs=rngs)
        self.head = (
            None
            if config.tie_word_embeddings
            else nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        )
        self.cap = config.final_logit_softcapping
        self.slides = tuple(kind == gated.SLIDING for kind in config.layer_types)
        self.frequencies = self.local_frequencies = rotary.frequencies(
            config.head_dim, config.rope_theta, config.rope_type, config.rope_scaling
        )
        if config.rope_local_theta is not None:
            self.local_frequencies = rotary.frequencies(config.head_dim, config.rope_local_theta)

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h = self.embed(tokens)
        h = h * jnp.asarray(h.shape[-1] ** 0.5, h.dtype)
        full, local = (
            rotary.angles(positions, frequencies, h.dtype)
            for frequencies in (self.frequencies, self.local_frequencies)
        )
        for layer, (block, slides) in enumerate(zip(self.blocks, self.slides, strict=True)):
            h = block(h, layer, attend, local if slides else full)
        return self.norm(h)

    def unembed(self, h: jax.Array, tokens: jax.Array | None = None) -> jax.Array:
        """Logits `[..., vocabulary]` of hidden states `[..., d]`, or of `tokens [v]` alone."""
        table = self.embed if self.head is None else self.head
        found = logits(h, table.embedding[...], tokens)
        return found if self.cap is None else self.cap * jnp.tanh(found / self.cap)


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config with what its `model_type` leaves unsaid, in `Config`'s fields.

    A directory of the Gemma 3 that also sees has its language model in `text_config`.
    """
    text = raw.get("text_config")
    raw = (text if isinstance(text, dict) else {}) | raw
    raw["use_bidirectional_attention"] = raw.get("use_bidirectional_attention") or False
    every: Any = 2
    if str(raw.get("model_type")).startswith("gemma3"):
        every = raw.get("sliding_window_pattern", raw.get("_sliding_window_pattern", 6))
        nested = raw.get("rope_parameters")
        nested = nested if isinstance(nested, dict) else {}
        local = rotary.flatten(
            {
                "rope_theta": raw.get("rope_local_base_freq", 10_000.0),
                "rope_parameters": nested.get("sliding_attention"),
            }
        )
        raw = GEMMA3 | raw
        raw |= {
            "qk_norm": True,
            "attn_logit_softcapping": None,  # transformers does not apply it
            "rope_parameters": nested.get("full_attention"),
            "rope_local_theta": local["rope_theta"],
            "rope_local_type": local["rope_type"],
        }
    else:
        raw = GEMMA2 | raw
    return rotary.flatten(gated.layer_types(raw, lambda layer: (layer + 1) % every != 0))


GEMMA2: RawConfig = {
    "vocab_size": 256_000,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3: RawConfig = {
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
}
"""What the two leave unsaid where it is as in transformers."""

WEIGHTS = gated.WEIGHTS | {
    "model.layers.{i}.post_attention_layernorm.weight": Weight("blocks.{i}.ln_attention.scale"),
    "model.layers.{i}.pre_feedforward_layernorm.weight": Weight("blocks.{i}.ln_2.scale"),
    "model.layers.{i}.post_feedforward_layernorm.weight": Weight("blocks.{i}.ln_mlp.scale"),
}
FAMILY = Family(
    name="gemma",
    kind="causal_lm",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("model.", "language_model.", "model."),
    fixed={
        "use_bidirectional_attention": False,
        "rope_local_type": "default",
        "partial_rotary_factor": 1.0,
    },
    ignored=("lm_head.weight", "vision_tower.*", "multi_modal_projector.*"),
    flatten=flatten,
)
