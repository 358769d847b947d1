"""The gpt-oss family: Llama blocks with attention sinks and a mixture of clamped experts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import gated, layers, llama, mixture, rotary
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.family import RawConfig, Weight, linear_weights


@dataclass(frozen=True, kw_only=True)
class Config(llama.Config):
    """Shape of a gpt-oss network, in the names of its Hugging Face `config.json`."""

    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0


class Experts(nnx.Module):
    """The sum of the most probable experts' outputs for each token, as in `mixture`."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        experts = config.num_local_experts
        if config.num_experts_per_tok > experts:
            raise InputError.at(
                "config.json",
                "no fewer experts than num_experts_per_tok",
                f"{experts} and {config.num_experts_per_tok}",
                "fetch the file again",
            )
        self.chosen, self.experts = config.num_experts_per_tok, experts
        self.alpha, self.limit = config.swiglu_alpha, config.swiglu_limit
        self.router = layers.linear(width, experts, rngs)
        # Of all experts at once; gate and up take turns along the last axis.
        self.gate_up = nnx.Param(layers.INIT(rngs.params(), (experts, width, 2 * inner)))
        self.gate_up_bias = nnx.Param(jnp.zeros((experts, 2 * inner)))
        self.down = nnx.Param(layers.INIT(rngs.params(), (experts, inner, width)))
        self.down_bias = nnx.Param(jnp.zeros((experts, width)))

    def __call__(self, h: jax.Array) -> jax.Array:
        """The chosen experts' outputs for `h [b, t, d]`, summed by their weights."""
        chosen = mixture.choose_experts(self.router(h), self.chosen, normalizes=True)
        gate_up, gate_up_bias = self.gate_up[...], self.gate_up_bias[...]
        down, down_bias = self.down[...], self.down_bias[...]
        contracted = (((1,), (0,)), ((), ()))

        def add_expert(number: jax.Array, mixed: jax.Array) -> jax.Array:
            def run(rows: jax.Array) -> jax.Array:
                both = layers.product(rows, gate_up[number], contracted) + gate_up_bias[number]
                # Gate and up lie in turn, number by number.
                gate = jnp.minimum(both[..., ::2], self.limit)
                up = jnp.clip(both[..., 1::2], -self.limit, self.limit)
                inner = (up + 1) * gate * jax.nn.sigmoid(self.alpha * gate)
                return layers.product(inner, down[number], contracted) + down_bias[number]

            return mixture.add_chosen(mixed, h, chosen, number, run)

        mixed: jax.Array = jax.lax.fori_loop(0, self.experts, add_expert, jnp.zeros_like(h))
        return mixed


class Block(llama.Block):
    """A Llama block whose attention has sinks, with experts in the place of the MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        super().__init__(config, window, rngs=rngs)
        bias = config.attention_bias, config.attention_bias
        options = AttentionOptions(window=window)
        self.attention = gated.Attention(config, options, bias, sinks=True, rngs=rngs)
        self.mlp = Experts(config, rngs=rngs)  # type: ignore[assignment]


class Model(llama.Model):
    """gpt-oss (OpenAI 2025), loadable from a Hugging Face `gpt_oss` directory."""

    block = Block


def flatten(raw: RawConfig) -> RawConfig:
    """The raw config in `Config`'s fields; of quantized weights, MXFP4 alone is read."""
    implied: RawConfig = {
        "max_position_embeddings": 131_072, "num_key_value_heads": 8, "head_dim": 64,
        "rms_norm_eps": 1e-5, "rope_theta": 150_000.0, "sliding_window": 128,
        "attention_bias": True,
    }  # fmt: skip
    raw = implied | raw
    quantization = raw.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    if quantization and method != "mxfp4":
        raise InputError(
            f"config.json says quant_method = {method!r:.200}, of which this network reads "
            f"'mxfp4' alone; score it with {spell('scorer', 'transformers')}."
        )
    if not raw.get("rope_scaling") and not raw.get("rope_parameters"):
        raw["rope_scaling"] = {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": False, "original_max_position_embeddings": 4096,
        }  # fmt: skip
    return rotary.flatten(gated.layer_types(raw, lambda layer: layer % 2 == 0))


MLP = "model.layers.{i}.mlp"
WEIGHTS = {
    **gated.weights_without(".mlp."),
    "model.layers.{i}.self_attn.sinks": Weight("blocks.{i}.attention.sinks"),
    **linear_weights(f"{MLP}.router", "blocks.{i}.mlp.router", 1),
    f"{MLP}.experts.gate_up_proj": Weight("blocks.{i}.mlp.gate_up", split=2),
    f"{MLP}.experts.gate_up_proj_bias": Weight("blocks.{i}.mlp.gate_up_bias", split=1),
    f"{MLP}.experts.down_proj": Weight("blocks.{i}.mlp.down", split=1),
    f"{MLP}.experts.down_proj_bias": Weight("blocks.{i}.mlp.down_bias", split=1),
}
LLAMA = llama.FAMILIES["llama"]
FAMILY = LLAMA._replace(
    name="gpt_oss",
    config=Config,
    model=Model,
    weights=WEIGHTS,
    fixed={key: only for key, only in LLAMA.fixed.items() if key != "attention_bias"}
    | {"mlp_bias": False},
    parts={"quantization_config": ("quant_method", "modules_to_not_convert")},
    inert=(
        "hidden_act", "initial_context_length", "experts_per_token", "output_router_logits",
        "router_aux_loss_coef",
    ),
    flatten=flatten,
)  # fmt: skip
