"""The GPT-J family: interleaved rotary positions, attention parallel to the MLP, a biased head."""

from dataclasses import dataclass

import jax
from flax import nnx

from batch_calibration.scoring.models import gpt2, layers, rotary
from batch_calibration.scoring.models.attention import Attend
from batch_calibration.scoring.models.family import Family, Weight, linear_weights, norm_weights


@dataclass(frozen=True, kw_only=True)
class Config(gpt2.Config):
    """Shape of a GPT-J network, in the names of its Hugging Face `config.json`."""

    rotary_dim: int = 64  # numbers of each head that are rotated
    tie_word_embeddings: bool = False


class Block(nnx.Module):
    """Attention and a two-layer MLP of the same normalized states."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        self.heads = config.n_head
        self.activation = layers.activation(config.activation_function)
        self.ln = layers.layer_norm(width, config.layer_norm_epsilon, rngs)
        self.query = layers.linear(width, width, rngs, bias=False)
        self.key = layers.linear(width, width, rngs, bias=False)
        self.value = layers.linear(width, width, rngs, bias=False)
        self.out = layers.linear(width, width, rngs, bias=False)
        self.fc = layers.linear(width, inner, rngs)
        self.proj = layers.linear(inner, width, rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend, angle: rotary.Angle) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        normed = self.ln(h)
        q = layers.split_heads(self.query(normed), self.heads)  # [b, t, heads, d]
        k = layers.split_heads(self.key(normed), self.heads)
        v = layers.split_heads(self.value(normed), self.heads)
        q, k = rotary.rotate(q, angle, interleaved=True), rotary.rotate(k, angle, interleaved=True)
        mean = attend(layer, q, k, v).reshape(h.shape)
        # Both read the same normalized states, and neither the other.
        return h + self.out(mean) + self.proj(self.activation(self.fc(normed)))


class Model(nnx.Module):
    """GPT-J (Wang and Komatsuzaki 2021), loadable from any Hugging Face `gptj` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.n_embd
        self.wte = layers.embedding(vocabulary, width, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.n_layer)])
        self.ln_f = layers.layer_norm(width, config.layer_norm_epsilon, rngs)
        self.head = layers.output_table(config.tie_word_embeddings, vocabulary, width, rngs)
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (vocabulary,)))
        self.frequencies = rotary.frequencies(config.rotary_dim, rotary.Rope())

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h: jax.Array = self.wte(tokens)
        angle = rotary.angles(positions, self.frequencies, h.dtype)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend, angle)
        h = self.ln_f(h)
        return h

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        table = self.wte if self.head is None else self.head
        # [v], like the logits
        bias = layers.select_rows(self.bias[...], token_set).astype("float32")
        return layers.logits(h, table.embedding[...], token_set) + bias


WEIGHTS = {
    "transformer.wte.weight": Weight("wte.embedding", split=0),
    **norm_weights("transformer.h.{i}.ln_1", "blocks.{i}.ln"),
    "transformer.h.{i}.attn.q_proj.weight": Weight("blocks.{i}.query.kernel", True, 1),
    "transformer.h.{i}.attn.k_proj.weight": Weight("blocks.{i}.key.kernel", True, 1),
    "transformer.h.{i}.attn.v_proj.weight": Weight("blocks.{i}.value.kernel", True, 1),
    "transformer.h.{i}.attn.out_proj.weight": Weight("blocks.{i}.out.kernel", True, 0),
    **linear_weights("transformer.h.{i}.mlp.fc_in", "blocks.{i}.fc", 1),
    **linear_weights("transformer.h.{i}.mlp.fc_out", "blocks.{i}.proj", 0),
    **norm_weights("transformer.ln_f", "ln_f"),
    "lm_head.weight": Weight("head.embedding", split=0),
    "lm_head.bias": Weight("bias", split=0),
}
FAMILY = Family(
    name="gptj",
    kind="causal_lm",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    fixed={"rotary": True, "scale_attn_weights": True},
    inert=("n_ctx", "summary_*"),
    tied={"lm_head.weight": "wte.embedding"},
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
