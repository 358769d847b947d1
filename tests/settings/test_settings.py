"""Settings: one owner of every key, flat at the flags, typed behind; wrong ones by sentence."""

import dataclasses

import pytest

from batch_calibration.settings import PARTS, Cell, DataSettings, PromptSettings, Settings, keys


def test_every_key_is_flat_and_belongs_to_one_part():
    fields_of_parts = [dataclasses.fields(section) for section in PARTS.values()]
    names = [field.name for fields in fields_of_parts for field in fields]
    assert len(set(names)) == len(names) and set(names) < set(keys())
    assert set(Settings().flat()) == set(keys())
    assert Settings.of(**Settings().flat()) == Settings()


def test_a_key_has_all_that_a_flag_needs():
    shots, over_long, tasks = (keys()[name] for name in ("shots", "over_long", "tasks"))
    assert (shots.part, shots.kind, shots.default, shots.minimum) == ("prompt", int, 1, 0)
    assert shots.help.startswith("demonstrations per class; for `selection`") and not shots.choices
    assert over_long.choices == ("error", "drop_shots", "same_context", "truncate_left")
    # Of several lines of the docstring one.
    assert over_long.help.endswith("context, probes too; or cut the text on the left.")
    assert tasks.is_tuple and not shots.is_tuple and tasks.part == ""
    assert all(key.help and "  " not in key.help for key in keys().values())
    assert {name: key.default for name, key in keys().items()} == Settings().flat()


def test_a_key_changes_its_part_alone():
    changed = Settings.of(shots=4)
    assert changed.prompt == dataclasses.replace(PromptSettings(), shots=4)
    assert changed.data == DataSettings() and Settings().prompt.shots == 1


@pytest.mark.parametrize(
    ("key", "value", "means"),
    [
        ("template", 2, "2"),
        ("tasks", "sst2", ("sst2",)),
        ("tasks", "sst2,mnli", ("sst2", "mnli")),
        ("tasks", "(sst2, 'mnli')", ("sst2", "mnli")),
        ("tasks", ("sst2,mnli",), ("sst2", "mnli")),
        ("tasks", ["sst2"], ("sst2",)),
        ("scale", 20, 20.0),
        ("demonstrations", (0, "cb/train/3"), (0, "cb/train/3")),
        ("probe_sizes", (2, 5), (2, 5)),
        ("probe_sizes", "2,5", (2, 5)),
        ("probe_sizes", ("2", "5"), (2, 5)),
        ("probe_sizes", 2, (2,)),
        ("method_options", "pc.starts=9,bc.strength=0.5", ("pc.starts=9", "bc.strength=0.5")),
    ],
)
def test_what_can_mean_one_thing_alone_is_accepted(key, value, means):
    assert Settings.of(**{key: value}).flat()[key] == means


def test_a_task_files_path_may_hold_a_comma(tmp_path):
    path = tmp_path / "a,b.toml"
    path.write_text("")
    assert Settings.of(tasks=str(path)).tasks == (str(path),)


WRONG = {
    "shots": ["1,2", 1.5, True, -1],
    "timeout": [0.0],
    **dict.fromkeys(("dc_texts", "batch_size", "in_flight", "draws"), (0,)),
    **dict.fromkeys(("labeled_per_class", "stream_orders"), (-1,)),
    "order": [-2],
    "selection": ["perclass"],
    "over_long": ["drop_shot"],
    "cc_fill": ["whole"],
    "scorer": ["causal"],
    "api_scores": ["topk"],
    "price": [-1.5, float("nan"), True],
    "logits_only": ["yes"],
    "tasks": [3, ("sst2", 3)],
    "probe_sizes": ["2,few", (0,), (1.5,)],
    "model": [None],
}


@pytest.mark.parametrize("key", WRONG)
def test_wrong_settings_get_a_sentence(key, refuses):
    for value in WRONG[key]:
        error = refuses(Settings.of, **{key: value})
        assert (error.key, error.got.strip("'")) == (key, str(value))
    assert refuses(Settings.of, **{f"{key}z": 1}).got == f"{key}z"


def test_a_cell_is_a_context_of_its_settings(refuses):
    settings = Settings.of(data="mini", limit=3, shots=2)
    cell = settings.cell("sst2", seed=4, template="3")
    data = dataclasses.replace(DataSettings(), data="mini", limit=3)
    assert cell == Cell(
        "sst2", 4, data, dataclasses.replace(PromptSettings(), shots=2, template="3")
    )
    assert cell.unfitted() == cell
    assert "expected no model" in str(refuses(settings.cell, "sst2", model="mini"))
    assert refuses(settings.cell, "sst2", seed=-1).where == "seed"
    assert refuses(settings.cell, "").where == "task"
