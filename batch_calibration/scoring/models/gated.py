"""Parts that rotary networks share: RMS norms, attention in groups, gated MLPs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.rotary import Rope

SLIDING, FULL = "sliding_attention", "full_attention"
DEEPEST = 10_000
"""Layers beyond which a config is taken for nonsense before a list of them is made."""


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(family.TransformerConfig):
    """The fields that configs of networks with rotary positions share.

    `rope` is as `rotary.flatten` says.
    """

    rope: Rope

    positions = property(attrgetter("rope.longest"))


@dataclass(frozen=True, kw_only=True)
class Config(RotaryConfig):
    """The fields that configs of networks with gated MLPs share.

    `fused` (Phi-3: one matrix for queries, keys and values, and one for gate and up) follows from
    the family. `local_rope` is that of layers with a window where it is their own.
    """

    intermediate_size: int
    layer_types: tuple[str, ...]
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    qk_norm: bool = False
    fused: bool = False
    sliding_window: int | None = None
    local_rope: Rope | None = None

    @property
    def head_size(self) -> int:
        """Size of a head, which need not divide the hidden size."""
        return self.head_dim or self.hidden_size // self.heads


def windows(config: Config) -> list[int | None]:
    """Last positions that each layer sees (None: all), by the config's `layer_types`."""
    layer_types = config.layer_types
    if len(layer_types) != config.num_hidden_layers or not {*layer_types} <= {SLIDING, FULL}:
        raise InputError(
            f"config.json says layer_types = {list(layer_types)}; expected {SLIDING!r} or "
            f"{FULL!r} for each of {config.num_hidden_layers} layers; fetch the file again."
        )
    return [config.sliding_window if kind == SLIDING else None for kind in layer_types]


def layer_types(raw: family.RawConfig, slides: Callable[[int], bool]) -> family.RawConfig:
    """A raw config with `layer_types`: where it has none, layers have windows as `slides` says."""
    types, layers = raw.get("layer_types"), raw.get("num_hidden_layers")
    if types is None and isinstance(layers, int) and layers <= DEEPEST:
        with suppress(TypeError, ZeroDivisionError):  # nonsense: the loader then says what lacks
            types = [SLIDING if slides(layer) else FULL for layer in range(layers)]
    return raw | {"layer_types": tuple(types) if isinstance(types, list) else types}


class RMSNorm(nnx.Module):
    """Divide by the root mean square and multiply by the scale, or by 1 + scale (`centered`)."""

    def __init__(self, width: int, eps: float, centered: bool = False, *, rngs: nnx.Rngs):
        init = nnx.initializers.zeros if centered else nnx.initializers.ones
        self.eps, self.centered = eps, centered
        self.scale = nnx.Param(init(rngs.params(), (width,)))  # zeros where 1 is added to it

    def __call__(self, h: jax.Array) -> jax.Array:
        """`x [..., d]` normalized in float32, in its own dtype."""
        normed = h.astype(jnp.float32)
        mean_square = jnp.mean(jnp.square(normed), axis=-1, keepdims=True)
        normed = normed * jax.lax.rsqrt(mean_square + self.eps)
        # Gemma multiplies before it rounds, the others after, as in transformers.
        if self.centered:
            return (normed * (1 + self.scale[...].astype(jnp.float32))).astype(h.dtype)
        return normed.astype(h.dtype) * self.scale[...]


class Attention(layers.Attention):
    """Rotary attention.

    Args:
        config: the network's.
        options: how it differs from plain attention.
        bias: whether queries, keys and values have biases, and whether the output has; None: as
            `attention_bias` of the config says of both.
        centered: as in `RMSNorm`, of the norms of queries and keys.
        joint_norm: whether these norms are over all heads at once, not over each.
        sinks: whether each head has a sink, as in `Heads`.
    """

    def __init__(
        self,
        config: Config,
        options: AttentionOptions,
        bias: tuple[bool, bool] | None = None,
        centered: bool = False,
        joint_norm: bool = False,
        sinks: bool = False,
        *,
        rngs: nnx.Rngs,
    ):
        heads, groups, d = config.heads, config.num_key_value_heads, config.head_size
        fused: layers.Layout = "in order" if config.fused else ""
        both = config.attention_bias, config.attention_bias
        super().__init__(config.hidden_size, heads, rngs, bias or both, groups, d, fused, options)
        self.joint_norm = joint_norm
        if sinks:
            self.sinks = layers.parameter(rngs, heads)
        norms: tuple[RMSNorm | None, RMSNorm | None] = (None, None)
        if config.qk_norm:
            # OLMo 2, or Qwen3 and Gemma 3
            norm = partial(RMSNorm, eps=config.rms_norm_eps, centered=centered, rngs=rngs)
            norms = norm(heads * d if joint_norm else d), norm(self.groups * d if joint_norm else d)
        self.q_norm, self.k_norm = norms

    def split(self, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Queries `[b, t, heads, d]`, keys and values `[b, t, groups, d]`, which may be normed."""
        q, k, v = super().split(h)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self._normed(self.q_norm, q), self._normed(self.k_norm, k)
        return q, k, v

    def _normed(self, norm: RMSNorm, heads: jax.Array) -> jax.Array:
        if not self.joint_norm:
            return norm(heads)
        return norm(heads.reshape(*heads.shape[:-2], -1)).reshape(heads.shape)


class MLP(nnx.Module):
    """`down(act(gate(h)) up(h))`."""

    def __init__(
        self, config: Config, act: str, bias: bool = False, inner: int = 0, *, rngs: nnx.Rngs
    ):
        self.activation, self.fused = layers.activation(act), config.fused
        width, inner = config.hidden_size, inner or config.intermediate_size
        if self.fused:
            self.gate_up = layers.linear(width, 2 * inner, rngs, bias)
        else:
            self.gate = layers.linear(width, inner, rngs, bias)
            self.up = layers.linear(width, inner, rngs, bias)
        self.down = layers.linear(inner, width, rngs, bias)

    def __call__(self, h: jax.Array) -> jax.Array:
        """The MLP of `h [b, t, d]`."""
        if self.fused:
            gate, up = jnp.split(self.gate_up(h), 2, axis=-1)
        else:
            gate, up = self.gate(h), self.up(h)
        return self.down(self.activation(gate) * up)


LAYER = "model.layers.{i}"
WEIGHTS = {
    "model.embed_tokens.weight": family.Weight("embed.embedding", split=0),
    "model.layers.{i}.input_layernorm.weight": family.Weight("blocks.{i}.ln_1.scale"),
    **family.attention_weights("model.layers.{i}.self_attn", "blocks.{i}.attention"),
    "model.layers.{i}.self_attn.q_norm.weight": family.Weight("blocks.{i}.attention.q_norm.scale"),
    "model.layers.{i}.self_attn.k_norm.weight": family.Weight("blocks.{i}.attention.k_norm.scale"),
    "model.layers.{i}.post_attention_layernorm.weight": family.Weight("blocks.{i}.ln_2.scale"),
    **family.linear_weights("model.layers.{i}.mlp.gate_proj", "blocks.{i}.mlp.gate", 1),
    **family.linear_weights("model.layers.{i}.mlp.up_proj", "blocks.{i}.mlp.up", 1),
    **family.linear_weights("model.layers.{i}.mlp.down_proj", "blocks.{i}.mlp.down", 0),
    "model.norm.weight": family.Weight("ln.scale"),
    "lm_head.weight": family.Weight("head.embedding", split=0),
}
"""The names that the two families' checkpoints share."""


def weights_without(*parts: str) -> dict[str, family.Weight]:
    """`WEIGHTS` without the tensors whose name has one of `parts` in it.

    >>> sorted(WEIGHTS.keys() - weights_without("input_layernorm", "lm_head"))
    ['lm_head.weight', 'model.layers.{i}.input_layernorm.weight']
    """
    kept = WEIGHTS
    for part in parts:
        kept = {name: weight for name, weight in kept.items() if part not in name}
    return dict(kept)
