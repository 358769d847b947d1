"""The Cohere family: Command R of both generations, parallel blocks; windows rotate."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, llama, rotary
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.family import Family, RawConfig, Weight


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """Shape of a Cohere network, in the names of its Hugging Face `config.json`."""

    hidden_act: str = "silu"
    layer_norm_eps: float = 1e-5
    logit_scale: float = 0.0625
    tie_word_embeddings: bool = True
    sliding_window: int | None = 4096
    rotates_all: bool = False  # the first generation: all layers rotate, without windows


def _norm(config: Config, rngs: nnx.Rngs) -> nnx.LayerNorm:
    return layers.layer_norm(config.hidden_size, config.layer_norm_eps, rngs, bias=False)


class Block(family.Block):
    """Attention and a gated MLP of the same normalized states."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        self.ln_1, self.ln_2 = _norm(config, rngs), None
        self.attention = gated.Attention(config, AttentionOptions(window=window), rngs=rngs)
        self.mlp = gated.MLP(config, config.hidden_act, rngs=rngs)


class Model(llama.Model):
    """Command R, R7B and A (Cohere 2024, 2025), loadable from a Hugging Face directory."""

    block = Block
    interleaved = True

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.begin(config, partial(_norm, config), rngs)
        windows = gated.windows(config)
        # Of the second generation, layers that see everything have no positions.
        self.rotates = tuple(int(config.rotates_all or w is not None) for w in windows)
        self.scale = config.logit_scale


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config with `layer_types`, of which older files have the pattern alone."""
    raw = {"max_position_embeddings": 8192} | raw | {"qk_norm": False, "fused": False}
    raw["head_dim"] = None  # transformers divides the width by the heads
    interval: Any = raw.get("sliding_window_pattern", 4)
    return rotary.flatten(gated.layer_types(raw, lambda layer: (layer + 1) % interval != 0))


def flatten_first(raw: RawConfig) -> RawConfig:
    """The first generation's raw config: all layers see all positions and rotate."""
    raw = {"max_position_embeddings": 8192, "rope_theta": 500_000.0} | raw
    raw["use_qk_norm"] = raw.get("use_qk_norm") or False
    raw |= {"rotates_all": True, "qk_norm": False, "fused": False, "head_dim": None}
    raw |= {"sliding_window": None, "layer_types": None}
    return rotary.flatten(gated.layer_types(raw, lambda layer: False))


WEIGHTS = gated.weights_without("post_attention_layernorm") | {
    "model.layers.{i}.input_layernorm.weight": Weight("blocks.{i}.ln_1.scale")
}
INERT = "rotary_pct order_of_interleaved_layers layer_switch cache_* model_max_length"
FAMILY = Family(
    name="cohere2",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    fixed={
        "partial_rotary_factor": 1.0,
        "use_qk_norm": False,
        **dict.fromkeys(("use_parallel_block", "use_parallel_embedding"), True),
        "use_gated_activation": True,
        "position_embedding_type": "rope_gptj",
        "use_embedding_sharing": True,
        "_sliding_window_pattern": 4,
    },
    keys=(*rotary.KEYS, "sliding_window_pattern"),
    inert=tuple(INERT.split()),
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten,
)
FIRST = FAMILY._replace(
    name="cohere", fixed={"partial_rotary_factor": 1.0, "use_qk_norm": False}, flatten=flatten_first
)
"""Command R of the first generation; Command R+ norms queries and keys, and is refused."""
