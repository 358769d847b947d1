"""Parts that Llama and Gemma networks share: RMS norms, grouped rotary attention, gated MLPs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError
from batch_calibration.models.activations import activation
from batch_calibration.models.attention import Attend, AttentionOptions
from batch_calibration.models.family import RawConfig, TransformerConfig, Weight
from batch_calibration.models.rotary import rotate

SLIDING, FULL = "sliding_attention", "full_attention"
INIT = nnx.initializers.normal(0.02)


@dataclass(frozen=True, kw_only=True)
class Config(TransformerConfig):
    """What both families' configs have; the rope fields are as `rotary.flatten` says."""

    intermediate_size: int
    layer_types: tuple[str, ...]
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    qk_norm: bool = False
    sliding_window: int | None = None
    rope_theta: float = 10_000.0
    rope_type: str = "default"
    rope_scaling: tuple[float, ...] = ()

    @property
    def head_size(self) -> int:
        """Numbers in a head, which need not divide the width."""
        return self.head_dim or self.hidden_size // self.heads


def windows(config: Config) -> list[int | None]:
    """How many last positions each layer sees (None: all), by the config's `layer_types`."""
    kinds = config.layer_types
    if len(kinds) != config.num_hidden_layers or not {*kinds} <= {SLIDING, FULL}:
        raise InputError(
            f"config.json says layer_types = {list(kinds)}; expected {SLIDING!r} or {FULL!r} for "
            f"each of {config.num_hidden_layers} layers; fetch the file again."
        )
    return [config.sliding_window if kind == SLIDING else None for kind in kinds]


def layer_types(raw: RawConfig, slides: Callable[[int], bool]) -> RawConfig:
    """A raw config with `layer_types`: where it has none, layers have windows as `slides` says."""
    kinds, layers = raw.get("layer_types"), raw.get("num_hidden_layers")
    if kinds is None and isinstance(layers, int):
        with suppress(TypeError, ZeroDivisionError):  # nonsense: the loader then says what lacks
            kinds = [SLIDING if slides(layer) else FULL for layer in range(layers)]
    return raw | {"layer_types": tuple(kinds) if isinstance(kinds, list) else kinds}


class RMSNorm(nnx.Module):
    """Divide by the root mean square and multiply by the scale, or by 1 + scale (`centered`)."""

    def __init__(self, width: int, eps: float, centered: bool = False, *, rngs: nnx.Rngs):
        init = nnx.initializers.zeros if centered else nnx.initializers.ones
        self.eps, self.centered = eps, centered
        self.scale = nnx.Param(init(rngs.params(), (width,)))

    def __call__(self, x: jax.Array) -> jax.Array:
        """`x [..., d]` normalized in float32, in its own dtype."""
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(jnp.square(y), axis=-1, keepdims=True) + self.eps)
        if self.centered:
            return (y * (1 + self.scale[...].astype(jnp.float32))).astype(x.dtype)
        return y.astype(x.dtype) * self.scale[...]


class Attention(nnx.Module):
    """Rotary attention whose queries share keys and values in groups."""

    def __init__(
        self,
        config: Config,
        options: AttentionOptions,
        bias: tuple[bool, bool],
        centered: bool = False,
        *,
        rngs: nnx.Rngs,
    ):
        width, heads, d = config.hidden_size, config.heads, config.head_size
        self.d, self.options = d, options
        groups = config.num_key_value_heads or heads
        self.q, self.k, self.v = (
            nnx.Linear(width, n * d, use_bias=bias[0], kernel_init=INIT, rngs=rngs)
            for n in (heads, groups, groups)
        )
        self.out = nnx.Linear(heads * d, width, use_bias=bias[1], kernel_init=INIT, rngs=rngs)
        self.q_norm, self.k_norm = (
            RMSNorm(d, config.rms_norm_eps, centered, rngs=rngs) if config.qk_norm else None
            for _ in "qk"
        )

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, angle: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        """Attention of `h [b, t, d]`, whose positions' rotation `angle` is."""
        q, k, v = (part(h).reshape(*h.shape[:-1], -1, self.d) for part in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        mean = attend(layer, rotate(q, angle), rotate(k, angle), v, self.options)
        return self.out(mean.reshape(*h.shape[:-1], -1))


class MLP(nnx.Module):
    """`down(act(gate(h)) up(h))`."""

    def __init__(self, width: int, inner: int, act: str, bias: bool = False, *, rngs: nnx.Rngs):
        self.activation = activation(act)
        self.gate, self.up, self.down = (
            nnx.Linear(*shape, use_bias=bias, kernel_init=INIT, rngs=rngs)
            for shape in ((width, inner), (width, inner), (inner, width))
        )

    def __call__(self, h: jax.Array) -> jax.Array:
        """The MLP of `h [b, t, d]`."""
        return self.down(self.activation(self.gate(h)) * self.up(h))


WEIGHTS = {
    "model.embed_tokens.weight": Weight("embed.embedding", split=0),
    "model.layers.{i}.input_layernorm.weight": Weight("blocks.{i}.ln_1.scale"),
    "model.layers.{i}.self_attn.q_proj.weight": Weight("blocks.{i}.attention.q.kernel", True, 1),
    "model.layers.{i}.self_attn.q_proj.bias": Weight("blocks.{i}.attention.q.bias", split=0),
    "model.layers.{i}.self_attn.k_proj.weight": Weight("blocks.{i}.attention.k.kernel", True, 1),
    "model.layers.{i}.self_attn.k_proj.bias": Weight("blocks.{i}.attention.k.bias", split=0),
    "model.layers.{i}.self_attn.v_proj.weight": Weight("blocks.{i}.attention.v.kernel", True, 1),
    "model.layers.{i}.self_attn.v_proj.bias": Weight("blocks.{i}.attention.v.bias", split=0),
    "model.layers.{i}.self_attn.q_norm.weight": Weight("blocks.{i}.attention.q_norm.scale"),
    "model.layers.{i}.self_attn.k_norm.weight": Weight("blocks.{i}.attention.k_norm.scale"),
    "model.layers.{i}.self_attn.o_proj.weight": Weight("blocks.{i}.attention.out.kernel", True, 0),
    "model.layers.{i}.self_attn.o_proj.bias": Weight("blocks.{i}.attention.out.bias"),
    "model.layers.{i}.post_attention_layernorm.weight": Weight("blocks.{i}.ln_2.scale"),
    "model.layers.{i}.mlp.gate_proj.weight": Weight("blocks.{i}.mlp.gate.kernel", True, 1),
    "model.layers.{i}.mlp.gate_proj.bias": Weight("blocks.{i}.mlp.gate.bias", split=0),
    "model.layers.{i}.mlp.up_proj.weight": Weight("blocks.{i}.mlp.up.kernel", True, 1),
    "model.layers.{i}.mlp.up_proj.bias": Weight("blocks.{i}.mlp.up.bias", split=0),
    "model.layers.{i}.mlp.down_proj.weight": Weight("blocks.{i}.mlp.down.kernel", True, 0),
    "model.layers.{i}.mlp.down_proj.bias": Weight("blocks.{i}.mlp.down.bias"),
    "model.norm.weight": Weight("norm.scale"),
    "lm_head.weight": Weight("head.embedding", split=0),
}
"""The names that the two families' checkpoints share."""
