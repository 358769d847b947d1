"""Measures our scorer: time, compilations, memory, and the positions that were run and read."""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.cli.machine import keep_programs, use_few_arenas
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from benchmarks import worker

COMPILED = "/jax/core/compile/backend_compile_duration"
MATMULS = ((1024, 768, 3072), (2048, 768, 3072), (2048, 3072, 768), (2048, 2048, 2048))
"""Shapes (m, k, n) of `[m, k] @ [k, n]`: GPT-2-small's two MLP products, and a square one."""
LARGE = ((8192, 8192, 8192),)
"""Shapes for GPUs; smaller products do not fill them."""


class TextLines(Sequence[str]):
    """Texts of a file with one JSON string per line, which are read on access.

    The package also renders a context's prompts on access. A list of all texts would add memory
    that grows with the rows and does not belong to the scorer.
    """

    def __init__(self, path: str):
        self._path = path
        with open(path, "rb") as file:
            self._starts = np.cumsum([0, *map(len, file)])

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, rows: int) -> str: ...

    @overload
    def __getitem__(self, rows: slice) -> list[str]: ...

    def __getitem__(self, rows: int | slice) -> str | list[str]:
        if isinstance(rows, int):
            return self[rows : rows + 1][0]
        start, stop, _ = rows.indices(len(self))
        with open(self._path, "rb") as file:
            file.seek(self._starts[start])
            return [json.loads(file.readline()) for _ in range(start, stop)]


def count_work() -> dict[str, int]:
    """Starts to count the positions that compiled programs run, and those they unembed."""
    work = dict.fromkeys(("tokens", "read"), 0)
    one_at_a_time = Lock()

    def counted(
        program: Callable[..., Any], what: str, number: int, axes: int
    ) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with one_at_a_time:  # several threads call it
                work[what] += math.prod(arguments[number].shape[:axes])
            return program(*arguments)

        return call

    # The index of the argument to count by, and the number of its leading axes to multiply.
    programs.forward_packed = counted(programs.forward_packed, "tokens", 4, 2)
    programs.prefill = counted(programs.prefill, "tokens", 6, 2)
    programs.read = counted(programs.read, "read", 5, 1)
    return work


def matmul_peak() -> float:
    """Measures the peak rate of matrix products in floating point operations per second."""
    gpu = jax.default_backend() == "gpu"
    product = jax.jit(jnp.matmul)
    best = 0.0
    for m, k, n in LARGE if gpu else MATMULS:
        # Random numbers, because products of constants use less power and run faster.
        keys = jax.random.split(jax.random.key(0))
        dtype = jnp.bfloat16 if gpu else jnp.float32
        a, b = jax.random.normal(keys[0], (m, k), dtype), jax.random.normal(keys[1], (k, n), dtype)
        product(a, b).block_until_ready()
        at_once = 20 if gpu else 1  # calls in flight, to hide the launch time
        for _ in range(10):
            start = time.perf_counter()
            for _ in range(at_once):
                last = product(a, b)
            last.block_until_ready()
            # A multiplication and an addition for each term.
            best = max(best, at_once * 2 * m * k * n / (time.perf_counter() - start))
    return best


def peak_memory() -> int:
    """Returns the peak memory in bytes: of the accelerator if there is one, else of the process."""
    stats = jax.devices()[0].memory_stats() or {}
    return int(stats.get("peak_bytes_in_use", 0)) or worker.peak_memory()


def main() -> None:
    """Serves jobs on a checkpoint."""
    worker.pin()
    use_few_arenas()
    keep_programs()
    checkpoint = load_checkpoint(Path(sys.argv[1]))
    device = {"backend": jax.default_backend(), "device": jax.devices()[0].device_kind}
    if device["backend"] == "gpu":
        state = nnx.state(checkpoint.model, nnx.Param)
        # On a GPU all sides score in bfloat16.
        nnx.update(checkpoint.model, jax.tree.map(lambda array: array.astype(jnp.bfloat16), state))
    compiled: list[float] = []
    work = count_work()

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(heard)

    def answer(
        texts: Sequence[str] = (),
        labels: Sequence[str] = (),
        batch: int = 256,
        peak: bool = False,
        file: str = "",
    ) -> dict[str, Any]:
        if peak:
            return device | {"peak": matmul_peak()}
        work.update(tokens=0, read=0)
        scorer = CausalLM(checkpoint, batch_size=batch)
        texts = TextLines(file) if file else texts
        compiled.clear()
        start = time.perf_counter()
        log_probs = scorer.score(texts, labels).log_probs if texts else np.zeros((0, 0))
        seconds = time.perf_counter() - start
        jax.effects_barrier()
        return device | {
            "seconds": seconds,
            "compilations": len(compiled),
            "compile_seconds": sum(compiled),
            "memory": peak_memory(),
            "log_probs": log_probs[:128].tolist(),  # enough rows for a comparison
            **work,
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()
