"""The methods that a study and a file are corrected by unasked: few, and those that are advised."""

import numpy as np
import pytest

from batch_calibration.diagnosis.advice import MATCH
from batch_calibration.diagnosis.recommend import LIKELY, TOGETHER
from batch_calibration.methods import ALL, METHODS, SHELF, on_shelf
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.settings import Settings
from batch_calibration.studies import Store, calibrate_store, calibrate_study


@pytest.fixture
def store(planted, tmp_path):
    """Two contexts of one task; only the second has labeled rows."""
    store = Store(tmp_path, create=True)
    for seed in range(2):
        rows, labels = map(np.asarray, planted(24, 2, seed)[:2])
        blocks = {name: make_block(rows, labels) for name in ("test", "labeled")[: 1 + seed]}
        context = {"task": "rte", "model": "m", "seed": seed, "shots": 1, "limit": 0}
        context |= {"split": "validation", "scorer": {"kind": "causal_lm"}}
        store.put(ScoreTable(context, ("yes", "no"), blocks))
    return store


def test_the_shelf_holds_the_paper_and_the_advice():
    paper = {name for name, method in METHODS.items() if method.group == "paper"}
    advised = {LIKELY, TOGETHER, MATCH, "ensemble"}
    assert set(SHELF) == paper | advised and len(SHELF) == len(paper) + len(advised)
    assert on_shelf() == [name for name in METHODS if name in SHELF]


def test_names_all_and_options_ask_for_more(refuses):
    assert on_shelf(["otter", "bc"], ["vector"]) == ["bc", "otter"]
    assert on_shelf([ALL]) == on_shelf(["bc", ALL]) == [*METHODS]
    assert set(on_shelf(options=["vector", "bc"])) == {*SHELF, "vector"}
    for names, options in (([ALL, "bcc"], []), (["bcc"], []), ([], ["bcc"])):
        assert refuses(on_shelf, names, options).got == "bcc"


def test_a_method_of_a_plugin_is_on_the_shelf(monkeypatch):
    monkeypatch.setitem(METHODS, "mine", METHODS["otter"])
    assert set(on_shelf()) == {*SHELF, "mine"} and on_shelf()[-1] == "mine"


def test_a_study_without_names_gets_the_shelf_that_its_scores_allow(store):
    def calibrated(*names):
        return calibrate_study(store, Settings.of(methods=names).calibration)

    report = calibrated()
    by_seed = {record.context.seed: set(record.methods) for record in report.records}
    common = {*SHELF} - {"cc", "dc", "bcl", "ensemble"}
    assert by_seed == {0: common, 1: common | {"bcl"}} and report.skipped == {}
    assert set(calibrated("bcl", "cc").skipped) == {"bcl", "cc"}
    everything = calibrated(ALL)
    for record in everything.records:
        assert set(record.methods) | set(record.skipped) == set(METHODS)
    assert everything.skipped == calibrate_store(store).skipped
    # Of methods that an earlier run lacked, this one says nothing.
    assert set(calibrated("bcl").skipped) == {"bcl"}
