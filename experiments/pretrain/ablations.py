"""Trains a small model for each knob of the pretraining text, and measures its label biases."""

import json
from pathlib import Path

from ml_collections import ConfigDict

from batch_calibration.artifacts.cells import Cells, markdown
from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.models.checkpoint import load_checkpoint
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.tasks import get_task
from experiments import config_files
from experiments.pretrain.from_config import train_language_model
from experiments.pretrain.label_biases import LabelBiases, Score, measure

HEADER = ["text", "common", "majority", "recency", "templates", "label words", "ICL", "BC"]


def recipe_config(config: ConfigDict, knobs: dict[str, float]) -> ConfigDict:
    """The base training run on one task, in one stage, with some of its knobs turned."""
    made = config_files.read_config(config.base).copy_and_resolve_references()
    stage = {key: config[key] for key in ("steps", "rows", "length", "shots", "rate")}
    for knob, value in knobs.items():
        if knob not in made:
            raise InputError.unknown("knob of the text", knob, list(made))
        made[knob] = value
    made.stages = ({**stage, "mix": {config.task: 1.0}, "hardest": 3, "gate": None},)
    return made


def cells(found: dict[str, LabelBiases]) -> Cells:
    """A row for each text; biases in nats, accuracies in percent."""
    rows: Cells = [HEADER]
    for name, one in found.items():
        rows.append(
            [name]
            + [f"{nats:+.2f}" for nats in (one.common, one.majority, one.recency)]
            + [f"{nats:.2f}" for nats in (one.templates, one.words)]
            + [f"{100 * mean:.1f} ± {100 * sd:.1f}" for mean, sd in (one.icl, one.bc)]
        )
    return rows


def _scorer(checkpoint: Path) -> Score:
    scorer = CausalLM(load_checkpoint(checkpoint))
    return lambda texts, labels: scorer.score(texts, labels).log_probs


def run(config: ConfigDict, workdir: Path) -> str:
    """Train what is not trained yet, measure what is not measured yet; the table as Markdown.

    Raises:
        InputError: a config that is none, a knob that does not exist, results of another config.
    """
    if "recipes" not in config:
        raise InputError(
            where="--config",
            expected="recipes of a text",
            got="none",
            remedy="give --config=configs/mini_ablations.py",
        )
    task, found = get_task(config.task), {}
    if len(task.label_names) != 2:
        raise InputError(
            where="config.task",
            expected=f"a task with two labels, {task.name} has {len(task.label_names)}",
            remedy="give one such as sst2",
        )
    for name, knobs in config.recipes:
        home = workdir / name.replace(" ", "_")
        kept = home / "label_biases.json"
        recipe = recipe_config(config, knobs)
        asked = {"recipe": str(recipe), "draws": config.draws, "test_rows": config.test_rows}
        if not kept.is_file():
            print(f"{name}: {knobs or 'nothing turned off'}", flush=True)
            train_language_model(recipe, home / "checkpoint", home)
            seen = measure(task, _scorer(home / "checkpoint"), config.draws, config.test_rows)
            write_whole(kept, json.dumps([asked, seen._asdict()], indent=1).encode())
        of, numbers = json.loads(kept.read_text(encoding="utf-8"))
        if of != asked:
            raise InputError(f"{home}: holds results of another config; give another --workdir.")
        found[name] = LabelBiases(**numbers)
    table = markdown(cells(found))
    write_whole(workdir / "ablations.md", table.encode())
    return table
