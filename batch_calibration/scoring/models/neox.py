"""GPT-NeoX (Pythia), the first Phi and GPT-J: partial rotary positions, parallel blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.scoring.models import family, gated, gpt2, layers, rotary


@dataclass(frozen=True, kw_only=True)
class Config(gated.RotaryConfig):
    """The sizes and options of a GPT-NeoX network, under their names in `config.json`."""

    intermediate_size: int
    max_position_embeddings: int = 2048
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    use_parallel_residual: bool = True  # MLP and attention both read the block's input
    attention_bias: bool = True
    tie_word_embeddings: bool = False


class Block(family.Block):
    """Attention and a two-layer MLP, in parallel or in sequence."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, bias = config.hidden_size, config.attention_bias
        self.parallel = config.use_parallel_residual
        self.ln_1 = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.ln_2 = layers.layer_norm(width, config.layer_norm_eps, rngs)
        self.attention = layers.Attention(width, config.heads, rngs, (bias, bias), fused="by head")
        self.mlp = layers.MLP(width, config.intermediate_size, config.hidden_act, rngs)


class Model(family.Decoder):
    """GPT-NeoX (Black et al. 2022), loadable from any Hugging Face `gpt_neox` directory."""

    block: ClassVar[family.MakePart] = Block
    interleaved = False  # whether the two numbers of a rotated pair are neighbors

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.hidden_size, config.layer_norm_eps)
        self.make(config, norm, config.tie_word_embeddings, rngs)
        self.frequencies = rotary.frequencies(config.hidden_size // config.heads, config.rope)

    def block_terms(self, positions: jax.Array, dtype: jnp.dtype) -> Iterable[tuple[object, ...]]:
        """Returns the rotation of heads at `positions [b, t]`, the same for all blocks."""
        return repeat((rotary.turn(positions, self.frequencies, dtype, self.interleaved),))


def flatten(raw: family.RawConfig) -> family.RawConfig:
    """Returns the raw config with the rope fields, which this family names differently."""
    implied = {"rope_theta": raw.get("rotary_emb_base", 10_000.0), "max_position_embeddings": 2048}
    return rotary.flatten(implied | raw, share=raw.get("rotary_pct", 0.25))


LAYER = "gpt_neox.layers.{i}"
NORMS = ("input_layernorm", "post_attention_layernorm")
MLP = ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
NAMES = ("gpt_neox.embed_in", LAYER, NORMS, MLP, "gpt_neox.final_layer_norm", "embed_out")
FAMILY = family.Family(
    name="neox",
    config=Config,
    model=Model,
    weights={
        **family.decoder_weights(*NAMES),
        **family.linear_weights(
            f"{LAYER}.attention.query_key_value", "blocks.{i}.attention.qkv", 1
        ),
        **family.linear_weights(f"{LAYER}.attention.dense", "blocks.{i}.attention.out", 0),
    },
    prefixes=("gpt_neox.",),
    fixed={"is_decoder": False},
    keys=(*rotary.KEYS, "rotary_emb_base", "rotary_pct"),
    inert=("num_steps",),
    tied={"embed_out.weight": "embed.embedding"},
    ignored=(
        "layers.{i}.attention.bias",
        "layers.{i}.attention.masked_bias",
        "layers.{i}.attention.rotary_emb.inv_freq",
    ),
    flatten=flatten,
)


# --- The first Phi family, including Phi-2.


@dataclass(frozen=True, kw_only=True)
class PhiConfig(gated.RotaryConfig):
    """The sizes and options of a Phi network, under their names in `config.json`."""

    intermediate_size: int = 8192
    max_position_embeddings: int = 2048
    num_key_value_heads: int | None = None  # None: as many as heads
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu_new"
    tie_word_embeddings: bool = False


class PhiBlock(family.Block):
    """Attention and a two-layer MLP that read the same normalized states."""

    def __init__(self, config: PhiConfig, *, rngs: nnx.Rngs):
        width, groups = config.hidden_size, config.num_key_value_heads
        self.ln_1, self.ln_2 = layers.layer_norm(width, config.layer_norm_eps, rngs), None
        self.attention = layers.Attention(width, config.heads, rngs, groups=groups)
        self.mlp = layers.MLP(width, config.intermediate_size, config.hidden_act, rngs)


class PhiModel(Model):
    """Phi (Li et al. 2023), loadable from any Hugging Face `phi` directory."""

    block: ClassVar[family.MakePart] = PhiBlock

    def __init__(self, config: PhiConfig, *, rngs: nnx.Rngs):
        # This config has all fields of GPT-NeoX's config that the base class reads.
        super().__init__(config, rngs=rngs)  # type: ignore[arg-type]
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (config.vocab_size,)))

    def unembed(self, h: jax.Array, token_set: layers.TokenSet = None) -> jax.Array:
        """Computes logits `[..., v]` of hidden states `[..., d]` for `token_set` (None: all)."""
        # The bias is [v], as the last axis of the logits.
        bias = layers.select_rows(self.bias[...], token_set).astype("float32")
        return super().unembed(h, token_set) + bias


def flatten_phi(raw: family.RawConfig) -> family.RawConfig:
    """Returns the raw config with the rope fields; half of each head is rotated by default."""
    return rotary.flatten({"max_position_embeddings": 2048} | raw, share=0.5)


PHI_NAMES = ("model.embed_tokens", gated.LAYER, ("input_layernorm",), ("mlp.fc1", "mlp.fc2"))
ATTENTION = ("q_proj", "k_proj", "v_proj", "dense")
PHI = family.Family(
    name="phi",
    config=PhiConfig,
    model=PhiModel,
    weights={
        **family.decoder_weights(*PHI_NAMES, "model.final_layernorm", "lm_head"),
        **family.attention_weights(f"{gated.LAYER}.self_attn", "blocks.{i}.attention", ATTENTION),
        "lm_head.bias": family.Weight("bias", split=0),
    },
    fixed={"qk_layernorm": False},
    keys=rotary.KEYS,
    ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    flatten=flatten_phi,
)


# --- GPT-J


@dataclass(frozen=True, kw_only=True)
class GPTJConfig(gpt2.Config):
    """The sizes and options of a GPT-J network, under their names in `config.json`."""

    rotary_dim: int = 64  # rotated numbers of each head
    tie_word_embeddings: bool = False


class GPTJBlock(family.Block):
    """Attention and a two-layer MLP that read the same normalized states."""

    def __init__(self, config: GPTJConfig, *, rngs: nnx.Rngs):
        width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
        self.ln_1, self.ln_2 = layers.layer_norm(width, config.layer_norm_epsilon, rngs), None
        self.attention = layers.Attention(width, config.n_head, rngs, (False, False))
        self.mlp = layers.MLP(width, inner, config.activation_function, rngs)


class GPTJModel(PhiModel):
    """GPT-J (Wang and Komatsuzaki 2021), loadable from any Hugging Face `gptj` directory."""

    block = GPTJBlock
    interleaved = True

    def __init__(self, config: GPTJConfig, *, rngs: nnx.Rngs):
        norm = partial(layers.layer_norm, config.n_embd, config.layer_norm_epsilon)
        self.make(config, norm, config.tie_word_embeddings, rngs)
        self.bias = nnx.Param(nnx.initializers.zeros(rngs.params(), (config.vocab_size,)))
        self.frequencies = rotary.frequencies(config.rotary_dim, rotary.Rope())


GPTJ_NAMES = ("transformer.wte", gpt2.H, ("ln_1",), ("mlp.fc_in", "mlp.fc_out"))
GPTJ = family.Family(
    name="gptj",
    config=GPTJConfig,
    model=GPTJModel,
    weights={
        **family.decoder_weights(*GPTJ_NAMES, "transformer.ln_f", "lm_head"),
        **family.attention_weights(f"{gpt2.H}.attn", "blocks.{i}.attention", family.OUT_PROJ),
        "lm_head.bias": family.Weight("bias", split=0),
    },
    prefixes=("transformer.",),
    fixed={"rotary": True, "scale_attn_weights": True},
    inert=("n_ctx", "summary_*"),
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),
)
