"""The BERT family: post-norm encoders, here as the towers of sentence embeddings."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import Attend


@dataclass(frozen=True, kw_only=True)
class Config(family.TransformerConfig):
    """Shape of a BERT network, in the names of its Hugging Face `config.json`."""

    intermediate_size: int
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"


class Block(nnx.Module):
    """One post-norm block: attention, then a two-layer MLP."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, eps = config.hidden_size, config.layer_norm_eps
        self.attention = layers.Attention(width, config.heads, rngs)
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.mlp = layers.MLP(width, config.intermediate_size, config.hidden_act, rngs)
        self.ln_2 = layers.layer_norm(width, eps, rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend) -> jax.Array:
        """Attention and MLP over `h [b, t, d]`, each added and then normalized."""
        # The sum is normalized, where later networks normalize what is read.
        h = self.ln_1(h + self.attention(h, layer, attend))
        h = self.ln_2(h + self.mlp(h))
        return h


class Model(nnx.Module):
    """BERT (Devlin et al. 2019) without its heads, loadable from a Hugging Face directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.token_embedding = layers.embedding(config.vocab_size, width, rngs)
        self.position_embedding = layers.embedding(config.max_position_embeddings, width, rngs)
        self.type_embedding = layers.embedding(config.type_vocab_size, width, rngs)
        self.ln = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.num_hidden_layers)])

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`.

        `attend` holds the padding mask. `types [b, t]` are the token types; every token is of type
        0 when they are left out.
        """
        h = self.token_embedding(tokens) + self.position_embedding(positions)
        # With one type alone the layer takes no scalar.
        types = jnp.broadcast_to(jnp.asarray(types), tokens.shape)
        h = self.ln(h + self.type_embedding(types))  # [b, t, d]
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend)
        return h


NAMES = ("self.query", "self.key", "self.value", "output.dense")
WEIGHTS = {
    "bert.embeddings.word_embeddings.weight": family.Weight("token_embedding.embedding", split=0),
    "bert.embeddings.position_embeddings.weight": family.Weight("position_embedding.embedding"),
    "bert.embeddings.token_type_embeddings.weight": family.Weight("type_embedding.embedding"),
    **family.norm_weights("bert.embeddings.LayerNorm", "ln"),
    **family.attention_weights("bert.encoder.layer.{i}.attention", "blocks.{i}.attention", NAMES),
    **family.norm_weights("bert.encoder.layer.{i}.attention.output.LayerNorm", "blocks.{i}.ln_1"),
    **family.linear_weights("bert.encoder.layer.{i}.intermediate.dense", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights("bert.encoder.layer.{i}.output.dense", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("bert.encoder.layer.{i}.output.LayerNorm", "blocks.{i}.ln_2"),
}
FAMILY = family.Family(
    name="bert",
    kind="sentence_encoder",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    tied={},
    prefixes=("bert.",),
    fixed={
        "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
    },
    # Heads are left out, so whether one is tied changes nothing.
    inert=("tie_word_embeddings", "pooler_*", "directionality"),
    ignored=("embeddings.position_ids", "pooler.dense.*", "cls.*", "classifier.*"),
)  # fmt: skip
