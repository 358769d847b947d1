"""Weights in MXFP4, as gpt-oss has them, against the format's definition."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.files.tensors import tensors

RAW = {"model_type": "gpt_oss"} | CAUSAL_FAMILIES["gpt_oss"]
RAW |= {"hidden_size": 32, "intermediate_size": 64}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}


def number(bits):
    """A number of 4 bits: a sign, two bits of exponent, one of mantissa."""
    sign, exponent, mantissa = bits >> 3, bits >> 1 & 3, bits & 1
    size = mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return -size if sign else size


def unpack(blocks, scales):
    """The weights `[experts, in, out]` of blocks and scales, one by one."""
    experts, outputs, groups, size = blocks.shape
    weights = np.zeros((experts, groups * size * 2, outputs), np.float32)
    for e, o, g, byte in np.ndindex(blocks.shape):
        scale, both = 2.0 ** (int(scales[e, o, g]) - 127), int(blocks[e, o, g, byte])
        for half, bits in enumerate((both & 15, both >> 4)):
            weights[e, (g * size + byte) * 2 + half, o] = number(bits) * scale
    return weights


@pytest.fixture
def packed(tmp_path):
    """A directory of packed experts, and one of the same numbers as they are."""
    plain = write(tmp_path / "plain", RAW)
    random, arrays = np.random.default_rng(0), load_file(plain / "model.safetensors")
    in_blocks = dict(arrays)
    for name, array in arrays.items():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, inputs, outputs = array.shape
            blocks = random.integers(0, 256, (experts, outputs, inputs // 32, 16), np.uint8)
            scales = random.integers(122, 127, blocks.shape[:-1], np.uint8)
            arrays[name] = unpack(blocks, scales)
            del in_blocks[name]
            in_blocks |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(arrays, plain / "model.safetensors")
    directory = write(tmp_path / "packed", RAW)
    save_file(in_blocks, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(RAW | {"quantization_config": MXFP4}))
    return directory, plain


def test_packed_weights_are_their_numbers(packed):
    directory, plain = packed
    expected = load_file(plain / "model.safetensors")
    joined = {tensor.name: tensor for tensor in weights.join(tensors(directory))}
    assert joined.keys() == expected.keys()
    for name, array in expected.items():
        assert joined[name].shape == array.shape
        np.testing.assert_array_equal(joined[name].read(np.float32), array)


def test_a_packed_checkpoint_scores_as_the_plain_one(packed):
    texts, labels = ["Review: slow\nSentiment:", "Review: fine\nSentiment:"], [" pos", " negative"]
    scores = [CausalLM(load_checkpoint(path)).score(texts, labels).log_probs for path in packed]
    np.testing.assert_array_equal(*scores)


def test_blocks_that_fit_no_scales_are_refused(packed, refuses):
    directory, _ = packed
    arrays = load_file(directory / "model.safetensors")
    name = "model.layers.0.mlp.experts.down_proj_scales"
    save_file(arrays | {name: arrays[name][:, 1:]}, directory / "model.safetensors")
    assert f"unexpected {name}" in str(refuses(load_checkpoint, directory))


def test_other_quantizations_name_what_scores_them(packed, refuses):
    directory, _ = packed
    raw = RAW | {"quantization_config": {"quant_method": "gptq"}}
    (directory / "config.json").write_text(json.dumps(raw))
    assert "quant_method = 'gptq'" in str(refuses(load_checkpoint, directory))
