"""A temperature behind any method: its optimum, its limits, and where it comes from."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from batch_calibration import calibrate, fit_temperature
from batch_calibration.calibration.temperature import (
    PULL,
    cross_fit_temperature,
    find_temperature,
    folds,
)
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.methods import METHODS, Evidence, correct_context, correct_labeled


def draw(rows, k, truth, seed=0):
    """Scores with calibrated probabilities at the temperature `truth`, and labels."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 2, (rows, k))
    probs = np.exp(log_softmax(logits, axis=1))
    labels = np.array([random.choice(k, p=p) for p in probs])
    return (truth * logits - 9).astype(np.float32), labels


def least_loss(scores, labels):
    """The temperature of least penalized log loss, by scipy in float64."""

    def loss(log_t):
        log_p = log_softmax(np.asarray(scores, np.float64) / np.exp(log_t), axis=1)
        return -sum(log_p[i, y] for i, y in enumerate(labels) if y >= 0) + PULL / 2 * log_t**2

    return np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x)


@pytest.mark.parametrize("truth", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("rows", "k"), [(8, 2), (60, 3), (400, 5)])
def test_the_temperature_is_the_optimum(rows, k, truth):
    scores, labels = draw(rows, k, truth)
    labels[::7] = -1
    found = float(find_temperature(scores, labels))
    assert found == pytest.approx(least_loss(scores, labels), rel=1e-3)
    assert float(jax.jit(find_temperature)(scores, labels)) == pytest.approx(found, rel=1e-3)
    # An absent row is nothing, whatever it holds.
    more = np.concatenate([scores, np.full((2, k), np.nan, np.float32)])
    weight = np.append(np.ones(rows, np.float32), [0, 0]).astype(np.float32)
    again = find_temperature(more, np.append(labels, [0, 1]), weight)
    assert float(again) == pytest.approx(found, rel=1e-3)


def test_many_rows_find_the_true_temperature():
    scores, labels = draw(4000, 3, 2.5)
    assert fit_temperature(scores, labels) == pytest.approx(2.5, rel=0.06)


def test_rows_that_are_all_right_or_unknown_leave_it_finite():
    scores = np.log([[0.9, 0.1], [0.2, 0.8]]).astype(np.float32)
    assert 0.2 < fit_temperature(scores, [0, 1]) < 1
    assert float(find_temperature(scores, np.array([-1, -1]))) == 1.0
    assert 1 < fit_temperature(scores, [1, 0]) < 1100


def test_contexts_are_mapped():
    pairs = [draw(50, 3, truth, seed) for seed, truth in enumerate((0.5, 1.0, 3.0))]
    stacked = (np.stack(arrays) for arrays in zip(*pairs, strict=True))
    got = np.asarray(jax.vmap(find_temperature)(*stacked))
    np.testing.assert_allclose(got, [find_temperature(*pair) for pair in pairs], rtol=1e-3)


def test_each_fold_has_the_temperature_of_the_others():
    scores, labels = draw(60, 2, 2.0)
    labels[50:] = -1
    got = cross_fit_temperature(scores, labels)
    for is_out in folds(60):
        others = float(find_temperature(scores[~is_out], labels[~is_out]))
        np.testing.assert_allclose(got[is_out & (labels >= 0)], others, rtol=1e-3)
    np.testing.assert_allclose(got[labels < 0], float(find_temperature(scores, labels)), rtol=1e-3)


LEARNED = {"bc": (), "bcl": ("labeled",), "bc_loo": (), "bc_running": (), "vector": ("labeled",)}


@pytest.mark.parametrize("name", LEARNED)
def test_calibrate_divides_by_the_temperature_of_the_labeled_rows(name):
    scores, labels = draw(90, 3, 3.0)
    rows, labeled, gold = scores[:60], scores[60:], labels[60:]
    learned = {"labeled": labeled, "labels": gold}
    plain = calibrate(rows, name, **(learned if LEARNED[name] else {}))
    got = calibrate(rows, name, temperature="auto", **learned)
    blocks = {"test": Evidence(rows), "labeled": Evidence(labeled, gold)}
    method = METHODS[name]
    held_out = correct_labeled(method, blocks, correct_context(method, blocks))
    expected = least_loss(held_out, gold)
    np.testing.assert_allclose(got, plain / expected, rtol=2e-3, atol=1e-3)
    assert (got.argmax(axis=1) == plain.argmax(axis=1)).all()
    np.testing.assert_allclose(calibrate(rows, temperature=2.0), calibrate(rows) / 2, rtol=1e-6)


def test_labeled_rows_are_corrected_without_their_labels():
    scores, labels = draw(80, 3, 1.0)
    blocks = {"test": Evidence(scores[:40]), "labeled": Evidence(scores[40:], labels[40:])}
    method = METHODS["vector"]
    got = correct_labeled(method, blocks, correct_context(method, blocks))
    for is_out in folds(40):
        others = Evidence(scores[40:][~is_out], labels[40:][~is_out])
        of_others = {"test": Evidence(scores[40:][is_out]), "labeled": others}
        expected = correct_context(method, of_others).scores
        np.testing.assert_allclose(got[is_out], expected, atol=1e-3)


def test_the_estimator_has_probabilities_with_a_temperature():
    scores, labels = draw(120, 3, 3.0)
    corrector = LabelBiasCorrector(temperature="auto").fit(scores, labels)
    corrected = calibrate(scores)
    assert corrector.temperature_ == pytest.approx(least_loss(corrected, labels), rel=2e-3)
    probs = np.exp(log_softmax(corrected / corrector.temperature_, axis=1))
    np.testing.assert_allclose(corrector.predict_proba(scores), probs, atol=1e-5)
    plain = LabelBiasCorrector().fit(scores, labels)
    assert (plain.predict(scores) == corrector.predict(scores)).all()
    fixed = LabelBiasCorrector(temperature=2.0).partial_fit(scores)
    np.testing.assert_allclose(fixed.transform(scores), plain.transform(scores) / 2, atol=1e-5)
    # A method that learns from labels is judged in folds.
    own = LabelBiasCorrector("matrix", {"regularization": 0.01}, temperature="auto")
    assert own.fit(scores, labels).temperature_ > 1


def test_refusals(refuses):
    scores, labels = draw(30, 2, 1.0)
    for wrong in (0, -1.0, "high", float("inf"), True):
        assert refuses(calibrate, scores, temperature=wrong).key == "temperature"
    error = refuses(calibrate, scores, temperature="auto")
    assert error.key == "temperature" and "labeled=" in error.remedy
    calibrate(scores, temperature="auto", labeled=scores, labels=labels)
    error = refuses(LabelBiasCorrector(temperature="auto").fit, scores)
    assert error.key == "temperature" and error.remedy == "pass y, or a number"
    error = refuses(LabelBiasCorrector(temperature="auto").partial_fit, scores, labels)
    assert "call fit" in error.remedy
    probes = {"probe": scores, "labels": labels, "labeled": scores}
    error = refuses(calibrate, scores, "looc", temperature="auto", **probes)
    assert "fit_temperature" in error.remedy
    learned = {"labeled": scores, "labels": labels}
    error = refuses(calibrate, scores, "pmi", temperature="auto", probe=scores, **learned)
    assert error.remedy == "use a method such as bc"
