"""Shares that users state: words, ranges and counted files, in each command that takes them."""

import json
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from making import by_method

from batch_calibration import calibrate, cli, compare
from batch_calibration.cli import prior
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies.calibration import run_calibration

NAMES = ("no", "yes")
GOLD = 30 * ["no"] + 9 * ["yes"] + [""]
SHARES = tuple(float(Fraction(Counter(GOLD)[name] + 1, 41)) for name in NAMES)


@pytest.fixture
def scores_file(tmp_path):
    """A file of scores that favor "yes", its scores and right labels."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, 60)
    scores = rng.normal(-2.0, 0.3, (60, 2)) + 0.5 * np.eye(2)[right] + [0.0, 1.5]
    frame = pd.DataFrame(scores.round(6), columns=NAMES).assign(gold=np.array(NAMES)[right])
    frame.to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv", scores.round(6), right


def write_labels(path, labels):
    """A file of labels, in the format of its ending."""
    frame = pd.DataFrame({"text": "t", "kind": labels})
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")
    return path


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_labels_of_a_file_are_counted(ending, tmp_path, capsys):
    path = write_labels(tmp_path / f"train.{ending}", GOLD)
    first, second = prior.read_shares(f"{path}:kind", [NAMES, NAMES[::-1]])
    assert first.counts == (30, 9) and second.counts == (9, 30) and first.known is None
    assert first.options == {"target_prior": pytest.approx(SHARES)}
    assert second.options == {"target_prior": pytest.approx(SHARES[::-1])}
    assert "39 labels were counted; shares" in capsys.readouterr().err
    prior.read_shares(f"{write_labels(path, 6 * GOLD)}:kind", [NAMES])
    assert not capsys.readouterr().err


def test_what_cannot_be_counted_is_a_sentence(refuses, tmp_path):
    path = write_labels(tmp_path / "train.csv", GOLD)
    other = write_labels(tmp_path / "other.csv", 30 * ["no", "maybe"])
    read = partial(prior.read_shares, names_by_context=[NAMES])
    assert [refuses(read, f"{path}:{column}").got for column in ("knd", "")] == ["knd", ""]
    assert refuses(read, f"{tmp_path}/none.csv:kind").got == "none"
    assert "'maybe'" in refuses(read, f"{other}:kind").got
    assert "'yes' among 2" in refuses(read, f"{write_labels(path, ['no', 'no'])}:kind").got


def test_ranges_are_stated_of_one_label_of_two_or_of_all(refuses):
    (of_first,) = prior.read_shares("0.2..0.4", [NAMES])
    assert of_first.known.shares == pytest.approx((0.3, 0.7))
    assert of_first.known.error == pytest.approx(0.2 / np.sqrt(12))
    three = ("a", "b", "c")
    by_name, turned = prior.read_shares("c=0..0.2,a=0.5..0.7,b=0.3", [three, three[::-1]])
    assert by_name.known.shares == pytest.approx((0.6, 0.3, 0.1))
    assert turned.known.shares == pytest.approx((0.1, 0.3, 0.6))
    widths = np.array([0.2, 0.0, 0.2])
    assert by_name.known.error == pytest.approx(np.sqrt((widths**2).mean() / 12))
    assert turned.options == {
        "target_prior": turned.known.shares,
        "share_error": turned.known.error,
    }
    for text in ("0.2..0.4", "a=0..1,b=0..1"):
        assert refuses(prior.read_shares, text, [three]).got == repr(text)
    for text in ("0.4..0.2,0,0", "0..0.2,0..0.2,0..0.2"):
        assert "a range for each of 3 labels" in refuses(prior.read_shares, text, [three]).expected
    for text in ("0.2...", "0.8,0.3"):
        assert refuses(prior.read_shares, text, [NAMES]).got.startswith(f"{text!r}, which ")


def test_balanced_is_a_word_with_points(refuses):
    for text, error in (("balanced", 0.0), ("balanced:12", 0.12), ("balanced:2.5", 0.025)):
        (stated,) = prior.read_shares(text, [NAMES])
        assert stated.options == {"share_error": error} and stated.known.shares is None
    for text in ("balanced:101", "balanced:-1", "balanced:x"):
        assert refuses(prior.read_shares, text, [NAMES]).where == "--prior"
    # Equal numbers are the word.
    assert prior.read_shares("0.5,0.5", [NAMES])[0].options == {"share_error": 0.0}


COMMANDS = "calibrate", "diagnose", "recommend", "compare", "report"
OTHER_TEXTS = "0.6..0.8", "0.7,0.3", "estimated", "FILE"


@pytest.mark.parametrize(
    ("command", "text"),
    [*((command, "balanced") for command in COMMANDS), *(("report", text) for text in OTHER_TEXTS)],
)
def test_each_command_that_recommends_takes_shares(command, text, scores_file, tmp_path, capsys):
    path, *_ = scores_file
    text = f"{path}:gold" if text == "FILE" else text
    flags = {"report": ["--methods=icl,bc", f"--output={tmp_path}/r.html"]}.get(command, [])
    flags += ["--methods=icl,bc"] * (command == "compare")
    flags += [f"--output={tmp_path}/o.csv"] * (command == "calibrate")
    cli.run([command, str(path), "--gold=gold", f"--prior={text}", *flags])
    said = " ".join(capsys.readouterr().out.split())
    if command == "report":
        said = (tmp_path / "r.html").read_text()
        assert ("prior stated" in said) == (text != "balanced")
    if command != "compare" and text == "balanced":
        reason = "atch equal shares, because you stated that labels are about equally frequent."
        assert reason in said.replace("&#x27;", "'")


def test_shares_enter_every_method_that_takes_them(scores_file, capsys):
    path, scores, right = scores_file
    cli.run(["compare", str(path), "--gold=gold", "--prior=0.8,0.2", "--json", "--all"])
    lines = json.loads(capsys.readouterr().out)
    found = {result["method"]: result["accuracy"]["value"] for result in lines["results"]}
    given = {"target_prior": (0.8, 0.2)}
    options = {name: given for name in ("bc", "prior_matching", "bc_mean_prob")}
    for result in compare(scores, right, methods=["icl", *options], options=options).results:
        assert found[result.method] == pytest.approx(result.accuracy.value), result.method


def test_a_record_names_the_shares_by_a_word(scores_file):
    _, scores, right = scores_file
    table = ScoreTable({"task": "t"}, NAMES, {"test": make_block(scores, right)})
    common = [{"target_prior": SHARES}]
    given = {"common": common, "prior": "train", "options": {"bc": {"strength": 0.5}}}
    (record,) = run_calibration([table], ["icl", "bc", "bc_pooled_shares"], **given)
    of_bc = {"target_prior": "train", "strength": 0.5}
    assert by_method(record, "options") == {"bc": of_bc}
    expected = calibrate(scores, "bc", strength=0.5, target_prior=SHARES).argmax(axis=1)
    assert record.methods["bc"].metrics["accuracy"] == pytest.approx((expected == right).mean())
    chosen = {"bc": {"target_prior": (0.5, 0.5), "strength": 1.0}}
    (own,) = run_calibration([table], ["bc"], common=common, options=chosen)
    assert own.methods["bc"].options["target_prior"] == (0.5, 0.5)
