"""Changes after scoring: corrected labels, other data, fewer methods, too few rows."""

import json
import re

import pytest
from making import make_record

from batch_calibration.reporting.frame import Frame
from batch_calibration.scores import ScoreTable, load, make_block
from batch_calibration.studies import Store, calibrate_store
from batch_calibration.studies.records import ScorerInfo

ROWS = [
    {"sentence": "a wonderful film .", "label": 1},
    {"sentence": "the plot is awful .", "label": 0},
    {"sentence": "what a dull script .", "label": 0},
    {"sentence": "the cast is charming .", "label": 1},
]


def write(folder, rows, task="sst2", splits=("train", "validation")):
    for split in splits:
        path = folder / task / f"{split}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def score(program, tmp_path):
    """Scores zero-shot SST-2 rows of a folder in one workdir, with further flags."""

    def run(*flags, data=None, task="sst2"):
        own = f"--config.tasks={task}", f"--config.data={data or tmp_path / 'data'}"
        few = "--config.shots=0", "--config.labeled_per_class=1", f"--workdir={tmp_path / 'w'}"
        return program("score", "--config=configs/mini.py", *own, *few, *flags).stdout

    return run


def tables(tmp_path):
    return [load(path) for path in (tmp_path / "w/scores").iterdir()]


def test_corrected_labels_reach_the_table_without_the_model(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score()
    program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}")
    write(tmp_path / "data", [row | {"label": 1 - row["label"]} for row in ROWS])
    assert "0 rows scored" in score()
    (table,) = tables(tmp_path)
    assert table.blocks["test"].labels.tolist() == [0, 1, 1, 0]
    assert not list((tmp_path / "w/records").iterdir())
    stderr = program("tables", f"--workdir={tmp_path / 'w'}", code=2).stderr
    assert "run batch-calibration calibrate" in stderr


def test_other_rows_are_another_context(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score()
    score("--config.limit=0", data="mini")
    assert len(tables(tmp_path)) == 2
    program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}")
    stdout = program("tables", f"--workdir={tmp_path / 'w'}").stdout
    assert "By data: mini, SST-2, 0-shot" in stdout
    rows = [line.split()[:2] for line in stdout.split("By data")[1].splitlines()]
    assert ["data", "1"] in rows and ["mini", "1"] in rows


def test_two_versions_of_the_same_data_are_not_averaged(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score()
    write(tmp_path / "data", [*ROWS[:3], {"sentence": "the hero is witty .", "label": 1}])
    score()
    program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}")
    stderr = program("tables", f"--workdir={tmp_path / 'w'}", code=2).stderr
    assert "mini on sst2, seed 0: expected one record" in stderr and "separate workdirs" in stderr


def test_two_scorers_are_told_apart():
    """Another checkpoint in a folder of the same name is another scorer."""
    first, second, other = (
        make_record("sst2", {}, context={"scorer": ScorerInfo("causal_lm", x * 16), "seed": seed})
        for x, seed in (("a", 0), ("a", 1), ("b", 0))
    )
    assert Frame([first, second]).names == ["seed 0", "seed 1"]
    assert Frame([first, other]).names == ["scorer aaaa", "scorer bbbb"]


def test_rows_without_gold_labels(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    write(tmp_path / "data", [row | {"label": -1} for row in ROWS], splits=["validation"])
    score()
    stderr = program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}", code=2).stderr
    assert "all 4 test rows lack a gold label" in stderr


def test_figures_and_report_of_one_row_and_of_few_methods(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score("--config.limit=1")
    workdir = f"--workdir={tmp_path / 'w'}"
    program("calibrate", "--methods=cc,pc", workdir)
    stdout = program("tables", workdir).stdout
    assert "cc" in stdout and "Published variants" not in stdout
    program("figures", workdir)
    # Without icl there is no gain to draw.
    assert not [*(tmp_path / "w").glob("figures/*.png")]
    program("report", workdir)
    page = (tmp_path / "w" / "report.html").read_text()
    assert ">cc</th>" in page and ">pc</th>" in page
    stderr = program("calibrate", "--methods=", workdir, code=2).stderr
    assert "--methods: expected a value; got nothing" in stderr


def test_a_torn_record(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score()
    program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}")
    (record,) = (tmp_path / "w/records").iterdir()
    for text in (record.read_text()[:50], "{}", "[]", '{"version": 99}'):
        record.write_text(text)
        stderr = program("tables", f"--workdir={tmp_path / 'w'}", code=2).stderr
        assert record.name in stderr and "run batch-calibration calibrate again" in stderr


@pytest.mark.slow
def test_a_report_shows_its_own_studys_figures_alone(program, tmp_path):
    workdir = f"--workdir={tmp_path}"
    for limit in (40, 50):
        flags = "--config.tasks=sst2", f"--config.limit={limit}", workdir
        program("score", "--config=configs/mini.py:smoke", *flags)
    program("calibrate", "--methods=icl,cc,bc,bcl", workdir)
    program("figures", workdir)
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    program("report", workdir)
    shown = re.findall('id="figure-(mini[^"]*)"', (tmp_path / "report.html").read_text())
    # The reliability of a few contexts is drawn on the page alone.
    assert {*shown} - {"mini-reliability"} == {"mini-gains", "mini-boundaries"} == drawn


def test_probe_sizes_survive_a_second_calibrate_with_the_same_floor(score, program, tmp_path):
    write(tmp_path / "data", ROWS)
    score()
    workdir = f"--workdir={tmp_path / 'w'}"
    program("calibrate", "--methods=icl,bc", "--probe_sizes=2", "--draws=3", workdir)
    (path,) = (tmp_path / "w/records").iterdir()
    before = json.loads(path.read_text())["methods"]["bc"]["probe_size"]
    program("calibrate", "--methods=icl,bc", workdir)
    assert json.loads(path.read_text())["methods"]["bc"]["probe_size"] == before
    program("calibrate", "--methods=icl,bc", "--floor=-2", workdir)
    after = json.loads(path.read_text())
    assert after["floor"] == -2 and "probe_size" not in after["methods"]["bc"]


def test_a_stand_in_split_is_named_in_the_table(score, program, tmp_path):
    row = {"question1": "how is it made ?", "question2": "how do i make it ?"}
    rows = [row | {"label": i % 2} for i in range(4)]
    write(tmp_path / "data", rows, "qqp", ("train", "validation_proxy"))
    score(task="qqp")
    program("calibrate", "--methods=icl,bc", f"--workdir={tmp_path / 'w'}")
    stdout = program("tables", f"--workdir={tmp_path / 'w'}").stdout
    assert "QQP, 0-shot, validation split (validation_proxy)" in " ".join(stdout.split())


def workdir_of(tmp_path, *tasks):
    """A workdir of one table for each task, calibrated."""
    store = Store(tmp_path, create=True)
    for task in tasks:
        store.put(small(task))
    calibrate_store(store, ["icl", "bc"])
    return store


def small(task, score=-1.0):
    rows = make_block([[score, -2.0], [-3.0, -1.0]], [0, 1])
    return ScoreTable({"task": task, "seed": 2, "model": "m"}, ("a", "b"), {"test": rows})


def test_scores_and_records_that_do_not_match_are_named(tmp_path):
    store = workdir_of(tmp_path, "rte", "sst2", "cb", "wic")
    assert store.unmatched() == []
    store.put(small("rte", -1.5))  # scored again: its record goes
    small("sst2", -1.5).save(tmp_path / "scores" / f"{small('sst2').id}.safetensors")
    (tmp_path / "scores" / f"{small('cb').id}.safetensors").unlink()
    assert store.unmatched() == [
        "1 score table without a record, so not shown (rte, seed 2): calibrate.",
        "1 score table changed after the last calibration (sst2, seed 2): calibrate.",
        "1 record without its score table (cb, seed 2): score again, or delete it from "
        f"{tmp_path / 'records'}.",
    ]
    for task in ("mnli", "qqp", "mrpc", "qnli"):
        store.put(small(task))
    assert store.unmatched()[0].startswith("5 score tables without a record, so not shown (")
    assert store.unmatched()[0].count(", seed 2; ") == 3


@pytest.mark.parametrize("name", ["tables", "figures", "report"])
def test_programs_name_score_tables_without_a_record(program, tmp_path, name):
    workdir_of(tmp_path, "rte", "cb").put(small("rte", -1.5))
    said = "1 score table without a record, so not shown (rte, seed 2)"
    assert said in " ".join(program(name, f"--workdir={tmp_path}").stdout.split())
    if name == "report":
        assert said in (tmp_path / "report.html").read_text()
