"""Training of the mini language model: next-token prediction, deterministic by seed, resumable."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import safetensors.numpy
from flax import nnx
from safetensors import safe_open
from tokenizers import Tokenizer

from batch_calibration.files import write_whole
from batch_calibration.mini import documents
from batch_calibration.mini.documents import Batch, Recipe
from batch_calibration.models import gpt2
from batch_calibration.models.attention import masked
from batch_calibration.tasks.base import Task
from batch_calibration.typing import InputError


class Phase(NamedTuple):
    """A stretch of training: how many steps, on how many packed sequences of what length."""

    steps: int
    rows: int
    length: int
    recipe: Recipe


class Optimizer(NamedTuple):
    """AdamW with warm-up and cosine decay over all phases."""

    peak: float = 1e-3
    final: float = 5e-5
    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0
    label_weight: float = 10.0


class Progress(NamedTuple):
    """What one step says: total steps done, mean loss in nats per token, and of labels alone."""

    step: int
    loss: float
    label_loss: float
    tokens: int


def loss(model: gpt2.Model, batch: Batch, label_weight: float) -> tuple[jax.Array, jax.Array]:
    """Weighted next-token loss in nats, and the loss on label tokens alone."""
    same = batch.document[:, :, None] == batch.document[:, None, :]
    past = jnp.tril(jnp.ones((batch.tokens.shape[1],) * 2, bool))
    tokens, positions = jnp.asarray(batch.tokens), jnp.asarray(batch.positions)
    logits = model.unembed(model.hidden(tokens, positions, masked(same & past)))[:, :-1]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch.tokens[:, 1:])
    counted = batch.document[:, 1:] == batch.document[:, :-1]
    label = counted & batch.is_label[:, 1:]
    weight = jnp.where(label, label_weight, 1.0) * counted.astype(jnp.float32)
    total = (nll * weight).sum() / weight.sum()
    return total, jnp.mean(nll, where=label)


def train(
    raw_config: dict[str, Any],
    tasks: dict[str, Task],
    tokenizer: Tokenizer,
    phases: tuple[Phase, ...],
    optimizer: Optimizer,
    seed: int,
    state_file: Path,
    save_every: int,
    report: Callable[[Progress], None],
) -> gpt2.Model:
    """Train from scratch, or from `state_file` where an earlier run left one; hand back the model.

    Step `i` sees the batch that `(seed, i)` names, so a resumed run sees what an unbroken one does.
    """
    config = gpt2.Config(**{k: raw_config[k] for k in gpt2.Config._fields if k in raw_config})
    graph, params = nnx.split(gpt2.Model(config, rngs=nnx.Rngs(seed)))
    total = sum(phase.steps for phase in phases)
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, optimizer.peak, min(optimizer.warmup, total // 2), total, optimizer.final
    )
    update_rule = optax.chain(
        optax.clip_by_global_norm(optimizer.clip),
        optax.adamw(schedule, b2=optimizer.b2, weight_decay=optimizer.weight_decay),
    )

    @jax.jit
    def step(carry: Any, batch: Batch) -> Any:
        params, state = carry
        (value, label), grads = jax.value_and_grad(
            lambda p: loss(nnx.merge(graph, p), batch, optimizer.label_weight), has_aux=True
        )(params)
        updates, state = update_rule.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), value, label

    carry = (params, update_rule.init(params))
    done, carry = _resume(state_file, carry)
    for index, phase in _schedule(phases, done):
        rng = random.Random(f"{seed}/{index}")
        made = documents.batch(
            documents.documents(tasks, phase.recipe, tokenizer, rng), phase.rows, phase.length
        )
        carry, value, label = step(carry, made)
        report(Progress(index + 1, float(value), float(label), phase.rows * phase.length))
        if (index + 1) % save_every == 0 or index + 1 == total:
            _save(state_file, carry, index + 1)
    return nnx.merge(graph, carry[0])


def _schedule(phases: tuple[Phase, ...], done: int) -> list[tuple[int, Phase]]:
    return list(enumerate(phase for phase in phases for _ in range(phase.steps)))[done:]


def _save(path: Path, carry: Any, step: int) -> None:
    leaves = jax.tree.leaves(carry)
    arrays = {f"{i:05d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    write_whole(path, safetensors.numpy.save(arrays, metadata={"step": str(step)}))


def _resume(path: Path, carry: Any) -> tuple[int, Any]:
    if not path.is_file():
        return 0, carry
    leaves, shape = jax.tree.flatten(carry)
    with safe_open(path, framework="numpy") as file:
        found = [file.get_tensor(name) for name in sorted(file.keys())]
        step = int(file.metadata()["step"])
    if [np.shape(leaf) for leaf in found] != [np.shape(leaf) for leaf in leaves]:
        raise InputError(
            f"{path}: holds a run of another shape than the config's; "
            "give another workdir, or delete the file to start again."
        )
    return step, jax.tree.unflatten(shape, [jnp.asarray(leaf) for leaf in found])
