"""Training of the mini language model: next-token prediction, deterministic by seed, resumable."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from tokenizers import Tokenizer

from batch_calibration.mini import documents
from batch_calibration.mini.documents import Batch, Recipe
from batch_calibration.mini.optimization import Optimizer, minimize
from batch_calibration.models import gpt2
from batch_calibration.models.attention import masked
from batch_calibration.tasks.base import Task


class Phase(NamedTuple):
    """A stretch of training: how many steps, on how many packed sequences of what length."""

    steps: int
    rows: int
    length: int
    recipe: Recipe


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
    label_weight: float = 10.0,
) -> gpt2.Model:
    """Train from scratch, or from `state_file` where an earlier run left one; hand back the model.

    Step `i` sees the batch that `(seed, i)` names, so a resumed run sees what an unbroken one does.
    """
    config = gpt2.Config(**{k: raw_config[k] for k in gpt2.Config._fields if k in raw_config})
    graph, params = nnx.split(gpt2.Model(config, rngs=nnx.Rngs(seed)))
    schedule = [phase for phase in phases for _ in range(phase.steps)]

    def batch(index: int) -> Batch:
        phase, rng = schedule[index], random.Random(f"{seed}/{index}")
        return documents.batch(
            documents.documents(tasks, phase.recipe, tokenizer, rng), phase.rows, phase.length
        )

    params = minimize(
        lambda params, batch: loss(nnx.merge(graph, params), batch, label_weight),
        params, batch, len(schedule), optimizer, state_file, save_every,
        lambda step, made, value, label: report(Progress(step, value, label, made.tokens.size)),
    )  # fmt: skip
    return nnx.merge(graph, params)
