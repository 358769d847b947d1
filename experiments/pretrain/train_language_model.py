"""Trains the mini language model; runs are deterministic by seed and can be resumed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.errors import InputError
from batch_calibration.scoring.models import gpt2
from batch_calibration.scoring.tasks.base import Task
from experiments.pretrain import documents, prose
from experiments.pretrain.documents import Recipe
from experiments.pretrain.grammar import suite
from experiments.pretrain.objective import GUIDED, TrainBatch, loss, make_train_batch
from experiments.pretrain.optimization import WINDOW, Stage, Step, StepReport, adamw, minimize

Frozen = Literal["", "words", "all but the added layers"]


class TextStage(NamedTuple):
    """A stage of training: its text, length and learning rate.

    Attributes:
        steps: Maximum number of steps.
        rows: Packed sequences per step.
        length: Tokens per sequence.
        recipe: Distribution of the documents.
        rate: Learning rates at the first step and after `steps` steps; linear in between.
        gate: Tasks and a threshold in nats. The stage ends as soon as the label loss of each task
            over the last `WINDOW` steps is below the threshold; training stops with an error if
            `steps` steps do not reach it. None: the stage ends after `steps` steps.
        label_weight: Weight of label tokens in the loss; other tokens have weight 1.
        grown_to: Number of layers from this stage on. Only one stage may add layers, and it has to
            add two. 0: no layers are added.
        guidance: Weight of the attention losses of the added layers. They guide the first added
            layer to the previous token, and the second, before a label, to earlier occurrences of
            that label.
        frozen: Parameters that this stage does not change.
    """

    steps: int
    rows: int
    length: int
    recipe: Recipe
    rate: tuple[float, float] = (1e-3, 1e-3)
    gate: tuple[tuple[str, ...], float] | None = None
    label_weight: float = 10.0
    grown_to: int = 0
    guidance: float = 0.0
    frozen: Frozen = ""


class Hyperparameters(NamedTuple):
    """Settings that all stages share.

    Attributes:
        warmup: Warm-up steps of the learning rate, in the first stage and after adding layers.
        weight_decay: Weight decay of AdamW.
        b2: Decay rate of AdamW's second moments.
        clip: Maximum global norm of the gradient.
        spread: Standard deviation of the initial weights; GPT-2's 0.02 fits networks of six times
            the width.
        read: Share of the positions in the loss (see `make_train_batch`).
    """

    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0
    spread: float = 0.06
    read: float = 1 / 3


def init_model(config: gpt2.Config, spread: float, seed: int) -> gpt2.Model:
    """Initializes a network, with position embeddings from Vaswani et al. (2017, 3.5).

    With these sinusoids a shift by a number of tokens is the same linear map at every position, so
    a head that learns to attend two tokens back at one position has learned it for all positions.
    From random position embeddings each position is learned separately, which is slower on texts of
    several examples (docs/mini.md).
    """
    model = gpt2.Model(config, rngs=nnx.Rngs(seed))
    scaled = [model.embed.embedding]
    for block in model.blocks:
        linears = block.attention.qkv, block.attention.out, block.mlp.fc, block.mlp.proj
        scaled += [linear.kernel for linear in linears]
    for weights in scaled:
        weights[...] = weights[...] * (spread / 0.02)  # they are initialized with 0.02
    half = config.n_embd // 2
    angles = np.arange(config.n_positions)[:, None] * 1e4 ** (-np.arange(half) / half)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) * spread * 2**0.5
    model.position_embedding.embedding[...] = jnp.asarray(waves, jnp.float32)
    return model


def train(
    raw_config: dict[str, Any],
    tasks: dict[str, Task],
    tokenizer: Tokenizer,
    stages: Sequence[TextStage],
    hyperparameters: Hyperparameters,
    seed: int,
    state_file: Path,
    save_every: int,
    report: Callable[[StepReport], None],
) -> tuple[gpt2.Model, list[int]]:
    """Trains on all devices from scratch, or resumes from `state_file` if it exists.

    The batch of step `i` of stage `k` depends only on `(seed, k, i)`, so a resumed run sees the
    same batches.

    Returns:
        The model, and the number of steps of each stage.

    Raises:
        InputError: the stages cannot be trained (see `check_stages`), a stage does not reach its
            gate's threshold, or the state belongs to another run.
    """
    devices, names = jax.device_count(), documents.names(tasks)
    check_stages(stages, raw_config, devices)
    config = gpt2.Config(
        **{f.name: raw_config[f.name] for f in fields(gpt2.Config) if f.name in raw_config}
    )
    model = init_model(config, hyperparameters.spread, seed)
    steps, metric_names = list[int](), names
    optimizer = adamw(1.0, hyperparameters.weight_decay, hyperparameters.b2, hyperparameters.clip)

    def batch(first: int, number: int, index: int) -> TrainBatch:
        number += first
        stage, rng = stages[number], random.Random(f"{seed}/{number}/{index}")
        source = documents.documents(tasks, stage.recipe, tokenizer, rng)
        packed = documents.pack(source, stage.rows, stage.length)
        chooser = np.random.default_rng([seed, number, index])
        return make_train_batch(
            packed, hyperparameters.read, stage.label_weight, chooser, stage.guidance
        )

    def report_step(step: Step) -> None:
        labels = {n: float(s / c) for n, s, c in zip(metric_names, *step.metrics, strict=True) if c}
        report(StepReport((*steps, *step.steps), step.loss, labels, step.batch.tokens.size))

    for first, last in networks(stages):
        added = None
        if stages[first].grown_to:
            added, metric_names = len(model.blocks), [*names, *GUIDED]
            model = add_layers(model, config, stages[first].grown_to, hyperparameters.spread, seed)
            state_file = state_file.with_stem(f"{state_file.stem}-{len(model.blocks)}-layers")
        graph, params = nnx.split(model)
        # Steps and gates are excluded from the run's identity: a user may change them and resume
        # after a stage did not reach its threshold.
        fixed_stages = [stage._replace(steps=0, gate=None) for stage in stages[:last]]
        schedules = []
        for k, text_stage in enumerate(stages[first:last], first):
            # Layers from `added` on are new; a stage may freeze all other parameters.
            changed = _changed(text_stage, params, added or 0)
            schedules.append(_stage(k, text_stage, hyperparameters.warmup, metric_names, changed))
        params, taken = minimize(
            partial(_loss, graph, len(names), added), (2, len(metric_names)), params,
            partial(batch, first),
            schedules,
            optimizer, state_file, save_every, report_step, devices,
            repr((seed, raw_config, hyperparameters, fixed_stages, tokenizer.to_str())),
        )  # fmt: skip
        model, steps = nnx.merge(graph, params), [*steps, *taken]
    return model, steps


def _loss(
    graph: nnx.GraphDef[gpt2.Model], tasks: int, added: int | None, params: Any, batch: TrainBatch
) -> tuple[jax.Array, jax.Array]:
    return loss(nnx.merge(graph, params), batch, tasks, added)


def networks(stages: Sequence[TextStage]) -> list[tuple[int, int]]:
    """Groups the stages by network: for each, the first stage and the one after its last."""
    grows = [k for k, stage in enumerate(stages) if k == 0 or stage.grown_to]
    return list(pairwise([*grows, len(stages)]))


def add_layers(
    model: gpt2.Model, config: gpt2.Config, layers: int, spread: float, seed: int
) -> gpt2.Model:
    """Returns a copy of the network with new blocks after its last one, `layers` in total."""
    grown = init_model(replace(config, n_layer=layers), spread, seed)
    for shared_part in ("embed", "position_embedding", "ln"):
        nnx.update(getattr(grown, shared_part), nnx.state(getattr(model, shared_part)))
    for new, old in zip(grown.blocks, model.blocks, strict=False):  # the added blocks are new
        nnx.update(new, nnx.state(old))
    return grown


def _changed(stage: TextStage, params: Any, before: int) -> Any:
    """Maps each parameter array to 1 if the stage trains it, or 0 if it is frozen.

    Blocks from `before` on are the added ones.
    """

    def changes(path: tuple[Any, ...], _: Any) -> float:
        names: list[Any] = [getattr(key, "key", None) for key in path]
        if stage.frozen == "words":
            return float("embed" not in names)  # token embeddings, shared with the unembedding
        if stage.frozen:
            return float("blocks" in names and names[1] >= before)
        return 1.0

    return jax.tree_util.tree_map_with_path(changes, params)


def check_stages(stages: Sequence[TextStage], raw_config: dict[str, Any], devices: int) -> None:
    """Checks that the stages can be trained on this number of devices.

    Raises:
        InputError: a stage has a wrong length, layers, freezing, text, rows or gate.
    """
    if not stages:
        raise InputError(key="stages", expected="at least one stage", got="none")
    positions, layers = raw_config["n_positions"], [raw_config["n_layer"]]
    for number, stage in enumerate(stages, 1):
        if max(stage.length, stage.recipe.reach) > positions:
            expected = f"length and reach of at most config.positions = {positions}"
            got = f"length = {stage.length}, reach = {stage.recipe.reach}"
            remedy = "raise the positions, or lower length and reach"
            raise InputError.at(f"stage {number}", expected, got, remedy)
        if stage.grown_to not in (0, layers[-1] + 2) or (stage.grown_to and len(layers) > 1):
            raise InputError.at(
                f"stage {number}",
                f"grown_to to be 0 or, once, {layers[0] + 2}",
                stage.grown_to,
                f"a stage adds two layers to config.layers = {layers[0]}",
            )
        layers += [stage.grown_to] if stage.grown_to else []
        if stage.frozen not in get_args(Frozen):
            raise InputError.unknown(
                f"part to freeze in stage {number}", stage.frozen, get_args(Frozen)
            )
        if (stage.guidance or stage.frozen.startswith("all")) and len(layers) == 1:
            raise InputError(
                f"stage {number}: its guidance or frozen needs added layers, but no stage so far "
                f"adds layers; give it grown_to={layers[0] + 2}."
            )
        for task, _ in stage.recipe.mix:
            if task in prose.GENERATORS:
                continue
            if task not in suite.GRAMMARS:
                raise InputError.unknown(
                    f"text in the mix of stage {number}", task, (*suite.GRAMMARS, *prose.GENERATORS)
                )
            if (easiest_grade := suite.easiest(task)) > stage.recipe.hardest:
                raise InputError(
                    f"stage {number}: {task} has no example of grade hardest = "
                    f"{stage.recipe.hardest} or lower; give at least {easiest_grade}."
                )
        if stage.rows % devices:
            expected = f"rows that are a multiple of the {devices} devices"
            remedy = "change them, or (on a CPU) config.cpu_devices"
            raise InputError.at(f"stage {number}", expected, f"rows = {stage.rows}", remedy)
        shares = dict(stage.recipe.mix) | dict.fromkeys(GUIDED, stage.guidance)
        for task in stage.gate[0] if stage.gate else ():
            if not shares.get(task):
                raise InputError(
                    f"stage {number}: its gate names {task}, which is not in its mix; "
                    f"the mix has: {', '.join(shares)}."
                )


def _stage(
    number: int, text: TextStage, warmup: int, names: list[str], changed: Any = 1.0
) -> Stage:
    """Builds the schedule of a stage: the learning rate of each array, and the end of the stage."""

    def rate(step: int) -> Any:
        begin, end = text.rate
        new = number == 0 or text.grown_to  # a new network warms up again
        warm = min(1.0, (step + 1) / warmup) if new and warmup else 1.0
        rate_now = warm * (begin + (end - begin) * step / text.steps)
        return jax.tree.map(lambda share: np.float32(rate_now * share), changed)

    def over(step: int, recent: jax.Array) -> bool:
        if text.gate is None or step < min(WINDOW, text.steps):
            return step >= text.steps
        sums, counts = np.asarray(recent)[-min(step, WINDOW) :].sum(axis=0)  # [2, names]
        tasks, nats = text.gate
        means = {task: sums[names.index(task)] / counts[names.index(task)] for task in tasks}
        high = [f"{task} {mean:.3f}" for task, mean in means.items() if not mean < nats]
        if high and step >= text.steps:
            raise InputError(
                f"stage {number + 1}: after {step} steps the label loss over the last {WINDOW} is "
                f"{', '.join(high)}, expected below {nats:g}; the state is saved: raise the "
                "stage's steps in the config and start again to resume the run."
            )
        return not high

    return Stage(text.steps, rate, over)
