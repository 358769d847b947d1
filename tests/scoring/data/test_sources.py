"""Sources of rows: CSV and Parquet, task files, TFDS folders without TensorFlow; bad ones too."""

import csv
import gzip
import json
import struct
import sys

import google_crc32c
import numpy as np
import pytest
from processes import python
from tfds_folders import declared, write_folder

from batch_calibration.scoring.data import tfds_folder
from batch_calibration.scoring.data.files import schema_of
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader, read
from batch_calibration.scoring.tasks import TASKS

CB = [
    {"premise": "It rains.", "hypothesis": "It is wet.", "label": 0, "idx": 0},
    {"premise": "It — “rains”\u2028", "hypothesis": "", "label": 1, "idx": 1},
    {"premise": "Ann sings.", "hypothesis": "Bob hears.", "label": 2, "idx": 2},
    {"premise": "Hidden.", "hypothesis": "Label.", "label": -1, "idx": 3},
]
TEXTS = [{f: row[f] for f in ("premise", "hypothesis")} for row in CB]


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- CSV and Parquet


def write_csv(path, rows, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)


def test_csv_and_parquet_give_what_json_lines_gives(tmp_path):
    write_lines(tmp_path / "json" / "cb" / "validation.jsonl", CB)
    write_csv(tmp_path / "csv" / "cb" / "validation.csv", CB)
    expected = read(TASKS["cb"], str(tmp_path / "json"), "validation")
    assert list(expected.rows) == TEXTS and expected.labels == (0, 1, 2, -1)
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "parquet/cb").mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(CB), tmp_path / "parquet/cb/validation.parquet")
    for form in ("csv", "parquet"):
        rows = read(TASKS["cb"], str(tmp_path / form), "validation")
        assert rows._replace(where="") == expected._replace(where="")


def test_a_limit_keeps_a_sample_of_a_sorted_file_or_by_name_its_first_rows(tmp_path):
    (tmp_path / "sst2").mkdir()
    text = "".join(f"row {number},{number // 60}\n" for number in range(120))
    (tmp_path / "sst2" / "validation.csv").write_text(f"sentence,label\n{text}")
    task, few = TASKS["sst2"], read(TASKS["sst2"], str(tmp_path), "validation", 20)
    more = read(task, str(tmp_path), "validation", 40)
    assert set(few.labels) == {0, 1} and set(few.ids) < set(more.ids)
    numbers = [int(row_id.rpartition("/")[2]) for row_id in more.ids]
    assert numbers == sorted(numbers) and len(numbers) == 40
    assert [row["sentence"] for row in more.rows] == [f"row {number}" for number in numbers]
    assert few == RowReader().texts(task, str(tmp_path), "validation", 20)
    first = read(task, str(tmp_path), "validation", 20, "first")
    assert first.ids == tuple(f"sst2/validation/{number}" for number in range(20))
    for limit in (0, 120, 500):
        assert len(read(task, str(tmp_path), "validation", limit).ids) == 120


def test_csv_with_bom_crlf_and_a_quoted_line_end(tmp_path):
    (tmp_path / "sst2").mkdir()
    text = '\ufeffsentence,label\r\n"a, b\r\nc",1\r\n\r\nd,0\r\n'
    (tmp_path / "sst2" / "validation.csv").write_bytes(text.encode())
    rows = read(TASKS["sst2"], str(tmp_path), "validation")
    assert rows.rows == ({"sentence": "a, b\r\nc"}, {"sentence": "d"}) and rows.labels == (1, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sentence,label\nfine,1\nfi", "line 3: expected 2 cells ('sentence,label'); got 1"),
        ('sentence,label\n"fine,1\n', "line 2: expected CSV; got unexpected end of data"),
        ("sentence,label\na,b,1\n", "line 2: expected 2 cells ('sentence,label'); got 3"),
        ("sentence,sentence\na,1\n", "columns of different names; got 'sentence' twice"),
        ("sentence,label\na,positive\n", "got 'positive'"),
        ("sentence,label\n", "at least one row"),
        ("", "at least one row"),
        ("sentence,label\n\xff,1\n".encode("latin-1"), "a byte at 15 (invalid start byte)"),
        (b"sentence,label\n\xed\xa0\x80,1\n", "a byte at 15 (invalid continuation byte)"),
        (f"sentence,label\na,{'9' * 5000}\n", "got '999"),
        (f"sentence,{'x' * 9999}\na,1\n", "the columns label of task sst2"),
    ],
)
def test_bad_csv(tmp_path, text, words, refuses):
    (tmp_path / "sst2").mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "sst2" / "validation.csv").write_bytes(data)
    assert words in str(refuses(read, TASKS["sst2"], str(tmp_path), "validation"))


def test_bad_parquet_bad_gzip_and_two_files_of_a_split(tmp_path, refuses):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "validation.parquet").write_bytes(b"PAR1 is not enough")
    assert "magic bytes" in refuses(read, TASKS["sst2"], str(tmp_path), "validation").got
    content = gzip.compress(json.dumps({"sentence": "fine", "label": 1}).encode() * 9)
    damaged = tmp_path / "mr" / "train.jsonl.gz"
    damaged.parent.mkdir()
    for data in (content[:-12], content[:20] + b"\xff\xff" + content[22:], b"not gzip"):
        damaged.write_bytes(data)
        assert refuses(read, TASKS["mr"], str(tmp_path), "train").where == str(damaged)
    write_csv(tmp_path / "sst2" / "validation.csv", [{"sentence": "fine", "label": 1}])
    both = refuses(read, TASKS["sst2"], str(tmp_path), "validation")
    assert "validation.parquet" in str(both) and "validation.csv" in str(both)


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"sentence": "a", "label": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"sentence": "a \\ud800 b", "label": 1}', r"'\ud800'"),
        ('{"sentence": "a \\uDC00 b", "label": 1}', r"'\udc00'"),
    ],
)
def test_bad_json_lines(tmp_path, line, got, refuses):
    (tmp_path / "sst2").mkdir()
    json_line = '{"sentence": "\\ud83d\\ude00", "label": 1}\n'
    (tmp_path / "sst2" / "validation.jsonl").write_text(json_line)
    assert read(TASKS["sst2"], str(tmp_path), "validation").rows[0]["sentence"] == "\U0001f600"
    (tmp_path / "sst2" / "validation.jsonl").write_text(json_line + line + "\n")
    error = refuses(read, TASKS["sst2"], str(tmp_path), "validation")
    assert error.where.endswith("validation.jsonl, line 2") and got in error.got


# --- task files

TASK_FILE = """
name = "tickets"
fields = ["subject", "body"]
label_names = ["billing", "bug"]
labels_are = "names"
template = "Ticket: {subject}\\n{body}\\nKind: {label}"
verbalizer = {billing = "billing", bug = ["bug", "error"]}
files = {train = "rows/train.csv", validation = "rows/validation.csv"}
"""


def write_task_file(folder, text=TASK_FILE):
    rows = [{"subject": "Bill", "body": "Too high.", "label": "billing"},
            {"subject": "Crash", "body": "It stops.", "label": "bug"},
            {"subject": "Hm", "body": "?", "label": "-1"}]  # fmt: skip
    for split in ("train", "validation"):
        write_csv(folder / "rows" / f"{split}.csv", rows)
    (folder / "tickets.toml").write_text(text)
    return str(folder / "tickets.toml")


def test_a_task_file_is_a_task_with_files(tmp_path):
    task = load_task(write_task_file(tmp_path))
    assert (task.name, task.title) == ("tickets", "tickets")
    assert task.label_words == ("billing", "bug")
    assert task.words_for(0) == ("billing", ("bug", "error"))
    assert task.statement_words == {"billing": "billing", "bug": "bug"}
    assert task.template(0) == task.template(1) == "Ticket: {subject}\n{body}\nKind: {label}"
    for data in ("", "mini"):
        rows = read(task, data, "validation")
        assert rows.labels == (0, 1, -1) and rows.ids[1] == "tickets/validation/1"
        assert rows.rows[1] == {"subject": "Crash", "body": "It stops."}


def test_a_task_file_with_every_key(tmp_path):
    text = (
        TASK_FILE.replace('"names"', '"numbers"')
        + """
title = "Support tickets"
label_column = "kind"
zero_shot = "{body}\\nIs it billing? {label}"
zero_shot_verbalizer = {billing = "yes", bug = "no"}
statement = "About {label}."
statement_words = {billing = "a bill", bug = "a bug"}
statement_fields = ["body"]
options = ["body", "subject"]
"""
    )
    task = load_task(write_task_file(tmp_path, text))
    write_csv(tmp_path / "rows" / "train.csv", [{"subject": "a", "body": "b", "kind": 1}])
    assert read(task, "", "train").labels == (1,)
    assert task.title == "Support tickets" and task.words_for(0) == ("yes", "no")
    assert task.options == ("body", "subject")
    assert task.statement_fields == ("body",) and task.template(0).startswith("{body}")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "tickets"\n', "", ": a task file needs name"),
        ('labels_are = "names"\n', "", ": a task file needs labels_are"),
        ("labels_are", "label_are", "'label_are'; did you mean 'labels_are'"),
        ('"names"', '"words"', ", labels_are: expected 'numbers' or 'names'; got 'words'"),
        ("{body}", "{text}", "names text"),
        ("{label}", "{label}.", "key template: template 'Ticket: "),
        ('["subject", "body"]', '"subject"', ", fields: expected a list of texts; got 'subject'"),
        ('["subject", "body"]', '["subject", "subject"]', "fields ['subject', 'subject']"),
        ('["subject", "body"]', '["subject", "label"]', "no field 'label'"),
        ('{billing = "billing", bug =', '{billing = "billing", bugs =', "got ['billing', 'bugs']"),
        ('["bug", "error"]', "[]", "got {'billing': 'billing', 'bug': []}"),
        ('["billing", "bug"]', '["billing"]', "got ['billing']"),
        ('"tickets"', '"sst2"', "of the package has; got 'sst2'"),
        ('"tickets"', '"a/b"', "as in file names; got 'a/b'"),
        ("files =", 'statement = "x"\nfiles =', "statement 'x'"),
        ("files =", 'statement_fields = ["x"]\nfiles =', "no field of statement_fields named 'x'"),
        ("files =", 'options = ["x", "body"]\nfiles =', "no field of options named 'x'"),
        ("files =", 'options = ["body", "body"]\nfiles =', "options ['body', 'body']"),
        ("files =", 'options = ["body"]\nfiles =', "in their order; got ['body']"),
        ("files =", "options = []\nfiles =", "in their order; got []"),
        ("name =", "name", "at line 2, column 6"),
        ('"tickets"', "[" * 9999, "recursion"),
        ('"tickets"', "9" * 5000, "5000 digits"),
        ('"tickets"', "0x" + "f" * 5000, "name: expected a text; got a very long int"),
        ("template =", "a." * 5000 + "a = 1\ntemplate =", "named 'a'"),
        ("verbalizer =", "title." + "a." * 5000 + "a = 1\nverbalizer =", "got a very long dict"),
        ('["bug", "error"]', '["bug", "billing"]', "got 'billing' twice"),
        ('["bug", "error"]', '" "', "got an empty one"),
        ("Ticket: {subject}\\n{body}\\n", "", "template 'Kind: {label}'"),
    ],
)
def test_bad_task_files(tmp_path, old, new, words, refuses):
    assert old in TASK_FILE
    error = refuses(load_task, write_task_file(tmp_path, TASK_FILE.replace(old, new)))
    assert "tickets.toml" in str(error) and words in str(error)


def test_bad_rows_of_a_task_file(tmp_path, refuses):
    assert refuses(load_task, str(tmp_path / "none.toml")).got == "No such file or directory"
    (tmp_path / "folder.toml").mkdir()
    assert refuses(load_task, str(tmp_path / "folder.toml")).got == "Is a directory"
    task = load_task(write_task_file(tmp_path))
    assert "no split of tickets named 'test'" in str(refuses(read, task, "", "test"))
    write_csv(tmp_path / "rows" / "train.csv", [{"subject": "a", "body": "b", "label": 1}])
    assert refuses(read, task, "", "train").got == "'1'"
    (tmp_path / "rows" / "train.csv").unlink()
    assert "train.csv: file not found" in str(refuses(read, task, "", "train"))
    task = load_task(write_task_file(tmp_path, TASK_FILE.replace("train.csv", "train.xlsx")))
    (tmp_path / "rows" / "train.xlsx").write_text("")
    assert refuses(read, task, "", "train").where.endswith("train.xlsx")


# --- TFDS folders


@pytest.fixture
def tfds():
    return pytest.importorskip("tensorflow_datasets", reason="needs tensorflow_datasets")


@pytest.fixture
def folder(tfds, tmp_path):
    """CB's invented rows as a TFDS folder: the data directory and the folder in it."""
    write_lines(tmp_path / "rows" / "cb" / "validation.jsonl", CB)
    data = tmp_path / "D"
    return data, write_folder(data, "super_glue/cb", {"train": CB[:1], "validation": CB})


def crc(data):
    """CRC-32C bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord_bytes(record):
    head = struct.pack("<Q", len(record))
    return head + struct.pack("<I", crc(head)) + record + struct.pack("<I", crc(record))


def as_tfrecord(tfds, folder):
    """The same folder in the other format, its records framed here."""
    builder = tfds.builder_from_directory(str(folder))
    for split, info in builder.info.splits.items():
        source = builder.as_data_source(split).data_source
        (path,) = info.filepaths
        path = folder / path.name.replace("array_record", "tfrecord")
        path.write_bytes(b"".join(map(tfrecord_bytes, source.__getitems__(range(len(source))))))
    info_ = json.loads((folder / "dataset_info.json").read_text()) | {"fileFormat": "tfrecord"}
    (folder / "dataset_info.json").write_text(json.dumps(info_))
    for path in folder.glob("*array_record*"):
        path.unlink()


@pytest.mark.parametrize("form", ["array_record", "tfrecord"])
def test_a_tfds_folder_gives_what_the_files_give(tfds, folder, tmp_path, form):
    data, version_folder = folder
    assert version_folder == data / "super_glue" / "cb" / "1.0.2"
    if form == "tfrecord":
        as_tfrecord(tfds, version_folder)
    rows = read(TASKS["cb"], str(data), "validation")
    expected = read(TASKS["cb"], str(tmp_path / "rows"), "validation")
    assert rows._replace(where="") == expected._replace(where="")
    assert rows.where == f"TFDS folder {version_folder}"


def test_permuted_label_names_are_refused(folder, refuses):
    data, version_folder = folder
    (version_folder / "label.labels.txt").write_text("entailment\nneutral\ncontradiction\n")
    error = refuses(read, TASKS["cb"], str(data), "validation")
    assert "['entailment', 'neutral', 'contradiction']" in str(error)


def turned(content, offset):
    return content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :]


def test_damaged_array_records(folder, refuses):
    data, version_folder = folder
    (path,) = version_folder.glob("*-validation.array_record*")
    # The file's signature ends at byte 64; the rows' chunks follow.
    path.write_bytes(turned(path.read_bytes(), 300))
    assert "hash mismatch" in refuses(read, TASKS["cb"], str(data), "validation").got
    path.unlink()
    assert path.name in refuses(read, TASKS["cb"], str(data), "validation").got


def test_damaged_tfrecords(tfds, folder, refuses):
    data, version_folder = folder
    as_tfrecord(tfds, version_folder)
    (path,) = version_folder.glob("*-validation.tfrecord*")
    content = path.read_bytes()
    first = 12 + struct.unpack_from("<Q", content)[0] + 4

    for damaged, words in (
        (turned(content, first + 12 + 5), "record 1: expected a TFRecord"),
        (turned(content, first + 2), "record 1: expected a TFRecord"),
        (content[:-3], "record 3: expected a TFRecord"),
        (content[: first + 5], "record 1: expected a TFRecord"),
        (content[:first], "4 rows; got 1"),
        (tfrecord_bytes(b"\xff\xff\xff") * 4, "validation, row 0: "),
    ):
        path.write_bytes(damaged)
        assert words in str(refuses(read, TASKS["cb"], str(data), "validation"))
    path.unlink()
    assert f"{path}: file not found" in str(refuses(read, TASKS["cb"], str(data), "validation"))


def test_checksums_of_many_lengths_agree_with_bit_by_bit():
    rng = np.random.default_rng(0)
    data = rng.integers(256, size=500, dtype=np.uint8)
    starts = rng.integers(0, 400, 20)
    lengths = rng.integers(0, 100, 20)
    chunks = [data[s : s + n].tobytes() for s, n in zip(starts, lengths, strict=True)]
    checksums = [tfds_folder.masked(google_crc32c.value(chunk)) for chunk in chunks]
    assert checksums == [crc(chunk) for chunk in chunks]


def test_tfrecords_without_the_checksum_library(monkeypatch, tmp_path, refuses):
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert "google_crc32c" in refuses(tfds_folder.read_tfrecord, tmp_path / "x.tfrecord").got


def test_what_is_not_a_tfds_folder(folder, refuses):
    data, version_folder = folder
    info = version_folder / "dataset_info.json"
    riegeli = info.read_text().replace("array_record", "riegeli")
    for text, words in ((riegeli, "files are riegeli"), ("{", "line 1 column 2")):
        info.write_text(text)
        assert words in str(refuses(read, TASKS["cb"], str(data), "validation"))
    info.unlink()
    assert "no dataset_info.json" in str(refuses(read, TASKS["cb"], str(data), "validation"))
    version_folder.rename(version_folder.with_name("incomplete.1.0.2"))
    assert "such as 1.0.0" in str(refuses(read, TASKS["cb"], str(data), "validation"))


def test_the_newest_version_is_taken(folder, refuses):
    data, version_folder = folder
    version_folder.rename(version_folder.with_name("1.0.9"))
    (version_folder.with_name("1.0.10")).mkdir()
    assert "cb/1.0.10" in str(refuses(read, TASKS["cb"], str(data), "validation"))


TEXT = [name for task in TASKS.values() if not task.is_image for name in task.tfds]


@pytest.mark.parametrize("name", TEXT)
def test_a_task_is_as_tfds_declares_it(tfds, tmp_path, name):
    (task,) = [task for task in TASKS.values() if name in task.tfds]
    _, features = declared(name, tmp_path)
    label = schema_of(task, tuple(features), name)["label"]
    task.check_label_names(tuple(features[label].names), name)


RTE = {"super_glue/rte": ("premise", "hypothesis"), "glue/rte": ("sentence1", "sentence2")}


@pytest.mark.parametrize("name", RTE)
def test_rte_is_bound_in_both_schemas_and_to_no_third(tfds, tmp_path, name, refuses):
    row = dict(zip(RTE[name], ("It rains.", "It is wet."), strict=True)) | {"label": 1, "idx": 0}
    write_lines(tmp_path / "rows" / "rte" / "validation.jsonl", [row])
    write_folder(tmp_path / "D", name, {"validation": [row]})
    for data in ("rows", "D"):
        rows = read(TASKS["rte"], str(tmp_path / data), "validation")
        assert rows.rows == ({"sentence1": "It rains.", "sentence2": "It is wet."},)
    write_lines(tmp_path / "rows" / "rte" / "validation.jsonl", [{"text": "a", "label": 1}])
    assert "['text', 'label']" in str(refuses(read, TASKS["rte"], f"{tmp_path}/rows", "validation"))


QQP = {"question1": "a", "question2": "b", "label": 0, "idx": 0}
ANLI = {"uid": "", "context": "It rains.", "hypothesis": "It is wet.", "label": 2}
TREC = {"text": "Who sings ?", "label-coarse": 3, "label-fine": 4}


@pytest.mark.parametrize(
    ("task", "name", "row", "requested", "served"),
    [
        ("qqp", "glue/qqp", QQP, "validation", "validation_proxy"),
        ("anli_r2", "anli/r2", ANLI, "train", "test"),
        ("trec", "trec", TREC, "validation", "test"),
    ],
)
def test_another_split_of_a_tfds_folder_stands_in(
    tfds, tmp_path, task, name, row, requested, served
):
    write_folder(tmp_path, name, {served: [row]})
    rows = read(TASKS[task], str(tmp_path), requested)
    assert (rows.split, rows.ids) == (served, (f"{task}/{served}/0",))
    assert rows.labels == (row.get("label", 3),)


def test_reading_imports_no_tensorflow(folder, tmp_path):
    """Even where a TensorFlow is found: this one cannot bear to be imported."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text("raise AssertionError('imported')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import batch_calibration
assert 'tensorflow_datasets' not in sys.modules
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.scoring.data.texts import read
assert 'tensorflow_datasets' not in sys.modules and 'pyarrow' not in sys.modules
assert list(read(TASKS['cb'], {str(folder[0])!r}, 'validation').rows) == {TEXTS!r}
assert 'tensorflow_datasets' in sys.modules and 'tensorflow' not in sys.modules
"""
    python("-c", code)
