"""Our scorer, measured: seconds, compilations, memory, and in a pass of its own the work done."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.models.checkpoint import load_checkpoint
from batch_calibration.scoring.causal_lm import CausalLM
from benchmarks import worker
from experiments.compilation_cache import keep_programs

COMPILED = "/jax/core/compile/backend_compile_duration"
MATMULS = ((1024, 768, 3072), (2048, 768, 3072), (2048, 3072, 768), (4096, 4096, 4096))
"""`[m, k] @ [k, n]`: the two products of GPT-2-small's MLP, and a large square one."""


def count_work(model: Any) -> dict[str, int]:
    """From now on count what compiled networks of this family run, padding included.

    `tokens` and `read` (unembedded) positions, and `pairs` of a query with a key that it sees: one
    at each position up to its own.
    """
    work = dict.fromkeys(("tokens", "read", "pairs"), 0)
    family = type(model)
    hidden, unembed = family.hidden, family.unembed

    def ran(count: int, before: Any) -> None:
        work["tokens"] += count
        work["pairs"] += count + int(before)

    def read(positions: int) -> None:
        work["read"] += positions

    def counted_hidden(self: Any, tokens: jax.Array, positions: jax.Array, *rest: Any) -> Any:
        jax.debug.callback(lambda before: ran(tokens.size, before), jnp.sum(positions))
        return hidden(self, tokens, positions, *rest)

    def counted_unembed(self: Any, h: jax.Array, *rest: Any) -> Any:
        jax.debug.callback(lambda: read(h.size // h.shape[-1]))
        return unembed(self, h, *rest)

    family.hidden, family.unembed = counted_hidden, counted_unembed
    jax.clear_caches()
    return work


def matmul_peak() -> float:
    """Most floating point operations a second over `MATMULS`, in the dtype that is scored in."""
    gpu = jax.default_backend() == "gpu"
    product = jax.jit(jnp.matmul)
    best = 0.0
    for m, k, n in MATMULS:
        a = jnp.ones((m, k), jnp.bfloat16 if gpu else jnp.float32)
        b = jnp.ones((k, n), a.dtype)
        product(a, b).block_until_ready()
        for _ in range(10):
            start = time.perf_counter()
            product(a, b).block_until_ready()
            best = max(best, 2 * m * k * n / (time.perf_counter() - start))
    return best


def peak_memory() -> int:
    """Most bytes held: in the accelerator where there is one, else in the process."""
    stats = jax.devices()[0].memory_stats() or {}
    return int(stats.get("peak_bytes_in_use", 0)) or worker.peak_memory()


def main() -> None:
    """Serve jobs on a checkpoint and a file of texts."""
    worker.pin()
    keep_programs()
    directory, texts = map(Path, sys.argv[1:])
    case = json.loads(texts.read_text())
    checkpoint = load_checkpoint(directory)
    device = {"backend": jax.default_backend(), "device": jax.devices()[0].device_kind}
    if device["backend"] == "gpu":
        state = nnx.state(checkpoint.model, nnx.Param)
        nnx.update(checkpoint.model, jax.tree.map(lambda x: x.astype(jnp.bfloat16), state))
    compiled: list[float] = []

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(heard)

    def answer(
        rows: tuple[int, int] = (0, 0), batch: int = 256, count: bool = False, peak: bool = False
    ) -> dict[str, Any]:
        if peak:
            return device | {"peak": matmul_peak()}
        chosen = worker.take(case, *rows)
        work = count_work(checkpoint.model) if count else {}
        scorer = CausalLM(checkpoint, batch_size=batch)
        compiled.clear()
        start = time.perf_counter()
        log_probs = scorer.score(chosen, case["labels"]).log_probs if chosen else np.zeros((0, 0))
        seconds = time.perf_counter() - start
        jax.effects_barrier()
        return device | {
            "seconds": seconds,
            "compilations": len(compiled),
            "compile_seconds": sum(compiled),
            "memory": peak_memory(),
            "log_probs": log_probs[:128].tolist(),
            **work,
        }

    worker.serve(answer)


if __name__ == "__main__":
    main()
