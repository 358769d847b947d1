"""The GPT-Neo family: GPT-2 with products that are not scaled, every other layer with a window."""

from dataclasses import dataclass
from functools import partial

import jax
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import AttentionOptions

KINDS = ("global", "local")
USUAL_TYPES = [[["global", "local"], 12]]
"""`attention_types` where a file does not say."""


@dataclass(frozen=True, kw_only=True)
class Config(family.TransformerConfig):
    """Shape of a GPT-Neo network.

    `num_hidden_layers` and `num_attention_heads` are the file's `num_layers` and `num_heads`;
    `layer_kinds` follows from `attention_types`.
    """

    max_position_embeddings: int = 2048
    intermediate_size: int | None = None  # of the MLP; 4 * hidden_size
    window_size: int = 256
    layer_norm_epsilon: float = 1e-5
    activation_function: str = "gelu_new"
    tie_word_embeddings: bool = True
    layer_kinds: tuple[str, ...]


class Block(family.Block):
    """One pre-norm block: attention, then a two-layer MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width, eps = config.width, config.layer_norm_epsilon
        inner = config.intermediate_size or 4 * width
        # Trained without division by the root of a head's size.
        options = AttentionOptions(scale=1.0, window=window)
        self.ln_1 = layers.layer_norm(width, eps, rngs)
        self.attention = layers.Attention(width, config.heads, rngs, (False, True), options=options)
        self.ln_2 = layers.layer_norm(width, eps, rngs)
        self.mlp = layers.MLP(width, inner, config.activation_function, rngs)


class Model(family.Decoder):
    """GPT-Neo (Black et al. 2021), loadable from any Hugging Face `gpt_neo` directory."""

    block = Block

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        windows = [config.window_size if kind == "local" else None for kind in config.layer_kinds]
        norm = partial(layers.layer_norm, config.width, config.layer_norm_epsilon)
        self.make(config, norm, config.tie_word_embeddings, rngs, windows)
        self.wpe = layers.embedding(config.positions, config.width, rngs)

    def embedded(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Embeddings of tokens and of their positions, `[b, t, d]`."""
        return self.embed(tokens) + self.wpe(positions)


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """The raw config in `Config`'s fields: repeated groups of kinds are a kind for each layer."""
    raw = {"num_layers": 24, "num_heads": 16} | raw
    depth = raw.get("num_hidden_layers", raw["num_layers"])
    types = raw.get("attention_types") or USUAL_TYPES
    kinds: list[str] = []
    try:
        for group, times in types if isinstance(types, list) else []:
            kinds += [*group] * min(int(times), 1000)  # a nonsense number must not fill the memory
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != depth or not {*kinds} <= {*KINDS}:
        raise InputError(
            f"config.json says attention_types = {types!r:.200}; expected groups of 'global' and "
            f"'local' and how often each is repeated, {depth} layers in all; fetch the file again."
        )
    heads = raw.get("num_attention_heads", raw["num_heads"])
    return raw | {
        "num_hidden_layers": depth, "num_attention_heads": heads, "layer_kinds": tuple(kinds),
    }  # fmt: skip


LAYER = "transformer.h.{i}"
WEIGHTS = {
    "transformer.wte.weight": family.Weight("embed.embedding", split=0),
    "transformer.wpe.weight": family.Weight("wpe.embedding"),
    **family.norm_weights(f"{LAYER}.ln_1", "blocks.{i}.ln_1"),
    **family.attention_weights(f"{LAYER}.attn.attention", "blocks.{i}.attention", family.OUT_PROJ),
    **family.norm_weights(f"{LAYER}.ln_2", "blocks.{i}.ln_2"),
    **family.linear_weights(f"{LAYER}.mlp.c_fc", "blocks.{i}.mlp.fc", 1),
    **family.linear_weights(f"{LAYER}.mlp.c_proj", "blocks.{i}.mlp.proj", 0),
    **family.norm_weights("transformer.ln_f", "ln"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
}
FAMILY = family.Family(
    name="gpt_neo",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    prefixes=("transformer.",),
    keys=("num_layers", "num_heads", "attention_types"),
    # attention_types gives the kinds of layers; attention_layers is ignored.
    inert=("attention_layers", "summary_*", "gradient_checkpointing"),
    ignored=("h.{i}.attn.attention.bias", "h.{i}.attn.attention.masked_bias"),
    flatten=flatten,
)
