"""How far a run is: a bar in a terminal, and lines where the output is a file."""

from itertools import pairwise

import pytest

from batch_calibration.cli import progress
from batch_calibration.settings import Settings
from batch_calibration.studies import run_scoring
from batch_calibration.studies.scoring import ScoringProgress

SMALL = {"model": "mini_small", "data": "mini", "tasks": "sst2"}
SMALL |= {"labeled_per_class": 0, "dc_texts": 2}


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves on by hand."""
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def minutes_left(text):
    lines = [line for line in text.splitlines() if "minutes left" in line]
    return [float(line.split("about ")[1].split()[0]) for line in lines]


def test_a_file_gets_a_line_a_minute_with_the_time_left(clock, capsys):
    with progress.ProgressBar("scoring", "rows") as bar:
        bar.update(ScoringProgress("sst2", 100, 1300, 0, 1200, 36_000))  # 100 were stored
        for second in range(300):
            clock[0] = 100.0 + second  # it took 100 s to load and compile
            done = 4 * (second + 1)
            bar.update(ScoringProgress("sst2", 100 + done, 1300, done, 1200, 36_000, 30 * done))
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "1,200 rows to ask, about 36,000 tokens; 100 stored"
    assert lines[1] == "sst2: 64 of 1,200 rows, about 4.7 minutes left"
    assert minutes_left(text) == [4.7, 3.7, 2.7, 1.7, 0.7]


def test_time_left_is_that_of_tokens_and_not_of_what_is_compiled_first(clock, capsys):
    short, long, left = 600, 60, []
    with progress.ProgressBar("scoring", "rows") as bar:
        run, end = 0, 60.0 + short / 2 + long * 5  # 20 tokens a row, then 200, 40 a second
        for row in range(short + long):
            is_short = row < short
            run += 20 if is_short else 200
            # The second batch is held up for a minute by what it compiles.
            clock[0] += (0.5 if is_short else 5) + 60 * (row == 1)
            bar.update(ScoringProgress("mixed", row, 660, row + 1, 660, 24_000, run))
            said = minutes_left(capsys.readouterr().out)
            left += [(minutes * 60, end - clock[0]) for minutes in said]
    assert len(left) > 8
    assert all(abs(said - true) <= 0.2 * true + 3 for said, true in left)


def test_nothing_is_said_where_all_was_stored(clock, capsys):
    with progress.ProgressBar("scoring", "rows") as bar:
        bar.update(ScoringProgress("sst2", 10, 10, 0, 0))
    assert "to ask" not in capsys.readouterr().out


def test_a_run_counts_what_it_asks_and_what_was_stored(tmp_path):
    settings = Settings.of(**SMALL, limit=12, shots=0)
    steps = []
    first = run_scoring(settings, store=tmp_path, progress=steps.append)
    assert steps[-1].asked == steps[-1].to_ask == first.scored == first.inputs
    assert all(before.asked <= after.asked for before, after in pairwise(steps))
    assert 12 * 5 < steps[-1].tokens < first.inputs * 40
    steps.clear()
    cells = [settings.cell("sst2"), settings.cell("sst2", shots=1)]
    second = run_scoring(settings, cells, tmp_path, progress=steps.append)
    assert steps[-1].asked == steps[-1].to_ask == second.scored == second.inputs - first.inputs


def test_a_run_asks_what_the_chosen_methods_learn_from(tmp_path):
    settings = Settings.of(**SMALL, limit=8, methods=("icl", "bc", "cc"))
    report = run_scoring(settings, store=tmp_path)
    assert report.inputs == report.scored == 8 + 3
    rest = run_scoring(settings.replace(methods=()), store=tmp_path)  # the rest is added
    assert rest.ids == report.ids and rest.scored == rest.inputs - report.inputs > 0
