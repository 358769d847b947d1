"""Trains a network step by step with AdamW: deterministic by step, resumable."""

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
"""Steps whose metrics are kept, for means that say whether a stage is over."""


class Optimizer(NamedTuple):
    """AdamW with warm-up and cosine decay over all steps."""

    peak: float = 1e-3
    final: float = 5e-5
    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0

    def transformation(self, total: int) -> optax.GradientTransformation:
        """The optimizer over `total` steps."""
        # A short run warms up for half of its steps.
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.peak, min(self.warmup, total // 2), total, self.final
        )
        return adamw(schedule, self.weight_decay, self.b2, self.clip)


def adamw(
    rate: optax.ScalarOrSchedule, weight_decay: float, b2: float, clip: float
) -> optax.GradientTransformation:
    """AdamW on gradients whose norm is at most `clip`."""
    return optax.chain(
        optax.clip_by_global_norm(clip), optax.adamw(rate, b2=b2, weight_decay=weight_decay)
    )


class Stage(NamedTuple):
    """Steps that share a schedule.

    Attributes:
        steps: How many at most.
        rate: Of step `i` within the stage, what the updates are multiplied by, a number for each
            of the parameters' arrays (0: it is left as it is); None: nothing.
        over: Whether the stage ends after `i` steps, given also the metrics of the last `WINDOW`
            steps `[WINDOW, ...]`, the latest last; None: after `steps`. It must be true, or raise,
            once `steps` are done.
    """

    steps: int
    rate: Callable[[int], Any] | None = None
    over: Callable[[int, jax.Array], bool] | None = None

    def ends(self, step: int, recent: jax.Array) -> bool:
        """True if the stage ends after `step` steps."""
        return step >= self.steps if self.over is None else self.over(step, recent)


class Step(NamedTuple):
    """A step that was taken.

    Attributes:
        steps: Done of each stage that has begun, itself among them.
        batch: What it learned from.
        loss: In nats.
        metrics: The second thing that `loss` returns.
    """

    steps: tuple[int, ...]
    batch: Any
    loss: float
    metrics: np.ndarray


class StepReport(NamedTuple):
    """Report of a training step.

    Attributes:
        steps: Done of each stage that has begun, itself among them.
        loss: In nats.
        metrics: Further numbers by name.
        size: How many tokens or pairs were in its batch.
    """

    steps: tuple[int, ...]
    loss: float
    metrics: dict[str, float]
    size: int

    @property
    def step(self) -> int:
        """Steps done in all."""
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
    """Parameters after all stages, and the steps that each of them took.

    Begun anew, or where `state_file` says a run was stopped.

    Args:
        loss: `(params, batch)` -> the loss, and metrics in float32.
        shape: Of these metrics.
        params: A tree of arrays.
        batch: What step `i` of stage `k` learns from, a tuple of arrays. It depends on `(k, i)`
            alone, so a resumed run sees what an unbroken one does; the next one is made in a
            thread while a step runs.
        stages: How many steps, and how fast.
        optimizer: What turns gradients into updates.
        state_file: Where parameters, the optimizer's state and the latest metrics are kept.
        save_every: After how many steps; also after each stage.
        report: Called after each step.
        devices: How many share a batch's rows, each array's first axis.
        identity: All else that decides the run; a state of another one is refused.

    Raises:
        InputError: the state is of another run.
    """
    mesh = jax.make_mesh((devices,), ("data",), axis_types=(AxisType.Auto,),
                         devices=jax.devices()[:devices])  # fmt: skip
    # A batch's rows are divided, all else is copied.
    rows = NamedSharding(mesh, PartitionSpec("data"))
    replicated = NamedSharding(mesh, PartitionSpec())

    @jax.jit
    def advance(carry: Any, batch: Any, rate: Any) -> Any:
        params, state, recent = carry
        (loss_value, metrics), grads = jax.value_and_grad(loss, has_aux=True)(params, batch)
        if rate is not None:
            # What is frozen has no share in the clipped norm.
            grads = jax.tree.map(lambda grad, factor: grad * (factor != 0), grads, rate)
        updates, state = optimizer.update(grads, state, params)
        if rate is not None:
            # Where stages have rates, the optimizer's own is 1.
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
            if stage.ends(steps[-1], carry[2]):  # a resumed run may begin at the end of a stage
                if len(steps) == len(stages):
                    return carry[0], steps
                steps.append(0)
                ahead = fetch()  # the batch of the stage that ended is dropped
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
    # Sorted names are in the leaves' order.
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
        raise InputError(
            f"{path}: holds another run than the config's; "
            "give another workdir, or delete the file to start again."
        )
    return steps, jax.tree.unflatten(structure, list(map(jnp.asarray, arrays)))
