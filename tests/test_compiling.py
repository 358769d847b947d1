"""Compilation of programs of many methods."""

import jax
import numpy as np
import pytest

from batch_calibration.diagnosis.cross_validation import CANDIDATES
from batch_calibration.methods import METHODS, Evidence, compiling, correct


def count_names(*, methods, options):
    return jax.numpy.asarray(len(methods) + len(options))


@pytest.fixture
def fresh():
    """No function compiled before, and none that a test compiled after it."""
    compiling._jit_methods.cache_clear()
    compiling._jit.cache_clear()
    compiling._quick_options.cache_clear()
    yield
    compiling._jit_methods.cache_clear()
    compiling._jit.cache_clear()
    compiling._quick_options.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("looped", [True, False])
def test_a_function_is_compiled_once_for_its_methods(looped):
    run = compiling.jit_methods(count_names, looped=looped)
    assert int(run(methods=("icl", "bc"), options={})) == 2
    assert compiling.jit_methods(count_names, looped=looped) is run
    assert compiling.jit_methods(count_names, looped=not looped) is not run


@pytest.mark.usefixtures("fresh")
def test_what_another_xla_does_not_know_is_left_out(monkeypatch):
    unknown = {compiling.LEVEL: 0, "xla_cpu_no_such_option": False}
    monkeypatch.setattr(compiling, "WITHOUT_EMITTERS", unknown)
    run = compiling.jit_methods(count_names, looped=False)
    assert int(run(methods=("icl",), options={})) == 1


@pytest.mark.parametrize("rows", [32, 45])
@pytest.mark.parametrize("name", [*CANDIDATES, "prior_matching"])
def test_padded_blocks_are_corrected_as_they_are(name, rows):
    chance = np.random.default_rng(0)
    blocks = {}
    for block, count in (("test", rows), ("labeled", 21), ("cc", 3)):
        labels = chance.integers(0, 3, count).astype(np.int32)
        scores = chance.normal(size=(count, 3)) + np.eye(3)[labels]
        blocks[block] = Evidence(scores.astype(np.float32), labels)
    expected = correct(METHODS[name], blocks, blocks["test"].log_probs).scores
    corrected = compiling.correct_quickly(name, blocks, {})
    np.testing.assert_allclose(corrected, expected, atol=2e-5)


def test_contexts_of_other_lengths_share_a_program():
    compiling.correct_quickly("bc", {"test": Evidence(np.zeros((33, 4)))}, {})
    program = compiling.jit_quickly(compiling._correct, "name", "options")
    count = program._cache_size()
    compiling.correct_quickly("bc", {"test": Evidence(np.ones((64, 4)))}, {})
    assert program._cache_size() == count
