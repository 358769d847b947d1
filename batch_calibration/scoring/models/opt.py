"""The OPT family: learned positions from the third row on, norms before or after."""

from dataclasses import dataclass

import jax
from flax import nnx

from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import Attend

OFFSET = 2
"""Rows of the position table before that of position 0."""


@dataclass(frozen=True, kw_only=True)
class Config(family.TransformerConfig):
    """Shape of an OPT network, in the names of its Hugging Face `config.json`.

    The exception is `remove_final_layer_norm`, which the file begins with an underscore.
    """

    ffn_dim: int
    max_position_embeddings: int = 2048
    word_embed_proj_dim: int | None = None  # size of embeddings, where not that of layers
    do_layer_norm_before: bool = True  # False of OPT-350M alone
    remove_final_layer_norm: bool = False
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    activation_function: str = "relu"
    tie_word_embeddings: bool = True


def _norm(config: Config, rngs: nnx.Rngs) -> nnx.LayerNorm:
    affine = config.layer_norm_elementwise_affine
    return layers.layer_norm(config.hidden_size, 1e-5, rngs, affine, affine)


class Block(nnx.Module):
    """Attention, then a two-layer MLP, each with its norm before it or after it."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, bias = config.hidden_size, config.enable_bias
        self.before = config.do_layer_norm_before
        self.attention = layers.Attention(width, config.heads, rngs, (bias, bias))
        self.mlp = layers.MLP(width, config.ffn_dim, config.activation_function, rngs, bias)
        self.ln_1, self.ln_2 = _norm(config, rngs), _norm(config, rngs)

    def __call__(self, h: jax.Array, layer: int, attend: Attend) -> jax.Array:
        """Add this block's attention and MLP to `h [b, t, d]`."""
        h = h + self.attention(self.ln_1(h) if self.before else h, layer, attend)
        h = h if self.before else self.ln_1(h)  # the other order, of OPT-350M alone
        h = h + self.mlp(self.ln_2(h) if self.before else h)
        return h if self.before else self.ln_2(h)


class Model(family.Decoder):
    """OPT (Zhang et al. 2022), loadable from any Hugging Face `opt` directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, vocabulary = config.hidden_size, config.vocab_size
        narrow = config.word_embed_proj_dim or width
        positions = config.max_position_embeddings + OFFSET  # rows of the table
        self.embed = layers.embedding(vocabulary, narrow, rngs)
        self.position_embedding = layers.embedding(positions, width, rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.num_hidden_layers)])
        normed = config.do_layer_norm_before and not config.remove_final_layer_norm
        self.ln = _norm(config, rngs) if normed else None
        is_narrow = narrow != width  # of OPT-350M alone
        self.project_in = layers.linear(narrow, width, rngs, bias=False) if is_narrow else None
        self.project_out = layers.linear(width, narrow, rngs, bias=False) if is_narrow else None
        if not config.tie_word_embeddings:
            self.head = layers.embedding(vocabulary, narrow, rngs)

    def embedded(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Embeddings of tokens and of their positions, `[b, t, d]`."""
        h = self.embed(tokens)
        h = h if self.project_in is None else self.project_in(h)
        return h + self.position_embedding(positions + OFFSET)

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Logits `[..., v]` of hidden states `[..., d]`, of all tokens or of some."""
        return super().unembed(h if self.project_out is None else self.project_out(h), token_set)


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config with the field whose name begins with an underscore in the file."""
    return raw | {"remove_final_layer_norm": raw.get("_remove_final_layer_norm", False)}


LAYER = "model.decoder.layers.{i}"
WEIGHTS = {
    "model.decoder.embed_tokens.weight": family.Weight("embed.embedding", split=0),
    "model.decoder.embed_positions.weight": family.Weight("position_embedding.embedding"),
    "model.decoder.project_in.weight": family.Weight("project_in.kernel", True, 1),
    "model.decoder.project_out.weight": family.Weight("project_out.kernel", True, 0),
    **family.attention_weights(f"{LAYER}.self_attn", "blocks.{i}.attention", family.OUT_PROJ),
    **family.norm_weights(f"{LAYER}.self_attn_layer_norm", "blocks.{i}.ln_1"),
    **family.linear_weights(f"{LAYER}.fc1", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights(f"{LAYER}.fc2", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights(f"{LAYER}.final_layer_norm", "blocks.{i}.ln_2"),
    **family.norm_weights("model.decoder.final_layer_norm", "ln"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
}
FAMILY = family.Family(
    name="opt",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    fixed={"output_projection": True, "share_decoder_input_output_embed": True},
    keys=("_remove_final_layer_norm",),
    flatten=flatten,
)
