"""Grids: several values of a key make a study for each combination, in Python and at the flags."""

import pytest
from ml_collections import ConfigDict

from batch_calibration.errors import InputError
from batch_calibration.settings import Settings, combinations, gather, grid
from experiments import config_files, grid_flags

SETTINGS = Settings.of(tasks=("sst2", "rte"), model="mini", seeds=2)


def test_every_combination_is_a_context_and_zero_shots_have_one_seed():
    (study,) = grid(SETTINGS, shots=(0, 2), template=("", "1"))
    found = [(c.task, c.seed, c.prompt.shots, c.prompt.template) for c in study.cells]
    expected = [
        (task, seed, shots, template)
        for shots in (0, 2)
        for template in ("", "1")
        for task in ("sst2", "rte")
        for seed in range(2 if shots else 1)
    ]
    assert found == expected


def test_models_are_studies_of_their_own_and_contexts_come_once():
    studies = grid(SETTINGS, model=("mini", "other"), limit=(40, 40))
    assert [one.settings.model.model for one in studies] == ["mini", "other"]
    assert [len(one.cells) for one in studies] == [4, 4]
    assert gather(studies + studies) == studies


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"shotz": (1,)},
            "no key that may have several values named 'shotz'; did you mean 'shots'",
        ),
        ({"mesh": ("data:1", "data:2")}, "no key that may have several values named 'mesh'"),
        ({"shots": ()}, r"shots: expected several values such as \(1, 2\); got \(\)"),
        ({"template": "12"}, "template: expected several values"),
        ({"shots": (1, "two")}, "config.shots: expected a whole number; got 'two'"),
    ],
)
def test_a_grid_that_cannot_be(values, sentence):
    with pytest.raises(InputError, match=sentence):
        grid(SETTINGS, **values)


@pytest.mark.parametrize(
    ("text", "first", "values"),
    [
        ("shots=1,2,4", "1", [1, 2, 4]),
        ("shots=3", "3", None),
        ("template=,1", "", ["", "1"]),
        ("template=Is it, {sentence}? {label}", "Is it, {sentence}? {label}", None),
        (
            'template=("{a}, {label}","{b} {label}")',
            "{a}, {label}",
            ["{a}, {label}", "{b} {label}"],
        ),
        ("logits_only=True,False", "True", [True, False]),
        ("scale=0,1.5", "0.0", [0.0, 1.5]),
        ("over_long=error,drop_shots", "error", ["error", "drop_shots"]),
    ],
)
def test_values_at_the_command_line(text, first, values):
    key = text.partition("=")[0]
    argv, found = grid_flags.take(["sweep", f"--config.{text}", "--workdir=W"])
    assert argv == ["sweep", f"--config.{key}={first}", "--workdir=W"]
    assert found == ({key: values} if values else {})


@pytest.mark.parametrize("word", ["--config.tasks=sst2,rte", "--config.mesh=data:2,model:2",
                                  "--config.demonstrations=1,2", "--config.nothing=1,2", "a,b",
                                  "--config=a,b"])  # fmt: skip
def test_tuples_and_what_is_no_key_of_scores_stay_as_they_are(word):
    assert grid_flags.take([word]) == ([word], {})


def test_values_may_stand_after_a_space_and_a_path_may_hold_a_comma(tmp_path):
    assert grid_flags.take(["--config.shots", "1,2"]) == (["--config.shots=1"], {"shots": [1, 2]})
    (tmp_path / "a,b").mkdir()
    word = f"--config.data={tmp_path}/a,b"
    assert grid_flags.take([word]) == ([word], {})


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("--config.shots=1,two", "config.shots: expected a whole number; got 'two'"),
        ("--config.shots=1,-2", "config.shots: expected 0 or more shots"),
        ("--config.selection=total,tota", "no config.selection named 'tota'"),
        ("--config.template=(1", "expected several values such as"),
        ("--config.logits_only=True,No", "config.logits_only: expected True or False; got 'No'"),
    ],
)
def test_values_that_cannot_be(word, sentence):
    with pytest.raises(InputError, match=sentence):
        grid_flags.take([word])


def test_the_sweep_of_a_config_is_made_for_each_combination():
    path = "configs/mini_shots.py"
    config = ConfigDict(config_files.read_config(path).to_dict() | {"tasks": ("sst2",), "seeds": 1})
    (study,) = config_files.read_studies(path, config, {"shots": (1, 2), "limit": (20, 40)})
    found = [(cell.prompt.shots, cell.data.limit) for cell in study.cells]
    assert found == [(0, 20), (1, 20), (0, 40), (1, 40), (2, 20), (2, 40)]


def test_without_values_a_grid_is_one_study():
    assert list(combinations({})) == [{}]
    assert grid(SETTINGS)[0].cells == tuple(SETTINGS.grid())
