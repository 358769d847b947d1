"""Tasks and their rows: words bound to names, and sentences for files that are wrong."""

import gzip
import json

import pytest

from batch_calibration.prompts import template
from batch_calibration.tasks import TASKS, get_task
from batch_calibration.tasks.sources import read
from batch_calibration.typing import InputError

COUNTS = {"sst2": 872, "mnli": 9815, "mr": 2000, "agnews": 7600, "trec": 500}


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda t: t.name)
def test_a_task_is_consistent(task):
    assert set(task.verbalizer) == set(task.label_names) == set(task.statement_words)
    assert len(set(task.words)) == len(task.words)
    for form in (task.few_shot, task.zero_shot):
        template.check(form, task.fields)
        assert set(template.fields_of(form)) == {*task.fields, "label"}
    assert task.statement.count("{label}") == 1
    assert set(task.statement_fields) <= set(task.fields)


@pytest.mark.parametrize("name", COUNTS)
def test_real_rows_are_read(shared, name):
    rows = read(TASKS[name], str(shared / "data"), "validation")
    assert len(rows.rows) == len(rows.labels) == len(rows.ids) == COUNTS[name]
    assert TASKS[name].test_rows in (None, COUNTS[name])
    assert set(rows.labels) == set(range(len(TASKS[name].label_names)))


def test_words_follow_names_not_positions():
    mnli = TASKS["mnli"]
    assert mnli.words == ("yes", "maybe", "no")
    with pytest.raises(InputError, match=r"mnli has labels \['entailment', 'neutral', .*the data"):
        mnli.check_label_names(("entailment", "contradiction", "neutral"), "somewhere")


def test_unknown_task():
    with pytest.raises(InputError, match="no task named 'sst-2'; did you mean 'sst2'"):
        get_task("sst-2")


GOOD = {"sentence": "fine", "label": 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (json.dumps(GOOD) + '\n{"sentence": "to', "line 2: no JSON object .* is the line torn"),
        (json.dumps({"text": "fine", "label": 1}), "needs sentence, the row has only text, label"),
        (json.dumps({"sentence": "fine"}), "needs label"),
        (json.dumps(GOOD | {"label": 2}), r"0 to 1 \(negative, positive\), got 2"),
        (json.dumps(GOOD | {"label": "1"}), "got '1'"),
        (json.dumps(GOOD | {"sentence": None}), "field sentence must be text, got None"),
        ("[1]", r"expected a JSON object with sentence and label, got \[1\]"),
        ("", "the file is empty"),
        (b"\xff\xfe", "cannot be read as UTF-8"),
    ],
)
def test_bad_files(tmp_path, text, sentence):
    (tmp_path / "sst2").mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "sst2" / "validation.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        read(TASKS["sst2"], str(tmp_path), "validation")


def test_bom_crlf_blank_lines_gzip_and_extra_folder(tmp_path):
    (tmp_path / "extra_sst2").mkdir()
    text = "\ufeff" + json.dumps(GOOD) + "\r\n\r\n" + json.dumps(GOOD | {"label": -1}) + "\r\n"
    (tmp_path / "extra_sst2" / "validation.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    rows = read(TASKS["sst2"], str(tmp_path), "validation")
    assert rows.labels == (1, -1) and rows.rows[0] == {"sentence": "fine"}


def test_missing_folder_and_split(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        read(TASKS["sst2"], str(tmp_path / "none"), "validation")
    with pytest.raises(InputError, match=r"no split 'dev' there; looked for sst2/dev\.jsonl"):
        read(TASKS["sst2"], str(tmp_path), "dev")


def test_limit():
    assert len(read(TASKS["sst2"], "mini", "validation", 7).rows) == 7
    with pytest.raises(InputError, match="limit"):
        read(TASKS["sst2"], "mini", "validation", -1)


def test_mini_has_no_other_task_or_split():
    with pytest.raises(InputError, match="no task of the mini suite named 'trec'"):
        read(TASKS["trec"], "mini", "validation")
    with pytest.raises(InputError, match="named 'test'"):
        read(TASKS["sst2"], "mini", "test")
