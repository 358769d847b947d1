"""The example study in Python runs, asks the model once, and draws its plot."""

from pathlib import Path

from processes import python

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "study.py"


def run(workdir):
    return python(EXAMPLE, workdir).stdout


def test_a_sweep_over_shots_and_templates_without_absl(tmp_path):
    stdout = run(tmp_path)
    assert "10 contexts, 1344 of 1344 inputs scored now" in stdout
    assert "template" in stdout and "question" in stdout and "icl" in stdout
    assert (tmp_path / "shots.png").stat().st_size > 5000
    assert "10 contexts, 0 of 1344 inputs scored now" in run(tmp_path)


def test_the_study_needs_no_program():
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "absl" not in text and "experiments" not in text
