"""The GPT-J family: interleaved rotary positions, attention parallel to the MLP, a biased head."""

from dataclasses import dataclass
from functools import partial

import jax
from flax import nnx

from batch_calibration.scoring.models import family, gpt2, layers, phi, rotary
from batch_calibration.scoring.models.attention import Attend


@dataclass(frozen=True, kw_only=True)
class Config(gpt2.Config):
    """Shape of a GPT-J network, in the names of its Hugging Face `config.json`."""

    rotary_dim: int = 64  # numbers of each head that are rotated
    tie_word_embeddings: bool = False


class Block(nnx.Module):
    """Attention and a two-layer MLP of the same normalized states."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        self.ln = layers.layer_norm(width, config.layer_norm_epsilon, rngs)
        self.attention = layers.Attention(width, config.n_head, rngs, (False, False))
        self.mlp = layers.MLP(width, inner, config.activation_function, rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend, angle: rotary.Angle) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        normed = self.ln(h)
        turn = partial(rotary.rotate, angle=angle, interleaved=True)
        # Both read the same normalized states, and neither the other.
        return h + self.attention(normed, layer, attend, turn) + self.mlp(normed)


class Model(phi.Model):
    """GPT-J (Wang and Komatsuzaki 2021), loadable from any Hugging Face `gptj` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.n_embd
        self.embed = layers.embedding(vocabulary, width, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.n_layer)])
        self.ln = layers.layer_norm(width, config.layer_norm_epsilon, rngs)
        self.head = layers.output_table(config.tie_word_embeddings, vocabulary, width, rngs)
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (vocabulary,)))
        self.frequencies = rotary.frequencies(config.rotary_dim, rotary.Rope())


WEIGHTS = {
    "transformer.wte.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("transformer.h.{i}.ln_1", "blocks.{i}.ln"),
    **family.attention_weights("transformer.h.{i}.attn", "blocks.{i}.attention", family.OUT_PROJ),
    **family.linear_weights("transformer.h.{i}.mlp.fc_in", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights("transformer.h.{i}.mlp.fc_out", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("transformer.ln_f", "ln"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
    "lm_head.bias": family.Weight("bias", split=0),
}
FAMILY = family.Family(
    name="gptj",
    kind="causal_lm",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    fixed={"rotary": True, "scale_attn_weights": True},
    inert=("n_ctx", "summary_*"),
    tied={"lm_head.weight": "embed.embedding"},
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
