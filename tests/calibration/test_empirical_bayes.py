"""The empirical-Bayes shift: labels that are never right, rows that tell nothing, and labels."""

import jax.numpy as jnp
import numpy as np
import pytest

from batch_calibration import calibrate
from batch_calibration.calibration import empirical_bayes as shifts
from batch_calibration.calibration.empirical_bayes import confidence, empirical_bayes, information


def drawn(shares, bias, rows=600, separation=2.0, seed=0):
    """Scores that are log-probabilities of labels in equal shares, but for a bias."""
    random = np.random.default_rng(seed)
    gold = random.choice(len(shares), rows, p=shares)
    noise = random.normal(0.0, separation, (rows, len(shares)))
    scores = noise + separation**2 * np.eye(len(shares))[gold]
    return (scores + bias - 10.0).astype(np.float32), gold


def accuracy(scores, gold):
    return 100 * float((np.asarray(scores).argmax(axis=1) == gold).mean())


@pytest.mark.parametrize("bias", [(0.0, 0.6, -1.0), (2.0, 0.0, 0.0), (-1.0, 1.0, 1.5)])
def test_a_label_that_is_never_right_is_given_few_rows(bias):
    scores, gold = drawn([0.5, 0.5, 0.0], bias)
    corrected = accuracy(calibrate(scores, "bc_empirical_bayes"), gold)
    assert corrected > accuracy(calibrate(scores), gold) + 5
    assert corrected > accuracy(scores, gold)


@pytest.mark.parametrize("separation", [0.5, 1.0])
@pytest.mark.parametrize("bias", [2.0, 4.0, 6.0])
def test_a_bias_beside_equal_shares_is_found_where_rows_tell_little(bias, separation):
    scores, gold = drawn([1 / 3] * 3, (0.0, bias, 0.0), separation=separation)
    corrected = accuracy(calibrate(scores, "bc_empirical_bayes"), gold)
    assert corrected == pytest.approx(accuracy(calibrate(scores), gold), abs=2)
    assert corrected > accuracy(scores, gold) + 8


def test_a_bias_beside_equal_shares_is_taken_for_shares_where_rows_tell_much():
    # The limit that docs/method.md states, and what a user who knows the shares does about it.
    scores, gold = drawn([1 / 3] * 3, (0.0, 4.0, 0.0))
    of_bc = accuracy(calibrate(scores), gold)
    assert accuracy(calibrate(scores, "bc_empirical_bayes"), gold) < of_bc - 10
    certain = calibrate(scores, "bc_empirical_bayes", share_weight=100.0)
    assert accuracy(certain, gold) == pytest.approx(of_bc, abs=1)


def test_rows_that_tell_nothing_of_their_label_are_left():
    scores, _ = drawn([1 / 3] * 3, (0.0, 1.0, 0.0))
    faint = jnp.asarray(0.1 * scores)
    assert float(information(faint)) < 0.05 < float(information(jnp.asarray(scores)))
    fit, _ = empirical_bayes()
    np.testing.assert_array_equal(fit(faint).bias, np.zeros(3))


def test_a_label_that_no_row_or_every_row_is_given_has_the_confidence_of_others():
    rows = jnp.tile(jnp.array([0.0, -3.0]), (5, 1))
    np.testing.assert_array_equal(confidence(rows), [1.0, 1.0])


def test_labels_tell_shares_from_bias():
    shares, bias = [0.9, 0.1], (0.0, 2.0)
    scores, gold = drawn(shares, bias, rows=1000, separation=1.0)
    unlabeled = accuracy(calibrate(scores, "bc_empirical_bayes")[500:], gold[500:])
    evidence = [{"labeled": scores[:n], "labels": gold[:n]} for n in (16, 500)]
    guesses = [calibrate(scores, "bcl_empirical_bayes", **known) for known in evidence]
    few, many = (accuracy(corrected[500:], gold[500:]) for corrected in guesses)
    # The best threshold has about 92 %.
    assert unlabeled < few < many and many > 90


@pytest.mark.parametrize("name", ["bias_scale", "share_weight", "least_information"])
def test_an_option_below_zero_is_a_sentence(name, refuses):
    assert refuses(empirical_bayes, **{name: -1.0}).where == name


def objective(shift, rows, weight, shares):
    """What is minimized, of two labels, in float64: at shifts [s] of the first label."""
    shifts = np.stack([shift, -shift], axis=-1) / 2
    raised = np.exp(rows - shifts[:, None])
    probs = raised / raised.sum(axis=-1, keepdims=True)
    implied = np.average(probs, axis=1, weights=weight)
    bias = shifts + np.log(implied)
    bias -= bias.mean(axis=-1, keepdims=True)
    k = rows.shape[-1]
    of_bias = k * np.log1p((bias**2).sum(axis=-1) / (2 * k))
    return of_bias + k**2 / 2 * ((implied - shares) ** 2).sum(axis=-1)


@pytest.mark.parametrize("seed", [0, 1, 2, 47, 105, 162, 351, 367])  # the last five have several
def test_the_shift_is_the_least_of_all_minima(seed):
    random = np.random.default_rng(seed)
    rows = random.normal(0, 2.5, (40, 2)) + random.normal(0, 2, 2)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    weight = random.exponential(size=40)
    sure = np.asarray(confidence(jnp.float32(rows), jnp.float32(weight)), np.float64) ** 2
    shares = sure / sure.sum()
    found = np.asarray(shifts.likely_shift(*map(jnp.float32, (rows, weight, shares))))
    values = objective(np.linspace(-12, 12, 4_801), rows, weight, shares)
    is_minimum = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
    reached = objective(found[:1] - found[1:], rows, weight, shares)
    assert reached < values[1:-1][is_minimum].min() + 1e-3
