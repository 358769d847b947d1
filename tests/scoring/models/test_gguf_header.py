"""Headers of GGUF files: types and ranges of metadata, required keys, and bounds of size."""

import struct
from contextlib import suppress

import numpy as np
import pytest
from test_gguf import with_twin

from batch_calibration.errors import InputError
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.files import gguf_header
from batch_calibration.scoring.models.files.checkpoint import ModelFiles

gguf = pytest.importorskip("gguf", reason="needs the library gguf: pip install '.[test]'")
V = gguf.GGUFValueType
ODD = {
    "0": (0, V.UINT32),
    "1": (1, V.UINT32),
    "2^63": (2**63, V.UINT64),
    "-1": (-1, V.INT32),
    "nan": (float("nan"), V.FLOAT32),
    "text": ("x", V.STRING),
    "texts": (["a"], V.ARRAY, V.STRING),
    "wholes": ([1, 2], V.ARRAY, V.UINT32),
}
KEYS = [
    *(f"llama.{key}" for key in gguf_header.OF_NETWORK),
    *(key for key in gguf_header.OF_FILE if not key.startswith("split")),
]


def with_keys(folder, **values):
    """A llama file with other values under some keys; None leaves a key out."""

    def change(writer):
        data = writer.kv_data[0]
        for key, value in values.items():
            data.pop(key, None)
            if value is not None:
                data[key] = gguf.gguf_writer.GGUFValue(*value)

    return with_twin(folder, "llama", change=change)[0]


def open_all(path):
    files = ModelFiles(path)
    return files.tokenizer_info, files.chat_template, files.load()


@pytest.mark.slow_except("llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.tokens")
@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_another_type_is_refused_or_read(key, tmp_path):
    for name, value in ODD.items():
        path = with_keys(tmp_path / name.strip("^"), **{key: value})
        with suppress(InputError):  # another error fails
            scorer = CausalLM(open_all(path)[-1])
            scores = scorer.score(["Review: fine"], [" good", " bad"]).log_probs
            assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("llama.embedding_length", ODD["1"], "1"),
        ("llama.attention.head_count", ODD["2^63"], str(2**63)),
        ("llama.attention.key_length", ODD["nan"], "nan"),
        ("llama.rope.dimension_count", ODD["text"], "'x'"),
        ("general.architecture", ODD["texts"], "['a']"),
        ("tokenizer.ggml.pre", ODD["texts"], "['a']"),
        ("tokenizer.ggml.merges", None, "none"),
        ("tokenizer.ggml.tokens", (["a", "b", "a"], V.ARRAY, V.STRING), "'a'"),
        ("tokenizer.ggml.token_type", ODD["wholes"], "2 of them"),
        ("tokenizer.ggml.model", ("llama", V.STRING), "0 of them"),
    ],
)
def test_the_value_is_in_the_sentence(key, value, got, tmp_path, refuses):
    path = with_keys(tmp_path, **{key: value})
    error = refuses(open_all, path)
    assert error.got == got and str(path) in error.where


def test_a_sentence_piece_without_finite_scores(tmp_path, refuses):
    scores = ([float("nan")] * 330, V.ARRAY, V.FLOAT32)
    path = with_keys(
        tmp_path, **{"tokenizer.ggml.model": ("llama", V.STRING), "tokenizer.ggml.scores": scores}
    )
    assert refuses(open_all, path).expected == "a list of finite numbers"


def test_divisors_for_another_size_of_heads(tmp_path, refuses):
    divisors = np.ones(3, np.float32)
    path, _ = with_twin(
        tmp_path, "llama", change=lambda w: w.add_tensor("rope_freqs.weight", divisors)
    )
    assert refuses(open_all, path).got == "3"


def test_a_key_that_is_there_twice(tmp_path, refuses):
    path, _ = with_twin(
        tmp_path,
        "llama",
        add_bos_token=False,
        change=lambda w: w.add_bool("tokenizer.ggml.add_bos_tokex", True),
    )
    path.write_bytes(path.read_bytes().replace(b"add_bos_tokex", b"add_bos_token"))
    assert refuses(ModelFiles, path).got == "'tokenizer.ggml.add_bos_token' twice"


def _array(inner, length):
    return struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, inner, length)


@pytest.mark.parametrize(
    ("counts", "content", "got"),
    [
        ((0, 2**40), b"", "keys"),
        ((2**40, 0), b"", "tensors"),
        ((0, 1), _array(8, 2**23), "entries in arrays"),
        ((0, 1), _array(0, 2**23), "entries in arrays"),
        ((0, 1), struct.pack("<Q", 2**25), "bytes of a text"),
    ],
)
def test_a_header_is_bounded_in_time_and_memory(counts, content, got, tmp_path, refuses):
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, *counts) + content)
        file.truncate(300_000_000)  # zeros that take no room
    assert got in refuses(ModelFiles, path).got
