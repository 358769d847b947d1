"""CLIP and SigLIP against arrays that transformers wrote (tests/reference/make_golden_clip.py)."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from batch_calibration.scoring.models import FAMILIES, clip
from batch_calibration.scoring.models.files import tokenizer_files, weights
from batch_calibration.scoring.models.files.checkpoint import load_tokenizer
from batch_calibration.scoring.models.files.config import read_config

GOLDEN = Path(__file__).parent / "golden_clip"
CASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("directory", CASES, ids=lambda path: path.name)
def test_equals_transformers(directory):
    golden = load_file(directory / "expected" / "answers.safetensors")
    family = FAMILIES[json.loads((directory / "config.json").read_text())["model_type"]]
    config, model = weights.load(directory, family)
    tokens = jnp.asarray(golden["tokens"])
    assert tokens.shape[1] == config.positions
    lengths, bias = None, 0.0
    if family.name == "siglip":
        is_token = tokens != config.text_pad_token_id
        # As the scorer pads, which knows no padding token.
        tokens, lengths = jnp.where(is_token, tokens, 0), is_token.sum(axis=1)
        bias = float(model.logit_bias[0])

    @jax.jit
    def run(model):
        return model.embed_image(jnp.asarray(golden["pixels"])), model.embed_text(tokens, lengths)

    image, text = map(np.asarray, run(model))
    np.testing.assert_allclose(image, golden["image"], atol=1e-4)
    np.testing.assert_allclose(text, golden["text"], atol=1e-4)
    image, text = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (image, text))
    logits = float(model.scale) * image @ text.T + bias
    np.testing.assert_allclose(logits, golden["logits"], atol=1e-3)


def test_what_follows_the_end_token_changes_nothing():
    _, model = weights.load(GOLDEN / "clip_plain", clip.FAMILY)
    tokens = jnp.array([[5, 6, 60]])
    padded = jnp.array([[5, 6, 60, 0, 60, 7, 9, 0, 0, 0, 0, 0, 0, 0]])
    assert padded.shape[1] > 12
    np.testing.assert_allclose(model.embed_text(tokens), model.embed_text(padded), atol=1e-5)


def test_keys_that_a_config_leaves_out_are_those_of_vit_b_32(tmp_path):
    config = read_config(clip.FAMILY, {"model_type": "clip"}, tmp_path)
    assert config == clip.Config()
    raw = {"text_config": {"hidden_size": 8}, "text_config_dict": {"num_attention_heads": 4}}
    raw |= {"vision_config": {"patch_size": 16}, "vision_config_dict": None}
    config = read_config(clip.FAMILY, raw, tmp_path)
    assert (config.text_hidden_size, config.text_num_attention_heads) == (512, 4)
    assert config.vision_patch_size == 16


def test_sentences(tmp_path, refuses):
    def read(**raw):
        return read_config(clip.FAMILY, raw, tmp_path)

    assert "num_channels = 1" in str(refuses(read, vision_config={"num_channels": 1}))
    error = refuses(read, vision_config={"image_size": [224, 224]})
    assert "image_size = [224, 224]" in str(error)
    config = read(vision_config={"num_attention_heads": 5})
    assert refuses(clip.Shape.of, config, "vision").where == "config.json, vision tower"
    assert "divisor of the width 10" in str(refuses(read, text_config={"hidden_size": 10}))


def test_token_ids_equal_transformers(shared):
    merges = shared / "tokenizers" / "clip" / "bpe_simple_vocab_16e6.txt.gz"
    tokenizer = tokenizer_files.load(merges)
    assert tokenizer.get_vocab_size() == 49408
    for text, ids in json.loads((GOLDEN / "captions.json").read_text()):
        assert tokenizer.encode(text).ids == ids, text
    assert tokenizer.encode("").ids == [49406, 49407]


def test_a_directory_with_merges_alone(tmp_path, refuses):
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a\nca t</w>\n")
    tokenizer_info = load_tokenizer(tmp_path)
    assert tokenizer_info.tokenizer.encode("A  CAT").tokens[1:-1] == ["a</w>", "cat</w>"]
    assert tokenizer_info.positions == 77
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a t\n")
    assert "two tokens" in refuses(load_tokenizer, tmp_path).expected
    (tmp_path / "merges.txt").write_bytes(b"\xff\xfe\x00")
    assert "byte 0xff" in refuses(load_tokenizer, tmp_path).got
