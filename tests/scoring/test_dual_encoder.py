"""Embeddings of texts in batches against one text at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import CLIP, GPT2, byte_level, write

from batch_calibration.scoring import dual_encoder
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

# With this id the tower is read at the largest token, wherever it stands.
RAW = CLIP | {"text_config": CLIP["text_config"] | {"eos_token_id": 2}}
LABELS = ["A negative movie review.", "A positive movie review."]


embed = jax.jit(lambda model, ids: model.embed_text(ids)[0])


def naive(checkpoint, text, most):
    """One text alone, without padding."""
    embedding = embed(checkpoint.model, jnp.array([checkpoint.tokenizer.encode(text).ids[:most]]))
    return np.asarray(embedding / jnp.linalg.norm(embedding))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    tokenizer = byte_level()
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(4)
    return load_checkpoint(write(tmp_path_factory.mktemp("dual"), RAW, tokenizer))


def texts(rows):
    random = np.random.default_rng(0)
    sizes = [(1, 4, 9, 20)[n % 4] for n in range(rows)]
    return [" ".join(random.choice(["slow", "fine", "a zebra"], size)) for size in sizes]


@pytest.mark.parametrize("rows", [1, 23])
def test_equals_one_text_at_a_time(checkpoint, rows):
    scores = DualEncoder(checkpoint, scale=10.0, max_tokens=30).score(texts(rows), LABELS)
    labels = np.stack([naive(checkpoint, label, 30) for label in LABELS])
    expected = np.stack([naive(checkpoint, text, 30) for text in texts(rows)]) @ labels.T
    np.testing.assert_allclose(scores.log_probs, 10.0 * expected, atol=1e-4)
    assert scores.log_probs.dtype == np.float32
    assert scores.tokens.max() <= 30


def test_batch_size_order_and_rows_tokenized_at_once_do_not_matter(checkpoint, monkeypatch):
    rows, heard = texts(70), []
    scores = DualEncoder(checkpoint).score(rows, LABELS, progress=heard.append)
    assert heard[-1] == 70 and heard == sorted(heard)
    single = DualEncoder(checkpoint, batch_size=1).score(rows[::-1], LABELS)
    np.testing.assert_allclose(scores.log_probs, single.log_probs[::-1], atol=2e-5)
    np.testing.assert_array_equal(scores.tokens, single.tokens[::-1])
    monkeypatch.setattr(dual_encoder, "TOKENIZED_ROWS", 16)
    in_batches = DualEncoder(checkpoint).score(rows, LABELS)
    np.testing.assert_allclose(scores.log_probs, in_batches.log_probs, atol=2e-5)


def test_identity(checkpoint):
    identity = DualEncoder(checkpoint).identity
    assert identity == DualEncoder(checkpoint, batch_size=2).identity
    assert identity != DualEncoder(checkpoint, scale=10.0).identity
    assert identity["max_tokens"] == 40


def test_texts_that_are_cut_are_counted_in_a_note(checkpoint):
    scorer = DualEncoder(checkpoint, max_tokens=12)
    texts = [" ".join(count * ["fine"]) for count in range(1, 12)]
    fits = next(x for x in texts if len(checkpoint.tokenizer.encode(x).ids) == 12)
    scorer.score([fits, fits + " fine", "fine"], ["fine", "slow"])
    limit = "(max_tokens=; 0 is the checkpoint's own limit)"
    assert scorer.notes == [f"1 of 3 texts are longer than 12 tokens and cut there {limit}"]


def test_sentences(checkpoint, tmp_path, refuses):
    scorer = DualEncoder(checkpoint)
    assert refuses(scorer.score, ["a"], []).where == "labels"
    assert "'x' and 'x'" in str(refuses(scorer.score, ["a"], ["x", "x"]))
    assert refuses(scorer.score, ["a", ""], LABELS).where == "row 1"
    for scale in (-1.0, float("nan"), float("inf")):
        assert refuses(DualEncoder, checkpoint, scale=scale).where == "scale"
    for most in (-5, 2):
        assert refuses(DualEncoder, checkpoint, max_tokens=most).where == "max_tokens"
    assert "a clip network" in str(refuses(CausalLM, checkpoint))
    gpt2 = load_checkpoint(write(tmp_path, GPT2))
    assert "a gpt2 network" in str(refuses(DualEncoder, gpt2))
