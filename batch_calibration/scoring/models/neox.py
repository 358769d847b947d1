"""The GPT-NeoX family, Pythia among it: partial rotary positions, parallel residual."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, rotary


@dataclass(frozen=True, kw_only=True)
class Config(gated.RotaryConfig):
    """Shape of a GPT-NeoX network, in the names of its Hugging Face `config.json`."""

    intermediate_size: int
    max_position_embeddings: int = 2048
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    use_parallel_residual: bool = True  # the MLP reads what attention reads
    attention_bias: bool = True
    tie_word_embeddings: bool = False


class Block(family.Block):
    """Attention and a two-layer MLP, in parallel or in sequence."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, bias = config.hidden_size, config.attention_bias
        self.parallel = config.use_parallel_residual
        self.ln_1 = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.ln_2 = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.attention = layers.Attention(width, config.heads, rngs, (bias, bias), fused="by group")
        self.mlp = layers.MLP(width, config.intermediate_size, config.hidden_act, rngs)


class Model(family.Decoder):
    """GPT-NeoX (Black et al. 2022), loadable from any Hugging Face `gpt_neox` directory."""

    block: ClassVar[family.MakeBlock] = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.hidden_size, config.layer_norm_eps)
        self.make(config, norm, config.tie_word_embeddings, rngs)
        self.frequencies = rotary.frequencies(config.hidden_size // config.heads, config.rope)

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """The rotation of heads at `positions [b, t]`."""
        return repeat((rotary.turn(positions, self.frequencies, dtype),))


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config with the rope fields, whose names were this family's own."""
    return rotary.flatten(
        {"rope_theta": raw.get("rotary_emb_base", 10_000.0), "max_position_embeddings": 2048} | raw,
        share=raw.get("rotary_pct", 0.25),
    )


WEIGHTS = {
    "gpt_neox.embed_in.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("gpt_neox.layers.{i}.input_layernorm", "blocks.{i}.ln_1"),
    **family.linear_weights(
        "gpt_neox.layers.{i}.attention.query_key_value", "blocks.{i}.attention.qkv", 1
    ),
    **family.linear_weights("gpt_neox.layers.{i}.attention.dense", "blocks.{i}.attention.out", 0),
    **family.norm_weights("gpt_neox.layers.{i}.post_attention_layernorm", "blocks.{i}.ln_2"),
    **family.linear_weights("gpt_neox.layers.{i}.mlp.dense_h_to_4h", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights("gpt_neox.layers.{i}.mlp.dense_4h_to_h", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("gpt_neox.final_layer_norm", "ln"),
    "embed_out.weight": family.Weight("head.embedding", split=0),
}
FAMILY = family.Family(
    name="neox",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("gpt_neox.",),
    fixed={"is_decoder": False},
    keys=(*rotary.KEYS, "rotary_emb_base", "rotary_pct"),
    inert=("num_steps",),
    tied={"embed_out.weight": "embed.embedding"},
    ignored=(
        "layers.{i}.attention.bias",
        "layers.{i}.attention.masked_bias",
        "layers.{i}.attention.rotary_emb.inv_freq",
    ),
    flatten=flatten,
)
