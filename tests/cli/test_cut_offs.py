"""The command `threshold`, and `calibrate --threshold`, which applies its cut-off."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from batch_calibration.cli import studies
from batch_calibration.diagnosis import threshold

DEMO = studies.DEMO / "demo.csv"
NAMES = ["yes", "maybe", "no"]


def said(program, *flags):
    done = program(*map(str, flags))
    return " ".join(done.stdout.split()), done.stderr


def corrected(scores):
    return np.float32(scores) - np.float32(scores).mean(axis=0)


FORMS = [
    (),
    ("--method=icl",),
    ("--strength=0.5", "--temperature=0.7"),
    ("--strength=0",),
    ("--method=prior_matching", "--prior=yes=0.27,maybe=0.37,no=0.36"),
]


@pytest.mark.parametrize("flags", FORMS, ids=range(5))
def test_the_printed_command_applies_the_cut_off(program, tmp_path, flags):
    goal = ("--positive=yes", "--for=precision:0.9")
    text, _ = said(program, "threshold", DEMO, "--gold=label", *flags, *goal)
    command = text[text.index("batch-calibration calibrate") :]
    cut, column = float(re.search(r"--threshold=yes=([\d.]+)", command)[1]), "p(yes)"
    assert f"'yes' if its probability is at least {cut}" in text and "600 more" in text
    assert command.endswith(" --output=corrected.csv")
    written = [f"--output={tmp_path}/{name}.csv" for name in ("cut", "plain")]
    shown, _ = said(program, *shlex.split(command)[1:-1], written[0])
    found = pd.read_csv(tmp_path / "cut.csv")
    answered = found["prediction"] == "yes"
    assert list(answered) == list(found[column] >= cut)
    assert (found["gold"][answered] == "yes").mean() >= 0.9
    others = found[["maybe", "no"]].idxmax(axis=1)
    assert list(found["prediction"][~answered]) == list(others[~answered])
    accuracy = 100 * (found["prediction"] == found["gold"]).mean()
    assert f"to {accuracy:.1f} [" in shown and f"at yes={cut} changes the prediction" in shown
    program("calibrate", str(DEMO), "--gold=label", *flags, written[1])
    plain = pd.read_csv(tmp_path / "plain.csv").drop(columns="prediction")
    pd.testing.assert_frame_equal(found.drop(columns="prediction"), plain)


def test_labeled_rows_are_corrected_by_the_bias_of_the_file(program, tmp_path):
    table = pd.read_csv(DEMO)
    table[:80].to_csv(tmp_path / "labeled.csv", index=False)
    table[80:].drop(columns="label").to_csv(tmp_path / "rest.csv", index=False)
    flags = (f"--labeled={tmp_path}/labeled.csv", "--positive=yes")
    text, _ = said(program, "threshold", tmp_path / "rest.csv", *flags, "--for=f1", "--json")
    found = json.loads(text)
    scores = table[NAMES].to_numpy("f")
    after = scores[:80] - scores[80:].mean(axis=0)
    gold = np.array([NAMES.index(name) for name in table["label"][:80]])
    alone = threshold.choose_threshold(after, gold, 0, "f1", from_probs=False)
    assert found["probability"] == alone.probability and found["rows"] == 80
    assert found["f1"]["value"] == pytest.approx(alone.f1.value)
    for method in ("bcl", "bc"):
        assert "80 labeled rows" in said(
            program, "threshold", tmp_path / "rest.csv", *flags, "--for=f1", f"--method={method}"
        )[0]  # fmt: skip


def test_several_contexts_have_a_table_and_curves(program, tmp_path):
    table = pd.read_csv(DEMO)
    table["prompt"] = np.arange(200) % 2
    table.to_csv(tmp_path / "two.csv", index=False)
    curve, figure = tmp_path / "curve.csv", tmp_path / "curve.png"
    flags = ("--gold=label", "--by=prompt", "--positive=yes", "--for=recall:0.9")
    text, notes = said(
        program, "threshold", tmp_path / "two.csv", *flags, f"--output={curve}", f"--plot={figure}"
    )
    cuts = [float(cut) for cut in re.findall(r"yes=(0\.\d+)", text)]
    assert len(cuts) == 2 and "applies one cut-off to all contexts" in text
    assert "every cut-off" in notes and figure.stat().st_size
    of_contexts = [of for _, of in pd.read_csv(curve).groupby("context", sort=False)]
    for of_context, cut, rows in zip(of_contexts, cuts, (table[::2], table[1::2]), strict=True):
        probs = softmax(corrected(rows[NAMES]), axis=1)[:, 0]
        chosen = of_context[of_context["probability"] > cut].iloc[-1:]
        below = of_context[of_context["probability"] <= cut].iloc[:1]
        shares = pd.concat([chosen, below])["share"]
        assert (shares - (probs >= cut).mean()).abs().min() < 1e-9


def test_a_cut_off_is_applied_to_parquet(program, tmp_path):
    pd.read_csv(DEMO).to_parquet(tmp_path / "demo.parquet")
    flags = ("--gold=label", "--threshold=yes=0.8244", f"--output={tmp_path}/after.parquet")
    program("calibrate", str(tmp_path / "demo.parquet"), *flags)
    found = pd.read_parquet(tmp_path / "after.parquet")
    assert list(found["prediction"] == "yes") == list(found["p(yes)"] >= 0.8244)
