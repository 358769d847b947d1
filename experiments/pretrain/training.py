"""Training of the mini language model: next-token prediction, deterministic by seed, resumable."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.embedded import suite
from batch_calibration.errors import InputError
from batch_calibration.models import gpt2
from batch_calibration.models.attention import PLAIN, Attend, AttentionOptions
from batch_calibration.tasks.base import Task
from experiments.pretrain import documents, prose
from experiments.pretrain.documents import Batch, Recipe
from experiments.pretrain.optimization import WINDOW, Step, Stretch, adamw, minimize


class Phase(NamedTuple):
    """A stretch of training.

    Attributes:
        steps: How many at most.
        rows: Packed sequences a step.
        length: Tokens a sequence.
        recipe: What the documents are.
        rate: Learning rate of the first step, and after `steps`; linear between.
        gate: Tasks, and nats: the phase is over as soon as each task's label loss over the last
            `WINDOW` steps is lower, and training stops where `steps` are not enough. None: the
            phase is over after `steps`.
    """

    steps: int
    rows: int
    length: int
    recipe: Recipe
    rate: tuple[float, float] = (1e-3, 1e-3)
    gate: tuple[tuple[str, ...], float] | None = None


class Learning(NamedTuple):
    """How all phases learn.

    Attributes:
        warmup: Steps over which the first phase's rate rises to its own.
        weight_decay: AdamW's.
        b2: AdamW's.
        clip: The largest norm of a gradient.
        label_weight: Of a label's token; any other's is 1.
        spread: Standard deviation of the first weights; GPT-2's 0.02 is meant for six times the
            width.
        read: Share of the places whose next token is scored: the labels', and others at random,
            which then count for the rest.
    """

    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0
    label_weight: float = 10.0
    spread: float = 0.06
    read: float = 1 / 3


class Told(NamedTuple):
    """What one step says.

    Attributes:
        steps: Done of each phase that has begun, itself among them.
        loss: Of all tokens, labels weighted, in nats.
        labels: Of the label tokens alone, for each task that the batch has.
        tokens: In its batch.
    """

    steps: tuple[int, ...]
    loss: float
    labels: dict[str, float]
    tokens: int


class Lesson(NamedTuple):
    """Packed sequences `[b, t]` and the places `[b, m]` whose next tokens are to be predicted.

    Attributes:
        tokens: Ids.
        positions: Their places within the document.
        document: The document's number within the sequence.
        read: The places in the sequence.
        weight: What the next token counts.
        label: Of a label's token the number of the task, -1 elsewhere.
    """

    tokens: np.ndarray
    positions: np.ndarray
    document: np.ndarray
    read: np.ndarray
    weight: np.ndarray
    label: np.ndarray


def lesson(batch: Batch, share: float, label_weight: float, rng: np.random.Generator) -> Lesson:
    """Choose what to read of a batch: `share` of its places, labels first, the same in each row.

    Places that are left out are counted with those of their kind that are read, so the expected
    loss is that of all places. Labels get half of the places where there are too many for all.
    """
    rows, size = len(batch.tokens), math.ceil(share * (batch.tokens.shape[1] - 1))
    read, weight = np.zeros((rows, size), np.int32), np.zeros((rows, size), np.float32)
    known = batch.document[:, 1:] == batch.document[:, :-1]
    label = np.where(known, batch.label[:, 1:], -1)
    for row in range(rows):
        kinds = np.flatnonzero(label[row] >= 0), np.flatnonzero(known[row] & (label[row] < 0))
        labels = min(len(kinds[0]), max(size // 2, size - len(kinds[1])))
        at = 0
        for kind, most, each in zip(
            kinds, (labels, size - labels), (label_weight, 1.0), strict=True
        ):
            chosen = rng.permutation(kind)[:most]
            here = slice(at, at + len(chosen))
            read[row, here] = chosen
            weight[row, here] = each * len(kind) / max(1, len(chosen))
            at += len(chosen)
    label = np.where(weight > 0, np.take_along_axis(label, read, axis=1), -1).astype(np.int32)
    return Lesson(batch.tokens, batch.positions, batch.document, read, weight, label)


def loss(model: gpt2.Model, lesson: Lesson, tasks: int) -> tuple[jax.Array, jax.Array]:
    """Weighted next-token loss in nats; of each task's labels the sum and the number `[2, k]`."""
    same = lesson.document[:, :, None] == lesson.document[:, None, :]
    past = jnp.tril(jnp.ones((lesson.tokens.shape[1],) * 2, bool))
    h = model.hidden(jnp.asarray(lesson.tokens), jnp.asarray(lesson.positions), _whole(same & past))
    logits = model.unembed(jnp.take_along_axis(h, lesson.read[..., None], axis=1))
    following = jnp.take_along_axis(jnp.asarray(lesson.tokens), lesson.read + 1, axis=1)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, following)
    of_task = jax.nn.one_hot(lesson.label, tasks)
    labels = jnp.stack([jnp.einsum("bm,bmk->k", nll, of_task), of_task.sum((0, 1))])
    return (nll * lesson.weight).sum() / lesson.weight.sum(), labels


def begin(config: gpt2.Config, spread: float, seed: int) -> gpt2.Model:
    """A network to start from; its positions are the sinusoids of Vaswani et al. (2017, 3.5).

    Of these "two places before" is one linear map wherever one stands, so a head that has learned
    to look there in one place has learned it in all. From random positions each place learns by
    itself, which is slower where texts hold several examples (docs/mini.md).
    """
    model = gpt2.Model(config, rngs=nnx.Rngs(seed))
    for weights in (model.wte.embedding, *(
        linear.kernel for block in model.blocks
        for linear in (block.qkv, block.out, block.fc, block.proj)
    )):  # fmt: skip
        weights[...] = weights[...] * (spread / 0.02)
    half = config.n_embd // 2
    angles = np.arange(config.n_positions)[:, None] * 1e4 ** (-np.arange(half) / half)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) * spread * 2**0.5
    model.wpe.embedding[...] = jnp.asarray(waves, jnp.float32)
    return model


def _whole(mask: jax.Array) -> Attend:
    """Attention where `mask [b, t, s]` is true, all heads at once: faster here than `masked`."""
    bias = jnp.where(mask, 0.0, -1e9)[:, None]

    def attend(
        layer: int, q: jax.Array, k: jax.Array, v: jax.Array, options: AttentionOptions = PLAIN
    ) -> jax.Array:
        del layer, options  # GPT-2's are plain
        logits = jnp.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k) + bias
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits, axis=-1), v)

    return attend


def train(
    raw_config: dict[str, Any],
    tasks: dict[str, Task],
    tokenizer: Tokenizer,
    phases: Sequence[Phase],
    learning: Learning,
    seed: int,
    state_file: Path,
    save_every: int,
    report: Callable[[Told], None],
) -> tuple[gpt2.Model, list[int]]:
    """Train from scratch, or from `state_file` where an earlier run left one, on all devices.

    Step `i` of phase `k` sees the batch that `(seed, k, i)` names, so a resumed run sees what an
    unbroken one does. Hands back the model and how many steps each phase took.

    Raises:
        InputError: rows that the devices cannot share, a gate of a task outside its phase or that
            did not open, or a state of another run.
    """
    devices, names = jax.device_count(), documents.names(tasks)
    check(phases, raw_config["n_positions"], devices)
    config = gpt2.Config(
        **{f.name: raw_config[f.name] for f in fields(gpt2.Config) if f.name in raw_config}
    )
    graph, params = nnx.split(begin(config, learning.spread, seed))

    def batch(number: int, index: int) -> Lesson:
        phase, rng = phases[number], random.Random(f"{seed}/{number}/{index}")
        source = documents.documents(tasks, phase.recipe, tokenizer, rng)
        made = documents.batch(source, phase.rows, phase.length)
        chooser = np.random.default_rng([seed, number, index])
        return lesson(made, learning.read, learning.label_weight, chooser)

    def tell(now: Step) -> None:
        labels = {n: float(s / c) for n, s, c in zip(names, *now.watched, strict=True) if c}
        report(Told(now.steps, now.loss, labels, now.batch.tokens.size))

    # All but steps and gates, which may be changed where one did not open.
    alike = [phase._replace(steps=0, gate=None) for phase in phases]
    identity = repr((seed, raw_config, learning, alike, tokenizer.to_str()))
    params, steps = minimize(
        lambda params, batch: loss(nnx.merge(graph, params), batch, len(names)),
        (2, len(names)), params, batch,
        [_stretch(k, phase, learning.warmup, names) for k, phase in enumerate(phases)],
        adamw(1.0, learning.weight_decay, learning.b2, learning.clip),
        state_file, save_every, tell, devices, identity,
    )  # fmt: skip
    return nnx.merge(graph, params), steps


def check(phases: Sequence[Phase], positions: int, devices: int) -> None:
    """Refuse phases that cannot be trained, before anything is made of them."""
    if not phases:
        raise InputError("config.phases: expected one phase at least, got none.")
    for number, phase in enumerate(phases, 1):
        if max(phase.length, phase.recipe.reach) > positions:
            raise InputError(
                f"phase {number}: its length of {phase.length} tokens and reach of "
                f"{phase.recipe.reach} must be within config.positions = {positions}; "
                "raise the positions or shorten the phase."
            )
        for task, _ in phase.recipe.mix:
            if task in prose.KINDS:
                continue
            if task not in suite.GRAMMARS:
                raise InputError.unknown(
                    f"text in the mix of phase {number}", task, (*suite.GRAMMARS, *prose.KINDS)
                )
            if (least := suite.easiest(task)) > phase.recipe.hardest:
                raise InputError(
                    f"phase {number}: {task} has no example as easy as hardest = "
                    f"{phase.recipe.hardest}; its easiest is of grade {least}."
                )
        if phase.rows % devices:
            raise InputError(
                f"phase {number}: {phase.rows} rows cannot be shared by {devices} devices; give "
                f"a multiple of {devices}, or (on a CPU) another config.cpu_devices."
            )
        shares = dict(phase.recipe.mix)
        for task in phase.gate[0] if phase.gate else ():
            if not shares.get(task):
                raise InputError(
                    f"phase {number}: its gate asks for {task}, which its mix has not; "
                    f"there is: {', '.join(shares)}."
                )


def _stretch(number: int, phase: Phase, warmup: int, names: list[str]) -> Stretch:
    """A phase as `minimize` sees it: its rate and when it is over."""

    def rate(step: int) -> float:
        begin, end = phase.rate
        warm = min(1.0, (step + 1) / warmup) if number == 0 and warmup else 1.0
        return warm * (begin + (end - begin) * step / phase.steps)

    def over(step: int, recent: jax.Array) -> bool:
        if phase.gate is None or step < min(WINDOW, phase.steps):
            return step >= phase.steps
        sums, counts = np.asarray(recent)[-min(step, WINDOW) :].sum(axis=0)
        tasks, nats = phase.gate
        means = {task: sums[names.index(task)] / counts[names.index(task)] for task in tasks}
        high = [f"{task} {mean:.3f}" for task, mean in means.items() if not mean < nats]
        if high and step >= phase.steps:
            raise InputError(
                f"phase {number + 1}: after {step} steps the label loss of the last {WINDOW} is "
                f"{', '.join(high)}, expected below {nats:g}; the state is kept: raise the "
                "phase's steps in the config and start again, it goes on where it was."
            )
        return not high

    return Stretch(phase.steps, rate, over)
