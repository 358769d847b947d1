"""Corrections learned from labeled rows: their laws, their optima, what few rows do."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from batch_calibration import calibrate
from batch_calibration.calibration.base import weighted_mean
from batch_calibration.calibration.learned_shift import balanced_weight
from batch_calibration.methods import METHODS


def balanced_mean(rows, gold, weight=None):
    """The mean over labels that occur of the mean score of that label's rows."""
    return weighted_mean(rows, balanced_weight(rows, gold, weight))


def test_the_balanced_mean_does_not_move_with_the_shares_of_labels(planted):
    rows, gold, _ = planted(60, 3)
    often = jnp.where(gold == 1, 7.0, 1.0)
    once = balanced_mean(rows, gold)
    np.testing.assert_allclose(balanced_mean(rows, gold, often), once, atol=1e-5)
    # Equally many rows of each label: the plain mean, which the published code takes.
    np.testing.assert_allclose(once, jnp.mean(rows, axis=0), atol=1e-5)


def test_the_balanced_mean_is_of_the_labels_that_occur():
    rows = jnp.array([[0.0, 2.0, 4.0], [2.0, 2.0, 2.0], [9.0, 9.0, 9.0]])
    assert balanced_mean(rows, jnp.array([0, 2, -1])).tolist() == [1.0, 2.0, 3.0]
    assert balanced_mean(rows, jnp.array([-1, -1, -1])).tolist() == [0.0, 0.0, 0.0]


FORMS = ("vector", "matrix")
LEARNED = (*FORMS, "linc")


def roundtrip(name, rows, labels, test, **options):
    calibrator = METHODS[name].make(**options)
    return np.asarray(calibrator.apply(calibrator.fit(rows, jnp.asarray(labels)), test))


@pytest.fixture(scope="module")
def mmlu(shared):
    """Scores of seven models on MMLU, the right answers, and 32 rows drawn as a labeled set."""
    table = np.load(shared / "scores" / "mmlu_base" / "orig.npz")
    order = np.random.default_rng(5).permutation(len(table["gold"]))
    return table["scores"], table["gold"].astype(np.int32), order


def log_softmax_of(scores):
    return log_softmax(np.asarray(scores, np.float64), axis=1)


@pytest.mark.parametrize("regularization", [0.1, 1.0, 100.0])
def test_the_matrix_toward_zero_is_scikit_learn_s_logistic_regression(regularization, planted):
    rows, gold, _ = planted(90, 4)
    theirs = LogisticRegression(C=1 / regularization, tol=1e-8, max_iter=10_000)
    theirs.fit(log_softmax_of(rows), gold)
    got = roundtrip("matrix", rows, gold, rows, toward="zero", regularization=regularization)
    expected = theirs.predict_log_proba(log_softmax_of(rows))
    np.testing.assert_allclose(log_softmax_of(got), expected, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_scores_60_nats_apart_still_end_where_the_slope_is_zero(form):
    random = np.random.default_rng(0)
    gold = random.integers(0, 5, 300)
    rows = (60 * random.random((300, 5)) - 70).astype(np.float32)
    rows[np.arange(300), gold] += 10.0
    state = METHODS[form].make().fit(rows, gold)
    x = log_softmax_of(rows) - np.asarray(state.bias, np.float64)
    scale, offset = (np.asarray(array, np.float64) for array in state.affine)
    z = (x @ scale.T if form == "matrix" else x * scale) + offset
    wrong = np.exp(log_softmax(z, axis=1)) - np.eye(5)[gold]
    slope = wrong.T @ x if form == "matrix" else np.sum(wrong * x, axis=0)
    slope += 10.0 * (scale - (np.eye(5) if form == "matrix" else 1))
    # Before the fit it is thousands.
    assert np.abs(slope).max() < 0.02
    assert np.abs(wrong.sum(axis=0) + 10.0 * offset).max() < 0.02


@pytest.mark.parametrize("name", LEARNED)
def test_rows_of_unknown_label_leave_the_start(name, planted):
    rows, _, _ = planted(9, 3)
    got = roundtrip(name, rows, np.full(9, -1), rows)
    expected = np.exp(log_softmax_of(rows))
    expected = expected / expected.mean(axis=0) if name == "linc" else np.log(expected)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("name", FORMS)
def test_one_labeled_row_leaves_most_predictions(name, mmlu):
    scores, gold, order = mmlu
    rows = scores[4][order[:400]]
    one = [roundtrip(name, rows[[i]], gold[order[[i]]], rows).argmax(1) for i in range(10)]
    assert np.mean(one == rows.argmax(1)) > 0.75


@pytest.mark.parametrize("name", LEARNED)
def test_a_label_that_no_labeled_row_has_can_still_be_predicted(name, planted):
    rows, gold, _ = planted(60, 3)
    has_label = np.asarray(gold) != 2
    got = roundtrip(name, rows[has_label][:9], gold[has_label][:9], rows)
    assert np.isfinite(got).all()
    assert set(got.argmax(axis=1)) == {0, 1, 2}


def test_thirty_two_labeled_rows_are_better_than_none(mmlu):
    scores, gold, order = mmlu
    learned, judged = order[:32], order[32:]
    plain = np.mean(scores[:, judged].argmax(2) == gold[judged])
    for name in ("vector", "matrix"):
        got = [roundtrip(name, x[learned], gold[learned], x[judged]).argmax(1) for x in scores]
        assert np.mean(got == gold[judged]) > plain + 0.01


def test_a_label_that_content_free_rows_exclude_is_no_infinity():
    content_free = jnp.array([[0.0, -1.0, -60.0]])
    rows = jnp.array([[0.0, -1.0, -60.0], [-60.0, -1.0, 0.0], [-1.0, 0.0, -60.0]])
    got = roundtrip("linc", jnp.concatenate([content_free, rows]), [-1, 0, 2, 1], rows)
    assert np.isfinite(got).all() and np.abs(got).max() < 1000
    assert got.argmax(axis=1).tolist() == [0, 2, 1]


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_regularization_that_is_none_is_a_sentence(name, value, refuses):
    assert refuses(METHODS[name].make, regularization=value).got == str(value)


def test_an_unknown_direction_is_a_sentence(planted, refuses):
    rows, gold, _ = planted(20, 3)
    for option, text in (("toward", "zeros"), ("regularization", "much")):
        given = {"labeled": rows, "labels": gold, option: text}
        assert text in refuses(calibrate, rows, "matrix", **given).got


def test_calibrate_takes_content_free_and_labeled_rows_for_linc(planted):
    rows, gold, _ = planted(20, 3)
    got = calibrate(rows, "linc", probe=rows[:3], labeled=rows, labels=gold)
    together = jnp.concatenate([rows[:3], rows])
    labels = jnp.concatenate([jnp.full(3, -1), gold])
    np.testing.assert_allclose(got, roundtrip("linc", together, labels, rows), atol=1e-5)
