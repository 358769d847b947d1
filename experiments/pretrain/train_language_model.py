"""Trains the mini language model on next tokens: deterministic by seed, resumable."""

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
    """A stage of training: on which text, how long, how fast.

    Attributes:
        steps: How many at most.
        rows: Packed sequences a step.
        length: Tokens a sequence.
        recipe: What the documents are.
        rate: Learning rate of the first step, and after `steps`; linear between.
        gate: Tasks, and nats: the stage is over as soon as each task's label loss over the last
            `WINDOW` steps is lower, and training stops where `steps` are not enough. None: the
            stage is over after `steps`.
        label_weight: Of a label's token in the loss; any other's is 1.
        grown_to: Layers of the network from this stage on, two more than before, which may be once;
            0: as many as before.
        guidance: Weight of the losses that show the added layers where to look: the first to the
            token before, the second, ahead of a label, to where that label stands already.
        frozen: What this stage does not change.
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
        warmup: Steps over which the first stage's rate rises to its own.
        weight_decay: AdamW's.
        b2: AdamW's.
        clip: The largest norm of a gradient.
        spread: Standard deviation of the first weights; GPT-2's 0.02 is meant for six times the
            width.
        read: Share of the positions whose next token is predicted: positions of labels, and others
            at random, which are weighted for the rest.
    """

    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0
    spread: float = 0.06
    read: float = 1 / 3


def init_model(config: gpt2.Config, spread: float, seed: int) -> gpt2.Model:
    """A network before training; its positions are the sinusoids of Vaswani et al. (2017, 3.5).

    Of these "two tokens before" is one linear map at every position, so a head that has learned to
    attend there from one position has learned it for all. From random positions each is learned by
    itself, which is slower where texts hold several examples (docs/mini.md).
    """
    model = gpt2.Model(config, rngs=nnx.Rngs(seed))
    scaled = [model.embed.embedding]
    for block in model.blocks:
        linears = block.attention.qkv, block.attention.out, block.mlp.fc, block.mlp.proj
        scaled += [linear.kernel for linear in linears]
    for weights in scaled:
        weights[...] = weights[...] * (spread / 0.02)  # linear layers begin at 0.02
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
    """Train from scratch, or from `state_file` where an earlier run left one, on all devices.

    Step `i` of stage `k` sees the batch that `(seed, k, i)` names, so a resumed run sees what an
    unbroken one does. Hands back the model and how many steps each stage took.

    Raises:
        InputError: rows that the devices cannot share, a gate of a task outside its stage or that
            did not open, or a state of another run.
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
        # All but steps and gates, which may be changed where one did not open.
        fixed_stages = [stage._replace(steps=0, gate=None) for stage in stages[:last]]
        schedules = []
        for k, text_stage in enumerate(stages[first:last], first):
            # Layers from `added` on are new: a stage may change them alone.
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
    """Stages that train the same network: the first, and the one behind the last."""
    grows = [k for k, stage in enumerate(stages) if k == 0 or stage.grown_to]
    return list(pairwise([*grows, len(stages)]))


def add_layers(
    model: gpt2.Model, config: gpt2.Config, layers: int, spread: float, seed: int
) -> gpt2.Model:
    """The network with further blocks behind its last one, so many in all."""
    grown = init_model(replace(config, n_layer=layers), spread, seed)
    for shared_part in ("embed", "position_embedding", "ln"):
        nnx.update(getattr(grown, shared_part), nnx.state(getattr(model, shared_part)))
    for new, old in zip(grown.blocks, model.blocks, strict=False):  # the added blocks are new
        nnx.update(new, nnx.state(old))
    return grown


def _changed(stage: TextStage, params: Any, before: int) -> Any:
    """1 for each array that a stage changes, 0 for one that it leaves as it is."""

    def changes(path: tuple[Any, ...], _: Any) -> float:
        names: list[Any] = [getattr(key, "key", None) for key in path]
        if stage.frozen == "words":
            return float("embed" not in names)  # token embeddings, which read too
        if stage.frozen:
            return float("blocks" in names and names[1] >= before)
        return 1.0

    return jax.tree_util.tree_map_with_path(changes, params)


def check_stages(stages: Sequence[TextStage], raw_config: dict[str, Any], devices: int) -> None:
    """Refuse stages that cannot be trained, before anything is made of them."""
    if not stages:
        raise InputError(key="stages", expected="one stage at least", got="none")
    positions, layers = raw_config["n_positions"], [raw_config["n_layer"]]
    for number, stage in enumerate(stages, 1):
        if max(stage.length, stage.recipe.reach) > positions:
            raise InputError(
                f"stage {number}: its length of {stage.length} tokens and reach of "
                f"{stage.recipe.reach} must be within config.positions = {positions}; "
                "raise the positions or shorten the stage."
            )
        if stage.grown_to not in (0, layers[-1] + 2) or (stage.grown_to and len(layers) > 1):
            raise InputError.at(
                f"stage {number}",
                f"grown_to to be 0 or, once, {layers[0] + 2}",
                stage.grown_to,
                f"two layers are added to the {layers[0]} of config.layers",
            )
        layers += [stage.grown_to] if stage.grown_to else []
        if stage.frozen not in get_args(Frozen):
            raise InputError.unknown(
                f"part to freeze in stage {number}", stage.frozen, get_args(Frozen)
            )
        if (stage.guidance or stage.frozen.startswith("all")) and len(layers) == 1:
            raise InputError(
                f"stage {number}: its guidance or what it freezes asks for added layers, and none "
                f"were added; give it grown_to={layers[0] + 2}."
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
                    f"stage {number}: {task} has no example as easy as hardest = "
                    f"{stage.recipe.hardest}; its easiest is of grade {easiest_grade}."
                )
        if stage.rows % devices:
            raise InputError(
                f"stage {number}: {stage.rows} rows cannot be shared by {devices} devices; give "
                f"a multiple of {devices}, or (on a CPU) another config.cpu_devices."
            )
        shares = dict(stage.recipe.mix) | dict.fromkeys(GUIDED, stage.guidance)
        for task in stage.gate[0] if stage.gate else ():
            if not shares.get(task):
                raise InputError(
                    f"stage {number}: its gate asks for {task}, which its mix has not; "
                    f"there is: {', '.join(shares)}."
                )


def _stage(
    number: int, text: TextStage, warmup: int, names: list[str], changed: Any = 1.0
) -> Stage:
    """The schedule of a stage: its rate for each array, and when it is over."""

    def rate(step: int) -> Any:
        begin, end = text.rate
        new = number == 0 or text.grown_to  # warms up anew
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
                f"stage {number + 1}: after {step} steps the label loss of the last {WINDOW} is "
                f"{', '.join(high)}, expected below {nats:g}; the state is kept: raise the "
                "stage's steps in the config and start again, it goes on where it was."
            )
        return not high

    return Stage(text.steps, rate, over)
