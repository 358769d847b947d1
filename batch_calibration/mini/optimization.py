"""Steps of training, for both tiny networks: AdamW, deterministic by step, resumable."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import safetensors.numpy
from safetensors import safe_open

from batch_calibration.files import write_whole
from batch_calibration.typing import InputError


class Optimizer(NamedTuple):
    """AdamW with warm-up and cosine decay over all steps."""

    peak: float = 1e-3
    final: float = 5e-5
    warmup: int = 150
    weight_decay: float = 0.01
    b2: float = 0.98
    clip: float = 1.0

    def rule(self, total: int) -> optax.GradientTransformation:
        """What turns gradients into updates over `total` steps."""
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.peak, min(self.warmup, total // 2), total, self.final
        )
        return optax.chain(
            optax.clip_by_global_norm(self.clip),
            optax.adamw(schedule, b2=self.b2, weight_decay=self.weight_decay),
        )


def minimize(
    loss: Callable[[Any, Any], tuple[jax.Array, jax.Array]],
    params: Any,
    batch: Callable[[int], Any],
    total: int,
    optimizer: Optimizer,
    state_file: Path,
    save_every: int,
    report: Callable[[int, Any, float, float], None],
) -> Any:
    """Parameters after `total` steps, begun anew or where `state_file` says a run was stopped.

    Args:
        loss: `(params, batch)` -> the loss, and a second number to watch.
        params: A tree of arrays.
        batch: What step `i` learns from. It depends on `i` alone, so a resumed run sees what an
            unbroken one does; the next one is made in a thread while a step runs.
        total: How many steps.
        optimizer: How they are taken.
        state_file: Where parameters and the optimizer's state are kept.
        save_every: After how many steps.
        report: Called after each step with steps done, its batch, and both numbers.

    Raises:
        InputError: the state is of a run of another shape.
    """
    rule = optimizer.rule(total)

    @jax.jit
    def step(carry: Any, batch: Any) -> Any:
        params, state = carry
        (value, watched), grads = jax.value_and_grad(loss, has_aux=True)(params, batch)
        updates, state = rule.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), value, watched

    done, carry = _resume(state_file, (params, rule.init(params)))
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(batch, done) if done < total else None
        for index in range(done, total):
            made = ahead.result()  # type: ignore[union-attr]
            ahead = pool.submit(batch, index + 1) if index + 1 < total else None
            carry, value, watched = step(carry, made)
            report(index + 1, made, float(value), float(watched))
            if (index + 1) % save_every == 0 or index + 1 == total:
                _save(state_file, carry, index + 1)
    return carry[0]


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
