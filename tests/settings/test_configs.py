"""Every config: the same keys, a smoke preset, a sweep that yields cells of its own keys."""

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from batch_calibration.cli import study_options
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings, keys

FOLDER = Path(__file__).resolve().parents[2] / "configs"
OTHERS = {"base", "train_mini", "train_mini_small", "train_mini_clip", "mini_ablations"}
"""Configs that are no studies to score: shared parts, training runs, evidence."""
STUDIES = {path.stem for path in FOLDER.glob("*.py") if "evidence_" not in path.stem} - OTHERS
PATHS = sorted(str(FOLDER / f"{name}.py") for name in STUDIES)
PRESETS = []
for path in PATHS:
    has_mini = '"mini":' in Path(path).read_text()
    PRESETS += [path, f"{path}:smoke"]
    PRESETS += [f"{path}:mini", f"{path}:mini_smoke"] if has_mini else []


def config_of(path):
    """The config of a file, with or without a preset."""
    file, _, preset = path.partition(":")
    return study_options.load_config(file).get_config(preset)


def cells(name, preset="", **values):
    path = str(FOLDER / f"{name}.py")
    config = config_of(f"{path}:{preset}")
    config.update(values)
    return list(study_options.load_config(path).sweep(config))


@pytest.mark.parametrize("path", PRESETS, ids=lambda p: Path(p).name)
def test_every_cell_of_every_sweep_is_one_of_its_settings(path):
    config = config_of(path)
    assert set(config.keys()) == set(keys()) and config.is_locked
    assert {task for task in config.tasks if not task.endswith(".toml")} <= set(TASKS)
    settings, studied_cells = study_options.read_study(path, config.to_dict())
    assert studied_cells and len(set(studied_cells)) == len(studied_cells)
    for cell in study_options.load_config(path).sweep(config):
        assert {"task", "seed"} <= set(cell) <= {"task", "seed", *config.keys()}
        for key in set(cell) - {"task", "seed"}:
            assert type(cell[key]) is type(config[key])
    assert Settings.of(**config.to_dict()) == settings


@pytest.mark.parametrize("path", PATHS, ids=lambda p: Path(p).stem)
def test_a_config_says_its_command_and_what_to_expect_in_few_lines(path):
    with pytest.raises(ValueError, match=r"no preset 'smok'; there are: .*smoke"):
        study_options.load_config(path).get_config("smok")
    docstring = study_options.load_config(path).__doc__
    assert f"python -m experiments.score --config=configs/{Path(path).name}" in docstring
    assert len(Path(path).read_text().splitlines()) <= 50
    assert median(len(Path(p).read_text().splitlines()) for p in PATHS) <= 40


def test_sizes_of_the_studies_of_the_paper():
    assert len(cells("main_table")) == 13 * 5
    assert len(cells("zero_shot")) == len(cells("bcl")) == 13
    assert len(cells("shots")) == 13 * (1 + 4 * 5)
    assert len(cells("probe_size")) == 5
    assert len(cells("main_table", shots=0)) == 13
    assert len(cells("zero_shot", "mini", label_words="held_out")) == 13 * 5
    assert len(cells("real_paper")) == 10 * (1 + 5 + 3) + (10 + 24 + 6 + 6)
    assert len(cells("real_paper", tasks=("mr",), seeds=2, shots=1)) == 1 + 2


def test_sizes_of_the_studies_of_the_suite():
    assert len(cells("mini")) == 13 * 5
    assert len(cells("shots", "mini")) == 3 * (1 + 4 * 5)
    assert len(cells("robustness", "mini")) == 10 + 24 + 10 + 10
    three = cells("robustness", "mini", tasks=("sst2", "mnli", "rte"))
    assert len(three) == 3 * (10 + 24) + (10 + 10) + (6 + 6)
    assert len(cells("probe_size", "mini")) == 3 * 5
    assert config_of(str(FOLDER / "mini.py")).tasks == tuple(TASKS)[:13]


def test_a_labeled_set_is_scored_only_for_tables_with_bcl():
    asked = {Path(path).name: config_of(path).labeled_per_class for path in PRESETS}
    usual = {name: 128 for name in ("main_table.py", "bcl.py", "mini.py")}
    small = {"main_table.py:smoke": 4, "bcl.py:smoke": 4, "mini.py:smoke": 16}
    assert {name: rows for name, rows in asked.items() if rows} == usual | small


def test_robustness_varies_one_choice_at_a_time():
    combinations = cells("robustness")
    kinds = Counter(tuple(sorted(set(cell) - {"task", "seed"})) for cell in combinations)
    expected = {("selection",): 10, ("template",): 10, ("verbalizer",): 10}
    assert kinds == expected | {("order", "selection", "shots"): 24}
    for options in ("template", "verbalizer"):
        named = {cell[options] for cell in combinations if options in cell}
        assert named == set(getattr(TASKS["rte"], f"{options}s"))


def test_sweeps_of_studies_that_share_contexts_agree():
    # A labeled set is scored beside the other blocks, and calibration reads stored scores.
    own = {"tasks", "seeds", "labeled_per_class", "probe_sizes", "stream_orders"}
    for name, main, more in (
        ("bcl", "main_table", set()),
        ("probe_size", "main_table", set()),
        ("probe_size:mini", "mini", set()),
        ("shots:mini", "mini", {"shots"}),
    ):
        file, _, preset = name.partition(":")
        first = config_of(str(FOLDER / f"{main}.py"))
        second = config_of(f"{FOLDER / file}.py:{preset}")
        different = {key for key in first.keys() if first[key] != second[key]}  # noqa: SIM118
        assert different <= own | more
