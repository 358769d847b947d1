"""Workdirs merged: each block is kept, once or twice merged is the same, contradictions refused."""

import shutil
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from making import make_record

from batch_calibration.scores import ScoreTable, load, make_block
from batch_calibration.studies import Store, merge_workdirs, runs

TEST = make_block([[-1.0, -2.0], [-3.0, -np.inf]], [0, 1], [5, 6], ["a", "b"], {"texts": "t"})
CC = make_block([[-1.5, -2.5]], spec={"texts": "c"})


def table(task, model="m", names=("no", "yes"), **blocks):
    return ScoreTable({"task": task, "seed": 0, "model": model}, names, {"test": TEST} | blocks)


def workdir(path, *tables):
    store = Store(path, create=True)
    for stored in tables:
        store.put(stored)
    return path


def content(folder):
    """Every file of a workdir and its bytes."""
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.fixture
def two(tmp_path):
    """Two workdirs that share a context, of which each has a block that the other lacks."""
    first_table = workdir(tmp_path / "a", table("rte"), table("cb", cc=CC))
    return first_table, workdir(tmp_path / "b", table("cb", dc=CC), table("sst2"))


def test_every_context_and_every_block_is_kept(two, tmp_path):
    before = [content(folder) for folder in two]
    assert merge_workdirs(two, tmp_path / "w")[:3] == (3, 0, 0)
    tables, broken = Store(tmp_path / "w").tables()
    assert broken == []
    blocks_by_task = {stored.context["task"]: set(stored.blocks) for stored in tables}
    assert blocks_by_task == {"rte": {"test"}, "sst2": {"test"}, "cb": {"test", "cc", "dc"}}
    for stored in tables:
        np.testing.assert_array_equal(stored.blocks["test"].log_probs, TEST.log_probs)
        assert stored.blocks["test"].spec == TEST.spec
    assert [content(folder) for folder in two] == before


def test_merged_twice_and_in_any_order_the_files_are_the_same(two, tmp_path):
    merge_workdirs(two, tmp_path / "w")
    once = content(tmp_path / "w")
    assert merge_workdirs(two, tmp_path / "w")[:3] == (0, 0, 3)
    assert content(tmp_path / "w") == once
    merge_workdirs(two[::-1], tmp_path / "other")
    merge_workdirs([two[1]], tmp_path / "later")
    assert merge_workdirs([two[0], tmp_path / "later"], tmp_path / "later")[:3] == (1, 1, 1)
    assert content(tmp_path / "other") == content(tmp_path / "later") == once


def test_a_table_that_comes_alone_keeps_its_bytes(two, tmp_path):
    merge_workdirs([two[0]], tmp_path / "w")
    assert content(tmp_path / "w") == content(two[0])


def test_a_merge_that_was_stopped_goes_on(two, tmp_path, monkeypatch):
    put, done = Store.put, []

    def stop(self, stored):
        if done:
            raise KeyboardInterrupt
        done.append(put(self, stored))

    monkeypatch.setattr(Store, "put", stop)
    with pytest.raises(KeyboardInterrupt):
        merge_workdirs(two, tmp_path / "w")
    monkeypatch.undo()
    assert merge_workdirs(two, tmp_path / "w")[:3] == (2, 0, 1)
    merge_workdirs(two, tmp_path / "once")
    assert content(tmp_path / "w") == content(tmp_path / "once")


def test_two_merges_at_once_lose_nothing(two, tmp_path):
    spawn = get_context("spawn")
    runs = [spawn.Process(target=merge_workdirs, args=([source], tmp_path / "w")) for source in two]
    for process in runs:
        process.start()
    for process in runs:
        process.join()
    assert [process.exitcode for process in runs] == [0, 0]
    merge_workdirs(two, tmp_path / "w")
    merge_workdirs(two, tmp_path / "once")
    assert content(tmp_path / "w") == content(tmp_path / "once")


def test_a_record_of_a_context_that_is_given_blocks_is_stale(two):
    store = Store(two[0])
    for stored in (table("rte"), table("cb")):
        store.put_record(replace(make_record(stored.context["task"], {"icl": 0.5}), id=stored.id))
    assert merge_workdirs([two[1]], two[0])[:3] == (1, 1, 0)
    assert [stored.context.task for stored in store.records()] == ["rte"]


def test_rounding_is_no_contradiction_and_ours_are_kept(two, tmp_path, refuses):
    near = TEST._replace(log_probs=TEST.log_probs + np.float32(1e-5))
    nearby = workdir(tmp_path / "c", table("rte", test=near))
    before = content(two[0])
    assert merge_workdirs([nearby], two[0])[:3] == (0, 0, 1)
    assert content(two[0]) == before
    assert "-0.99999" in str(refuses(merge_workdirs, [nearby], two[0], tolerance=1e-6))


UNLIKE = {
    "scores (row b: -4 ": {"test": TEST._replace(log_probs=np.float32([[-1, -2], [-4, -np.inf]]))},
    "scores (row a: -inf ": {"test": TEST._replace(log_probs=np.full((2, 2), -np.inf, "f4"))},
    "labels": {"test": TEST._replace(labels=1 - TEST.labels)},
    "row_ids": {"test": TEST._replace(row_ids=("a", "x"))},
    "inputs or settings": {"test": TEST._replace(spec={"texts": "u"})},
    "label names": {"names": ("yes", "no")},
}


@pytest.mark.parametrize("case", UNLIKE)
def test_what_contradicts_is_refused_and_nothing_is_written(case, two, tmp_path, refuses):
    contradictory = workdir(tmp_path / "c", table("sst2"), table("rte", **UNLIKE[case]))
    before = content(two[0])
    for sources, into in (([contradictory], two[0]), ([two[0], contradictory], tmp_path / "w")):
        assert f" has other {case}" in str(refuses(merge_workdirs, sources, into))
    assert content(two[0]) == before and content(tmp_path / "w") == {}


def test_what_was_run_comes_too_and_says_most_once_it_ended(two, tmp_path):
    run = runs.begin(two[0], {"shots": 1}, contexts=2, device="CPU")
    merge_workdirs(two, tmp_path / "w")
    assert [run.rows for run in runs.read(tmp_path / "w")[0]] == [None]
    early = shutil.copytree(two[0], tmp_path / "early")
    run.end(rows=4, seconds=0.5)
    for sources in (two, [early]):
        merge_workdirs(sources, tmp_path / "w")
        assert [run.rows for run in runs.read(tmp_path / "w")[0]] == [4]


def test_a_damaged_table_is_left_out_and_named(two, tmp_path, refuses):
    (damaged,) = [p for p in (two[0] / "scores").iterdir() if load(p).context["task"] == "rte"]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    report = merge_workdirs(two, tmp_path / "w")
    assert report[:3] == (2, 0, 0) and [str(damaged) in text for text in report.left_out] == [True]
    # In the workdir itself it stops the merge: what it held is not known.
    assert str(damaged) in str(refuses(merge_workdirs, [two[1]], two[0]))


def test_a_context_that_is_being_scored_is_left_alone(two, tmp_path):
    with Store(tmp_path / "w", create=True).claims.take(table("sst2").id):
        report = merge_workdirs(two, tmp_path / "w")
        assert report[:3] == (2, 0, 0)
        assert "1 contexts are being scored there; merge again" in report.left_out[0]
    assert merge_workdirs(two, tmp_path / "w")[:3] == (1, 0, 2)


def test_the_program_says_what_it_did_and_what_it_left(two, tmp_path, program):
    flags = (f"--from={two[0]},{two[1]}", f"--workdir={tmp_path / 'w'}")
    process = program("merge", *flags).stdout
    assert "3 contexts added, 0 extended by blocks that they lacked, 0 already stored" in process
    process = program("merge", f"--from={tmp_path / 'x'}", flags[1], code=2).stderr
    assert "got no folder scores/" in process and "Traceback" not in process
    shutil.copy(next((two[0] / "scores").iterdir()), two[0] / "scores" / "x.safetensors")
    process = program("merge", *flags, code=2)
    assert "3 already stored" in process.stdout
    assert "got 0e68b9bc52c4a10b: rename it" in process.stderr
