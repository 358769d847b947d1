"""Layers that rotary networks share: RMS norms, grouped-query attention, gated MLPs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, layers
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.rotary import Rope

SLIDING, FULL = "sliding_attention", "full_attention"
DEEPEST = 10_000
"""The most layers of a plausible config; for more, no list of layer types is made."""


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(family.TransformerConfig):
    """The fields that configs of networks with rotary positions share.

    `rotary.flatten` makes `rope`.
    """

    rope: Rope

    positions = property(attrgetter("rope.longest"))


@dataclass(frozen=True, kw_only=True)
class Config(RotaryConfig):
    """The fields that configs of networks with gated MLPs share.

    `fused` follows from the family: Phi-3 has one matrix for queries, keys and values, and one for
    gate and up. `local_rope` is the rope of layers with a window, if they have their own.
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
        """The size of a head; `heads` times it may differ from the hidden size."""
        return self.head_dim or self.hidden_size // self.heads


def windows(config: Config) -> list[int | None]:
    """Returns the attention window of each layer (None: all positions), from `layer_types`."""
    layer_types = config.layer_types
    if len(layer_types) != config.num_hidden_layers or not {*layer_types} <= {SLIDING, FULL}:
        expected = f"{SLIDING!r} or {FULL!r} for each of {config.num_hidden_layers} layers"
        raise family.misread("layer_types", list(layer_types), expected)
    return [config.sliding_window if kind == SLIDING else None for kind in layer_types]


def layer_types(raw: family.RawConfig, slides: Callable[[int], bool]) -> family.RawConfig:
    """Returns a raw config with `layer_types`.

    If the config has none, `slides(layer)` decides whether a layer has a window.
    """
    types, layers = raw.get("layer_types"), raw.get("num_hidden_layers")
    if types is None and isinstance(layers, int) and layers <= DEEPEST:
        with suppress(TypeError, ZeroDivisionError):  # invalid values: the loader reports them
            types = [SLIDING if slides(layer) else FULL for layer in range(layers)]
    return raw | {"layer_types": tuple(types) if isinstance(types, list) else types}


class RMSNorm(nnx.Module):
    """An RMS norm; `centered` norms multiply by 1 + scale instead of scale."""

    def __init__(self, width: int, eps: float, centered: bool = False, *, rngs: nnx.Rngs):
        init = nnx.initializers.zeros if centered else nnx.initializers.ones
        self.eps, self.centered = eps, centered
        self.scale = nnx.Param(init(rngs.params(), (width,)))  # starts as the identity

    def __call__(self, h: jax.Array) -> jax.Array:
        """Normalizes `h [..., d]` in float32 and returns it in its own dtype."""
        normed = h.astype(jnp.float32)
        mean_square = jnp.mean(jnp.square(normed), axis=-1, keepdims=True)
        normed = normed * jax.lax.rsqrt(mean_square + self.eps)
        # As in transformers: Gemma rounds to the dtype after the multiplication, others before.
        if self.centered:
            return (normed * (1 + self.scale[...].astype(jnp.float32))).astype(h.dtype)
        return normed.astype(h.dtype) * self.scale[...]


class Attention(layers.Attention):
    """Rotary attention.

    Args:
        config: The config of the network.
        options: Differences from plain attention.
        bias: Whether queries, keys and values have biases, and whether the output has one; None:
            the config's `attention_bias` for both.
        centered: As in `RMSNorm`, for the norms of queries and keys.
        joint_norm: Whether these norms are computed over all heads jointly instead of each head.
        sinks: Whether each head has an attention sink, as in `Heads`.
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
            # The joint norm is OLMo 2's; Qwen3 and Gemma 3 normalize each head.
            norm = partial(RMSNorm, eps=config.rms_norm_eps, centered=centered, rngs=rngs)
            norms = norm(heads * d if joint_norm else d), norm(self.groups * d if joint_norm else d)
        self.q_norm, self.k_norm = norms

    def split(self, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Projects states to queries, keys and values, and normalizes queries and keys if set."""
        q, k, v = super().split(h)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self._normed(self.q_norm, q), self._normed(self.k_norm, k)
        return q, k, v

    def _normed(self, norm: RMSNorm, heads: jax.Array) -> jax.Array:
        if not self.joint_norm:
            return norm(heads)
        return norm(heads.reshape(*heads.shape[:-2], -1)).reshape(heads.shape)


class MLP(nnx.Module):
    """A gated MLP, `down(act(gate(h)) up(h))`."""

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
        """Applies the MLP to `h [b, t, d]`."""
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
"""The tensors that checkpoints of the Llama and the Gemma family share."""


def weights_without(*parts: str) -> dict[str, family.Weight]:
    """Returns `WEIGHTS` without the tensors that have one of `parts` in their name.

    >>> sorted(WEIGHTS.keys() - weights_without("input_layernorm", "lm_head"))
    ['lm_head.weight', 'model.layers.{i}.input_layernorm.weight']
    """
    kept = WEIGHTS
    for part in parts:
        kept = {name: weight for name, weight in kept.items() if part not in name}
    return dict(kept)
