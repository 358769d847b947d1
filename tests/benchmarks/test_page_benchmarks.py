"""Programs that measure pages: their files, the types of a log, and the comparison of results."""

import csv
import re

import numpy as np
import pytest

from batch_calibration.scores import Block
from benchmarks import journeys, log_types, pages, same_numbers

HEADER = ["model", "task", "shots", "seed", "option_template", "method", "metric", "value", "low",
          "high"]  # fmt: skip


def test_file_of_contexts(tmp_path):
    """Labels together have half of the probability, and each context has its own bias."""
    path = tmp_path / "scores.csv"
    pages.write_contexts(path, contexts=3, rows=400)
    header, *rows = same_numbers.read_rows(path)
    assert header == ["prompt", "a", "b", "c", "d", "label"] and len(rows) == 1200
    scores = np.array([row[1:5] for row in rows], float).reshape(3, 400, 4)
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), 0.5, atol=1e-4)
    means = scores.mean(axis=1) - scores.mean(axis=(1, 2))[:, None]
    assert np.abs(means).max(axis=1).min() > 0.3
    assert len({row[0] for row in rows}) == 3 and {row[5] for row in rows} == set("abcd")


@pytest.mark.slow
def test_pages_of_two_checkouts(capsys):
    """Each row has seconds and megabytes of both sides; the same checkout makes the same page."""
    pages.main(["--contexts=2", "--rows=8", "--repeats=1", f"--other={pages.ROOT}"])
    *_, line = capsys.readouterr().out.splitlines()
    _, name, _, size, _, other_size, ratio, _ = map(str.strip, line.split("|"))
    assert name == "2 contexts" and size == other_size and float(ratio) > 0


def test_types_of_a_log(tmp_path):
    """Types that are returned, constructed or in a list count; types of other packages do not."""
    journeys.write_log(tmp_path / "samples_task.jsonl")
    profile = log_types.Profile().of(lambda: _read(tmp_path / "samples_task.jsonl"))
    assert Block in profile.types and profile.calls > 20
    assert all(made.__module__.startswith("batch_calibration") for made in profile.types)


def _read(path):
    from batch_calibration.importers import read

    return read(path)


def test_results_are_compared_by_key(tmp_path, capsys):
    """A change, a number that is gone and a new one are reported; equal ones are counted."""
    before = ["m", "sst2", "1", "0", "", "bc", "accuracy", "0.5", "0.4", "0.6"]
    template = [*before[:4], "2", "bc", "accuracy", "0.25", "", ""]
    gone = [*before[:5], "cc", "accuracy", "0.5", "", ""]
    new = [*before[:5], "dc", "accuracy", "0.5", "", ""]
    for name, rows in (
        ("old", [before, template, gone]),
        ("same", [template, before, gone]),
        ("new", [before, [*template[:7], "0.75", "", ""], new]),
    ):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "results.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])
    old = str(tmp_path / "old")
    assert same_numbers.main([old, str(tmp_path / "same")]) == 0
    assert "5 numbers are equal, 0 changed" in capsys.readouterr().out
    assert same_numbers.main([old, str(tmp_path / "new")]) == 1
    stdout = capsys.readouterr().out
    assert "3 numbers are equal, 1 changed" in stdout
    assert re.search(r"largest difference 0\.5: .*template 2, .*number value", stdout)
    assert "only before: cc 1" in stdout and "only now: dc 1" in stdout


def test_no_number_in_common_is_a_difference(tmp_path):
    rows = ["m", "sst2", "1", "0", "", "bc", "accuracy", "0.5", "", ""]
    for name, task in (("old", "sst2"), ("new", "rte")):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "results.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, [rows[0], task, *rows[2:]]])
    assert same_numbers.main([str(tmp_path / "old"), str(tmp_path / "new")]) == 1
