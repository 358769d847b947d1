"""The one error that users see: its fields, and what it says of mistakes in files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import batch_calibration as bc
from batch_calibration.errors import InputError
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.studies import Store


def test_fields_are_composed_into_a_sentence():
    error = InputError(where="scores", expected="2 labels", got=1, remedy="add one")
    fields = error.where, error.expected, error.got, error.remedy
    assert fields == ("scores", "2 labels", "1", "add one")
    assert str(error) == "scores: expected 2 labels; got 1: add one."
    assert isinstance(error, ValueError)


def test_what_is_plain_from_the_rest_is_left_out():
    assert str(InputError(where="w", expected="a file")) == "w: expected a file."
    bare, named = ({"got": "none"}, {"remedy": "name one"})
    assert str(InputError(where="w", expected="a file", **bare)) == "w: expected a file; got none."
    assert str(InputError(where="w", expected="a file", **named)) == "w: expected a file: name one."


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


def of_files() -> Iterator[Callable[[], object]]:
    """Mistakes in files, in the working directory; each reader's tests have the others."""
    files = {"texts.csv": "no,yes\n-1,much\n", "torn.npz": "PK", "picture.png": "\x00\x01"}
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("folder").mkdir()
    for name in (*files, "folder", "nowhere.csv"):
        yield lambda name=name: bc.read(name)
    yield lambda: load_task("nowhere.toml")
    yield lambda: load_checkpoint("nowhere")
    yield lambda: load_checkpoint("folder")
    yield lambda: bc.load_results("folder")
    yield lambda: Store("folder")


def test_mistakes_in_files_are_answered_by_a_sentence(tmp_path, monkeypatch, refuses):
    monkeypatch.chdir(tmp_path)
    names = "texts.csv torn.npz picture.png folder nowhere.csv nowhere.toml nowhere folder"
    names = [*names.split(), "workdir folder", "workdir folder"]
    for make, name in zip(of_files(), names, strict=True):
        assert str(refuses(make)).startswith(f"{name}: ")
    assert refuses(load_task, "sst3").got == "sst3"
