"""Output of the console program: other people's names, shares and row counts."""

import csv
import errno
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import python

from batch_calibration import cli, files, importers
from batch_calibration.cli import output, prior
from batch_calibration.files import process_name
from batch_calibration.importers import Reading, read
from batch_calibration.scores import FILE_ROWS, FILLED, ScoreTable, make_block
from batch_calibration.studies import Store, csv_text


def write_rows(path, head, rows):
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


@pytest.fixture
def partly_labeled(tmp_path):
    """Of A all 100 rows are labeled and right, of B 20 of 1,000, and wrong."""
    for name, n, labeled, gold in (("A", 100, 100, "no"), ("B", 1000, 20, "yes")):
        rows = [f"-{0.1 + i % 7 / 100},-{2 + i % 5 / 10}," for i in range(n)]
        rows[:labeled] = [row + gold for row in rows[:labeled]]
        write_rows(tmp_path / f"{name}.csv", "no,yes,gold", rows)
    return [str(tmp_path / f"{name}.csv") for name in "AB"]


def test_accuracy_over_files_is_that_of_their_labeled_rows(partly_labeled, capsys):
    cli.run(["compare", *partly_labeled, "--gold=gold", "--methods=icl"])
    line, _ = [line for line in capsys.readouterr().out.splitlines() if line.startswith("icl")]
    assert line.split() == ["icl", "83.3"]  # 100 of 120 labeled rows are right


def test_rows_of_the_tidy_table_are_those_that_metrics_count(partly_labeled, tmp_path, capsys):
    work = tmp_path / "W"
    cli.run(["convert", *partly_labeled, "--gold=gold", f"--workdir={work}"])
    cli.run(["calibrate", f"--workdir={work}", "--methods=icl,bc"])
    rows = Store(work).records().rows()
    assert {(row["task"], row["rows"]) for row in rows} == {("A", 100), ("B", 20)}
    cli.run(["tables", f"--workdir={work}"])
    assert "20 labeled of 1000" in capsys.readouterr().out


HEAD = "gold,row,prediction,medal"


@pytest.fixture
def named_as_columns(tmp_path):
    """Twenty rows whose labels are called as columns of the output."""
    scores = np.random.default_rng(0).normal(-2, 0.5, (20, 3)).round(4)
    rows = [f"{a},{b},{c},{HEAD.split(',')[i % 3]}" for i, (a, b, c) in enumerate(scores)]
    return write_rows(tmp_path / "g.csv", HEAD, rows), scores


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "npz"])
def test_labels_named_as_columns_keep_their_scores(named_as_columns, tmp_path, ending, capsys):
    path, scores = named_as_columns
    flags = ["--labels=gold,row,prediction", "--gold=medal", "--strength=0"]
    output = tmp_path / f"o.{ending}"
    cli.run(["calibrate", path, *flags, f"--output={output}"])
    gold = "gold" if ending == "npz" else "gold_"
    labels = () if ending == "npz" else ("gold", "row", "prediction")
    (reread,) = read(output, Reading(gold=gold, labels=labels))
    np.testing.assert_allclose(reread.blocks["test"].log_probs, scores, atol=1e-6)
    assert reread.label_names == ("gold", "row", "prediction")
    assert reread.blocks["test"].labels.tolist() == [i % 3 for i in range(20)]
    notes = " ".join(capsys.readouterr().err.split())
    assert ("the column is renamed 'gold_'" in notes) == (ending != "npz")


def test_labels_named_as_columns_are_compared_and_reported(named_as_columns, tmp_path, capsys):
    path, scores = named_as_columns
    right = 100 * (scores.argmax(1) == np.arange(20) % 3).mean()
    flags = ["--labels=gold,row,prediction", "--gold=medal"]
    cli.run(["compare", path, *flags, "--methods=icl"])
    assert f"{right:.1f} [" in capsys.readouterr().out
    cli.run(["report", path, *flags, "--methods=icl,bc", f"--output={tmp_path / 'r.html'}"])
    page = (tmp_path / "r.html").read_text()
    assert all(f">{name}</th>" in page for name in HEAD.split(",")[:3])


@pytest.mark.parametrize("name", ["task", "model"])
def test_a_label_named_as_a_fact_of_the_context(tmp_path, name):
    rows = [f"{-(i + 1) / 20},-1.5" for i in range(12)]
    files = [write_rows(tmp_path / f"{stem}.csv", f"{name},other", rows) for stem in "xy"]
    cli.run(["calibrate", *files, "--strength=0", f"--output={tmp_path / 'o.jsonl'}"])
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    expected = 2 * [-(i + 1) / 20 for i in range(12)]
    np.testing.assert_allclose([line[name] for line in lines], expected)
    expected = 12 * ["x"] + 12 * ["y"] if name == "task" else 24 * [""]
    assert [line[f"{name}_"] for line in lines] == expected


ROWS = np.random.default_rng(0).random((200, 2))


@pytest.fixture
def two_orders(tmp_path):
    """The same scores twice, with their columns in another order."""
    first = write_rows(tmp_path / "a.csv", "no,yes", [f"{-a},{-b}" for a, b in ROWS])
    return first, write_rows(tmp_path / "b.csv", "yes,no", [f"{-b},{-a}" for a, b in ROWS])


def predictions(path):
    return [json.loads(line)["prediction"] for line in path.read_text().splitlines()]


def test_a_prior_by_name_is_of_its_labels(two_orders, tmp_path):
    output = tmp_path / "o.jsonl"
    cli.run(["calibrate", *two_orders, "--prior=no=0.9,yes=0.1", f"--output={output}"])
    first, second = np.split(np.array(predictions(output)), 2)
    assert first.tolist() == second.tolist() and (first == "no").mean() > 0.9
    (tmp_path / "shares.csv").write_text("yes,0.1\nno,0.9\n")
    cli.run(["calibrate", *two_orders, f"--prior={tmp_path / 'shares.csv'}", f"--output={output}"])
    assert predictions(output) == [*first, *second]


def test_a_prior_by_place_needs_one_order(two_orders, tmp_path, capsys):
    (tmp_path / "shares.txt").write_text("0.9\n0.1\n")
    for text in ("0.9,0.1", tmp_path / "shares.txt"):
        with pytest.raises(SystemExit):
            cli.run(["calibrate", *two_orders, f"--prior={text}", f"--output={tmp_path / 'o.csv'}"])
        assert "contexts have the labels no, yes and yes, no" in (stderr := capsys.readouterr().err)
        assert "write them as no=0.5,yes=0.5" in stderr and not (tmp_path / "o.csv").exists()


def test_a_prior_names_each_label_once(tmp_path, refuses):
    path = tmp_path / "shares.csv"
    path.write_text("no,0.9\nyes,0.05\nno,0.05\n")
    for text in ("no=0.9,no=0.1", "no=0.9,yes=0.05,no=0.05", str(path)):
        assert refuses(prior.read_shares, text, [("no", "yes")]).got == "'no' twice"
    texts = "no=0.9 no=0.9,maybe=0.1 0.9,yes=0.1 no=,yes=1 no=nan,yes=1 no=-1,yes=3"
    for text in texts.split():
        assert refuses(prior.read_shares, text, [("no", "yes")]).got.startswith(repr(text))


FORMULAS = ("=1+2", "+a", "@x", "\tx", "-a")


@pytest.mark.parametrize(("ending", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_ids_and_labels_are_no_formulas_of_a_spreadsheet(tmp_path, ending, delimiter):
    rows = []
    for i, text in enumerate([*FORMULAS, "-3", "plain"]):
        rows.append(json.dumps({"id": text, "=A()": -1.5 - i, "yes": -2.5, "gold": "=A()"}))
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(rows))
    output = tmp_path / f"o.{ending}"
    flags = ["--ids=id", "--gold=gold", "--strength=0", "--labels==A(),yes"]
    cli.run(["calibrate", str(path), *flags, f"--output={output}"])
    with output.open(newline="") as file:
        head, *lines = csv.reader(file, delimiter=delimiter)
    assert head[:4] == ["row", "'=A()", "yes", "p(=A())"]
    assert head[4:] == ["p(yes)", "confidence", "prediction", "gold"]
    quoted = [f"'{text.strip()}" if text[0] != "\t" else "x" for text in FORMULAS]
    assert [line[0] for line in lines] == [*quoted, "-3", "plain"]
    assert [float(line[1]) for line in lines] == [-1.5 - i for i in range(7)]
    assert {line[7] for line in lines} == {"'=A()"}


def test_tables_in_tabs_are_quoted_too():
    assert csv_text([["=a", "-1.5", "b\tc"]], "\t") == '\'=a\t-1.5\t"b\tc"\n'


SIGNS = {
    "plain": ["r0", "", "é", " s"],
    "quoted": ["x,y", 'a "b"', "two\nlines", "tab\tx"],
    "formulas": [*FORMULAS, "-3", "-"],
    "bare CR": ["a\rb", "c", "x,y"],
}
NUMBERS = np.float32(
    [-0.7457388, -1, 0, -0.0, 1e-4, 1.0000001e-4, -9e-5, 99999.99, 1e5, 1234567, 1e16]
)
NUMBERS = np.concatenate([NUMBERS, np.float32([1e-45, 3.4e38, -np.inf, np.inf, np.nan, 2**-13])])


@pytest.mark.parametrize("has_pyarrow", [True, False])
@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("kind", SIGNS)
def test_chunks_of_columns_are_the_text_of_all_rows(kind, delimiter, has_pyarrow, monkeypatch):
    monkeypatch.setattr(output, "ROWS_AT_ONCE", 5)  # only the last of the chunks is shorter
    if not has_pyarrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    random = np.random.default_rng(0)
    numbers = np.append(NUMBERS, random.normal(size=25).astype(np.float32))
    ids = (["first"] * 6 + SIGNS[kind] * len(numbers))[: len(numbers)]
    columns = {"row": np.array(ids, object), "=A()": numbers, "b": numbers[::-1]}
    rows = [list(columns), *zip(ids, numbers, numbers[::-1], strict=True)]
    chunks = [*output._csv_chunks(columns, delimiter)]
    assert len(chunks) == 1 + -(-len(ids) // 5)
    assert "".join(chunks) == csv_text(rows, delimiter)


@pytest.fixture
def two_contexts():
    """Two contexts of the same file: its rows 1, 4 and its rows 0, 2, 3."""
    contexts, file = [], Path("f.csv")
    for task, rows, gold in (("x", [1, 4], [1, -1]), ("=y", [0, 2, 3], [0, 0, 1])):
        spec = {FILE_ROWS: rows, FILLED: [[1, 1], [1, 0]]}
        scores = -1.0 - np.float32(rows)[:, None] / [3, 2]
        block = make_block(scores, gold, row_ids=[f"r{row}" for row in rows], spec=spec)
        table = ScoreTable({"task": task, "model": "m"}, ("no", "yes"), {"test": block})
        contexts.append(output.Scored(table, scores.astype(np.float32), file))
    return contexts


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_rows_of_several_contexts_are_in_the_order_of_their_file(two_contexts, tmp_path, ending):
    path = tmp_path / f"o.{ending}"
    output.write(two_contexts, str(path))
    if ending == "jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    elif ending == "parquet":
        rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    else:
        with path.open(newline="") as file:
            rows = [*csv.DictReader(file, delimiter="\t" if ending == "tsv" else ",")]
    names = ["task", "model", "row", "no", "yes", "prediction", "gold", "filled"]
    assert [*rows[0]] == names
    second = "'=y" if ending in ("csv", "tsv") else "=y"
    assert [row["task"] for row in rows] == [second, "x", second, second, "x"]
    assert [row["row"] for row in rows] == ["r0", "r1", "r2", "r3", "r4"]
    assert [row["gold"] for row in rows] == ["no", "yes", "no", "yes", ""]
    assert [row["filled"] for row in rows] == ["", "", "yes, no", "", "yes, no"]
    assert [row["prediction"] for row in rows] == ["no"] * 5
    for i, row in enumerate(rows):
        assert np.float32(row["no"]) == np.float32(-1 - i / 3)
        assert np.float32(row["yes"]) == np.float32(-1 - i / 2)


def test_a_failed_write_of_chunks_is_repeated_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0,))
    begun = []

    def chunks():
        begun.append(1)
        yield b"first "
        if len(begun) == 1:
            raise OSError(errno.EIO, "Input/output error")
        yield b"last"

    files.write_whole(tmp_path / "o.csv", chunks)
    assert (tmp_path / "o.csv").read_bytes() == b"first last" and len(begun) == 2


def test_half_a_surrogate_pair_is_escaped_in_files(two_contexts, tmp_path):
    (table, scores, file, *_), _ = two_contexts
    block = table.blocks["test"]._replace(row_ids=("\ud800", "b"))
    scored = output.Scored(table._replace(blocks={"test": block}), scores, file)
    for name in ("o.csv", "o.jsonl"):
        output.write([scored], str(tmp_path / name))
        assert "\\ud800" in (tmp_path / name).read_text()


ESC = "\x1b[31mred\x9b2J"


def test_signs_that_steer_a_terminal_are_escaped(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.run(["calibrate", f"{tmp_path}/{ESC}.csv"])
    with pytest.raises(SystemExit):
        cli.run(["calibrate", "x.csv", f"--{ESC}"])
    stderr = capsys.readouterr().err
    assert stderr.count(r"\x1b[31mred\x9b2J") == 2 and stderr.count("\n") == 2
    rows = [f"{-1 - i % 5 / 10},{-1.2 - i % 7 / 10}" for i in range(30)]
    path = write_rows(tmp_path / f"{ESC}.csv", f"a,{ESC}", rows)
    cli.run(["diagnose", path])
    cli.run(["recommend", path])
    cli.run(["calibrate", path, f"--output={tmp_path / 'o.npz'}"])
    stderr = "".join(capsys.readouterr())
    assert not set(stderr) & {"\x1b", "\x9b"} and "red" in stderr


def test_an_error_of_the_disk_is_escaped_too(capsys):
    from batch_calibration.cli import guard

    def fail():
        raise OSError(13, "Permission denied", ESC)

    with pytest.raises(SystemExit):
        guard.answer(fail)
    assert "\x1b" not in capsys.readouterr().err


def test_what_killed_runs_began_beside_the_output_is_removed(tmp_path):
    code = "from batch_calibration.files import *; print(process_name())"
    ended = python("-c", code).stdout.strip()
    litter = [f".o.csv.{ended}-0123abcd.partial", f".other.npz.{ended}-0123abcd.partial"]
    foreign = [f".o.csv.{process_name()}-0123abcd.partial", ".mine.partial", "sub/.x.partial"]
    (tmp_path / "sub").mkdir()
    for name in (*litter, *foreign, f"sub/{litter[0]}"):
        (tmp_path / name).write_text("")
    path = write_rows(tmp_path / "s.csv", "no,yes", [f"-0.{i + 1},-1.5" for i in range(9)])
    cli.run(["calibrate", path, f"--output={tmp_path / 'o.csv'}"])
    assert not [name for name in litter if (tmp_path / name).exists()]
    assert all((tmp_path / name).exists() for name in (*foreign, f"sub/{litter[0]}"))


def test_each_file_of_probes_is_read_once(tmp_path, monkeypatch):
    rows = [f"-0.{i + 1},-1.5" for i in range(9)]
    files = {name: write_rows(tmp_path / f"{name}.csv", "no,yes", rows) for name in ("s", "c", "d")}
    seen, read_file = [], importers.read

    def read_and_count(path, reading):
        seen.append(path.stem)
        return read_file(path, reading)

    monkeypatch.setattr(importers, "read", read_and_count)
    probes = [f"--probe=cc={files['c']}", f"--probe=dc={files['d']}"]
    cli.run(["diagnose", files["s"], "--method=cc", *probes])
    assert seen == ["s", "c", "d"]


def test_the_dtype_is_a_flag_where_a_file_does_not_say_it(tmp_path, capsys):
    path = write_rows(tmp_path / "s.csv", "a,b", ["-8,-8.01", "-8,-9", "-8,-7", "-8,-8.1"])
    cli.run(["diagnose", path, "--dtype=bfloat16"])
    text = " ".join(capsys.readouterr().out.split())
    assert "the rounding of bfloat16" in text
    cli.run(["diagnose", path])
    assert "bfloat16" not in capsys.readouterr().out
