"""Rows to label: a systematic sample along answers and doubt, and the error that labels leave."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import softmax

from batch_calibration import recommend, rows_to_label
from batch_calibration.diagnosis.labeling import corrected_probs, label_error, narrowing
from batch_calibration.reporting import words

RANDOM = np.random.default_rng(5)
SCORES = RANDOM.normal(size=(50, 3)) * 2 - 6 + np.array([1.0, 0.0, -1.0])


def in_order_by_hand(contexts):
    """Rows by answer, then by the margin of the two highest, in loops."""
    n, k = contexts[0].shape
    sums = np.zeros((n, k))
    for scores in contexts:
        for i in range(n):
            row = scores[i] - scores.mean(axis=0)
            sums[i] += row - np.log(np.exp(row).sum())
    keys = []
    for i in range(n):
        probs = np.exp(sums[i] / len(contexts))
        low, high = np.sort(probs / probs.sum())[-2:]
        keys.append((int(probs.argmax()), high - low, i))
    return [i for _, _, i in sorted(keys)]


@pytest.mark.parametrize("count", [1, 7, 16, 25, 49])
@pytest.mark.parametrize("prompts", [1, 3])
def test_rows_are_at_equal_distances_in_the_order_of_answer_and_doubt(count, prompts):
    contexts = [SCORES + 0.5 * RANDOM.normal(size=SCORES.shape) for _ in range(prompts)]
    given = contexts[0] if prompts == 1 else np.stack(contexts)
    order, seen = in_order_by_hand(contexts), set()
    for seed in range(20):
        rows = rows_to_label(given, count, seed=seed)
        places = sorted(map(order.index, rows.tolist()))
        assert (np.diff(rows) > 0).all() and len(rows) == count
        gaps = np.diff(places)
        assert set(gaps.tolist()) <= {50 // count, -(-50 // count)}
        assert places[0] <= 50 / count and places[-1] >= 50 - 50 / count - 1
        np.testing.assert_array_equal(rows, rows_to_label(given, count, seed=seed))
        seen.add(tuple(rows.tolist()))
    assert len(seen) > 1


def test_each_row_is_as_likely_as_another():
    counts = Counter()
    for seed in range(2000):
        counts.update(rows_to_label(SCORES, 8, seed=seed).tolist())
    assert len(counts) == 50
    assert max(abs(n / 2000 - 8 / 50) for n in counts.values()) < 0.04


def test_labeled_rows_are_not_chosen_and_few_rows_are_all_chosen():
    is_labeled = np.arange(50) % 3 == 0
    rows = rows_to_label(SCORES, 12, is_labeled=is_labeled)
    assert len(rows) == 12 and not is_labeled[rows].any()
    rest = rows_to_label(SCORES, 100, is_labeled=is_labeled)
    np.testing.assert_array_equal(rest, np.flatnonzero(~is_labeled))
    assert len(rows_to_label(SCORES, 5, is_labeled=np.ones(50, bool))) == 0


def test_a_bias_of_the_prompt_does_not_choose():
    biased = SCORES + np.array([0.0, 4.0, -3.0])
    np.testing.assert_array_equal(rows_to_label(SCORES, 9), rows_to_label(biased, 9))
    probs = softmax(SCORES, axis=-1)
    again = rows_to_label(probs, 9, from_probs=True)
    np.testing.assert_array_equal(rows_to_label(SCORES, 9), again)


def test_wrong_arguments_are_refused(refuses):
    assert refuses(rows_to_label, SCORES, 0).got == "0"
    assert refuses(rows_to_label, SCORES, 3, is_labeled=[True]).where == "is_labeled"


def test_the_error_after_some_labels_is_that_of_the_estimate():
    probs = corrected_probs(SCORES)
    draws, errors = np.random.default_rng(0), []
    for _ in range(4000):
        rows = draws.integers(50, size=16)
        right = (probs[rows].cumsum(axis=1) > draws.random((16, 1))).argmax(axis=1)
        errors.append((np.eye(3)[right] - probs[rows]).mean(axis=0))
    measured = np.std(errors, axis=0).max()
    assert measured == pytest.approx(label_error(probs) / 4, rel=0.05)


def test_advice_without_labels_names_the_error_after_labels():
    error = label_error(corrected_probs(SCORES))
    sentence = narrowing(error, 50)
    points = [f"{100 * error / np.sqrt(count):.2g}" for count in (16, 32)]
    assert f"16, 32 labels would leave standard errors of about {', '.join(points)} poi" in sentence
    advice = recommend(SCORES)
    assert sentence in advice.reason[-1] and advice.signals.label_error == pytest.approx(error)
    known = recommend(SCORES, share="balanced"), recommend(SCORES, labeled=SCORES, labels=[0] * 50)
    assert not any("labels would leave" in str(of) for of in known)
    assert narrowing(error, 16) == narrowing(np.nan, 100) == ""
    assert words.narrowing(error, 1000).startswith("16, 32, 64 labels")
