"""Splits the time of `CausalLM.score` into its parts; by default prompts that share nothing.

    python -m benchmarks.parts                           # Pythia-160M's shape, WiC
    python -m benchmarks.parts --network=GPT-2 --shots=4

One call of `score` is recorded, and each part runs again with its recorded arguments. Bare products
and attention have the shapes of the recorded batches. Times are milliseconds of processor time,
the minimum of rounds with all parts in turn. "At the peak" are the operations of a part over the
best rate of large matrix products in the same rounds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from batch_calibration.cli.machine import use_few_arenas
from batch_calibration.scoring import causal_lm
from batch_calibration.scoring.engine import forward, packing, programs
from batch_calibration.scoring.models.attention import Heads, self_attention
from batch_calibration.scoring.models.files.checkpoint import Checkpoint, load_checkpoint
from benchmarks import cases, report
from benchmarks.ours import MATMULS
from benchmarks.shapes import SHAPES, random_checkpoint

SHARED = Path(__file__).resolve().parents[2] / "shared"
FUNCTIONS: dict[str, tuple[tuple[Any, str], ...]] = {
    "tokenize": ((causal_lm, "encode"),),
    "pack": ((forward, "group_prompts"), (packing, "pack_prompts")),
    "lay out": ((packing, "lay_out"),),
    "prefix": ((programs, "prefill"),),
    "forward": ((programs, "forward_packed"),),
    "reads": ((programs, "read"),),
}
"""Part of a call -> modules and names of its functions."""
Call = partial[object]


def record(score: Call) -> dict[str, list[Call]]:
    """Runs `score`, and returns the calls of each part's functions."""
    calls: dict[str, list[Call]] = {part: [] for part in FUNCTIONS}

    def recorded(part: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            calls[part].append(partial(function, *args, **named))
            return function(*args, **named)

        return call

    with ExitStack() as patches:
        for part, functions in FUNCTIONS.items():
            for module, name in functions:
                function = recorded(part, getattr(module, name))
                patches.enter_context(patch.object(module, name, function))
        score()
    return calls


def bare(checkpoint: Checkpoint, batches: list[tuple[int, int]]) -> dict[str, list[Call]]:
    """Returns the layers' matrix products and attention on batches `(sequences, slots)`."""
    config: Any = checkpoint.config
    heads = config.heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    d = getattr(config, "head_dim", None) or config.width // heads
    random = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, np.float32))

    leaves = nnx.to_flat_state(nnx.state(checkpoint.model))
    matrices = [jnp.asarray(leaf[...]) for path, leaf in leaves if path[-1] == "kernel"]
    products = jax.jit(lambda inputs, matrices: [inputs[m.shape[0]] @ m for m in matrices])
    attend = jax.jit(lambda q, k, v, mask: self_attention(Heads(q, k, v), mask, causal=True))
    calls: dict[str, list[Call]] = {"products": [], "attention": []}
    for count, length in batches:
        # Matrices of one input width share their input.
        inputs = {m.shape[0]: normal(count * length, m.shape[0]) for m in matrices}
        calls["products"].append(partial(products, inputs, matrices))
        q, k, v = (normal(count, length, n, d) for n in (heads, groups, groups))
        mask = jnp.tile(jnp.tril(jnp.ones((length, length), bool)), (count, 1, 1))
        calls["attention"] += [partial(attend, q, k, v, mask)] * config.layers
    return calls


def seconds(calls: list[Call]) -> float:
    """Returns the processor seconds of calls, one after the other."""
    start = time.process_time()
    for call in calls:
        jax.block_until_ready(call())
    return time.process_time() - start


def main() -> None:
    """Measures the parts and prints a table."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--network", default="Pythia-160M", choices=SHAPES)
    flags.add_argument("--task", default="wic")
    flags.add_argument("--shots", type=int, default=0)
    flags.add_argument("--rows", type=int, default=96)
    args = flags.parse_args()
    use_few_arenas()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, shape = SHARED / "tokenizers/gpt2", SHAPES[args.network].cut(False)
        checkpoint = load_checkpoint(random_checkpoint(Path(folder, "network"), tokenizer, shape))
    case = cases.Case("", args.task, args.shots, args.rows, 0)
    content = cases.render(case, SHARED / "data", case.rows)
    scorer = causal_lm.CausalLM(checkpoint)
    score: Call = partial(scorer.score, content["texts"], content["labels"])
    score()  # compiles
    parts = {"whole": [score]} | record(score)
    batches = [call.args[4].shape for call in parts["forward"]]
    parts |= bare(checkpoint, batches)
    random, product = np.random.default_rng(0), jax.jit(jnp.matmul)
    for m, k, n in MATMULS:
        a, b = random.standard_normal((m, k), np.float32), random.standard_normal((k, n))
        parts[f"{m} {k} {n}"] = [partial(product, jnp.asarray(a), jnp.asarray(b, np.float32))]
    best = dict.fromkeys(parts, float("inf"))
    for _ in range(5):  # The first round compiles.
        best = {part: min(best[part], seconds(calls)) for part, calls in parts.items()}
    peak = max(2 * m * k * n / best[f"{m} {k} {n}"] for m, k, n in MATMULS)
    positions = sum(count * length for count, length in batches)
    read = sum(len(call.args[5]) for call in parts["reads"])
    config: Any = checkpoint.config
    weights = sum(matrix.size for matrix in parts["products"][0].args[1])
    unembedding = config.width * config.vocab_size
    ideal = {"products": 2 * positions * weights / peak, "reads": 2 * read * unembedding / peak}
    best["rest of forward"] = best["forward"] - best["products"] - best["attention"]
    best["rest"] = best["whole"] - sum(best[part] for part in FUNCTIONS)
    rows = [["part", "ms", "of the whole", "ms at the peak"]]
    for part in ("whole", *FUNCTIONS, "rest", "products", "attention", "rest of forward"):
        least = f"{1e3 * ideal[part]:.0f}" if part in ideal else ""
        rows.append([part, f"{1e3 * best[part]:.1f}", f"{best[part] / best['whole']:.1%}", least])
    tokens = sum(map(len, parts["pack"][1].args[1]))
    print(report.table(rows))
    print(f"{len(batches)} batches of {max(batches)}; {peak / 1e9:.0f} GFLOP per processor second")
    print(f"{args.rows} rows, {tokens:,} tokens in {positions:,} positions, {read} reads")


if __name__ == "__main__":
    main()
