"""The examples run as their first lines say, and print what the commands print."""

import json
import re
import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import api_server
import pytest
from processes import python

from batch_calibration import METHODS, cli
from batch_calibration.cli import studies

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NAMES = ("batch_api", "ray_scoring", "ray_correction", "dspy_labels", "skorch_labels")
ENGINES = [path for path in EXAMPLES if path.stem in NAMES]
"""Examples for engines and other libraries; tests/cli and tests/reference run them."""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in a folder with the demo's files, and returns its output."""
    monkeypatch.chdir(tmp_path)
    for path in studies.DEMO.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with patch.dict(METHODS):
            runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_six_examples_are_linked_first_in_readme_and_engines_in_their_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "asking-an-api.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) - len(ENGINES) == 6
    for path in EXAMPLES:
        text, is_engine = path.read_text(encoding="utf-8"), path in ENGINES
        assert text.count("\n") <= (120 if is_engine else 60), path.name
        assert f"examples/{path.name}" in (page if is_engine else readme), path.name
        assert f"python examples/{path.name}" in text and "absl" not in text, path.name


def test_scores_of_a_table(run):
    for arguments in (), ("demo.csv", "label"):
        stdout = run("own_scores.py", *arguments)
        assert "favor 'no' over 'maybe' by 0.84 ± 0.07 nats" in stdout
        assert re.findall(r"^accuracy (.*)", stdout, re.M) == [
            "as they are: 68.5%", "bc: 78.5%", "advised: 75.5%",
        ]  # fmt: skip
        assert "+10.0 [+5.3, +14.5]" in stdout


def test_a_log_of_the_harness(run):
    stdout = run("harness_log.py")
    assert "200 rows, choices yes, maybe, no" in stdout and "accuracy bc: 78.5%" in stdout


def test_a_judge(run):
    stdout = run("judge.py")
    assert "prefers the first answer by +0.78 ± 0.08 nats" in stdout
    assert "b: wins 57.5 [53.4, 61.6] %, corrected 56.6 [52.6, 60.6] %" in stdout


def _reply(_number, _path, body):
    """Prefers "No" to "yes", after every prompt."""
    text = body["messages"][0]["content"]
    tokens = {" No": -0.2 - len(text) % 7 / 10, "yes": -2.0 - len(text) % 3, "the": -9.0}
    tokens |= {"maybe": -3.0} if len(text) % 2 else {}
    tops = [{"token": token, "logprob": nats} for token, nats in tokens.items()]
    return api_server.Reply({"choices": [{"logprobs": {"content": [{"top_logprobs": tops}]}}]})


def test_an_api_is_asked_once_for_each_prompt(run, monkeypatch):
    monkeypatch.setenv("API_KEY", "a secret of twenty letters")
    with api_server.running(_reply) as server:
        arguments = ("demo_prompts.csv", server.address, "NAME", "yes", "maybe", "no")
        stdout = run("api.py", *arguments)
        assert len(server.asked) == 200
        assert {asked[2]["Authorization"] for asked in server.asked} == {
            "Bearer a secret of twenty letters"
        }
        assert run("api.py", *arguments) == stdout and len(server.asked) == 200
    assert "predictions:" in stdout
    lines = Path("answers.jsonl").read_text(encoding="utf-8")
    assert len({json.loads(line)["id"] for line in lines.splitlines()}) == 200
    assert "secret" not in lines


def test_a_method(run):
    stdout = run("own_method.py")
    assert "trimmed" in stdout and "(4, 300, 2)" in stdout and "trimmed" not in METHODS


@pytest.mark.slow
def test_a_sweep_over_shots_and_templates(tmp_path):
    first, second = (python(ROOT / "examples" / "sweep.py", tmp_path).stdout for _ in range(2))
    assert "10 contexts, 1344 of 1344 inputs scored now" in first
    assert "template" in first and "question" in first and "icl" in first
    assert (tmp_path / "shots.png").stat().st_size > 5000
    assert "10 contexts, 0 of 1344 inputs scored now" in second


def test_methods_of_a_plugin_are_compared_and_are_named_where_they_are_missing(
    tmp_path, monkeypatch, capsys
):
    """The example of a method, as the plugin of every command."""
    plugin = f"--plugin={ROOT / 'examples' / 'own_method.py'}"
    small = ("--model=mini", "--data=mini", "--tasks=sst2", "--limit=20", "--shots=0")
    monkeypatch.chdir(tmp_path)
    cli.run(["score", *small, "--workdir=W"])
    with patch.dict(METHODS):
        cli.run(["calibrate", plugin, "--workdir=W", "--methods=icl,bc,trimmed"])
        capsys.readouterr()
        cli.run(["tables", plugin, "--workdir=W"])
        shown = capsys.readouterr().out
        assert "trimmed" in shown and "not shown" not in shown
        cli.run(["compare", plugin, str(studies.DEMO / "demo.csv"), "--gold=label"])
        assert "\ntrimmed " in capsys.readouterr().out
    cli.run(["tables", "--workdir=W"])
    assert "trimmed of the records is not shown: name its file, --plugin=FILE." in " ".join(
        capsys.readouterr().out.split()
    )
