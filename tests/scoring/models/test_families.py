"""The causal families: every option and every weight matters, every spelling means the same."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file
from tiny import byte_level

from batch_calibration.scoring.models import FAMILIES, mixture
from batch_calibration.scoring.models.attention import causal
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.files.tensors import shards
from batch_calibration.scoring.models.rotary import Rope, frequencies

GOLDEN = {
    path.name: path
    for path in sorted((Path(__file__).parent / "golden").iterdir())
    if not path.name.startswith("gpt2")
}

a_few_are_quick = pytest.mark.slow_except(
    "gemma3_text_local", "gpt2_plain", "llama_biased", "neox_parallel"
)


def read(path):
    return json.loads((path / "config.json").read_text())


def golden(name):
    arrays = load_file(GOLDEN[name] / "expected" / "answers.safetensors")
    return jnp.asarray(arrays["tokens"]), arrays["answers"]


# Apart, so that tests of one network share what is compiled for its hidden states.
@jax.jit
def hidden(model, tokens):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return model.hidden(tokens, positions, causal)


@jax.jit
def unembed(model, h, subset=None):
    return model.unembed(h, subset)


def run(model, tokens):
    return unembed(model, hidden(model, tokens))


def load(path, raw, dtype=np.float32, ignored=()):
    family = FAMILIES[raw["model_type"]]
    return weights.load(path, family._replace(ignored=(*family.ignored, *ignored)), dtype)[1]


@pytest.fixture
def copy(tmp_path):
    """Copies a golden directory, with another config and changed tensors."""

    def make(name, raw=None, change=None):
        shutil.copytree(GOLDEN[name], tmp_path / name)
        if raw is not None:
            (tmp_path / name / "config.json").write_text(json.dumps(raw))
        if change is not None:
            path = tmp_path / name / "model.safetensors"
            save_file(change(load_file(path)), path)
        return tmp_path / name

    return make


def rope(**parameters):
    return {"rope_parameters": parameters}


def ropes_of_layers(full_attention, local):
    whole = {"rope_type": "linear", **full_attention}
    apart = {"rope_type": "default", "rope_theta": local}
    return rope(full_attention=whole, sliding_attention=apart)


LLAMA3 = {"rope_type": "llama3", "rope_theta": 30.0, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 2.0, "original_max_position_embeddings": 12}
YARN = read(GOLDEN["llama_yarn"])["rope_parameters"]
LONG = read(GOLDEN["phi3_long"])["rope_parameters"] | {"short_factor": [1.0, 1.5, 2.0]}
FULL = {"layer_types": ["full_attention"] * 3}
ALONE = """
llama_biased hidden_act="silu" rms_norm_eps=1e-3
mistral_window sliding_window=6 sliding_window=null
mistral_whole sliding_window=7
phi3_long max_position_embeddings=24 sliding_window=null
granite_multiplied embedding_multiplier=1.5 residual_multiplier=1.5
granite_multiplied attention_multiplier=1.5 logits_scaling=1.5
olmo3_layers layer_types=null
mixtral_window num_experts_per_tok=1 sliding_window=null
qwen3_moe_plain norm_topk_prob=false
qwen3_moe_window use_sliding_window=false
gemma_first hidden_act="silu"
smollm3_layers no_rope_layers=[1,1,1]
gptj_plain rotary_dim=2
qwen3_layers layer_types=["full_attention","sliding_attention"] sliding_window=6
gemma2_capped attn_logit_softcapping=2.0 attn_logit_softcapping=null final_logit_softcapping=3.0
gemma2_capped final_logit_softcapping=null query_pre_attn_scalar=4 sliding_window=6
gemma2_capped layer_types=["full_attention","full_attention"]
gemma2_uncapped hidden_activation="gelu_pytorch_tanh" rms_norm_eps=1e-3
gemma3_text_capped final_logit_softcapping=2.5
neox_parallel use_parallel_residual=false
neox_serial hidden_act="gelu" layer_norm_eps=1e-3
opt_before activation_function="gelu" do_layer_norm_before=false _remove_final_layer_norm=true
opt_after activation_function="relu"
"""
"""Networks and their options, each of which is changed alone."""
LLAMA3S = {"factor": 7.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0, "rope_theta": 40.0}
LLAMA3S |= {"original_max_position_embeddings": 14}
YARNS = {"factor": 2.0, "original_max_position_embeddings": 12, "attention_factor": 1.1}
YARNS |= {"beta_fast": 5.0, "beta_slow": 0.9, "truncate": True}
LINEAR = {"rope_type": "linear", "factor": 2.0}
QWEN2 = {"layer_types": None, "use_sliding_window": True}
OPTIONS = [
    ("llama_tied", rope(rope_theta=1000.0)),
    ("llama_tied", {"num_attention_heads": 2, "head_dim": 8, "num_key_value_heads": 1}),
    *(("llama_biased", rope(**LLAMA3 | {key: value})) for key, value in LLAMA3S.items()),
    ("llama_biased", rope(rope_type="default", rope_theta=30.0)),
    ("llama_biased", rope(**LLAMA3) | {"original_max_position_embeddings": 14}),
    ("llama_linear", rope(**LINEAR, rope_theta=100.0)),
    ("ministral_layers", {"model_type": "mistral", "layer_types": None}),
    ("ministral_layers", FULL),
    *(("llama_yarn", rope(**YARN | {key: value})) for key, value in YARNS.items()),
    ("phi3_long", rope(**LONG)),
    ("olmo3_layers", ropes_of_layers({"factor": 3.0, "rope_theta": 60.0}, 20.0)),
    ("olmo3_layers", ropes_of_layers({"factor": 3.0, "rope_theta": 50.0}, 25.0)),
    ("smollm3_layers", {"no_rope_layers": None, "no_rope_layer_interval": 3, "layer_types": None}),
    ("smollm3_layers", FULL),
    ("qwen2_late_window", {"layer_types": None, "max_window_layers": 1}),
    ("qwen2_late_window", {"layer_types": None, "use_sliding_window": False}),
    ("qwen2_whole", QWEN2 | {"sliding_window": 3, "max_window_layers": 0}),
    ("gemma2_uncapped", rope(rope_type="linear", factor=3.0, rope_theta=300.0)),
    ("gemma3_text_local", ropes_of_layers({"factor": 4.5, "rope_theta": 200.0}, 20.0)),
    ("gemma3_text_local", ropes_of_layers({"factor": 4.0, "rope_theta": 150.0}, 20.0)),
    ("gemma3_text_local", ropes_of_layers({"factor": 4.0, "rope_theta": 200.0}, 25.0)),
    ("gemma3_text_local", {"layer_types": None, "sliding_window_pattern": 3}),
    ("neox_parallel", rope(rope_theta=100.0, partial_rotary_factor=0.5)),
    ("neox_parallel", rope(rope_theta=200.0, partial_rotary_factor=0.5)),
    ("neox_linear", rope(**LINEAR, rope_theta=50.0, partial_rotary_factor=0.5)),
]
for line in ALONE.split("\n")[1:-1]:
    network, *options = line.split()
    pairs = [option.split("=") for option in options]
    OPTIONS += [(network, {key: json.loads(value)}) for key, value in pairs]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), OPTIONS, ids=str)
def test_every_option_matters(copy, name, change):
    raw = read(GOLDEN[name]) | change
    tokens, answers = golden(name)
    # Without the final norm, or with it unused, its weights have no place.
    got = run(load(copy(name, raw), raw, ignored=("decoder.final_layer_norm.*",)), tokens)
    assert np.abs(got - answers).max() > 5e-4


@a_few_are_quick
@pytest.mark.parametrize("name", GOLDEN)
def test_every_weight_matters(name):
    model, (tokens, answers) = load(GOLDEN[name], read(GOLDEN[name])), golden(name)
    graph, state = nnx.split(model)
    flat = nnx.to_flat_state(state)
    for index, (path, leaf) in enumerate(flat):
        permuted = leaf.replace(jnp.roll(leaf[...], 1, axis=-1))
        spoiled = [(p, permuted if i == index else v) for i, (p, v) in enumerate(flat)]
        got = run(nnx.merge(graph, nnx.from_flat_state(spoiled)), tokens)
        far = np.abs(got - answers).max()
        # Without rotation it moves all of a query's logits alike: softmax is blind to it.
        is_still = name.startswith("opt") or (name == "smollm3_named" and path[1] == 0)
        blind = is_still and path[2:] == ("attention", "k", "bias")
        assert blind or far > 1e-3, path


@a_few_are_quick
@pytest.mark.parametrize("name", GOLDEN)
def test_what_was_saved_comes_back(name, tmp_path):
    raw = read(GOLDEN[name])
    family = FAMILIES[raw["model_type"]]
    weights.save(tmp_path, load(GOLDEN[name], raw), family, raw)
    tokens, answers = golden(name)
    np.testing.assert_allclose(run(load(tmp_path, raw), tokens), answers, atol=1e-4)
    theirs = {}
    for shard in shards(GOLDEN[name]):
        theirs |= load_file(GOLDEN[name] / shard)
    ours = load_file(tmp_path / "model.safetensors")
    if raw["model_type"] != "gemma3":
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


@a_few_are_quick
@pytest.mark.parametrize("backend, dtype", [("gpu", jnp.bfloat16), ("cpu", jnp.float32)])
@pytest.mark.parametrize("name", GOLDEN)
def test_half_precision_stays_half(name, backend, dtype, monkeypatch):
    """On CPUs in the matrices alone: nothing between their products is rounded."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    raw, (tokens, answers) = read(GOLDEN[name]), golden(name)

    def attend(layer, heads):
        assert heads.q.dtype == heads.k.dtype == heads.v.dtype == dtype
        return causal(layer, heads)

    # jax's own attention and flax's LayerNorm count on promotion to float32, and go back.
    with jax.numpy_dtype_promotion("standard"):
        model = load(GOLDEN[name], raw, jnp.bfloat16)
        positions = jnp.arange(tokens.shape[1])[None]

        @jax.jit
        def half(model):
            h = model.hidden(tokens, positions, attend)
            assert h.dtype == dtype
            return model.unembed(h)

        got = half(model)
    assert got.dtype == jnp.float32
    assert np.abs(got - answers).mean() < 0.03 * answers.std()


@pytest.mark.parametrize(("tokens", "favorite"), [(1, 0), (7, 0), (64, 1), (65, 0), (200, 3)])
def test_experts_run_on_the_tokens_that_chose_them(tokens, favorite):
    shape = {"hidden_size": 16, "num_experts": 5, "num_experts_per_tok": 2, "hidden_act": "silu"}
    config = SimpleNamespace(**shape, moe_intermediate_size=24, norm_topk_prob=True, fused=False)
    layer = mixture.Mixture(config, rngs=nnx.Rngs(0))
    random = np.random.default_rng(tokens)
    h = jnp.asarray(random.normal(size=(2, tokens, 16)), jnp.float32)
    # Most tokens choose one expert, and none the last.
    kernel = np.asarray(layer.router.kernel[...]) * 0.1
    bias = np.zeros(5) + 4 * (np.arange(5) == favorite) - 50 * (np.arange(5) == 4)
    layer.router = lambda h: h @ kernel + bias
    want = np.zeros(h.shape)
    for place in np.ndindex(2, tokens):
        probs = np.exp(np.asarray(layer.router(h[place]), np.float64))
        chosen = np.argsort(-probs)[:2]
        for number in chosen.tolist():
            output = np.asarray(layer.experts[number](h[place][None, None])[0, 0])
            want[place] += output * probs[number] / probs[chosen].sum()
    assert np.abs(np.asarray(layer(h)) - want).max() < 1e-6
    assert np.abs(np.asarray(jax.jit(layer)(h)) - want).max() < 1e-6


@a_few_are_quick
@pytest.mark.parametrize("name", GOLDEN)
def test_logits_of_some_tokens_alone(name):
    model, (tokens, _) = load(GOLDEN[name], read(GOLDEN[name])), golden(name)
    rows, h = jnp.array([5, 0, 11]), hidden(model, tokens)
    np.testing.assert_allclose(unembed(model, h, rows), unembed(model, h)[..., rows], atol=1e-5)


@pytest.mark.parametrize("name", GOLDEN)
def test_splits_are_axes_of_ours(name):
    raw = read(GOLDEN[name])
    family, model = FAMILIES[raw["model_type"]], load(GOLDEN[name], raw)
    shapes = {".".join(map(str, p)): v.shape for p, v in nnx.to_flat_state(nnx.state(model))}
    by_path = {weight.path: weight for _, weight in weights.names_of_paths(family, shapes)}
    assert by_path.keys() == shapes.keys()
    for path, shape in shapes.items():
        split = by_path[path].split
        assert split is None or split < len(shape), path
        # Positions are held whole.
        is_whole = len(shape) == 1 or path in ("position_embedding.embedding", "wpe.embedding")
        assert split is not None or is_whole, path


BY_3 = {"type": "linear", "factor": 3.0}
OLD_GEMMA3 = {"rope_theta": 200.0, "rope_local_base_freq": 20.0, "layer_types": None}
OLD_GEMMA3 |= {"rope_scaling": {"factor": 4.0, "rope_type": "linear"}, "sliding_window_pattern": 2}
OLD = [
    ("llama_tied", {"rope_theta": 500.0}),
    ("llama_biased", {"rope_theta": 30.0, "rope_scaling": LLAMA3}),
    ("llama_linear", {"rope_theta": 100.0, "rope_scaling": BY_3}),
    ("llama_linear", {"rope_theta": 100, "rope_scaling": {"rope_type": "linear", "factor": 3}}),
    ("mistral_window", {"rope_theta": 10000.0, "rope_scaling": None}),
    ("ministral_layers", {"model_type": "mistral", "rope_theta": 10000.0}),
    ("qwen2_late_window", {"rope_theta": 10000.0, "layer_types": None}),
    ("gemma2_capped", {"rope_theta": 10000.0, "layer_types": None, "num_key_value_heads": 2}),
    ("gemma3_text_local", OLD_GEMMA3),
    ("gemma3_text_capped", {}),
    ("neox_parallel", {"rotary_pct": 0.25, "rotary_emb_base": 100}),
    ("neox_serial", {"rotary_pct": 1.0}),
    ("neox_linear", {"rotary_pct": 0.5, "rotary_emb_base": 50, "rope_scaling": BY_3}),
]


@pytest.mark.parametrize(("name", "old"), OLD, ids=str)
def test_older_spellings_mean_the_same(copy, name, old):
    raw = read(GOLDEN[name])
    del raw["rope_parameters"]
    raw = {key: value for key, value in (raw | old).items() if key != "layer_types" or value}
    tokens, answers = golden(name)
    np.testing.assert_allclose(run(load(copy(name, raw), raw), tokens), answers, atol=1e-4)


def named(change):
    return lambda tensors: {change(name): array for name, array in tensors.items()}


NEOX_MASKS = [
    f"gpt_neox.layers.{place}" for place in ("1.attention.bias", "0.attention.masked_bias")
]
SEEING = "language_model.model.", "model.language_model."
SAME = [
    ("llama_tied", lambda t: t | {"lm_head.weight": t["model.embed_tokens.weight"]}),
    ("llama_tied", lambda t: t | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2)}),
    ("opt_before", named(lambda name: name.removeprefix("model."))),
    ("opt_before", lambda t: t | {"lm_head.weight": t["model.decoder.embed_tokens.weight"]}),
    ("neox_parallel", named(lambda name: name.removeprefix("gpt_neox."))),
    ("neox_parallel", lambda t: t | dict.fromkeys(NEOX_MASKS, np.ones(3))),
    ("gemma3_that_sees", named(lambda name: name.replace(*SEEING))),
]


@pytest.mark.parametrize(("name", "change"), SAME)
def test_other_names_for_the_same_weights(copy, name, change):
    raw, (tokens, answers) = read(GOLDEN[name]), golden(name)
    got = run(load(copy(name, change=change), raw), tokens)
    np.testing.assert_allclose(got, answers, atol=1e-4)


@pytest.mark.parametrize("kind", ["default", "linear", "llama3"])
def test_frequencies_follow_their_definition(kind):
    factor = {"linear": 3.0, "llama3": 8.0}.get(kind)
    sizes = {"rope_theta": 500.0, "original_max_position_embeddings": 64}
    got = frequencies(16, Rope(rope_type=kind, factor=factor, **sizes))
    assert got.scale == 1
    for i, frequency in enumerate(got.radians):
        expected = 500.0 ** (-2 * i / 16)
        if kind == "linear":
            expected /= 3
        if kind == "llama3":
            turns = 64 * expected / (2 * np.pi)
            if turns < 1:
                expected /= 8
            elif turns < 4:
                smooth = (turns - 1) / 3
                expected = smooth * expected + (1 - smooth) * expected / 8
        assert frequency == pytest.approx(expected, rel=1e-6)


ONE_FACTOR = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}
BAD = [
    *(("llama_tied", {"model_type": kind}, kind) for kind in ("mamba", "falcon", "bert")),
    ("llama_tied", rope(rope_type="yarm", factor=2.0), "'yarm'"),
    ("llama_tied", {"rope_scaling": {"type": "mrope", "factor": 2.0}}, "'mrope'"),
    ("llama_tied", rope(rope_type="linear"), "lack factor"),
    ("llama_tied", rope(rope_type="linear", factor=0.0), "factor = 0.0"),
    ("llama_tied", rope(full_attention={}), "key full_attention"),
    ("llama_tied", rope(rope_theta="x"), "rope_theta = 'x'"),
    ("llama_tied", rope(partial_rotary_factor=0.5), "partial_rotary_factor = 0.5"),
    ("llama_tied", {"rope_parameters": "yarn"}, "got 'yarn'"),
    ("llama_biased", rope(**LLAMA3 | {"low_freq_factor": 2.0}), "2.0 and 2.0"),
    ("llama_tied", {"num_key_value_heads": 3}, "3 key-value heads"),
    ("llama_tied", {"num_key_value_heads": 0}, "num_key_value_heads = 0"),
    ("llama_tied", {"head_dim": 5}, "got (16, 8), expected (16, 10)"),
    ("llama_tied", {"hidden_act": "silly"}, "'silly'"),
    ("llama_tied", {"tie_word_embeddings": False}, "missing lm_head.weight"),
    ("llama_tied", {"attention_bias": True}, "missing model.layers.0.self_attn.k_proj.bias"),
    ("llama_biased", {"mlp_bias": False}, "unexpected model.layers.0.mlp.down_proj.bias"),
    ("llama_tied", {"num_hidden_layers": 1}, "unexpected model.layers.1."),
    ("qwen3_layers", {"layer_types": ["full_attention"]}, "['full_attention']"),
    ("qwen3_layers", {"layer_types": ["chunked_attention"] * 2}, "['chunked_attention', "),
    ("qwen3_layers", {"layer_types": [3, 4]}, "layer_types = (3, 4)"),
    ("qwen2_late_window", {"layer_types": None, "max_window_layers": "x"}, "layer_types = None"),
    ("gemma2_capped", {"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
    ("gemma2_capped", {"attn_logit_softcapping": -1.0}, "= -1.0"),
    ("gemma3_text_local", rope(sliding_attention={"partial_rotary_factor": 0.5}), "= (0.5, True)"),
    (
        "gemma3_text_local",
        {"rope_parameters": None, "rope_scaling": {"type": "linear"}},
        "{'type':",
    ),
    ("gemma3_text_local", rope(rope_theta=5.0), "= ['rope_theta']"),
    ("gemma3_text_local", {"layer_types": None, "sliding_window_pattern": 0}, "layer_types = None"),
    ("gemma3_that_sees", {"text_config": 3}, "lacks hidden_size"),
    ("neox_parallel", rope(rope_type="longrope"), "lack short_factor"),
    ("neox_parallel", rope(**ONE_FACTOR, partial_rotary_factor=1.0), "got 1"),
    ("llama_tied", {"new_key": 3, "_x": None}, "new_key = 3"),
    ("llama_tied", {"residual_multiplier": 0.5}, "residual_multiplier = 0.5"),
    ("llama_tied", {"quantization_config": {"bits": 4}}, "quantization_config"),
    ("llama_tied", {"num_hidden_layers": 9999}, "9,999 layers"),
    ("gemma2_capped", {"num_hidden_layers": 10**9, "layer_types": None}, "layer_types = None"),
    ("gemma3_that_sees", {"text_config": {"new_key": 3}}, "text_config.new_key = 3"),
    (
        "mistral_window",
        {"layer_types": ["sliding_attention"] * 2, "sliding_window": None},
        "'sliding_",
    ),
    ("qwen3_layers", {"use_sliding_window": False}, "'sliding_attention'"),
    ("neox_parallel", {"attention_bias": False}, "unexpected gpt_neox.layers.0.attention"),
    ("neox_parallel", {"num_attention_heads": 3}, "3 attention heads"),
    ("neox_parallel", rope(partial_rotary_factor=1.5), "partial_rotary_factor = 1.5"),
    ("opt_before", {"word_embed_proj_dim": 8}, "missing model.decoder.project_in.weight"),
    ("opt_before", {"_remove_final_layer_norm": "x"}, "remove_final_layer_norm = 'x'"),
    ("opt_before", {"enable_bias": False}, "unexpected model.decoder.layers.0.fc1.bias"),
    ("opt_after", {"num_attention_heads": None}, "num_attention_heads = None"),
]


@pytest.mark.parametrize(("name", "change", "words"), BAD, ids=str)
def test_configs_that_do_not_fit(copy, name, change, words, refuses):
    directory = copy(name, read(GOLDEN[name]) | change)
    byte_level().save(str(directory / "tokenizer.json"))
    assert words in str(refuses(load_checkpoint, directory))


def test_a_tokenizer_of_more_tokens_than_the_network(copy, refuses):
    directory = copy("llama_tied")
    byte_level().save(str(directory / "tokenizer.json"))
    assert "ids up to 329" in str(refuses(load_checkpoint, directory))
