"""CLIP: an image tower and a text tower that embed into one space."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import Attend, Heads, Layer, causal, full


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes of both towers: keys of `text_config` and `vision_config` after the tower's name.

    Defaults are the defaults of transformers.
    """

    projection_dim: int = 512
    logit_scale_init_value: float = 2.6592  # ln(1 / 0.07)
    text_vocab_size: int = 49408
    text_hidden_size: int = 512
    text_intermediate_size: int = 2048
    text_num_hidden_layers: int = 12
    text_num_attention_heads: int = 8
    text_max_position_embeddings: int = 77
    text_hidden_act: str = "quick_gelu"
    text_layer_norm_eps: float = 1e-5
    text_eos_token_id: int = 49407  # the last token of the vocabulary
    vision_hidden_size: int = 768
    vision_intermediate_size: int = 3072
    vision_num_hidden_layers: int = 12
    vision_num_attention_heads: int = 12
    vision_image_size: int = 224
    vision_patch_size: int = 32
    vision_hidden_act: str = "quick_gelu"
    vision_layer_norm_eps: float = 1e-5

    vocab_size = property(attrgetter("text_vocab_size"))
    positions = property(attrgetter("text_max_position_embeddings"))
    width = property(attrgetter("text_hidden_size"))
    heads = property(attrgetter("text_num_attention_heads"))

    @property
    def image_tokens(self) -> int:
        """The number of positions in the vision tower: the class token and the patches."""
        return 1 + (self.vision_image_size // self.vision_patch_size) ** 2

    @property
    def layers(self) -> int:
        """The number of blocks in the deeper tower."""
        return max(self.text_num_hidden_layers, self.vision_num_hidden_layers)


SIZES = (
    "hidden_size intermediate_size num_hidden_layers num_attention_heads hidden_act layer_norm_eps"
)
"""The names of the fields of `Shape` in configs."""


class Shape(NamedTuple):
    """The sizes of a tower's blocks."""

    width: int
    inner: int
    layers: int
    heads: int
    act: str
    eps: float

    @classmethod
    def of(cls, config: Config, tower: Literal["text", "vision"]) -> "Shape":
        """Returns the shape of a tower.

        Raises:
            InputError: The number of heads does not divide the width.
        """
        shape = cls(*(getattr(config, f"{tower}_{name}") for name in SIZES.split()))
        if shape.width % shape.heads:
            where, got = f"config.json, {tower} tower", f"{shape.heads} attention heads"
            expected = f"a divisor of the width {shape.width}"
            raise InputError.at(where, expected, got, "fetch the file again")
        return shape


class Block(nnx.Module):
    """A pre-norm block: attention, then a two-layer MLP."""

    def __init__(self, shape: Shape, *, rngs: nnx.Rngs):
        width, init = shape.width, nnx.initializers.normal  # scales as in the paper's own code
        broad, deep = init(width**-0.5), init((2 * width * shape.layers) ** -0.5)
        self.heads = shape.heads
        self.activation = layers.activation(shape.act)
        self.ln_1 = norm(shape, rngs)
        self.q = nnx.Linear(width, width, kernel_init=deep, rngs=rngs)
        self.k = nnx.Linear(width, width, kernel_init=deep, rngs=rngs)
        self.v = nnx.Linear(width, width, kernel_init=deep, rngs=rngs)
        self.out = nnx.Linear(width, width, kernel_init=broad, rngs=rngs)
        self.ln_2 = norm(shape, rngs)
        self.fc = nnx.Linear(width, shape.inner, kernel_init=init((2 * width) ** -0.5), rngs=rngs)
        self.proj = nnx.Linear(shape.inner, width, kernel_init=deep, rngs=rngs)

    def __call__(
        self, h: jax.Array, layer: Layer, attend: Attend, read: int | None = None
    ) -> jax.Array:
        """Adds attention and MLP to the first `read` positions (None: all) of `h [b, t, d]`.

        Attention sees all positions; the result has only the first `read`.
        """
        normed = self.ln_1(h)  # [b, t, d]: keys and values need all positions
        q = layers.to_heads(self.q, normed[:, :read], self.heads)
        k = layers.to_heads(self.k, normed, self.heads)
        v = layers.to_heads(self.v, normed, self.heads)
        h = h[:, :read]  # later layers see only these positions
        h = h + layers.from_heads(self.out, attend(layer, Heads(q, k, v)))
        return h + self.proj(self.activation(self.fc(self.ln_2(h))))


def norm(shape: Shape, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """Makes a layer norm of the tower."""
    return layers.layer_norm(shape.width, shape.eps, rngs)


def projection(shape: Shape, size: int, rngs: nnx.Rngs) -> nnx.Linear:
    """Makes the layer that projects a tower's output to embeddings of this `size`."""
    init = nnx.initializers.normal(shape.width**-0.5)
    return nnx.Linear(shape.width, size, use_bias=False, kernel_init=init, rngs=rngs)


def embed_patches(pixels: jax.Array, kernel: jax.Array) -> jax.Array:
    """Multiplies square patches of `pixels [b, h, w, 3]` by `kernel [x, y, 3, d]`.

    Returns `[b, patches, d]` with patches in row-major order. Pixels at the right and the lower
    edge that do not fill a patch are dropped.
    """
    edge, width = kernel.shape[0], kernel.shape[-1]
    high, wide = pixels.shape[1] // edge, pixels.shape[2] // edge  # patches per column, per row
    grid = pixels[:, : high * edge, : wide * edge].reshape(-1, high, edge, wide, edge, 3)
    # The kernel's first axis is horizontal: a `Weight` can only reverse the order of the axes.
    flat = grid.transpose(0, 1, 3, 4, 2, 5).reshape(-1, high * wide, edge * edge * 3)
    return flat @ kernel.reshape(-1, width)


class Text(nnx.Module):
    """The causal tower of captions; its output is read at the end token."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        shape = Shape.of(config, "text")
        self.eos = config.text_eos_token_id
        self.token_embedding = layers.embedding(config.text_vocab_size, shape.width, rngs)
        small = nnx.initializers.normal(0.01)
        self.position_embedding = layers.embedding(config.positions, shape.width, rngs, small)
        self.blocks = nnx.List([Block(shape, rngs=rngs) for _ in range(shape.layers)])
        self.ln = norm(shape, rngs)
        self.projection = projection(shape, config.projection_dim, rngs)

    def __call__(self, tokens: jax.Array, lengths: jax.Array | None = None) -> jax.Array:
        """Embeds `tokens [b, t]` as `[b, p]`; tokens after the end token change nothing."""
        # Padding may be longer than the position table; embeddings beyond its end would be NaN.
        last = self.position_embedding.num_embeddings - 1
        positions = jnp.minimum(jnp.arange(tokens.shape[1]), last)
        h = self.token_embedding(tokens) + self.position_embedding(positions)
        for layer, block in enumerate(self.blocks):
            h = block(h, layer, causal)
        # Old configs have the wrong id 2; in them the end token is the largest id.
        # ends: [b], the first end token of each caption
        ends = jnp.argmax(tokens if self.eos == 2 else tokens == self.eos, axis=1)
        return self.projection(self.ln(h[jnp.arange(len(h)), ends]))


class Vision(nnx.Module):
    """The tower of images cut into square patches; its output is read at the class token."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        shape = Shape.of(config, "vision")
        init, edge = nnx.initializers.normal(shape.width**-0.5), config.vision_patch_size
        self.start = nnx.Param(init(rngs.params(), (shape.width,)))
        self.patch = layers.parameter(rngs, edge, edge, 3, shape.width)
        self.position_embedding = layers.parameter(rngs, config.image_tokens, shape.width)
        self.ln_1 = norm(shape, rngs)
        self.blocks = nnx.List([Block(shape, rngs=rngs) for _ in range(shape.layers)])
        self.ln_2 = norm(shape, rngs)
        self.projection = projection(shape, config.projection_dim, rngs)

    def __call__(self, pixels: jax.Array) -> jax.Array:
        """Computes embeddings `[b, p]` of `pixels [b, h, w, 3]`."""
        h = embed_patches(pixels, self.patch[...])  # [b, patches, d]
        # The class token comes before the patches of each image.
        start = jnp.broadcast_to(self.start[...], (len(h), 1, h.shape[-1]))
        h = self.ln_1(jnp.concatenate([start, h], axis=1) + self.position_embedding[...])
        for layer, block in enumerate(self.blocks[:-1]):
            h = block(h, layer, full)
        # Only the class token is read, so the last block does not compute the patches' outputs.
        h = self.blocks[-1](h, len(self.blocks) - 1, full, read=1)
        return self.projection(self.ln_2(h[:, 0]))  # only the class token


class Model(nnx.Module):
    """CLIP (Radford et al. 2021, section 2), loadable from a Hugging Face `clip` directory."""

    text: Callable[..., jax.Array]
    vision: Callable[[jax.Array], jax.Array]

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        self.text, self.vision = Text(config, rngs=rngs), Vision(config, rngs=rngs)
        self.log_scale = nnx.Param(jnp.float32(config.logit_scale_init_value))

    @property
    def scale(self) -> jax.Array:
        """The factor from cosines to logits: one over the learned temperature."""
        return jnp.exp(self.log_scale[...].reshape(()))

    def embed_text(self, tokens: jax.Array, lengths: jax.Array | None = None) -> jax.Array:
        """Embeds `tokens [b, t]` of captions with `lengths [b]`: `[b, p]`, not normalized."""
        return self.text(tokens, lengths)

    def embed_image(self, pixels: jax.Array) -> jax.Array:
        """Embeds normalized `pixels [b, h, w, 3]`: `[b, p]`, not normalized."""
        return self.vision(pixels)


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """Adds the prefixes `text_` and `vision_` to the keys of both towers.

    In old files, `text_config_dict` and `vision_config_dict` take precedence.
    """
    shared = ("projection_dim", "logit_scale_init_value")
    flat: family.RawConfig = {key: raw[key] for key in shared if key in raw}
    for tower in ("text", "vision"):
        old = raw.get(f"{tower}_config_dict")  # files of 2021 and 2022
        tower_config = raw.get(f"{tower}_config") if old is None else old
        if isinstance(tower_config, dict):
            flat |= {f"{tower}_{key}": setting for key, setting in tower_config.items()}
    return flat


def tower_weights(name: str, ours: str) -> dict[str, family.Weight]:
    """Returns the weights of one tower's blocks."""
    theirs, block = f"{name}.encoder.layers.{{i}}", f"{ours}.blocks.{{i}}"
    return {
        **family.attention_weights(f"{theirs}.self_attn", block, family.OUT_PROJ),
        **family.linear_weights(f"{theirs}.mlp.fc1", f"{block}.fc", 1),
        **family.linear_weights(f"{theirs}.mlp.fc2", f"{block}.proj", 0),
        **family.norm_weights(f"{theirs}.layer_norm1", f"{block}.ln_1"),
        **family.norm_weights(f"{theirs}.layer_norm2", f"{block}.ln_2"),
    }


def tower_keys(config: type[Config], tower: str) -> tuple[str, ...]:
    """Returns the keys of a tower's object in the file, from the fields of `config`."""
    names = [*config.__dataclass_fields__, "vision_num_channels"]
    return tuple(n.removeprefix(f"{tower}_") for n in names if n.startswith(f"{tower}_"))


TEXT = "text_model.embeddings"
CAPTION_WEIGHTS = {
    f"{TEXT}.token_embedding.weight": family.Weight("text.token_embedding.embedding", split=0),
    f"{TEXT}.position_embedding.weight": family.Weight("text.position_embedding.embedding"),
    **tower_weights("text_model", "text"),
    **family.norm_weights("text_model.final_layer_norm", "text.ln"),
}
"""The weights of the text tower, up to its final norm."""
WEIGHTS = {
    "logit_scale": family.Weight("log_scale"),
    **CAPTION_WEIGHTS,
    "text_projection.weight": family.Weight("text.projection.kernel", True),
    "vision_model.embeddings.class_embedding": family.Weight("vision.start"),
    "vision_model.embeddings.patch_embedding.weight": family.Weight("vision.patch", True),
    "vision_model.embeddings.position_embedding.weight": family.Weight("vision.position_embedding"),
    # Checkpoints misspell this name.
    **family.norm_weights("vision_model.pre_layrnorm", "vision.ln_1"),
    **tower_weights("vision_model", "vision"),
    **family.norm_weights("vision_model.post_layernorm", "vision.ln_2"),
    "visual_projection.weight": family.Weight("vision.projection.kernel", True),
}
FAMILY = family.Family(
    name="clip",
    kind="clip",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    tied={},
    prefixes=(),
    fixed={"vision_num_channels": 3},
    parts={
        **dict.fromkeys(("text_config", "text_config_dict"), tower_keys(Config, "text")),
        **dict.fromkeys(("vision_config", "vision_config_dict"), tower_keys(Config, "vision")),
    },
    # In a tower's object, projection_dim has no effect; the key at the top level counts.
    inert=("projection_dim", "tie_word_embeddings"),
    ignored=("text_model.embeddings.position_ids", "vision_model.embeddings.position_ids"),
    flatten=flatten,
)
