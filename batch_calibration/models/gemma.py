"""The Gemma family: Gemma 2, and Gemma 3 as a language model."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.models import gated, rotary
from batch_calibration.models.attention import Attend
from batch_calibration.models.head import logits
from batch_calibration.models.weights import Weight


class Config(NamedTuple):
    """Shape of a Gemma network, in the names of its Hugging Face `config.json`.

    `qk_norm` (Gemma 3) follows from its `model_type`. `rope_local_theta` is that of
    layers with a window where it is their own (Gemma 3); the other rope fields are as
    `rotary.flatten` says.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    vocab_size: int
    layer_types: tuple[str, ...]
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 256
    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    qk_norm: bool = False
    query_pre_attn_scalar: float = 256.0
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    sliding_window: int | None = 4096
    rope_theta: float = 10_000.0
    rope_type: str = "default"
    rope_scaling: tuple[float, ...] = ()
    rope_local_theta: float | None = None

    @property
    def positions(self) -> int:
        """Longest sequence the network has positions for."""
        return self.max_position_embeddings

    @property
    def width(self) -> int:
        """Numbers in a hidden state."""
        return self.hidden_size

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.num_attention_heads


class Block(nnx.Module):
    """Attention, then a gated perceptron, each normalized before and after."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.ln_1, self.ln_attention, self.ln_2, self.ln_mlp = (
            gated.RMSNorm(width, config.rms_norm_eps, centered=True, rngs=rngs) for _ in range(4)
        )
        self.attention = gated.Attention(
            config,
            window,
            (config.attention_bias, config.attention_bias),
            scale=config.query_pre_attn_scalar**-0.5,
            cap=config.attn_logit_softcapping,
            centered=True,
            rngs=rngs,
        )
        self.mlp = gated.Perceptron(
            width, config.intermediate_size, config.hidden_activation, rngs=rngs
        )

    def __call__(
        self, h: jax.Array, layer: int, attend: Attend, angle: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        """Add this block's attention and perceptron to `h [b, t, d]`."""
        h = h + self.ln_attention(self.attention(self.ln_1(h), layer, attend, angle))
        return h + self.ln_mlp(self.mlp(self.ln_2(h)))


class Model(nnx.Module):
    """Gemma 2 and 3 (Gemma Team 2024, 2025), loadable from a Hugging Face directory."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        vocabulary, width = config.vocab_size, config.hidden_size
        self.embed = nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        self.blocks = nnx.List(
            [Block(config, window, rngs=rngs) for window in gated.windows(config)]
        )
        self.norm = gated.RMSNorm(width, config.rms_norm_eps, centered=True, rngs=rngs)
        self.head = (
            None
            if config.tie_word_embeddings
            else nnx.Embed(vocabulary, width, embedding_init=gated.INIT, rngs=rngs)
        )
        self.cap = config.final_logit_softcapping
        self.slides = tuple(kind == gated.SLIDING for kind in config.layer_types)
        self.whole = self.local = rotary.frequencies(
            config.head_dim, config.rope_theta, config.rope_type, config.rope_scaling
        )
        if config.rope_local_theta is not None:
            self.local = rotary.frequencies(config.head_dim, config.rope_local_theta)

    def hidden(self, tokens: jax.Array, positions: jax.Array, attend: Attend) -> jax.Array:
        """Final hidden states `[b, t, d]` of `tokens [b, t]` at `positions [b, t]`.

        `attend(layer, q, k, v, scale=..., window=..., cap=...)` is the caller's,
        `q [b, t, heads, head_dim]` and fewer heads of `k` and `v`.
        """
        h = self.embed(tokens)
        h = h * jnp.asarray(h.shape[-1] ** 0.5, h.dtype)
        whole, local = (
            rotary.angles(positions, turning, h.dtype) for turning in (self.whole, self.local)
        )
        for layer, (block, slides) in enumerate(zip(self.blocks, self.slides, strict=True)):
            h = block(h, layer, attend, local if slides else whole)
        return self.norm(h)

    def unembed(self, h: jax.Array, tokens: jax.Array | None = None) -> jax.Array:
        """Logits `[..., vocabulary]` of hidden states `[..., d]`, or of `tokens [v]` alone."""
        words = self.embed if self.head is None else self.head
        bare = logits(h, words.embedding[...], tokens)
        return bare if self.cap is None else self.cap * jnp.tanh(bare / self.cap)


def flatten(raw: dict[str, Any]) -> dict[str, Any]:
    """The raw config with what its `model_type` leaves unsaid, in `Config`'s fields.

    A directory of the Gemma 3 that also sees has its language model in `text_config`.
    """
    text = raw.get("text_config")
    raw = (text if isinstance(text, dict) else {}) | raw
    raw["use_bidirectional_attention"] = raw.get("use_bidirectional_attention") or False
    every: Any = 2
    if str(raw.get("model_type")).startswith("gemma3"):
        every = raw.get("sliding_window_pattern", raw.get("_sliding_window_pattern", 6))
        nested = raw.get("rope_parameters")
        nested = nested if isinstance(nested, dict) else {}
        local = rotary.flatten(
            {
                "rope_theta": raw.get("rope_local_base_freq", 10_000.0),
                "rope_parameters": nested.get("sliding_attention"),
            }
        )
        raw = GEMMA3 | raw
        raw |= {
            "qk_norm": True,
            "attn_logit_softcapping": None,  # transformers does not apply it
            "rope_parameters": nested.get("full_attention"),
            "rope_local_theta": local["rope_theta"],
            "rope_local_type": local["rope_type"],
        }
    else:
        raw = GEMMA2 | raw
    return rotary.flatten(gated.layer_types(raw, lambda layer: (layer + 1) % every != 0))


GEMMA2: dict[str, Any] = {
    "vocab_size": 256_000,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3: dict[str, Any] = {
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
}
"""What the two leave unsaid where it is as in transformers."""

PREFIX = ("model.", "language_model.", "model.")
FIXED = {
    "use_bidirectional_attention": False,
    "rope_local_type": "default",
    "partial_rotary_factor": 1.0,
}
IGNORED = ("lm_head.weight", "vision_tower.*", "multi_modal_projector.*")
WEIGHTS = gated.WEIGHTS | {
    "model.layers.{i}.post_attention_layernorm.weight": Weight("blocks.{i}.ln_attention.scale"),
    "model.layers.{i}.pre_feedforward_layernorm.weight": Weight("blocks.{i}.ln_2.scale"),
    "model.layers.{i}.post_feedforward_layernorm.weight": Weight("blocks.{i}.ln_mlp.scale"),
}
