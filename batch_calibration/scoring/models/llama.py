"""The Llama family: Llama, SmolLM, Mistral, Qwen2, Qwen3, SmolLM3, Granite, Phi-3, OLMo 2 and 3."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, rotary
from batch_calibration.scoring.models.attention import Attend, AttentionOptions, Layer
from batch_calibration.scoring.models.family import Family, RawConfig, Weight


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """The sizes and options of a Llama network, under their names in `config.json`.

    `qkv_bias` (Qwen2: biases for queries, keys and values, but not for the output) and `qk_norm`
    (Qwen3, OLMo 2) follow from the `model_type`. `no_rope_layers` (SmolLM3) is 1 for layers with
    rotary positions and 0 for others. Granite uses the multipliers.
    """

    hidden_act: str = "silu"
    qkv_bias: bool = False
    mlp_bias: bool = False
    no_rope_layers: tuple[int, ...] | None = None
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float | None = None
    logits_scaling: float = 1.0

    @property
    def positions(self) -> int:
        """The longest sequence that the network supports, also with `long_frequencies`."""
        return self.rope.positions if self.local_rope is None else self.rope.longest


class Block(family.Block):
    """A pre-norm block: attention, then a gated MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.rms_norm_eps
        bias = config.attention_bias or config.qkv_bias, config.attention_bias
        options = AttentionOptions(config.attention_multiplier, window)
        self.ln_1 = gated.RMSNorm(width, eps, rngs=rngs)
        self.attention = gated.Attention(config, options, bias, rngs=rngs)
        self.ln_2 = gated.RMSNorm(width, eps, rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_act, config.mlp_bias, rngs=rngs)
        self.multiplier = config.residual_multiplier


class PostNormBlock(nnx.Module):
    """OLMo 2's block: attention, then a gated MLP, each with a norm after it."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.rms_norm_eps
        options = AttentionOptions(window=window)
        self.attention = gated.Attention(config, options, joint_norm=True, rngs=rngs)
        self.ln_1 = gated.RMSNorm(width, eps, rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_act, rngs=rngs)
        self.ln_2 = gated.RMSNorm(width, eps, rngs=rngs)

    def __call__(self, h: jax.Array, layer: Layer, attend: Attend, turn: layers.Turn) -> jax.Array:
        """Adds this block's attention and MLP to `h [b, t, d]`."""
        h = h + self.ln_1(self.attention(h, layer, attend, turn))
        return h + self.ln_2(self.mlp(h))


class Model(family.Decoder):
    """Llama (Touvron et al. 2023) and its descendants, loadable from a Hugging Face directory."""

    block: ClassVar[family.MakePart] = Block
    rotates: tuple[int, ...]  # 1 for each layer with rotary positions, 0 for others
    local_frequencies: rotary.Frequencies | None  # for layers with a window

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.begin(config, partial(gated.RMSNorm, config.hidden_size, config.rms_norm_eps), rngs)
        self.rotates = config.no_rope_layers or self.rotates
        self.multiplier, self.scale = config.embedding_multiplier, 1 / config.logits_scaling
        # These replace `frequencies` in sequences longer than the original length.
        self.long_frequencies: rotary.Frequencies | None = None
        if config.rope.rope_type == "longrope":
            self.long_frequencies = rotary.frequencies(config.head_size, config.rope, is_long=True)

    def begin(self, config: gated.Config, norm: family.MakePart, rngs: nnx.Rngs) -> None:
        """Makes the parts that all these networks share; at first, all layers rotate."""
        self.make(config, norm, config.tie_word_embeddings, rngs, gated.windows(config))
        self.rotates = (1,) * config.num_hidden_layers
        self.slides = tuple(kind == gated.SLIDING for kind in config.layer_types)
        self.frequencies = rotary.frequencies(config.head_size, config.rope)
        self.local_frequencies = None
        if config.local_rope is not None:
            self.local_frequencies = rotary.frequencies(config.head_size, config.local_rope)

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """Yields the rotation of each layer; SmolLM3's layers without positions do not rotate."""
        turn = rotary.turn(positions, self.frequencies, dtype)
        local = turn
        if self.local_frequencies is not None:
            local = rotary.turn(positions, self.local_frequencies, dtype)
        for slides, rotates in zip(self.slides, self.rotates, strict=True):
            yield ((local if slides else turn) if rotates else layers.unchanged,)


class PostNormModel(Model):
    """OLMo 2 and 3 (OLMo Team 2024, 2025)."""

    block = PostNormBlock


LENGTH, GROUPS = "max_position_embeddings", "num_key_value_heads"
IMPLIED: dict[str, RawConfig] = {
    "llama": {LENGTH: 2048},
    "mistral": {LENGTH: 131_072, "sliding_window": 4096, GROUPS: 8},
    "ministral": {LENGTH: 131_072, "sliding_window": 4096, GROUPS: 8},
    "qwen2": {LENGTH: 32_768, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3": {LENGTH: 32_768, "sliding_window": 4096, "max_window_layers": 28, "head_dim": 128},
    "smollm3": {LENGTH: 32_768, "rope_theta": 2_000_000.0, GROUPS: 4, "tie_word_embeddings": True},
    "granite": {LENGTH: 2048, "attention_multiplier": 1.0},
    "phi3": {LENGTH: 4096, "rms_norm_eps": 1e-5},
    "olmo2": {LENGTH: 2048, "rms_norm_eps": 1e-5},
    "olmo3": {LENGTH: 2048, "rms_norm_eps": 1e-5, "sliding_window": 4096, "rope_theta": 500_000.0},
}
"""Defaults of each `model_type` for keys that a `config.json` leaves out."""
SWITCHED = ("qwen2", "qwen3", "qwen3_moe", "smollm3")
"""Model types that use their windows only with `use_sliding_window`."""
WINDOWED = (*SWITCHED, "mistral", "ministral", "mixtral", "phi3", "olmo3")


def flatten(raw: RawConfig) -> RawConfig:
    """Maps a raw config to the fields of `Config`, and adds the defaults of its `model_type`."""
    kind = str(raw.get("model_type"))
    raw = IMPLIED.get(kind, {}) | raw  # the file takes precedence over defaults
    raw |= {"qkv_bias": kind == "qwen2", "fused": kind == "phi3"}
    raw["qk_norm"] = kind in ("qwen3", "qwen3_moe", "olmo2", "olmo3")
    if kind not in WINDOWED or (kind in SWITCHED and not raw.get("use_sliding_window")):
        raw["sliding_window"] = None
    if kind not in (*SWITCHED, "mistral", "ministral", "olmo3"):
        raw["layer_types"] = None  # transformers reads it only for these model types
    window = raw.get("sliding_window") is not None
    first: Any = raw.get("max_window_layers", 0)  # layers before it have full attention
    if kind == "smollm3":
        raw["no_rope_layers"] = turns = _rope_layers(raw)
        raw = gated.layer_types(raw, lambda layer: window and not turns[layer])
    elif kind == "olmo3":
        raw = gated.layer_types(raw, lambda layer: window and (layer + 1) % 4 != 0)
    else:
        raw = gated.layer_types(raw, lambda layer: window and layer >= first)
    kinds = raw["layer_types"]
    if not window and isinstance(kinds, tuple) and gated.SLIDING in kinds:
        expected = "a sliding_window, and use_sliding_window = true if it has this switch"
        raise family.misread("layer_types", kinds, expected)
    if kind == "phi3":
        return _phi3_rope(raw)
    if kind == "olmo3":
        # This is transformers' default base for layers with a window.
        return rotary.flatten_by_kind(raw, local_theta=500_000.0)
    return rotary.flatten(raw)


def _phi3_rope(raw: RawConfig) -> RawConfig:
    """Returns the raw config with Phi-3's `longrope`, which older files name "su" or "yarn"."""
    for key in ("rope_scaling", "rope_parameters"):
        scaling: Any = raw.get(key)
        kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
        if kind in ("su", "yarn"):
            raw[key] = scaling | {"rope_type": "longrope"}
    return rotary.flatten(raw, original=4096)


def _rope_layers(raw: RawConfig) -> tuple[int, ...]:
    """Returns SmolLM3's `no_rope_layers`, 1 for each layer that rotates.

    By default, all layers rotate except every `no_rope_layer_interval`-th.
    """
    rotates: Any = raw.get("no_rope_layers")
    interval: Any = raw.get("no_rope_layer_interval", 4)
    layers: Any = raw.get("num_hidden_layers")
    numbers = layers, interval
    if rotates is None and all(type(n) is int and 0 < n <= gated.DEEPEST for n in numbers):
        rotates = [int((layer + 1) % interval != 0) for layer in range(layers)]  # 1: rotates
    fits = isinstance(rotates, list) and isinstance(layers, int) and len(rotates) == layers
    if not fits or not {*rotates} <= {0, 1}:
        raise family.misread("no_rope_layers", rotates, f"0 or 1 for each of {layers} layers")
    return tuple(rotates)


FUSED = gated.weights_without(".q_proj", ".k_proj", ".v_proj", ".gate_proj", ".up_proj") | {
    f"{gated.LAYER}.self_attn.qkv_proj.weight": Weight("blocks.{i}.attention.qkv.kernel", True, 1),
    f"{gated.LAYER}.mlp.gate_up_proj.weight": Weight("blocks.{i}.mlp.gate_up.kernel", True, 1),
}
POST_NORM = gated.weights_without("input_layernorm", "post_attention_layernorm") | {
    "model.layers.{i}.post_attention_layernorm.weight": Weight("blocks.{i}.ln_1.scale"),
    "model.layers.{i}.post_feedforward_layernorm.weight": Weight("blocks.{i}.ln_2.scale"),
}
FIXED: dict[str, tuple[object, str]] = {
    "partial_rotary_factor": (1.0, "phi3"),
    "attention_bias": (False, "llama qwen3 smollm3 granite olmo2 olmo3"),
    "mlp_bias": (False, "llama smollm3 granite"),
    "no_rope_layers": (None, "smollm3"),
    "embedding_multiplier": (1.0, "granite"),
    "residual_multiplier": (1.0, "granite"),
    "attention_multiplier": (None, "granite"),
    "logits_scaling": (1.0, "granite"),
}
"""Options, their only supported value, and the model types that support other values."""
HARMLESS = dict(activation="swiglu", full_attn_mod=1, interpolate_factor=1, lm_head_bias=False)
"""Keys of some files (Falcon 3, Phi-4-mini) with the value that these networks implement."""


def _family(kind: str) -> Family:
    """Makes the family of one `model_type`."""
    fixed = {key: only for key, (only, own) in FIXED.items() if kind not in own.split()}
    return Family(
        name=kind,
        config=Config,
        model=PostNormModel if kind.startswith("olmo") else Model,
        weights={"phi3": FUSED, "olmo2": POST_NORM, "olmo3": POST_NORM}.get(kind, gated.WEIGHTS),
        fixed=fixed | HARMLESS,
        keys=(*rotary.KEYS, "use_sliding_window", "max_window_layers", "no_rope_layer_interval"),
        inert=("is_llama_config", "max_sequence_length", "rope_interleaved", "use_mrope"),
        ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
        flatten=flatten,
    )


FAMILIES = {kind: _family(kind) for kind in IMPLIED}
