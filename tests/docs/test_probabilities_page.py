"""The page on probabilities prints the numbers of its commands on the demo."""

import re
import shlex
from pathlib import Path

import pytest

from batch_calibration import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "probabilities.md"


@pytest.fixture
def demo(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.run(["demo"])
    capsys.readouterr()


def test_its_commands_run_and_print_its_numbers(demo, capsys):
    text = PAGE.read_text(encoding="utf-8")
    typed = re.findall(r"(?:^|`)(batch-calibration [a-z]+ demo\.csv [^`\n]+)", text, re.M)
    names = [line.split()[1] for line in typed]
    assert names == ["calibrate", "threshold", "calibrate", "label"]
    printed = ""
    for line in typed:
        cli.run(shlex.split(line)[1:])
        printed += capsys.readouterr().out
    printed = " ".join(printed.split())
    answer = re.search(r"```\n(Answer .*?)```", text, re.S)[1]
    assert " ".join(answer.split()) in printed
    row = r"^\| (as they are|after bc.*?) \| (.*) \| (.*) \| (.*) \|"
    for name, *cells in re.findall(row, text, re.M):
        assert " ".join([name, *cells]) in printed
    assert len(text.split()) <= 700
