"""Trains a small model for each ablation of the pretraining text, and measures its label biases."""

import json
from pathlib import Path

from ml_collections import ConfigDict

from batch_calibration.cli.study_options import read_config
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.tasks import get_task
from experiments.pretrain.from_config import train_language_model
from experiments.pretrain.label_biases import LabelBiases, Score, measure

HEADER = ["text", "common", "majority", "recency", "templates", "label words", "ICL", "BC"]


def recipe_config(config: ConfigDict, knobs: dict[str, float]) -> ConfigDict:
    """Returns the config of the base run, cut to one task and one stage, with `knobs` changed."""
    # `read_config` returns a new config, so the changes do not reach the base run's.
    run_config = ConfigDict(read_config(config.base))
    stage = {key: config[key] for key in ("steps", "rows", "length", "shots", "rate")}
    for knob, setting in knobs.items():
        if knob not in run_config:
            raise InputError.unknown("knob of the text", knob, list(run_config))
        run_config[knob] = setting
    # A single stage without a gate, so that every ablation is trained for equally many steps.
    run_config.stages = ({**stage, "mix": {config.task: 1.0}, "hardest": 3, "gate": None},)
    return run_config


def cells(measured: dict[str, LabelBiases]) -> Cells:
    """Formats a header and a row for each text; biases in nats, accuracies in percent."""
    rows: Cells = [HEADER]
    for name, biases in measured.items():
        rows.append(
            [name]
            + [f"{nats:+.2f}" for nats in (biases.common, biases.majority, biases.recency)]
            + [f"{nats:.2f}" for nats in (biases.templates, biases.words)]
            + [f"{100 * mean:.1f} ± {100 * sd:.1f}" for mean, sd in (biases.icl, biases.bc)]
        )
    return rows


def _scorer(checkpoint: Path) -> Score:
    scorer = CausalLM(load_checkpoint(checkpoint))
    return lambda texts, labels: scorer.score(texts, labels).log_probs


def run(config: ConfigDict, workdir: Path) -> str:
    """Trains and measures every recipe without results, and returns the table as Markdown.

    Raises:
        InputError: the config has no recipes, a knob does not exist, the task does not have two
            labels, or the workdir holds results of another config.
    """
    if "recipes" not in config:
        raise InputError.at(
            "--config", "recipes of the text", "none", "give --config=configs/mini_ablations.py"
        )
    task, measured = get_task(config.task), {}
    if len(task.label_names) != 2:
        raise InputError(
            key="task",
            expected=f"a task with two labels, but {task.name} has {len(task.label_names)}",
            remedy="give a task such as sst2",
        )
    for name, knobs in config.recipes:
        home = workdir / name.replace(" ", "_")
        results_file = home / "label_biases.json"
        recipe = recipe_config(config, knobs)
        expected_run = {"recipe": str(recipe), "draws": config.draws, "test_rows": config.test_rows}
        # A recipe with results is not trained again.
        if not results_file.is_file():
            print(f"{name}: {knobs or 'nothing turned off'}", flush=True)
            train_language_model(recipe, home / "checkpoint", home)
            seen = measure(task, _scorer(home / "checkpoint"), config.draws, config.test_rows)
            write_whole(results_file, json.dumps([expected_run, seen._asdict()], indent=1).encode())
        stored_run, numbers = json.loads(results_file.read_text(encoding="utf-8"))
        # Results of different settings must not be in one table.
        if stored_run != expected_run:
            raise InputError(f"{home}: holds results of another config; give another --workdir.")
        measured[name] = LabelBiases(**numbers)
    table = markdown(cells(measured))
    write_whole(workdir / "ablations.md", table.encode())
    return table
