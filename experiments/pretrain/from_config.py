"""Trains the embedded models from a config, and writes checkpoints and loss curves."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain, starmap
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from batch_calibration.errors import InputError
from batch_calibration.files import remove_unfinished
from batch_calibration.reporting.figures.style import save
from batch_calibration.scoring.embedded import drawing
from batch_calibration.scoring.models import clip, gpt2
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.tasks import TASKS, get_task
from experiments.pretrain import documents, prose, vocabulary
from experiments.pretrain import train_clip as image_text
from experiments.pretrain import train_language_model as language
from experiments.pretrain.objective import GUIDED
from experiments.pretrain.optimization import Optimizer, StepReport
from experiments.pretrain.progress import TrainingProgress, draw_curve, read_curve

STATE, CURVE = "state.safetensors", "curve.jsonl"


def main(
    train: Callable[[ConfigDict, Path, Path], list[int]], config: ConfigDict, out: str, workdir: str
) -> None:
    """Runs `train`, and prints the number of steps and the duration of each stage."""
    # The last step of each stage; the next stage begins there.
    ends = train(config, Path(out), Path(workdir))
    spent = minutes(Path(workdir), ends)
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        print(f"stage {number + 1}: {end - begin} steps, {spent[number]:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


def train_language_model(config: ConfigDict, out: Path, workdir: Path) -> list[int]:
    """Trains the language model and shows progress; resumes a stopped run.

    Writes the checkpoint to `out` as a Hugging Face directory, and the training state and the loss
    curve to `workdir`.

    Returns:
        The last step of each stage.

    Raises:
        InputError: the stages cannot be trained, or the workdir holds the state of another run.
    """
    if "stages" not in config or "width" not in config:
        raise InputError.at(
            "--config", "a training run with stages", "none", "give --config=configs/train_mini.py"
        )
    # Has to be set before JAX initializes its devices.
    jax.config.update("jax_num_cpu_devices", config.cpu_devices)
    stage_keys = {*documents.Recipe._fields, *language.TextStage._fields}
    for stage in config.stages:
        for key in stage:
            if key not in stage_keys:
                raise InputError.unknown("key of a stage", key, sorted(stage_keys - {"recipe"}))
    # Keys of a stage override keys of the config.
    stages = tuple(_text_stage({**config, **stage}) for stage in config.stages)
    shape = {"n_positions": config.positions, "n_layer": config.layers}
    language.check_stages(stages, shape, jax.device_count())
    _make_folders(out, workdir)
    names = dict(chain.from_iterable(stage.recipe.mix for stage in stages))
    tasks = {name: get_task(name) for name in names if name not in prose.GENERATORS}
    # The tokenizer is trained on the text of the last stage before layers are added.
    _, grows = language.networks(stages)[0]
    tokenizer = vocabulary.train_tokenizer(
        tasks, stages[grows - 1].recipe, config.vocabulary, config.vocabulary_texts, config.seed
    )
    end = tokenizer.token_to_id(documents.END)
    raw = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": tokenizer.get_vocab_size(),
        "n_embd": config.width,
        **shape,
        "n_head": config.heads,
        "n_inner": None,  # None means four times the width
        "activation_function": "gelu_new",  # GPT-2's tanh approximation
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,  # no dropout, because no text is seen twice
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": end,
        "eos_token_id": end,
        "tie_word_embeddings": True,
    }
    shared = _chosen(config, language.Hyperparameters._fields)
    # Maximum number of steps, and tokens per step.
    sizes = [(stage.steps, stage.rows * stage.length) for stage in stages]
    with TrainingProgress(workdir / CURVE, config.log_every, "tokens") as progress:
        model, steps = language.train(
            raw, tasks, tokenizer, stages, language.Hyperparameters(**shared), config.seed,
            workdir / STATE, config.save_every, _reporter(progress, sizes),
        )  # fmt: skip
    # The number of layers includes the added ones.
    weights.save(out, model, gpt2.FAMILY, raw | {"n_layer": len(model.blocks)})
    tokenizer.save(str(out / "tokenizer.json"))
    ends, rows = list(accumulate(steps)), read_curve(workdir / CURVE)
    measured = set(chain.from_iterable(rows))
    shown = [name for name in (*documents.names(TASKS), *GUIDED) if name in measured]
    save(draw_curve(rows, ends, tasks=shown), workdir / "curve")
    return ends


def train_clip(config: ConfigDict, out: Path, workdir: Path) -> list[int]:
    """Trains the tiny CLIP; files, return value and errors are as in `train_language_model`."""
    if "stages" not in config or "patch" not in config:
        raise InputError.at(
            "--config",
            "a training run with stages of images",
            "none",
            "give --config=configs/train_mini_clip.py",
        )
    _make_folders(out, workdir)
    stages = tuple(starmap(image_text.ImageStage, config.stages))
    tokenizer = vocabulary.train_clip_tokenizer(
        config.vocabulary, config.vocabulary_texts, config.seed
    )
    shape = clip.Config(
        projection_dim=config.embedding,
        text_vocab_size=tokenizer.get_vocab_size(),
        text_hidden_size=config.text_width,
        text_intermediate_size=4 * config.text_width,  # as in CLIP
        text_num_hidden_layers=config.text_layers,
        text_num_attention_heads=config.text_heads,
        text_max_position_embeddings=config.positions,
        text_eos_token_id=tokenizer.get_vocab_size() - 1,  # the end token has the last id
        vision_hidden_size=config.width,
        vision_intermediate_size=4 * config.width,
        vision_num_hidden_layers=config.layers,
        vision_num_attention_heads=config.heads,
        vision_image_size=drawing.SIZE,
        vision_patch_size=config.patch,
    )
    optimizer = Optimizer(**_chosen(config, Optimizer._fields))
    sizes = [(stage.steps, stage.pairs) for stage in stages]  # steps, and pairs per step
    with TrainingProgress(workdir / CURVE, config.log_every, "pairs") as progress:
        model = image_text.train(
            shape, tokenizer, stages, optimizer, config.seed,
            workdir / STATE, config.save_every, _reporter(progress, sizes),
        )  # fmt: skip
    image_text.write(out, model, shape, tokenizer)
    ends = list(accumulate(stage.steps for stage in stages))
    losses = {"loss": "image to caption and back"}
    save(draw_curve(read_curve(workdir / CURVE), ends, losses, "pair"), workdir / "curve")
    return ends


def minutes(workdir: Path, ends: Sequence[int]) -> list[float]:
    """Computes the duration of each stage in minutes, from the seconds of the stored curve."""
    by_stage = np.zeros(len(ends))
    for row in read_curve(workdir / CURVE):
        # A step belongs to the first stage that ends at or after it.
        stage = np.searchsorted(ends, row["step"])
        if stage < len(ends):
            by_stage[stage] += row["seconds"]
    return (by_stage / 60).tolist()


def _make_folders(out: Path, workdir: Path) -> None:
    """Makes both folders; deletes the curve if there is no state to resume from."""
    workdir.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    for folder in (workdir, out):
        remove_unfinished(folder, is_ours=False)  # partial files of killed runs
    if not (workdir / STATE).is_file():
        (workdir / CURVE).unlink(missing_ok=True)


def _reporter(
    progress: TrainingProgress, sizes: Sequence[tuple[int, int]]
) -> Callable[[StepReport], None]:
    """Returns a function that shows a step; `sizes` has the steps and units per step by stage."""

    def report(step: StepReport) -> None:
        # Finished units (tokens or pairs) of each stage that has begun.
        done = [steps * size for steps, (_, size) in zip(step.steps, sizes, strict=False)]
        # An upper bound, because a gate may end a stage early.
        most = sum(steps * size for steps, size in sizes[len(done) - 1 :])
        remaining = max(0, most - done[-1])
        progress.step(step.step, {"loss": step.loss, **step.metrics}, sum(done), remaining)

    return report


def _text_stage(settings: dict[str, Any]) -> language.TextStage:
    """Builds a stage from the keys of the config, overridden by the keys of the stage."""
    recipe = _chosen(settings, documents.Recipe._fields)
    recipe["mix"] = tuple(settings["mix"].items())
    stage = _chosen({**settings, "recipe": documents.Recipe(**recipe)}, language.TextStage._fields)
    return language.TextStage(**stage)


def _chosen(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Selects the settings with these names."""
    return {name: config[name] for name in names}
