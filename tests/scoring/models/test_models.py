"""Families against arrays that transformers wrote (tests/reference/make_golden.py)."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from test_attention import softmax

from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.attention import (
    AttentionOptions,
    Heads,
    append_cache,
    causal,
    prefix_attention,
)
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.layers import ACTIVATIONS, activation

GOLDEN = sorted((Path(__file__).parent / "golden").iterdir())


def test_every_family_has_golden_arrays():
    # Those of CLIP and SigLIP have two towers and tests of their own (test_clip.py).
    two_towers = Path(__file__).parent / "golden_clip"
    paths = [*GOLDEN, two_towers / "clip_plain", two_towers / "siglip_plain"]
    names = {json.loads((path / "config.json").read_text())["model_type"] for path in paths}
    assert names == set(FAMILIES)


@pytest.mark.parametrize("directory", GOLDEN, ids=lambda path: path.name)
def test_equals_transformers(directory):
    family = FAMILIES[json.loads((directory / "config.json").read_text())["model_type"]]
    golden = load_file(directory / "expected" / "answers.safetensors")
    config, model = weights.load(directory, family)
    tokens = jnp.asarray(golden["tokens"])
    # Phi-3's are of the first length, beyond which its network is another (test_longrope.py).
    assert tokens.shape[1] == config.positions or directory.name == "phi3_long"
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)

    @jax.jit
    def run(model):
        return model.unembed(model.hidden(tokens, positions, causal))

    np.testing.assert_allclose(run(model), golden["answers"], atol=1e-4)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"cap": 5.0}, {"scale": 0.7, "cap": 2.0}])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_prefix_attention_is_softmax_over_what_was_cached(length, options, at_once):
    random = np.random.default_rng(0)
    q = random.normal(0, 4, (6, 4, 3)).astype(np.float32)
    k, v = random.normal(0, 4, (2, 1, 8, 2, 3)).astype(np.float32)
    cached = jax.jit(append_cache, static_argnums=5)(None, k, v, 0, length, 9)
    chosen = AttentionOptions(**options)
    got = prefix_attention(jnp.asarray(q), *cached, options=chosen, at_once=at_once)
    scale, seen = options.get("scale", 3**-0.5), np.ones((1, 6, length))
    expected = softmax(q[None], k[:, :length], v[:, :length], seen, scale, options.get("cap"))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b[0], atol=1e-5)


def test_cached_in_two_parts_or_one():
    random = np.random.default_rng(2)
    k, v = jnp.asarray(random.normal(0, 4, (2, 1, 8, 2, 3)).astype(np.float32))
    at_once = append_cache(None, k, v, 0, 7, 9)
    first = append_cache(None, k[:, :6], v[:, :6], 0, 6, 6)
    for a, b in zip(at_once, append_cache(first, k[:, 4:], v[:, 4:], 4, 3, 9), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"cap": 5.0}, {"window": 3}])
def test_causal_is_softmax_over_what_came_before(options):
    random = np.random.default_rng(3)
    q = random.normal(0, 2, (1, 6, 4, 3)).astype(np.float32)
    k, v = random.normal(0, 2, (2, 1, 6, 2, 3)).astype(np.float32)
    got = causal(0, Heads(*map(jnp.asarray, (q, k, v)), AttentionOptions(**options)))
    seen = np.tril(np.ones((6, 6))) - np.tril(np.ones((6, 6)), -options.get("window", 6))
    scale = options.get("scale", 3**-0.5)
    expected = softmax(q, k, v, seen[None], scale, options.get("cap"))[0]
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_activations_by_name():
    x = jnp.linspace(-3.0, 3.0, 7)
    assert float(jnp.abs(activation("gelu")(x) - activation("gelu_new")(x)).max()) > 1e-5
    assert all(activation(name)(x).shape == x.shape for name in ACTIVATIONS)
