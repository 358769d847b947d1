"""Tasks and their rows: words bound to names, prompts by golden text, wrong files by sentence."""

import gzip
import json
from pathlib import Path

import pytest

from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.prompts import template
from batch_calibration.scoring.tasks import TASKS, get_task

# Rows of the shared validation files, 0 of a task that has none there. Two are not the paper's: a
# proxy, and 2 rows that are lost.
COUNTS = {"sst2": 872, "mnli": 9815, "qnli": 5463, "mrpc": 408, "qqp": 7999, "boolq": 3270}
COUNTS |= {"cb": 56, "copa": 100, "rte": 277, "wic": 638, "anli_r1": 1000, "anli_r2": 1000}
COUNTS |= {"anli_r3": 1198, "mr": 2000, "agnews": 7600, "trec": 500}
PAPER = COUNTS | {"qqp": 40430, "anli_r3": 1200} | dict.fromkeys(("mr", "agnews", "trec"))


TEXT = [task for task in TASKS.values() if not task.is_image]


@pytest.mark.parametrize("task", TEXT, ids=lambda t: t.name)
def test_a_task_is_consistent(task):
    for verbalizer in (task.verbalizer, task.statement_words, *task.verbalizers.values()):
        assert set(verbalizer) == set(task.label_names)
        assert len(set(verbalizer.values())) == len(verbalizer)
    assert len(set(task.words_for(0))) == len(task.label_names)
    for form in (task.few_shot, task.zero_shot, *task.templates.values()):
        template.check_fields(form, task.fields)
        assert set(template.fields_of(form)) == {*task.fields, "label"}
    assert task.statement.count("{label}") == 1
    assert set(task.statement_fields) <= set(task.fields)


COLUMNS = {f"anli_r{number}": {"premise": "context"} for number in (1, 2, 3)}
COLUMNS["rte"] = {"sentence1": "premise", "sentence2": "hypothesis"}
"""Where the shared files call a field otherwise."""


@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if count])
def test_real_rows_are_read(shared, name):
    """All texts and labels are as in the file, read here separately."""
    rows = read(TASKS[name], str(shared / "data"), "validation")
    folders = (shared / "data" / folder for folder in (name, f"extra_{name}"))
    (path,) = (path for folder in folders for path in folder.glob(f"{rows.split}.jsonl*"))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    raw = [json.loads(line) for line in data.decode().split("\n") if line]
    column = {field: COLUMNS.get(name, {}).get(field, field) for field in TASKS[name].fields}
    assert list(rows.rows) == [{f: raw_row[column[f]] for f in column} for raw_row in raw]
    assert list(rows.labels) == [raw_row["label"] for raw_row in raw]
    assert rows.ids == tuple(f"{name}/{rows.split}/{i}" for i in range(COUNTS[name]))
    assert TASKS[name].test_rows == PAPER[name]
    assert set(rows.labels) == set(range(len(TASKS[name].label_names)))
    assert rows.split == ("validation_proxy" if name == "qqp" else "validation")


def test_the_shelf_is_the_papers_tables_and_three_more():
    images = ["svhn", "eurosat", "ucf101", "clevr", "aircraft", "dtd"]
    assert list(TASKS) == [*COUNTS, *images]


def test_words_follow_names_not_positions(refuses):
    assert TASKS["mnli"].label_words == TASKS["anli_r1"].label_words == ("yes", "maybe", "no")
    cb = TASKS["cb"]
    assert cb.label_names == ("entailment", "contradiction", "neutral")
    assert cb.label_words == cb.words_for(0) == ("yes", "no", "maybe")
    cb.check_label_names(("entailment", "contradiction", "neutral"), "somewhere")
    error = refuses(cb.check_label_names, ("entailment", "neutral", "contradiction"), "somewhere")
    assert "somewhere" in str(error) and "['entailment', 'neutral', 'contradiction']" in str(error)


# A row of each task, its label, its few-shot text and its zero-shot text, label and all.
GOLDEN = json.loads(Path(__file__).with_name("golden_prompts.json").read_text())


def rendered(form, row, label_words):
    return template.query(form, row) + template.continuation(form, label_words)


@pytest.mark.parametrize("name", COUNTS)
def test_prompts_are_the_papers(name):
    task = TASKS[name]
    row, label, few_shot, zero_shot = GOLDEN["tasks"][name].values()
    assert set(row) == set(task.fields)
    assert rendered(task.template(1), row, task.words_for(1)[label]) == few_shot
    assert rendered(task.template(0), row, task.words_for(0)[label]) == zero_shot


def test_rtes_ten_templates(refuses):
    task = TASKS["rte"]
    row = {"sentence1": "It rains.", "sentence2": "It is wet."}
    texts = {c: rendered(task.template(1, c), row, "yes") for c in task.templates}
    assert texts == GOLDEN["rte_templates"]
    assert task.template(1, "1") == task.template(1)
    assert refuses(task.template, 1, "11").got == "11"


def test_rtes_ten_verbalizers_and_their_emoji(refuses):
    task = TASKS["rte"]
    pairs = {choice: task.words_for(1, choice) for choice in task.verbalizers}
    assert list(pairs) == [str(i) for i in range(1, 11)]
    assert " ".join("/".join(pairs[str(i)]) for i in range(1, 8)) == (
        "yes/no true/false correct/incorrect positive/negative good/bad great/terrible "
        "it was true/it was false"
    )
    assert [[[hex(ord(c)) for c in emoji] for emoji in pairs[i]] for i in ("8", "9", "10")] == [
        [["0x1f44d"], ["0x1f44e"]],
        [["0x1f646", "0x200d", "0x2642", "0xfe0f"], ["0x1f645", "0x200d", "0x2642", "0xfe0f"]],
        [["0x2714", "0xfe0f"], ["0x274c"]],
    ]
    assert refuses(task.words_for, 1, "0").got == "0"


def test_unknown_task(refuses):
    assert "did you mean 'sst2'" in str(refuses(get_task, "sst-2"))


GOOD = {"sentence": "fine", "label": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(GOOD) + '\n{"sentence": "to', "line 2: expected JSON; got Unterminated"),
        (json.dumps({"text": "fine", "label": 1}), "1: expected the columns sentence of task"),
        (json.dumps({"sentence": "fine"}), "line 1: expected the columns label of task sst2"),
        (json.dumps(GOOD | {"label": 2}), "got 2."),
        (json.dumps(GOOD | {"label": "1"}), "got '1'."),
        (json.dumps(GOOD | {"sentence": None}), "in field sentence; got None"),
        ("[1]", "got '1]'"),
        ("", "at least one row"),
        (b"\xff\xfe", "a byte at 0"),
    ],
)
def test_bad_files(tmp_path, text, words, refuses):
    (tmp_path / "sst2").mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "sst2" / "validation.jsonl").write_bytes(data)
    assert words in str(refuses(read, TASKS["sst2"], str(tmp_path), "validation"))


def test_bom_crlf_blank_lines_gzip_and_extra_folder(tmp_path):
    (tmp_path / "extra_sst2").mkdir()
    text = "\ufeff" + json.dumps(GOOD) + "\r\n\r\n" + json.dumps(GOOD | {"label": -1}) + "\r\n"
    (tmp_path / "extra_sst2" / "validation.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    rows = read(TASKS["sst2"], str(tmp_path), "validation")
    assert rows.labels == (1, -1) and rows.rows[0] == {"sentence": "fine"}


def test_missing_folder_and_split(tmp_path, refuses):
    missing = refuses(read, TASKS["sst2"], str(tmp_path / "none"), "validation")
    assert (missing.where, missing.got) == (f"data {tmp_path}/none", "no folder")
    assert "no rows of task sst2" in str(refuses(read, TASKS["sst2"], str(tmp_path), "dev"))
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.jsonl").write_text(json.dumps(GOOD))
    assert "no split of sst2 named 'dev'" in str(refuses(read, TASKS["sst2"], str(tmp_path), "dev"))
    assert refuses(read, TASKS["sst2"], "", "dev").where == "data"


def test_limit(refuses):
    complete, few = (read(TASKS["sst2"], "mini", "validation", limit) for limit in (0, 7))
    assert few.rows == complete.rows[:7] and few.labels == complete.labels[:7]
    assert refuses(read, TASKS["sst2"], "mini", "validation", -1).where == "limit"


def test_mini_has_no_other_task_or_split(refuses):
    assert refuses(read, TASKS["trec"], "mini", "validation").got == "trec"
    assert refuses(read, TASKS["sst2"], "mini", "test").got == "test"
