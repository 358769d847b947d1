"""Trains the embedded models as a training config says, and writes them with their loss curves."""

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
    """Train, and print how long each stage took."""
    # The step at which each stage ended; a stage begins where the one before it ended.
    ends = train(config, Path(out), Path(workdir))
    spent = minutes(Path(workdir), ends)
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        print(f"stage {number + 1}: {end - begin} steps, {spent[number]:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


def train_language_model(config: ConfigDict, out: Path, workdir: Path) -> list[int]:
    """Train and show progress; a stopped run goes on where it was.

    The checkpoint is a Hugging Face directory in `out`; state and loss curve are in `workdir`.

    Returns:
        After which step each stage was over.

    Raises:
        InputError: stages that cannot be trained, or the state of another run.
    """
    if "stages" not in config or "width" not in config:
        raise InputError.at(
            "--config", "a training run with stages", "none", "give --config=configs/train_mini.py"
        )
    # Must come before anything asks for a device.
    jax.config.update("jax_num_cpu_devices", config.cpu_devices)
    stage_keys = {*documents.Recipe._fields, *language.TextStage._fields}
    for stage in config.stages:
        for key in stage:
            if key not in stage_keys:
                raise InputError.unknown("key of a stage", key, sorted(stage_keys - {"recipe"}))
    # A stage's keys win over the config's.
    stages = tuple(_text_stage({**config, **stage}) for stage in config.stages)
    shape = {"n_positions": config.positions, "n_layer": config.layers}
    language.check_stages(stages, shape, jax.device_count())
    _make_folders(out, workdir)
    names = dict(chain.from_iterable(stage.recipe.mix for stage in stages))
    tasks = {name: get_task(name) for name in names if name not in prose.GENERATORS}
    # The vocabulary is of the text before layers are added: the last stage of the first network.
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
        "n_inner": None,  # None is four times the width
        "activation_function": "gelu_new",  # the approximation by tanh that GPT-2 has
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,  # no dropout: no text comes twice
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": end,
        "eos_token_id": end,
        "tie_word_embeddings": True,
    }
    shared = _chosen(config, language.Hyperparameters._fields)
    # Most steps, tokens a step.
    sizes = [(stage.steps, stage.rows * stage.length) for stage in stages]
    with TrainingProgress(workdir / CURVE, config.log_every, "tokens") as progress:
        model, steps = language.train(
            raw, tasks, tokenizer, stages, language.Hyperparameters(**shared), config.seed,
            workdir / STATE, config.save_every, _reporter(progress, sizes),
        )  # fmt: skip
    # The number of layers counts those that were added.
    weights.save(out, model, gpt2.FAMILY, raw | {"n_layer": len(model.blocks)})
    tokenizer.save(str(out / "tokenizer.json"))
    ends, rows = list(accumulate(steps)), read_curve(workdir / CURVE)
    measured = set(chain.from_iterable(rows))
    shown = [name for name in (*documents.names(TASKS), *GUIDED) if name in measured]
    save(draw_curve(rows, ends, tasks=shown), workdir / "curve")
    return ends


def train_clip(config: ConfigDict, out: Path, workdir: Path) -> list[int]:
    """Train the tiny CLIP; as `train_language_model`."""
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
        text_eos_token_id=tokenizer.get_vocab_size() - 1,  # the end mark has the last id
        vision_hidden_size=config.width,
        vision_intermediate_size=4 * config.width,
        vision_num_hidden_layers=config.layers,
        vision_num_attention_heads=config.heads,
        vision_image_size=drawing.SIZE,
        vision_patch_size=config.patch,
    )
    optimizer = Optimizer(**_chosen(config, Optimizer._fields))
    sizes = [(stage.steps, stage.pairs) for stage in stages]  # steps, pairs a step
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
    """Duration of each stage, by its last step and the curve that was kept."""
    by_stage = np.zeros(len(ends))
    for row in read_curve(workdir / CURVE):
        # The stage of a step is the first whose end it does not lie behind.
        stage = np.searchsorted(ends, row["step"])
        if stage < len(ends):
            by_stage[stage] += row["seconds"]
    return (by_stage / 60).tolist()


def _make_folders(out: Path, workdir: Path) -> None:
    """Make both folders; without a state the curve is of a run that will not go on."""
    workdir.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    for folder in (workdir, out):
        remove_unfinished(folder, is_ours=False)  # of trainings that were killed while they wrote
    if not (workdir / STATE).is_file():
        (workdir / CURVE).unlink(missing_ok=True)


def _reporter(
    progress: TrainingProgress, sizes: Sequence[tuple[int, int]]
) -> Callable[[StepReport], None]:
    """Shows each step, by the most steps of each stage and the units in one of them."""

    def report(step: StepReport) -> None:
        # Units of each stage that has begun.
        done = [steps * size for steps, (_, size) in zip(step.steps, sizes, strict=False)]
        # At most, as a gate may end a stage before.
        most = sum(steps * size for steps, size in sizes[len(done) - 1 :])
        remaining = max(0, most - done[-1])
        progress.step(step.step, {"loss": step.loss, **step.metrics}, sum(done), remaining)

    return report


def _text_stage(settings: dict[str, Any]) -> language.TextStage:
    """A stage of the config, which may set knobs of the text for itself."""
    recipe = _chosen(settings, documents.Recipe._fields)
    recipe["mix"] = tuple(settings["mix"].items())
    stage = _chosen({**settings, "recipe": documents.Recipe(**recipe)}, language.TextStage._fields)
    return language.TextStage(**stage)


def _chosen(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The settings of some names."""
    return {name: config[name] for name in names}
