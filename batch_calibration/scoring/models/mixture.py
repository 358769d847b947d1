"""Mixtures of experts: Mixtral and Qwen3-MoE, Llama blocks whose MLPs are chosen by a router."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import gated, layers, llama
from batch_calibration.scoring.models.family import Family, RawConfig, Weight

MOST_EXPERTS = 128
"""Experts of a layer that the tables below have names for."""


@dataclass(frozen=True, kw_only=True)
class Config(llama.Config):
    """Shape of a mixture, in the names of its Hugging Face `config.json`.

    `num_experts` is Mixtral's `num_local_experts`. With `norm_topk_prob` the weights of the chosen
    experts sum to 1; Mixtral's always do.
    """

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool = False


class Mixture(nnx.Module):
    """The sum of the most probable experts' outputs for each token, by the router's probabilities.

    All experts run on all tokens, and experts that the router did not choose have weight 0: shapes
    do not depend on tokens. That is `num_experts / num_experts_per_tok` times the products needed:
    4 times for Mixtral, 16 for Qwen3-30B-A3B.
    """

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, experts = config.hidden_size, config.num_experts
        if not config.num_experts_per_tok <= experts <= MOST_EXPERTS:
            raise InputError.at(
                "config.json",
                f"at most {MOST_EXPERTS} experts, no fewer than num_experts_per_tok",
                f"{experts} experts, {config.num_experts_per_tok} for each token",
                f"{spell('scorer', 'transformers')} may run it",
            )
        self.chosen, self.normalizes = config.num_experts_per_tok, config.norm_topk_prob
        self.router = layers.linear(width, experts, rngs, bias=False)
        inner, act = config.moe_intermediate_size, config.hidden_act
        self.experts = nnx.List([gated.MLP(width, inner, act, rngs=rngs) for _ in range(experts)])

    def __call__(self, h: jax.Array) -> jax.Array:
        """The chosen experts' outputs for `h [b, t, d]`, summed by their weights."""
        weights = expert_weights(self.router(h), self.chosen, self.normalizes)
        mixed = jnp.zeros_like(h)
        # Every expert reads every token; the weight of unchosen ones is 0.
        for number, expert in enumerate(self.experts):
            mixed = mixed + expert(h) * weights[..., number, None]
        return mixed


def expert_weights(logits: jax.Array, count: int, normalizes: bool) -> jax.Array:
    """Weights `[b, t, experts]` of the `count` experts with the highest logits, else 0."""
    probs = jax.nn.softmax(logits.astype(jnp.float32))  # as in transformers
    values, chosen = jax.lax.top_k(probs, count)  # [b, t, chosen]
    if normalizes:
        values = values / values.sum(axis=-1, keepdims=True)
    is_chosen = jax.nn.one_hot(chosen, probs.shape[-1], dtype=jnp.float32)
    return jnp.sum(is_chosen * values[..., None], axis=-2).astype(logits.dtype)


class Block(llama.Block):
    """A Llama block with a mixture in the place of the MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        super().__init__(config, window, rngs=rngs)
        self.mlp = Mixture(config, rngs=rngs)  # type: ignore[assignment]


class Model(llama.Model):
    """Mixtral (Jiang et al. 2024) and Qwen3-MoE (Qwen Team 2025)."""

    block = Block


def flatten_mixtral(raw: RawConfig) -> RawConfig:
    """Mixtral's raw config in `Config`'s fields."""
    implied: RawConfig = {
        "max_position_embeddings": 131_072, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
        "rope_theta": 1_000_000.0, "num_experts_per_tok": 2, "num_local_experts": 8,
    }  # fmt: skip
    raw = implied | raw
    raw |= {"num_experts": raw["num_local_experts"], "norm_topk_prob": True}
    if "intermediate_size" in raw:
        raw["moe_intermediate_size"] = raw["intermediate_size"]
    return llama.flatten(raw)


def flatten_qwen3(raw: RawConfig) -> RawConfig:
    """Qwen3-MoE's raw config in `Config`'s fields."""
    implied: RawConfig = {
        "max_position_embeddings": 32_768, "num_key_value_heads": 4, "sliding_window": 4096,
        "num_experts_per_tok": 8, "num_experts": 128, "moe_intermediate_size": 768,
    }  # fmt: skip
    raw = implied | raw
    raw["num_experts"] = raw.get("num_local_experts") or raw["num_experts"]
    raw["mlp_only_layers"] = raw.get("mlp_only_layers") or []
    # transformers gives all layers the window and ignores these.
    raw |= {"layer_types": None, "max_window_layers": 0}
    return llama.flatten(raw)


def _weights(router: str, expert: str, names: tuple[str, str, str]) -> dict[str, Weight]:
    """The table with the tensors of experts, whose gate, up and down are `names`."""
    table = gated.weights_without(".mlp.")
    # A name for each expert that a network may have; names that it lacks are not asked for.
    table[f"model.layers.{{i}}.{router}.weight"] = Weight("blocks.{i}.mlp.router.kernel", True, 1)
    for number in range(MOST_EXPERTS):
        for theirs, ours, split in zip(names, ("gate", "up", "down"), (1, 1, 0), strict=True):
            name = f"model.layers.{{i}}.{expert}.{number}.{theirs}.weight"
            path = f"blocks.{{i}}.mlp.experts.{number}.{ours}.kernel"
            table[name] = Weight(path, True, split)
    return table


INERT = (
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "max_window_layers",
)  # fmt: skip
"""Keys that train a router, and keys of these types that transformers does not read."""
FAMILIES: dict[str, Family] = {
    "mixtral": llama.FAMILIES["mistral"]._replace(
        name="mixtral",
        config=Config,
        model=Model,
        weights=_weights(
            "block_sparse_moe.gate", "block_sparse_moe.experts", ("w1", "w3", "w2")
        ),
        keys=(*llama.FAMILIES["mistral"].keys, "num_local_experts"),
        inert=(*llama.FAMILIES["mistral"].inert, *INERT),
        flatten=flatten_mixtral,
    ),
    "qwen3_moe": llama.FAMILIES["qwen3"]._replace(
        name="qwen3_moe",
        config=Config,
        model=Model,
        weights=_weights("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj")),
        fixed={
            **llama.FAMILIES["qwen3"].fixed, "decoder_sparse_step": 1, "mlp_only_layers": [],
        },
        keys=(*llama.FAMILIES["qwen3"].keys, "num_local_experts"),
        inert=(*llama.FAMILIES["qwen3"].inert, *INERT),
        flatten=flatten_qwen3,
    ),
}  # fmt: skip
