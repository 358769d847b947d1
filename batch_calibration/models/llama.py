"""The Llama family: Llama, SmolLM, Mistral, Qwen2 and Qwen3."""

from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx

from batch_calibration.models import gated, rotary
from batch_calibration.models.attention import Attend, AttentionOptions
from batch_calibration.models.family import Family, RawConfig
from batch_calibration.models.head import logits


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """Shape of a Llama network, in the names of its Hugging Face `config.json`.

    `qkv_bias` (Qwen2: queries, keys and values have biases though the output has none) and
    `qk_norm` (Qwen3) follow from its `model_type`, the rope fields from `rotary.flatten`.
    """

    max_position_embeddings: int = 2048
    hidden_act: str = "silu"
    qkv_bias: bool = False
    mlp_bias: bool = False


class Block(nnx.Module):
    """One pre-norm block: attention, then a gated MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.rms_norm_eps
        bias = config.attention_bias or config.qkv_bias, config.attention_bias
        self.ln_1 = gated.RMSNorm(width, eps, rngs=rngs)
        self.attention = gated.Attention(config, AttentionOptions(window=window), bias, rngs=rngs)
        self.ln_2 = gated.RMSNorm(width, eps, rngs=rngs)
        self.mlp = gated.MLP(
            width, config.intermediate_size, config.hidden_act, config.mlp_bias, rngs=rngs
        )

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, angle: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        h = h + self.attention(self.ln_1(h), layer, attend, angle)
        return h + self.mlp(self.ln_2(h))


class Model(nnx.Module):
    """Llama (Touvron et al. 2023) and its descendants, loadable from a Hugging Face directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.hidden_size
        self.embed = nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        self.blocks = nnx.List(
            [Block(config, window, rngs=rngs) for window in gated.windows(config)]
        )
        self.norm = gated.RMSNorm(width, config.rms_norm_eps, rngs=rngs)
        self.head = (
            None
            if config.tie_word_embeddings
            else nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        )
        self.frequencies = rotary.frequencies(
            config.head_size, config.rope_theta, config.rope_type, config.rope_scaling
        )

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h = self.embed(tokens)
        angle = rotary.angles(positions, self.frequencies, h.dtype)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend, angle)
        return self.norm(h)

    def unembed(self, h: jax.Array, tokens: jax.Array | None = None) -> jax.Array:
        """Logits `[..., vocabulary]` of hidden states `[..., d]`, or of `tokens [v]` alone."""
        table = self.embed if self.head is None else self.head
        return logits(h, table.embedding[...], tokens)


IMPLIED: dict[str, RawConfig] = {
    "mistral": {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 0},
    "qwen2": {"sliding_window": 4096, "max_window_layers": 28, "qkv_bias": True},
    "qwen3": {"sliding_window": 4096, "max_window_layers": 28, "qk_norm": True, "head_dim": 128},
}
"""What a `model_type` means where its config does not say."""


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config with what its `model_type` leaves unsaid, in `Config`'s fields."""
    kind = str(raw.get("model_type"))
    raw = IMPLIED.get(kind, {}) | raw
    first: Any = raw.get("max_window_layers")
    if not kind.startswith("qwen"):
        raw["layer_types"] = None  # transformers looks at those of Qwen alone
    if kind not in IMPLIED or not raw.get("use_sliding_window"):
        raw["sliding_window"] = None
    slides = raw["sliding_window"] is not None
    return rotary.flatten(gated.layer_types(raw, lambda layer: slides and layer >= first))


FAMILY = Family(
    name="llama",
    kind="causal_lm",
    config=Config,
    model=Model,
    weights=gated.WEIGHTS,
    prefixes=("model.",),
    fixed={"partial_rotary_factor": 1.0},
    ignored=("lm_head.weight", "layers.{i}.self_attn.rotary_emb.inv_freq"),
    flatten=flatten,
)
