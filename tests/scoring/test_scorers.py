"""Properties of every scorer: light types, labels of several texts, inputs they refuse."""

from typing import get_args

import numpy as np
import pytest
from processes import python
from tiny import CLIP, GPT2, write

from batch_calibration.scoring import ImageInputs, Scorer
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.dual_encoder import DualEncoder
from batch_calibration.scoring.engine import label_texts
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import ScorerKind, Settings
from batch_calibration.studies.loading import load_scorer

TEXTS = ["Review: slow\nSentiment:", "Review: very fine\nSentiment:", "Review: bleak\nSentiment:"]
LABELS = [(" good", " very fine", " fine"), " bad", (" so so",)]
FLAT = [" good", " very fine", " fine", " bad", " so so"]


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return CausalLM(load_checkpoint(write(tmp_path_factory.mktemp("causal"), GPT2)))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return DualEncoder(load_checkpoint(write(tmp_path_factory.mktemp("dual"), CLIP)))


def test_the_types_load_no_framework():
    # The package's face loads jax; what is asked here is what the scorers' types load.
    script = (
        "import sys, types; face = types.ModuleType('batch_calibration'); "
        "face.__path__ = ['batch_calibration']; sys.modules['batch_calibration'] = face; "
        "import batch_calibration.scoring.engine.label_texts, batch_calibration.scoring.table; "
        "print([name for name in ('jax', 'flax') if name in sys.modules])"
    )
    assert python("-c", script).stdout.strip() == "[]"


def test_settings_name_every_scorer_of_the_table():
    assert get_args(ScorerKind) == tuple(SCORERS)


@pytest.mark.parametrize("kind", ["causal", "encoder"])
@pytest.mark.parametrize("texts", [(["a \ud800"], ["x", "y"]), (["a"], ["\udc00", "y"])])
def test_half_a_surrogate_pair_is_no_text(request, kind, texts, refuses):
    error = refuses(request.getfixturevalue(kind).score, *texts)
    assert "without halves of surrogate pairs" in str(error) and "\\ud" in str(error)


def test_causal_lm_adds_the_probabilities_of_a_label_s_surface_forms(causal):
    forms = np.exp(np.float64(causal.score(TEXTS, FLAT).log_probs))
    expected = np.stack([forms[:, :3].sum(axis=1), forms[:, 3], forms[:, 4]], axis=1)
    scores = causal.score(TEXTS, LABELS)
    np.testing.assert_allclose(np.exp(scores.log_probs), expected, rtol=1e-5)
    assert scores.log_probs.dtype == np.float32 and scores.log_probs.shape == (3, 3)


def test_a_dual_encoder_has_no_denominator_to_leave_out(refuses):
    settings = Settings.of(scorer="dual_encoder", model="mini_clip", logits_only=True)
    assert refuses(load_scorer, settings).key == "logits_only"


def test_dual_encoder_averages_the_embeddings_of_a_label_s_statements(encoder):
    statements, _ = encoder.embed(FLAT)
    texts, _ = encoder.embed(TEXTS)
    means = np.stack([statements[:3].mean(axis=0), statements[3], statements[4]])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    scores = encoder.score(TEXTS, LABELS).log_probs
    np.testing.assert_allclose(scores, 20 * texts @ means.T, atol=1e-5)


def test_a_label_of_one_text_is_that_text(causal, encoder):
    scorers: tuple[Scorer, ...] = (causal, encoder)
    for scorer in scorers:
        alone, listed = (scorer.score(TEXTS, labels) for labels in (FLAT, [[t] for t in FLAT]))
        np.testing.assert_array_equal(alone.log_probs, listed.log_probs)


def test_a_label_without_texts_is_refused(causal, encoder, refuses):
    assert label_texts.flatten([("a", "b"), "cd"]) == (["a", "b", "cd"], [2, 1])
    assert label_texts.LabelScorer("a model", 1).batch_size == 1
    assert refuses(label_texts.LabelScorer, "a model", 0).where == "batch_size"
    for scorer in (causal, encoder):
        assert refuses(scorer.score, TEXTS, [" a", [], " b"]).where == "label 2"


def test_a_language_model_refuses_images(causal, refuses):
    assert "a gpt2 network" in str(refuses(causal.score, ImageInputs([]), FLAT))
