"""Right labels that speak against advice, in files whose right answers are known."""

import json

import numpy as np
import pandas as pd
import pytest

from batch_calibration import recommend
from batch_calibration.diagnosis.verdicts import doubt
from batch_calibration.scores import ScoreTable, make_block

NAMES = ("no", "yes")


def said_by(program, *flags):
    done = program(*flags)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_right_answers_contradict_stated_shares(program, shared):
    path = str(shared / "cases" / "faults" / "06_prior_against_gold" / "x.csv")
    flags = (path, "--gold=gold", "--prior=yes=0.95,no=0.05")
    for command in ("diagnose", "recommend"):
        said = said_by(program, command, *flags)
        assert "Do not match stated shares: " in said
        assert "'yes' is right for 42.5 % of 40 rows, which contradicts 95.0 %" in said or (
            "'no' is right for 57.5 % of 40 rows, which contradicts 5.0 %" in said
        )
        assert "Recommended: match the stated" not in said
        assert "calibrate FILE --method=prior_matching --prior=0.95" not in said
        assert "calibrate FILE --method=prior_matching --prior=0.05" not in said


def test_choices_without_a_bias_of_their_place_are_left(program, shared, tmp_path):
    folder = shared / "cases" / "reports" / "I_answer_always_first"
    flags = (f"{folder}/samples_truthfulqa_mc1_*.jsonl", "--by=choices")
    assert "Leave the scores as they are" in said_by(program, "recommend", *flags)
    assert "Recommended: leave the scores as they are" in said_by(program, "diagnose", *flags)
    page = f"--output={tmp_path}/page.html"
    said = said_by(program, "report", *flags, "--methods=icl,bc", page)
    assert "leave the scores as they are" in said
    assert "prior_matching" not in said


def table_of(scores, gold):
    return ScoreTable({}, NAMES, {"test": make_block(scores.astype(np.float32), gold)})


def world(share, rows=400, bias=(0.0, 0.0), seed=0):
    random = np.random.default_rng(seed)
    gold = (random.random(rows) < share).astype(int)
    return 2.5 * np.eye(2)[gold] + random.normal(size=(rows, 2)) + np.array(bias) - 4, gold


def test_a_loss_beyond_noise_or_other_shares_are_a_doubt():
    scores, gold = world(0.9)
    advice = recommend(scores, share="balanced", label_names=NAMES)
    found = doubt(table_of(scores, gold), advice)
    accuracy = [
        100 * (np.asarray(of).argmax(axis=1) == gold).mean()
        for of in (scores, advice.apply(scores))
    ]
    assert found.doubt.startswith("Do not match equal shares: on the 400 right labels of these ")
    assert f"accuracy falls from {accuracy[0]:.1f} to {accuracy[1]:.1f} %" in found.doubt
    share = 100 * (gold == 0).mean()
    assert f"'no' is right for {share:.1f} % of 400 rows, which contradicts 50.0 %" in found.doubt
    assert found._replace(doubt="") == advice


def test_shares_that_contradict_the_labels_are_no_doubt_if_accuracy_rises():
    scores, gold = world(0.7, bias=(-3.0, 3.0))
    advice = recommend(scores, target_prior=[0.5, 0.5], label_names=NAMES)
    found = doubt(table_of(scores, gold), advice)
    before, after = (
        (np.asarray(of).argmax(axis=1) == gold).mean() for of in (scores, advice.apply(scores))
    )
    assert after > before + 0.05 and not found.doubt


@pytest.mark.parametrize("share", [0.5, 0.58])
def test_shares_near_the_known_ones_are_no_doubt(share):
    scores, gold = world(share, bias=(1.5, 0.0))
    advice = recommend(scores, share="balanced", label_names=NAMES)
    assert doubt(table_of(scores, gold), advice) == advice
    unknown = table_of(scores, np.full(400, -1))
    assert doubt(unknown, recommend(scores, target_prior=(0.01, 0.99))).doubt == ""


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_right_labels_of_a_file_are_labeled_rows_of_a_second_answer(program, tmp_path, share):
    scores, gold = world(share, 200, (2.0, 0.0))
    frame = pd.DataFrame(scores.round(5), columns=NAMES).assign(gold=np.array(NAMES)[gold])
    frame.to_csv(tmp_path / "x.csv", index=False)
    said = said_by(program, "recommend", f"{tmp_path}/x.csv", "--gold=gold")
    assert "With the 200 right labels of this file:" in said
    first, second = said.split("With the 200 right labels of this file:")
    assert "16 labeled rows would" not in said and "label 32 rows" not in said
    assert "200 labeled rows" in second and "labeled rows" not in first
    found = json.loads(said_by(program, "recommend", f"{tmp_path}/x.csv", "--gold=gold", "--json"))
    assert (found["source"], found["by_labels"]["source"]) == ("estimated", "labeled")
    assert not found["measured"] and found["by_labels"]["measured"]
    # Without right labels the advice is the same.
    frame.drop(columns="gold").to_csv(tmp_path / "y.csv", index=False)
    alone = json.loads(said_by(program, "recommend", f"{tmp_path}/y.csv", "--json"))
    assert alone["options"] == found["options"] and alone["by_labels"] is None
    assert any("16 labeled rows would" in sentence for sentence in alone["reason"])
