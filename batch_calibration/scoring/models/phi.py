"""The first Phi family, Phi-2 among it: partial rotary positions, attention parallel to the MLP."""

from dataclasses import dataclass
from typing import ClassVar

import jax
from flax import nnx

from batch_calibration.scoring.models import family, gated, layers, neox, rotary


@dataclass(frozen=True, kw_only=True)
class Config(gated.RotaryConfig):
    """Shape of a Phi network, in the names of its Hugging Face `config.json`."""

    intermediate_size: int = 8192
    max_position_embeddings: int = 2048
    num_key_value_heads: int | None = None  # as many as heads
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu_new"
    tie_word_embeddings: bool = False


class Block(family.Block):
    """Attention and a two-layer MLP of the same normalized states."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.ln_1, self.ln_2 = layers.layer_norm(width, config.layer_norm_eps, rngs), None
        self.attention = layers.Attention(
            width, config.heads, rngs, groups=config.num_key_value_heads
        )
        self.mlp = layers.MLP(width, config.intermediate_size, config.hidden_act, rngs)


class Model(neox.Model):
    """Phi (Li et al. 2023), loadable from any Hugging Face `phi` directory."""

    block: ClassVar[family.MakeBlock] = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        # This config has all that is read of GPT-NeoX's.
        super().__init__(config, rngs=rngs)  # type: ignore[arg-type]
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (config.vocab_size,)))

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        # [v], like the logits
        bias = layers.select_rows(self.bias[...], token_set).astype("float32")
        return super().unembed(h, token_set) + bias


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config with the rope fields; half of each head is rotated by default."""
    return rotary.flatten({"max_position_embeddings": 2048} | raw, share=0.5)


NAMES = ("q_proj", "k_proj", "v_proj", "dense")
WEIGHTS = {
    "model.embed_tokens.weight": family.Weight("embed.embedding", split=0),
    **family.norm_weights("model.layers.{i}.input_layernorm", "blocks.{i}.ln_1"),
    **family.attention_weights("model.layers.{i}.self_attn", "blocks.{i}.attention", NAMES),
    **family.linear_weights("model.layers.{i}.mlp.fc1", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights("model.layers.{i}.mlp.fc2", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("model.final_layernorm", "ln"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
    "lm_head.bias": family.Weight("bias", split=0),
}
FAMILY = family.Family(
    name="phi",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("model.",),
    fixed={"qk_layernorm": False},
    keys=rotary.KEYS,
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten,
)
