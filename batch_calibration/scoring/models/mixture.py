"""Mixtures of experts: Mixtral, Qwen3-MoE and gpt-oss; a router chooses the MLPs of each token."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.models import gated, layers, llama, rotary
from batch_calibration.scoring.models.attention import AttentionOptions
from batch_calibration.scoring.models.family import Family, RawConfig, Weight, linear_weights

MOST_EXPERTS = 128
"""The most experts in a layer; the tables below have so many names."""

TOGETHER = 64
"""Tokens that an expert processes at a time."""


@dataclass(frozen=True, kw_only=True)
class Config(llama.Config):
    """The sizes and options of a mixture, under their names in `config.json`.

    `num_experts` is Mixtral's `num_local_experts`. With `norm_topk_prob`, the weights of the chosen
    experts sum to 1; Mixtral's weights always do.
    """

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool = False


class Mixture(nnx.Module):
    """The sum of the most probable experts' outputs for each token, weighted by the router.

    Each expert runs only on the tokens that chose it (`add_chosen`).
    """

    def __init__(self, config: Config, *, rngs: nnx.Rngs):
        width, experts = config.hidden_size, config.num_experts
        if not config.num_experts_per_tok <= experts <= MOST_EXPERTS:
            expected = f"at most {MOST_EXPERTS} experts, and at least num_experts_per_tok"
            got = f"{experts} experts, {config.num_experts_per_tok} per token"
            remedy = f"try {spell('scorer', 'transformers')}"
            raise InputError.at("config.json", expected, got, remedy)
        self.chosen, self.normalizes = config.num_experts_per_tok, config.norm_topk_prob
        self.router = layers.linear(width, experts, rngs, bias=False)
        make = partial(gated.MLP, config, config.hidden_act, inner=config.moe_intermediate_size)
        self.experts = nnx.List([make(rngs=rngs) for _ in range(experts)])

    def __call__(self, h: jax.Array) -> jax.Array:
        """Sums the weighted outputs of the chosen experts for `h [b, t, d]`."""
        chosen = choose_experts(self.router(h), self.chosen, self.normalizes)
        mixed = jnp.zeros_like(h)
        for number, expert in enumerate(self.experts):
            mixed = add_chosen(mixed, h, chosen, number, expert)
        return mixed


Expert = Callable[[jax.Array], jax.Array]


class Chosen(NamedTuple):
    """Pairs of a token and an expert that it chose, sorted by expert.

    Attributes:
        token: `[pairs]`, the token's index among the b * t tokens.
        weight: `[pairs]`, the weight of the expert's output.
        starts: `[experts + 1]`, the index of each expert's first pair.
    """

    token: jax.Array
    weight: jax.Array
    starts: jax.Array


def choose_experts(logits: jax.Array, count: int, normalizes: bool) -> Chosen:
    """Chooses the `count` experts with the highest `logits [b, t, experts]` for each token."""
    experts = logits.shape[-1]
    probs = jax.nn.softmax(logits.astype(jnp.float32)).reshape(-1, experts)  # as in transformers
    values, numbers = jax.lax.top_k(probs, count)  # [b t, chosen]
    if normalizes:
        values = values / values.sum(axis=-1, keepdims=True)
    number = numbers.ravel()
    order = jnp.argsort(number)
    starts = jnp.searchsorted(number[order], jnp.arange(experts + 1, dtype=number.dtype))
    return Chosen(order // count, values.ravel()[order].astype(logits.dtype), starts)


def add_chosen(
    mixed: jax.Array, h: jax.Array, chosen: Chosen, number: jax.Array | int, expert: Expert
) -> jax.Array:
    """Adds the weighted outputs of an expert, for the tokens that chose it, to `mixed [b, t, d]`.

    The expert processes `TOGETHER` tokens at a time, so shapes do not depend on the choices of
    tokens. Only the unused places of its last turn are computed in vain.
    """
    flat = h.reshape(-1, h.shape[-1])
    size = min(TOGETHER, len(flat))
    start, end = chosen.starts[number], chosen.starts[number + 1]

    def take_turn(turn: jax.Array, mixed: jax.Array) -> jax.Array:
        place = start + turn * size + jnp.arange(size, dtype=start.dtype)
        token = chosen.token.at[place].get(mode="clip")
        weight = jnp.where(place < end, chosen.weight.at[place].get(mode="clip"), 0.0)
        return mixed.at[token].add((expert(flat[token]) * weight[:, None]).astype(mixed.dtype))

    turns = (end - start + size - 1) // size
    added: jax.Array = jax.lax.fori_loop(0, turns, take_turn, mixed.reshape(flat.shape))
    return added.reshape(h.shape)


class Block(llama.Block):
    """A Llama block with a mixture instead of the MLP."""

    def __init__(self, config: Config, window: int | None, *, rngs: nnx.Rngs):
        super().__init__(config, window, rngs=rngs)
        self.mlp = Mixture(config, rngs=rngs)


class Model(llama.Model):
    """Mixtral (Jiang et al. 2024) and Qwen3-MoE (Qwen Team 2025)."""

    block = Block


def flatten_mixtral(raw: RawConfig) -> RawConfig:
    """Maps Mixtral's raw config to the fields of `Config`."""
    implied: RawConfig = {llama.LENGTH: 131_072, llama.GROUPS: 8, "rms_norm_eps": 1e-5}
    implied |= {"rope_theta": 1_000_000.0, "num_experts_per_tok": 2, "num_local_experts": 8}
    raw = implied | raw
    raw |= {"num_experts": raw["num_local_experts"], "norm_topk_prob": True}
    if "intermediate_size" in raw:
        raw["moe_intermediate_size"] = raw["intermediate_size"]
    return llama.flatten(raw)


def flatten_qwen3(raw: RawConfig) -> RawConfig:
    """Maps Qwen3-MoE's raw config to the fields of `Config`."""
    implied: RawConfig = {llama.LENGTH: 32_768, llama.GROUPS: 4, "sliding_window": 4096}
    implied |= {"num_experts_per_tok": 8, "num_experts": 128, "moe_intermediate_size": 768}
    raw = implied | raw
    raw["num_experts"] = raw.get("num_local_experts") or raw["num_experts"]
    raw["mlp_only_layers"] = raw.get("mlp_only_layers") or []
    # transformers ignores these keys and gives all layers the window.
    raw |= {"layer_types": None, "max_window_layers": 0}
    return llama.flatten(raw)


def _weights(router: str, expert: str, names: tuple[str, str, str]) -> dict[str, Weight]:
    """Returns the weight table with the experts; checkpoints call gate, up and down `names`."""
    table = gated.weights_without(".mlp.")
    # The table has names for the largest number of experts; smaller networks use some of them.
    table[f"model.layers.{{i}}.{router}.weight"] = Weight("blocks.{i}.mlp.router.kernel", True, 1)
    for number in range(MOST_EXPERTS):
        for theirs, ours, split in zip(names, ("gate", "up", "down"), (1, 1, 0), strict=True):
            name = f"model.layers.{{i}}.{expert}.{number}.{theirs}.weight"
            path = f"blocks.{{i}}.mlp.experts.{number}.{ours}.kernel"
            table[name] = Weight(path, True, split)
    return table


INERT = "output_router_logits router_aux_loss_coef router_jitter_noise max_window_layers"
"""Keys that affect only the training of a router, or that transformers ignores for these types."""
MISTRAL, QWEN3 = llama.FAMILIES["mistral"], llama.FAMILIES["qwen3"]
DENSE_ALONE = {"decoder_sparse_step": 1, "mlp_only_layers": []}
"""Keys for layers without experts, with the only value that these networks support."""


def _family(name: str, dense: Family, flatten: Callable[[RawConfig], RawConfig]) -> Family:
    """Makes the family of a mixture from the family of the dense network."""
    keys, inert = (*dense.keys, "num_local_experts"), (*dense.inert, *INERT.split())
    family = dense._replace(name=name, config=Config, model=Model, flatten=flatten)
    return family._replace(weights=WEIGHTS[name], keys=keys, inert=inert)


WEIGHTS = {
    "mixtral": _weights("block_sparse_moe.gate", "block_sparse_moe.experts", ("w1", "w3", "w2")),
    "qwen3_moe": _weights("mlp.gate", "mlp.experts", ("gate_proj", "up_proj", "down_proj")),
}
ALL_SPARSE = QWEN3._replace(fixed={**QWEN3.fixed, **DENSE_ALONE})
FAMILIES: dict[str, Family] = {
    "mixtral": _family("mixtral", MISTRAL, flatten_mixtral),
    "qwen3_moe": _family("qwen3_moe", ALL_SPARSE, flatten_qwen3),
}


# --- gpt-oss: attention sinks and clamped experts.


@dataclass(frozen=True, kw_only=True)
class GptOssConfig(llama.Config):
    """The sizes and options of a gpt-oss network, under their names in `config.json`."""

    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0


class Experts(nnx.Module):
    """The weighted sum of the most probable experts' outputs for each token, as in `Mixture`."""

    def __init__(self, config: GptOssConfig, *, rngs: nnx.Rngs):
        width, inner = config.hidden_size, config.intermediate_size
        experts = config.num_local_experts
        if config.num_experts_per_tok > experts:
            expected = "at least num_experts_per_tok experts"
            got = f"{experts} and {config.num_experts_per_tok}"
            raise InputError.at("config.json", expected, got, "fetch the file again")
        self.chosen, self.experts = config.num_experts_per_tok, experts
        self.alpha, self.limit = config.swiglu_alpha, config.swiglu_limit
        self.router = layers.linear(width, experts, rngs)
        # One array holds all experts; columns of gate and up alternate.
        self.gate_up = layers.parameter(rngs, experts, width, 2 * inner)
        self.gate_up_bias = nnx.Param(jnp.zeros((experts, 2 * inner)))
        self.down = layers.parameter(rngs, experts, inner, width)
        self.down_bias = nnx.Param(jnp.zeros((experts, width)))

    def __call__(self, h: jax.Array) -> jax.Array:
        """Sums the weighted outputs of the chosen experts for `h [b, t, d]`."""
        chosen = choose_experts(self.router(h), self.chosen, normalizes=True)
        gate_up, gate_up_bias = self.gate_up[...], self.gate_up_bias[...]
        down, down_bias = self.down[...], self.down_bias[...]
        contracted = (((1,), (0,)), ((), ()))

        def add_expert(number: jax.Array, mixed: jax.Array) -> jax.Array:
            def run(rows: jax.Array) -> jax.Array:
                both = layers.product(rows, gate_up[number], contracted) + gate_up_bias[number]
                # Even columns are the gate, odd columns are up.
                gate = jnp.minimum(both[..., ::2], self.limit)
                up = jnp.clip(both[..., 1::2], -self.limit, self.limit)
                inner = (up + 1) * gate * jax.nn.sigmoid(self.alpha * gate)
                return layers.product(inner, down[number], contracted) + down_bias[number]

            return add_chosen(mixed, h, chosen, number, run)

        mixed: jax.Array = jax.lax.fori_loop(0, self.experts, add_expert, jnp.zeros_like(h))
        return mixed


class GptOssBlock(llama.Block):
    """A Llama block with attention sinks, and with experts instead of the MLP."""

    def __init__(self, config: GptOssConfig, window: int | None, *, rngs: nnx.Rngs):
        super().__init__(config, window, rngs=rngs)
        options = AttentionOptions(window=window)
        self.attention = gated.Attention(config, options, sinks=True, rngs=rngs)
        self.mlp = Experts(config, rngs=rngs)


class GptOssModel(llama.Model):
    """gpt-oss (OpenAI 2025), loadable from a Hugging Face `gpt_oss` directory."""

    block = GptOssBlock


def flatten_gpt_oss(raw: RawConfig) -> RawConfig:
    """Maps gpt-oss's raw config to the fields of `Config`; the only quantization is MXFP4."""
    implied: RawConfig = {llama.LENGTH: 131_072, llama.GROUPS: 8, "head_dim": 64}
    implied |= {"rms_norm_eps": 1e-5, "rope_theta": 150_000.0}
    implied |= {"sliding_window": 128, "attention_bias": True}
    raw = implied | raw
    quantization = raw.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    if quantization and method != "mxfp4":
        got, remedy = f"quant_method = {method!r:.200}", f"try {spell('scorer', 'transformers')}"
        raise InputError.at("config.json", "'mxfp4', which it reads", got, remedy)
    if not raw.get("rope_scaling") and not raw.get("rope_parameters"):
        yarn = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0}
        raw["rope_scaling"] = yarn | {"truncate": False, rotary.ORIGINAL: 4096}
    return rotary.flatten(gated.layer_types(raw, lambda layer: layer % 2 == 0))


MLP = f"{gated.LAYER}.mlp"
LLAMA = llama.FAMILIES["llama"]
GPT_OSS_INERT = (
    "hidden_act initial_context_length experts_per_token output_router_logits router_aux_loss_coef"
)
GPT_OSS = LLAMA._replace(
    name="gpt_oss",
    config=GptOssConfig,
    model=GptOssModel,
    weights={
        **gated.weights_without(".mlp."),
        "model.layers.{i}.self_attn.sinks": Weight("blocks.{i}.attention.sinks"),
        **linear_weights(f"{MLP}.router", "blocks.{i}.mlp.router", 1),
        f"{MLP}.experts.gate_up_proj": Weight("blocks.{i}.mlp.gate_up", split=2),
        f"{MLP}.experts.gate_up_proj_bias": Weight("blocks.{i}.mlp.gate_up_bias", split=1),
        f"{MLP}.experts.down_proj": Weight("blocks.{i}.mlp.down", split=1),
        f"{MLP}.experts.down_proj_bias": Weight("blocks.{i}.mlp.down_bias", split=1),
    },
    fixed={key: only for key, only in LLAMA.fixed.items() if key != "attention_bias"}
    | {"mlp_bias": False},
    parts={"quantization_config": ("quant_method", "modules_to_not_convert")},
    inert=tuple(GPT_OSS_INERT.split()),
    flatten=flatten_gpt_oss,
)  # fmt: skip
