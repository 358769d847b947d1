"""Parts of the time of one batch, for each network of `benchmarks.limit`.

    python -m benchmarks.parts

A batch is 16 sequences of 128 slots that are full. Beside the whole forward pass, and two of half
the size at once, as the engine runs them: the bare products of its matrices, attention within the
sequences, attention over a prefix of 768 tokens, and the reading of 128 positions; what is left of
the pass are norms, rotary positions, activations and residuals. The best of ten rounds, all parts
in turn. Writes the table to benchmarks/RESULTS.md.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app
from flax import nnx

from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.engine.forward import VOCABULARY_SPAN
from batch_calibration.scoring.models.attention import Heads, self_attention
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.prefix_attention import prefix_attention
from benchmarks import limit, report, scoring
from benchmarks.attention import best
from benchmarks.ours import matmul_peak
from benchmarks.shapes import SHAPES, random_checkpoint
from experiments.guard import guarded, parse_flags

BATCH = (16, 128)
PREFIX = 768
READ = 128
COLUMNS = (
    "network (layers)", "forward, ms (of peak)", "two halves at once", "products at the peak",
    "products", "attention within", "the rest", "prefix of 768, ms more", "at the peak",
    "128 reads, ms", "at the peak",
)  # fmt: skip


def main() -> None:
    """Time the parts of every network, print and record them."""
    _, tokenizer = scoring.check()
    began = time.monotonic()
    rows, peaks = [], []
    with tempfile.TemporaryDirectory() as name:
        for network, shape in SHAPES.items():
            config = shape.cut(scoring.FULL.value)
            directory = random_checkpoint(Path(name) / network, tokenizer, config)
            peaks.append(matmul_peak())
            cells = parts(directory, peaks[-1])
            rows.append([f"{network} ({limit.layers(shape, config)})", *cells])
            print(*rows[-1], sep=" | ", flush=True)
    report.publish(
        "parts", "parts of a batch of 2,048 positions",
        f"`python -m benchmarks.parts`: milliseconds, float32. Matmul peak {min(peaks) / 1e9:.0f} "
        f"to {max(peaks) / 1e9:.0f} GFLOP/s.",
        report.table([COLUMNS, *rows]),
        device={"backend": jax.default_backend(), "device": jax.devices()[0].device_kind},
        threads=scoring.THREADS.value, began=began,
    )  # fmt: skip


def parts(directory: Path, peak: float) -> list[str]:
    """A network's cells under `COLUMNS`."""
    checkpoint = load_checkpoint(directory)
    config: Any = checkpoint.config
    graph, state = nnx.split(checkpoint.model)
    kernels = [leaf for path, leaf in nnx.to_flat_state(state) if path[-1] == "kernel"]
    matrices = [jnp.asarray(kernel[...]) for kernel in kernels]
    count, length = BATCH
    random = np.random.default_rng(0)
    tokens = random.integers(0, 50_000, BATCH).astype(np.int32)
    places = np.tile(np.arange(length, dtype=np.int32), (count, 1))  # [16, 128]
    ends = np.full(BATCH, length, np.int32)
    # GPT-2 has as many key heads as heads
    heads, groups = config.heads, getattr(config, "num_key_value_heads", None) or config.heads
    d = getattr(config, "head_dim", None) or config.width // heads

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32))

    q, k, v = (normal(*BATCH, n, d) for n in (heads, groups, groups))
    keys, values = (
        normal(PREFIX, groups, d),
        # The last column marks keys that are there.
        normal(PREFIX, groups, d + 1).at[..., -1].set(1),
    )
    mask = jnp.tril(jnp.ones((1, length, length), bool))
    # Matrices of one input width share their input.
    widths = {matrix.shape[0] for matrix in matrices}
    inputs = {width: normal(count * length, width) for width in widths}
    h = normal(READ, config.width)
    few = np.arange(8, dtype=np.int32)
    products = jax.jit(lambda inputs, ms: [inputs[m.shape[0]] @ m for m in ms])
    within = jax.jit(lambda q, k, v, mask: self_attention(Heads(q, k, v), mask))
    over = jax.jit(prefix_attention)
    read = partial(
        programs.read, graph, None, config.vocab_size,
        VOCABULARY_SPAN.get(jax.default_backend(), config.vocab_size), state, h, few,
        np.repeat(np.arange(READ), 2), np.zeros(2 * READ, np.int32),
    )  # fmt: skip
    kind = programs.attention_kind(jax.default_backend(), checkpoint.dtype, False)
    half_batch = [array[: count // 2] for array in (tokens, places, ends)]
    threads = ThreadPoolExecutor(2)

    def run(arrays: list[np.ndarray]) -> jax.Array:
        h = programs.forward_packed(graph, kind, state, (), *arrays)
        return jax.block_until_ready(h)

    times = best({
        "forward": lambda: run([tokens, places, ends]),
        "halves": lambda: list(threads.map(run, [half_batch, half_batch])),
        "products": lambda: products(inputs, matrices),
        "within": lambda: within(q, k, v, mask),
        "over": lambda: over(q.reshape(-1, heads, d), keys, values),
        "read": read,
    })  # fmt: skip
    # 2 operations a number and position; milliseconds
    ideal = 2e3 * count * length * sum(m.size for m in matrices) / peak
    attention = config.layers * times["within"]
    remainder = times["forward"] - times["products"] - attention
    # Scores and weighted sum, 2 operations each.
    prefix = 4e3 * count * length * PREFIX * heads * d * config.layers / peak
    over_prefix = config.layers * times["over"]
    reads = 2e3 * READ * config.width * config.vocab_size / peak
    return [
        *(f"{times[name]:.0f} ({ideal / times[name]:.0%})" for name in ("forward", "halves")),
        *(f"{duration:.0f}" for duration in (ideal, times["products"], attention, remainder)),
        *(f"{duration:.0f}" for duration in (over_prefix, prefix, times["read"], reads)),
    ]


if __name__ == "__main__":
    app.run(guarded(main, loads=()), flags_parser=parse_flags)
