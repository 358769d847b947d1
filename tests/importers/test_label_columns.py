"""Which columns are labels and which rows are whose: read as the file means it, or a sentence."""

import json
import random

import log_forms
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from reading_files import lines, notes
from reading_files import written as write

from batch_calibration.cli import run
from batch_calibration.diagnosis.recommend import recommend_tables
from batch_calibration.errors import InputError
from batch_calibration.importers import Reading, read, tables_of
from batch_calibration.integrations.streams import correct_stream
from batch_calibration.scores import load


def table_of(folder, source, reading=None, name="t.jsonl"):
    """The only table of a file of a text or of rows."""
    text = source if isinstance(source, str) else lines(source)
    (table,) = read(write(folder, text, name), reading)
    return table


def scores(table):
    return table.blocks["test"].log_probs


def gold(table):
    return table.blocks["test"].labels.tolist()


def refused(source, reading=None):
    with pytest.raises(InputError) as error:
        tables_of(source, reading) if not hasattr(source, "exists") else read(source, reading)
    return error.value


# Labels that each row lists beside its scores


def pipeline(n=12, *, labels=("yes", "no")):
    """Rows as the zero-shot pipeline of Hugging Face writes them: most probable label first."""
    draw = random.Random(0)
    rows = []
    for i in range(n):
        share = draw.uniform(0.55, 0.9)
        order = list(labels) if i % 2 else list(labels)[::-1]
        rows.append({"labels": order, "scores": [share, 1 - share], "gold": order[0]})
    return rows


PROBS = Reading(from_probs=True, gold="gold")


def test_labels_of_the_zero_shot_pipeline_are_matched_by_name(tmp_path):
    rows = pipeline()
    for names in ((), ("yes", "no")):
        table = table_of(tmp_path, rows, Reading(from_probs=True, gold="gold", labels=names))
        assert table.label_names == names or table.label_names == ("no", "yes")
        for row, (own, label) in enumerate(zip(scores(table), gold(table), strict=True)):
            listed = dict(zip(rows[row]["labels"], rows[row]["scores"], strict=True))
            expected = [np.log(listed[name]) for name in table.label_names]
            np.testing.assert_allclose(own, expected, rtol=1e-6)
            assert table.label_names[label] == rows[row]["gold"] and own.argmax() == label


@pytest.mark.parametrize("name", ["labels", "label_names", "options", "choices", "Classes"])
def test_lists_of_every_name_and_container_are_matched_by_name(tmp_path, name):
    rows = [{name: row["labels"], "scores": row["scores"]} for row in pipeline()]
    expected = table_of(tmp_path, rows, Reading(from_probs=True))
    frame = pd.DataFrame(rows)
    arrays = frame.map(np.asarray)
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    (parquet,) = read(tmp_path / "t.parquet", Reading(from_probs=True))
    of_frames = [tables_of(one, Reading(from_probs=True)) for one in (frame, arrays)]
    for table in (parquet, *of_frames[0], *of_frames[1]):
        assert table.label_names == expected.label_names == ("no", "yes")
        np.testing.assert_array_equal(scores(table), scores(expected))


def test_arrays_pairs_and_dicts_of_names_are_matched_by_name(tmp_path):
    rows = pipeline()
    expected, columns = table_of(tmp_path, rows, PROBS), {"probs": [row["scores"] for row in rows]}
    for name in ("labels", "gold"):
        columns[name] = np.array([row[name] for row in rows])
    np.savez(tmp_path / "t.npz", **columns)
    tables = read(tmp_path / "t.npz", Reading(from_probs=True))
    for as_pairs in (True, False):
        changed = []
        for row in rows:
            listed = dict(zip(row["labels"], row["scores"], strict=True))
            cells = [{"label": label, "score": score} for label, score in listed.items()]
            changed.append({"result": cells if as_pairs else listed, "gold": row["gold"]})
        tables.append(table_of(tmp_path, changed, PROBS))
    for table in tables:
        assert table.label_names == expected.label_names and gold(table) == gold(expected)
        np.testing.assert_array_equal(scores(table), scores(expected))
    np.savez(tmp_path / "t.npz", scores=-np.arange(6.0).reshape(3, 2), model=["a", "b", "b"])
    assert refused(tmp_path / "t.npz").got == "'a', 'b'"


TOP = [
    {"labels": ["a", "b"], "scores": [-0.5, -1.5]},
    {"labels": ["b", "c"], "scores": [-0.25, -2.5]},
    {"labels": ["a", "c"], "scores": [-0.75, -1.25]},
]


def test_rows_that_list_some_of_the_labels_lack_the_others(tmp_path):
    path = write(tmp_path, lines(TOP), "t.jsonl")
    error = refused(path)
    assert error.where == f"{path}, column 'labels', row 0 (counted from 0)"
    assert error.expected == "the labels ['a', 'b', 'c'] in any order"
    assert error.got == "['a', 'b']" and "missing='least'" in error.remedy
    (table,) = read(path, Reading(missing="least", below=0.5))
    expected = [[-0.5, -1.5, -2.0], [-3.0, -0.25, -2.5], [-0.75, -1.75, -1.25]]
    np.testing.assert_allclose(scores(table), expected)
    assert refused(path, Reading(labels=("a", "b"))).got == "['b', 'c']"


ANSWERS = [
    {"choices": ["Paris", "Rome"], "scores": [-0.5, -1.5], "answer": 0},
    {"choices": ["4", "5"], "scores": [-2.5, -0.25], "answer": 1},
    {"choices": ["red", "blue"], "scores": [-0.75, -1.25], "answer": 1},
]


@pytest.mark.parametrize("answers", [(0, 1, 1), ("Paris", "5", "blue"), ("A", "B", "B")])
def test_other_texts_in_each_row_are_places(tmp_path, answers):
    rows = [{**row, "answer": answer} for row, answer in zip(ANSWERS, answers, strict=True)]
    table = table_of(tmp_path, rows, Reading(gold="answer"))
    assert table.label_names == ("A", "B") and gold(table) == [0, 1, 1]
    np.testing.assert_array_equal(scores(table), [row["scores"] for row in rows])
    assert "A is the first choice of each row" in notes(table)
    # A question may stand there twice; new names are those of the places.
    named = table_of(tmp_path, rows[:1] * 3 + rows, Reading(labels=("x", "y")))
    assert named.label_names == ("x", "y")


def test_names_of_the_table_are_those_of_places(tmp_path):
    document = json.dumps({"labels": ["A", "B"], "rows": ANSWERS})
    table = table_of(tmp_path, document, Reading(gold="answer"), "t.json")
    assert table.label_names == ("A", "B") and gold(table) == [0, 1, 1]


def test_an_index_counts_in_the_rows_own_list_of_choices(tmp_path):
    rows = [
        {"choices": ["yes", "no"], "scores": [-0.5, -1.5], "answer": 1},
        {"choices": ["no", "yes"], "scores": [-2.5, -0.25], "answer": 1},
        {"choices": ["no", "yes"], "scores": [-0.75, -1.25], "answer": -1},
    ]
    table = table_of(tmp_path, rows, Reading(gold="answer"))
    assert table.label_names == ("yes", "no") and gold(table) == [1, 0, -1]
    assert "indices into each row's list 'choices'" in notes(table)
    # Ranked lists are the model's, and an index of the right label is not of these; also where the
    # model likes one label best in all rows.
    for rows in (pipeline(), pipeline()[1::2]):
        ranked = [{**row, "gold": i % 2} for i, row in enumerate(rows)]
        error = refused(write(tmp_path, lines(ranked), "t.jsonl"), PROBS)
        assert "most probable first" in error.got and "write the label's name" in error.remedy


def test_an_index_is_that_of_a_numbered_label(tmp_path):
    rows = pipeline(labels=("LABEL_1", "LABEL_0"))
    texts = table_of(tmp_path, rows, PROBS)
    numbers = [{**row, "gold": int(row["gold"][-1])} for row in rows]
    assert gold(table_of(tmp_path, numbers, PROBS)) == gold(texts)
    pairs = []
    for row in numbers[1::2]:  # of one order
        listed = zip(row["labels"], row["scores"], strict=True)
        cells = [{"label": label, "score": score} for label, score in listed]
        pairs.append({"result": cells, "gold": row["gold"]})
    table = table_of(tmp_path, pairs, PROBS)
    assert [table.label_names[label] for label in gold(table)] == ["LABEL_1"] * 6


OTHER_ORDER = "'tags', and 'tags' lists the same texts in an order that varies from row to row"
FLAGS = "[0, 1] and [1, 0], which may be flags of the right label"


@pytest.mark.parametrize(
    ("name", "lists", "got"),
    [
        ("labels", [["a", "b"], ["a"]], "['a']"),
        ("labels", [["a", "a"]], "['a', 'a']"),
        ("labels", [[1, 0], [0, 1]], FLAGS),
        ("tags", [["a", "b"], ["b", "a"]], OTHER_ORDER),
        ("tokens", [["a", "b"], ["b", "c"], ["a", "c"]], "['a', 'b']"),  # by rank, no places
    ],
)
def test_lists_that_do_not_name_the_labels_plainly_are_refused(tmp_path, name, lists, got):
    rows = [{name: own, "scores": [-1.5, -2.5 + i / 2]} for i, own in enumerate(lists)]
    assert refused(write(tmp_path, lines(rows), "t.jsonl")).got == got


def test_names_and_indices_of_other_lists_are_refused(tmp_path):
    path = write(tmp_path, lines(pipeline()), "t.jsonl")
    assert refused(path, Reading(from_probs=True, labels=("Yes", "No"))).got == "Yes"
    rows = [{"choices": ["1", "2"], "scores": [-0.5, -1.5], "answer": 1}]
    rows.append({"choices": ["7", "0"], "scores": [-2.5, -0.25], "answer": 0})
    error = refused(write(tmp_path, lines(rows), "t.jsonl"), Reading(gold="answer"))
    assert error.expected == "the right label by its text"


def test_lists_without_names_beside_them_are_by_place(tmp_path):
    rows = [{"scores": [-0.5, -1.5], "labels": [0, 1, 0]}, {"scores": [-2.5, -1.5], "tags": ["x"]}]
    table = table_of(tmp_path, rows)
    assert table.label_names == ("label 0", "label 1") and not notes(table)
    ids = [{"scores": [-0.5, -1.5, -2.5], "labels": [2, 0, 1]}]
    ids.append({"scores": [-0.25, -1.5, -3.5], "labels": [0, 1, 2]})
    table = table_of(tmp_path, ids)
    assert table.label_names == ("2", "0", "1")
    np.testing.assert_array_equal(scores(table), [[-0.5, -1.5, -2.5], [-3.5, -0.25, -1.5]])


def test_ranked_columns_beside_columns_of_labels_are_refused(tmp_path):
    text = "label_1,score_1,label_2,score_2\nyes,-0.5,no,-1.5\nno,-0.25,yes,-2.5\n"
    error = refused(write(tmp_path, text))
    assert error.got.startswith("'score_1', 'score_2' next to 'label_1', 'label_2', which name")
    (table,) = read(tmp_path / "t.csv", Reading(labels=("score_1", "score_2")))
    assert table.label_names == ("score_1", "score_2")
    fixed = text.replace("no,-0.25,yes", "yes,-0.25,no")
    assert table_of(tmp_path, fixed, name="t.csv").label_names == ("score_1", "score_2")


# Columns that are left out, or may be none


def floats(n=8):
    return [(f"-0.{i + 1}", f"-1.{i}", f"-0.0{i + 1}") for i in range(n)]


def csv_of(names, rows, delimiter=","):
    return "\n".join(map(delimiter.join, [names, *rows])) + "\n"


def test_a_column_called_id_may_be_indonesian(tmp_path):
    table = table_of(tmp_path, csv_of(("en", "fr", "id"), floats()), name="t.csv")
    assert table.label_names == ("en", "fr", "id")
    numbered = [(a, b, str(i)) for i, (a, b, _) in enumerate(floats())]
    table = table_of(tmp_path, csv_of(("en", "fr", "id"), numbered), name="t.csv")
    assert table.label_names == ("en", "fr") and not notes(table)
    sections = [(a, b, f"{i}.1") for i, (a, b, _) in enumerate(floats())]
    error = refused(write(tmp_path, csv_of(("en", "fr", "id"), sections)))
    assert "the column 'id' holds numbers unlike the other columns" in str(error)
    frame = pd.DataFrame([(0.5, 0.25, 0.2), (0.125, 0.5, 0.3)], columns=["en", "fr", "id"])
    assert tables_of(frame, Reading(from_probs=True))[0].label_names == ("en", "fr", "id")


@pytest.mark.parametrize("mark", ["#N/A", "-", "\u2013", "<NA>"])
def test_marks_of_empty_cells_are_missing_labels(tmp_path, mark):
    rows = [(a, b, "-0.7" if i % 3 == 0 else mark) for i, (a, b, _) in enumerate(floats())]
    path = write(tmp_path, csv_of("ABC", rows))
    assert "row 1 has nan as the score of 'C' (5 scores like it in 5 of 8 " in str(refused(path))
    (table,) = read(path, Reading(missing="least"))
    assert table.label_names == ("A", "B", "C")


def same_numbers(table):
    np.testing.assert_array_equal(scores(table), np.array(floats(), np.float32))
    return True


@pytest.mark.parametrize("minus", ["\u2212", "\u2013", "\uff0d"])
def test_every_minus_is_read(tmp_path, minus):
    text = csv_of("ABC", floats()).replace("-", minus)
    assert same_numbers(table_of(tmp_path, text, name="t.csv"))
    rows = [{"A": a, "B": b, "C": c.replace("-", minus)} for a, b, c in floats()]
    assert same_numbers(table_of(tmp_path, rows))


def test_numbers_as_texts_are_read(tmp_path):
    rows = [{"A": float(a), "B": float(b), "C": c} for a, b, c in floats()]
    assert same_numbers(table_of(tmp_path, rows))
    assert same_numbers(tables_of(pd.DataFrame(rows))[0])
    assert same_numbers(table_of(tmp_path, [{"scores": list(row)} for row in floats()]))
    # Codes as texts beside numbers are none.
    codes = [{**row, "zip": "12345", "version": "x"} for row in rows]
    table = table_of(tmp_path, codes)
    assert table.label_names == ("A", "B", "C") and "zip" not in notes(table)


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_decimal_commas_are_read(tmp_path, delimiter):
    quote = '"' if delimiter == "," else ""
    rows = [[quote + cell.replace(".", ",") + quote for cell in row] for row in floats()]
    assert same_numbers(table_of(tmp_path, csv_of("ABC", rows, delimiter), name="t.csv"))
    mixed = [(a, b.replace(".", ","), c.replace(".", ",")) for a, b, c in floats()]
    if delimiter != ",":
        assert same_numbers(table_of(tmp_path, csv_of("ABC", mixed, delimiter), name="t.csv"))


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["-1,234", "-2,345", "-3,456"], "3 of 3 cells are not numbers, such as '-1,234'"),
        (["-1.234,5", "-2,3", "-3,4"], "3 of 3 cells are not numbers, such as '-1.234,5'"),
        (["-0.5", "see below", "n.b."], "2 of 3 cells are not numbers, such as 'see below'"),
    ],
)
def test_a_column_that_is_left_out_is_named_with_the_reason(tmp_path, cells, reason):
    rows = [(a, b, cell) for (a, b, _), cell in zip(floats(), cells, strict=False)]
    path = write(tmp_path, csv_of("ABC", rows, ";"))
    (table,) = read(path)
    assert table.label_names == ("A", "B")
    assert notes(table) == f"The column 'C' is left out: {reason}."
    error = refused(path, Reading(labels=("A", "B", "C")))
    bad_row = next(i for i, cell in enumerate(cells) if cell in reason)
    assert error.where == f"{path}, column 'C', row {bad_row} (counted from 0)"
    assert error.got.startswith(repr(cells[bad_row]))


@pytest.mark.parametrize("texts", [["x, y", "7", "no, 3"], ["-", "-", "-"]])
def test_columns_of_texts_are_left_out_without_a_note(tmp_path, texts):
    rows = [(a, b, text) for (a, b, _), text in zip(floats(), texts, strict=False)]
    table = table_of(tmp_path, csv_of(("A", "B", "text"), rows, ";"), name="t.csv")
    assert table.label_names == ("A", "B") and not notes(table)


OTHER_NUMBERS = "seconds entropy PPL latency_ms length x sum mean margin usage latency rank"


@pytest.mark.parametrize("name", OTHER_NUMBERS.split())
@pytest.mark.parametrize("first", [True, False])
def test_numbers_above_0_are_no_label_s_beside_log_probabilities(tmp_path, name, first):
    probs = np.random.default_rng(0).dirichlet([2, 1, 1], 12)[:, :2]
    columns = dict(zip(("no", "yes"), np.log(probs).T, strict=True))
    other = {name: 0.5 + np.arange(12)}
    columns = {**other, **columns} if first else {**columns, **other}
    path = write(tmp_path, csv_of(columns, np.array(list(columns.values())).T.astype(str)), "t.csv")
    error = refused(path)
    assert error.key == "labels" and error.got == f"{name!r} next to 'no', 'yes'"
    for labels in (("no", "yes"), tuple(columns)):
        assert repr(labels) in error.remedy
        reading = Reading(labels=labels, from_probs=False)
        assert read(path, reading)[0].label_names == labels


GOLD_OF_12 = ["no", "yes", "no", "no"] * 3


@pytest.mark.parametrize(
    ("names", "gold_texts"),
    [
        (("no", "yes", "score"), GOLD_OF_12),
        (("score", "no", "yes"), GOLD_OF_12),
        (("lp_no", "lp_yes", "cumulative"), GOLD_OF_12),
        (("no", "yes", "no_z", "yes_z"), GOLD_OF_12),
        (("no", "yes", "no_z", "yes_z"), [""] * 12),
        (("p_no", "p_yes", "q"), GOLD_OF_12),
        (("no", "yes", "other"), ["0", "1"] * 6),
        (("no", "yes", "maybe"), GOLD_OF_12),
    ],
)
def test_columns_that_no_right_label_names_are_a_question(tmp_path, names, gold_texts):
    probs = np.random.default_rng(0).dirichlet([2, 1, 1, 1, 1], 12)[:, : len(names)]
    columns = dict(zip(names, np.log(probs).T, strict=True))
    others = [name for name in names if name.split("_")[-1] not in ("no", "yes")]
    labels = tuple(name for name in names if name not in others)
    columns["gold"] = gold_texts
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    for read_it, source in ((tables_of, columns), (read, tmp_path / "t.csv")):
        with pytest.raises(InputError) as raised:
            read_it(source, Reading(gold="gold"))
        assert raised.value.got.startswith(", ".join(map(repr, others)) + " next to ")
        assert repr(labels) in raised.value.remedy
        (table,) = read_it(source, Reading(gold="gold", labels=labels))
        assert scores(table).shape == (12, 2)


def test_a_distribution_over_all_columns_has_all_labels(tmp_path):
    probs = np.random.default_rng(0).dirichlet([2, 1, 1], 12)
    columns = dict(zip(("no", "yes", "maybe"), np.log(probs).T, strict=True))
    (table,) = tables_of({**columns, "gold": GOLD_OF_12}, Reading(gold="gold"))
    assert table.label_names == ("no", "yes", "maybe") and not notes(table)
    # The probabilities of the first two sum to 1.
    columns["maybe"] = columns["maybe"] - 1
    columns["yes"] = np.log1p(-np.exp(columns["no"]))
    with pytest.raises(InputError) as raised:
        tables_of(columns)
    assert raised.value.got == "'maybe' next to 'no', 'yes'"


def test_columns_without_a_sign_of_their_labels_are_noted(tmp_path):
    names = ("positive", "negative", "neutral")
    table = table_of(tmp_path, csv_of(names, floats()), name="t.csv")
    listed = "'positive', 'negative', 'neutral'"
    assert notes(table).startswith(f"All columns of real numbers are labels: {listed}; if not,")


@pytest.mark.parametrize("form", ["{}", "logprob_{}", "p_{}"])
@pytest.mark.parametrize("is_probs", [True, False])
def test_spellings_of_one_label_are_added(tmp_path, form, is_probs):
    probs = np.random.default_rng(0).dirichlet([2, 2, 1, 1, 1], 12)[:, :4]
    names = [form.format(name) for name in ("yes", "no", "Yes", "No")]
    columns = dict(zip(names, (probs if is_probs else np.log(probs)).T, strict=True))
    reading = Reading(gold="gold", from_probs=is_probs or None)
    (table,) = tables_of({**columns, "gold": GOLD_OF_12}, reading)
    expected = np.log(probs[:, :2] + probs[:, 2:])
    np.testing.assert_allclose(scores(table), expected, rtol=1e-6)
    assert f"{names[0]!r}, {names[2]!r} spell one label" in notes(table)
    assert gold(table) == [["yes", "no"].index(text) for text in GOLD_OF_12]


def test_lists_that_are_left_out_are_noted(tmp_path):
    rows = [{"no": -0.5 - i, "yes": -1.5, "p": [-0.5, -1.5], "ids": [3, 4]} for i in range(3)]
    table = table_of(tmp_path, rows)
    assert "The column 'p' is left out: it holds several numbers per row" in notes(table)
    assert "'ids'" not in notes(table)


# Right labels that are counted from 1


@pytest.mark.parametrize("columns", [("yes", "no"), ("Ġyes", "Ġno"), (" yes", "▁no")])
@pytest.mark.parametrize("space", ["Ġ", "▁", " "])
def test_right_labels_have_the_space_that_label_columns_may_have(tmp_path, columns, space):
    text = f"{','.join(columns)},gold\n-1,-2,{space}no\n-2.5,-1,{space}yes\n-1,-3.5,\n"
    table = table_of(tmp_path, text, Reading(gold="gold"), "a.csv")
    assert table.label_names == ("yes", "no") and gold(table) == [1, 0, -1]
    rows = [{"s": dict(zip(columns, (-1.0, -2.5 - i), strict=True))} for i in range(2)]
    rows = [{**row, "gold": f"{space}no"} for row in rows]
    assert gold(table_of(tmp_path, rows, Reading(gold="gold"))) == [1, 1]


def test_right_labels_counted_from_one_are_refused(tmp_path):
    rows = [{"a": -1.5 - i, "b": -2.5, "c": -3.5, "gold": 1 + i % 3} for i in range(6)]
    error = refused(write(tmp_path, lines(rows), "t.jsonl"), Reading(gold="gold"))
    assert error.expected == "indices of the right labels, counted from 0 to 2"
    assert error.got == "3 but no 0: they are counted from 1"
    lists = []
    for i, row in enumerate(rows):
        own = {"choices": [f"p{i}", f"q{i}", f"r{i}"], "scores": [row["a"], -2.5, -3.5]}
        lists.append({**own, "gold": row["gold"]})
    error = refused(write(tmp_path, lines(lists)), Reading("json", gold="gold"))
    assert "counted from 1" in error.got
    names = [{"1": -1.5 - i, "2": -2.5, "3": -3.5, "gold": 1 + i % 3} for i in range(6)]
    table = table_of(tmp_path, names, Reading(gold="gold", labels=("1", "2", "3")))
    assert gold(table) == [0, 1, 2, 0, 1, 2]


def test_a_first_label_that_is_never_right_is_noted():
    columns = {"a": -1.5 - np.arange(40), "b": -2.5 - np.arange(40), "c": -np.arange(40) / 7 - 3}
    (table,) = tables_of({**columns, "gold": 1 + np.arange(40) % 2}, Reading(gold="gold"))
    assert "No row has the right label 'a': if the column counts labels from 1" in notes(table)
    (table,) = tables_of({**columns, "gold": np.arange(40) % 3}, Reading(gold="gold"))
    assert "No row has" not in notes(table)


def harness(targets, choices):
    rows = []
    for i, target in enumerate(targets):
        own = choices[i % len(choices)]
        scores = [-1.5 - (i + j) % len(own) for j in range(len(own))]
        rows.append(log_forms.row(i, scores, own, target, doc={}))
    return rows


def test_targets_of_a_log_that_are_counted_from_one_are_refused(tmp_path):
    log = harness([1, 2, 3, 1], [("a", "b", "c")])
    assert "counted from 1" in refused(write(tmp_path, lines(log), "samples_t.jsonl")).got


def test_numbers_that_are_choices_and_indices_need_an_accuracy(tmp_path):
    log = harness(["1", "2", "1"], [("2", "1", "3")])
    error = refused(write(tmp_path, lines(log), "samples_t.jsonl"))
    assert error.got == "numbers that may be either, and no `acc` to decide"
    # What all of them can be decides without an accuracy.
    table = table_of(tmp_path, harness(["1", "2", "3"], [("1", "2", "3")]))
    assert gold(table) == [0, 1, 2] and "read as texts" in notes(table)
    right = [{**row, "acc": acc} for row, acc in zip(log, (1.0, 0.0, 0.0), strict=True)]
    assert "read as texts" in notes(table_of(tmp_path, right))


def test_choices_of_a_log_that_change_places_are_matched_by_their_texts(tmp_path):
    table = table_of(tmp_path, harness([0, 0, 1], [("no", "yes"), ("yes", "no")]))
    assert table.label_names == ("no", "yes") and gold(table) == [0, 1, 1]
    np.testing.assert_array_equal(scores(table), [[-1.5, -2.5], [-1.5, -2.5], [-1.5, -2.5]])
    assert "they are matched by text" in notes(table)


@pytest.mark.parametrize("kind", ["listed", "unlisted", "right one first"])
def test_positions_without_a_meaning_get_the_advice_to_leave_the_scores(tmp_path, kind):
    choices = [(f"p{i}", f"q{i}", f"r{i}") for i in range(40)]
    log = harness([0 if kind == "right one first" else -i % 3 for i in range(40)], choices)
    if kind != "unlisted":
        for row, texts in zip(log, choices, strict=True):
            row["arguments"] = [[f"{', '.join(texts)}? {a}", b] for a, b in row["arguments"]]
    (advice,) = recommend_tables([table_of(tmp_path, log)], ["t"])
    said = {"unlisted": "no prompt lists the choices", "right one first": "the same position"}
    assert (said.get(kind, "-") in advice.reason[0]) == (kind != "listed")
    assert kind == "listed" or advice.method == "icl"


# Models and tasks in one file


MODELS = [
    {"model": "xy"[i % 2], "task": "s", "no": -0.5 - i, "yes": -1.25 * i - 1} for i in range(6)
]


def test_two_models_in_one_file_are_refused_unless_it_is_said_what_they_are(tmp_path):
    path = write(tmp_path, lines(MODELS), "t.jsonl")
    error = refused(path)
    assert error.where == f"{path}, column 'model'" and error.got == "'x', 'y'"
    assert "by=('model',)" in error.remedy and "model='NAME'" in error.remedy
    assert [t.context["task"] for t in read(path, Reading(by=("model",)))] == ["t x", "t y"]
    assert len(scores(read(path, Reading(model="both"))[0])) == 6
    tasks = [{**row, "model": "m", "task": row["model"]} for row in MODELS]
    path = write(tmp_path, lines(tasks), "t.jsonl")
    assert "by=('task',)" in refused(path).remedy
    # Each subject is of one task.
    by_subject = [{**row, "subject": row["task"]} for row in tasks]
    assert len(read(write(tmp_path, lines(by_subject), "t.jsonl"), Reading(by=("subject",)))) == 2
    single_model = [{**row, "model": "m"} for row in MODELS]
    assert len(scores(read(write(tmp_path, lines(single_model), "t.jsonl"))[0])) == 6


def test_labels_called_model_and_task_are_labels(tmp_path):
    rows = [{"model": -0.5 - i, "task": -1.25 * i - 1} for i in range(6)]
    assert table_of(tmp_path, rows).label_names == ("model", "task")


def test_two_models_in_a_stream_are_refused(tmp_path, refuses):
    rows = [row for row in MODELS for _ in range(5)]
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    assert refuses(correct_stream, tmp_path / "t.parquet", tmp_path / "o.parquet").got == "'x', 'y'"
    done = correct_stream(tmp_path / "t.parquet", tmp_path / "o.parquet", Reading(by=("model",)))
    assert set(done.bias) == {"x", "y"}


BY = "s,no,yes\n" + "".join(f"{'xy'[i % 2]},-{i + 1}.5,-1.5\n" for i in range(6))


def test_rows_of_several_contexts_keep_their_numbers_in_the_file(tmp_path):
    path = write(tmp_path, BY.replace("x,-5.5", "x,"))
    tables = read(path, Reading(by=("s",), missing="drop"))
    assert [table.context["task"] for table in tables] == ["t x", "t y"]
    for table, rows in zip(tables, ((0, 2), (1, 3, 5)), strict=True):
        assert table.blocks["test"].row_ids == tuple(map(str, rows))
        np.testing.assert_array_equal(scores(table)[:, 0], -1.5 - np.array(rows))
        table.save(tmp_path / "t.safetensors")
        for one in (table, load(tmp_path / "t.safetensors")):
            assert tuple(one.blocks["test"].file_rows) == rows
    assert "row 4 has nan as the score of 'no'" in str(refused(path, Reading(by=("s",))))


def test_scores_filled_in_are_marked_where_they_are_written(tmp_path):
    path = write(tmp_path, "id,yes,no\na,-0.5,-1.5\nb,,-0.25\nc,-0.75,\n")
    run(["calibrate", str(path), "--ids=id", "--missing=least", f"--output={tmp_path / 'o.csv'}"])
    written = pd.read_csv(tmp_path / "o.csv", keep_default_na=False)
    assert written["row"].tolist() == ["a", "b", "c"]
    assert written["filled"].tolist() == ["", "yes", "no"]


def test_a_name_of_a_column_may_be_long(tmp_path):
    name = "n" * 100_000  # a pattern that tries every part of it would take minutes
    rows = "".join(f"-0.{i + 1},-1.{i}\n" for i in range(9))
    table = table_of(tmp_path, f"{name},yes\n{rows}", name="long.csv")
    assert table.label_names == (name, "yes")


@pytest.mark.parametrize("form", ["logprob_{}", "p_{}_lp", "m_choice{}_logprobs", "logit_{}"])
def test_a_right_label_that_may_be_a_name_or_an_index_is_a_question(form, tmp_path):
    text = f"{form.format(1)},{form.format(10)},gold\n-1.5,-0.5,1\n-0.5,-1.5,1\n"
    columns = f"{form.format(1)!r}, {form.format(10)!r}"
    error = refused(write(tmp_path, text), Reading(gold="gold"))
    assert error.got == f"['1'] for the columns {columns}"
    for old, labels in (("-1.5,1\n", [0, 1]), ("5,1\n", [1, 1])):
        named = text.replace(old, old.replace("1\n", "10\n"))
        assert gold(table_of(tmp_path, named, Reading(gold="gold"), "scores.csv")) == labels


def test_gold_of_other_capitals_is_bound_with_a_note(tmp_path):
    text = "yes,no,gold\n" + 3 * "-0.5,-1.5,Yes\n-2.5,-0.25,NO\n"
    for reading in (Reading(gold="gold"), None):  # the column is recognized, too
        table = table_of(tmp_path, text, reading, "t.csv")
        assert table.blocks["test"].labels.tolist() == 3 * [0, 1]
        assert "'Yes' is read as the label 'yes'" in notes(table)
    both = "yes,YES,gold\n-0.5,-1.5,Yes\n-2.5,-0.25,yes\n"
    for text, got in ((both, "'Yes'"), ("yes,no,gold\n-0.5,-1.5,yess\n", "'yess'")):
        assert refused(write(tmp_path, text), Reading(gold="gold")).got.startswith(got)


def test_a_label_that_no_answer_held_is_said(tmp_path):
    rows = [{"yes": -0.5, "no": -1.5, "maybe": None}, {"yes": -2.5, "no": -0.25, "maybe": None}]
    labels = ("yes", "no", "maybe")
    table = table_of(tmp_path, rows, Reading(missing="least", labels=labels))
    assert "No row has a score of 'maybe'" in notes(table)


@pytest.mark.parametrize("right", ["name", "index", "flag", "nothing"])
@pytest.mark.parametrize("order", ["by id", "by choice"])
def test_a_row_for_each_choice_becomes_a_row_for_each_question(right, order):
    probs = np.random.default_rng(0).dirichlet([3, 2, 1], 8)
    labels, rows = ("A", "B", "C"), []
    for i, j in np.ndindex(8, 3):
        of_kind = {"name": labels[i % 3], "index": i % 3, "flag": int(i % 3 == j), "nothing": ""}
        cells = {
            "q": f"q{i}",
            "option": labels[j],
            "lp": float(np.log(probs[i, j])),
            "s": "ab"[i % 2],
        }
        rows.append({**cells, **({} if right == "nothing" else {"target": of_kind[right]})})
    rows = rows if order == "by id" else sorted(rows, key=lambda row: row["option"])
    (table,) = tables_of(rows)
    assert table.label_names == labels and table.blocks["test"].row_ids[:2] == ("q0", "q1")
    np.testing.assert_allclose(scores(table), np.log(probs), rtol=1e-6)
    assert gold(table) == ([-1] * 8 if right == "nothing" else [i % 3 for i in range(8)])
    assert "The rows of each 'q' are read as one row: 'option' names the labels" in notes(table)
    tables = tables_of(rows, Reading(by=("s",)))
    assert [len(scores(part)) for part in tables] == [4, 4]


def test_one_probability_of_each_model_is_no_choice():
    rows = [{"id": i, "model": m, "p_yes": 0.1 + 0.08 * i} for i in range(9) for m in "xy"]
    with pytest.raises(InputError):
        tables_of(rows)


def test_a_label_without_scores_and_spellings_of_one_label_alone_are_read_without_warnings():
    rows = [{"s": {"yes": -0.5 - i, "no": -1.5, "maybe": None}} for i in range(12)]
    (table,) = tables_of(rows, Reading(missing="least"))
    assert "No row has a score of 'maybe'" in notes(table)
    columns = {"yes": [-1.5, -0.5], "Yes": [-0.5, -2.5]}
    assert tables_of(columns)[0].label_names == ("yes", "Yes")
