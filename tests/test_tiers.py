"""Which tests are in which tier, and that what lists files lists those that are there."""

from pathlib import Path

import mutations
import pytest
import tiers

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_laws.py::test_bc_twice_is_bc", ""),
        ("test_fuzz.py::test_any", tiers.SIZE),
        ("test_sweep.py::test_a_worker_that_is_killed_leaves_its_part", tiers.WORKERS),
        ("test_sweep.py::test_flags_of_a_sweep_that_cannot_be[flags0]", ""),
        ("test_families.py::test_every_weight_matters[llama_biased]", ""),
        ("test_families.py::test_every_weight_matters[llama_yarn]", tiers.COMBINATIONS),
        ("test_contract.py::test_any_number_of_labels[bc-2]", ""),
        ("test_contract.py::test_any_number_of_labels[bc-100]", tiers.COMBINATIONS),
        ("test_contract.py::test_all_rows_absent_is_finite[bc, prior]", ""),
        ("test_contract.py::test_all_rows_absent_is_finite[pc]", tiers.COMBINATIONS),
    ],
)
def test_the_longest_rule_counts(name, reason):
    assert tiers.slow_because(name) == reason


def test_a_rule_of_no_test_is_found():
    assert tiers.unused_rules([f"{rule}::test_any" for rule in tiers.RULES]) == []
    assert "test_fuzz.py" in tiers.unused_rules(["test_laws.py::test_any"])


def test_every_case_that_stands_for_others_is_there():
    from test_contract import CONTRACT

    assert set(tiers.METHODS) <= set(CONTRACT)
    for network in tiers.FAMILIES:
        assert (ROOT / "tests" / "golden" / network).is_dir()


@pytest.mark.parametrize("file", mutations.TESTS)
def test_mutated_files_and_their_tests_are_there(file):
    assert (ROOT / "batch_calibration" / file).is_file()
    for path in mutations.TESTS[file].split():
        assert (ROOT / path).is_file(), path
