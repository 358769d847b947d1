"""The engine against scoring one sequence at a time, for every causal family."""

import numpy as np
import pytest
from naive_scoring import LABELS, SHOTS, UP_TO_SEVEN_TOKENS, naive, queries
from tiny import CAUSAL_FAMILIES, write

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

TWENTY = [f" {a}{b}" for a in "pqrst" for b in "wxyz"]


def test_every_causal_family_is_here():
    causal = {name for name, family in FAMILIES.items() if family.kind == "causal_lm"}
    assert causal == CAUSAL_FAMILIES.keys()


@pytest.fixture(scope="module", params=CAUSAL_FAMILIES)
def checkpoint(request, tmp_path_factory):
    raw = {"model_type": request.param} | CAUSAL_FAMILIES[request.param]
    return load_checkpoint(write(tmp_path_factory.mktemp("family"), raw, noise=0.4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shots", "rows", "labels"),
    [
        pytest.param("", 5, LABELS, id="empty context"),
        pytest.param(SHOTS * 2, 3, UP_TO_SEVEN_TOKENS, id="long context, labels of 1 to 7 tokens"),
        pytest.param(SHOTS, 1, TWENTY, id="one row, twenty labels"),
    ],
)
def test_equals_naive_scoring(checkpoint, shots, rows, labels):
    texts = [shots + query for query in queries(rows)]
    scores = CausalLM(checkpoint).score(texts, labels).log_probs
    expected = naive(checkpoint, texts, labels)
    assert expected.std() > 0.1
    np.testing.assert_allclose(scores, expected, atol=1e-4)
