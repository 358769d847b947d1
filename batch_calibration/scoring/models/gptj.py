"""The GPT-J family: interleaved rotary positions, attention parallel to the MLP, a biased head."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, gpt2, layers, phi, rotary


@dataclass(frozen=True, kw_only=True)
class Config(gpt2.Config):
    """Shape of a GPT-J network, in the names of its Hugging Face `config.json`."""

    rotary_dim: int = 64  # numbers of each head that are rotated
    tie_word_embeddings: bool = False


class Block(family.Block):
    """Attention and a two-layer MLP of the same normalized states."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        self.ln_1, self.ln_2 = layers.layer_norm(width, config.layer_norm_epsilon, rngs), None
        self.attention = layers.Attention(width, config.n_head, rngs, (False, False))
        self.mlp = layers.MLP(width, inner, config.activation_function, rngs)


class Model(phi.Model):
    """GPT-J (Wang and Komatsuzaki 2021), loadable from any Hugging Face `gptj` directory."""

    block = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.n_embd, config.layer_norm_epsilon)
        self.make(config, norm, config.tie_word_embeddings, rngs)
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (config.vocab_size,)))
        self.frequencies = rotary.frequencies(config.rotary_dim, rotary.Rope())

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """The rotation of heads at `positions [b, t]`, of pairs of neighbors."""
        return repeat((rotary.turn(positions, self.frequencies, dtype, interleaved=True),))


WEIGHTS = {
    "transformer.wte.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("transformer.h.{i}.ln_1", "blocks.{i}.ln_1"),
    **family.attention_weights("transformer.h.{i}.attn", "blocks.{i}.attention", family.OUT_PROJ),
    **family.linear_weights("transformer.h.{i}.mlp.fc_in", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights("transformer.h.{i}.mlp.fc_out", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("transformer.ln_f", "ln"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
    "lm_head.bias": family.Weight("bias", split=0),
}
FAMILY = family.Family(
    name="gptj",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    fixed={"rotary": True, "scale_attn_weights": True},
    inert=("n_ctx", "summary_*"),
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
