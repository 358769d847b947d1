"""Trains a network with AdamW; runs are deterministic and can be resumed at any saved step."""

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import safetensors.numpy
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from safetensors import safe_open

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole

WINDOW = 50
"""Number of recent steps in the running metrics; their mean decides when a stage ends."""


class Optimizer(NamedTuple):
    """AdamW with warm-up and cosine decay of the learning rate over all steps."""

    peak: float = 1e-3
    final: float = 5e-5
    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0

    def transformation(self, total: int) -> optax.GradientTransformation:
        """Makes the optimizer for a run of `total` steps."""
        # In a short run the warm-up takes half of the steps.
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.peak, min(self.warmup, total // 2), total, self.final
        )
        return adamw(schedule, self.weight_decay, self.b2, self.clip)


def adamw(
    rate: optax.ScalarOrSchedule, weight_decay: float, b2: float, clip: float
) -> optax.GradientTransformation:
    """Makes AdamW on gradients clipped to the global norm `clip`."""
    return optax.chain(
        optax.clip_by_global_norm(clip), optax.adamw(rate, b2=b2, weight_decay=weight_decay)
    )


class Stage(NamedTuple):
    """A stage of training: steps that share a schedule.

    Attributes:
        steps: Maximum number of steps.
        rate: Maps step `i` of the stage to a factor of the updates for each parameter array; 0
            freezes an array. None: updates are not scaled.
        over: Decides whether the stage ends after `i` steps, from `i` and the metrics of the last
            `WINDOW` steps `[WINDOW, ...]`, the latest last. After `steps` steps it has to return
            True or raise. None: the stage ends after `steps` steps.
    """

    steps: int
    rate: Callable[[int], Any] | None = None
    over: Callable[[int, jax.Array], bool] | None = None

    def ends(self, step: int, recent: jax.Array) -> bool:
        """Returns True if the stage ends after `step` steps."""
        return step >= self.steps if self.over is None else self.over(step, recent)


class Step(NamedTuple):
    """A finished training step.

    Attributes:
        steps: Number of finished steps of each stage so far, this step included.
        batch: The batch of the step.
        loss: Loss in nats.
        metrics: Metrics, the second value that the loss function returns.
    """

    steps: tuple[int, ...]
    batch: Any
    loss: float
    metrics: np.ndarray


class StepReport(NamedTuple):
    """Report of a training step.

    Attributes:
        steps: Number of finished steps of each stage so far, this step included.
        loss: Loss in nats.
        metrics: Further metrics by name.
        size: Number of tokens or pairs in the batch.
    """

    steps: tuple[int, ...]
    loss: float
    metrics: dict[str, float]
    size: int

    @property
    def step(self) -> int:
        """The number of finished steps over all stages."""
        return sum(self.steps)


def minimize(
    loss: Callable[[Any, Any], tuple[jax.Array, jax.Array]],
    shape: tuple[int, ...],
    params: Any,
    batch: Callable[[int, int], Any],
    stages: Sequence[Stage],
    optimizer: optax.GradientTransformation,
    state_file: Path,
    save_every: int,
    report: Callable[[Step], None],
    devices: int = 1,
    identity: str = "",
) -> tuple[Any, list[int]]:
    """Trains parameters through all stages, and returns them and the steps of each stage.

    Resumes from `state_file` if it exists.

    Args:
        loss: `(params, batch)` -> the loss, and metrics in float32.
        shape: Shape of the metrics.
        params: A tree of arrays.
        batch: Maps `(k, i)` to the batch of step `i` of stage `k`, a tuple of arrays. It must
            depend only on `(k, i)`, so that a resumed run sees the same batches. A thread makes the
            next batch while a step runs.
        stages: The stages, in order.
        optimizer: The gradient transformation.
        state_file: File for the parameters, the optimizer's state and the latest metrics.
        save_every: Number of steps between saves; the state is also saved after each stage.
        report: Called after each step.
        devices: Number of devices that share the first axis of each array of a batch.
        identity: A string that identifies the run; the state of a run with another string is
            refused.

    Raises:
        InputError: the state belongs to another run.
    """
    mesh = jax.make_mesh((devices,), ("data",), axis_types=(AxisType.Auto,),
                         devices=jax.devices()[:devices])  # fmt: skip
    # Rows of a batch are sharded, everything else is replicated.
    rows = NamedSharding(mesh, PartitionSpec("data"))
    replicated = NamedSharding(mesh, PartitionSpec())

    @jax.jit
    def advance(carry: Any, batch: Any, rate: Any) -> Any:
        params, state, recent = carry
        (loss_value, metrics), grads = jax.value_and_grad(loss, has_aux=True)(params, batch)
        if rate is not None:
            # Frozen arrays must not count toward the clipped norm.
            grads = jax.tree.map(lambda grad, factor: grad * (factor != 0), grads, rate)
        updates, state = optimizer.update(grads, state, params)
        if rate is not None:
            # With rates of stages, the optimizer's own learning rate is 1.
            updates = jax.tree.map(lambda update, factor: factor * update, updates, rate)
        params = optax.apply_updates(params, updates)
        return (params, state, jnp.concatenate([recent[1:], metrics[None]])), loss_value, metrics

    run = hashlib.sha256(identity.encode()).hexdigest()[:16]
    recent = jnp.zeros((WINDOW, *shape), jnp.float32)
    steps, carry = _resume(state_file, (params, optimizer.init(params), recent), len(stages), run)
    carry = jax.device_put(carry, replicated)
    with ThreadPoolExecutor(1) as pool:

        def fetch() -> Future[Any] | None:
            more = steps[-1] < stages[len(steps) - 1].steps
            return pool.submit(batch, len(steps) - 1, steps[-1]) if more else None

        ahead = fetch()
        while True:
            stage = stages[len(steps) - 1]
            if stage.ends(steps[-1], carry[2]):  # a resumed run may start at the end of a stage
                if len(steps) == len(stages):
                    return carry[0], steps
                steps.append(0)
                ahead = fetch()  # replaces the prefetched batch of the ended stage
                continue
            rate = None if stage.rate is None else stage.rate(steps[-1])
            current_batch = ahead.result()  # type: ignore[union-attr]
            steps[-1] += 1
            ahead = fetch()
            carry, loss_value, metrics = advance(carry, jax.device_put(current_batch, rows), rate)
            report(Step(tuple(steps), current_batch, float(loss_value), np.asarray(metrics)))
            last = steps[-1] == stage.steps or stage.ends(steps[-1], carry[2])
            if last or sum(steps) % save_every == 0:
                _save(state_file, carry, steps, run)


def _save(path: Path, carry: Any, steps: list[int], run: str) -> None:
    leaves = jax.tree.leaves(carry)
    # Zero-padded names sort in the order of the leaves.
    arrays = {f"{i:05d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    write_whole(
        path, safetensors.numpy.save(arrays, metadata={"steps": json.dumps(steps), "run": run})
    )


def _resume(path: Path, carry: Any, stages: int, run: str) -> tuple[list[int], Any]:
    if not path.is_file():
        return [0], carry
    leaves, structure = jax.tree.flatten(carry)
    with safe_open(path, framework="numpy") as file:
        arrays = list(map(file.get_tensor, sorted(file.keys())))
        metadata = file.metadata() or {}
        steps = json.loads(metadata.get("steps", "[]"))
    is_same_shape = list(map(np.shape, arrays)) == list(map(np.shape, leaves))
    if not is_same_shape or not 1 <= len(steps) <= stages or metadata.get("run") != run:
        expected, got = "the state of this config's run", "the state of another run"
        remedy = "give another workdir, or delete the file to start again"
        raise InputError.at(path, expected, got, remedy)
    return steps, jax.tree.unflatten(structure, list(map(jnp.asarray, arrays)))
