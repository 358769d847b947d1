"""Lists of sampled answers and dicts of their counts, in files and frames; answers without any."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from batch_calibration import read
from batch_calibration.arrays.score_scale import to_nats
from batch_calibration.importers import Reading, tables_of

RANDOM = np.random.default_rng(7)
NAMES = ("no", "yes")
GOLD = RANDOM.integers(0, 2, 30)
WORDS = {"no": ["no", "No", " no."], "yes": ["yes", "Yes", "**yes**"], "other": ["I cannot", "?"]}


def drawn_answers():
    """Ten answers a row, spelled in several ways; some name no label, and row 4 has none at all."""
    rows = []
    for right in GOLD:
        kinds = RANDOM.choice(
            ["no", "yes", "other"], 10, p=[0.6 - 0.4 * right, 0.3 + 0.4 * right, 0.1]
        )
        rows.append([str(RANDOM.choice(WORDS[kind])) for kind in kinds])
    rows[4] = []
    return rows


ANSWERS = drawn_answers()
COUNTS = np.array(
    [[sum(a in WORDS[name] for a in row) for name in NAMES] for row in ANSWERS], float
)
HAVE = COUNTS.sum(axis=1) > 0
NATS = to_nats(COUNTS[HAVE], "by hand", "counts")
TEXTS = [NAMES[right] for right in GOLD]


def check(table, names=NAMES):
    assert table.label_names == names
    test, order = table.blocks["test"], [NAMES.index(name) for name in names]
    np.testing.assert_allclose(test.log_probs, NATS[:, order], atol=1e-6)
    return test


def write(path, **columns):
    """A CSV file, JSON lines or Parquet, by the name's ending."""
    frame = pd.DataFrame(columns)
    if path.suffix == ".csv":
        frame.map(lambda cell: json.dumps(cell) if isinstance(cell, list | dict) else cell).to_csv(
            path, index=False
        )
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_lists_of_answers_are_counted(ending, tmp_path):
    path = write(tmp_path / f"t.{ending}", id=range(30), samples=ANSWERS, gold=TEXTS)
    for reading in (Reading(), Reading(gold="gold", ids="id"), Reading(from_probs="counts")):
        test = check(*read(path, reading))
        np.testing.assert_array_equal(test.labels, GOLD[HAVE])
    (table,) = read(path, Reading(labels=("yes", "no"), gold="gold", ids="id"))
    test = check(table, ("yes", "no"))
    assert test.row_ids == tuple(np.flatnonzero(HAVE).astype(str))
    total, lost = sum(map(len, ANSWERS)), sum(map(len, ANSWERS)) - int(COUNTS.sum())
    notes = " ".join(test.spec["notes"])
    assert f"{lost} of {total} answers name no label" in notes
    assert f"Rows without an answer ({(~HAVE).sum()}) are left out" in notes


def test_the_order_of_answers_is_nothing():
    orders = [[*map(str, RANDOM.permutation(row))] for row in ANSWERS]
    check(*tables_of({"a": orders, "gold": TEXTS}))
    check(*tables_of(pd.DataFrame({"a": orders, "gold": TEXTS})))


def test_columns_and_dicts_of_counts_are_read_alike(tmp_path, refuses):
    columns = {"id": range(30), "gold": TEXTS}
    cells = dict(zip(NAMES, COUNTS.astype(int).T, strict=True))
    path = write(tmp_path / "columns.csv", **columns, **cells, latency=RANDOM.random(30))
    check(*read(path, Reading(from_probs="counts", gold="gold")))
    for odd in (-1, 1.5):  # no count: the column is not left out without a word
        wrong = cells | {"no": np.append(cells["no"][:-1].astype(float), odd)}
        path = write(tmp_path / "wrong.csv", **columns, **wrong)
        error = refuses(read, path, Reading(from_probs="counts", gold="gold"))
        assert "'no' holds numbers that are no counts" in str(error)
    for ending in ("csv", "jsonl"):
        dicts = [dict(Counter(row)) for row in ANSWERS]
        path = tmp_path / f"dicts.{ending}"
        if ending == "csv":
            write(path, **columns, votes=dicts)
        else:
            lines = [{"gold": g, "votes": d} for g, d in zip(TEXTS, dicts, strict=True)]
            path.write_text("\n".join(map(json.dumps, lines)))
        check(*read(path, Reading(from_probs="counts", gold="gold")))


def test_indices_of_right_labels_and_tokens_of_labels():
    table = {"a": ANSWERS, "truth": GOLD}
    check(*tables_of(table, Reading(labels=NAMES, gold="truth", gold_names=NAMES)))
    letters = [
        [{"n": "A", "y": "B"}.get(a.strip("* ")[:1].lower(), a) for a in row] for row in ANSWERS
    ]
    reading = Reading(labels=NAMES, tokens={"no": ("A",), "yes": ("B",)}, gold="gold")
    check(*tables_of({"a": letters, "gold": TEXTS}, reading))


def test_labels_that_nothing_names_are_asked_for(refuses):
    error = refuses(tables_of, {"a": ANSWERS, "truth": GOLD})
    assert error.expected == "answers that name labels" and error.key == "labels"
    assert "labels=(" in error.remedy
    check(*tables_of({"a": ANSWERS, "truth": GOLD}, Reading(labels=NAMES)))


def test_several_lists_of_labels_are_asked_about_and_other_lists_are_not_read(refuses):
    shown = [["yes", "no", "yes"]] * 30  # labels of demonstrations
    table = {"a": ANSWERS, "shown": shown, "words": [["the", "the"]] * 30, "gold": TEXTS}
    error = refuses(tables_of, table)
    assert (error.expected, error.got) == ("one column of answers", "'a' and 'shown'")
    del table["shown"]
    check(*tables_of(table))


def test_lists_of_choices_are_no_answers(refuses):
    """Each choice once, and a single answer a row: nothing is counted."""
    for column in ([[*NAMES]] * 30, [["yes"], ["no"]] * 15):
        error = refuses(tables_of, {"a": column, "gold": TEXTS})
        assert "counts" not in error.got


@pytest.mark.parametrize("name", ["answer", "prediction"])
def test_hard_answers_name_the_command_that_corrects_their_shares(name, refuses):
    answers = [row[0] if row else "" for row in ANSWERS]
    for reading in (Reading(), Reading(gold="gold"), Reading(labels=NAMES)):
        error = refuses(tables_of, {"id": range(30), name: answers, "gold": TEXTS}, reading)
        assert error.got == f"answers without numbers, in {name!r}"
        assert f"answers='{name}' gold='gold'" in error.remedy and "10 times" in error.remedy
