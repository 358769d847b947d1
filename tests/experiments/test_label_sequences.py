"""Effects of label sequences: planted biases, a reader that copies; the program, its sentences."""

from itertools import product

import numpy as np
import pytest

from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.settings import Settings
from experiments.evidence import label_sequences
from experiments.evidence.label_sequences import SEQUENCES, Asked, ask

ROWS, DRAWS = 40, 3
SHOWN = np.array(SEQUENCES)
RANDOM = np.random.default_rng(0)
TRUTH = np.arange(ROWS) % 2


def asked(odds, nearest=None):
    """Scores whose difference of labels is `odds` [s c n]."""
    odds = np.broadcast_to(odds, (DRAWS, len(SEQUENCES), ROWS))
    scores = np.stack([np.zeros_like(odds), odds], axis=-1)
    near = np.zeros(odds.shape, int) if nearest is None else nearest
    return Asked({"icl": scores, "bc": scores - scores.mean(2, keepdims=True)}, TRUTH, near)


def mean(measured, name):
    return measured.shares[name].mean()


def test_planted_biases_are_found_and_a_shift_removes_them():
    """Words of each draw have a preference of their own, 3, -3 and 1 nats, plain to see."""
    planted = np.array([3.0, -3.0, 1.0])[:, None, None]
    balance, last = 2 * SHOWN.mean(1) - 1, 2 * SHOWN[:, -1] - 1
    reads = np.where(TRUTH, 0.5, -0.5)
    answers = asked(planted + (2.0 * balance + 0.25 * last)[None, :, None] + reads)
    before, after = (label_sequences.measure(answers, name) for name in ("icl", "bc"))
    assert before.biases == pytest.approx((7 / 3, 2.0, 0.25))
    assert after.biases == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    assert mean(before, "4 + 0") < 0.6 and mean(before, "4 + 0 answered") > 0.6
    for name in label_sequences.MIXES:
        assert mean(after, name) == 1.0 and mean(after, f"{name} answered") == 0.5


def test_a_reader_that_copies_the_last_label_is_told_from_one_that_reads():
    copies = label_sequences.measure(asked((2.0 * SHOWN[:, -1] - 1)[None, :, None]), "icl")
    assert (mean(copies, "last wrong"), mean(copies, "last right")) == (1.0, 0.0)
    reads = label_sequences.measure(asked(np.where(TRUTH, 1.0, -1.0)), "icl")
    assert (mean(reads, "last wrong"), mean(reads, "last right")) == (0.0, 0.0)


def test_a_reader_that_copies_the_nearest_label_errs_where_it_is_wrong():
    near = RANDOM.integers(2, size=(DRAWS, len(SEQUENCES), ROWS))
    measured = label_sequences.measure(asked(2.0 * near - 1, near), "icl")
    assert mean(measured, "nearest wrong") == pytest.approx(1.0)
    assert mean(measured, "nearest right") == 0.0
    # The share is of all rows that have such a demonstration, however unlike these are in number.
    half = SHOWN.sum(1) == 2
    wrong_nearest = (near != TRUTH)[:, half]
    flips = RANDOM.integers(2, size=near.shape)
    measured = label_sequences.measure(asked(2.0 * flips - 1, near), "icl")
    wrong = (flips != TRUTH)[:, half]
    assert mean(measured, "nearest wrong") == pytest.approx(wrong[wrong_nearest].mean())


def test_the_nearest_demonstration_shares_most_words_and_of_equals_is_the_last():
    shown = [{"a": "a red hat"}, {"a": "two blue hats"}, {"a": "a red hat"}]
    rows = [{"a": "Red hat!"}, {"a": "blue, two"}, {"a": "none"}]
    assert label_sequences._nearest(rows, shown).tolist() == [2, 1, 2]


def test_tables_have_a_row_for_each_task_words_and_method_and_mark_what_is_beyond_noise():
    reads = np.where(TRUTH, 0.5, -0.5) + (4.0 * SHOWN.mean(1) - 2)[None, :, None]
    contexts = product(("a", "b"), label_sequences.WORDS)
    measured = label_sequences.measure_all({context: asked(reads) for context in contexts})
    cells = label_sequences.bias_cells(measured)
    assert len(cells) == 1 + 3 * 3 * 2 and cells[1][:3] == [label_sequences.ALL, "own", "icl"]
    expected = "0.00|+2.00|+0.00|100.0|50.0|50.0|100.0 / 100.0|0.0 / 0.0|0.0 / 0.0"
    assert "|".join(cells[1][3:]) == expected
    assert cells[2][4] == "+0.00" and cells[2][6:10] == ["100.0"] * 3 + ["50.0 / 50.0"]
    changes = label_sequences.change_cells(measured)
    assert changes[1][5:] == [""] * 3 and changes[2][5].startswith("+0.0")
    assert changes[2][7].startswith("+50.0") and changes[2][7].endswith("*")


@pytest.mark.slow
def test_the_program_scores_once_and_prints_the_table(tmp_path, program):
    flags = [f"--config.{flag}" for flag in ("tasks=sst2", "limit=4", "seeds=1")]
    flags += ["--config.model=mini_small", f"--workdir={tmp_path}"]
    stdout = program("evidence.label_biases", "--config=configs/demo_labels.py", *flags).stdout
    stored = (tmp_path / "label_biases.md").read_text()
    rows = (tmp_path / "label_biases.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 * 5 and stored in stdout and "| sst2 | held_out | bc |" in stored
    shown = Settings.of(tasks="sst2", model="mini_small", data="mini", limit=4, seeds=1)
    before = [path.stat().st_mtime_ns for path in sorted((tmp_path / "scores").glob("*"))]
    rerun = ask(shown.replace(methods="bc_mean_prob"), tmp_path)
    assert before == [path.stat().st_mtime_ns for path in sorted((tmp_path / "scores").glob("*"))]
    assert set(rerun["sst2", "own"].scores) == {"icl", "bc_mean_prob"}
    assert rerun["sst2", "own"].scores["icl"].shape == (1, 16, 4, 2)


@pytest.mark.parametrize(("key", "name"), [("tasks", "mnli"), ("methods", "bcl")])
def test_what_cannot_be_asked_is_said_before_a_model_is_loaded(tmp_path, key, name, refuses):
    usual = {"tasks": "sst2", "data": "mini", "model": "none such"}
    assert refuses(ask, Settings.of(**usual | {key: name}), tmp_path).key == key


def test_too_few_rows_to_show_and_a_probe_that_is_not_there_are_sentences(refuses):
    from batch_calibration.scoring.embedded import suite

    rows = suite.read_rows("sst2", "train").limited(3, "first")
    assert refuses(label_sequences._choose, rows, 0, (0, 0, 0, 0)).got == "1 of label 0"
    table = ScoreTable({"task": "mine"}, ("a", "b"), {"test": make_block([[-1.0, -2.0]])})
    names = ["icl", "cc"]
    assert refuses(label_sequences._asked, [table], [], names, rows, rows).key == "methods"
