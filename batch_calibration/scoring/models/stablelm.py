"""The StableLM family: attention and MLP of Llama, layer norms, a quarter of each head rotated."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import family, gated, layers, neox, rotary
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.family import Family, RawConfig, Weight, norm_weights

MOST_HEADS = 128
"""Heads with a norm of their own that the table below has names for."""


@dataclass(frozen=True, kw_only=True)
class Config(gated.Config):
    """Shape of a StableLM network, in the names of its Hugging Face `config.json`."""

    hidden_act: str = "silu"
    layer_norm_eps: float = 1e-5
    use_qkv_bias: bool = False
    use_parallel_residual: bool = False  # the MLP reads what attention reads, by the same norm
    qk_layernorm: bool = False  # of each head of queries and keys, as StableLM 2 12B has them


class HeadNorms(nnx.Module):
    """A layer norm without bias for each head."""

    def __init__(self, heads: int, size: int, eps: float):
        if heads > MOST_HEADS:
            expected = f"at most {MOST_HEADS} heads with qk_layernorm"
            remedy = f"{spell('scorer', 'transformers')} may run it"
            raise InputError.at("config.json", expected, heads, remedy)
        self.eps = eps
        self.scales = nnx.List([nnx.Param(jnp.ones(size)) for _ in range(heads)])

    def __call__(self, heads: jax.Array) -> jax.Array:
        """`heads [b, t, heads, d]`, each normalized in float32, in their own dtype."""
        scales = jnp.stack([scale[...] for scale in self.scales])  # [heads, d]
        normed = heads.astype(jnp.float32)
        normed = normed - normed.mean(axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(normed), axis=-1, keepdims=True)
        normed = normed * jax.lax.rsqrt(variance + self.eps)
        return (normed * scales.astype(jnp.float32)).astype(heads.dtype)


class Block(family.Block):
    """Attention and a gated MLP, in parallel or in sequence."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.layer_norm_eps
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.attention = gated.Attention(
            config, AttentionOptions(), (config.use_qkv_bias, False), rngs=rngs
        )
        if config.qk_layernorm:
            groups, size = config.num_key_value_heads or config.heads, config.head_size
            self.attention.q_norm = nnx.data(HeadNorms(config.heads, size, eps))
            self.attention.k_norm = nnx.data(HeadNorms(groups, size, eps))
        self.ln_2 = None if config.use_parallel_residual else layers.layer_norm(width, eps, rngs)
        self.mlp = gated.MLP(config, config.hidden_act, rngs=rngs)


class Model(neox.Model):
    """StableLM (Bellagente et al. 2024), loadable from any Hugging Face `stablelm` directory."""

    block = Block


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config with the rope fields; all layers see all positions."""
    raw = {"max_position_embeddings": 4096, "num_key_value_heads": 32} | raw
    raw |= {"head_dim": None, "qk_norm": False, "fused": False, "attention_bias": False}
    raw |= {"sliding_window": None, "layer_types": None}
    return rotary.flatten(gated.layer_types(raw, lambda layer: False), share=0.25)


# Llama's table, but layer norms have biases.
WEIGHTS = {
    **gated.weights_without("norm"),
    **norm_weights("model.layers.{i}.input_layernorm", "blocks.{i}.ln_1"),
    **norm_weights("model.layers.{i}.post_attention_layernorm", "blocks.{i}.ln_2"),
    **norm_weights("model.norm", "ln"),
}
for side in "qk":
    for head in range(MOST_HEADS):
        theirs = f"model.layers.{{i}}.self_attn.{side}_layernorm.norms.{head}.weight"
        WEIGHTS[theirs] = Weight(f"blocks.{{i}}.attention.{side}_norm.scales.{head}")
FAMILY = Family(
    name="stablelm",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    keys=rotary.KEYS,
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten,
)
