"""`run_calibration`: what it finds is what each method gives alone, however tables are padded."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from making import by_method

from batch_calibration import calibrate, metrics
from batch_calibration.methods import METHODS, Evidence, compare, run_methods
from batch_calibration.methods.run import jit_quickly, pad_rows
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Records, Store
from batch_calibration.studies.calibration import calibrate_store, run_calibration
from batch_calibration.studies.records import unpack

pytestmark = pytest.mark.filterwarnings("ignore:.*which is rough:UserWarning")

EVERY = {"cc": 3, "dc": 20, "cc_original": 3, "dc_original": 20, "pmi": 1, "looc": 4}
"""Probe blocks and how many rows they have."""
SHIFTS = [name for name, method in METHODS.items() if not method.looped]


@pytest.fixture(scope="module")
def tables(planted):
    """Of 2 and 3 labels, of several lengths, with and without probes and a labeled set."""

    def block(rows, labels, seed):
        scores, gold, _ = planted(rows, labels, seed)
        return make_block(scores, gold)

    tables = []
    for seed, (rows, labels, probe_sizes) in enumerate([
        (20, 2, EVERY | {"labeled": 12, "permutations": 40}),
        (31, 2, {"cc": 3}),
        (24, 3, EVERY | {"labeled": 9, "permutations": 72}),
        (5, 2, {}),
        (28, 2, {"labeled": 7}),
    ]):  # fmt: skip
        blocks = {"test": block(rows, labels, seed)}
        blocks |= {name: block(n, labels, 10 + seed) for name, n in probe_sizes.items()}
        names = ("a", "b", "c")[:labels]
        tables.append(ScoreTable({"task": "mine", "seed": seed}, names, blocks))
    return tables


@pytest.fixture(scope="module")
def records(tables):
    return run_calibration(tables, SHIFTS)


def test_records_come_in_the_order_of_the_tables(tables, records):
    assert isinstance(records, Records)
    assert [record.id for record in records] == [table.id for table in tables]
    assert [record.context.seed for record in records] == [0, 1, 2, 3, 4]
    assert records[0].rows == {"test": 20, **EVERY, "labeled": 12, "permutations": 40}


@pytest.mark.parametrize("names", [["bc"], ["icl", "bc", "sld_em"]])
def test_metrics_are_to_the_bit_those_of_each_method_alone(tables, names):
    """A record measures its methods in one call, and pads their number."""
    one_by_one = jit_quickly(metrics.measure)
    for table in tables[:3]:
        record, test = run_calibration([table], names)[0], table.blocks["test"]
        for name, corrected in next(run_methods([table], names).results).items():
            expected = one_by_one(*pad_rows(Evidence(corrected.scores, test.labels)))
            found = record.methods[name].metrics
            for metric in expected.keys() - {"accuracy"}:
                assert found[metric] == float(expected[metric]), (name, metric)


def test_a_record_says_what_became_of_prompts(tables):
    specs = {"test": {"dropped": 3, "truncated": 1, "unreadable": 2}}
    specs["test"]["notes"] = ["a gap was filled"]
    specs["cc"] = {"truncated": 4, "dropped": 0}
    blocks = {name: tables[1].blocks[name]._replace(spec=spec) for name, spec in specs.items()}
    (record,) = run_calibration([tables[1]._replace(blocks=blocks)], ["icl"])
    assert record.over_long == {"test": {"dropped": 3, "truncated": 1}, "cc": {"truncated": 4}}
    assert record.unreadable == {"test": 2}
    assert "a gap was filled" in record.notes


def measured(scores, labels, before=None):
    """A record's part of a summary: of the intervals, that of accuracy, and the gain's."""
    measures = metrics.summary(scores, labels)
    if before is not None:
        right, was = (np.asarray(numbers).argmax(axis=-1) == labels for numbers in (scores, before))
        measures["gain"] = right.mean() - was.mean()
        ends = metrics.gain_interval((right & ~was).sum(), (was & ~right).sum(), len(labels))
        measures |= dict(zip(("gain_low", "gain_high"), map(float, ends), strict=True))
    return {name: x for name, x in measures.items() if not name.startswith("balanced_accuracy_")}


@pytest.mark.slow_except("2")
@pytest.mark.parametrize("position", range(5))
def test_every_metric_is_that_of_the_method_alone(position, tables, records):
    table, record = tables[position], records[position]
    test = table.blocks["test"]
    for name, result in record.methods.items():
        if METHODS[name].together is not None:
            continue  # pooled over the contexts of a task: test_pooled_shares has its numbers
        needs = {}
        for block in METHODS[name].probe.blocks:
            if block != "test":
                block_name = "labeled" if block == "labeled" else "probe"
                needs[block_name] = table.blocks[block].log_probs
            if block in METHODS[name].probe.labeled:
                needs["labels"] = table.blocks[block].labels
        scores = calibrate(test.log_probs, name, **needs)
        before = test.log_probs if METHODS[name].probe.blocks else None
        values = measured(scores, test.labels, before)
        assert result.metrics == pytest.approx(values, abs=1e-5), name


def test_which_rows_are_right_is_kept(tables):
    """Of labeled rows alone, of the floored scores, also where icl is not among the methods."""
    block = tables[2].blocks["test"]
    labels = np.where(np.arange(24) < 20, block.labels, -1)
    table = tables[2]._replace(blocks={"test": block._replace(labels=labels)})
    (record,) = run_calibration([table], ["bc"], floor=-2.5)
    scores = np.maximum(block.log_probs, -2.5)
    new = (scores - scores.mean(axis=0)).argmax(axis=-1)[:20] == labels[:20]
    old = scores.argmax(axis=-1)[:20] == labels[:20]
    assert unpack(record.methods["bc"].right, 20).tolist() == new.tolist()
    assert record.classes == tuple(np.bincount(labels[:20], minlength=3))
    assert record.methods["bc"].metrics["gain"] == pytest.approx(new.mean() - old.mean())
    assert record.methods["bc"].metrics["accuracy"] == new.mean()


def test_methods_without_their_block_are_skipped_and_said(records):
    # The tables have other rows, so that there is nothing to average.
    assert set(records[0].methods) == set(SHIFTS) - {"ensemble"}
    assert set(records[0].skipped) == {"ensemble"}
    reads = {name: set(METHODS[name].probe.blocks) for name in SHIFTS}
    others = {name for name in SHIFTS if reads[name] - {"test", "cc"}}
    assert set(records[1].skipped) == others | {"ensemble"}
    assert records[1].skipped["dc"] == "no block 'dc' in the table"
    assert records[1].searched is None
    others = {name for name in SHIFTS if reads[name] - {"test", "labeled"}}
    assert set(records[4].skipped) == others | {"ensemble"}


def test_bias_strength_and_curves_are_the_states(tables, records):
    blocks = {}
    for name, block in tables[0].blocks.items():
        blocks[name] = jnp.asarray(block.log_probs)[None], jnp.asarray(block.labels)[None]
    with_bias = {name for name in METHODS if METHODS[name].keeps_bias}
    compared = compare(blocks, methods=sorted(with_bias))
    record = records[0]
    assert set(by_method(record, "bias")) == with_bias
    # What is pooled over the contexts of a task is in test_pooled_shares.
    for name, bias in by_method(record, "bias").items():
        if METHODS[name].together is not None:
            continue
        np.testing.assert_allclose(bias, compared[name].state.bias[0], atol=1e-6)
    (name,) = (name for name in METHODS if METHODS[name].has_curve)
    searched = record.searched
    assert searched.strength == pytest.approx(float(compared[name].state.strength[0]))
    np.testing.assert_allclose(searched.curve.labeled, compared[name].state.curve[0], atol=1e-6)
    assert searched.curve.test[60] == pytest.approx(record.methods["bc"].metrics["accuracy"])
    assert searched.curve.test[50] == pytest.approx(record.methods["icl"].metrics["accuracy"])


COSINES = {"kind": "dual_encoder", "scale": 20.0}
LOGITS = {"kind": "causal_lm", "logits_only": True}


@pytest.mark.parametrize(
    ("scorer", "moved", "why"),
    [
        (COSINES, 0.0, "these are scaled cosines (dual_encoder)"),
        (LOGITS, 0.0, "these are logits without the softmax's denominator (logits_only)"),
        ({"kind": "causal_lm"}, 9.0, None),
        (None, 0.0, None),
        ("an API", 9.0, "the probabilities of row "),
    ],
)
def test_methods_of_log_probs_are_left_out_where_scores_are_none(tables, scorer, moved, why):
    blocks = {}
    for name, block in tables[0].blocks.items():
        blocks[name] = block._replace(log_probs=block.log_probs + np.float32(moved))
    table = tables[0]._replace(context={"task": "mine", "scorer": scorer}, blocks=blocks)
    names = ["cc", "cc_original", "dc_original"]
    (record,) = run_calibration([table], names)
    assert set(record.skipped) == ({"cc_original", "dc_original"} if why else set())
    begin = f"it needs log-probabilities over the whole vocabulary, and {why}"
    assert all(reason.startswith(begin) for reason in record.skipped.values())
    assert set(record.methods) == set(names) - set(record.skipped)


def test_too_many_labels_is_said(planted):
    scores, gold, _ = planted(50, 21)
    table = ScoreTable({}, tuple(map(str, range(21))), {"test": make_block(scores, gold)})
    (record,) = run_calibration([table], ["icl", "pc"])
    assert record.skipped == {"pc": "21 labels are more than the 20 it can tell apart"}
    assert set(record.methods) == {"icl"}


def test_tables_padded_to_one_shape_share_programs(tables):
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        names = ["icl", "bc", "bc_loo"]
        run_calibration([tables[0]], names)  # of 20 rows
        before = len(compiled)
        run_calibration([tables[1], tables[0]], names)  # of 31 and 20
    finally:
        jax.monitoring.clear_event_listeners()
    assert len(compiled) == before


def test_pc_is_that_of_the_table_alone(tables):
    (record,) = run_calibration([tables[0]], ["pc"])
    test = tables[0].blocks["test"]
    expected = metrics.accuracy(calibrate(test.log_probs, "pc", key=0), jnp.asarray(test.labels))
    assert record.methods["pc"].metrics["accuracy"] == pytest.approx(float(expected))


def test_progress_is_told_of_every_table(tables):
    progress = []
    run_calibration(tables, ["icl"], progress=progress.append)
    assert progress[-1] == len(tables) and progress == sorted(progress)


def test_a_floor_lifts_minus_infinity_of_every_method(tables, refuses):
    test = tables[0].blocks["test"]
    cut = test.log_probs.copy()
    cut[0, 0] = -np.inf
    table = tables[0]._replace(blocks=tables[0].blocks | {"test": test._replace(log_probs=cut)})
    assert "-inf in row 0, label 0" in refuses(run_calibration, [table], ["icl"]).got
    above = test._replace(log_probs=np.maximum(cut, -30.0))
    lifted = tables[0]._replace(blocks=tables[0].blocks | {"test": above})
    (ours,) = run_calibration([table], SHIFTS, floor=-30.0)
    (theirs,) = run_calibration([lifted], SHIFTS)
    assert ours.floor == -30.0 and replace(ours, floor=None) == theirs


def test_bad_input_is_a_sentence(tables, refuses):
    unlabeled = {"test": make_block(tables[0].blocks["test"].log_probs)}
    error = refuses(run_calibration, [tables[0]._replace(blocks=unlabeled)], ["bc"])
    assert "20 test rows" in str(error)
    probe_only = tables[1]._replace(blocks={"cc": tables[1].blocks["cc"]})
    assert refuses(run_calibration, [probe_only]).got == "cc"
    assert refuses(run_calibration, tables, ["bc"], probe_sizes=[0]).where == "probe sizes"


def test_accuracy_by_probe_size(planted):
    scores, labels, _ = planted(40, 2)
    table = ScoreTable({"task": "sst2"}, ("a", "b"), {"test": make_block(scores, labels)})
    short = table._replace(blocks={"test": make_block(scores[:33], labels[:33])})
    sizes = {"probe_sizes": [2, 10, 20, 40, 500], "draws": 3}
    record, second = run_calibration([table, short], ["icl", "bc", "pc"], **sizes)
    by_size, by_size_of_short = by_method(record, "probe_size"), by_method(second, "probe_size")
    assert by_size["bc"].rows == (2, 10, 20, 40) and by_size_of_short["bc"].rows == (2, 10, 20, 33)
    assert set(by_size) == {"bc", "pc"}
    for draws in (of_method.accuracy for of_method in by_size.values()):
        assert list(map(len, draws)) == [3, 3, 3, 1]
        assert all(0 <= value <= 1 for values in draws for value in values)
    for record_of_either in (record, second):
        last = record_of_either.methods["bc"].probe_size.accuracy[-1]
        assert last == (pytest.approx(record_of_either.methods["bc"].metrics["accuracy"]),)
    expected = jnp.mean(jnp.argmax(scores - jnp.mean(scores, axis=0), axis=-1) == labels)
    assert by_size["bc"].accuracy[-1] == (pytest.approx(float(expected)),)


def test_results_of_an_earlier_run_stay_where_scores_and_floor_do(planted, tmp_path):
    scores, gold, _ = planted(20, 2, 0)
    store = Store(tmp_path, create=True)
    blocks = {"test": make_block(scores, gold)}
    store.put(ScoreTable({"task": "mine", "seed": 0}, ("a", "b"), blocks))
    kept = []
    for method, floor in (("icl", None), ("bc", None), ("bc", -2.0), ("icl", -2.0)):
        (record,) = calibrate_store(store, [method], floor=floor).records
        kept.append(sorted(record.methods))
    assert kept == [["icl"], ["bc", "icl"], ["bc"], ["bc", "icl"]]
