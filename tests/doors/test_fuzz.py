"""A fixed part of the fuzz: damaged files and arrays give the same values, or one sentence.

A new generator of cases is a function in `fuzz_logs.py`: see `truths.py`.
"""

import fuzz
import pytest

pytestmark = pytest.mark.slow  # hundreds of damaged files

TIMES = {
    800: "score_file score_header logs",
    3000: "json_lines csv",
    1700: "files_of_scores",
    1500: "responses",
    600: "json_scores frames_of_scores",
    500: "task_file",
    100: "missing",
    80: "records",
    60: "api program",
    40: "config tensors_header",
    20: "tokenizer_config",
}
CASES = {kind: number for number, kinds in TIMES.items() for kind in kinds.split()}
CASES |= dict.fromkeys(fuzz.GENERATORS, 200)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return fuzz.Kinds(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", CASES)
def test_damage_is_refused_with_a_sentence_or_changes_nothing(kinds, kind):
    became = {case: fuzz.run(kinds, kind, 0, case) for case in range(CASES[kind])}
    assert not {case: outcome for case, outcome in became.items() if outcome.startswith("FAILED")}
    # Of a generator the truth is known, and some of its cases are read.
    assert ("same" if kind in fuzz.GENERATORS else "refused") in became.values()


def test_each_kind_is_here():
    assert set(CASES) == set(fuzz.KINDS)
