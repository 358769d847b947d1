"""The runner: what a method finds in a table does not depend on what else is run."""

from functools import partial

import jax
import numpy as np
import pytest

from batch_calibration import calibrate
from batch_calibration.diagnosis.recommend import CANDIDATES
from batch_calibration.methods import METHODS, Evidence, correct, correct_context, run, run_methods
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import run_calibration

FEW_STARTS = {name: {"starts": 4} for name in METHODS if METHODS[name].needs_key}
UNEVEN = ("bc", "sld_em", "otter", "bc_empirical_bayes")
"""Methods whose iterations end in near ties: the last bit of a sum moves their numbers."""


def make_table(rows, seed, *, k=2, **other_sizes):
    """Random log-probabilities in every block that a method reads."""
    chance = np.random.default_rng(seed)
    sizes = {"test": rows, "labeled": 10, "cc": 3, "dc": 20, "cc_original": 3, "dc_original": 20}
    sizes |= {"looc": 4, "pmi": 1, "permutations": k * rows, **other_sizes}
    blocks = {}
    for name, count in sizes.items():
        labels = chance.integers(0, k, count)
        scores = chance.normal(size=(count, k)) + np.eye(k)[labels]
        log_probs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        blocks[name] = make_block(log_probs, labels)
    return ScoreTable({"seed": seed}, tuple("abcd"[:k]), blocks)


@pytest.fixture(scope="module")
def tables():
    """Three of one padded shape, the last with a premise for each row; one of another shape."""
    return [make_table(40, 0), make_table(64, 1), make_table(50, 2, pmi=50), make_table(9, 3, k=3)]


def bytes_of(tables, methods=None, **settings):
    """For each table and method the bytes of the scores and of the state."""
    names = [name for name in METHODS if methods is None or name in methods]
    options = {name: chosen for name, chosen in FEW_STARTS.items() if name in names}
    results = list(run_methods(tables, names, options=options, **settings).results)
    return jax.tree.map(lambda array: np.asarray(array).tobytes(), results)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_numbers_do_not_depend_on_the_tables_and_methods_beside(tables, in_blocks):
    same_shape = tables[:3]
    together = bytes_of(same_shape, in_blocks=in_blocks)
    assert set(together[0]) == set(METHODS) - {"ensemble"}  # nothing to average
    assert bytes_of(same_shape[::-1], in_blocks=in_blocks)[::-1] == together
    for table, of_table in zip(same_shape, together, strict=True):
        assert bytes_of([table], in_blocks=in_blocks) == [of_table]
        for name, expected in of_table.items():
            assert bytes_of([table], [name], in_blocks=in_blocks) == [{name: expected}]


def test_several_blocks_are_as_their_tables_alone():
    tables = [make_table(20 + seed, seed) for seed in range(run.CONTEXTS + 2)]
    shares = [{"target_prior": (share, 1 - share)} for share in np.linspace(0.3, 0.7, len(tables))]

    def found(places):
        common = [shares[place] for place in places]
        chosen, methods = [tables[place] for place in places], ("prior_matching", *UNEVEN)
        return bytes_of(chosen, methods, in_blocks=True, common=common)

    together = found(range(len(tables)))
    order = np.random.default_rng(0).permutation(len(tables)).tolist()
    assert found(order) == [together[place] for place in order]
    for place, expected in enumerate(together):
        assert found([place]) == [expected]


def test_contexts_of_a_block_are_corrected_as_one_by_one(tables):
    names = [name for name in METHODS if not METHODS[name].needs_key]
    one_by_one = [name for name in names if METHODS[name].one_by_one]
    expected = list(run_methods(tables[:3], names).results)
    found = list(run_methods(tables[:3], names, in_blocks=True).results)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-6), found, expected)
    assert bytes_of(tables[:3], one_by_one, in_blocks=True) == bytes_of(tables[:3], one_by_one)


def test_a_block_begins_when_its_first_table_is_read(monkeypatch):
    begun, correct_block = [], run._correct_block
    monkeypatch.setattr(
        run, "_correct_block", lambda *args: begun.append(len(args[1])) or correct_block(*args)
    )
    tables = [make_table(20, seed) for seed in range(run.CONTEXTS + 2)]
    large = make_table(run.MOST_SCORES // 2 + 1, 0)
    results = run_methods([*tables, large], ["bc"], in_blocks=True).results
    next(results)
    assert begun == [run.CONTEXTS]
    assert len(list(results)) == len(tables)
    assert begun == [run.CONTEXTS, 2]


def test_labeled_rows_of_one_label_are_labeled():
    rows = np.log([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.9, 0.1]])
    test = make_block(rows)
    for labels, why in (([1, 1, 1, 1], {}), ([-1] * 4, {"bcl"})):
        blocks = {"test": test, "labeled": make_block(rows, np.array(labels))}
        table = ScoreTable({}, ("no", "yes"), blocks)
        assert set(run_methods([table], ["bcl"]).skipped[0]) == set(why)


def test_numbers_do_not_depend_on_what_was_compiled_before(tables):
    together = bytes_of(tables, UNEVEN)
    run._jit.cache_clear()
    jax.clear_caches()
    assert bytes_of(tables[::-1], UNEVEN[::-1])[::-1] == together


@pytest.mark.parametrize("name", UNEVEN)
def test_doors_give_the_same_numbers(tables, name):
    table = tables[1]
    test = table.blocks["test"]
    expected = next(run_methods([table], [name]).results)[name]
    assert np.array_equal(calibrate(test.log_probs, name, from_probs=False), expected.scores)
    several = np.stack([test.log_probs[::-1], test.log_probs])
    assert np.array_equal(calibrate(several, name, from_probs=False)[1], expected.scores)
    record = run_calibration([table, tables[0]], ["icl", name])[0]
    assert record.methods[name].bias == tuple(expected.state.bias.tolist())
    in_block = run_calibration([table, tables[0]], ["icl", name], in_blocks=True)[0]
    np.testing.assert_allclose(in_block.methods[name].bias, expected.state.bias, atol=2e-6)


def test_a_method_that_does_not_exist_is_refused_before_anything_runs(tables, refuses):
    assert refuses(run_methods, tables, ["bcc"]).key == "method"


def test_compiler_options_of_another_xla_are_left_out(monkeypatch):
    unknown = {run.LEVEL: 0, "xla_cpu_no_such_option": False}
    monkeypatch.setattr(run, "WITHOUT_EMITTERS", unknown)
    run._quick_options.cache_clear()
    try:
        assert run._quick_options() == {run.LEVEL: 0}
    finally:
        run._quick_options.cache_clear()


def assert_padding_is_nothing(name, blocks):
    expected = correct(METHODS[name], blocks, blocks["test"].log_probs).scores
    np.testing.assert_allclose(correct_context(METHODS[name], blocks).scores, expected, atol=2e-5)


@pytest.mark.parametrize("rows", [32, 45])
@pytest.mark.parametrize("name", [*CANDIDATES, "prior_matching"])
def test_padded_blocks_are_corrected_as_they_are(name, rows):
    chance = np.random.default_rng(0)
    blocks = {}
    for block, count in (("test", rows), ("labeled", 21), ("cc", 3)):
        labels = chance.integers(0, 3, count).astype(np.int32)
        scores = chance.normal(size=(count, 3)) + np.eye(3)[labels]
        blocks[block] = Evidence(scores.astype(np.float32), labels)
    assert_padding_is_nothing(name, blocks)


@pytest.mark.parametrize("name", ["pride", "pmi", "order_average", "order_average_prior"])
@pytest.mark.parametrize("k", [2, 3])
def test_rows_that_belong_to_rows_stay_in_their_place(name, k):
    table = make_table(11, 5, k=k, pmi=11)
    blocks = {part: Evidence(rows.log_probs) for part, rows in table.blocks.items()}
    assert_padding_is_nothing(name, blocks)


def test_questions_without_all_their_orders_are_refused_though_rows_are_padded(refuses):
    blocks = {"test": Evidence(np.zeros((9, 2))), "permutations": Evidence(np.zeros((7, 2)))}
    assert refuses(correct_context, METHODS["pride"], blocks).got == "7 rows"


def test_contexts_of_other_lengths_share_a_program():
    correct_context(METHODS["bc"], {"test": Evidence(np.zeros((33, 4)))})
    program = run._jit(run._correct, ("factory", "options"), 0)
    count = program._cache_size()
    ones = Evidence(np.ones((64, 4)))
    correct_context(METHODS["bc"], {"test": ones})
    correct_context(METHODS["cc"], {"test": ones, "cc": ones})
    assert program._cache_size() == count


def test_rows_are_the_same_if_ids_digest_and_known_labels_are():
    table = make_table(20, 0)
    table = table._replace(context={"rows": "digest"})
    block = table.blocks["test"]
    assert (block.labels > 0).any()

    def other(**changes):
        return table._replace(blocks={"test": block._replace(**changes)})

    moved = other(labels=np.roll(block.labels, 1))
    assert run.have_same_rows([table, other()]) and not run.have_same_rows([table, moved])
    # Labels that are not all known say nothing.
    assert run.have_same_rows([table, other(labels=np.where(block.labels, -1, 0).astype(np.int32))])
    assert not run.have_same_rows([table, other(row_ids=tuple(map(str, range(1, 21))))])
    assert not run.have_same_rows([table, table._replace(context={"rows": "another"})])
