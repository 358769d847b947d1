"""Grades 1 to 5 of a simulated rater: known by their scores, never corrected by their means."""

from types import SimpleNamespace

import numpy as np
import pytest

from batch_calibration import calibrate, diagnose, plot, recommend
from batch_calibration.diagnosis.diagnose import are_grades, matched_offset
from batch_calibration.metrics.grades import measure_grades
from batch_calibration.reporting.cells import aligned, grade_cells, label_cells
from batch_calibration.reporting.page import context_tables

GRADES = ("1", "2", "3", "4", "5")
PLANTED = np.array([0.0, 0.0, 0.0, 1.5, 0.0])


def rate(sureness, bias=0.0, seed=0, rows=300):
    """Draws s_j = -a (j - h)^2 + noise of a capable rater, where h is near the right grade."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, 5, rows)
    seen = gold + random.normal(0, 0.4, rows)
    scores = -sureness * (np.arange(5) - seen[:, None]) ** 2 + random.normal(0, 0.3, (rows, 5))
    return (scores + bias - 1).astype(np.float32), gold


def right(scores, gold):
    return 100 * (np.asarray(scores).argmax(axis=1) == gold).mean()


@pytest.mark.parametrize("bias", [0.0, PLANTED])
@pytest.mark.parametrize("sureness", [0.25, 0.5, 1.0, 2.0])
def test_balanced_grades_gain_from_a_planted_bias_and_lose_nothing_without(sureness, bias):
    gains, exact = [], []
    for seed in range(6):
        scores, gold = rate(sureness, bias, seed)
        advice = recommend(scores, share="balanced", label_names=GRADES)
        gains.append(right(advice.apply(scores), gold) - right(scores, gold))
        exact.append(right(calibrate(scores, "prior_matching"), gold) - right(scores, gold))
    assert np.mean(gains) >= (5 if np.any(bias) else -1.5)
    if np.any(bias):
        assert np.mean(gains) >= np.mean(exact) - 1


def test_the_mean_score_would_be_a_harm():
    losses = []
    for seed in range(4):
        scores, gold = rate(1.0, seed=seed)
        losses.append(right(calibrate(scores), gold) - right(scores, gold))
    assert np.mean(losses) < -10


@pytest.mark.parametrize("sureness", [0.25, 1.0, 2.0])
def test_grades_are_known_by_names_and_scores(sureness):
    scores, _ = rate(sureness)
    random = np.random.default_rng(0)
    assert are_grades(scores, GRADES)
    assert are_grades(scores, ["-0.5", "1.0", " 1.5", "2", "2.5"])
    order = random.permutation(5)
    assert are_grades(scores[:, order], [GRADES[i] for i in order])
    assert not are_grades(scores, ("one", "two", "three", "four", "five"))
    assert not are_grades(scores, (*GRADES[:4], "none"))
    assert not are_grades(scores[:, :2], GRADES[:2])
    # Names of choices that are numbers have no order.
    assert not are_grades(random.normal(size=(300, 5)), GRADES)
    assert not are_grades(scores[:, [0, 3, 1, 4, 2]], GRADES)


def test_advice_on_grades_without_known_shares_is_near_equal_ones():
    scores, gold = rate(1.0)
    advice = recommend(scores, label_names=GRADES)
    assert (advice.source, advice.short) == ("equal", "nearly equal shares")
    assert advice.options == {"share_error": pytest.approx(np.sqrt(4 / 125), abs=1e-3)}
    assert "a middle grade is never far from right" in advice.reason[0]
    assert right(advice.apply(scores), gold) >= right(scores, gold) - 1.5
    words = ("bad", "poor", "fair", "good", "best")
    assert recommend(scores, label_names=words).source == "estimated"
    assert recommend(scores, label_names=words, ordinal=True).options == advice.options
    assert recommend(scores, label_names=GRADES, ordinal=False).source == "estimated"


@pytest.mark.parametrize("sureness", [0.5, 1.0, 2.0])
def test_an_unbiased_rater_prefers_little_and_a_planted_bias_is_found(sureness):
    scores, _ = rate(sureness, rows=1000)
    found = diagnose(scores, label_names=GRADES)
    means = scores.mean(axis=0) - scores.mean()
    size = np.ptp(found.preference)
    assert found.is_matched and size < 0.25 * np.ptp(means) and size < 3 * found.pair_error
    planted = diagnose(rate(sureness, PLANTED, rows=1000)[0], label_names=GRADES)
    assert GRADES[int(planted.preference.argmax())] == "4"
    assert "To match the expected share" in found.sentences()[0]
    # Other labels keep the mean log-probability.
    usual = diagnose(scores, label_names=[*"abcde"])
    assert not usual.is_matched
    np.testing.assert_allclose(usual.preference, means, atol=1e-4)


def test_the_offset_is_the_match_and_its_error_that_of_draws():
    offsets, errors = [], []
    for seed in range(60):
        bias, moves = matched_offset(rate(1.0, PLANTED, seed)[0].astype(np.float64))
        offsets.append(bias - bias.mean())
        errors.append(moves.std(axis=0, ddof=1) / np.sqrt(len(moves)))
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(offsets, axis=0), rtol=0.35)


WORDS = ("terrible", "bad", "okay", "good", "great")
SHUFFLED = np.array([3, 0, 4, 2, 1])
COLUMNS = [WORDS[i] for i in SHUFFLED]


def test_words_in_an_order_are_measured_as_numbers_are():
    scores, gold = rate(1.0, PLANTED)
    numbers = diagnose(scores, gold, label_names=GRADES)
    of_column = SHUFFLED.argsort()
    words = diagnose(scores[:, SHUFFLED], of_column[gold], label_names=COLUMNS, ordinal=WORDS)
    assert words.grades.values.tolist() == [4.0, 1.0, 5.0, 3.0, 2.0]
    for found, expected in zip(words.grades[1:], numbers.grades[1:], strict=True):
        np.testing.assert_allclose(np.hstack(found), np.hstack(expected), atol=1e-6)
    assert numbers.grades.before == measure_grades(scores, np.arange(1.0, 6), gold)
    after = measure_grades(np.asarray(calibrate(scores)), np.arange(1.0, 6), gold)
    np.testing.assert_allclose(np.hstack(numbers.grades.after), np.hstack(after), atol=1e-5)
    # Tables and figures begin with the lowest grade.
    assert [row[0] for row in label_cells(words)] == ["label", *WORDS]
    assert [row[1:] for row in label_cells(words)] == [row[1:] for row in label_cells(numbers)]
    left, right, _ = plot(words).axes
    for axes in (left, right):
        assert [label.get_text() for label in axes.get_xticklabels()] == [*WORDS]
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in left.patches}
    np.testing.assert_allclose([heights[i] for i in range(5)], numbers.preference, atol=1e-5)
    assert "bias that matches" in left.get_ylabel()


def test_other_labels_have_no_grades_and_a_prior_alone_makes_none():
    scores, gold = rate(1.0)
    letters = diagnose(scores, gold, label_names=[*"abcde"], shares=[0.2] * 5)
    assert letters.is_matched and letters.grades is None and grade_cells(letters) == []
    assert diagnose(scores, gold, label_names=GRADES, ordinal=False).grades is None
    assert diagnose(scores / 100, label_names=GRADES, cosines=True, ordinal=True).grades is None


def test_words_without_an_order_are_asked_for_one(refuses):
    scores, _ = rate(1.0)
    asked = refuses(diagnose, scores, label_names=COLUMNS, ordinal=True)
    assert asked.key == "ordinal" and asked.remedy.endswith("from lowest to highest")
    assert refuses(diagnose, scores, ordinal=True).got == "words without an order"
    for door in (diagnose, recommend):
        error = refuses(door, scores, label_names=COLUMNS, ordinal=("bad", "good"))
        assert "good, terrible, great, okay, bad" in str(error) and "'bad, good'" in error.got
    assert recommend(scores, label_names=COLUMNS, ordinal=WORDS) == recommend(
        scores, label_names=COLUMNS, ordinal=True
    )


def test_the_table_of_grades():
    scores = np.log([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])
    same = diagnose(scores, [0, 1, 2, 2], corrected=scores, label_names="123", ordinal=True)
    assert aligned(grade_cells(same)) == [
        "grades       mean expected  error of expected  error of predicted              kappa",
        "───────────  ─────────────  ─────────────────  ──────────────────  ─────────────────",
        "right                 2.25",
        "as they are           2.05  0.50 [0.00, 1.05]   0.25 [0.00, 1.05]  0.80 [0.00, 1.00]",
        "after bc              2.05  0.50 [0.00, 1.05]   0.25 [0.00, 1.05]  0.80 [0.00, 1.00]",
    ]
    assert len(grade_cells(same._replace(method="icl"))) == 3
    unlabeled = grade_cells(diagnose(scores, corrected=scores, label_names="123", ordinal=True))
    assert unlabeled[:2] == [["grades", "mean expected"], ["as they are", "2.05"]]
    *_, table = context_tables(SimpleNamespace(name="mine", diagnosis=same))
    assert (table.title, table.cells) == (
        "mine: grades, absolute errors, kappa",
        grade_cells(same),
    )
