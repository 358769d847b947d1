"""Metrics of grades against scikit-learn, loops over rows, and draws of rows."""

import math

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from batch_calibration.metrics.grades import (
    expected_grade,
    grade_values,
    measure_grades,
    quadratic_kappa,
)


def noisy(random, n, k, noise=1.0):
    """Right grades, and predictions near them."""
    gold = random.integers(0, k, n)
    return np.clip(gold + random.normal(0, noise, n).round().astype(int), 0, k - 1), gold


@pytest.mark.parametrize("k", range(2, 11))
def test_kappa_is_that_of_scikit_learn(k):
    random = np.random.default_rng(k)
    predicted, gold = noisy(random, 60, k)
    gold[random.random(60) < 0.2] = -1
    gold[gold == k // 2] = -1  # a grade that is never right
    known = gold >= 0
    found = quadratic_kappa(predicted, gold)
    oracle = cohen_kappa_score(
        predicted[known], gold[known], labels=np.arange(k), weights="quadratic"
    )
    assert found.value == pytest.approx(oracle, abs=1e-12)
    assert found.low <= found.value <= found.high


def test_kappa_of_constant_predictions_is_0():
    gold = np.array([0, 1, 2, 4])
    assert quadratic_kappa(np.full(4, 2), gold) == (0.0, 0.0, 0.0)
    assert quadratic_kappa(gold, gold)[0] == 1.0
    for label in (2, 3):
        assert np.isfinite(quadratic_kappa(np.array([2]), np.array([label]))).all()
    assert quadratic_kappa(np.full(9, 3), np.full(9, 3)) == (0.0, 0.0, 0.0)


def test_the_interval_of_kappa_covers_it():
    random = np.random.default_rng(0)
    (predicted, gold), covered = noisy(random, 100_000, 5), 0
    true = quadratic_kappa(predicted, gold).value
    for _ in range(200):
        drawn = random.integers(0, 100_000, 80)
        found = quadratic_kappa(predicted[drawn], gold[drawn])
        covered += found.low <= true <= found.high
    assert 0.9 < covered / 200 < 0.99


@pytest.mark.parametrize("values", [[1.0, 2.5, 10.0], [3.0, -1.0, 0.5]])
def test_expected_grades_are_those_of_loops(values):
    scores = np.random.default_rng(1).normal(-3, 2, (20, 3)).astype(np.float32)
    mean, deviation = expected_grade(scores, np.array(values))
    for row in range(20):
        weights = [math.exp(score) for score in scores[row].tolist()]
        probs = [weight / sum(weights) for weight in weights]
        m = sum(p * g for p, g in zip(probs, values, strict=True))
        variance = sum(p * (g - m) ** 2 for p, g in zip(probs, values, strict=True))
        assert mean[row] == pytest.approx(m, abs=1e-6)
        assert deviation[row] == pytest.approx(math.sqrt(variance), abs=1e-6)


def test_errors_are_those_of_scikit_learn_over_rows_with_a_right_label():
    random = np.random.default_rng(2)
    scores, gold = random.normal(size=(90, 4)), random.integers(-1, 4, 90)
    values = np.array([10.0, 1.0, 2.5, 4.0])  # columns may have any order
    known, found = gold >= 0, measure_grades(scores, values, gold)
    expected, predicted = expected_grade(scores, values)[0], values[scores.argmax(axis=1)]
    assert found.mean == pytest.approx(expected.mean())
    for grades, error in ((expected, found.expected), (predicted, found.predicted)):
        oracle = mean_absolute_error(values[gold[known]], grades[known])
        assert error.value == pytest.approx(oracle) and error.low < oracle < error.high
        spread = np.abs(grades - values[gold])[known].std(ddof=1) / np.sqrt(known.sum())
        assert (error.high - error.low) / 2 == pytest.approx(1.96 * spread, rel=0.03)
    kappa = cohen_kappa_score(
        predicted[known].astype(str), values[gold[known]].astype(str), weights="quadratic",
        labels=["1.0", "2.5", "4.0", "10.0"],
    )  # fmt: skip
    assert found.kappa.value == pytest.approx(kappa)
    assert measure_grades(scores, values, np.full(90, -1))[1:] == (None, None, None)
    few = measure_grades(scores[:2], values, gold[:2] * 0 + [0, 1])
    assert few.expected.low >= 0 and measure_grades(scores[:1], values, np.array([0]))


def test_grades_are_numbers_or_places_in_an_order(refuses):
    assert grade_values(["10", " 2.5", "-1"]).tolist() == [10.0, 2.5, -1.0]
    assert grade_values(["10", "1"], ("1", "10")).tolist() == [10.0, 1.0]
    assert grade_values(["b", "c", "a"], ["a", "b", "c"]).tolist() == [2.0, 3.0, 1.0]
    assert grade_values(["1", "none"], ["none", "1"]).tolist() == [2.0, 1.0]
    error = refuses(grade_values, ["good", "bad"])
    assert (error.key, error.got) == ("ordinal", "words without an order")
    assert "good, bad" in error.expected and "('A', 'B', 'C')" in error.remedy
    for other in (["bad"], ["bad", "good", "good"], ["bad", "best"], []):
        refuses(grade_values, ["good", "bad"], other)
    assert refuses(grade_values, ["1", "2"], ["2", "1"]).expected.endswith("1, 2")
