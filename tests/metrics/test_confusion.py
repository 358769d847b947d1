"""Shares of right labels from answers: planted confusion, equations by hand, coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_calibration.metrics.confusion import LEAST_LABELED, corrected_shares, solve_shares

THREE = np.array([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
TWO = np.array([[0.9, 0.1], [0.3, 0.7]])
CASES = [(TWO, [0.5, 0.5]), (TWO, [0.1, 0.9]), (THREE, [0.7, 0.1, 0.2])]


def drawn(confusion, shares, labeled, rows, random):
    """The table of labeled rows, and the answers of the others."""
    gold = random.choice(len(shares), rows, p=shares)
    answers = (random.random((rows, 1)) > confusion[gold].cumsum(axis=1)).sum(axis=1)
    table = np.zeros(confusion.shape, int)
    np.add.at(table, (gold[:labeled], answers[:labeled]), 1)
    return table, np.bincount(answers[labeled:], minlength=len(shares))


@given(st.floats(0, 1), st.floats(0.55, 1), st.floats(0.55, 1))
def test_two_labels_are_rogan_and_gladen(p, q0, q1):
    theta = np.clip((p + q0 - 1) / (q0 + q1 - 1), 0, 1)
    confusion = np.array([[q0, 1 - q0], [1 - q1, q1]])
    np.testing.assert_allclose(solve_shares(np.array([1 - p, p]), confusion)[1], theta, atol=1e-5)


@given(st.integers(2, 6), st.integers(0, 2**16))
def test_shares_within_reach_are_the_inverse(k, seed):
    random = np.random.default_rng(seed)
    confusion = 0.6 * np.eye(k) + 0.4 * random.dirichlet(np.ones(k), k)
    shares = random.dirichlet(np.ones(k))
    found = solve_shares(confusion.T @ shares, confusion)
    np.testing.assert_allclose(
        found, np.linalg.inv(confusion.T) @ (confusion.T @ shares), atol=1e-6
    )
    order = random.permutation(k)
    relabeled = solve_shares((confusion.T @ shares)[order], confusion[order][:, order])
    np.testing.assert_allclose(relabeled, found[order], atol=1e-6)
    outside = solve_shares(random.dirichlet(np.full(k, 0.2)), confusion)
    assert (outside >= 0).all() and outside.sum() == pytest.approx(1)


@pytest.mark.parametrize(("confusion", "shares"), CASES)
def test_a_planted_confusion_is_removed(confusion, shares):
    random = np.random.default_rng(0)
    table, others = drawn(confusion, shares, 20_000, 200_000, random)
    for estimates in corrected_shares(table, others, draws=100):
        np.testing.assert_allclose([e.value for e in estimates], shares, atol=0.02)
        assert all(e.low <= e.value <= e.high and e.high - e.low < 0.05 for e in estimates)
    assert abs(others / others.sum() - shares).max() > 0.05  # the answers alone are wrong
    # Labeled rows with as many of each label: only the first way is right.
    even = np.rint(confusion * 500).astype(int)
    first, second = corrected_shares(even, others, draws=10)
    np.testing.assert_allclose([e.value for e in first], shares, atol=0.02)
    if max(shares) > 0.5:
        assert np.abs(np.array([e.value for e in second]) - shares).max() > 0.05


def test_labels_of_all_rows_are_counted():
    table = np.array([[30, 5, 5], [10, 20, 0], [0, 5, 25]])
    for estimates in corrected_shares(table, np.zeros(3, int)):
        np.testing.assert_allclose([e.value for e in estimates], table.sum(axis=1) / 100)


def test_the_second_way_by_hand():
    table, others = np.array([[30, 10], [5, 15]]), np.array([300, 500])
    p = np.array([335, 525]) / 860
    (_, second) = corrected_shares(table, others)
    assert second[0].value == pytest.approx(p[0] * 30 / 35 + p[1] * 10 / 25)


@pytest.mark.slow
@pytest.mark.parametrize(("confusion", "shares"), CASES)
@pytest.mark.parametrize("labeled", [120, 400])
def test_intervals_hold_the_shares(confusion, shares, labeled):
    """At least 90 % of the 95 % intervals of each way hold the shares of the population."""
    random, held = np.random.default_rng(labeled), []
    while len(held) < 400:
        table, others = drawn(confusion, shares, labeled, 1000, random)
        if table.sum(axis=1).min() < LEAST_LABELED:
            continue
        ends = np.array(corrected_shares(table, others, draws=500, seed=len(held)))  # [2, k, 3]
        held.append((ends[..., 1] <= shares) & (shares <= ends[..., 2]))
    assert (np.mean(held, axis=0) > 0.9).all(), np.mean(held, axis=0)
