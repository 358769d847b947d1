"""Every config: the same keys, a smoke preset, a sweep that yields cells of its own keys."""

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings, keys
from experiments import config_files

FOLDER = Path(__file__).resolve().parents[1] / "configs"
OTHERS = {"base", "train_mini", "train_mini_small", "train_mini_clip", "mini_ablations"}
"""What configs share, and training runs, which are no studies to score; nor is evidence."""
PATHS = sorted(
    str(p)
    for p in FOLDER.glob("*.py")
    if p.stem not in OTHERS and not p.stem.startswith("evidence_")
)


def cells(name, **values):
    path = str(FOLDER / f"{name}.py")
    config = config_files.read_config(path)
    config.update(values)
    return list(config_files.load(path).sweep(config))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: Path(p).stem)
@pytest.mark.parametrize("preset", ["", ":smoke"])
def test_every_cell_of_every_sweep_is_one_of_its_settings(path, preset):
    config = config_files.read_config(path + preset)
    assert set(config.keys()) == set(keys()) and config.is_locked
    assert set(config.tasks) <= set(TASKS)
    settings, found = config_files.read_study(path + preset, config)
    assert found and len(set(found)) == len(found)
    for cell in config_files.load(path).sweep(config):
        assert {"task", "seed"} <= set(cell) <= {"task", "seed", *config.keys()}
        for key in set(cell) - {"task", "seed"}:
            assert type(cell[key]) is type(config[key])
    assert Settings.of(**config.to_dict()) == settings


@pytest.mark.parametrize("path", PATHS, ids=lambda p: Path(p).stem)
def test_a_config_says_its_command_and_what_to_expect_in_few_lines(path):
    with pytest.raises(ValueError, match=r"no preset 'smok'; there is: smoke"):
        config_files.load(path).get_config("smok")
    said = config_files.load(path).__doc__
    assert f"python -m experiments.score --config=configs/{Path(path).name}" in said
    assert len(Path(path).read_text().splitlines()) <= 35
    assert median(len(Path(p).read_text().splitlines()) for p in PATHS) <= 25


def test_sizes_of_the_studies_of_the_paper():
    assert len(cells("main_table")) == 13 * 5
    assert len(cells("zero_shot")) == len(cells("bcl")) == 13
    assert len(cells("shots")) == 13 * (1 + 4 * 5)
    assert len(cells("probe_size")) == 5
    assert len(cells("main_table", shots=0)) == 13
    assert len(cells("mini_zero_shot", label_words="held_out")) == 13 * 5


def test_sizes_of_the_studies_of_the_suite():
    assert len(cells("mini")) == 13 * 5
    assert len(cells("mini_shots")) == 3 * (1 + 4 * 5)
    assert len(cells("mini_orders")) == 3 * (10 + 24)
    assert len(cells("mini_templates")) == len(cells("mini_verbalizers")) == 10
    assert len(cells("mini_probe_size")) == 3 * 5
    assert config_files.read_config(str(FOLDER / "mini.py")).tasks == tuple(TASKS)[:13]


def test_robustness_varies_one_choice_at_a_time():
    found = cells("robustness")
    kinds = Counter(tuple(sorted(set(cell) - {"task", "seed"})) for cell in found)
    assert kinds == {
        ("selection",): 10, ("order", "selection", "shots"): 24, ("template",): 10,
        ("verbalizer",): 10,
    }  # fmt: skip
    for cells_of in (found, cells("mini_templates")):
        assert {c["template"] for c in cells_of if "template" in c} == set(TASKS["rte"].templates)
    for cells_of in (found, cells("mini_verbalizers")):
        named = {c["verbalizer"] for c in cells_of if "verbalizer" in c}
        assert named == set(TASKS["rte"].verbalizers)


def test_sweeps_of_studies_that_share_contexts_agree():
    # What is done with the scores is no matter of a context.
    own = {"tasks", "seeds", "probe_sizes", "stream_orders"}
    for name, main, more in (
        ("bcl", "main_table", set()),
        ("probe_size", "main_table", set()),
        ("mini_probe_size", "mini", set()),
        # Another block of rows is scored beside the others; it makes no other context.
        ("mini_shots", "mini", {"shots", "labeled_per_class"}),
    ):
        one, other = (config_files.read_config(str(FOLDER / f"{file}.py")) for file in (main, name))
        different = {key for key in one.keys() if one[key] != other[key]}  # noqa: SIM118
        assert different <= own | more
