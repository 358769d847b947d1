"""Right labels: names of indices, and labels that the scores fit worse than chance."""

import json

import numpy as np
import pandas as pd
import pytest

from batch_calibration import cli, diagnose
from batch_calibration.importers import Reading, read, tables_of
from batch_calibration.importers.gold_fit import (
    LEAST_SHARE,
    MATCHING_STEPS,
    WORDS_SHARE,
    _gains,
    fit_gold,
)

HEADER = "logprob_yes,logprob_no,label"
rng_of = np.random.default_rng
WORDS = ("entailment", "neutral", "contradiction")


def scores_of(gold, k=2, *, signal=2.0, bias=1.5, seed=0):
    """Log-probabilities [n, k] that favor the right label by `signal` nats, and the first label."""
    noise = rng_of(seed).normal(size=(len(gold), k))
    logits = signal * np.eye(k)[gold] + noise + bias * (np.arange(k) == 0)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def labels_of(n=90, k=2, seed=1):
    return rng_of(seed).integers(0, k, n)


def frame(names, scores, gold, column="label"):
    return {**dict(zip(names, scores.T.tolist(), strict=True)), column: list(gold)}


def accuracy(table):
    block = table.blocks["test"]
    return float(np.mean(np.argmax(block.log_probs, axis=1) == block.labels))


def notes_of(table):
    return " ".join(table.blocks["test"].spec.get("notes", []))


def test_indices_of_another_order_are_refused_with_the_names_that_fit(refuses):
    gold = labels_of()
    scores = scores_of(gold)
    columns = frame(("logprob_yes", "logprob_no"), scores, 1 - gold)
    error = refuses(tables_of, columns, Reading(gold="label"))
    right = np.mean(scores.argmax(axis=1) == gold)
    assert error.key == "gold"
    assert error.where == "scores, column 'label'"
    assert f"{100 * (1 - right):.1f} %" in error.got
    assert f"{100 * right:.1f} %" in error.got
    assert "gold_names=('no', 'yes')" in error.remedy
    assert "gold_as_is=True" in error.remedy
    (table,) = tables_of(columns, Reading(gold="label", gold_names=("no", "yes")))
    assert accuracy(table) == pytest.approx(right)
    (table,) = tables_of(columns, Reading(gold="label", gold_as_is=True))
    assert accuracy(table) == pytest.approx(1 - right)


def test_a_strong_bias_with_uneven_labels_is_no_sign():
    gold = (rng_of(3).random(300) < 0.2).astype(int)
    scores = scores_of(1 - gold, signal=3.0, bias=0.0) + np.array([0.0, 8.0])
    assert np.mean(scores.argmax(axis=1) == 1 - gold) > 0.7
    scores = scores_of(gold, signal=2.0, bias=-5.0)
    assert np.mean(scores.argmax(axis=1) == gold) < 0.3
    (table,) = tables_of(frame("AB", scores, np.array(["A", "B"])[gold]), Reading(gold="label"))
    assert not notes_of(table)


def test_names_in_exchanged_columns_are_refused_in_each_door(refuses, tmp_path):
    gold = labels_of(120, 3)
    scores = scores_of(gold, 3, signal=3.0)
    columns = frame(WORDS, scores[:, [2, 1, 0]], np.array(WORDS)[gold])
    error = refuses(tables_of, columns, Reading(gold="label"))
    assert "'entailment' fits 'contradiction'" in error.remedy
    assert "gold_names" not in error.remedy
    np.savez(tmp_path / "s.npz", scores=scores[:, [2, 1, 0]], labels=np.array(WORDS), gold=gold)
    error = refuses(read, tmp_path / "s.npz")
    assert f"gold_names={WORDS[::-1]}" in error.remedy
    (table,) = read(tmp_path / "s.npz", Reading(gold_names=WORDS[::-1]))
    assert accuracy(table) == pytest.approx(np.mean(scores.argmax(axis=1) == gold))


def test_the_order_of_the_columns_is_noted_where_the_scores_fit():
    gold = labels_of(200)
    (table,) = tables_of(frame(("yes", "no"), scores_of(gold), gold), Reading(gold="label"))
    assert "0 is read as 'yes', 1 is read as 'no'" in notes_of(table)
    assert "which the scores fit" in notes_of(table)
    (table,) = tables_of(frame("AB", scores_of(gold), gold), Reading(gold="label"))
    assert not notes_of(table)


@pytest.mark.parametrize(("names", "column"), [(("yes", "no"), "y"), (("spam", "ham"), "is_spam")])
def test_unclear_indices_of_an_affirmative_label_are_asked_for(refuses, names, column):
    gold = labels_of(12)
    columns = frame(names, scores_of(gold, signal=0.2), gold, column)
    error = refuses(tables_of, columns, Reading(gold=column))
    assert error.key == "gold"
    assert error.got.count("after bc") == 2
    for order in (names, names[::-1]):
        assert f"gold_names={order}" in error.remedy
        (table,) = tables_of(columns, Reading(gold=column, gold_names=order))
        expected = [names.index(order[label]) for label in gold]
        assert table.blocks["test"].labels.tolist() == expected


def test_other_unclear_words_are_read_by_the_order_of_the_columns_with_a_note():
    gold = labels_of(12, 3)
    columns = frame(WORDS[::-1], scores_of(gold, 3, signal=0.2), gold)
    (table,) = tables_of(columns, Reading(gold="label"))
    assert f"gold_names={WORDS}" in notes_of(table)


def test_one_is_true():
    gold = labels_of()
    columns = frame(("True", "False"), scores_of(gold), 1 - gold)
    (table,) = tables_of(columns, Reading(gold="label"))
    assert table.blocks["test"].labels.tolist() == gold.tolist()
    assert "1 is read as 'True'" in notes_of(table)


def test_names_of_indices_that_are_no_labels_are_refused(refuses):
    columns = frame(("yes", "no"), scores_of(labels_of()), labels_of())
    error = refuses(tables_of, columns, Reading(gold="label", gold_names=("no", "maybe")))
    assert (error.key, error.got) == ("gold_names", "maybe")


@pytest.mark.parametrize("names", [WORDS, ("b", "a", "c")])
def test_names_in_the_metadata_of_arrow_name_the_indices(names):
    pyarrow = pytest.importorskip("pyarrow")
    gold = labels_of(60, 3)
    features = {"label": {"names": list(names), "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pyarrow.table(frame(WORDS[::-1], scores_of(gold, 3), 2 - gold))
    table = table.replace_schema_metadata(metadata)
    (read_table,) = tables_of(table, Reading(gold="label", gold_as_is=True))
    # Names of no label say nothing.
    expected = gold if names == WORDS else 2 - gold
    assert read_table.blocks["test"].labels.tolist() == expected.tolist()


def test_answers_of_a_server_are_asked_for_like_tables(refuses, tmp_path):
    gold = labels_of(60)
    lines = []
    for label, row in zip(gold, scores_of(gold).tolist(), strict=True):
        top = [{"token": t, "logprob": s} for t, s in zip(("yes", "no"), row, strict=True)]
        content = [{**top[0], "top_logprobs": top}]
        message = {"role": "assistant", "content": "yes"}
        choice = {"index": 0, "message": message, "logprobs": {"content": content}}
        lines.append(json.dumps({"gold": 1 - int(label), "choices": [choice]}))
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    reading = Reading(labels=("yes", "no"), gold="gold")
    assert "gold_names=('no', 'yes')" in refuses(read, path, reading).remedy
    (table,) = read(path, Reading(labels=("yes", "no"), gold="gold", gold_names=("no", "yes")))
    assert table.blocks["test"].labels.tolist() == gold.tolist()


def test_composed_and_decomposed_accents_are_one_label():
    gold = labels_of(30)
    columns = frame(("s\u00ed", "no"), scores_of(gold), np.array(["si\u0301", "no"])[gold])
    (table,) = tables_of(columns, Reading(gold="label"))
    assert table.blocks["test"].labels.tolist() == gold.tolist()


def test_no_file_is_written_for_labels_that_do_not_fit(tmp_path, capsys):
    gold = labels_of()
    path, output = tmp_path / "t.csv", tmp_path / "out.csv"
    rows = np.column_stack([scores_of(gold), 1 - gold])
    np.savetxt(path, rows, "%g", delimiter=",", header=HEADER, comments="")
    flags = ["calibrate", str(path), "--gold=label", "--method=bcl", f"--labeled={path}"]
    with pytest.raises(SystemExit) as exit_of:
        cli.run([*flags, f"--output={output}"])
    assert exit_of.value.code == 2
    assert "--gold-names=no,yes" in capsys.readouterr().err
    assert not output.exists()
    cli.run([*flags, f"--output={output}", "--gold-names=no,yes"])
    assert output.exists()


@pytest.mark.parametrize("kind", ["useless", "weak", "overconfident", "grades", "absent", "ties"])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_right_labels_are_never_called_wrong(kind, k):
    for seed in range(20):
        rng = rng_of([seed, k])
        n, shares = int(rng.integers(10, 600)), rng.dirichlet(np.full(k, 0.7))
        gold = rng.choice(k, n, p=shares)
        signal = {"useless": 0.0, "weak": 0.2}.get(kind, 1.5)
        scores = scores_of(gold, k, signal=signal, bias=5.0, seed=seed)
        if kind == "overconfident":
            scores *= 20
        elif kind == "grades":
            level = gold + rng.normal(size=n) + 1
            scores = -((level[:, None] - np.arange(k)) ** 2) / 2
        elif kind == "absent":
            scores = np.where(rng.random(scores.shape) < 0.3, scores.min() - 0.01, scores)
        elif kind == "ties":
            scores = np.round(scores)
        assert not fit_gold(scores, gold, WORDS_SHARE).is_wrong, (seed, n)


def test_an_order_that_is_no_place_of_its_own_is_found():
    gold = labels_of(240, 12)
    order = np.array([0, 9, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8])
    fit = fit_gold(scores_of(gold, 12, signal=4.0), order[gold], LEAST_SHARE)
    assert fit.is_wrong
    assert fit.assigned[order].tolist() == list(range(12))


def test_reports_of_indices_against_names(shared, refuses):
    cases = shared / "cases" / "reports"
    for name, column in {"yes_no_10": "label", "is_spam": "is_spam"}.items():
        path = cases / "A_gold_by_index" / f"{name}.csv"
        error = refuses(read, path, Reading(gold=column))
        assert "26.7 % (11.7 % after bc)" in error.got
        assert "73.3 % (88.3 % after bc)" in error.got
    error = refuses(read, cases / "B_names_in_metadata/mnli_order.csv", Reading(gold="label"))
    assert "56.7 % (74.4 % after bc)" in error.got
    error = refuses(read, cases / "B_names_in_metadata/twelve_classes.npz")
    assert "77.1 % (85.8 % after bc)" in error.got
    path = cases / "B_names_in_metadata/classlabel.parquet"
    (table,) = read(path, Reading(gold="label"))
    assert accuracy(table) == pytest.approx(0.567, abs=1e-3)


def test_no_real_scores_are_called_wrong(shared):
    with np.load(shared / "scores" / "mmlu_base" / "orig.npz") as arrays:
        for scores in arrays["scores"].astype(np.float64):
            for subject in range(len(arrays["subjects"])):
                rows = arrays["subject"] == subject
                assert not fit_gold(scores[rows], arrays["gold"][rows], WORDS_SHARE).is_wrong


def test_gains_of_stacked_scores_are_those_of_each():
    """The oracle matches the mean softmax of one table at a time, in loops over rows."""
    gold = labels_of(n=11, k=3)
    scores, shares = scores_of(gold, 3), np.bincount(gold, minlength=3) / 11
    stacked = np.stack([scores, 4 * scores, scores[:, ::-1]])
    for found, table in zip(_gains(stacked, gold, shares), stacked, strict=True):
        weights = shares
        for _ in range(MATCHING_STEPS):
            sums = sum(np.exp(row) / (np.exp(row) @ weights) for row in table)
            weights = 11 * shares / sums
        probs = [weights * np.exp(row) / (np.exp(row) @ weights) for row in table]
        expected = [np.log(p[label] / shares[label]) for p, label in zip(probs, gold, strict=True)]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_frame_of_a_table_is_what_the_functions_take(tmp_path):
    random = np.random.default_rng(0)
    gold = random.choice(2, 40)
    scores = 2.0 * np.eye(2)[gold] + random.normal(size=(40, 2)) - 4 + np.array([1.0, 0.0])
    words = np.array(["no", "yes"])[gold].astype(object)
    words[::4] = ""  # unknown
    rows = pd.DataFrame(scores, columns=["score_no", "score_yes"]).assign(human=words)
    rows.to_csv(tmp_path / "a.csv", index=False)
    (table,) = read(tmp_path / "a.csv", Reading(gold="human"))
    frame = table.to_frame()
    assert [*frame.columns] == ["no", "yes", "gold"] and frame.gold.isna().sum() == 10
    found = diagnose(frame, frame.gold, columns=["no", "yes"])
    test = table.blocks["test"]
    expected = diagnose(test.log_probs, test.labels, label_names=("no", "yes"))
    assert found.gain == expected.gain and found.labeled == expected.labeled == 30
