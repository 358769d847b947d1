"""Prompts beyond the length that longrope was first trained for: no row depends on another."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_scoring import SHOTS
from tiny import SHAPE, write

from batch_calibration.scoring.causal_lm import CausalLM, long_network
from batch_calibration.scoring.models.attention import causal
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

FIRST = 100
"""Tokens that the network was first trained for."""
ROPE = {"type": "longrope", "short_factor": [1.5, 2.0], "long_factor": [3.0, 4.0]}
RAW = SHAPE | {"model_type": "phi3", "num_key_value_heads": 2, "rope_scaling": ROPE}
RAW |= {"original_max_position_embeddings": FIRST, "sliding_window": 90}
LABELS = [" positive", " so so", " unflinchingly bleak zebra"]
TEXTS = [f"{SHOTS[:120]}Review: {'so ' * n}fine\nSentiment:" for n in range(0, 45, 4)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_checkpoint(write(tmp_path_factory.mktemp("long"), RAW, noise=0.4))


@pytest.fixture(scope="module")
def expected(checkpoint):
    """Each label alone, by the network for sequences of its length; and which are long."""
    first_length, long_model = long_network(checkpoint.config, checkpoint.model)
    assert first_length == FIRST and checkpoint.config.positions == 320

    @jax.jit
    def run(model, tokens):
        return model.unembed(model.hidden(tokens, jnp.arange(320)[None], causal))[0]

    scores, is_long = np.zeros((2, len(TEXTS), len(LABELS)))
    for (row, column), _ in np.ndenumerate(scores):
        prompt = checkpoint.tokenizer.encode(TEXTS[row]).ids
        ids = checkpoint.tokenizer.encode(TEXTS[row] + LABELS[column]).ids
        is_long[row, column] = len(ids) - 1 > FIRST
        model = long_model if is_long[row, column] else checkpoint.model
        fed = np.zeros((1, 320), np.int32)
        fed[0, : len(ids) - 1] = ids[:-1]  # what follows is seen by none of them
        logits = np.asarray(run(model, fed))
        log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        label_places = range(len(prompt), len(ids))
        scores[row, column] = sum(float(log_probs[at - 1, ids[at]]) for at in label_places)
    long_labels = is_long.sum(axis=1)
    assert {*long_labels} >= {0, 3} and {*long_labels} & {1, 2}  # some rows need both networks
    return scores


@pytest.mark.parametrize("batch_size", [1, 64])
def test_scores_are_those_of_each_label_alone(checkpoint, expected, batch_size):
    scores = CausalLM(checkpoint, batch_size=batch_size).score(TEXTS, LABELS).log_probs
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_row_that_needs_one_network_is_scored_by_itself(checkpoint, expected):
    scorer = CausalLM(checkpoint)
    for row in (0, -1):  # the shortest and the longest
        scores = scorer.score([TEXTS[row]], LABELS).log_probs
        np.testing.assert_allclose(scores, expected[[row]], atol=1e-4)


class HalfFinished:
    """Every second row is scored already."""

    failed: ClassVar[dict[int, str]] = {}

    def __init__(self, scores):
        self.rows = {row: scores[row].astype(np.float32) for row in range(0, len(scores), 2)}
        self.added = {}

    def add(self, rows, values, failed=None):
        self.added |= dict(zip(rows, values, strict=True))


def test_going_on_scores_the_other_rows(checkpoint, expected):
    finished = HalfFinished(expected)
    scores = CausalLM(checkpoint, batch_size=4).score(TEXTS, LABELS, finished=finished).log_probs
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert finished.added.keys() >= {*range(1, len(TEXTS), 2)}
