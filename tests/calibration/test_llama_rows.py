"""Forty-eight real LLaMA-7B rows: BC evens out a model that says C twice as often as A."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.base import predict
from batch_calibration.methods import METHODS


@pytest.fixture(scope="module")
def arc(shared):
    rows = json.loads((shared / "fixtures" / "arc_llama7b_first48.json").read_text())["rows"]
    probs = np.array([row["probs"] for row in rows])
    gold = np.array([row["gold"] for row in rows])
    return jnp.asarray(np.log(probs), jnp.float32), gold


@pytest.mark.parametrize(
    ("name", "counts"), [("icl", [8, 7, 20, 13]), ("bc", [13, 11, 14, 10]), ("bc_running", None)]
)
def test_predictions_per_option(name, counts, arc):
    scores, gold = arc
    calibrator = METHODS[name].make()
    predicted = predict(calibrator.apply(calibrator.fit(scores), scores))
    assert np.bincount(predicted, minlength=4).tolist() == (counts or [13, 11, 14, 10])
    assert int((predicted == gold).sum()) == 24
