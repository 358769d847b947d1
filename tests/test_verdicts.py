"""Verdicts of a page, checked on contexts whose numbers are known by hand."""

import numpy as np
import pytest

from batch_calibration.diagnosis import recommend, verdicts
from batch_calibration.metrics import OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.reporting import verdict_tables, words
from batch_calibration.reporting.cells import NumberCell

NAMES = ("no", "yes")
# Rows favor "no"; right are "no" where the first score is far above the second one.
SCORES = np.array(30 * [[-0.2, -3.0], [-0.6, -1.5]], np.float32)
GOLD = np.array(30 * [0, 1])


def judge(name="here", task="sst2", scores=SCORES, shift=(1.6, 0.0), labels=GOLD):
    advice = recommend(scores, label_names=NAMES, from_probs=False)
    return verdicts.judge_context(
        name, task, advice, scores, scores - np.float32(shift), labels, NAMES
    )


def test_a_context_in_facts():
    verdict = judge()
    facts = words.facts([verdict])
    assert list(facts) == ["Biased?", "Recommended", "Expected gain", "Measured gain", "Safe?",
                           "Rows that settle it"]  # fmt: skip
    # Mean differences of 2.8 and 0.9 nats are 1.85; exp(1.85) is 6.36.
    assert facts["Biased?"].startswith("Yes, towards 'no' over 'yes' by 1.85 ± 0.12 nats, a fact")
    assert "6.36" in facts["Biased?"]
    assert facts["Recommended"] == verdict.recommendation.reason[0]
    effect = ", 50.0 → 100.0 % (+50.0 [+35.2, +61.6])"
    assert facts["Measured gain"] == (
        f"bc{effect}: a gain; bc_empirical_bayes{effect}: a gain (60 labeled rows; 95 % intervals)."
    )
    assert facts["Safe?"] == (
        "Yes: accuracy does not fall beyond noise by bc. Yes: accuracy does not fall beyond noise "
        "by bc_empirical_bayes. 'no' is predicted for 100.0 % of the rows, after the correction "
        "for 50.0 %; it is right for 50.0 %."
    )
    assert "is settled by these 60 labeled rows." in facts["Rows that settle it"]
    assert words.headline([verdict]) == (
        f"If labels are about equally frequent (within 12 points): bc{effect}. "
        f"If you cannot say: bc_empirical_bayes{effect}."
    )


def test_what_harms_is_said_of_each_answer():
    verdict = judge(shift=(-3.0, 0.0), labels=np.array(60 * [1]), scores=SCORES[:, ::-1])
    assert "bc, 100.0 → 50.0 % (-50.0 [" in words.headline([verdict])
    assert "bc_empirical_bayes, 100.0 → 0.0 % (-100.0 [" in words.headline([verdict])
    assert words.facts([verdict])["Safe?"].startswith("No: accuracy falls beyond noise by bc. No: ")


def test_one_answer_where_shares_are_stated():
    advice = recommend(SCORES, label_names=NAMES, from_probs=False, share="balanced")
    shift = SCORES.mean(axis=0)
    verdict = verdicts.judge_context("here", "sst2", advice, SCORES, SCORES - shift, GOLD, NAMES)
    assert words.headline([verdict]).startswith("Correct the scores: bc, 50.0 → 100.0 % (+50.0 [")
    np.testing.assert_array_equal(verdict.gains, verdict.balanced)
    harmed = verdicts.judge_context("here", "sst2", advice, SCORES, -SCORES, 0 * GOLD, NAMES)
    assert words.headline([harmed]).startswith("Leave the scores as they are: bc, 100.0 → 0.0 %")


def test_without_labels_the_expected_gain_is_told():
    verdict = judge(labels=np.full(60, -1))
    facts = words.facts([verdict])
    assert verdict.gains is None and facts["Measured gain"] == "No right label is known."
    assert "right for" not in facts["Safe?"]
    line = words.headline([verdict])
    assert "points): bc. If you cannot say: bc_empirical_bayes, +" in line
    assert line.endswith(" points expected.")
    assert verdicts.measured_gain([verdict]) is None


def test_scores_that_are_left_expect_nothing():
    few = judge(scores=SCORES[:10], labels=GOLD[:10], shift=(0.0, 0.0))
    line = words.headline([few])
    assert line.endswith("]). If you cannot say: leave the scores as they are.")
    assert "Expected gain" not in words.facts([few])
    assert verdict_tables.verdict_cells([few])[1][4] == "leave it"


def test_the_gain_is_over_seeds_of_a_task_then_over_tasks():
    complete, half = judge("a"), judge("b", labels=np.array(30 * [0, 0]))
    small = judge("c", "rte", labels=GOLD[:40], scores=SCORES[:40])
    gain = verdicts.measured_gain([complete, half, small])
    by_hand = over_tasks([
        over_rows(np.array([30 * [0.0, 1.0], 30 * [0.0, -1.0]]), OF_GAIN),
        over_rows(np.array([20 * [0.0, 1.0]]), OF_GAIN),
    ])  # fmt: skip
    assert tuple(gain) == pytest.approx(tuple(by_hand)) and gain.value == pytest.approx(0.25)
    facts = words.facts([complete, half, small])
    assert "1 of 3 contexts loses accuracy beyond noise (b), 2 gain." in facts["Safe?"]
    assert facts["Biased?"].startswith("Yes: in 3 of 3 contexts by more than two standard errors")
    assert facts["Recommended"] == "bc_empirical_bayes in 3 of 3 contexts."


def test_contexts_stand_by_their_effect():
    rows = verdict_tables.verdict_cells(
        [judge("lost", labels=np.array(30 * [0, 0])), judge("unknown", labels=np.full(60, -1)),
         judge("won")]
    )  # fmt: skip
    assert [row[0] for row in rows[1:]] == ["won", "lost", "unknown"]
    assert isinstance(rows[1][-1], NumberCell) and rows[1][-1].parts[0] == "+50.0"
    assert rows[1][-1].parts[2] == "*" and rows[3][-1] == ""


def test_rows_that_would_settle_a_gain():
    """Half the width takes four times the rows."""
    assert verdicts.rows_to_settle(Estimate(0.01, -0.01, 0.03), 50) == 200
    assert verdicts.rows_to_settle(Estimate(0.0, -0.01, 0.01), 50) is None
    assert verdicts.rows_to_settle(Estimate(1e-5, -0.5, 0.5), 50) is None
