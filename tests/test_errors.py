"""The one error that users see: its fields, and what it says of mistakes of every room."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import batch_calibration as bc
from batch_calibration.errors import InputError
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.settings import Settings
from batch_calibration.studies import Store

SCORES = np.log([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]] * 6)
TASK = """name = "tickets"
fields = ["body"]
label_names = ["billing", "bug"]
labels_are = "names"
template = "Ticket: {body}\\nKind: {label}"
verbalizer = {billing = "billing", bug = "bug"}
files = {train = "train.csv", test = "test.csv"}
"""


def test_fields_are_composed_into_a_sentence():
    error = InputError(where="scores", expected="2 labels", got=1, remedy="add one")
    assert (error.where, error.expected, error.got, error.remedy) == (
        "scores", "2 labels", "1", "add one",
    )  # fmt: skip
    assert str(error) == "scores: expected 2 labels; got 1: add one."
    assert isinstance(error, ValueError)


def test_what_is_plain_from_the_rest_is_left_out():
    assert str(InputError(where="w", expected="a file")) == "w: expected a file."
    assert str(InputError(where="w", expected="a file", got="none")) == (
        "w: expected a file; got none."
    )
    assert str(InputError(where="w", expected="a file", remedy="name one")) == (
        "w: expected a file: name one."
    )


def test_a_sentence_may_come_whole_and_then_has_no_fields():
    error = InputError("config.json: it ends in the middle.")
    assert str(error) == "config.json: it ends in the middle."
    assert (error.where, error.expected, error.got, error.remedy) == ("", "", "", "")


def test_it_stays_one_line_that_can_be_read():
    error = InputError(where="a\nb\u2028c", expected="x" * 1000)
    assert len(str(error).splitlines()) == 1 and len(str(error)) < 300
    assert error.got == "" and "a b c: expected xxx" in str(error)


def test_unknown_names_have_the_nearest_one_that_exists():
    near = InputError.unknown("method", "bcc", iter(["bc", "icl"]))
    assert str(near) == "There is no method named 'bcc'; did you mean 'bc'? Known: bc, icl."
    assert str(InputError.unknown("file", "x", [])) == "There is no file named 'x'. Known: none."


def of_arrays() -> Iterator[Callable[[], object]]:
    """Mistakes in what is handed to the functions of Python."""
    calibrate, diagnose = bc.calibrate, bc.diagnose
    yield lambda: calibrate(SCORES[0])
    yield lambda: calibrate(SCORES[:, :1])
    yield lambda: calibrate(SCORES[:0])
    yield lambda: calibrate([["a", "b"]])
    yield lambda: calibrate(np.where(SCORES < -1.6, np.nan, SCORES))
    yield lambda: calibrate(np.where(SCORES < -1.6, np.inf, SCORES))
    yield lambda: calibrate(np.exp(SCORES))
    yield lambda: calibrate(2 * np.exp(SCORES), from_probs=True)
    yield lambda: calibrate(SCORES, "bcc")
    yield lambda: calibrate(SCORES, strenght=1.0)
    yield lambda: calibrate(SCORES, strength="much")
    yield lambda: calibrate(SCORES, target_prior=(0.5, 0.5))
    yield lambda: calibrate(SCORES, target_prior=(1, 1, 1))
    yield lambda: calibrate(SCORES, "cc")
    yield lambda: calibrate(SCORES, "cc", probe=SCORES[:3, :2])
    yield lambda: calibrate(SCORES, "bcl")
    yield lambda: calibrate(SCORES, "bcl", labeled=SCORES, labels=[0, 1])
    yield lambda: diagnose(SCORES, labels=[3] * 12)
    yield lambda: bc.accuracy(SCORES, [0.5] * 12)
    yield lambda: calibrate(SCORES, "pc")
    yield lambda: diagnose(SCORES, labels=[0])
    yield lambda: calibrate(SCORES, "icl", strength=1.0)


FILES = {
    "empty.csv": "",
    "probabilities.csv": "no,yes\n0.5,0.5\n",
    "short.csv": "no,yes\n-1,-2\n-1\n",
    "texts.csv": "no,yes\n-1,much\n",
    "one.csv": "yes\n-1\n-2\n",
    "cut.jsonl": '{"no": -1, "yes": -2}\n{"no": -1, "y',
    "array.json": "[1, 2",
    "torn.npz": "PK",
    "picture.png": "\x00\x01",
}
TASK_FILES = {
    "no_name.toml": TASK.replace('name = "tickets"\n', ""),
    "misspelt.toml": TASK.replace("labels_are", "label_are"),
    "field.toml": TASK.replace("{body}", "{text}"),
    "kind.toml": TASK.replace('"names"', '"words"'),
    "one_label.toml": TASK.replace('["billing", "bug"]', '["billing"]'),
}


def of_files() -> Iterator[Callable[[], object]]:
    """Mistakes in files, in the working directory."""
    for name, text in {**FILES, **TASK_FILES}.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("folder").mkdir()
    for name in [*FILES, "folder", "nowhere.csv"]:
        yield lambda name=name: bc.read(name)
    for name in [*TASK_FILES, "nowhere.toml", "sst3"]:
        yield lambda name=name: load_task(name)
    yield lambda: load_checkpoint("nowhere")
    yield lambda: load_checkpoint("folder")
    yield lambda: bc.load_results("folder")
    yield lambda: Store("folder")


def of_settings() -> Iterator[Callable[[], object]]:
    """Mistakes in the settings of a study."""
    for values in (
        {"shotz": 1}, {"shots": "1,2"}, {"shots": -1}, {"dc_texts": 0}, {"batch_size": 0},
        {"scorer": "causal"}, {"tasks": 3}, {"logits_only": "yes"}, {"draws": 0}, {"model": None},
    ):  # fmt: skip
        yield lambda values=values: Settings.of(**values)


@pytest.mark.parametrize("room", [of_arrays, of_files, of_settings])
@pytest.mark.filterwarnings("ignore")
def test_sentences_are_those_of_the_golden_file(room, tmp_path, monkeypatch, refuses):
    monkeypatch.chdir(tmp_path)
    for make in room():
        refuses(make)
