"""PC against scikit-learn from the same starts, on degenerate rows, and under renaming."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import logsumexp
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture

from batch_calibration.calibration.mixture import PIECE, WHOLE
from batch_calibration.calibration.prototypes import (
    COVARIANCE_RIDGE,
    assign,
    draw_starts,
    prototypes,
)

KEY = jax.random.key(0)


def language_model_like(rows, labels, seed):
    """Scores with a label bias, a per-row constant, and classes that overlap."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, labels, rows)
    scores = random.normal(0, 1, (rows, labels)) + 1.6 * np.eye(labels)[gold]
    scores += random.normal(0, 1, labels) + random.normal(0, 1, (rows, 1)) - 6
    return jnp.asarray(scores, jnp.float32), gold


def features(rows):
    return np.asarray(jax.nn.log_softmax(rows), np.float64)


def peer(x, first):
    """scikit-learn's mixture from one start: means, the covariance of all rows, equal weights."""
    k = x.shape[1]
    precision = np.linalg.inv(np.cov(x.T, bias=True) + COVARIANCE_RIDGE * np.eye(k))
    start = {"means_init": first, "weights_init": np.full(k, 1 / k)}
    start["precisions_init"] = np.stack([precision] * k)
    return GaussianMixture(k, max_iter=100, tol=1e-3, reg_covar=COVARIANCE_RIDGE, **start).fit(x)


@pytest.mark.parametrize(("rows", "labels"), [(872, 2), (1500, 3), (WHOLE + PIECE // 2, 3)])
def test_densities_are_scikit_learn_s_from_the_same_starts(rows, labels):
    scores, _ = language_model_like(rows, labels, seed=3)
    x = features(scores)
    random = np.random.default_rng(5)
    for _ in range(2):
        first = x[random.choice(rows, labels, replace=False)]
        calibrator = prototypes(start_means=first[None], fitted_weights=True)
        ours = calibrator.apply(calibrator.fit(scores), scores)
        theirs = peer(x, first).score_samples(x)
        np.testing.assert_allclose(logsumexp(ours, axis=-1), theirs, atol=1e-4)


@pytest.mark.parametrize("labels", [2, 3])
def test_raw_densities_are_scikit_learn_s_on_raw_rows(labels):
    scores, _ = language_model_like(900, labels, seed=3)
    x = np.asarray(scores, np.float64)
    first = x[np.random.default_rng(5).choice(900, labels, replace=False)]
    calibrator = prototypes(features="raw", start_means=first[None], fitted_weights=True)
    ours = calibrator.apply(calibrator.fit(scores), scores)
    np.testing.assert_allclose(logsumexp(ours, axis=-1), peer(x, first).score_samples(x), atol=1e-4)


def test_raw_on_normalized_rows_is_pc():
    rows = jax.nn.log_softmax(separated()[0])
    either = [prototypes(starts=6, features=name) for name in ("normalized", "raw")]
    first, second = (calibrator.apply(calibrator.fit(rows, key=KEY), rows) for calibrator in either)
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-3)


def test_best_of_many_starts_is_scikit_learn_s_best():
    scores, _ = language_model_like(600, 2, seed=4)
    x = features(scores)
    random = np.random.default_rng(6)
    firsts = np.stack([x[random.choice(600, 2, replace=False)] for _ in range(6)])
    state = prototypes(start_means=firsts, select="likelihood").fit(scores)
    best = max(peer(x, first).lower_bound_ for first in firsts)
    assert float(state.log_likelihood) == pytest.approx(best, abs=1e-4)


def test_state_s_likelihood_is_that_of_its_rows_up_to_one_step():
    scores, _ = language_model_like(600, 2, seed=1)
    calibrator = prototypes(starts=6, select="likelihood", fitted_weights=True)
    state = calibrator.fit(scores, key=KEY)
    mean = float(jnp.mean(logsumexp(calibrator.apply(state, scores), axis=-1)))
    assert mean == pytest.approx(float(state.log_likelihood), abs=1e-3)


def test_the_best_start_wins_wherever_it_stands():
    scores, gold = language_model_like(400, 2, seed=2)
    x = features(scores)
    good = np.stack([x[gold == 0].mean(0), x[gold == 1].mean(0)])
    bad = np.stack([x.mean(0), x.mean(0)])  # both components alike: they never part
    calibrator = prototypes(start_means=good[None])
    expected = calibrator.apply(calibrator.fit(scores), scores)
    for order in ((good, bad, bad), (bad, good, bad), (bad, bad, good)):
        many = prototypes(start_means=np.stack(order))
        got = many.apply(many.fit(scores), scores)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def separated(order=(0, 1, 2)):
    random = np.random.default_rng(0)
    gold = np.arange(240) % 3
    scores = random.normal(0, 0.5, (240, 3)) + 5.0 * np.eye(3)[gold] + [0.0, 2.0, -1.0]
    inverse = np.argsort(order)
    return jnp.asarray(scores[:, list(order)], jnp.float32), inverse[gold]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_clusters_go_to_their_labels_however_they_are_named(order):
    rows, gold = separated(order)
    calibrator = prototypes(starts=20)
    predictions = jnp.argmax(calibrator.apply(calibrator.fit(rows, key=KEY), rows), axis=-1)
    assert float(jnp.mean(predictions == gold)) > 0.99


def test_order_of_rows_changes_few_predictions():
    rows, _ = separated()
    mixed = rows[np.random.default_rng(1).permutation(len(rows))]
    calibrator = prototypes(starts=20)
    first, second = (calibrator.apply(calibrator.fit(x, key=KEY), rows) for x in (rows, mixed))
    assert float(jnp.mean(jnp.argmax(first, -1) == jnp.argmax(second, -1))) > 0.99


def test_weight_zero_is_absent():
    rows, _ = separated()
    calibrator = prototypes(start_means=np.asarray(features(rows))[None, :3])
    weight = jnp.asarray([1.0] * 200 + [0.0] * 40)
    clean, poisoned = (calibrator.fit(rows.at[200:].set(x), None, weight) for x in (-3.0, jnp.nan))
    for expected, array in zip(clean, poisoned, strict=True):
        np.testing.assert_array_equal(expected, array)
    assert float(jnp.abs(clean.means - calibrator.fit(rows).means).max()) > 1e-4


DEGENERATE = {
    "fewer rows than labels": [[-1.0, -2.0, -3.0], [-2.0, -1.0, -3.0]],
    "one row": [[-1.0, -2.0, -3.0]],
    "identical rows": [[-1.0, -2.0, -3.0]] * 30,
    "one class": [[-0.1, -5.0 - 0.01 * i, -6.0 + 0.02 * i] for i in range(30)],
    "one far row": [[-1.0, -1.1, -1.2]] * 29 + [[-40.0, -0.1, -60.0]],
    "two values": [[-1.0, -2.0, -3.0]] * 15 + [[-3.0, -2.0, -1.0]] * 15,
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows_give_a_finite_answer(case):
    rows = jnp.asarray(DEGENERATE[case], jnp.float32)
    calibrator = prototypes(starts=6)
    state = calibrator.fit(rows, key=KEY)
    assert all(bool(jnp.all(jnp.isfinite(field))) for field in state)
    assert bool(jnp.all(jnp.isfinite(calibrator.apply(state, rows))))


def test_collapse_onto_a_far_row_is_finite_from_any_start():
    rows = jnp.asarray(DEGENERATE["one far row"], jnp.float32)
    x = features(rows)
    for first in (x[[0, 1, 29]], x[[29, 29, 29]], x[[0, 0, 0]]):
        state = prototypes(start_means=first[None]).fit(rows)
        assert all(bool(jnp.all(jnp.isfinite(field))) for field in state)


def test_fitted_weights_add_the_log_mixing_coefficients():
    rows, _ = language_model_like(600, 2, seed=8)
    options = {"starts": 6, "select": "likelihood"}
    equal, fitted = (prototypes(**options, fitted_weights=x) for x in (False, True))
    state = equal.fit(rows, key=KEY)
    difference = fitted.apply(state, rows) - equal.apply(state, rows)
    np.testing.assert_allclose(difference, np.tile(state.log_weights, (600, 1)), atol=1e-3)
    assert float(jnp.sum(jnp.exp(state.log_weights))) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("labels", [2, 3, 5, 9, 12])
def test_assignment_is_scipy_s(labels):
    affinity = np.random.default_rng(labels).normal(size=(labels, labels)).astype(np.float32)
    order, total = assign(jnp.asarray(affinity))
    cluster, label = linear_sum_assignment(affinity, maximize=True)
    assert order.tolist() == cluster[np.argsort(label)].tolist()
    assert float(total) == pytest.approx(float(affinity[cluster, label].sum()), abs=1e-5)


@pytest.mark.parametrize("padding", [1, 14, 500])
def test_random_starts_do_not_depend_on_padding(padding):
    assert jax.config.jax_threefry_partitionable
    rows, _ = language_model_like(50, 3, seed=7)
    padded = jnp.pad(rows, ((0, padding), (0, 0)))
    weight = jnp.pad(jnp.ones(50), (0, padding))
    expected = draw_starts(KEY, rows, jnp.ones(50), 20)
    np.testing.assert_array_equal(draw_starts(KEY, padded, weight, 20), expected)


def test_options_a_missing_key_and_too_many_labels_are_a_sentence(refuses):
    assert "searched=0" in refuses(prototypes, searched=0).got
    assert refuses(prototypes, select="likelyhood").got == "likelyhood"
    assert refuses(prototypes, features="rew").got == "rew"
    assert "key=0" in str(refuses(prototypes().fit, jnp.zeros((4, 2))))
    assert refuses(prototypes().fit, jnp.zeros((30, 21)), key=KEY).got == "21"


def test_many_labels_without_optax_are_a_sentence(monkeypatch, refuses):
    monkeypatch.setitem(sys.modules, "optax.assignment", None)
    assert refuses(assign, jnp.eye(9)).expected == "optax"
    assert assign(jnp.eye(8))[1] == 8.0
