"""Verdicts of a page, checked on contexts whose numbers are known by hand."""

import numpy as np
import pytest
from making import make_card

from batch_calibration import calibrate
from batch_calibration.diagnosis import compare, recommend, verdicts
from batch_calibration.metrics import OF_GAIN, Estimate, over_rows, over_tasks
from batch_calibration.reporting import words
from batch_calibration.reporting.cells import Best, NumberCell, verdict_cells
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import run_calibration

NAMES = ("no", "yes")
# Rows favor "no"; right are "no" where the first score is far above the second one.
SCORES = np.array(30 * [[-0.2, -3.0], [-0.6, -1.5]], np.float32)
GOLD = np.array(30 * [0, 1])


def table_of(scores=SCORES, labels=GOLD):
    return ScoreTable({}, NAMES, {"test": make_block(scores, labels)})


def judge(name="here", task="sst2", scores=SCORES, labels=GOLD, **known):
    advice = recommend(scores, label_names=NAMES, from_probs=False, **known)
    return verdicts.judge_context(name, task, advice, table_of(scores, labels))


def test_a_card_a_table_and_compare_give_one_number_at_a_tie():
    """Of these rounded scores two tie after BC: numpy's mean and the method's decide otherwise."""
    random = np.random.default_rng(165)
    scores = np.tile(np.round(random.normal(-2.0, 1.0, (30, 2)), 1).astype(np.float32), (2, 1))
    gold = np.arange(60) % 2
    in_numpy = ((scores - scores.mean(axis=0)).argmax(axis=1) == gold).mean()
    (record,) = run_calibration([table_of(scores, gold)], ["icl", "bc"])
    accuracy, before = (record.methods[name].metrics["accuracy"] for name in ("bc", "icl"))
    _, of_bc = compare(scores, gold, methods=["icl", "bc"], from_probs=False).results
    assert accuracy == of_bc.accuracy.value != in_numpy
    of_card = judge(scores=scores, labels=gold).by_bc.mean()
    assert of_card == pytest.approx(accuracy - before, abs=1e-12)


def test_a_context_in_facts():
    verdict = judge()
    card = make_card(verdict)
    facts = words.facts(card)
    assert ", ".join(facts) == "Biased?, Advised, Expected gain, Safe?, Enough rows?"
    # Mean differences of 2.8 and 0.9 nats are 1.85; exp(1.85) is 6.36.
    assert facts["Biased?"].startswith("Yes, towards 'no' over 'yes' by 1.85 ± 0.12 nats, a fact")
    assert "6.36" in facts["Biased?"]
    assert facts["Advised"] == verdict.advice.reason[0]
    assert facts["Safe?"] == (
        "Yes: accuracy does not fall beyond noise with equal shares; accuracy does not fall "
        "beyond noise with estimated shares."
    )
    assert facts["Enough rows?"].endswith(
        "These 60 labeled rows are enough to be sure of the gain."
    )
    effect, bias, advice = words.card_lines(card)
    gain = "50.0 to 100.0 % (+50.0 [+35.2, +61.6])"
    assert effect == f"With Batch Calibration (bc) accuracy goes from {gain} over 60 rows."
    assert bias == (
        "The model answers 'no' for 100 % of the rows, with bc for 50 %; it is "
        "the right answer for 50 %."
    )
    shares = tuple(round(share, 4) for share in verdict.advice.shares.values())
    assert advice == (
        "Do: `calibrate(scores, method='prior_matching', share_error=0.0)` if labels are about "
        "equally frequent; if not known, "
        f"`calibrate(scores, method='prior_matching', target_prior={shares})`."
    )


def test_the_advice_names_the_real_source():
    lines = words.card_lines(make_card(judge()), "my.csv")
    assert lines[-1].startswith("Do: `calibrate(my.csv, ") and "(scores" not in lines[-1]
    # With cards beside it, one command would correct their contexts, too.
    several = words.card_lines(make_card(judge(), judge()), "W", is_only=False)[-1]
    assert "`recommend(W, output='advice.json')` and `calibrate(W, advice='ad" in several
    assert "equal shares in 2" in several and "estimated shares in 2" in several


def answers(*judged):
    """Answer -> its accuracy and its gain, as printed."""
    return {name: cells for name, *cells in words.answer_cells(make_card(*judged))[1:]}


def test_each_answer_has_its_accuracy_and_gain():
    found = answers(judge())
    gain = "+50.0 [+35.2, +61.6]*"
    assert found.pop("as the model answers (icl)") == ["50.0", ""]
    names = ["Batch Calibration (bc)", "as advised: equal shares", "as advised: estimated shares"]
    assert found == {name: ["100.0", gain] for name in names}
    assert answers(judge(labels=np.full(60, -1))) == {}
    # Where two answers exist, the better one is bold.
    (first, *_) = words.answer_cells(make_card(judge(labels=0 * GOLD)))[1:]
    assert first[:2] == ["as the model answers (icl)", "100.0"] and isinstance(first[1], Best)


def test_an_answer_that_harms_is_not_advised():
    card = make_card(judge(labels=np.array(60 * [1]), scores=SCORES[:, ::-1]))
    effect, _, advice = words.card_lines(card)
    assert "goes from 100.0 to 50.0 % (-50.0 [-61.6, -35.2]) over 60 rows." in effect
    assert advice == "Do: leave the scores as they are, as accuracy falls beyond noise."
    assert words.facts(card)["Safe?"].startswith("No: accuracy falls beyond noise with equal ")


def test_one_answer_where_shares_are_stated():
    verdict = judge(share="balanced")
    *_, todo = words.card_lines(make_card(verdict))
    assert todo == "Do: `calibrate(scores, method='prior_matching', share_error=0.0)`."
    assert [*answers(verdict)][2:] == ["as advised: equal shares"]
    np.testing.assert_array_equal(verdict.gains, verdict.balanced)
    *_, todo = words.card_lines(make_card(judge(labels=0 * GOLD, share="balanced")))
    assert "leave the scores as they are" in todo


def test_without_labels_accuracy_is_not_measured():
    verdict = judge(labels=np.full(60, -1))
    card = make_card(verdict)
    facts = words.facts(card)
    assert verdict.gains is None and facts["Safe?"] == "Not known without right labels."
    assert facts["Expected gain"].startswith("+")
    asked = (
        "Label some rows to measure the gain. 16, 32 labels would leave standard errors of about"
    )
    assert asked in facts["Enough rows?"]
    known = words.facts(make_card(judge(labels=np.full(60, -1), share="balanced")))
    assert known["Enough rows?"].endswith("Label some rows to measure the gain.")
    effect, bias, advice = words.card_lines(card)
    assert effect == "No right label is known for these 60 rows, so accuracy is not measured."
    assert bias == "The model answers 'no' for 100 % of the rows, with bc for 50 %."
    assert "; if not known, `calibrate(scores, method='prior_matching', target_prior=(" in advice
    assert verdicts.measured_gain([verdict]) is None


def test_scores_that_are_left_expect_nothing():
    few = judge(scores=SCORES[:10], labels=GOLD[:10])
    card = make_card(few)
    assert words.card_lines(card)[-1].endswith("; if not known, leave the scores as they are.")
    assert "Expected gain" not in words.facts(card)
    header, row = verdict_cells([few])
    assert row[header.index("recommended")] == "leave it"


def test_the_gain_is_over_seeds_of_a_task_then_over_tasks():
    complete, half = judge("a"), judge("b", labels=np.array(30 * [0, 0]))
    small = judge("c", "rte", labels=GOLD[:40], scores=SCORES[:40])
    gain = verdicts.measured_gain([complete, half, small])
    outcomes = [30 * [0.0, 1.0], 30 * [0.0, -1.0]], [20 * [0.0, 1.0]]
    by_hand = over_tasks([over_rows(np.array(of_task), OF_GAIN) for of_task in outcomes])
    assert tuple(gain) == pytest.approx(tuple(by_hand)) and gain.value == pytest.approx(0.25)
    card = make_card(complete, half, small)
    facts = words.facts(card)
    assert facts["Safe?"].startswith("No: with equal shares, 1 of 3 contexts loses")
    assert "1 of 3 contexts loses accuracy beyond noise (b); with estimated" in facts["Safe?"]
    assert facts["Biased?"].startswith("By 1.85 nats in the median context")
    assert facts["Advised"] == "estimated shares in 3 of 3 contexts."
    effect, bias, _ = words.card_lines(card)
    assert (
        f"from 62.5 to 87.5 % ({gain.points}) over 3 contexts; beyond noise, 2 gain and 1 loses."
        in effect
    )
    assert bias == (
        "On average, a context's most frequent answer is given for 100 % of the rows, with bc for "
        "50 %; it is the right answer for 67 %. 3 of 3 contexts prefer a label beyond noise."
    )


def test_contexts_stand_by_their_effect():
    lost, unknown = (judge(name, labels=y + 0 * GOLD) for name, y in (("lost", 0), ("unknown", -1)))
    rows = verdict_cells([lost, unknown, judge("won")])
    # Losses count as much as gains.
    assert [row[0] for row in rows[1:]] == ["lost", "won", "unknown"]
    assert isinstance(rows[2][1], NumberCell) and rows[2][1].parts[0] == "+50.0"
    assert rows[2][1].parts[2] == "*" and rows[3][1] == ""


def test_two_draws_do_not_show_how_others_vary():
    two = [judge("a"), judge("b")]
    assert words.headline(make_card(*two)).endswith(words.TWO_DRAWS)
    assert words.TWO_DRAWS not in words.headline(make_card(*two, judge("c")))
    unknown = [judge(name, labels=np.full(60, -1)) for name in "ab"]
    assert words.TWO_DRAWS not in words.headline(make_card(*unknown))


def test_rows_that_would_settle_a_gain():
    """Half the width takes four times the rows."""
    assert verdicts.rows_to_settle(Estimate(0.01, -0.01, 0.03), 50) == 200
    assert verdicts.rows_to_settle(Estimate(0.0, -0.01, 0.01), 50) is None
    assert verdicts.rows_to_settle(Estimate(1e-5, -0.5, 0.5), 50) is None


def test_the_bars_are_of_the_method_that_is_named_first():
    scores = SCORES + np.linspace(0, 3, 60, dtype=np.float32)[:, None] * np.float32([1, 0])
    verdict = judge(scores=scores)
    name, shares = verdict.first_answer
    equal = np.asarray(calibrate(scores, "prior_matching", share_error=0.0)).argmax(axis=1)
    assert name == "matching equal shares"
    assert shares.tolist() == [np.mean(equal == label) for label in range(len(NAMES))]
    assert shares.tolist() != verdict.diagnosis.corrected.tolist()
