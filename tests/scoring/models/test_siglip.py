"""SigLIP in the dual encoder: captions padded as in training, read as its class reads them."""

import json
import re
import string
import unicodedata

import jax.numpy as jnp
import numpy as np
import pytest
from tiny import byte_level, write
from tokenizers import Tokenizer, models

from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.models import siglip
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint, load_tokenizer

SIZES = {"hidden_size": 8, "intermediate_size": 12}
TOWER = SIZES | {"num_hidden_layers": 1, "num_attention_heads": 2}
RAW = {
    "model_type": "siglip",
    "text_config": TOWER | {"vocab_size": 400, "max_position_embeddings": 24, "pad_token_id": 3},
    "vision_config": TOWER | {"image_size": 8, "patch_size": 4},
}


@pytest.fixture
def directory(tmp_path):
    write(tmp_path, RAW, noise=0.4)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "SiglipTokenizer"}')
    return tmp_path


def test_captions_are_padded_to_all_positions(directory):
    checkpoint = load_checkpoint(directory)
    captions = ["a slow zebra", "fine", "not even " * 4]
    vectors, counts = DualEncoder(checkpoint, scale=0).embed(captions)
    for caption, vector, count in zip(captions, vectors, counts, strict=True):
        ids = checkpoint.tokenizer.encode(caption).ids
        assert count == len(ids) < 24
        padded = jnp.array([ids + [3] * (24 - len(ids))])
        expected = np.asarray(checkpoint.model.embed_text(padded, jnp.array([24])))[0]
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


def test_an_image_has_a_token_for_each_patch(directory):
    assert load_checkpoint(directory).config.image_tokens == 4


def test_texts_are_canonical(directory, refuses):
    ids = byte_level().encode("a photo of a dogs c").ids
    assert load_tokenizer(directory).tokenizer.encode("  A photo\tof a DOG's, (c)!").ids == ids
    path = directory / "tokenizer_config.json"
    path.write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert load_tokenizer(directory).tokenizer.encode("A!").ids == byte_level().encode("A!").ids
    path.write_text('{"tokenizer_class": "GemmaTokenizer"}')
    assert refuses(load_tokenizer, directory).got == "GemmaTokenizer"


def test_any_character_is_read_as_by_the_class(tmp_path):
    """Which needs sentencepiece for more than this: its `canonicalize_text` is written out."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0}))
    siglip.canonicalize(tokenizer, tmp_path)
    without_punctuation = str.maketrans("", "", string.punctuation)
    for character in map(chr, range(0x10000)):
        # Left out: surrogates, what Unicode has only since, and the capital sigma, which the
        # tokenizers library lowers without looking whether it is a word's last letter.
        if unicodedata.category(character) in ("Cs", "Cn") or character == "Σ":
            continue
        text = f"{character}A {character}  b{character}"
        expected = re.sub(r"\s+", " ", text.lower().translate(without_punctuation)).strip()
        assert tokenizer.normalizer.normalize_str(text) == expected, hex(ord(character))


def test_a_vision_tower_without_its_pooling_is_refused(directory, refuses):
    raw = RAW | {"vision_config": RAW["vision_config"] | {"vision_use_head": False}}
    (directory / "config.json").write_text(json.dumps(raw))
    assert "vision_use_head = False" in str(refuses(load_checkpoint, directory))
