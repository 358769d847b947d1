"""The first Phi family, Phi-2 among it: partial rotary positions, attention beside the MLP."""

from dataclasses import dataclass

import jax
from flax import nnx

from batch_calibration.models import layers, rotary
from batch_calibration.models.attention import Attend
from batch_calibration.models.family import (
    Family,
    RawConfig,
    TransformerConfig,
    Weight,
    linear_weights,
    norm_weights,
)


@dataclass(frozen=True, kw_only=True)
class Config(TransformerConfig):
    """Shape of a Phi network, in the names of its Hugging Face `config.json`.

    `rope` is as `rotary.flatten` says.
    """

    intermediate_size: int = 8192
    max_position_embeddings: int = 2048
    num_key_value_heads: int | None = None  # as many as heads
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu_new"
    tie_word_embeddings: bool = False
    rope: rotary.Rope

    @property
    def positions(self) -> int:
        """Longest sequence the network has positions for."""
        return self.rope.longest


class Block(nnx.Module):
    """Attention and a two-layer MLP of the same normalized states."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.heads
        self.groups = config.num_key_value_heads or config.heads
        shared = self.groups * width // config.heads  # width of all keys, and of all values
        self.activation = layers.activation(config.hidden_act)
        self.ln = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.query = layers.linear(width, width, rngs)
        self.key = layers.linear(width, shared, rngs)
        self.value = layers.linear(width, shared, rngs)
        self.out = layers.linear(width, width, rngs)
        self.fc = layers.linear(width, inner, rngs)
        self.proj = layers.linear(inner, width, rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend, angle: rotary.Angle) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        normed = self.ln(h)
        q = layers.split_heads(self.query(normed), self.heads)  # [b, t, heads, d]
        k = layers.split_heads(self.key(normed), self.groups)
        v = layers.split_heads(self.value(normed), self.groups)
        mean = attend(layer, rotary.rotate(q, angle), rotary.rotate(k, angle), v)
        return h + self.out(mean.reshape(h.shape)) + self.proj(self.activation(self.fc(normed)))


class Model(nnx.Module):
    """Phi (Li et al. 2023), loadable from any Hugging Face `phi` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.hidden_size
        self.embed = layers.embedding(vocabulary, width, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.num_hidden_layers)])
        self.ln = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.head = layers.output_table(config.tie_word_embeddings, vocabulary, width, rngs)
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (vocabulary,)))
        self.frequencies = rotary.frequencies(width // config.heads, config.rope)

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h: jax.Array = self.embed(tokens)
        angle = rotary.angles(positions, self.frequencies, h.dtype)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend, angle)
        h = self.ln(h)
        return h

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        table = self.embed if self.head is None else self.head
        # [v], like the logits
        bias = layers.select_rows(self.bias[...], token_set).astype("float32")
        return layers.logits(h, table.embedding[...], token_set) + bias


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config with the rope fields; half of each head is rotated by default."""
    return rotary.flatten({"max_position_embeddings": 2048} | raw, share=0.5)


WEIGHTS = {
    "model.embed_tokens.weight": Weight("embed.embedding", split=0),
    **norm_weights("model.layers.{i}.input_layernorm", "blocks.{i}.ln"),
    **linear_weights("model.layers.{i}.self_attn.q_proj", "blocks.{i}.query", 1),
    **linear_weights("model.layers.{i}.self_attn.k_proj", "blocks.{i}.key", 1),
    **linear_weights("model.layers.{i}.self_attn.v_proj", "blocks.{i}.value", 1),
    **linear_weights("model.layers.{i}.self_attn.dense", "blocks.{i}.out", 0),
    **linear_weights("model.layers.{i}.mlp.fc1", "blocks.{i}.fc", 1),
    **linear_weights("model.layers.{i}.mlp.fc2", "blocks.{i}.proj", 0),
    **norm_weights("model.final_layernorm", "ln"),
    "lm_head.weight": Weight("head.embedding", split=0),
    "lm_head.bias": Weight("bias", split=0),
}
FAMILY = Family(
    name="phi",
    kind="causal_lm",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("model.",),
    fixed={"qk_layernorm": False},
    keys=rotary.KEYS,
    tied={"lm_head.weight": "embed.embedding"},
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten,
)
