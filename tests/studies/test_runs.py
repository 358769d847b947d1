"""Facts about scoring runs: kept when one begins, completed when it ends, never lost or secret."""

import sys

import pytest
from workers import CONTEXTS, SIZES, FakeScorer, render, score

from batch_calibration.cli.studies import typed_command
from batch_calibration.errors import InputError
from batch_calibration.reporting.page import runs_html
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import merge_workdirs, runs, scoring
from batch_calibration.version import __version__

ROWS = CONTEXTS * sum(SIZES.values())


@pytest.fixture(autouse=True)
def rendering(monkeypatch):
    monkeypatch.setattr(scoring, "render_contexts", render)
    monkeypatch.setattr(sys, "argv", ["/x/experiments/score.py", "--config=my study.py"])


def test_a_run_is_kept_whole(tmp_path):
    score(tmp_path, tmp_path / "log")
    ((run,), broken) = runs.read(tmp_path)
    assert run.command == "score.py"  # what others pass to their programs may hold keys
    assert broken == []
    assert (run.contexts, run.rows) == (CONTEXTS, ROWS) and run.seconds is not None
    assert run.device == "1 x cpu" and run.versions["batch-calibration"] == __version__
    assert {"Python", "jax", "numpy"} <= set(run.versions) and run.config == {}
    assert len(run.began) == len("2026-01-02 03:04:05")


def test_a_run_that_finds_all_scored_leaves_nothing(tmp_path):
    for _ in range(2):
        score(tmp_path, tmp_path / "log")
    assert len(runs.read(tmp_path)[0]) == 1


def test_settings_that_are_not_the_default_are_kept(tmp_path):
    settings = Settings.of(model="m", limit=5, tasks=("rte", "cb"))
    scoring.run_scoring(settings, [Cell("fake")], tmp_path, scorer=FakeScorer(tmp_path / "log"))
    ((run,), _) = runs.read(tmp_path)
    assert run.config == {"model": "m", "limit": 5, "tasks": ["rte", "cb"]}
    html = runs_html([run])
    assert "<dt>limit</dt><dd>5</dd>" in html and "<dd>rte, cb</dd>" in html


def test_a_run_that_is_stopped_is_known(tmp_path):
    class Stopped(FakeScorer):
        def score(self, *arguments, **options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(tmp_path, tmp_path / "log", scorer=Stopped(tmp_path / "log"))
    ((run,), _) = runs.read(tmp_path)
    assert run.rows is None and "did not finish" in runs_html([run])


def test_a_run_whose_contexts_fail_still_says_what_it_scored(tmp_path, refuses):
    first = render(None, [Cell("fake", 1)])[0].blocks["test"].inputs[0]

    class FailsOnce(FakeScorer):
        def score(self, inputs, *arguments, **options):
            if inputs[0] == first:
                raise InputError("no.")
            return super().score(inputs, *arguments, **options)

    log = tmp_path / "log"
    assert "1 of 12" in str(refuses(score, tmp_path, log, scorer=FailsOnce(log)))
    ((run,), _) = runs.read(tmp_path)
    assert run.rows == ROWS - sum(SIZES.values())


def test_a_file_that_is_none_is_named(tmp_path):
    folder = tmp_path / runs.FOLDER
    folder.mkdir()
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"began": 3}')):
        (folder / f"{name}.json").write_text(text)
    readable, broken = runs.read(tmp_path)
    assert readable == [] and len(broken) == 3
    assert all("expected the facts of a scoring run" in sentence for sentence in broken)
    assert all(sentence.endswith("remove the file.") for sentence in broken)


def test_a_program_of_somebody_else_keeps_its_arguments_to_itself():
    assert typed_command(["/home/me/mine.py", "--api_key=sk-1"]) == ""


def test_workers_are_one_line_and_their_dates_all_there():
    first = runs.Run("2026-01-02 03:04:05", "a", {}, 3, "d", rows=5, seconds=1.0)
    second = runs.Run("2026-01-02 03:04:06", "a", {}, 3, "d", rows=6, seconds=1.5)
    html = runs_html([first, second, runs.Run("2026-01-03 00:00:00", "b", {}, 1, "d")])
    assert html.count("<li>") == 2
    assert "2026-01-02 03:04:05 UTC: 5 rows in 1.0 s; 2026-01-02 03:04:06 UTC: 6 rows" in html


def test_merged_workdirs_keep_all_runs_once(tmp_path):
    for name in "ab":
        score(tmp_path / name, tmp_path / "log")
    for _ in range(2):
        merge_workdirs([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert len(runs.read(tmp_path / "c")[0]) == 2
