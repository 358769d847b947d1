"""Probabilities in written files, and --temperature: a number, or fitted to labels."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from batch_calibration import calibrate, cli, fit_temperature
from batch_calibration.importers import Reading, read

LABELS = ["no", "yes"]


@pytest.fixture
def rows():
    """Log-probabilities of 120 rows with right labels, far too sure."""
    random = np.random.default_rng(1)
    right = random.integers(0, 2, 120)
    margins = 8 * (random.normal(0, 1.2, 120) + 1.5 * (2 * right - 1)) + 1
    scores = -np.logaddexp(0, np.stack([margins, -margins], axis=1)) - 0.1
    frame = pd.DataFrame(scores.round(4), columns=LABELS)
    frame["gold"] = np.array(LABELS)[right]
    frame.insert(0, "id", [f"r{i}" for i in range(120)])
    return frame


def run(frame, folder, *flags, name="corrected.csv"):
    frame.to_csv(folder / "scores.csv", index=False)
    cli.run(["calibrate", f"{folder}/scores.csv", "--ids=id", f"--output={folder}/{name}", *flags])
    return pd.read_csv(folder / name)


def check_probs(written, temperature, frame):
    corrected = calibrate(frame[LABELS].to_numpy()) / temperature
    np.testing.assert_allclose(written[LABELS], corrected, rtol=2e-3, atol=2e-3)
    probs = softmax(written[LABELS].to_numpy(), axis=1)
    np.testing.assert_allclose(written[["p(no)", "p(yes)"]], probs, atol=1e-6)
    np.testing.assert_allclose(written["confidence"], probs.max(axis=1), atol=1e-6)


@pytest.mark.parametrize("flag", ["", "2.5", "auto"])
def test_files_have_probabilities(rows, tmp_path, capsys, flag):
    flags = ["--gold=gold", *[f"--temperature={flag}"] * bool(flag)]
    written = run(rows, tmp_path, *flags)
    gold = (rows["gold"] == "yes").astype(int).to_numpy()
    fitted = fit_temperature(calibrate(rows[LABELS].to_numpy()), gold)
    temperature = {"": 1.0, "2.5": 2.5, "auto": fitted}[flag]
    assert fitted > 1.5
    check_probs(written, temperature, rows)
    said = " ".join(capsys.readouterr().out.split())
    told = f"divided by a temperature of {temperature:.3g}." if flag else "without a temperature"
    assert told in said and ("after bc, with T" in said) == bool(flag)
    # What was written is scores again, and the note says that they are corrected.
    (table,) = read(tmp_path / "corrected.csv", Reading(gold="gold"))
    assert table.label_names == ("no", "yes")
    assert any("these are corrected" in note for note in table.blocks["test"].spec["notes"])


def test_labels_by_row_ids_fit_and_judge(rows, tmp_path, capsys):
    labeled = rows[["id", "gold"]].iloc[::3].rename(columns={"gold": "label"})
    labeled.to_csv(tmp_path / "labeled.csv", index=False)
    flags = ["--temperature=auto", f"--labeled={tmp_path}/labeled.csv", "--changed=0"]
    written = run(rows.drop(columns="gold"), tmp_path, *flags)
    corrected = calibrate(rows[LABELS].to_numpy())
    gold = (rows["gold"] == "yes").astype(int).to_numpy()
    check_probs(written, fit_temperature(corrected[::3], gold[::3]), rows)
    said = " ".join(capsys.readouterr().out.split())
    assert "labeled rows after bc, with T" in said and "No right label is known" not in said
    assert "with the labeled rows: batch-calibration recommend FILE --labeled=FILE." in said


def test_a_stream_has_the_same_probabilities(rows, tmp_path):
    rows.drop(columns="id").to_parquet(tmp_path / "scores.parquet")
    for name in ("whole.csv", "stream.parquet"):
        output = f"--output={tmp_path}/{name}"
        cli.run(
            ["calibrate", f"{tmp_path}/scores.parquet", "--gold=gold", "--temperature=2", output]
        )
    whole, stream = (
        pd.read_csv(tmp_path / "whole.csv"),
        pd.read_parquet(tmp_path / "stream.parquet"),
    )
    for column in (*LABELS, "p(no)", "p(yes)", "confidence"):
        np.testing.assert_allclose(whole[column], stream[column], atol=1e-5)
    assert list(whole["prediction"]) == list(stream["prediction"])


def test_cosines_have_no_probabilities_without_a_temperature(rows, tmp_path, capsys):
    cosines = rows.assign(no=0.2 + rows["no"] / 100, yes=0.2 + rows["yes"] / 100)
    written = run(cosines, tmp_path, "--gold=gold", "--cosines")
    assert "confidence" not in written
    assert "no probabilities without --temperature" in " ".join(capsys.readouterr().out.split())
    assert "p(yes)" in run(cosines, tmp_path, "--gold=gold", "--cosines", "--temperature=auto")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--temperature=warm"], "--temperature=warm: expected auto, or a number"),
        (["--temperature=0"], "a number above 0"),
        (["--temperature=auto"], "at least 16 labeled rows, as labels fit a temperature; got 0"),
    ],
)
def test_refusals(rows, tmp_path, program, flags, sentence):
    rows.drop(columns="gold").to_csv(tmp_path / "s.csv", index=False)
    done = program("calibrate", f"{tmp_path}/s.csv", "--ids=id", *flags, code=2)
    assert sentence in done.stderr
