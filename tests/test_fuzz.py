"""A fixed part of the fuzz: damaged files and arrays give the same values, or one sentence.

A new generator of cases is a function in the file of its topic: see `truths.py`.
"""

import fuzz
import pytest

TIMES = {
    800: "score_file score_header logs delimited_scores",
    3000: "json_lines csv",
    1500: "responses",
    600: "array_scores json_scores frames_of_scores",
    500: "task_file",
    300: "columnar_scores",
    100: "missing",
    80: "records",
    60: "api program",
    40: "config tensors_header",
    20: "tokenizer_config",
}
CASES = {kind: number for number, kinds in TIMES.items() for kind in kinds.split()}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return fuzz.Kinds(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", CASES)
def test_damage_is_refused_with_a_sentence_or_changes_nothing(kinds, kind):
    became = {case: fuzz.run(kinds, kind, 0, case) for case in range(CASES[kind])}
    assert not {case: outcome for case, outcome in became.items() if outcome.startswith("FAILED")}
    assert "refused" in became.values()


def test_each_kind_is_here():
    assert {*CASES, *fuzz.GENERATORS} == set(fuzz.KINDS)


@pytest.mark.parametrize("kind", fuzz.GENERATORS)
def test_other_people_s_data_is_the_truth_or_a_sentence(kinds, kind):
    cases = range(3 if kind == "answers_asked_for" else 200)  # that one asks a server
    became = {case: fuzz.run(kinds, kind, 0, case) for case in cases}
    assert not {case: outcome for case, outcome in became.items() if outcome.startswith("FAILED")}
    assert "same" in became.values()
