"""The MPNet family: BERT's blocks, whose attention knows how far apart two tokens are."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.scoring.models import bert, family, layers
from batch_calibration.scoring.models.attention import Attend
from batch_calibration.scoring.models.roberta import count_positions

PADDING = 1
"""The padding token's id, after which positions are counted in every config."""
BUCKETS, FARTHEST = 32, 128
"""Buckets of distances, half of them ahead, and the distance from which on all are in the last."""


@dataclass(frozen=True, kw_only=True)
class Config(bert.Config):
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
    buckets: np.ndarray = np.where(distance < exact, distance, far) + half * (offset > 0)
    return buckets


class Model(nnx.Module):
    """MPNet (Song et al. 2020) without its heads, loadable from a Hugging Face directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.last_position = config.max_position_embeddings - 1
        self.token_embedding = layers.embedding(config.vocab_size, width, rngs)
        self.position_embedding = layers.embedding(config.max_position_embeddings, width, rngs)
        self.distance_embedding = layers.embedding(BUCKETS, config.num_attention_heads, rngs)
        self.ln = layers.layer_norm(width, config.layer_norm_eps, rngs)
        blocks = [bert.Block(config, rngs=rngs) for _ in range(config.num_hidden_layers)]
        self.blocks = nnx.List(blocks)

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]`, whose positions are counted here.

        `attend` holds the padding mask. MPNet has no token types.
        """
        counted = count_positions(tokens, PADDING, self.last_position)
        h: jax.Array = self.ln(self.token_embedding(tokens) + self.position_embedding(counted))
        buckets = jnp.asarray(distance_buckets(tokens.shape[1]))
        bias = self.distance_embedding(buckets).transpose(2, 0, 1)  # [heads, t, s]
        # All layers add the same bias.
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, lambda layer, heads: attend(layer, heads._replace(bias=bias)))
        return h


LAYER = "mpnet.encoder.layer.{i}"
WEIGHTS = {
    "mpnet.embeddings.word_embeddings.weight": family.Weight("token_embedding.embedding", split=0),
    "mpnet.embeddings.position_embeddings.weight": family.Weight("position_embedding.embedding"),
    **family.norm_weights("mpnet.embeddings.LayerNorm", "ln"),
    "mpnet.encoder.relative_attention_bias.weight": family.Weight("distance_embedding.embedding"),
    **family.attention_weights(f"{LAYER}.attention.attn", "blocks.{i}.attention", tuple("qkvo")),
    **family.norm_weights(f"{LAYER}.attention.LayerNorm", "blocks.{i}.ln_1"),
    **family.linear_weights(f"{LAYER}.intermediate.dense", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights(f"{LAYER}.output.dense", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights(f"{LAYER}.output.LayerNorm", "blocks.{i}.ln_2"),
}
FAMILY = family.Family(
    name="mpnet",
    kind="sentence_encoder",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    tied={},
    prefixes=("mpnet.",),
    fixed={"relative_attention_num_buckets": BUCKETS},
    inert=("tie_word_embeddings",),  # of heads that are left out
    ignored=("embeddings.position_ids", "pooler.dense.*", "lm_head.*", "classifier.*"),
)
