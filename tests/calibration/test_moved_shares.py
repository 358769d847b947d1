"""Shares that labels move: estimates and moves against numpy, and the method `prior_moved`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from batch_calibration import calibrate
from batch_calibration.calibration.shares import (
    Estimate,
    move_shares,
    prior_moved,
    shares_of_counted,
    shares_of_scored,
)

SHARES = np.array([0.6, 0.3, 0.1])


def world(rows=400, shares=SHARES, bias=(0.0, 1.0, 0.0), seed=0):
    random, k = np.random.default_rng(seed), len(shares)
    gold = random.choice(k, rows, p=shares)
    scores = 2 * np.eye(k)[gold] + random.normal(size=(rows, k)) + np.array(bias) - 4
    return scores.astype(np.float32), gold.astype(np.int32)


def estimate_scored(probs, labels, weights):
    """Estimates shares and the mean variance of a share in loops over rows."""
    k = probs.shape[1]
    known = [i for i in range(len(labels)) if labels[i] >= 0 and weights[i] > 0]
    missed = np.array([np.eye(k)[labels[i]] - probs[i] for i in known])
    part = weights[known] / weights[known].sum()
    mean, m = part @ missed, weights[known].sum()
    spread = (weights[known][:, None] * (missed - mean) ** 2).sum() / (m - 1)
    return np.average(probs, axis=0, weights=weights) + mean, spread / (m * k)


def move(start, estimate, variance, m):
    """Moves shares as METHODS.md states it."""
    k, away = len(start), estimate - start
    moved = start + max(0.0, 1 - 2 * variance * k / (away @ away)) * away
    moved = np.maximum(moved, 1 / (4 * m * k))
    return moved / moved.sum()


def test_the_estimate_of_scored_labels_is_that_of_loops():
    scores, gold = world(60)
    probs = softmax(scores.astype(float), axis=1)
    labels = np.where(np.arange(60) < 20, gold, -1).astype(np.int32)
    weights = np.tile([1.0, 0.0, 2.0, 1.0], 15).astype(np.float32)
    expected, variance = estimate_scored(probs, labels, weights)
    found = jax.jit(shares_of_scored)(probs.astype(np.float32), labels, weights)
    np.testing.assert_allclose(found.shares, expected, atol=1e-5)
    assert float(found.variance) == pytest.approx(variance, abs=2e-6)
    several = jax.vmap(shares_of_scored, (0, None, None))(
        np.stack([probs, probs[:, ::-1]]).astype(np.float32), labels, weights
    )
    np.testing.assert_allclose(several.shares[0], expected, atol=1e-5)


def test_the_estimate_of_counted_labels_is_that_of_counts():
    for counts in ([12.0, 4.0, 0.0], [16.0, 0.0], [1.0, 1.0, 1.0, 1.0]):
        m, k = sum(counts), len(counts)
        found = shares_of_counted(jnp.float32(counts))
        np.testing.assert_allclose(found.shares, np.array(counts) / m, atol=1e-6)
        smooth = [(count + 1) / (m + k) for count in counts]
        variance = np.mean([share * (1 - share) for share in smooth]) / m
        assert float(found.variance) == pytest.approx(variance, rel=1e-5) and variance > 0


@pytest.mark.parametrize("variance", [1e-4, 0.004, 0.1])
@pytest.mark.parametrize("estimate", [(0.9, 0.1, 0.0), (0.5, 0.3, 0.2), (1.1, 0.1, -0.2)])
def test_shares_move_as_numpy_moves_them(estimate, variance):
    start, e = np.array([0.4, 0.35, 0.25]), np.array(estimate)
    given = Estimate(jnp.float32(e), jnp.float32(variance))
    for m in (16, 64):
        found = np.asarray(move_shares(jnp.float32(start), given, float(m)))
        np.testing.assert_allclose(found, move(start, e, variance, m), atol=1e-5)
        assert found.min() > 0 and found.sum() == pytest.approx(1)


def test_labels_that_agree_move_nothing():
    start = jnp.array([0.5, 0.3, 0.2])
    for estimate in (start, start + jnp.array([0.05, -0.05, 0.0])):
        given = Estimate(estimate, jnp.float32(0.01))
        np.testing.assert_allclose(move_shares(start, given, 32.0), start, atol=1e-6)


@pytest.mark.parametrize("bias", [(0.0, 0.0, 0.0), (0.0, 3.0, 0.0), (-2.0, 0.0, 1.0)])
def test_the_estimate_is_unbiased_over_draws_and_its_variance_is_right(bias):
    """The probabilities are wrong by a bias; labels are of 32 rows at random."""
    scores, gold = world(500, bias=bias)
    probs, shares = softmax(scores, axis=1), np.bincount(gold, minlength=3) / 500
    random, labels = np.random.default_rng(0), np.full((2000, 500), -1, np.int32)
    for own in labels:
        chosen = random.choice(500, 32, replace=False)
        own[chosen] = gold[chosen]
    found = jax.vmap(shares_of_scored, (None, 0, None))(probs, labels, np.ones(500, np.float32))
    error = np.std(found.shares, axis=0) / np.sqrt(2000)
    assert (np.abs(np.mean(found.shares, axis=0) - shares) < 4 * error).all()
    measured = float(np.var(found.shares, axis=0).mean())
    # Rows are drawn without replacement, which makes the variance 32 / 500 smaller.
    assert float(np.mean(found.variance)) == pytest.approx(measured / (1 - 32 / 500), rel=0.1)


@pytest.mark.parametrize("options", [{}, {"target_prior": (0.4, 0.4, 0.2)}, {"share_error": 0.0}])
def test_the_method_matches_the_moved_shares(options):
    scores, gold = world()
    labeled, labels = scores[:32], gold[:32]
    corrected = calibrate(scores[32:], "prior_moved", labeled=labeled, labels=labels, **options)
    name = "prior_matching" if options else "bc_empirical_bayes"
    own = options or {"least_information": 0.0}
    start = np.asarray(calibrate(scores[32:], name, **own), np.float64)
    bias = (scores[32:] - start)[0]
    probs = softmax(scores.astype(float) - bias, axis=1)
    known = np.concatenate([labels, np.full(len(scores) - 32, -1)])
    estimate, variance = estimate_scored(probs, known, np.ones(len(scores)))
    p0 = probs[32:].mean(axis=0)
    mean = softmax(np.asarray(corrected, float), axis=1).mean(axis=0)
    np.testing.assert_allclose(mean, move(p0, estimate, variance + 1e-6, 32), atol=2e-3)


def test_under_jit_and_vmap_and_with_permuted_labels_it_is_the_same():
    fit, apply = prior_moved()
    several = np.stack([world(80, seed=seed)[0] for seed in range(3)])
    labels = np.where(np.arange(80) < 20, world(80)[1], -1).astype(np.int32)

    def correct(rows):
        return apply(fit(rows, labels), rows)

    together = jax.jit(jax.vmap(correct))(several)
    for rows, corrected in zip(several, together, strict=True):
        np.testing.assert_allclose(corrected, correct(rows), atol=2e-3)
    turned = np.where(labels >= 0, 2 - labels, -1).astype(np.int32)
    back = apply(fit(several[0][:, ::-1], turned), several[0][:, ::-1])[:, ::-1]
    np.testing.assert_allclose(back, together[0], atol=2e-3)


def test_labels_of_uneven_rows_raise_the_accuracy():
    """The likely shift takes shares for a bias; 32 labels show it."""
    gains = []
    for seed in range(5):
        shares = np.array([0.85, 0.15])
        scores, gold = world(532, shares, (1.5, 0.0), seed)
        rows, right = scores[32:], gold[32:]
        moved = calibrate(rows, "prior_moved", labeled=scores[:32], labels=gold[:32])
        equal = calibrate(rows, "prior_matching", share_error=0.0)
        hits = [np.asarray(of).argmax(axis=1) == right for of in (moved, equal)]
        gains.append(hits[0].mean() - hits[1].mean())
    assert np.mean(gains) > 0.05


def test_without_labels_it_is_refused(refuses):
    assert "labels" in str(refuses(calibrate, world(30)[0], "prior_moved"))
