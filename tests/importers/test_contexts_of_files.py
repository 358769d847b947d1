"""Contexts and their order of rows are the same however files are read and written."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_calibration import cli
from batch_calibration.importers import Reading, read_shards
from batch_calibration.integrations import streams

RANDOM = np.random.default_rng(1)
SCORES = (RANDOM.random((2, 200, 2)) * -1 - [[[0, 1]], [[1, 0]]]).round(4)
"""Of two files [2, n, k]: each prefers another label."""
LABELS = ("no", "yes")


def write_parquet(path, scores, **more):
    columns = {name: scores[:, i] for i, name in enumerate(LABELS)}
    pq.write_table(pa.table({**columns, **more}), path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for number, scores in enumerate(SCORES):
        write_parquet(tmp_path / f"data/{number}.parquet", scores)
    return tmp_path / "data"


def predictions(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)["prediction"].to_pylist()
    return [row["prediction"] for row in csv_rows(path)]


def csv_rows(path, delimiter=","):
    return list(csv.DictReader(path.read_text().splitlines(), delimiter=delimiter))


def refused(capsys, *words):
    """What calibrate says that writes nothing; the last word is the output."""
    *arguments, output = words
    with pytest.raises(SystemExit):
        cli.run(["calibrate", *map(str, arguments), f"--output={output}"])
    assert not output.exists()
    return capsys.readouterr().err


def by_hand(scores, one_bias):
    mean = scores.mean(axis=(0, 1) if one_bias else 1, keepdims=True)
    return [LABELS[i] for i in (scores - mean).argmax(-1).reshape(-1)]


@pytest.mark.parametrize("name", ["", "/*.parquet", "one by one"])
@pytest.mark.parametrize("flags", [[], ["--no-shards"], ["--shards"]])
def test_files_are_the_same_contexts_in_memory_and_streamed(folder, name, flags, capsys):
    expected = by_hand(SCORES, one_bias=flags == ["--shards"])
    notes = []
    for ending in ("csv", "parquet"):
        output = folder.parent / f"o.{ending}"
        files = sorted(folder.iterdir()) if "by" in name else [f"{folder}{name}"]
        cli.run(["calibrate", *map(str, files), *flags, f"--output={output}"])
        assert predictions(output) == expected
        notes.append([line for line in capsys.readouterr().err.splitlines() if "files" in line])
    said = {"": "Each of the 2 files is a context with its own bias"}
    said["--shards"] = "The 2 files are parts of one data set"
    note = said.get("".join(flags), "")
    assert notes[0] == notes[1] and note in "".join(notes[0]) and bool(notes[0]) == bool(note)


@pytest.mark.parametrize("form", ["train-0000{}-of-00002", "part-0000{}-ab.snappy"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_named_as_shards_are_asked_about(tmp_path, form, ending, capsys):
    for number, scores in enumerate(SCORES):
        write_parquet(tmp_path / f"{form.format(number)}.parquet", scores)
    (tmp_path / "_SUCCESS").write_text("")
    output = tmp_path / "out" / f"o.{ending}"
    assert "pass --shards if they are parts" in refused(capsys, tmp_path, output)
    cli.run(["calibrate", str(tmp_path), "--shards", f"--output={output}"])
    assert predictions(output) == by_hand(SCORES, one_bias=True)


def test_parts_in_folders_below_are_found_both_ways(tmp_path):
    for number, scores in enumerate(SCORES):
        (tmp_path / f"data/subject={number}").mkdir(parents=True)
        write_parquet(tmp_path / f"data/subject={number}/data.parquet", scores)
    for ending in ("csv", "parquet"):
        output = tmp_path / f"o.{ending}"
        cli.run(["calibrate", str(tmp_path / "data"), f"--output={output}"])
        assert predictions(output) == by_hand(SCORES, one_bias=False)


def test_shards_are_one_table(tmp_path):
    rows = []
    for i, (a, b) in enumerate(SCORES.reshape(-1, 2)[:30]):
        rows.append({"no": a, "yes": b, "gold": LABELS[i % 2], "id": f"r{i}"})
    for name, shard in (("a", rows[:10]), ("b", rows[10:])):
        # Columns of a JSON object may come in any order.
        shard = [dict(reversed(row.items())) for row in shard] if name == "b" else shard
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, shard)))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    (table,) = read_shards(files, Reading(gold="gold", ids="id"))
    block = table.blocks["test"]
    np.testing.assert_allclose(block.log_probs, SCORES.reshape(-1, 2)[:30], rtol=1e-6)
    assert block.labels.tolist() == [i % 2 for i in range(30)]
    assert block.row_ids == tuple(f"r{i}" for i in range(30))
    assert table.context["task"] == tmp_path.name
    (numbered,) = read_shards(files, Reading(gold="gold"))
    assert numbered.blocks["test"].row_ids == tuple(map(str, range(30)))


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ('{"no": -1.5, "maybe": -2.5}', "got no, maybe"),
        ('{"no": -1.5, "yes": null}', "'yes' is empty"),
    ],
)
def test_shards_of_other_labels_are_refused(tmp_path, text, got, refuses):
    (tmp_path / "a.jsonl").write_text('{"no": -1.5, "yes": -0.5}\n' * 3)
    (tmp_path / "b.jsonl").write_text(f"{text}\n" * 3)
    error = str(refuses(read_shards, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]))
    assert got in error and "b.jsonl" in error


@pytest.fixture
def mixed(tmp_path):
    """Rows of three subjects, mixed, and a row that lacks a label."""
    scores, lines = SCORES[0][:60], ["s,no,yes,id"]
    for i, (a, b) in enumerate(scores):
        lines.append(f"{'xyz'[i % 3]},{a},{b if i != 7 else ''},r{i}")
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join(lines))
    return path, scores, [i for i in range(60) if i != 7]


@pytest.mark.parametrize("ids", [[], ["--ids=id"]])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "npz"])
def test_rows_of_several_contexts_stand_in_the_order_of_their_file(mixed, ids, ending, tmp_path):
    path, scores, order = mixed
    output = tmp_path / f"o.{ending}"
    flags = ["--by=s", "--strength=0", "--labels=no,yes", "--missing=drop"]
    if not ids:  # a column of texts that is no label
        flags.append("--format=csv")
    cli.run(["calibrate", str(path), *flags, *ids, f"--output={output}"])
    if ending == "npz":
        with np.load(output) as arrays:
            rows, written = arrays["row"].tolist(), arrays["scores"]
            tasks = arrays["task"].tolist()
    else:
        if ending == "parquet":
            lines = pq.read_table(output).to_pylist()
        elif ending == "jsonl":
            lines = list(map(json.loads, output.read_text().splitlines()))
        else:
            lines = csv_rows(output, ",\t"[ending == "tsv"])
        rows = [line["row"] for line in lines]
        written = [[float(line["no"]), float(line["yes"])] for line in lines]
        tasks = [line["task"] for line in lines]
    assert rows == [f"r{i}" if ids else str(i) for i in order]
    np.testing.assert_allclose(written, scores[order], atol=1e-6)
    assert tasks == [f"mixed {'xyz'[i % 3]}" for i in order]


def test_rows_of_each_file_stay_together(mixed, tmp_path):
    path, _, order = mixed
    (tmp_path / "next.csv").write_text(path.read_text())
    flags = ["--by=s", "--labels=no,yes", "--missing=drop", f"--output={tmp_path / 'o.csv'}"]
    cli.run(["calibrate", str(path), str(tmp_path / "next.csv"), *flags])
    rows = [(row["task"].split()[0], row["row"]) for row in csv_rows(tmp_path / "o.csv")]
    assert rows == [(name, str(i)) for name in ("mixed", "next") for i in order]


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(streams, "MAX_BATCH_ROWS", 16)


def calibrate_both_ways(path, flags, capsys):
    """Predictions in memory and streamed, and the notes of each."""
    predicted, notes = [], []
    for ending in ("csv", "parquet"):
        output = path.parent / f"out.{ending}"
        cli.run(["calibrate", str(path), *flags, f"--output={output}"])
        predicted.append(predictions(output))
        stderr = " ".join(capsys.readouterr().err.split())
        notes.append([note for note in stderr.split("note: ") if "label" in note])
    return predicted, notes


@pytest.mark.parametrize("gone", [np.nan, -100.0])
@pytest.mark.parametrize("missing", ["least", "drop", "-9"])
def test_missing_labels_of_a_stream_are_those_in_memory(
    tmp_path, missing, gone, small_batches, capsys
):
    scores = SCORES[0].copy()
    scores[40:80, 1] = gone  # whole batches lack a label
    scores[100] = gone
    write_parquet(tmp_path / "s.parquet", scores)
    flags = ["--labels=no,yes", f"--missing={missing}"]
    predicted, notes = calibrate_both_ways(tmp_path / "s.parquet", flags, capsys)
    assert predicted[0] == predicted[1] and len(predicted[0]) == (159 if missing == "drop" else 199)
    assert notes[0] == notes[1] and "41 of 200 rows lack the score of a label" in notes[0][0]
    assert ("1 rows had no score of any label" in "".join(notes[0])) == (missing != "drop")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_repeated_ids_are_refused_both_ways(tmp_path, ending, small_batches, capsys):
    ids = [f"r{i}" for i in range(200)]
    half = ["x"] * 100 + ["y"] * 100
    # An id may stand in each of two contexts.
    write_parquet(tmp_path / "s.parquet", SCORES[0], id=2 * ids[:100], s=half)
    output = tmp_path / f"o.{ending}"
    arguments = ["calibrate", str(tmp_path / "s.parquet"), "--ids=id", "--labels=no,yes"]
    cli.run([*arguments, "--by=s", f"--output={output}"])
    output.unlink()
    capsys.readouterr()
    assert "s.parquet" in refused(capsys, *arguments[1:], output)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("method", ["", "bc", "cc"])
def test_a_context_of_one_score_or_of_dropped_rows_is_refused(folder, ending, method, capsys):
    other_score = np.nan if method else -1.5
    write_parquet(folder / "0.parquet", np.array([[-1.5, other_score]] * 20))
    write_parquet(folder.parent / "probe.parquet", SCORES[0][:5])
    flags = [f"--method={method}", "--missing=drop", "--labels=no,yes"] if method else []
    flags += [f"--probe={folder.parent / 'probe.parquet'}"] if method == "cc" else []
    stderr = refused(capsys, folder, *flags, folder.parent / f"o.{ending}")
    assert ("no row is left after rows with missing" if method else "every score is -1.5") in stderr


def test_decimals_and_categories_are_read_both_ways(tmp_path, capsys):
    no, yes = (pa.array(column).cast(pa.decimal128(8, 4)) for column in SCORES[0].T)
    gold = pa.array([None if i == 3 else LABELS[i % 2] for i in range(200)]).dictionary_encode()
    pq.write_table(pa.table({"no": no, "yes": yes, "gold": gold}), tmp_path / "s.parquet")
    predicted, _ = calibrate_both_ways(tmp_path / "s.parquet", ["--gold=gold"], capsys)
    assert predicted[0] == predicted[1] == by_hand(SCORES[:1], one_bias=False)


def write_rare(path):
    rows = [{"no": -1.5 - i / 400, "yes": -0.5 - i % 7 / 9} for i in range(300)]
    rows[17]["perhaps"] = -4.5
    path.write_text("\n".join(json.dumps({"probs": row}) for row in rows))
    return str(path)


def test_a_label_that_one_row_mentions_is_named(tmp_path, capsys):
    path, output = write_rare(tmp_path / "s.jsonl"), tmp_path / "o.csv"
    stderr = " ".join(refused(capsys, path, output).split())
    assert "Most rows lack 'perhaps' (299 of 300)" in stderr and "--labels=no,yes" in stderr
    cli.run(["calibrate", path, "--missing=least", f"--output={output}"])
    stderr = " ".join(capsys.readouterr().err.split())
    assert "299 of 300 rows lack the score of a label" in stderr
    assert "Most rows lack 'perhaps' (299 of 300)" in stderr and "--labels=no,yes" in stderr
    cli.run(["calibrate", path, "--labels=no,yes", f"--output={output}"])
    assert "lack" not in capsys.readouterr().err
    # Who named the labels knows that some are rare.
    cli.run(["calibrate", path, "--labels=no,yes,perhaps", "--missing=least", f"--output={output}"])
    assert "Most rows" not in capsys.readouterr().err
