"""RoBERTa and XLM-RoBERTa: BERT's blocks, positions counted from behind the padding token's id."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import bert
from batch_calibration.scoring.models.attention import Attend
from batch_calibration.scoring.models.family import TokenId

DEFAULT_PADDING = TokenId(1)


@dataclass(frozen=True, kw_only=True)
class Config(bert.Config):
    """Shape of a RoBERTa network, in the names of its Hugging Face `config.json`."""

    pad_token_id: TokenId = DEFAULT_PADDING

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


class Model(bert.Model):
    """RoBERTa (Liu et al. 2019) without its heads."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        super().__init__(config, rngs=rngs)
        self.padding = config.pad_token_id
        self.last_position = config.max_position_embeddings - 1

    def hidden(
        self, tokens: jax.Array, positions: jax.Array, attend: Attend, types: jax.Array | int = 0
    ) -> jax.Array:
        """As BERT's, at positions that are counted here."""
        counted = count_positions(tokens, self.padding, self.last_position)
        return super().hidden(tokens, counted, attend, types)


FAMILY = bert.FAMILY._replace(
    name="roberta",
    config=Config,
    model=Model,
    weights={name.replace("bert.", "roberta.", 1): weight for name, weight in bert.WEIGHTS.items()},
    prefixes=("roberta.",),
    ignored=("embeddings.position_ids", "pooler.dense.*", "lm_head.*", "classifier.*"),
)
"""Also of `xlm-roberta`: multilingual-e5, bge-m3's dense embeddings and others."""
