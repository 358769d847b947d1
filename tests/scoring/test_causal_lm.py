"""The engine against scoring one sequence at a time."""

import numpy as np
import pytest
from naive_scoring import LABELS, SHOTS, naive, queries
from tiny import GPT2, byte_level, whole_text, write
from tokenizers.processors import TemplateProcessing

from batch_calibration.scoring import causal_lm
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_checkpoint(write(tmp_path_factory.mktemp("causal"), GPT2))


@pytest.mark.parametrize(
    ("shots", "rows", "labels"),
    [
        (SHOTS, 9, LABELS),
        ("", 5, LABELS),
        (SHOTS, 1, LABELS),
        ("", 1, [" positive"]),
        (SHOTS, 4, [" pos", " positive", " positive journey and acting"]),
        (SHOTS, 3, [" a", " ab", " abc", " abd", " b", "\nx"]),
        (SHOTS, 2, [f" {a}{b}" for a in "pqrst" for b in "wxyz"]),
        (SHOTS + SHOTS[:40], 3, [" yes", " no", " maybe"]),
    ],
)
def test_equals_naive_scoring(checkpoint, shots, rows, labels):
    texts = [shots + query for query in queries(rows)]
    scores = CausalLM(checkpoint).score(texts, labels)
    np.testing.assert_allclose(scores.log_probs, naive(checkpoint, texts, labels), atol=1e-4)
    assert scores.log_probs.dtype == np.float32
    assert scores.tokens.tolist() == [len(checkpoint.tokenizer.encode(t).ids) for t in texts]


def test_queries_without_a_common_beginning_and_two_contexts_in_one_call(checkpoint):
    two = [(SHOTS if row % 2 else SHOTS[80:]) + q for row, q in enumerate(queries(12))]
    for texts in (["a film", "zebra:", "very fine and slow"], two):
        scores = CausalLM(checkpoint).score(texts, LABELS).log_probs
        np.testing.assert_allclose(scores, naive(checkpoint, texts, LABELS), atol=1e-4)


def test_label_tokens_that_depend_on_the_row(tmp_path):
    checkpoint = load_checkpoint(write(tmp_path, GPT2, whole_text(70)))
    texts = ["Review: bleak\nSentiment:", "a charming and", "x", "Review: slow; the acting is "]
    labels = [" positive", " negative", " so so so"]
    scores = CausalLM(checkpoint).score(texts, labels).log_probs
    np.testing.assert_allclose(scores, naive(checkpoint, texts, labels), atol=1e-4)


def test_beginning_token(tmp_path):
    tokenizer = byte_level()
    end = tokenizer.token_to_id("<|end|>")
    special = [("<|end|>", end)]
    tokenizer.post_processor = TemplateProcessing("<|end|> $A <|end|>", special_tokens=special)
    checkpoint = load_checkpoint(write(tmp_path, GPT2, tokenizer))
    assert checkpoint.bos == tokenizer.token_to_id("<|end|>")
    texts = ["fine", ""]
    scores = CausalLM(checkpoint).score(texts, LABELS)
    np.testing.assert_allclose(scores.log_probs, naive(checkpoint, texts, LABELS), atol=1e-4)
    assert scores.tokens.tolist() == [1 + len(byte_level().encode("fine").ids), 1]


def test_batch_size_order_and_rows_tokenized_at_once_do_not_matter(checkpoint, monkeypatch):
    texts = [SHOTS + query for query in queries(65)]  # a row more than a batch
    heard: list[int] = []
    scores = CausalLM(checkpoint, batch_size=64).score(texts, LABELS, progress=heard.append)
    assert heard[-1] == 65 and heard == sorted(heard)
    single = CausalLM(checkpoint, batch_size=1).score(texts, LABELS)
    np.testing.assert_allclose(scores.log_probs, single.log_probs, atol=2e-5)
    order = np.random.default_rng(1).permutation(65)
    shuffled = CausalLM(checkpoint, batch_size=64).score([texts[row] for row in order], LABELS)
    np.testing.assert_allclose(scores.log_probs[order], shuffled.log_probs, atol=2e-5)
    np.testing.assert_array_equal(scores.tokens[order], shuffled.tokens)
    monkeypatch.setattr(causal_lm, "TOKENIZED_ROWS", {"cpu": 25})
    in_batches = CausalLM(checkpoint, batch_size=64).score(texts, LABELS, progress=heard.append)
    np.testing.assert_allclose(scores.log_probs, in_batches.log_probs, atol=2e-5)
    assert heard[-1] == 65


def test_other_contexts_of_like_length_do_not_recompile(checkpoint):
    scorer = CausalLM(checkpoint)
    texts = queries(20)
    scorer.score([SHOTS + text for text in texts], LABELS)
    compiled = programs.forward_packed._cache_size()
    scorer.score([SHOTS[:-10] + "!\n\n" + text for text in texts], LABELS)
    CausalLM(checkpoint).score([SHOTS[9:] + text for text in texts[::-1]], LABELS)
    assert programs.forward_packed._cache_size() == compiled


def test_no_rows(checkpoint):
    assert CausalLM(checkpoint).score([], LABELS).log_probs.shape == (0, 2)


def test_exactly_as_many_tokens_as_positions(checkpoint, refuses):
    text = "a " * 400
    ids = checkpoint.tokenizer.encode(text).ids
    full = checkpoint.tokenizer.decode(ids[: GPT2["n_positions"]]).rstrip()
    texts = [full, "a"]
    assert len(checkpoint.tokenizer.encode(full).ids) == GPT2["n_positions"]
    scores = CausalLM(checkpoint).score(texts, [" a", "."])
    expected = naive(checkpoint, texts[1:], [" a", "."])
    np.testing.assert_allclose(scores.log_probs[1:], expected, atol=1e-4)
    assert np.isfinite(scores.log_probs).all()
    error = refuses(CausalLM(checkpoint).score, ["a", full], LABELS)
    assert "row 1: a prompt of 160 tokens needs 162 positions" in str(error)


def test_numbers_that_overflow_are_named(tmp_path, refuses):
    scorer = CausalLM(load_checkpoint(write(tmp_path, GPT2, noise=1e37)))
    assert refuses(scorer.score, ["a"], LABELS).got == "nan"


def test_identity_is_what_decides_the_numbers(checkpoint, tmp_path):
    identity = CausalLM(checkpoint).identity
    assert identity == CausalLM(checkpoint, batch_size=3).identity
    assert identity["kind"] == "causal_lm"
    assert CausalLM(load_checkpoint(write(tmp_path, GPT2, seed=1))).identity != identity
