"""What is known of a task's labels: balanced by design, and counted in its training file."""

from collections import Counter

import numpy as np
import pytest

from batch_calibration import calibrate
from batch_calibration.cli import correcting, studies
from batch_calibration.cli.prior import Stated
from batch_calibration.cli.studies import make_report, score
from batch_calibration.diagnosis.known_shares import know_shares
from batch_calibration.diagnosis.verdicts import judge_context
from batch_calibration.reporting.items import Results
from batch_calibration.reporting.writing import judge_records
from batch_calibration.scores import ScoreTable, context_id, make_block
from batch_calibration.scoring.data.images import find_images, read_images
from batch_calibration.scoring.data.task_file import read_task_file
from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings, Study
from batch_calibration.studies import Store
from batch_calibration.studies.calibration import calibrate_store

SIZES = {"limit": 40, "labeled_per_class": 0}
SETTINGS = Settings.of(model="mini_small", data="mini", tasks=("sst2", "cb"), **SIZES)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    score(Study(SETTINGS, tuple(SETTINGS.grid())), str(folder))
    return folder


def by_task(workdir):
    tables, broken = Store(workdir).tables()
    assert not broken
    return {table.context["task"]: table for table in tables}


def bare(table):
    """The context as earlier versions wrote it."""
    known = ("train_labels", "balanced")
    return {key: fact for key, fact in table.context.items() if key not in known}


def test_what_is_known_of_labels_is_kept_and_decides_no_id(workdir):
    tables = by_task(workdir)
    assert tables["sst2"].context["balanced"] is True and "balanced" not in tables["cb"].context
    for name, table in tables.items():
        counts = Counter(read(TASKS[name], "mini", "train").labels)
        assert table.context["train_labels"] == [counts[i] for i in range(len(table.label_names))]
        assert context_id(bare(table)) == table.id


def test_tables_of_earlier_versions_stay_as_they_are_and_so_do_their_records(workdir, tmp_path):
    store = Store(tmp_path, create=True)
    for table in by_task(workdir).values():
        store.put(table._replace(context=bare(table)))
    report = calibrate_store(store, ["bc"], label_shares="train")
    assert not len(report.records) and len(report.broken) == 2
    assert "got none: score into a new workdir" in report.broken[0]
    records = calibrate_store(store, ["bc"]).records
    files = {path: path.read_bytes() for path in tmp_path.glob("scores/*")}
    said = []
    score(Study(SETTINGS, tuple(SETTINGS.grid())), str(tmp_path), said.append)
    assert "0 rows scored" in said[-1]
    assert files == {path: path.read_bytes() for path in tmp_path.glob("scores/*")}
    assert len(store.records()) == len(records) == 2
    # These tables do not say that a task is balanced, so that there are two answers.
    for verdict in judge_records(Results(records, store.table_of)).values():
        assert verdict.advice.source == "estimated" and verdict.advice.if_balanced


def test_a_study_matches_equal_shares_if_the_task_is_balanced(workdir):
    studies.calibrate(str(workdir), SETTINGS.calibration)
    make_report(str(workdir))
    page = (workdir / "report.html").read_text()
    assert "Match equal shares, because the task&#x27;s data set is balanced by design." in page
    assert "target prior" not in page


def test_shares_of_the_training_file_are_matched_and_named(workdir):
    settings = SETTINGS.replace(label_shares="train", methods="icl,bc,prior_matching")
    studies.calibrate(str(workdir), settings.calibration)
    records = {record.context.task: record for record in Store(workdir).records()}
    for name, table in by_task(workdir).items():
        counts = np.array(table.context["train_labels"]) + 1.0
        test = table.blocks["test"]
        for method in ("bc", "prior_matching"):
            shares = tuple((counts / counts.sum()).tolist())
            corrected = calibrate(test.log_probs, method, target_prior=shares, from_probs=False)
            expected = (corrected.argmax(axis=1) == test.labels).mean()
            assert records[name].methods[method].metrics["accuracy"] == pytest.approx(expected)
            assert records[name].methods[method].options == {"target_prior": "train"}
    make_report(str(workdir))
    page = (workdir / "report.html").read_text()
    assert "In all contexts: bc target prior train" in page
    assert "because you stated these shares." in page


def test_a_task_file_says_that_its_labels_are_balanced(tmp_path, refuses):
    text = (
        'name = "t"\nfields = ["text"]\nlabel_names = ["a", "b"]\nlabels_are = "names"\n'
        'template = "{text} {label}"\nbalanced = true\n'
        'verbalizer = {a = "a", b = "b"}\nfiles = {train = "t.csv"}\n'
    )
    path = tmp_path / "t.toml"
    path.write_text(text)
    assert read_task_file(str(path)).balanced
    path.write_text(text.replace("= true", '= "yes"'))
    assert refuses(read_task_file, str(path)).where == f"{path}, balanced"


def test_uneven_tasks_are_not_called_balanced():
    uneven = {"mrpc", "qqp", "boolq", "cb", "trec", "svhn", "eurosat", "clevr"}
    assert not uneven & {name for name, task in TASKS.items() if task.balanced}
    assert {"dtd", "aircraft"} <= {name for name, task in TASKS.items() if task.balanced}


def test_embedded_images_are_drawn_equally_often():
    drawn = []
    for name, task in TASKS.items():
        assert task.is_balanced_in("mini") == (task.balanced or task.is_image), name
        assert task.is_balanced_in("real") == task.balanced, name
        if task.is_image and find_images(task, "mini"):
            drawn.append(name)
            counts = Counter(read_images(task, "mini", "test").labels)
            of_class = np.array([*counts.values()])
            mean = of_class.mean()
            assert np.abs(of_class - mean).max() < 4 * np.sqrt(mean), name
    assert {"svhn", "dtd"} <= {*drawn}


def test_shares_that_are_stated_go_before_the_design():
    scores = np.random.default_rng(0).normal([-3.0, -2.0], 1.0, (60, 2)).astype(np.float32)
    table = ScoreTable({"balanced": True}, ("a", "b"), {"test": make_block(scores)})
    (advice,) = correcting.advise_contexts([table], [Stated()])
    verdict = judge_context("", "", advice, table)
    assert (verdict.advice.source, verdict.advice.options) == ("equal", {"share_error": 0.0})
    corrected = calibrate(scores, "prior_matching", share_error=0.0, from_probs=False)
    expected = np.asarray(corrected).argmax(axis=1)
    changed = np.flatnonzero(expected != scores.argmax(axis=1))
    assert sorted(verdict.diagnosis.changed) == changed.tolist()
    (advice,) = correcting.advise_contexts([table], [Stated(know_shares((0.8, 0.2)))])
    assert (advice.source, advice.options) == ("stated", {"target_prior": (0.8, 0.2)})
