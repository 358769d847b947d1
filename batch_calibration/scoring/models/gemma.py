"""The Gemma family: Gemma 1 and 2, and Gemma 3 as a language model."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, llama, rotary
from batch_calibration.scoring.models.attention import Attend, AttentionOptions, Layer
from batch_calibration.scoring.models.family import Family, RawConfig, Weight


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """The sizes and options of a Gemma network, under their names in `config.json`.

    `qk_norm` (Gemma 3) follows from the `model_type`.
    """

    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: float = 256.0  # replaces d in 1 / sqrt(d)
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    sliding_window: int | None = 4096


def _norm(config: Config, rngs: nnx.Rngs) -> gated.RMSNorm:
    return gated.RMSNorm(config.hidden_size, config.rms_norm_eps, centered=True, rngs=rngs)


class Block(nnx.Module):
    """Attention, then a gated MLP, each with a norm before and after it."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        self.ln_1, self.ln_attention = _norm(config, rngs), _norm(config, rngs)
        self.ln_2, self.ln_mlp = _norm(config, rngs), _norm(config, rngs)
        scale = config.query_pre_attn_scalar**-0.5
        options = AttentionOptions(scale, window, config.attn_logit_softcapping)
        self.attention = gated.Attention(config, options, centered=True, rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_activation, rngs=rngs)

    def __call__(self, h: jax.Array, layer: Layer, attend: Attend, turn: layers.Turn) -> jax.Array:
        """Adds this block's attention and MLP to `h [b, t, d]`."""
        # The norm after a layer learns the scale of the output that is added.
        h = h + self.ln_attention(self.attention(self.ln_1(h), layer, attend, turn))
        return h + self.ln_mlp(self.mlp(self.ln_2(h)))


class FirstBlock(family.Block):
    """Gemma 1's block: attention, then a gated MLP, each with a norm before it."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        self.ln_1, self.ln_2 = _norm(config, rngs), _norm(config, rngs)
        self.attention = gated.Attention(config, AttentionOptions(window=window), rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_activation, rngs=rngs)


class Model(llama.Model):
    """Gemma 2 and 3 (Gemma Team 2024, 2025), loadable from a Hugging Face directory."""

    block: ClassVar[family.MakePart] = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.begin(config, partial(_norm, config), rngs)
        self.multiplier = config.hidden_size**0.5  # rounded to the dtype, as in transformers
        self.cap = config.final_logit_softcapping

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Computes logits `[..., v]` of hidden states `[..., d]` for `token_set` (None: all)."""
        uncapped = super().unembed(h, token_set)
        return uncapped if self.cap is None else self.cap * jnp.tanh(uncapped / self.cap)


class FirstModel(Model):
    """Gemma 1 (Gemma Team 2024)."""

    block = FirstBlock


def flatten_first(raw: RawConfig) -> RawConfig:
    """Maps Gemma 1's raw config to the fields of `Config`, and adds its defaults."""
    implied = GEMMA2 | {"num_attention_heads": 16, llama.GROUPS: 16}
    raw = implied | {"hidden_act": "gelu_pytorch_tanh"} | raw
    raw["use_bidirectional_attention"] = raw.get("use_bidirectional_attention") or False
    # transformers reads only hidden_act here, and uses the tanh approximation for gelu.
    act = raw["hidden_act"]
    raw |= {
        "hidden_activation": "gelu_pytorch_tanh" if act == "gelu" else act,
        "qk_norm": False,
        "query_pre_attn_scalar": 256.0,  # unused: Gemma 1 scales by the head size
        **dict.fromkeys(("sliding_window", "layer_types", "local_rope")),
        **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping")),
    }
    return gated.layer_types(rotary.flatten(raw), lambda layer: False)


def flatten(raw: RawConfig) -> RawConfig:
    """Maps a raw config to the fields of `Config`, and adds the defaults of its `model_type`.

    Multimodal Gemma 3 directories have the config of the language model in `text_config`.
    """
    text = raw.get("text_config")
    raw = (text if isinstance(text, dict) else {}) | raw
    raw["use_bidirectional_attention"] = raw.get("use_bidirectional_attention") or False
    if not str(raw.get("model_type")).startswith("gemma3"):
        raw = rotary.flatten(GEMMA2 | raw | {"qk_norm": False, "local_rope": None})
        return gated.layer_types(raw, lambda layer: (layer + 1) % 2 != 0)
    interval: Any = raw.get("sliding_window_pattern", 6)  # each sixth layer has full attention
    raw = GEMMA3 | raw
    raw = rotary.flatten_by_kind(raw, local_theta=raw.get("rope_local_base_freq", 10_000.0))
    # Transformers does not apply the soft cap of attention logits to Gemma 3.
    raw |= {"qk_norm": True, "attn_logit_softcapping": None}
    return gated.layer_types(raw, lambda layer: (layer + 1) % interval != 0)


GEMMA2: RawConfig = {llama.LENGTH: 8192, "vocab_size": 256_000}
GEMMA2 |= {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
GEMMA3: RawConfig = {llama.LENGTH: 131_072, "vocab_size": 262_208, "rope_theta": 1_000_000.0}
"""Defaults of transformers for keys that a `config.json` leaves out."""

KEYS = (*rotary.KEYS, "rope_local_base_freq", "sliding_window_pattern")

WEIGHTS = gated.WEIGHTS | {
    "model.layers.{i}.post_attention_layernorm.weight": Weight("blocks.{i}.ln_attention.scale"),
    "model.layers.{i}.pre_feedforward_layernorm.weight": Weight("blocks.{i}.ln_2.scale"),
    "model.layers.{i}.post_feedforward_layernorm.weight": Weight("blocks.{i}.ln_mlp.scale"),
}
# transformers reads the activation from hidden_activation, not from hidden_act.
INERT = "hidden_act _sliding_window_pattern vision_config mm_tokens_per_image *_token_index"
FAMILY = Family(
    name="gemma",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("model.", "language_model.", "model."),
    fixed={"use_bidirectional_attention": False, "partial_rotary_factor": 1.0},
    keys=KEYS,
    parts={"text_config": KEYS},
    inert=tuple(INERT.split()),
    ignored=("vision_tower.*", "multi_modal_projector.*"),
    flatten=flatten,
)  # fmt: skip
FIRST = FAMILY._replace(
    model=FirstModel,
    weights=gated.WEIGHTS,
    keys=(*rotary.KEYS, "hidden_act"),
    parts={},
    prefixes=("model.",),
    inert=(),
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten_first,
)
"""The family of Gemma 1."""
