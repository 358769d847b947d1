"""The programs, as a person types them: the path from a config to the page, and every sentence."""

import json
import shutil

import pytest

from batch_calibration.pipeline import MINI_CHECKPOINT
from batch_calibration.scores import load


@pytest.fixture(scope="module")
def scored(program, tmp_path_factory):
    """A workdir of the smoke study, scored and calibrated."""
    workdir = tmp_path_factory.mktemp("study")
    said = program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert "2 contexts: 206 rows scored" in said.stdout
    program("calibrate", f"--workdir={workdir}")
    return workdir


def test_from_config_to_page(program, scored):
    said = program("tables", f"--workdir={scored}").stdout
    assert "SST-2" in said and "MNLI" in said and "average" in said
    names = sorted(path.name for path in (scored / "tables").iterdir())
    assert names == [f"mini-1shot-validation-first40{end}" for end in (
        "-methods.md", "-methods.tex", "-variants.md", "-variants.tex", ".csv")]  # fmt: skip
    program("figures", f"--workdir={scored}")
    figures = sorted(path.name.rsplit("-", 1)[1] for path in (scored / "figures").iterdir())
    assert figures == ["bars.pdf", "bars.png", "boundaries.pdf", "boundaries.png",
                       "strength.pdf", "strength.png"]  # fmt: skip
    said = program("report", f"--workdir={scored}").stdout
    assert "Batch Calibration on" in said and "report.html" in said
    page = (scored / "report.html").read_text()
    assert page.count("<img") == 3 and "http" not in page.replace("http-equiv", "")


def test_records_say_what_every_method_did(scored):
    records = [json.loads(path.read_text()) for path in (scored / "records").iterdir()]
    assert len(records) == 2
    for record in records:
        assert len(record["methods"]) == 11 and not record["skipped"]
        assert len(record["curve"]["test"]) == len(record["curve"]["labeled"]) == 101
        assert -5 <= record["strength"] <= 5
        for metrics in record["methods"].values():
            assert 0 <= metrics["accuracy_low"] <= metrics["accuracy"] <= metrics["accuracy_high"]


def test_a_second_run_scores_nothing_and_a_lost_context_is_scored_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    again = program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert "0 rows scored" in again.stdout and "206 were there already" in again.stdout
    lost = sorted((workdir / "scores").iterdir())[0]
    before = lost.read_bytes()
    lost.unlink()
    program("score", "--config=configs/mini.py:smoke", f"--workdir={workdir}")
    assert lost.read_bytes() == before


def test_a_changed_probe_scores_its_block_alone(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    said = program("score", "--config=configs/mini.py:smoke", "--config.dc_texts=4",
                   f"--workdir={workdir}").stdout  # fmt: skip
    assert "8 rows scored" in said
    tables = [load(path) for path in (workdir / "scores").iterdir()]
    assert all(len(table.blocks["dc"].row_ids) == 4 for table in tables)


def test_one_override_changes_one_thing(program, scored, tmp_path):
    program("score", "--config=configs/mini.py:smoke", "--config.shots=2",
            "--config.tasks=('sst2',)", f"--workdir={tmp_path}")  # fmt: skip
    (two,) = [load(path) for path in (tmp_path / "scores").iterdir()]
    one = next(t for p in (scored / "scores").iterdir() if (t := load(p)).context["task"] == "sst2")
    changed = {k for k in one.context if one.context[k] != two.context[k]}
    assert changed == {"shots", "demonstrations", "shown"}
    assert one.blocks["test"].row_ids == two.blocks["test"].row_ids


MINI = "--config=configs/mini.py"
WRONG = {
    "a config key that does not exist": (
        "score", [MINI, "--config.shotz=1"], "no key 'shotz'; did you mean 'shots'?"),
    "a config that does not exist": (
        "score", ["--config=configs/minni.py"], "minni.py"),
    "a preset that does not exist": (
        "score", [MINI + ":smok"], "no preset 'smok'"),
    "a config value of the wrong kind": (
        "score", [MINI, "--config.shots=two"], "shots"),
    "a flag that does not exist": (
        "score", [MINI, "--wordkir=x"], "no flag is called --wordkir; did you mean 'workdir'?"),
    "a flag that is missing": (
        "calibrate", ["--floor=-9"], "workdir"),
    "a task that does not exist": (
        "score", [MINI, "--config.tasks=('sst22',)"], "no task named 'sst22'; did you mean 'sst2'"),
    "a scorer that does not exist": (
        "score", [MINI, "--config.scorer=causal"], "There is no scorer named 'causal'"),
    "shots that nobody has": (
        "score", [MINI, "--config.shots=5000"], "5000 shots of class"),
    "a negative number of shots": (
        "score", [MINI, "--config.shots=-1"], "expected 0 or more"),
    "a prompt longer than the model's positions": (
        "score", [MINI + ":smoke", "--config.shots=40"], "the model has 512"),
    "a model that is not there": (
        "score", [MINI + ":smoke", "--config.model=nowhere"], "nowhere: expected a checkpoint"),
    "no model": (
        "score", ["--config=configs/zero_shot_text.py", "--config.data=mini",
                  "--config.tasks=('sst2',)"], "config.model: expected a checkpoint"),
    "data that is not there": (
        "score", [MINI, "--config.data=nowhere"], "nowhere: no such folder"),
    "a workdir without scores": (
        "calibrate", [], "run experiments.score"),
    "a workdir without records": (
        "tables", [], "run experiments.score"),
    "a method that does not exist": (
        "calibrate", ["--methods=bbc"], "no method named 'bbc'; did you mean 'bc'?"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_gets_one_sentence_and_exit_code_2(program, tmp_path, what):
    name, flags, sentence = WRONG[what]
    workdir = [] if what == "a flag that is missing" else [f"--workdir={tmp_path / 'w'}"]
    said = program(name, *flags, *workdir, code=2)
    assert sentence in said.stderr and "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_checkpoint_without_a_file(program, tmp_path, lost):
    shutil.copytree(MINI_CHECKPOINT, tmp_path / "model")
    (tmp_path / "model" / lost).unlink()
    said = program("score", MINI + ":smoke", f"--config.model={tmp_path / 'model'}",
                   f"--workdir={tmp_path / 'w'}", code=2)  # fmt: skip
    assert lost.split(".")[-1] in said.stderr and "Traceback" not in said.stderr


def test_an_unwritable_workdir(program, tmp_path):
    (tmp_path / "file").write_text("")
    said = program("score", MINI, f"--workdir={tmp_path / 'file' / 'w'}", code=2)
    assert "cannot be written" in said.stderr


def test_nothing_computed_is_lost_when_a_later_table_is_broken(program, scored, tmp_path):
    workdir = tmp_path / "w"
    shutil.copytree(scored, workdir)
    broken = sorted((workdir / "scores").iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:100])
    said = program("calibrate", f"--workdir={workdir}", code=2)
    assert broken.name in said.stderr and "truncated" in said.stderr
    assert len(list((workdir / "records").iterdir())) == 2


@pytest.mark.parametrize(
    "name", ["score", "calibrate", "tables", "figures", "report", "train_mini"]
)
def test_help(program, name):
    said = program(name, "--help", code=None)
    assert f"python -m experiments.{name} --" in said.stdout and "workdir" in said.stdout
