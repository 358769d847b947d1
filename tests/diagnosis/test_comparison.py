"""Methods side by side: accuracy, gain and verdict, of one context and of several."""

import numpy as np
import pytest

from batch_calibration import calibrate, compare
from batch_calibration.diagnosis.comparison import judge_answers, pool

RNG = np.random.default_rng(0)
GOLD = RNG.integers(2, size=200)
SCORES = RNG.normal(size=(200, 2)) + np.eye(2)[GOLD] + [1.5, 0.0]


@pytest.fixture(scope="module")
def comparison():
    return compare(SCORES, GOLD, methods=["bc", "icl", "prior_matching"], from_probs=False)


def test_accuracies_and_gains_are_those_of_calibrate(comparison):
    before = SCORES.argmax(axis=1) == GOLD
    assert [result.method for result in comparison.results] == ["icl", "bc", "prior_matching"]
    for result in comparison.results:
        right = before
        if result.method != "icl":
            right = np.asarray(calibrate(SCORES, result.method)).argmax(axis=1) == GOLD
            assert result.gain.value == pytest.approx(right.mean() - before.mean())
        assert result.accuracy.value == pytest.approx(right.mean())
    assert comparison.results[0].verdict == "" and comparison.results[1].verdict == "a gain"


def test_what_is_printed_is_what_a_frame_and_a_notebook_hold(comparison):
    frame = comparison.to_frame()
    assert frame.loc["bc", "accuracy"] == comparison.results[1].accuracy.value
    assert np.isnan(frame.loc["icl", "gain"]) and frame.loc["bc", "verdict"] == "a gain"
    lines = str(comparison).splitlines()
    assert lines[0].split() == ["method", "accuracy", "gain", "over", "icl", "verdict"]
    html = comparison._repr_html_()
    for result in comparison.results:
        assert str(result.accuracy) in html and any(str(result.accuracy) in line for line in lines)


def test_several_contexts_are_weighted_by_their_labeled_rows():
    gold = np.array([0, 1, -1, 0])
    scores = {"icl": np.eye(2)[[1, 1, 0, 1]], "bc": np.eye(2)[[0, 1, 0, 1]]}
    icl = judge_answers(scores, gold, {})
    zeros, ones = np.zeros(9, int), np.ones(9, int)
    scores = {"icl": np.eye(2)[zeros], "bc": np.eye(2)[ones]}
    worse = judge_answers(scores, zeros, {"cc": "x"})
    pooled = pool([icl, worse])
    assert (pooled.rows, pooled.contexts, pooled.skipped) == (12, 2, {"cc": "x"})
    before, after = pooled.results
    assert before.accuracy.value == pytest.approx(10 / 12)
    assert after.accuracy.value == pytest.approx(2 / 12)
    assert after.gain.value == pytest.approx((1 - 9) / 12)
    assert (after.better, after.worse) == (1, 1)
    reaches = icl.results[1].gain.high - 1 / 3, worse.results[1].gain.high + 1
    reach = np.hypot(3 / 12 * reaches[0], 9 / 12 * reaches[1])
    assert after.gain.high == pytest.approx(after.gain.value + reach)
    # Of one context the same numbers as before.
    assert pool([icl]).results == icl.results


def test_what_cannot_be_compared_is_a_sentence(refuses):
    wrong = {"labels": {"gold": GOLD[:3]}, "methods": {"methods": ["cc"]}}
    for where, options in (wrong | {"labeled": {"labeled": SCORES}}).items():
        error = refuses(compare, SCORES, **{"gold": GOLD, "from_probs": False, **options})
        assert error.where == where
