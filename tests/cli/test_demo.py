"""The command `demo`, the dry runs, and what fits a screen: help, tables, the bar."""

import re
import shlex

import pytest

from batch_calibration import cli
from batch_calibration.cli import options, progress, studies
from batch_calibration.reporting import writing
from batch_calibration.reporting.items import Table
from batch_calibration.studies.scoring import ScoringProgress
from experiments.evidence.demo_files import make_demo


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_shipped_files_are_those_that_the_embedded_model_gives():
    files = make_demo()
    assert {path.name for path in studies.DEMO.iterdir()} == set(files)
    number = re.compile(r"-?\d+\.\d+")  # its last digit depends on the compiler's flags
    for name, content in files.items():
        shipped, made = (studies.DEMO / name).read_text(encoding="utf-8"), content.decode()
        assert number.sub("#", shipped) == number.sub("#", made), name
        both = [[float(digits) for digits in number.findall(text)] for text in (shipped, made)]
        assert both[0] == pytest.approx(both[1], abs=2e-4), name


def test_a_demo_writes_its_files_and_its_commands_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.run(["demo"])
    said = capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {p.name for p in studies.DEMO.iterdir()}
    assert "Accuracy moves from 68.5" in said and "\nIf labels are about equally frequent" in said
    lines = said.split("\nnext:\n")[1].replace("\\\n", "").splitlines()
    assert len(lines) == 3 and max(map(len, said.splitlines())) <= 110
    before = contents(tmp_path)
    for line in [lines[-1], "batch-calibration judge demo_judge.jsonl --dry-run"]:
        cli.run(shlex.split(line)[1:])
    said = capsys.readouterr().out
    assert "200 prompts x 1 request: 200 requests" in said and "Question: " in said
    assert "nothing was sent or written" in said and "400 pairs" in said
    assert contents(tmp_path) == before
    for line in lines[:2]:
        cli.run(shlex.split(line)[1:])
    assert (tmp_path / "demo_corrected.csv").exists() and (tmp_path / "demo.html").exists()
    cli.run(["judge", "demo_judge.jsonl"])
    assert "prefers the answer shown first by 0.78" in capsys.readouterr().out


def test_a_demo_leaves_other_files_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "demo.csv").write_text("mine")
    with pytest.raises(SystemExit):
        cli.run(["demo", f"--output={tmp_path}"])
    assert "demo.csv: expected no file with this name and other content" in capsys.readouterr().err
    assert contents(tmp_path) == {tmp_path / "demo.csv": b"mine"}


@pytest.mark.parametrize("command", options.ON_FILES)
def test_help_of_a_command_on_files_fits_a_screen(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        options.parse([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    examples = [line for line in lines if line.startswith(f"  batch-calibration {command} ")]
    assert len(examples) >= 2


@pytest.mark.parametrize("command", options.ON_BOTH)
def test_help_on_a_study_has_its_flags(command, capsys):
    with pytest.raises(SystemExit):
        options.parse([command, "--workdir=W", "--help"])
    assert "--workdir DIR" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_tables_fit_the_columns_and_say_a_note_once(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    cells = [["task", *(f"method {i}" for i in range(30))], ["sst2", *["+1.2 [-0.3, +2.7]"] * 30]]
    note = "A gain is paired. In brackets is its interval."
    first, second = (Table("m", name, name, cells, note) for name in "ab")
    writing.print_tables([first, second._replace(note=f"{note} Few rows.")])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= columns
    assert said.count("A gain is paired.") == 1 and said.count("Few rows.") == 1
    assert said.count("method 29") == 2


def test_numbers_of_the_bar_stay_whole_at_80_columns():
    bar = progress.ProgressBar("scoring", "examples")
    bar.update(ScoringProgress("mrpc, " * 20, done=31_000, total=31_287))
    line = bar.line(seconds=7.0, columns=79)
    assert line.startswith("mrpc, ") and line.endswith("] 31,000 of 31,287, 7 s")
    assert len(line) == 79
