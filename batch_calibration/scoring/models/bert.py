"""BERT, RoBERTa and MPNet: post-norm encoders, here as the towers of sentence embeddings."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
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
        self.ln = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.num_hidden_layers)])
        self.last_position = config.max_position_embeddings - 1
        self.make_table(config, rngs)

    def make_table(self, config: Config, rngs: nnx.Rngs) -> None:
        """Make the third table of embeddings: of types of tokens."""
        self.type_embedding = layers.embedding(config.type_vocab_size, config.hidden_size, rngs)

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
        return self.run_blocks(h + self.type_embedding(types), attend)

    def run_blocks(self, h: jax.Array, attend: Attend) -> jax.Array:
        """The last block's states of embeddings `h [b, t, d]`."""
        h = self.ln(h)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, attend)
        return h


LAYER = "bert.encoder.layer.{i}"
NAMES = ("self.query", "self.key", "self.value", "output.dense")
WEIGHTS = {
    "bert.embeddings.word_embeddings.weight": family.Weight("token_embedding.embedding", split=0),
    "bert.embeddings.position_embeddings.weight": family.Weight("position_embedding.embedding"),
    "bert.embeddings.token_type_embeddings.weight": family.Weight("type_embedding.embedding"),
    **family.norm_weights("bert.embeddings.LayerNorm", "ln"),
    **family.attention_weights(f"{LAYER}.attention", "blocks.{i}.attention", NAMES),
    **family.norm_weights(f"{LAYER}.attention.output.LayerNorm", "blocks.{i}.ln_1"),
    **family.linear_weights(f"{LAYER}.intermediate.dense", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights(f"{LAYER}.output.dense", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights(f"{LAYER}.output.LayerNorm", "blocks.{i}.ln_2"),
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


# --- RoBERTa: positions counted from behind the padding token's id

DEFAULT_PADDING = family.TokenId(1)


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(Config):
    """Shape of a RoBERTa network, in the names of its Hugging Face `config.json`."""

    pad_token_id: family.TokenId = DEFAULT_PADDING

    @property
    def positions(self) -> int:
        """Longest sequence: the first positions, up to the padding token's id, are of no token."""
        return self.max_position_embeddings - self.pad_token_id - 1


def count_positions(tokens: jax.Array, padding: int, last: int) -> jax.Array:
    """The position of each of `tokens [b, t]`, counted from behind the `padding` token's id.

    Padding tokens in a text have no position of their own. What lies beyond a text's length is
    masked by the attention, and may have any position up to the `last`.
    """
    # 0 at padding, so that the sum does not grow there.
    is_token = (tokens != padding).astype(jnp.int32)
    return jnp.minimum(jnp.cumsum(is_token, axis=1) * is_token + padding, last)


class RobertaModel(Model):
    """RoBERTa (Liu et al. 2019) without its heads."""

    def __init__(self, config: RobertaConfig, *, rngs: nnx.Rngs):
        super().__init__(config, rngs=rngs)
        self.padding = config.pad_token_id

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """As BERT's, at positions that are counted here."""
        counted = count_positions(tokens, self.padding, self.last_position)
        return super().hidden(tokens, counted, attend, types)


ROBERTA = FAMILY._replace(
    name="roberta",
    config=RobertaConfig,
    model=RobertaModel,
    weights={name.replace("bert.", "roberta.", 1): weight for name, weight in WEIGHTS.items()},
    prefixes=("roberta.",),
    ignored=("embeddings.position_ids", "pooler.dense.*", "lm_head.*", "classifier.*"),
)
"""Also of `xlm-roberta`: multilingual-e5, bge-m3's dense embeddings and others."""


# --- MPNet: attention knows how far apart two tokens are

PADDING = 1
"""The padding token's id, after which positions are counted in every config."""
BUCKETS, FARTHEST = 32, 128
"""Buckets of distances, half of them ahead, and the distance from which on all are in the last."""


@dataclass(frozen=True, kw_only=True)
class MPNetConfig(Config):
    """Shape of an MPNet network, in the names of its Hugging Face `config.json`."""

    @property
    def positions(self) -> int:
        """Longest sequence: the first two positions are of no token."""
        return self.max_position_embeddings - PADDING - 1


def distance_buckets(length: int) -> np.ndarray:
    """The bucket `[t, s]` of the distance from each of `length` tokens to each.

    Each distance up to 7 has its own; beyond, buckets grow by the factor `sqrt(2)`.

    >>> distance_buckets(20)[0, [0, 7, 8, 11, 12, 16, 19]]
    array([ 0, 23, 24, 24, 25, 26, 26])
    """
    offset = np.arange(length) - np.arange(length)[:, None]  # [t, s], positive ahead
    distance, half = np.abs(offset), BUCKETS // 2
    exact = half // 2
    # In float32, as transformers computes them: at powers of two the last bit decides.
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    far = ratio / np.float32(math.log(FARTHEST / exact)) * np.float32(half - exact)
    far = np.minimum(exact + far.astype(int), half - 1)
    return np.asarray(np.where(distance < exact, distance, far) + half * (offset > 0))


class MPNetModel(Model):
    """MPNet (Song et al. 2020) without its heads, loadable from a Hugging Face directory."""

    def make_table(self, config: Config, rngs: nnx.Rngs) -> None:
        """Make the third table of embeddings: of buckets of distances."""
        self.distance_embedding = layers.embedding(BUCKETS, config.num_attention_heads, rngs)

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]`, whose positions are counted here.

        `attend` holds the padding mask. MPNet has no token types.
        """
        counted = count_positions(tokens, PADDING, self.last_position)
        h = self.token_embedding(tokens) + self.position_embedding(counted)
        buckets = jnp.asarray(distance_buckets(tokens.shape[1]))
        bias = self.distance_embedding(buckets).transpose(2, 0, 1)  # [heads, t, s]
        # All layers add the same bias.
        return self.run_blocks(h, lambda layer, heads: attend(layer, heads._replace(bias=bias)))


MPNET_LAYER = "mpnet.encoder.layer.{i}.attention"
OTHER_NAMES = ("token_type_embeddings", ".attention.")
MPNET_WEIGHTS = {
    "mpnet.encoder.relative_attention_bias.weight": family.Weight("distance_embedding.embedding"),
    **family.attention_weights(f"{MPNET_LAYER}.attn", "blocks.{i}.attention", tuple("qkvo")),
    **family.norm_weights(f"{MPNET_LAYER}.LayerNorm", "blocks.{i}.ln_1"),
}
for name, weight in WEIGHTS.items():
    if not any(other in name for other in OTHER_NAMES):
        MPNET_WEIGHTS[name.replace("bert.", "mpnet.", 1)] = weight
MPNET = family.Family(
    name="mpnet",
    kind="sentence_encoder",
    config=MPNetConfig,
    model=MPNetModel,
    weights=MPNET_WEIGHTS,
    tied={},
    prefixes=("mpnet.",),
    fixed={"relative_attention_num_buckets": BUCKETS},
    inert=("tie_word_embeddings",),  # of heads that are left out
    ignored=ROBERTA.ignored,
)
