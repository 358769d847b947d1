"""Random configs over every key that a family's config has, read by transformers and by us.

The law: the same logits to 1e-4, or a sentence. `make reference`; twenty configs a family, seeded.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch and transformers: run `make reference`")
pytest.importorskip("transformers", reason="needs torch and transformers: run `make reference`")

import jax.numpy as jnp  # noqa: E402
from cases import LENGTHS, moved  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from batch_calibration.errors import InputError  # noqa: E402
from batch_calibration.scoring.causal_lm import long_network  # noqa: E402
from batch_calibration.scoring.models import FAMILIES  # noqa: E402
from batch_calibration.scoring.models.attention import causal  # noqa: E402
from batch_calibration.scoring.models.files import weights  # noqa: E402
from batch_calibration.scoring.models.files.config import INERT, is_known  # noqa: E402

TYPES = [name for name in FAMILIES if name not in ("clip", "siglip", "gemma3")]
"""CLIP and SigLIP have tests of their own; gemma3's language model is gemma3_text's."""
LAYERS, LENGTH = 3, 16
OF_LAYERS = {"min_size": LAYERS, "max_size": LAYERS}
ACTS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"]
SEEN = ["local", "global"]
FLAGS = st.booleans()
FLAG_KEYS = """
    tie_word_embeddings attention_bias mlp_bias use_sliding_window do_layer_norm_before
    _remove_final_layer_norm enable_bias layer_norm_elementwise_affine use_parallel_residual
    scale_attn_weights scale_attn_by_inverse_layer_idx use_cache reorder_and_upcast_attn
    norm_topk_prob output_router_logits qk_layernorm
"""
EPSILONS = "rms_norm_eps layer_norm_eps layer_norm_epsilon"
MULTIPLIERS = "embedding_multiplier residual_multiplier attention_multiplier logits_scaling"
ATTENTION = ["full_attention", "sliding_attention"]
CHOICES = {
    FLAG_KEYS: [False, True],
    EPSILONS: [1e-6, 1e-3, 1e-2],
    MULTIPLIERS: [0.25, 1.0, 3.0],
    "hidden_act hidden_activation activation_function": ACTS,
    "num_hidden_layers n_layer num_layers": [LAYERS],
    " ".join(LENGTHS): [LENGTH],
    "original_max_position_embeddings": [None, LENGTH, LENGTH // 2],
    "intermediate_size ffn_dim": [12, 20],
    "n_inner": [None, 20],
    "num_experts num_local_experts": [2, 4],
    "num_experts_per_tok decoder_sparse_step pretraining_tp": [1, 2],
    "swiglu_alpha": [0.5, 1.702],
    "swiglu_limit": [0.2, 7.0],
    "moe_intermediate_size": [8, 12],
    "mlp_only_layers": [[], [0]],
    "router_aux_loss_coef router_jitter_noise": [0.0, 0.1],
    "attention_types": [[[["global", "local"], 1], [["local"], 1]], *([[[x], 3]] for x in SEEN)],
    "window_size": [3, 5, 40],
    "sliding_window": [None, 3, 5, 40],
    "word_embed_proj_dim": [8, None],
    "vocab_size": [37, 53],
    "sliding_window_pattern": [2, 3],
    "max_window_layers": [0, 1, 28],
    "_sliding_window_pattern": [2, 6],
    "no_rope_layer_interval": [1, 2, 4],
    "head_dim": [8, 4, None],
    "rotary_dim": [2, 4],
    "query_pre_attn_scalar": [4, 256],
    "attn_logit_softcapping final_logit_softcapping": [None, 2.0],
    "use_bidirectional_attention": [None, False, True],
    "is_decoder add_cross_attention": [False],
    "summary_type": ["cls_index", "first"],
}
VALUES = {
    "layer_types": st.none() | st.lists(st.sampled_from(ATTENTION), **OF_LAYERS),
    "no_rope_layers": st.none() | st.lists(st.integers(0, 1), **OF_LAYERS),
}
for names, choices in CHOICES.items():
    VALUES |= dict.fromkeys(names.split(), st.sampled_from(choices))
"""Possible values of each key; keys of sizes and ropes are drawn together, below."""
ROPE = ("rope_parameters", "rope_theta", "partial_rotary_factor", "rope_scaling")
SIZES = "hidden_size n_embd num_attention_heads n_head num_key_value_heads num_heads"
SIZES = SIZES.split()
RESTING = "summary_* init_std layerdrop attention_layers"
UNCHECKED = {"suppress_health_check": list(HealthCheck)}
RESTING = (*INERT, *RESTING.split())


def keys(model_type):
    """Every key that transformers gives the family's config."""
    return sorted(AutoConfig.for_model(model_type).to_dict())


@pytest.mark.parametrize("model_type", TYPES)
def test_every_key_that_transformers_reads_is_known(model_type):
    unknown = [key for key in keys(model_type) if not is_known(FAMILIES[model_type], key)]
    assert not unknown


@st.composite
def ropes(draw, model_type, rotated):
    """Rope parameters in an old or a new spelling, whatever their type needs and may have."""
    kind = draw(st.sampled_from(["default", "linear", "dynamic", "llama3", "yarn", "longrope"]))
    theta, factor = draw(st.sampled_from([20.0, 10_000.0])), draw(st.sampled_from([2.0, 4.0]))
    rope = {} if kind == "default" else {"factor": factor}
    if kind == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": draw(st.sampled_from([2.0, 4.0]))}
    if kind == "yarn":
        optional = {"beta_fast": 4.0, "beta_slow": 0.5, "mscale": 2.0, "mscale_all_dim": 0.5,
                    "attention_factor": 1.5, "truncate": False}  # fmt: skip
        rope |= {key: value for key, value in optional.items() if draw(FLAGS)}
    if kind == "longrope":
        numbers = st.lists(st.sampled_from([1.0, 1.5, 3.0]), min_size=rotated, max_size=rotated)
        rope |= {"short_factor": draw(numbers), "long_factor": draw(numbers)}
    if kind in ("llama3", "yarn", "longrope") and draw(FLAGS):
        rope["original_max_position_embeddings"] = LENGTH // 2
    if draw(FLAGS):
        names = ["rope_type"] if model_type == "olmo3" else ["type", "rope_type"]
        name = draw(st.sampled_from(names))  # Olmo 3's "type" is refused
        scaling = {"rope_scaling": rope | {name: kind}} if rope else {}
        return {"rope_theta": theta} | scaling
    rope |= {"rope_type": kind, "rope_theta": theta}
    if model_type in ("gemma3_text", "olmo3"):
        local = {"rope_type": "default", "rope_theta": 30.0}
        return {"rope_parameters": {"full_attention": rope, "sliding_attention": local}}
    return {"rope_parameters": rope}


@st.composite
def configs(draw, model_type):
    """A raw `config.json` that says some of the keys of its family, and sometimes a foreign one."""
    raw = {"model_type": model_type, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config_keys = keys(model_type)
    heads = draw(st.sampled_from([1, 2, 4]))
    groups = draw(st.sampled_from([n for n in (1, 2, 4) if heads % n == 0]))
    width = 8 * heads
    sizes = dict(zip(SIZES, (width, width, heads, heads, groups, heads), strict=True))
    raw |= {key: size for key, size in sizes.items() if key in config_keys}
    needed = """
        vocab_size num_hidden_layers n_layer layer_types hidden_act sliding_window num_layers
        intermediate_size ffn_dim attention_types
    """
    needed = {*needed.split(), *LENGTHS[1:]}
    if model_type == "ministral":
        needed.add("head_dim")  # transformers reads no file without
    for key in config_keys:
        if key in VALUES and (key in needed or draw(FLAGS)):
            raw[key] = draw(VALUES[key])
    if model_type == "gptj":
        raw["rotary_dim"] = draw(VALUES["rotary_dim"])
    if "rope_parameters" in config_keys:
        size = raw.get("head_dim") or width // heads
        if model_type == "phi3" and draw(FLAGS):
            raw["partial_rotary_factor"] = 0.5
        default_share = {"gpt_neox": 0.25, "phi": 0.5}.get(model_type, 1.0)
        share = raw.get("partial_rotary_factor", default_share)
        raw |= draw(ropes(model_type, int(size * share) // 2))
    known = {*config_keys, *SIZES, *LENGTHS, "n_layer", "num_hidden_layers", "rotary_dim"}
    foreign = {*VALUES} - known
    if draw(st.integers(0, 4)) == 3:  # hypothesis draws the two ends more often than once in five
        key = draw(st.sampled_from(sorted(foreign)))
        raw[key] = draw(VALUES[key])
    if draw(st.integers(0, 4)) == 0:
        raw |= {key: 0.3 for key in config_keys if key.endswith(("dropout", "_pdrop"))}
    return {key: value for key, value in raw.items() if value is not None or draw(FLAGS)}


def their_reading(raw, directory):
    """The network of transformers that reads this `config.json`, or None where it refuses."""
    path = directory / "config.json"
    path.write_text(json.dumps(raw))
    auto, eager = AutoModelForCausalLM, {"attn_implementation": "eager"}
    try:
        config = AutoConfig.from_pretrained(directory)
        torch.manual_seed(0)
        model = auto.from_config(config, **eager)
        moved(model).save_pretrained(directory)
        path.write_text(json.dumps(raw))
        model = auto.from_pretrained(directory, **eager).eval()
        model(torch.randint(1, raw["vocab_size"], (2, 6), generator=torch.Generator()))
    except Exception:  # whatever transformers raises, it does not read this file
        return None
    return model


def compare(raw, directory):
    """`"equal"`, `"a sentence"` or `"refused there"`; fails where the logits differ."""
    model = their_reading(raw, directory)
    family = FAMILIES[raw["model_type"]]
    try:
        config, ours = weights.load(directory, family) if model is not None else (None, None)
    except InputError:
        return "a sentence"
    if model is None:
        return "refused there"
    length = config.positions
    first_length, long_model = long_network(config, ours) or (length, ours)
    if length > first_length:
        ours = long_model
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, config.vocab_size, (2, length), generator=generator)
    with torch.no_grad():
        theirs = model(tokens)
    ids = jnp.asarray(tokens.numpy(), jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(length), ids.shape)
    got = ours.unembed(ours.hidden(ids, positions, causal))
    np.testing.assert_allclose(got, theirs.logits.numpy(), atol=1e-4, rtol=1e-5)
    return "equal"


@pytest.mark.parametrize("model_type", TYPES)
def test_equal_or_a_sentence(model_type, tmp_path):
    ended = Counter()

    @settings(max_examples=20, derandomize=True, deadline=None, database=None, **UNCHECKED)
    @given(configs(model_type))
    def law(raw):
        for path in tmp_path.iterdir():
            path.unlink()
        ended[compare(raw, tmp_path)] += 1

    law()
    print(model_type, dict(ended))
    assert ended["equal"] >= 4, ended  # most of what was drawn must not have been refused


def test_the_generator_reaches_every_key():
    """Each key of each family is drawn, inert, or one of sizes and ropes."""
    missing = {
        key
        for model_type in TYPES
        for key in keys(model_type)
        if key not in VALUES
        and key not in (*SIZES, *ROPE)
        and not any(Path(key).match(pattern) for pattern in RESTING)
    }
    assert not missing
