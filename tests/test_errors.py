"""The one error that users see: its fields, and what it says of mistakes in files."""

from pathlib import Path

import batch_calibration as bc
from batch_calibration.errors import InputError, shown
from batch_calibration.scoring.data.task_file import load_task


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
    assert shown([1, 2]) == "[1, 2]" and shown(10**5000) == "a very long int"


def test_of_no_names_none_is_near():
    assert str(InputError.unknown("file", "x", [])) == "There is no file named 'x'. Known: none."


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch, refuses):
    """Each reader's tests have the other mistakes."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    files = {"texts.csv": "no,yes\n-1,much\n", "torn.npz": "PK", "picture.png": "\x00\x01"}
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    for name in (*files, "folder", "nowhere.csv"):
        assert str(refuses(bc.read, name)).startswith(f"{name}: ")
    assert refuses(load_task, "nowhere.toml").where == "nowhere.toml"
