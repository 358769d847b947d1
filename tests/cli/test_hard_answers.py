"""`diagnose --answers`: shares of hard answers, two orders, and the flags that do not apply."""

import json

import numpy as np
import pandas as pd
import pytest

from batch_calibration.cli import run
from batch_calibration.metrics.confusion import corrected_shares

RANDOM = np.random.default_rng(5)
N = 400
RIGHT = RANDOM.random(N) < 0.3
FIRST, SECOND = (RANDOM.random(N) < np.where(RIGHT, 0.9, error) for error in (0.4, 0.1))
NAMES = np.array(["no", "yes"])
KNOWN = np.where(np.arange(N) < 120, NAMES[RIGHT * 1], "")


def frame(**more):
    return pd.DataFrame({"id": range(N), "answer": NAMES[FIRST * 1], "gold": KNOWN} | more)


@pytest.fixture
def report(tmp_path, capsys, monkeypatch):
    """Runs `diagnose` on frames; returns the facts of --json, or an error."""
    monkeypatch.chdir(tmp_path)

    def call(*flags, **frames):
        for name, rows in frames.items():
            rows.to_csv(f"{name}.csv", index=False)
        files = [f"{name}.csv" for name in frames]
        try:
            run(["diagnose", *files, *flags])
        except SystemExit:
            return capsys.readouterr().err
        written = capsys.readouterr()
        return json.loads(written.out) if "--json" in flags else written.out + written.err

    return call


def test_shares_of_one_column(report):
    facts = report("--answers=answer", "--gold=gold", "--json", t=frame())["answer"]
    table = np.zeros((2, 2), int)
    np.add.at(table, (RIGHT[:120] * 1, FIRST[:120] * 1), 1)
    ways = corrected_shares(table, np.bincount(FIRST[120:]))
    for column, estimates in zip(("corrected", "of a sample"), ways, strict=True):
        for name, estimate in zip(NAMES, estimates, strict=True):
            assert facts[column][name] == estimate._asdict()
    assert facts["answered"]["yes"]["value"] == FIRST.mean()
    closest = [abs(facts[c]["yes"]["value"] - RIGHT.mean()) for c in ("answered", "corrected")]
    assert closest[1] < closest[0] / 2
    text = " ".join(report("--answers=answer", "--gold=gold", t=frame()).split())
    assert "Shares of 400 answers in 'answer'" in text
    assert "no row can be corrected: ask for log-probabilities or 10 samples a row" in text


def test_answers_are_spelled_in_several_ways(report):
    spelled = frame(answer=np.where(FIRST, " Yes.", "NO"))
    expected = report("--answers=answer", "--gold=gold", "--json", t=frame())
    assert report("--answers=answer", "--gold=gold", "--json", t=spelled) == expected
    codes = frame(answer=FIRST * 1, gold=np.where(KNOWN == "", "", RIGHT * 1))
    flags = ("--labels=no,yes", "--tokens=no=0,yes=1", "--gold-names=no,yes")
    assert report("--answers=answer", "--gold=gold", *flags, "--json", t=codes) == expected
    lost = frame(answer=np.where(np.arange(N) == 3, "perhaps", NAMES[FIRST * 1]))
    text = report("--answers=answer", "--gold=gold", t=lost)
    assert "1 of 400 answers name no label, such as 'perhaps'" in text and "399 answers" in text


def test_two_orders_in_columns_or_files(report):
    both = frame(swapped=NAMES[SECOND * 1])
    facts = report("--answers=answer,swapped", "--gold=gold", "--json", t=both)
    assert facts["changed"]["value"] == pytest.approx((FIRST != SECOND).mean())
    change = facts["difference"]["yes"]
    assert change["value"] == pytest.approx(FIRST.mean() - SECOND.mean())
    difference = FIRST * 1.0 - SECOND
    reach = 1.96 * difference.std() / np.sqrt(N)
    assert change["high"] - change["low"] == pytest.approx(2 * reach, rel=0.02)
    shuffled = both[["id", "swapped"]].rename(columns={"swapped": "answer"}).sample(frac=1)
    of_files = report("--answers=answer", "--gold=gold", "--json", a=frame(), b=shuffled)
    assert of_files["difference"] == facts["difference"]
    assert of_files["changed"] == facts["changed"]
    assert of_files["b.csv"] == facts["swapped"] and of_files["a.csv"] == facts["answer"]
    text = report("--answers=answer,swapped", t=both)
    assert "change their answer with the order" in text and "10 rows with each right" in text


def test_refusals_and_their_remedies(report):
    rows = frame(swapped=NAMES[SECOND * 1])
    assert "leave --method out" in report("--answers=answer", "--method=cc", t=rows)
    three = report("--answers=answer,swapped,gold", t=rows)
    assert "give one file with two columns, or two files with one column" in three
    codes = report("--answers=answer", t=frame(answer="x"))
    assert "name the labels: --labels" in codes
    free = frame(answer=[f"I think {i}" for i in range(N)])
    assert "name the labels: '--labels" in report("--answers=answer", t=free)
    by_order = report("--answers=answer", a=rows.drop(columns="id"), b=rows)
    assert "matched by their order" in by_order and "0.0 [0.0, " in by_order
    other = rows.assign(id=rows["id"] + 1)
    assert "ids that both files have with --ids" in report("--answers=answer", a=rows, b=other)
    named = other.assign(key=rows["id"]), rows.assign(key=rows["id"])
    text = report("--answers=answer", "--ids=key", a=named[0], b=named[1])
    assert "0.0 [0.0, " in text and "change their answer" in text
    assert "no column named 'nope'" in report("--answers=nope", t=rows)
    refused = report("--gold=gold", t=frame())
    assert "with --answers=answer --gold=gold." in refused
