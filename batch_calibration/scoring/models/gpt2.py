"""GPT-2, GPT-Neo and OPT: decoders with learned positions."""

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import ClassVar

import jax
from flax import nnx

from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import Attend, AttentionOptions, Layer


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and options of a GPT-2 network, under their names in `config.json`."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None  # hidden size of the MLP; None: 4 * n_embd
    layer_norm_epsilon: float = 1e-5
    activation_function: str = "gelu_new"

    positions = property(attrgetter("n_positions"))
    layers = property(attrgetter("n_layer"))
    width = property(attrgetter("n_embd"))
    heads = property(attrgetter("n_head"))


class Block(family.Block):
    """A pre-norm block: attention, then a two-layer MLP."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner, eps = config.n_embd, config.n_inner, config.layer_norm_epsilon
        # In deeper networks, layers that add to the residual stream start with smaller weights.
        deep = nnx.initializers.normal(0.02 / (2 * config.n_layer) ** 0.5)
        act = config.activation_function
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.attention = layers.Attention(
            width, config.heads, rngs, fused="in order", out_init=deep
        )
        self.ln_2 = layers.layer_norm(width, eps, rngs)
        self.mlp = layers.MLP(width, inner or 4 * width, act, rngs, out_init=deep)


class Model(family.Decoder):
    """GPT-2 (Radford et al. 2019), loadable from any Hugging Face `gpt2` directory."""

    block: ClassVar[family.MakePart] = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.n_embd, config.layer_norm_epsilon)
        self.make(config, norm, is_tied=True, rngs=rngs, has_positions=True)


H = "transformer.h.{i}"
NAMES = ("transformer.wte", H, ("ln_1", "ln_2"), ("mlp.c_fc", "mlp.c_proj"), "transformer.ln_f")
POSITIONS = {"transformer.wpe.weight": family.Weight("position_embedding.embedding")}
FAMILY = family.Family(
    name="gpt2",
    config=Config,
    model=Model,
    weights={
        **family.decoder_weights(*NAMES, transpose=False),
        **POSITIONS,
        **family.linear_weights(f"{H}.attn.c_attn", "blocks.{i}.attention.qkv", 1, False),
        **family.linear_weights(f"{H}.attn.c_proj", "blocks.{i}.attention.out", 0, False),
    },
    prefixes=("transformer.",),
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    inert=("n_ctx", "summary_*"),
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)


# --- GPT-Neo: attention logits are not scaled, and every other layer has a window.

KINDS = ("global", "local")
USUAL_TYPES = [[["global", "local"], 12]]
"""The default of `attention_types`."""


@dataclass(frozen=True, kw_only=True)
class GPTNeoConfig(family.TransformerConfig):
    """The sizes and options of a GPT-Neo network.

    In the file, `num_hidden_layers` is `num_layers`, and `num_attention_heads` is `num_heads`.
    `layer_kinds` follows from its `attention_types`.
    """

    max_position_embeddings: int = 2048
    intermediate_size: int | None = None  # hidden size of the MLP; None: 4 * hidden_size
    window_size: int = 256
    layer_norm_epsilon: float = 1e-5
    activation_function: str = "gelu_new"
    tie_word_embeddings: bool = True
    layer_kinds: tuple[str, ...]


class GPTNeoBlock(family.Block):
    """A pre-norm block: attention, then a two-layer MLP."""

    def __init__(self, config: GPTNeoConfig, window: int | None, *, rngs: nnx.Rngs):
        width, eps = config.width, config.layer_norm_epsilon
        inner = config.intermediate_size or 4 * width
        # GPT-Neo was trained without the factor 1 / sqrt(head size).
        options = AttentionOptions(scale=1.0, window=window)
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.attention = layers.Attention(width, config.heads, rngs, (False, True), options=options)
        self.ln_2 = layers.layer_norm(width, eps, rngs)
        self.mlp = layers.MLP(width, inner, config.activation_function, rngs)


class GPTNeoModel(Model):
    """GPT-Neo (Black et al. 2021), loadable from any Hugging Face `gpt_neo` directory."""

    block = GPTNeoBlock

    def __init__(self, config: GPTNeoConfig, *, rngs: nnx.Rngs):
        windows = [config.window_size if kind == "local" else None for kind in config.layer_kinds]
        norm = partial(layers.layer_norm, config.width, config.layer_norm_epsilon)
        self.make(config, norm, config.tie_word_embeddings, rngs, windows, has_positions=True)


def flatten_gpt_neo(raw: family.RawConfig) -> family.RawConfig:
    """Expands the groups of `attention_types` to `layer_kinds`, one kind for each layer."""
    raw = {"num_layers": 24, "num_heads": 16} | raw
    depth = raw.get("num_hidden_layers", raw["num_layers"])
    types = raw.get("attention_types") or USUAL_TYPES
    kinds: list[str] = []
    try:
        for group, times in types if isinstance(types, list) else []:
            kinds += [*group] * min(int(times), 1000)  # a wrong number must not fill the memory
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != depth or not {*kinds} <= {*KINDS}:
        expected = f"groups of 'global' and 'local' with their repetitions, {depth} layers in all"
        raise family.misread("attention_types", types, expected)
    heads = raw.get("num_attention_heads", raw["num_heads"])
    return raw | dict(num_hidden_layers=depth, num_attention_heads=heads, layer_kinds=tuple(kinds))


GPT_NEO = family.Family(
    name="gpt_neo",
    config=GPTNeoConfig,
    model=GPTNeoModel,
    weights={
        **family.decoder_weights(*NAMES, "lm_head"),
        **POSITIONS,
        **family.attention_weights(f"{H}.attn.attention", "blocks.{i}.attention", family.OUT_PROJ),
    },
    prefixes=("transformer.",),
    keys=("num_layers", "num_heads", "attention_types"),
    # attention_layers repeats the kinds of layers that attention_types defines.
    inert=("attention_layers", "summary_*", "gradient_checkpointing"),
    ignored=("h.{i}.attn.attention.bias", "h.{i}.attn.attention.masked_bias"),
    flatten=flatten_gpt_neo,
)


# --- OPT: positions start at the third row of their table; norms are before or after a layer.

OFFSET = 2
"""The row of the position table for position 0."""


@dataclass(frozen=True, kw_only=True)
class OPTConfig(family.TransformerConfig):
    """The sizes and options of an OPT network, under their names in `config.json`.

    Only `remove_final_layer_norm` differs: in the file its name begins with an underscore.
    """

    ffn_dim: int
    max_position_embeddings: int = 2048
    word_embed_proj_dim: int | None = None  # size of token embeddings; None: hidden_size
    do_layer_norm_before: bool = True  # False only for OPT-350M
    remove_final_layer_norm: bool = False
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    activation_function: str = "relu"
    tie_word_embeddings: bool = True


def _norm(config: OPTConfig, rngs: nnx.Rngs) -> nnx.LayerNorm:
    return layers.layer_norm(config.hidden_size, 1e-5, rngs, config.layer_norm_elementwise_affine)


class OPTBlock(nnx.Module):
    """Attention, then a two-layer MLP, each with a norm before it or after it."""

    def __init__(self, config: OPTConfig, *, rngs: nnx.Rngs):
        width, bias = config.hidden_size, config.enable_bias
        self.before = config.do_layer_norm_before
        self.attention = layers.Attention(width, config.heads, rngs, (bias, bias))
        self.mlp = layers.MLP(width, config.ffn_dim, config.activation_function, rngs, bias)
        self.ln_1, self.ln_2 = _norm(config, rngs), _norm(config, rngs)

    def __call__(self, h: jax.Array, layer: Layer, attend: Attend) -> jax.Array:
        """Adds this block's attention and MLP to `h [b, t, d]`."""
        h = h + self.attention(self.ln_1(h) if self.before else h, layer, attend)
        h = h if self.before else self.ln_1(h)  # OPT-350M's order
        h = h + self.mlp(self.ln_2(h) if self.before else h)
        return h if self.before else self.ln_2(h)


class OPTModel(family.Decoder):
    """OPT (Zhang et al. 2022), loadable from any Hugging Face `opt` directory."""

    def __init__(self, config: OPTConfig, *, rngs: nnx.Rngs):
        width, vocabulary = config.hidden_size, config.vocab_size
        narrow = config.word_embed_proj_dim or width
        positions = config.max_position_embeddings + OFFSET  # rows of the table
        self.embed = layers.embedding(vocabulary, narrow, rngs)
        self.position_embedding = layers.embedding(positions, width, rngs)
        self.blocks = nnx.List([OPTBlock(config, rngs=rngs) for _ in range(config.layers)])
        normed = config.do_layer_norm_before and not config.remove_final_layer_norm
        self.ln = _norm(config, rngs) if normed else None
        is_narrow = narrow != width  # True only for OPT-350M
        self.project_in = layers.linear(narrow, width, rngs, bias=False) if is_narrow else None
        self.project_out = layers.linear(width, narrow, rngs, bias=False) if is_narrow else None
        if not config.tie_word_embeddings:
            self.head = layers.embedding(vocabulary, narrow, rngs)

    def embedded(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Adds the embeddings of tokens and of positions, `[b, t, d]`."""
        h: jax.Array = self.embed(tokens)
        h = h if self.project_in is None else self.project_in(h)
        h = h + self.position_embedding(positions + OFFSET)
        return h

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Computes logits `[..., v]` of hidden states `[..., d]` for `token_set` (None: all)."""
        return super().unembed(h if self.project_out is None else self.project_out(h), token_set)


def flatten_opt(raw: family.RawConfig) -> family.RawConfig:
    """Renames the key that begins with an underscore in the file."""
    return raw | {"remove_final_layer_norm": raw.get("_remove_final_layer_norm", False)}


LAYER = "model.decoder.layers.{i}"
OPT_NORMS = ("self_attn_layer_norm", "final_layer_norm")
OPT_NAMES = ("model.decoder.embed_tokens", LAYER, OPT_NORMS, ("fc1", "fc2"))
OPT = family.Family(
    name="opt",
    config=OPTConfig,
    model=OPTModel,
    weights={
        **family.decoder_weights(*OPT_NAMES, "model.decoder.final_layer_norm", "lm_head"),
        "model.decoder.embed_positions.weight": family.Weight("position_embedding.embedding"),
        "model.decoder.project_in.weight": family.Weight("project_in.kernel", True, 1),
        "model.decoder.project_out.weight": family.Weight("project_out.kernel", True, 0),
        **family.attention_weights(f"{LAYER}.self_attn", "blocks.{i}.attention", family.OUT_PROJ),
    },
    fixed={"output_projection": True, "share_decoder_input_output_embed": True},
    keys=("_remove_final_layer_norm",),
    flatten=flatten_opt,
)
