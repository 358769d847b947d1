"""Odd names, paths and numbers at the doors: the right result, or a sentence before any harm."""

import os

import jax
import numpy as np
import pytest

from batch_calibration import Reading, accuracy, diagnose, read, recommend_together
from batch_calibration.errors import spell
from batch_calibration.metrics.table import METRICS
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.api.server import SecretKey
from batch_calibration.settings import ApiSettings

ROWS = np.log(np.random.default_rng(0).dirichlet([3, 2, 1], 60)).astype(np.float32)
CSV = "no,yes\n" + "".join(f"{a},{b}\n" for a, b, _ in ROWS)


@pytest.mark.parametrize("command", ["report", "diagnose", "recommend", "compare", "calibrate"])
def test_a_workdir_without_scores(command, program, tmp_path):
    workdir, page = tmp_path / "W", tmp_path / "report.html"
    (workdir / "scores").mkdir(parents=True)
    page.write_text("an earlier page")
    flags = (f"--output={page}",) if command == "report" else ()
    done = program(command, str(workdir), *flags, code=2)
    assert done.stderr == (
        f"error: workdir {workdir}: expected score tables in its folder scores/; got none: run "
        "batch-calibration score first.\n"
    )
    assert page.read_text() == "an earlier page"


@pytest.mark.parametrize("start", ["~", "$HOME"])
def test_the_home_folder_of_an_output(start, saved, program, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    program("calibrate", str(saved(CSV, "a.csv")), f"--output={start}/b.csv")
    head = (tmp_path / "home/b.csv").read_text().splitlines()[0]
    assert head == "row,no,yes,p(no),p(yes),confidence,prediction"


@pytest.mark.parametrize("kind", ["a link", "a read-only file"])
def test_an_output_that_may_not_be_replaced(kind, saved, program, tmp_path):
    output, target = tmp_path / "out.csv", tmp_path / "target.csv"
    target.write_text("kept")
    target.chmod(0o400)
    if kind == "a link":
        output.symlink_to(target)
    else:
        os.link(target, output)
    done = program("calibrate", str(saved(CSV, "a.csv")), f"--output={output}", code=2)
    assert f"{output}: expected a file that may be replaced; got {kind}" in done.stderr
    assert target.read_text() == "kept"


def test_a_control_character_in_a_task_s_name(saved, program, tmp_path):
    page = tmp_path / "page.html"
    program("report", str(saved(CSV, "a.csv")), f"--output={page}", "--task=a\x07b")
    assert "a\\x07b" in page.read_text()


@pytest.mark.parametrize(
    ("labels", "got"), [(["a", "a", "b"], "['a', 'a', 'b']"), (["a", "b"], "2 names")]
)
def test_labels_of_an_npz_file(labels, got, tmp_path, program):
    path = tmp_path / "a.npz"
    np.savez(path, scores=ROWS, labels=labels)
    assert f"got {got}" in program("diagnose", str(path), code=2).stderr


def test_labels_of_one_name(refuses, tmp_path):
    table = ScoreTable({}, ("a", "a", "b"), {"test": make_block(ROWS)})
    assert refuses(table.save, tmp_path / "a").got == "['a', 'a', 'b']"
    assert refuses(diagnose, ROWS, label_names=("a", "a", "b")).where == "label_names"
    contexts = ROWS.reshape(3, 20, 3)
    error = refuses(recommend_together, contexts, label_names=("a", "a", "b"))
    assert error.where == "label_names"


@pytest.mark.parametrize("metric", METRICS)
def test_weights_below_zero(metric, refuses):
    gold, weight = ROWS.argmax(1), np.r_[-2.0, np.ones(59)]
    error = refuses(METRICS[metric], ROWS, gold, weight)
    assert (error.where, error.got) == ("weight", "-2")
    assert np.isfinite(jax.jit(accuracy)(ROWS, gold, np.ones(60)))


def test_a_key_in_full_width_letters_is_hidden():
    key = "sk-0123456789"
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in key)
    assert SecretKey(key).hide(f"no quota for {wide}") == "..."


def test_labels_of_one_first_word_are_refused_before_a_request(refuses):
    settings = ApiSettings(server="http://127.0.0.1:1", api_scores="top_k")
    error = refuses(ApiScorer(settings, "m").score, ["a"], [" New York", " New Delhi"])
    assert (error.key, error.got) == ("labels", "'New' twice")


@pytest.mark.parametrize("names", [("template",), ("shots", "seed")])
def test_prompts_in_columns_are_contexts(names, refuses, saved):
    """Each question comes once under each prompt; a bias belongs to a prompt."""
    random, gold, lines = np.random.default_rng(0), np.arange(40) % 2, []
    for first in range(2):
        for second in range(2 if len(names) > 1 else 1):
            bias = 2.0 * first + second
            for question, right in enumerate(gold):
                score = 2.0 * (right == 1) - 1 + bias + random.normal()
                settings = [first, second][: len(names)]
                cells = [f"q{question}", question % 4 // 2, *settings, 0.0, score]
                lines.append(",".join(map(str, [*cells, ("no", "yes")[right]])))
    path = saved("\n".join([f"id,category,{','.join(names)},no,yes,gold", *lines]), "prompts.csv")
    for options in ({}, {"ids": "id"}):
        error = refuses(read, path, Reading(labels=("no", "yes"), gold="gold", **options))
        assert error.key == "by" and spell("by", names) in error.remedy
    tables = read(path, Reading(labels=("no", "yes"), gold="gold", by=names, from_probs=False))
    assert len(tables) == 2 ** len(names)


def test_columns_that_tell_no_prompts_apart_are_read(saved):
    rows = [f"q{i},{i % 7},-0.{i + 1},-1.{i + 1}" for i in range(20)]
    for lines in (rows, [*rows, "q0,8,-1,-2"]):  # one id twice by chance
        path = saved("\n".join(["question,length,no,yes", *lines]), "a.csv")
        assert len(read(path, Reading(labels=("no", "yes")))) == 1
