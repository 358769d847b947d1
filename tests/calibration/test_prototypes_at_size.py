"""PC's search by a sample of the rows: it ends as the full search, whatever the padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration.calibration.mixture import SLOTS, fit_starts
from batch_calibration.calibration.prototypes import (
    COVARIANCE_RIDGE,
    REFINED,
    draw_rows,
    prototypes,
)

KEY = jax.random.key(0)

SEARCH = {"starts": REFINED + 10, "searched": 250}
"""So many rows are searched whole; of 300, a sample, and 10 starts are dropped after it."""


def overlapping(rows, seed):
    """Scores whose mixtures have several ends, so that it matters which starts are followed."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, 2, rows)
    return jnp.asarray(random.normal(0, 1, (rows, 2)) + 1.6 * np.eye(2)[gold], jnp.float32)


def same(first, second):
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_search_by_a_sample_ends_as_the_full_search():
    rows = overlapping(300, 6)
    full = prototypes(**SEARCH | {"searched": 300}).fit(rows, key=KEY)
    same(prototypes(**SEARCH).fit(rows, key=KEY), full)  # of the sample's worst it would be another


def test_a_sample_is_of_present_rows_whatever_padding_follows():
    weight = jnp.asarray([1.0] * 30 + [0.0] * 20)
    drawn = draw_rows(KEY, weight, 20)
    assert len(set(drawn.tolist())) == 20 and int(drawn.max()) < 30
    np.testing.assert_array_equal(drawn, draw_rows(KEY, weight[:30], 20))


@pytest.mark.slow
@pytest.mark.parametrize("present", [300, 200])
def test_padding_changes_no_search(present):
    """Of 400 rows 300 are present, and a sample of them is searched, or 200, all searched."""
    rows = overlapping(present, 6)
    fit = prototypes(**SEARCH).fit
    padding = 400 - present
    padded = jnp.pad(rows, ((0, padding), (0, 0)), constant_values=jnp.nan)
    weight = jnp.pad(jnp.ones(present), (0, padding))
    same(fit(padded, None, weight, key=KEY), fit(rows, key=KEY))


@pytest.mark.slow
def test_a_search_by_a_sample_honors_weights():
    gold = np.arange(300) % 2
    rows = np.random.default_rng(0).normal(0, 0.5, (300, 2)) + 5.0 * np.eye(2)[gold]
    state = prototypes(**SEARCH).fit(rows, None, np.where(gold == 0, 3.0, 1.0), key=KEY)
    np.testing.assert_allclose(jnp.exp(state.log_weights), [0.75, 0.25], atol=0.01)


@pytest.mark.slow
def test_searches_by_a_sample_go_side_by_side():
    """In one `vmap`, a table that is searched by a sample and one that is searched whole."""
    rows = jnp.stack([overlapping(300, seed) for seed in (6, 3)])
    weights = jnp.ones((2, 300)).at[1, 200:].set(0.0)
    fit = prototypes(**SEARCH).fit
    together = jax.jit(jax.vmap(lambda sample, weight: fit(sample, None, weight, key=KEY)))
    states = together(rows, weights)
    for i in range(2):
        same([field[i] for field in states], fit(rows[i], None, weights[i], key=KEY))


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1, SLOTS + 1])
def test_only_so_many_starts_are_followed(most):
    white = jnp.asarray(np.random.default_rng(0).normal(size=(100, 2)), jnp.float32)
    starts = white[: 2 * (SLOTS + 3)].reshape(-1, 2, 2)
    rest = (white, jnp.ones(100), COVARIANCE_RIDGE * jnp.eye(2), starts)
    fit = jax.jit(lambda most: fit_starts(*rest, steps=20, tolerance=1e-3, most=most))
    limited, followed = fit(most), fit(len(starts))
    assert not limited.steps[most:].any() and bool(jnp.all(limited.likelihood[most:] == -jnp.inf))
    np.testing.assert_array_equal(limited.steps[:most], followed.steps[:most])
    np.testing.assert_array_equal(limited.likelihood[:most], followed.likelihood[:most])
    assert followed.steps.all()
