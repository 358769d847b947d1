"""Log-probabilities, logits and cosines: what is printed and recommended of each."""

import re
import sys

import numpy as np
import pytest
from making import make_card

from batch_calibration import diagnose, recommend
from batch_calibration.cli.summaries import CorrectedContext, show_advice, show_contexts
from batch_calibration.diagnosis.diagnose import diagnose_table
from batch_calibration.diagnosis.recommend import recommend_tables
from batch_calibration.diagnosis.verdicts import judge_context
from batch_calibration.methods.run import holds_cosines
from batch_calibration.reporting import words
from batch_calibration.reporting.cells import label_cells, size_cell
from batch_calibration.reporting.page import make_page
from batch_calibration.scores import ScoreTable, make_block

NAMES = ("cat", "dog", "fox")
RANDOM = np.random.default_rng(0)
GOLD = RANDOM.integers(3, size=120)
COSINES = 0.25 + 0.02 * np.eye(3)[GOLD] + RANDOM.normal(0, 0.02, (120, 3)) + [0.03, 0.0, 0.0]
LOGITS = 20 + 100 * (COSINES - 0.25)
DUAL = {"kind": "dual_encoder", "scale": 20.0}
KINDS = {
    "log-probs": (LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True)), None),
    "logits": (LOGITS, None),
    "cosines": (COSINES, None),
    "scaled cosines": (20 * COSINES, DUAL),
}


def table_of(kind, task="pets"):
    scores, scorer = KINDS[kind]
    context = {"task": task} | ({"scorer": scorer} if scorer else {})
    return ScoreTable(context, NAMES, {"test": make_block(scores, labels=GOLD)})


def verdict_of(kind):
    table = table_of(kind)
    rows = table.blocks["test"].log_probs
    advice = recommend(rows, from_probs=False, cosines=holds_cosines(table), label_names=NAMES)
    return judge_context(kind, "pets", advice, table)


@pytest.mark.parametrize("kind", KINDS)
def test_each_printed_place_has_the_unit_of_its_scores(kind, capsys):
    verdict, table = verdict_of(kind), table_of(kind)
    (advice,) = recommend_tables([table], ["pets"])
    scores = table.blocks["test"].log_probs
    context = CorrectedContext(table, scores, diagnose_table(table, scores, "bc"), advice)
    for contexts in ([context], [context] * 4):
        show_contexts(contexts, 0, sys.stdout)
        show_advice(contexts, sys.stdout)
    two = make_card(verdict, verdict._replace(name="b"), heading="pets")
    texts = [
        capsys.readouterr().out,
        " ".join(words.facts(make_card(verdict)).values()),
        " ".join(words.facts(two).values()),
        str(verdict.diagnosis),
        make_page([], (), cards=[two]),
        repr(label_cells(verdict.diagnosis)),
    ]
    for text in texts:
        said = re.sub(r"[Cc]osines\s+have\s+no\s+nats", "", text)
        has_spread = bool(re.search(r"\bSD\b|standard\s+deviations", said))
        assert has_spread == ("cosines" in kind) != bool(re.search(r"\bnats\b", said)), said
        assert not has_spread or "a factor of" not in said


def test_sentences_on_cosines_and_on_logits():
    assert diagnose(COSINES, from_probs=False, label_names=NAMES).sentences()[0] == (
        "Averaged over 120 rows, the scores favor 'cat' over 'fox' by 0.84 ± 0.09 standard "
        "deviations of the two scores' difference (as cosines have no nats; ± a standard error); "
        "100 rows would give ± 0.1."
    )
    logits = diagnose(LOGITS, from_probs=False, label_names=NAMES).sentences()[0]
    log_probs = diagnose(KINDS["log-probs"][0], label_names=NAMES).sentences()[0]
    assert logits == log_probs  # only differences matter
    assert words.facts(make_card(verdict_of("cosines")))["Advised"] == (
        "If labels are about equally frequent, match equal shares; if you do not know, label 32 "
        "rows: the scores of images do not show how frequent labels are."
    )


@pytest.mark.parametrize("scale", [0.5, 3.0, 100.0])
def test_a_scale_of_cosines_changes_neither_the_stated_bias_nor_the_advice(scale):
    plain = diagnose(COSINES, cosines=True)
    scaled = diagnose(scale * COSINES, cosines=True)
    sizes = [(found.size, found.pair_error / found.unit) for found in (scaled, plain)]
    np.testing.assert_allclose(*sizes, rtol=1e-4)
    assert scaled.rows_needed == plain.rows_needed
    known = {"target_prior": (0.5, 0.3, 0.2)}
    # At three times the cosines, mean probabilities of .5 give one label to every row.
    if scale == 3:
        assert recommend(scale * COSINES, cosines=True, **known).method == "icl"
        known = {"target_prior": (1 / 3, 1 / 3, 1 / 3)}
    for stated in ({}, {"share": "balanced"}, known):
        advice = recommend(scale * COSINES, cosines=True, **stated)
        # Matching at temperature 0 needs no scale, which cosines lack.
        match = "otter" if scale < 1 else "prior_matching"
        assert advice.method == (match if stated else "icl")
        assert advice.reason == recommend(COSINES, cosines=True, **stated).reason
        assert advice.balanced.method == match
        assert (advice.if_balanced is None) == bool(stated)


def test_labels_decide_for_cosines_and_nothing_else_does():
    def by_labels(rows, count):
        return recommend(rows, labeled=rows[:count], labels=GOLD[:count], from_probs=False)

    assert by_labels(COSINES, 120).method not in ("icl", "bcl_empirical_bayes")
    even = COSINES - [0.03, 0.0, 0.0]
    advice = by_labels(even, 60)
    assert advice.method == "icl"
    assert advice.reason[0].startswith("Leave the scores as they are: on 60 labeled rows no other")
    assert "learned by bcl_empirical_bayes: on 60" in by_labels(LOGITS, 60).reason[0]
    of_scaled = recommend(20 * COSINES, cosines=True, labeled=20 * COSINES[:60], labels=GOLD[:60])
    assert "learned by prior_moved: on 60 labeled rows no other" in of_scaled.reason[0]


def test_kinds_are_told_by_the_scorer_else_by_the_values():
    assert [holds_cosines(table_of(kind)) for kind in KINDS] == [False, False, True, True]
    of_logits = table_of("cosines")._replace(context={"scorer": {"kind": "causal_lm"}})
    assert not holds_cosines(of_logits)
    assert diagnose(COSINES, cosines=False, from_probs=False).sentences()[0].count("nats") == 1


def test_cosines_that_do_not_differ_between_rows_have_no_spread():
    found = diagnose(np.tile([0.5, 0.25], (30, 1)), from_probs=False)
    assert found.sentences()[0].endswith("over 'label 1' by the same amount in all rows.")
    assert size_cell(found) == "-"


@pytest.mark.parametrize("columns", ["logit_A,logit_B", "logitA,logitB", "A_logit,B_logit"])
def test_files_of_raw_logits_pass_by_the_names_of_their_columns(columns, tmp_path, program):
    path = tmp_path / "mmlu.csv"
    rows = "\n".join(f"{12.5 + i % 3},{13.25 - i % 2},{'AB'[i % 2]}" for i in range(30))
    path.write_text(f"{columns},gold\n{rows}\n")
    done = program("diagnose", str(path))
    assert done.returncode == 0 and "nats" in done.stdout
    if columns.startswith("logit"):
        assert "names labels and is read as right labels" in done.stderr


def test_scaled_cosines_of_a_file_are_said_by_a_flag(tmp_path, program):
    path = tmp_path / "clip.csv"
    scores = 25 + np.random.default_rng(0).normal(size=(60, 2)) + [1.0, 0.0]
    np.savetxt(path, scores, "%.4f", ",", header="cat,dog", comments="")
    done = program("diagnose", str(path), "--cosines").stdout
    assert "standard deviations of the two scores' difference" in " ".join(done.split())
    assert "nats" not in done.replace("cosines have no nats", "")
