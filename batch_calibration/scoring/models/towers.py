"""The parts of CLIP's and SigLIP's towers, and their names in checkpoints."""

from dataclasses import asdict
from typing import Literal, NamedTuple

import jax
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import attention, family, layers


class Shape(NamedTuple):
    """The sizes of a tower's blocks."""

    width: int
    inner: int
    layers: int
    heads: int
    act: str
    eps: float

    @classmethod
    def of(cls, config: family.Config, tower: Literal["text", "vision"]) -> "Shape":
        """The shape of a tower; `InputError` where its heads do not divide its width."""
        names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                 "hidden_act", "layer_norm_eps")  # fmt: skip
        fields = asdict(config)
        shape = cls(*(fields[f"{tower}_{name}"] for name in names))
        if shape.width % shape.heads:
            raise InputError(
                f"config.json, {tower} tower: {shape.heads} attention heads of a width of "
                f"{shape.width}, expected heads that divide it; fetch the file again."
            )
        return shape


class Block(nnx.Module):
    """One pre-norm block: attention, then a two-layer MLP."""

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
        self, h: jax.Array, layer: int, attend: attention.Attend, read: int | None = None
    ) -> jax.Array:
        """Attention and MLP added to the first `read` positions (all) of `h [b, t, d]`.

        All positions are attended to; the others go no further, and are not computed.
        """
        normed = self.ln_1(h)  # [b, t, d], every position: keys and values need all
        q = layers.split_heads(self.q(normed[:, :read]), self.heads)
        k = layers.split_heads(self.k(normed), self.heads)
        v = layers.split_heads(self.v(normed), self.heads)
        h = h[:, :read]  # the residual stream of what goes on
        h = h + self.out(attend(layer, attention.Heads(q, k, v)).reshape(h.shape))
        return h + self.proj(self.activation(self.fc(self.ln_2(h))))


def norm(shape: Shape, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """A layer norm of the tower."""
    return layers.layer_norm(shape.width, shape.eps, rngs)


def embed_patches(pixels: jax.Array, kernel: jax.Array) -> jax.Array:
    """Each square patch of `pixels [b, h, w, 3]` times `kernel [x, y, 3, d]`: `[b, patches, d]`.

    Patches come row by row; pixels right and below of the last whole ones are left out.
    """
    edge, width = kernel.shape[0], kernel.shape[-1]
    high, wide = pixels.shape[1] // edge, pixels.shape[2] // edge  # patches a column, a row
    grid = pixels[:, : high * edge, : wide * edge].reshape(-1, high, edge, wide, edge, 3)
    # The kernel's first axis is the horizontal one: a checkpoint's table only turns axes around.
    flat = grid.transpose(0, 1, 3, 4, 2, 5).reshape(-1, high * wide, edge * edge * 3)
    return flat @ kernel.reshape(-1, width)


def tower_weights(name: str, ours: str) -> dict[str, family.Weight]:
    """The rows of one tower's blocks."""
    theirs, block = f"{name}.encoder.layers.{{i}}", f"{ours}.blocks.{{i}}"
    return {
        **family.attention_weights(f"{theirs}.self_attn", block, family.OUT_PROJ),
        **family.linear_weights(f"{theirs}.mlp.fc1", f"{block}.fc", 1),
        **family.linear_weights(f"{theirs}.mlp.fc2", f"{block}.proj", 0),
        **family.norm_weights(f"{theirs}.layer_norm1", f"{block}.ln_1"),
        **family.norm_weights(f"{theirs}.layer_norm2", f"{block}.ln_2"),
    }


def tower_keys(config: type[family.Config], tower: str) -> tuple[str, ...]:
    """The keys of a tower's part of the file for the fields of `config`."""
    names = [*config.__dataclass_fields__, "vision_num_channels"]
    return tuple(n.removeprefix(f"{tower}_") for n in names if n.startswith(f"{tower}_"))


def caption_weights() -> dict[str, family.Weight]:
    """The rows of the text tower, up to its norm."""
    theirs, ours = "text_model.embeddings", "text"
    return {
        f"{theirs}.token_embedding.weight": family.Weight(
            f"{ours}.token_embedding.embedding", split=0
        ),
        f"{theirs}.position_embedding.weight": family.Weight(
            f"{ours}.position_embedding.embedding"
        ),
        **tower_weights("text_model", "text"),
        **family.norm_weights("text_model.final_layer_norm", "text.ln"),
    }
