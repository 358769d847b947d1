"""Reading and writing checkpoint directories, and each way in which one can be broken."""

import importlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import python
from safetensors.flax import save_file
from safetensors.numpy import load_file
from tiny import CLIP, GPT2, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models import FAMILIES, gpt2
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.checkpoint import find, load_checkpoint
from batch_calibration.scoring.models.files.config import read_config
from batch_calibration.scoring.models.files.tensors import tensors


@pytest.fixture
def directory(tmp_path):
    return write(tmp_path, GPT2)


def leaves(model):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.tree.leaves(weights.nnx.state(model)))]


def rewrite(directory, change, name="model.safetensors"):
    tensors = load_file(directory / name)
    save_file({k: jnp.asarray(v) for k, v in change(tensors).items()}, directory / name)


def rewrite_header(directory, change):
    path = directory / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


@pytest.mark.parametrize("raw", [GPT2, CLIP])
def test_what_was_saved_comes_back(tmp_path, raw):
    family = FAMILIES[raw["model_type"]]
    write(tmp_path / "a", raw)
    _, model = weights.load(tmp_path / "a", family)
    weights.save(tmp_path / "b", model, family, raw)
    first, second = (load_file(tmp_path / x / "model.safetensors") for x in "ab")
    assert first.keys() == second.keys() and len(first) == len(leaves(model))
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    assert not list(tmp_path.glob("*/*.partial"))


def assert_equal_weights(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_files_are_read_as_float32(directory, dtype):
    _, full = weights.load(directory, gpt2.FAMILY)
    rewrite(directory, lambda t: {k: jnp.asarray(v, dtype) for k, v in t.items()})
    _, half = weights.load(directory, gpt2.FAMILY)
    for a, b in zip(leaves(full), leaves(half), strict=True):
        assert b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)


def test_prefix_is_optional_and_masks_are_ignored(directory):
    _, before = weights.load(directory, gpt2.FAMILY)

    def bare(tensors):
        extra = {"h.0.attn.bias": np.ones(3), "lm_head.weight": tensors["transformer.wte.weight"]}
        return {k.removeprefix("transformer."): v for k, v in tensors.items()} | extra

    rewrite(directory, bare)
    assert_equal_weights(before, weights.load(directory, gpt2.FAMILY)[1])


def test_shards(directory, refuses):
    _, before = weights.load(directory, gpt2.FAMILY)
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    by_file = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, ks in by_file.items():
        save_file({k: jnp.asarray(tensors[k]) for k in ks}, directory / file)
    index = {"weight_map": {k: file for file, ks in by_file.items() for k in ks}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_equal_weights(before, weights.load(directory, gpt2.FAMILY)[1])
    (directory / "two.safetensors").unlink()
    assert "'two.safetensors'" in refuses(weights.load, directory, gpt2.FAMILY).expected


def test_all_complaints_in_one_sentence(directory, refuses):
    def spoil(tensors):
        del tensors["transformer.ln_f.bias"]
        tensors["transformer.h.0.ln_1.bias"] = np.zeros(5, np.float32)
        tensors["transformer.h.1.ln_1.bias"] = np.full(16, np.nan, np.float32)
        tensors["transformer.h.7.ln_1.bias"] = np.zeros(16, np.float32)
        tensors["rotary.weight"] = np.zeros(2, np.float32)
        return tensors

    rewrite(directory, spoil)
    message = str(refuses(weights.load, directory, gpt2.FAMILY))
    assert "missing transformer.ln_f.bias (our ln.bias); unexpected rotary.weight (" in message
    assert "; unexpected transformer.h.7.ln_1.bias (" in message
    assert "h.0.ln_1.bias (our blocks.0.ln_1.bias): got (5,), expected (16,); non-f" in message
    assert "h.1.ln_1.bias (our blocks.1.ln_1.bias): 16 of 16 NaN or inf." in message


def put(name, array):
    return lambda tensors: tensors | {name: array(tensors) if callable(array) else array}


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("lm_head.weight differs", "lm_head.weight", lambda t: t["transformer.wte.weight"] + 1),
        ("lm_head.weight differs", "lm_head.weight", np.zeros((3, 2), np.float32)),
        ("a second wte.weight", "wte.weight", lambda t: t["transformer.wte.weight"]),
        ("(our ln.bias) in I8", "transformer.ln_f.bias", np.zeros(16, np.int8)),
    ],
)
def test_tensors_that_would_be_dropped_or_misread(directory, words, name, value, refuses):
    rewrite(directory, put(name, value))
    assert words in str(refuses(weights.load, directory, gpt2.FAMILY))


def test_float8_is_refused_by_name(directory, refuses):
    """As in a checkpoint that was quantized in place: numpy lacks these numbers."""
    rewrite(directory, put("transformer.ln_f.bias", np.zeros(16, np.int8)))
    rewrite_header(directory, lambda header: header[NAME].update(dtype="F8_E4M3"))
    assert "(our ln.bias) in F8_E4M3" in str(refuses(weights.load, directory, gpt2.FAMILY))


def test_broken_weight_files(directory, refuses):
    path = directory / "model.safetensors"
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    for content, words in (
        (pointer, "git lfs pull"),
        (bytes(40), "invalid JSON in header"),
        (path.read_bytes()[:-100], "not fully covered"),
    ):
        path.write_bytes(content)
        assert words in str(refuses(weights.load, directory, gpt2.FAMILY))
    path.unlink()
    assert "*.safetensors" in refuses(weights.load, directory, gpt2.FAMILY).expected
    path.mkdir()
    assert "*.safetensors" in refuses(weights.load, directory, gpt2.FAMILY).expected


UNFIT = {
    "n_layer": [0, True],
    "model_type": [["gpt2"]],
    "layer_norm_epsilon": ["x", float("nan")],
    "activation_function": [3],
    "scale_attn_by_inverse_layer_idx": [True],
}


@pytest.mark.parametrize("key", UNFIT)
def test_configs_that_do_not_fit(directory, key, refuses):
    for value in UNFIT[key]:
        (directory / "config.json").write_text(json.dumps(GPT2 | {key: value}))
        assert refuses(load_checkpoint, directory).got == f"{key} = {value!r}"


LATE = """
from __future__ import annotations
from dataclasses import dataclass
from batch_calibration.scoring.models import gpt2

@dataclass(frozen=True, kw_only=True)
class Config(gpt2.Config):
    rank: int | None = None
"""


def test_a_config_whose_annotations_are_strings(directory, monkeypatch, refuses):
    (directory / "late_annotations.py").write_text(LATE)
    monkeypatch.syspath_prepend(directory)
    family = gpt2.FAMILY._replace(config=importlib.import_module("late_annotations").Config)
    assert read_config(family, GPT2 | {"rank": 3}, directory).rank == 3
    for key in ("rank", "n_layer"):
        assert f"{key} = 'x'" in str(refuses(read_config, family, GPT2 | {key: "x"}, directory))


def test_null_absent_and_immense_values_of_a_config(directory, refuses):
    path = directory / "config.json"
    path.write_text(json.dumps(GPT2 | {"n_inner": None}))
    assert load_checkpoint(directory).config.n_inner is None
    path.write_text(json.dumps(GPT2 | {"n_embd": None}))
    assert "n_embd = None" in str(refuses(load_checkpoint, directory))
    path.write_text(json.dumps(GPT2 | {"n_embd": 10**6}))
    assert "24,000,588,000,000 weights" in str(refuses(load_checkpoint, directory))
    path.write_text(json.dumps({key: GPT2[key] for key in GPT2 if key != "n_layer"}))
    assert "lacks n_layer" in str(refuses(load_checkpoint, directory))


@pytest.mark.parametrize("index", [{"weight_map": ["a"]}, {"weight_map": {"a": 3}}, {}])
def test_an_index_that_is_none(directory, index, refuses):
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "weight_map" in refuses(weights.load, directory, gpt2.FAMILY).expected


@pytest.mark.parametrize("name", ["../model.safetensors", "/model.safetensors", "a/../../b"])
def test_an_index_that_names_files_elsewhere(directory, name, refuses):
    """Another checkpoint's weights would be read as this one's."""
    path = directory / "model.safetensors"
    path.rename(directory.parent / "model.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert refuses(load_checkpoint, directory).got == repr(name)


@pytest.mark.parametrize("name", ["", ".", "absent", "x" * 5000, "a\0b"])
def test_an_index_that_names_no_file(directory, name, refuses):
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    error = refuses(load_checkpoint, directory)
    assert repr(name)[:70] in error.expected and len(str(error)) < 400


@pytest.mark.parametrize("name", ["weights/part.safetensors", "link.safetensors"])
def test_an_index_may_name_files_in_folders_and_links_as_the_hub_s_cache_has(directory, name):
    path = directory / "model.safetensors"
    (directory / "weights").mkdir()
    path.rename(directory / "weights" / "part.safetensors")
    (directory / "link.safetensors").symlink_to(directory / "weights" / "part.safetensors")
    tensors = load_file(directory / name)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, name)}))
    load_checkpoint(directory)


NAME = "transformer.ln_f.bias"


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("invalid offset", lambda h: h[NAME].update(data_offsets=[10**15, 10**15 + 64])),
        ("invalid offset", lambda h: h.update({NAME: h["transformer.wte.weight"]})),
        ("overflow computing", lambda h: h[NAME].update(shape=[2**62, 2**62])),
        ("integer `-16`", lambda h: h[NAME].update(shape=[-16])),
        ("invalid shape", lambda h: h[NAME].update(shape=[16, 0])),
        (f"mis-shaped {NAME}", lambda h: h[NAME].update(shape=[16] + [1] * 10**5)),
        ("unexpected a b a", lambda h: h.update({"a b " * 10**5: h.pop(NAME)})),
    ],
)
def test_a_header_that_lies(directory, words, change, refuses):
    rewrite_header(directory, change)
    message = str(refuses(load_checkpoint, directory))
    assert words in message and len(message) < 1000


def test_files_that_are_not_there(directory, refuses):
    assert refuses(load_checkpoint, directory / "nowhere").where == f"{directory}/nowhere"
    (directory / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: not a tokenizer" in str(refuses(load_checkpoint, directory))
    (directory / "tokenizer.json").unlink()
    assert "in tokenizer.json" in refuses(load_checkpoint, directory).expected
    for text, got in (("{", "line 1 column 2"), ("[" * 100_000, "too deeply"), ("[]", "list")):
        (directory / "config.json").write_text(text)
        assert got in refuses(load_checkpoint, directory).got
    (directory / "config.json").unlink()
    assert "in config.json" in refuses(load_checkpoint, directory).expected


def test_digest_follows_contents(directory, tmp_path_factory):
    digest = load_checkpoint(directory).digest
    assert len(digest) == 64
    assert load_checkpoint(write(tmp_path_factory.mktemp("same"), GPT2)).digest == digest
    assert load_checkpoint(write(directory, GPT2, seed=1)).digest != digest


MEASURE = """
import resource, sys
import jax, numpy as np
from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.models.files import weights
jax.device_put(np.zeros(3)).block_until_ready()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
_, model = weights.load(sys.argv[1], gpt2.FAMILY)
size = sum(leaf.nbytes for leaf in jax.tree.leaves(weights.nnx.state(model)))
print(size, (peak() - before) / size)
"""


@pytest.mark.slow
def test_weights_stream_to_their_place(tmp_path):
    raw = GPT2 | {"vocab_size": 5000, "n_embd": 768, "n_layer": 8, "n_head": 12}
    write(tmp_path, raw)
    size, ratio = python("-c", MEASURE, tmp_path).stdout.split()
    assert int(size) > 240e6 and float(ratio) < 1.3


def test_a_name_of_the_hub_is_downloaded_without_pickles(directory, monkeypatch):
    from huggingface_hub.utils import filter_repo_objects

    calls = {}

    def download(name, revision, allow_patterns, ignore_patterns):
        calls[name, revision] = (allow_patterns, ignore_patterns)
        return str(directory)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert find("someone/some-model") == directory
    names = ["config.json", "model-00001-of-00002.safetensors", "merges.txt", "chat_template.jinja"]
    others = ["pytorch_model.bin", "consolidated.safetensors", "onnx/model.safetensors"]
    others += ["original/params.json", "modeling_x.py"]
    allowed, ignored = calls["someone/some-model", None]
    patterns = {"allow_patterns": allowed, "ignore_patterns": ignored}
    assert list(filter_repo_objects([*names, *others], **patterns)) == names
    assert find(str(directory)) == directory and len(calls) == 1
    assert find("gpt2") == find("someone/some-model@v1.0") == directory
    assert list(calls)[1:] == [("gpt2", None), ("someone/some-model", "v1.0")]


def test_a_name_that_the_hub_does_not_give(monkeypatch, refuses):
    from huggingface_hub.errors import LocalEntryNotFoundError

    def fail(*_, **__):
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    assert refuses(find, "someone/some-model").got == "offline"
    assert refuses(load_checkpoint, find("no/such/folder")).got == "none"


def test_dtypes(directory, refuses):
    assert load_checkpoint(directory).dtype == "float32"
    half = load_checkpoint(directory, "bfloat16")
    assert half.dtype == "bfloat16"
    assert all(leaf.dtype == jnp.bfloat16 for leaf in leaves(half.model))
    assert refuses(load_checkpoint, directory, "float8").got == "float8"


@pytest.mark.usefixtures("standard_promotion")
def test_half_precision_scores_are_near(directory):
    full, half = (
        CausalLM(load_checkpoint(directory, dtype)).score(["very fine"] * 3, [" a", " ab"])
        for dtype in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(full.log_probs, half.log_probs, atol=0.5)
    assert half.log_probs.dtype == np.float32


def test_a_file_that_is_cut_while_it_is_read_is_said(tmp_path, refuses):
    path = tmp_path / "model.safetensors"
    save_file({"a": jnp.ones((20, 10))}, path)
    (tensor,) = tensors(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    assert f"{path}: it ends within 'a'" in str(refuses(tensor.read, np.float32))
