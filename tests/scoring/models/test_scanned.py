"""Scanned layers score as unrolled ones."""

import jax
import numpy as np
import pytest
from flax import nnx
from naive_scoring import SHOTS, UP_TO_SEVEN_TOKENS, queries
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.scanned import ScannedBlocks

DEPTH = {"gpt2": "n_layer"}
PERIODS = {"gpt2": 1, "qwen3": 1, "mixtral": 1, "gemma3_text": 3, "smollm3": 4, "gpt_oss": 2}
"""Family -> the layers of a period."""


@pytest.mark.parametrize("family", PERIODS)
def test_scores_and_prefixes_are_equal(family, tmp_path, monkeypatch):
    raw = {"model_type": family} | CAUSAL_FAMILIES[family]
    raw |= {DEPTH.get(family, "num_hidden_layers"): 2 * PERIODS[family] + 1}
    for key in ("layer_types", "no_rope_layers"):
        raw.pop(key, None)
    raw |= {"gemma3_text": {"sliding_window_pattern": 3, "sliding_window": 8}}.get(family, {})
    folder = write(tmp_path, raw, noise=0.4)
    texts = [SHOTS + query for query in queries(5)]
    unrolled = load_checkpoint(folder)
    expected = CausalLM(unrolled).score(texts, UP_TO_SEVEN_TOKENS).log_probs
    monkeypatch.setattr(weights, "SCANNED", ("cpu",))
    scanned = load_checkpoint(folder)
    blocks = scanned.model.blocks
    assert isinstance(blocks, ScannedBlocks)
    assert len(blocks.bodies) == PERIODS[family]
    assert len(blocks.rest) == (PERIODS[family] > 1)
    got = CausalLM(scanned).score(texts, UP_TO_SEVEN_TOKENS).log_probs
    np.testing.assert_allclose(got, expected, atol=2e-5)
    sizes = [
        sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model)))
        for model in (unrolled.model, scanned.model)
    ]
    assert sizes[0] == sizes[1]
