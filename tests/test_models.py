"""Families against arrays that transformers wrote (tests/reference/make_golden.py)."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from batch_calibration.models import FAMILIES, weights
from batch_calibration.models.activations import ACTIVATIONS, activation
from batch_calibration.models.attention import causal, keep, masked, past
from batch_calibration.typing import InputError

GOLDEN = sorted((Path(__file__).parent / "golden").iterdir())


def test_every_family_has_golden_arrays():
    names = {json.loads((path / "config.json").read_text())["model_type"] for path in GOLDEN}
    assert names == set(FAMILIES)


@pytest.mark.parametrize("directory", GOLDEN, ids=lambda path: path.name)
def test_equals_transformers(directory):
    family = FAMILIES[json.loads((directory / "config.json").read_text())["model_type"]]
    golden = load_file(directory / "expected" / "answers.safetensors")
    config, model = weights.load(directory, family)
    tokens = jnp.asarray(golden["tokens"])
    assert tokens.shape[1] == config.positions
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)

    @jax.jit
    def run(model):
        if hasattr(model, "unembed"):
            return model.unembed(model.hidden(tokens, positions, causal))
        every = masked(jnp.ones(tokens.shape, jnp.bool_))
        return model.hidden(tokens, positions, every, types=jnp.asarray(golden["types"]))

    np.testing.assert_allclose(run(model), golden["answers"], atol=1e-4)


def test_padding_changes_nothing():
    (directory,) = (path for path in GOLDEN if path.name == "bert_plain")
    _, model = weights.load(directory, FAMILIES["bert"])
    tokens = jnp.arange(8)[None]
    mask = jnp.arange(8)[None] < 5
    short = model.hidden(tokens[:, :5], tokens[:, :5], masked(mask[:, :5]))
    padded = model.hidden(tokens, tokens, masked(mask))[:, :5]
    np.testing.assert_allclose(short, padded, atol=1e-5)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_past_is_softmax_over_what_was_kept(length):
    random = np.random.default_rng(0)
    q = random.normal(0, 4, (6, 2, 3)).astype(np.float32)
    k, v = random.normal(0, 4, (2, 1, 8, 2, 3)).astype(np.float32)
    mean, mass = past(jnp.asarray(q), *keep(jnp.asarray(k), jnp.asarray(v), jnp.int32(length)))
    logits = np.einsum("nhd,shd->nhs", q, k[0, :length]).astype(np.float64) / 3**0.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    expected = np.einsum("nhs,shd->nhd", weights, v[0, :length]) / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    np.testing.assert_allclose(mass, logits.max(-1) + np.log(weights.sum(-1)), atol=1e-5)


def test_activations_by_name():
    x = jnp.linspace(-3.0, 3.0, 7)
    assert float(jnp.abs(activation("gelu")(x) - activation("gelu_new")(x)).max()) > 1e-5
    assert all(activation(name)(x).shape == x.shape for name in ACTIVATIONS)
    with pytest.raises(InputError, match="no activation function named 'rely'; did you mean 'relu"):
        activation("rely")
