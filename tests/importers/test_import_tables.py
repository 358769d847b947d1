"""Tables and arrays of other people become score tables; what is not plain is refused."""

import csv
import json
import re
import sys
from collections import Counter
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import safetensors.flax
import safetensors.numpy
from reading_files import lines, refused, written

from batch_calibration import calibrate
from batch_calibration.importers import Reading, read, tables_of
from batch_calibration.scores import ScoreTable, load, make_block

ROOT = Path(__file__).resolve().parents[2]
SCORES = np.array([[-1.5, -2.25], [-0.25, -4.0], [-3.5, -0.125]])
GOLD = ["yes", "no", ""]
PLAIN = "id,no,yes,gold,topic\na,-1.5,-2.25,yes,x\nb,-0.25,-4,no,y\nc,-3.5,-0.125,,x\n"
SAID = Reading(gold="gold", ids="id")


def only(tables):
    assert len(tables) == 1
    return tables[0]


def is_plain(table):
    block = table.blocks["test"]
    np.testing.assert_array_equal(block.log_probs, SCORES.astype(np.float32))
    assert block.labels.tolist() == [1, 0, -1]
    assert block.row_ids == ("a", "b", "c")
    assert table.label_names == ("no", "yes")
    return True


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN.rstrip("\n"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";"),
        PLAIN.replace("no,", '"no",').replace("-1.5", '"-1.5"'),
        PLAIN.replace("-1.5", " -15e-1 ").replace("yes,x", "1,x").replace("no,y\n", "0,y\n"),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.replace(",,x", ",-1,x"),
        PLAIN.replace(",topic", ",n_tokens"),
        PLAIN.replace("a,", '"a",').replace("topic", '"the\ntopic"'),
    ],
)
def test_csv_of_every_dialect_gives_the_same_table(tmp_path, data):
    assert is_plain(only(read(written(tmp_path, data), SAID)))


def test_names_of_formats_and_endings(tmp_path):
    assert is_plain(only(read(written(tmp_path, PLAIN, "scores.data"), SAID)))
    tabs = PLAIN.replace(",", "\t")
    table = only(read(written(tmp_path, tabs, "t.tsv"), Reading("csv", gold="gold", ids="id")))
    assert is_plain(table) and table.context["task"] == "t"


def test_labels_choose_columns_and_their_order(tmp_path):
    table = only(read(written(tmp_path, PLAIN), Reading(labels=("yes", "no"), gold="gold")))
    np.testing.assert_array_equal(table.blocks["test"].log_probs, SCORES[:, ::-1])
    assert table.blocks["test"].labels.tolist() == [0, 1, -1]
    # The gold column is not named, and plainly no score: --labels says so.
    table = only(read(written(tmp_path, PLAIN), Reading(labels=("no", "yes"))))
    assert set(table.blocks["test"].labels.tolist()) == {-1}


def test_long_cells_are_read(tmp_path):
    before = csv.field_size_limit()
    long = PLAIN.replace(",x\n", "," + "w" * 10_000_000 + "\n", 1)
    assert is_plain(only(read(written(tmp_path, long), SAID)))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ("c,-3.5,-0.125,,x\n", "c,-3.5,-0.1", "line 4: expected 5 cells"),
        ("c,-3.5,", "c,-3.5,-0.5,", "line 4: expected 5 cells"),
        ("c,-3.5", "c,-3.5.1", "'no', row 2 (counted from 0): expected a number; got '-3.5.1'"),
        ("c,-3.5", "c,1_0", "got '1_0'"),
        ("c,-3.5", 'c,"-3.5', "line 4: expected CSV"),
        ("c,-3.5", "c,", "row 2 has nan as the score of 'no'"),
        ("c,-3.5", "c,-inf", "row 2 has -inf as the score of 'no'"),
        ("c,-3.5", "c,-9999.0", "row 2 has -9999 as the score of 'no'"),
        ("c,-3.5", "c,inf", "row c, label 'no' is inf"),
        ("c,-3.5", "a,-3.5", "row id 'a' appears 2 times"),
        (",,x", ",maybe,x", "'gold', row 2 (counted from 0)"),
        (",,x", ",2,x", "got '2', which names no label"),
        ("no,yes", "no,no", "columns of different names; got 'no'"),
        ("id,no,yes,gold,topic\n", "", "got numbers ('a,-1.5,-2.25,yes,x')"),
        (",gold,", ",right,", "named 'gold'"),
    ],
)
def test_csv_that_is_damaged_is_refused(tmp_path, old, new, got, refuses):
    assert got in str(refuses(read, written(tmp_path, PLAIN.replace(old, new)), SAID))


YES_NO = "no,yes\n-1.5,-2\n"


@pytest.mark.parametrize(
    ("data", "reading", "got"),
    [
        ("", Reading(), "line 1: expected a line of column names"),
        ("no,yes\n", Reading(), "at least one row of scores; got none"),
        (",\n1,2\n", Reading(), "columns of different names; got ''"),
        ("no\n-1.5\n-2.5\n", Reading("csv"), "got 'no' among 1 columns"),
        ("no\n-1.5\n-2.5\n", Reading("csv", ("no",)), "got ['no']"),
        ("no,yes\n-1,5\n-2,6\n", Reading(), "the column 'yes' holds whole numbers"),
        ("no,yes,c\n-1.5,-2.5,\n", Reading(), "the column 'c' is empty"),
        ("no,yes,Answer\n-.5,-2.5,1.0\n", Reading(), "gold='Answer'"),
        ("no,yes\n0.5,0.5\n", Reading(), "sum to about 1"),
        ("no,yes\n0.5,1.5\n", Reading(from_probs=True), "got 0.5 to 1.5"),
        (YES_NO, Reading(labels=("no", "maybe")), "named 'maybe'"),
        (YES_NO, Reading(labels=("no", "no")), "'no' twice"),
        (YES_NO, Reading(labels=("no", "yes"), gold="no"), "one use of the column 'no'"),
        (YES_NO, Reading(by=("x",)), "named 'x'"),
        ("no,yes\n-.5,-.5\n-.5,-.5\n", Reading(), "every score is -0.5"),
        ("no;yes\n-1,5;-2,5\n".encode("utf-16"), Reading("csv"), "a byte at 0"),
        ("1,2\n-1.5,-2\n-1.5,-3\n", Reading(gold="3"), "named '3'"),
        (f"no,yes\n{'x' * 10_000_000}", Reading(), "expected 2 cells ('no,yes'); got 1"),
        ("no,yes,gold\n-1.5,-2,-1\n-2.5,-2,1\n", Reading(gold="gold"), "'gold': expected indices"),
    ],
)
def test_csv_that_is_not_plain_is_refused(tmp_path, data, reading, got, refuses):
    error = str(refuses(read, written(tmp_path, data), reading))
    assert got in error and len(error) < 1000


def test_one_row_and_a_label_that_is_never_predicted(tmp_path):
    table = only(read(written(tmp_path, "a,b,c\n-1.5,-2.5,-9.5\n")))
    assert table.blocks["test"].log_probs.shape == (1, 3)


def test_labels_that_are_numbers_are_never_taken_by_index(tmp_path):
    data, reading = "1,2,gold\n-1.5,-2.5,2\n-1.5,-0.5,1\n", Reading(labels=("1", "2"), gold="gold")
    assert only(read(written(tmp_path, data), reading)).blocks["test"].labels.tolist() == [1, 0]
    assert "got '0'" in refused(written(tmp_path, data.replace("5,2\n", "5,0\n")), reading)


CELLS = zip("abc", SCORES.tolist(), GOLD, strict=True)
FLAT = [{"id": id_, "no": no, "yes": yes, "gold": gold} for id_, (no, yes), gold in CELLS]
LISTS = [{"id": r["id"], "scores": [r["no"], r["yes"]], "gold": r["gold"]} for r in FLAT]
DICTS = [{**r, "scores": {"no": r["no"], "yes": r["yes"]}} for r in FLAT]
NAMED = {"labels": ["no", "yes"], "rows": LISTS, "source": "here"}


@pytest.mark.parametrize(
    "data",
    [
        lines(FLAT),
        lines(FLAT).rstrip("\n"),
        lines(FLAT).replace("\n", "\r\n"),
        "\ufeff" + lines(FLAT),
        json.dumps(FLAT),
        json.dumps(FLAT, indent=1),
        lines(DICTS),
        json.dumps(NAMED),
        json.dumps(NAMED, indent=2),
        json.dumps({"rows": FLAT}),
    ],
)
def test_json_of_every_layout_gives_the_same_table(tmp_path, data):
    assert is_plain(only(read(written(tmp_path, data, "t.json"), SAID)))


def test_lists_take_their_names_from_outside(tmp_path):
    path = written(tmp_path, lines(LISTS), "t.jsonl")
    assert is_plain(only(read(path, Reading(labels=("no", "yes"), gold="gold", ids="id"))))
    numbered = [{**row, "gold": i} for i, row in zip((1, 0, None), LISTS, strict=True)]
    table = only(read(written(tmp_path, lines(numbered), "t.jsonl"), SAID))
    assert table.label_names == ("label 0", "label 1")
    assert table.blocks["test"].labels.tolist() == [1, 0, -1]
    chosen = only(read(written(tmp_path, json.dumps(NAMED)), Reading(labels=("yes", "no"))))
    np.testing.assert_array_equal(chosen.blocks["test"].log_probs, SCORES[:, ::-1])


def test_a_dict_without_a_label_lacks_it(tmp_path):
    partial = [{"logprobs": {"yes": -1.5}}, {"logprobs": {"no": -0.5, "yes": -2.5}}]
    path = written(tmp_path, lines(partial), "t.jsonl")
    assert "row 0 has nan as the score of 'no'" in refused(path)
    table = only(read(path, Reading(missing="least", below=0.25)))
    np.testing.assert_allclose(table.blocks["test"].log_probs, [[-1.5, -1.75], [-2.5, -0.5]])


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (lines(FLAT)[:-20], "line 3: expected JSON"),
        (json.dumps(FLAT)[:-20], "expected JSON"),
        (lines([*FLAT, 3]), "line 4: expected a JSON object; got 3"),
        ("[1, 2]", "got [1, 2]"),
        (lines([{"s": [-1.5, -2.5]}, {"s": [-1.5]}]), "'s', row 1 (counted from 0)"),
        (lines([{"s": [-1.5, -2.5]}, {"s": [-1.5, "x"]}]), "got [-1.5, 'x']"),
        (lines([{"s": [-1.5, -2.5]}, {"s": -1.5}]), "got -1.5"),
        (lines([{"a": -1.5, "b": -2.5}, {"a": True, "b": -1.0}]), "got True"),
        (lines([{"a": [-1.5, -2.5], "b": [-1.5, -2]}]), "all scores of a row; got 'a' and 'b'"),
    ],
)
def test_json_that_is_damaged_is_refused(tmp_path, data, got, refuses):
    assert got in str(refuses(read, written(tmp_path, data, "t.json")))


def test_a_column_of_lists_is_chosen_by_its_name(tmp_path):
    path = written(tmp_path, lines([{"a": [-1.5, -2.5], "b": [-3.5, -2]}]), "t.jsonl")
    table = only(read(path, Reading(labels=("b",))))
    np.testing.assert_array_equal(table.blocks["test"].log_probs, [[-3.5, -2]])


ARROW = pa.table({**{name: [r[name] for r in FLAT] for name in FLAT[0]}, "text": ["p"] * 3})


def test_parquet_and_arrow_give_the_same_table(tmp_path):
    pa.parquet.write_table(ARROW, tmp_path / "t.parquet")
    pa.feather.write_feather(ARROW, tmp_path / "t.feather")
    with pa.ipc.new_stream(tmp_path / "t.arrows", ARROW.schema) as file:
        file.write_table(ARROW)
    vectors = pa.Table.from_pylist(DICTS).drop_columns(["no", "yes"])
    pa.parquet.write_table(vectors, tmp_path / "vectors.parquet")
    for path in tmp_path.iterdir():
        assert is_plain(only(read(path, SAID))), path


@pytest.mark.parametrize("names", ["no,yes", "1,2", "1.0,2.0"])
def test_whole_numbers_beside_an_empty_cell_are_indices_or_names(tmp_path, names):
    # pandas writes 1 as 1.0 in a column with an empty cell.
    cells = ["1.0", "0.0", ""] if names == "no,yes" else ["2.0", "1.0", ""]
    lines = [f"{a},{b},{cell}" for (a, b), cell in zip(SCORES, cells, strict=True)]
    path = written(tmp_path, "\n".join([f"{names},gold", *lines]))
    assert only(read(path, Reading(gold="gold"))).blocks["test"].labels.tolist() == [1, 0, -1]


def test_codes_with_holes_and_decimals_are_read(tmp_path):
    no = pa.array(["-1.50", "-0.25", "-3.50"]).cast(pa.decimal128(5, 2))
    columns = {"no": no, "yes": pa.array(SCORES[:, 1].astype(np.float16))}
    columns |= {"gold": pa.array([1, 0, None]), "id": pa.array(["a", "b", "c"]).dictionary_encode()}
    pa.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert is_plain(only(read(tmp_path / "t.parquet", SAID)))


@pytest.mark.parametrize("ending", ["parquet", "feather", "npz", "npy", "safetensors"])
def test_damaged_files_are_refused(tmp_path, ending, refuses):
    path = tmp_path / f"t.{ending}"
    pa.parquet.write_table(ARROW, tmp_path / "t.parquet")
    pa.feather.write_feather(ARROW, tmp_path / "t.feather")
    np.savez(tmp_path / "t.npz", scores=SCORES)
    np.save(tmp_path / "t.npy", SCORES)
    safetensors.numpy.save_file({"scores": SCORES}, tmp_path / "t.safetensors")
    path.write_bytes(path.read_bytes()[:-30])
    kind = "Parquet or Arrow file" if ending in ("parquet", "feather") else "file of arrays"
    error = refuses(read, path)
    assert error.where == str(path) and kind in error.expected


def test_a_column_that_stands_twice_is_refused(tmp_path):
    twice = pa.table([SCORES[:, 0], SCORES[:, 1]], names=["a", "a"])
    pa.feather.write_feather(twice, tmp_path / "t.feather")
    assert "columns of different names; got 'a' twice" in refused(tmp_path / "t.feather")


def test_pyarrow_that_is_missing_is_named(tmp_path, monkeypatch):
    pa.parquet.write_table(ARROW, tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'batch-calibration[tables]'" in refused(tmp_path / "t.parquet", SAID)


COLUMNS = {"gold": np.array([1, 0, -1]), "id": np.array(["a", "b", "c"])}


def test_npz_and_safetensors_give_the_same_table(tmp_path):
    names = np.array(["no", "yes"])
    np.savez(tmp_path / "t.npz", scores=SCORES, labels=names, other=np.zeros(5), **COLUMNS)
    assert is_plain(only(read(tmp_path / "t.npz", Reading(ids="id"))))
    arrays = {"logits": SCORES.astype(np.float16), "gold": COLUMNS["gold"]}
    metadata = {"labels": json.dumps(["no", "yes"]), "id": json.dumps(["a", "b", "c"]), "x": "{"}
    safetensors.numpy.save_file(arrays, tmp_path / "t.safetensors", metadata)
    assert is_plain(only(read(tmp_path / "t.safetensors", Reading(ids="id"))))


def test_half_precision_of_both_kinds_is_read(tmp_path):
    for kind in (jnp.bfloat16, jnp.float16):
        arrays = {"scores": jnp.asarray(SCORES, kind)}
        safetensors.flax.save_file(arrays, tmp_path / "t.safetensors")
        table = only(read(tmp_path / "t.safetensors"))
        np.testing.assert_array_equal(table.blocks["test"].log_probs, SCORES)


def test_npy_is_an_array_whose_labels_are_named_outside(tmp_path):
    np.save(tmp_path / "t.npy", SCORES)
    table = only(read(tmp_path / "t.npy", Reading(labels=("no", "yes"))))
    assert table.label_names == ("no", "yes")
    assert only(read(tmp_path / "t.npy")).label_names == ("label 0", "label 1")


def test_a_leading_axis_counts_contexts(tmp_path):
    three = np.stack([SCORES, SCORES - 1])
    gold = np.stack([COLUMNS["gold"], [0, 0, 0]])
    for key, context in (("models", {"task": "t", "model": "b"}), ("seeds", {"task": "t b"})):
        np.savez(tmp_path / "t.npz", scores=three, gold=gold, **{key: np.array(["a", "b"])})
        first, last = read(tmp_path / "t.npz")
        assert {**context, "imported": last.context["imported"]} == last.context
        np.testing.assert_array_equal(last.blocks["test"].log_probs, SCORES - 1)
        assert first.blocks["test"].labels.tolist() == [1, 0, -1]
        assert last.blocks["test"].labels.tolist() == [0, 0, 0]
    np.savez(tmp_path / "t.npz", scores=three)
    assert [t.context["task"] for t in read(tmp_path / "t.npz")] == ["t context 0", "t context 1"]


def test_arrays_of_several_prefixes_are_contexts(tmp_path):
    first = {"a_scores": SCORES, "a_gold": [1, 0, -1], "a_labels": ["no", "yes"]}
    np.savez(tmp_path / "t.npz", **first, b_scores=-np.ones((2, 3)) - np.eye(2, 3), b_gold=[2, 2])
    a, b = read(tmp_path / "t.npz")
    assert a.context["task"] == "t a" and a.label_names == ("no", "yes")
    assert b.context["task"] == "t b" and b.blocks["test"].labels.tolist() == [2, 2]


def test_codes_stand_for_the_texts_of_their_plural(tmp_path):
    np.savez(tmp_path / "t.npz", scores=SCORES, topic=[1, 0, 1], topics=["y", "x", "z"])
    x, y = read(tmp_path / "t.npz", Reading(by=("topic",)))
    assert (x.context["task"], y.context["task"]) == ("t x", "t y")


NAMES = {"labels": ["no", "yes"]}


@pytest.mark.parametrize(
    ("arrays", "reading", "got"),
    [
        ({"a": SCORES, "b": SCORES}, Reading(), "got a [3, 2], b [3, 2]"),
        ({"x": np.arange(3)}, Reading(), "got x [3]"),
        ({"scores": np.zeros(3)}, Reading(), "got shape (3,)"),
        ({"scores": np.array([["a", "b"]])}, Reading(), "got ndarray of <U1"),
        ({"scores": np.array([[True, False]])}, Reading(), "got ndarray of bool"),
        ({"scores": SCORES}, Reading(gold="x"), "named 'x'"),
        ({"scores": SCORES}, Reading(labels=("a", "b", "c")), "got 3 names"),
        ({"scores": SCORES[:, :1]}, Reading(), "got ['label 0']"),
        ({"scores": SCORES[:0]}, Reading(), "at least one row of scores; got none"),
        ({"scores": np.exp(SCORES)}, Reading(), "sum to at most 1"),
        ({"scores": SCORES, **NAMES}, Reading(labels=("x",)), "named 'x'"),
        ({"scores": SCORES, "gold": [1, 0, 0], **NAMES}, Reading(labels=("no",)), "label is 'yes'"),
        ({"scores": np.array([object()])}, Reading(), "allow_pickle=False"),
    ],
)
def test_arrays_that_are_not_plain_are_refused(tmp_path, arrays, reading, got, refuses):
    np.savez(tmp_path / "t.npz", allow_pickle=True, **arrays)
    assert got in str(refuses(read, tmp_path / "t.npz", reading))


def test_an_array_is_chosen_by_its_name(tmp_path):
    np.savez(tmp_path / "t.npz", a=SCORES, b=SCORES - 1)
    table = only(read(tmp_path / "t.npz", Reading(labels=("b",))))
    np.testing.assert_array_equal(table.blocks["test"].log_probs, SCORES - 1)


def test_our_own_tables_come_as_they_are(tmp_path, refuses):
    block = make_block([[-1.0, -np.inf]], [0], [7], ["r"], {"x": 1})
    table = ScoreTable({"task": "sst2", "seed": 0}, ("no", "yes"), {"test": block, "cc": block})
    path = tmp_path / "work/scores/a.safetensors"
    table.save(path)
    for location in (path, tmp_path / "work"):
        stored = only(read(location))
        assert stored.id == table.id == load(path).id
        assert stored.blocks["cc"].tokens.tolist() == [7]
    assert refuses(read, tmp_path).where == str(tmp_path)


PYTHON = {"id": ["a", "b", "c"], "no": [-1.5, -0.25, -3.5], "yes": [-2.25, -4, -0.125]}


FRAMES = [{**PYTHON, "gold": GOLD}, {**PYTHON, "gold": np.array([1, 0, -1])}, FLAT, DICTS, ARROW]
GOLDS = GOLD, pd.array([1, 0, None], dtype="Int64"), pd.Categorical(["yes", "no", None])
FRAMES += [pd.DataFrame({**PYTHON, "gold": cells}) for cells in GOLDS]
FRAMES += [pd.DataFrame({**PYTHON, "gold": [1, 0, np.nan]}, index=[7, 7, 7])]
FRAMES += [pl.DataFrame(FLAT), pl.DataFrame({**PYTHON, "gold": [1, 0, None]})]


@pytest.mark.parametrize("objects_given", FRAMES, ids=range(11))
def test_frames_in_memory_are_read_as_files_are(objects_given):
    assert is_plain(only(tables_of(objects_given, SAID)))


def test_arrays_in_memory():
    for array in (SCORES, SCORES.tolist(), jnp.asarray(SCORES, jnp.float32)):
        (table,) = tables_of(array, Reading(labels=("no", "yes")))
        np.testing.assert_array_equal(table.blocks["test"].log_probs, SCORES)
    assert len(tables_of(np.stack([SCORES, SCORES]))) == 2


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (pd.DataFrame([[-1.5, -2.5]], columns=["a", "a"]), "different names; got 'a' twice"),
        ({"a": [-1.5], "b": [-1.5, -2.5]}, "got lengths [1, 2]"),
        ({"a": [-1.5], "b": [[[-1.5]]]}, "got 'a' among 2 columns"),
        ({"a": [-1.5], "b": np.zeros((1, 2))}, "got ndarray of shape (1, 2)"),
        ({"a": [-1.5], "b": 3}, "got int of shape ()"),
        (np.ma.masked_array(SCORES, SCORES < -3), "got MaskedArray with 2 masked entries"),
        (None, "got NoneType of object"),
        ("text", "got str of <U4"),
    ],
)
def test_objects_that_are_not_plain_are_refused(given, got, refuses):
    error = str(refuses(tables_of, given))
    assert error.startswith("scores: ") and got in error


def accuracy(table, method, **options):
    """In %, to one decimal."""
    block = table.blocks["test"]  # some are logits
    corrected = np.asarray(calibrate(block.log_probs, method, from_probs=False, **options))
    return round(100 * (corrected.argmax(axis=1) == block.labels).mean(), 1)


def test_mmlu_is_the_reference_table(shared):
    """By subject, and with other orders of answers: tests/experiments/test_evidence.py."""
    folder, text = shared / "scores/mmlu_base", (shared / "scores/README.md").read_text("utf-8")
    probes = {t.context["model"]: t for t in read(folder / "control_content_free.npz")}
    figures = {}
    for line in text.split("| orig | ICL")[1].splitlines()[2:9]:
        model, *numbers = re.findall(r"[\w.-]+", line)
        figures[model.replace("GPT-2", "GPT2")] = list(map(float, numbers[:3]))
    for table in read(folder / "orig.npz"):
        model = table.context["model"]
        found = [accuracy(table, "icl"), accuracy(table, "bc")]
        found.insert(1, accuracy(table, "cc", probe=probes[model].blocks["test"].log_probs))
        assert table.label_names == ("A", "B", "C", "D") and found == figures.pop(model)
    assert not figures
    by_subject = read(folder / "orig.npz", Reading(by=("subject",)))
    assert Counter(table.context["model"] for table in by_subject) == dict.fromkeys(probes, 56)


def test_every_file_of_shared_scores_is_read(shared):
    for name, contexts in (("vlm/mmbench", 26), ("vlm/oodcv", 26), ("bear_gpt2/bear_gpt2", 60)):
        tables = read(shared / f"scores/{name}.npz")
        assert len(tables) == contexts == len({t.id for t in tables})
        assert all((t.blocks["test"].labels >= 0).all() for t in tables)


def test_the_fixture_of_probabilities_is_read(shared):
    path = shared / "fixtures/arc_llama7b_first48.json"
    table = only(read(path, Reading(from_probs=True, gold="gold")))
    content = json.loads(path.read_text())
    block, rows = table.blocks["test"], content["rows"]
    np.testing.assert_allclose(np.exp(block.log_probs), [row["probs"] for row in rows], rtol=1e-6)
    assert block.labels.tolist() == [row["gold"] for row in rows]
    assert list(table.label_names) == content["labels"]


def test_the_page_on_tables_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs/your-scores.md").read_text(encoding="utf-8")
    monkeypatch.chdir(written(tmp_path, PLAIN, "scores.csv").parent)
    frame = pd.DataFrame({**PYTHON, "gold": GOLD})
    (tmp_path / "scores").mkdir()
    pd.concat([frame] * 10).drop(columns="id").to_parquet(tmp_path / "scores/a.parquet")
    namespace = {"frame": frame}
    # The blocks on tables and on Parquet; those on responses are in test_import_responses.py.
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]:
        exec(block, namespace)
    assert namespace["table"].blocks["test"].row_ids == ("a", "b", "c")
    assert namespace["done"].rows == 30 and (tmp_path / "corrected.parquet").stat().st_size


def test_a_column_without_a_name_may_hold_the_scores():
    table = only(tables_of({"": [[-1.5, -2.5], [-0.5, -3.5]]}, Reading(labels=("no", "yes"))))
    assert table.label_names == ("no", "yes")
    np.testing.assert_allclose(table.blocks["test"].log_probs, [[-1.5, -2.5], [-0.5, -3.5]])


def test_texts_that_are_no_unicode_are_refused(refuses):
    buffers = [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xc6")]
    broken = pa.Array.from_buffers(pa.string(), 1, buffers)
    error = refuses(tables_of, pa.table({"no": [-1.5], "yes": [-2.5], "text": broken}))
    assert error.where == "scores, column 'text'"
