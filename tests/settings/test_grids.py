"""Grids: several values of a key make a study for each combination, in Python and at the flags."""

from itertools import product

import pytest

from batch_calibration.cli.options import parse
from batch_calibration.cli.study_options import chosen_studies, read_value, read_values
from batch_calibration.settings import Settings, combinations, gather, grid

SETTINGS = Settings.of(tasks=("sst2", "rte"), model="mini", seeds=2)


def test_every_combination_is_a_context_and_zero_shots_have_one_seed():
    (study,) = grid(SETTINGS, shots=(0, 2), template=("", "1"))
    contexts = [(c.prompt.shots, c.prompt.template, c.task, c.seed) for c in study.cells]
    every = product((0, 2), ("", "1"), ("sst2", "rte"), (0, 1))
    assert contexts == [context for context in every if context[0] or not context[-1]]


def test_models_are_studies_of_their_own_and_contexts_come_once():
    studies = grid(SETTINGS, model=("mini", "other"), limit=(40, 40))
    assert [entry_of_study.settings.model.model for entry_of_study in studies] == ["mini", "other"]
    assert [len(entry_of_study.cells) for entry_of_study in studies] == [4, 4]
    assert gather(studies + studies) == studies


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ({"shotz": (1,)}, "shotz"),
        ({"mesh": ("data:1", "data:2")}, "mesh"),
        ({"shots": ()}, "()"),
        ({"template": "12"}, "'12'"),
        ({"shots": (1, "two")}, "'two'"),
    ],
)
def test_a_grid_that_cannot_be(values, got, refuses):
    assert refuses(grid, SETTINGS, **values).got == got


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("shots=1,2,4", [1, 2, 4]),
        ("shots=3", [3]),
        ("template=,1", ["", "1"]),
        ("template=Is it, {sentence}? {label}", ["Is it, {sentence}? {label}"]),
        ('template=("{a}, {label}","{b} {label}")', ["{a}, {label}", "{b} {label}"]),
        ("logits_only=True,False", [True, False]),
        ("scale=0,1.5", [0.0, 1.5]),
        ("over_long=error,drop_shots", ["error", "drop_shots"]),
        ("tasks=sst2,rte", [("sst2", "rte")]),
        ("mesh=data:2,model:2", ["data:2,model:2"]),
        ("demonstrations=1,2", [(1, 2)]),
    ],
)
def test_values_at_the_command_line(text, values):
    """Tuples, and what is no key of scores, are one value."""
    name, _, text = text.partition("=")
    read = read_values(name, text)
    assert read == values and list(map(type, read)) == list(map(type, values))


def studies_of(*words):
    """The studies that flags of `sweep` name."""
    return chosen_studies(parse(["sweep", "--workdir=W", *words]))


def test_flags_with_several_values_make_a_grid(tmp_path):
    (study,) = studies_of("--tasks=sst2", "--model=mini", "--shots=4,2")
    assert [cell.prompt.shots for cell in study.cells] == [4, 2]
    assert len(studies_of("--tasks=sst2", "--model=mini", "--shots=3")[0].cells) == 1
    (tmp_path / "a,b").mkdir()
    (study,) = studies_of("--tasks=sst2", "--model=mini", f"--data={tmp_path}/a,b")
    assert study.settings.data.data == f"{tmp_path}/a,b"


@pytest.mark.parametrize(
    ("text", "tuple_"),
    [("('sst2',)", ("sst2",)), ("sst2,cb", ("sst2", "cb")), ('("a","b")', ("a", "b")), ("()", ())],
)
def test_tuples_are_written_as_in_python_or_without_quotes(text, tuple_):
    assert read_value("tasks", text) == tuple_


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("shots=1,two", "two"),
        ("shots=1,-2", "-2"),
        ("selection=total,tota", "tota"),
        ("template=(1", "(' was never closed (<unknown>, line 1)"),
        ("logits_only=True,No", "No"),
    ],
)
def test_values_that_cannot_be(text, got, refuses):
    assert refuses(studies_of, "--tasks=sst2", f"--{text}").got.strip("'") == got


def test_the_sweep_of_a_config_is_made_for_each_combination():
    flags = ("--config.tasks=sst2", "--seeds=1", "--config.shots=1,2", "--limit=20,40")
    (study,) = studies_of("--config=configs/shots.py:mini", *flags)
    combinations = [(cell.prompt.shots, cell.data.limit) for cell in study.cells]
    assert combinations == [(shots, limit) for limit in (20, 40) for shots in (0, 1, 2)]


def test_without_values_a_grid_is_one_study():
    assert list(combinations({})) == [{}]
    assert grid(SETTINGS)[0].cells == tuple(SETTINGS.grid())
