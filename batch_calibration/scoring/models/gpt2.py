"""The GPT-2 family: learned positions, pre-norm blocks, tied head."""

from dataclasses import dataclass
from operator import attrgetter

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import layers
from batch_calibration.scoring.models.attention import Attend, Heads
from batch_calibration.scoring.models.family import Family, Weight, linear_weights, norm_weights


@dataclass(frozen=True, kw_only=True)
class Config:
    """Shape of a GPT-2 network, in the names of its Hugging Face `config.json`."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None  # of the MLP; 4 * n_embd
    layer_norm_epsilon: float = 1e-5
    activation_function: str = "gelu_new"

    positions = property(attrgetter("n_positions"))
    layers = property(attrgetter("n_layer"))
    width = property(attrgetter("n_embd"))
    heads = property(attrgetter("n_head"))


class Block(nnx.Module):
    """One pre-norm block: attention, then a two-layer MLP."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        eps = config.layer_norm_epsilon
        # Layers that add to the residual stream begin smaller, the deeper the network.
        deep = nnx.initializers.normal(0.02 / (2 * config.n_layer) ** 0.5)
        self.heads = config.n_head
        self.activation = layers.activation(config.activation_function)
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.qkv = layers.linear(width, 3 * width, rngs)
        self.out = nnx.Linear(width, width, kernel_init=deep, rngs=rngs)
        self.ln_2 = layers.layer_norm(width, eps, rngs)
        self.fc = layers.linear(width, inner, rngs)
        self.proj = nnx.Linear(inner, width, kernel_init=deep, rngs=rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        q, k, v = jnp.split(self.qkv(self.ln_1(h)), 3, axis=-1)
        # [b, t, heads, d]
        q, k, v = (layers.split_heads(heads, self.heads) for heads in (q, k, v))
        h = h + self.out(attend(layer, Heads(q, k, v)).reshape(h.shape))
        return h + self.proj(self.activation(self.fc(self.ln_2(h))))


class Model(nnx.Module):
    """GPT-2 (Radford et al. 2019), loadable from any Hugging Face `gpt2` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.wte = layers.embedding(config.vocab_size, config.n_embd, rngs)
        self.wpe = layers.embedding(config.n_positions, config.n_embd, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.n_layer)])
        self.ln_f = layers.layer_norm(config.n_embd, config.layer_norm_epsilon, rngs)

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`."""
        h: jax.Array = self.wte(tokens) + self.wpe(positions)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend)
        h = self.ln_f(h)
        return h

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        # The input's own table: GPT-2 has no other.
        return layers.logits(h, self.wte.embedding[...], token_set)


WEIGHTS = {
    "transformer.wte.weight": Weight("wte.embedding", split=0),
    "transformer.wpe.weight": Weight("wpe.embedding"),
    **norm_weights("transformer.h.{i}.ln_1", "blocks.{i}.ln_1"),
    **linear_weights("transformer.h.{i}.attn.c_attn", "blocks.{i}.qkv", 1, transpose=False),
    **linear_weights("transformer.h.{i}.attn.c_proj", "blocks.{i}.out", 0, transpose=False),
    **norm_weights("transformer.h.{i}.ln_2", "blocks.{i}.ln_2"),
    **linear_weights("transformer.h.{i}.mlp.c_fc", "blocks.{i}.fc", 1, transpose=False),
    **linear_weights("transformer.h.{i}.mlp.c_proj", "blocks.{i}.proj", 0, transpose=False),
    **norm_weights("transformer.ln_f", "ln_f"),
}
FAMILY = Family(
    name="gpt2",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    inert=("n_ctx", "summary_*"),
    tied={"lm_head.weight": "wte.embedding"},
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
