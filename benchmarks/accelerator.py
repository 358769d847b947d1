"""Measures throughput on an accelerator in bfloat16, and the numerical error of bfloat16.

    python -m benchmarks.accelerator            # Qwen3-0.6B's shape, random weights
    python -m benchmarks.accelerator --train    # also the embedded models' training minutes
    python -m benchmarks.accelerator --scan     # all layers as one compiled body
    python -m benchmarks.accelerator --host     # only the parts without an accelerator
    python -m benchmarks.accelerator --quick    # a small shape, a few rows: any device, a minute

Each row has 300 random tokens and two one-token labels. In one setting the rows share nothing, in
the other they share a prefix of 240 tokens. Each setting runs with the device's default attention
kernel and with XLA's; rates are of the best call after compilation. "Of peak" divides the
floating point operations of the unique tokens (weights, attention, unembedding) by the time and by
the best rate of matrix products in this run. "Host" is the CPU time of the thread that packs rows.
The word-level tokenizer here is faster than a learned one.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer, models, pre_tokenizers

from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.data.texts import read
from batch_calibration.scoring.embedded import CHECKPOINTS, MINI
from batch_calibration.scoring.engine import programs
from batch_calibration.scoring.engine.batches import group_prompts
from batch_calibration.scoring.engine.packing import SHORTEST, lay_out, pack_prompts
from batch_calibration.scoring.engine.tokens import encode
from batch_calibration.scoring.engine.trie import build_trie
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.family import Decoder
from batch_calibration.scoring.models.files.checkpoint import Checkpoint, load_checkpoint
from batch_calibration.scoring.models.files.config import read_config
from batch_calibration.scoring.models.layers import product
from batch_calibration.scoring.prompts.render import render
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.settings import Settings
from benchmarks.ours import matmul_peak
from benchmarks.shapes import SHAPES

QWEN3 = SHAPES["Qwen3-0.6B"].config
SMALL = QWEN3 | {
    "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128,
}  # fmt: skip
TOKENS, SHARED = 300, 240  # tokens of a row, and tokens of the shared prefix
LABELS = [" w1", " w2"]
GOALS = {0: 1500, SHARED: 6000}
"""Number of shared prefix tokens -> goal in items per second on an H100-class GPU."""


class Size(NamedTuple):
    """Sizes of a run.

    Attributes:
        shape: The network's config.
        rows: Number of shared prefix tokens -> number of rows.
        calls: Number of timed calls of each setting.
        tasks: Tasks of the embedded suite for the comparison of bfloat16 with float32.
        compared: Number of rows of each of these tasks.
    """

    shape: dict[str, Any]
    rows: dict[int, int]
    calls: int
    tasks: tuple[str, ...]
    compared: int


FULL = Size(QWEN3, {0: 4096, SHARED: 16_384}, 2, ("sst2", "mnli", "copa", "wic", "cb", "rte"), 64)
QUICK = Size(SMALL, {0: 8, SHARED: 12}, 1, ("sst2",), 12)


def network(shape: dict[str, Any], scans: bool = False) -> Checkpoint:
    """Makes a network of a shape with random weights on the device; `scans` its layers, or not."""
    family = FAMILIES[shape["model_type"]]
    config = read_config(family, shape, Path("random"))
    # Only shapes: the weights are drawn on the device, and the host never holds them.
    graph, shapes = nnx.split(nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0))))

    def draw(path: Any, like: Any) -> jax.Array:
        name = jax.tree_util.keystr(path)
        if "scale" in name:  # the scale of a norm
            return jnp.ones(like.shape, jnp.bfloat16)
        # The sum of the code points, because Python's hash of a text varies between processes.
        key = jax.random.fold_in(jax.random.key(0), sum(map(ord, name)))
        return 0.02 * jax.random.normal(key, like.shape, jnp.bfloat16)  # GPT-2's scale

    model = nnx.merge(graph, jax.tree_util.tree_map_with_path(draw, shapes))
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.Embed):
            module.dtype = jnp.bfloat16  # else it computes in its initial dtype, float32
        if isinstance(module, nnx.Linear):
            module.dot_general = product  # the matrix product of loaded networks
    if scans and isinstance(model, Decoder):
        model.scan_layers(frees=True)
    return Checkpoint(
        Path("random"), family.name, family.kind, config, model, word_tokenizer(config.vocab_size),
        None, "", "bfloat16",
    )  # fmt: skip


def word_tokenizer(size: int) -> Tokenizer:
    """Makes a tokenizer with one token for each of the words `w0`, `w1` ..."""
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def make_rows(count: int, shared: int, vocabulary: int) -> list[str]:
    """Makes texts of `TOKENS` random words with a common prefix of `shared` words."""
    random = np.random.default_rng(shared)
    beginning = random.integers(3, vocabulary, shared)
    texts = []
    for _ in range(count):
        ids = (*beginning, *random.integers(3, vocabulary, TOKENS - shared))
        texts.append(" ".join(f"w{i}" for i in ids))
    return texts


def operations(checkpoint: Checkpoint, rows: int, shared: int) -> float:
    """Counts the floating point operations of the unique tokens, two for each multiply-add."""
    config: Any = checkpoint.config
    leaves = jax.tree_util.tree_leaves_with_path(nnx.state(checkpoint.model))
    # Embeddings are looked up, so only kernels count.
    weights = sum(leaf.size for path, leaf in leaves if "kernel" in jax.tree_util.keystr(path))
    tokens = shared + rows * (TOKENS - shared)
    # Unmasked pairs of query and key.
    pairs = shared * (shared + 1) // 2 + rows * sum(range(shared + 1, TOKENS + 1))
    # 2 operations for the attention scores, 2 for the weighted sum of values.
    attention = 4 * config.layers * config.heads * config.head_size * pairs
    # One position per row is unembedded.
    return 2.0 * weights * tokens + attention + 2.0 * config.width * config.vocab_size * rows


@contextmanager
def attention(kind: programs.Kind) -> Iterator[None]:
    """Sets the attention kernel of scorers that are made inside the context."""
    chosen = programs.attention_kind
    programs.attention_kind = lambda *_: kind  # scorers read it when they are made
    try:
        yield
    finally:
        programs.attention_kind = chosen


def best(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Returns the seconds of the fastest of `calls` calls, and of a call before, which compiles."""
    rates = []
    for _ in range(calls + 1):
        start = time.perf_counter()
        call()
        rates.append(time.perf_counter() - start)
    return min(rates[1:]), rates[0]


def host(vocabulary: int, rows: int) -> None:
    """Prints the CPU time per row of tokenization and packing, with a shared prefix."""
    tokenizer, texts = word_tokenizer(vocabulary), make_rows(rows, SHARED, vocabulary)
    times = [time.thread_time()]  # CPU seconds of this thread
    encoded = encode(tokenizer, texts, LABELS)
    times.append(time.thread_time())
    tries = [build_trie(labels) for labels in encoded.labels]
    for shared, members in group_prompts(encoded.prompts, SHORTEST):
        extra = [len(trie.tokens) for trie in tries]
        sequences = pack_prompts(members, encoded.prompts, shared, extra, 256)
        for start in range(0, len(sequences), 4):
            lay_out(sequences[start : start + 4], 4, shared, encoded.prompts, tries)
    times.append(time.thread_time())
    tokens, layout_time = (1e6 * seconds / rows for seconds in np.diff(times))  # microseconds a row
    print(f"host: {tokens:.0f} microseconds a row to tokenize, {layout_time:.0f} to pack")


def rates(size: Size, checkpoint: Checkpoint, kinds: tuple[programs.Kind, ...]) -> None:
    """Prints items per second and share of peak for each attention kernel and setting."""
    peak = matmul_peak()
    print(f"matrix products: {peak / 1e12:.2f} TFLOP/s at most")
    for shared, count in size.rows.items():
        texts = make_rows(count, shared, size.shape["vocab_size"])
        work = operations(checkpoint, count, shared)
        name = f"{count} rows of {TOKENS} tokens, {shared} shared"
        for kind in kinds:
            with attention(kind):
                scorer = CausalLM(checkpoint)
            # Default arguments bind the values of this iteration.
            seconds, first = best(lambda s=scorer, t=texts: s.score(t, LABELS), size.calls)
            print(
                f"{name}, attention {kind}: {count / seconds:.0f} items/s "
                f"(goal {GOALS[shared]}), {work / seconds / peak:.1%} of peak, "
                f"first call {first:.1f} s"
            )
            for note in scorer.notes:
                print(f"  {note}")


def parity(tasks: tuple[str, ...], rows: int) -> None:
    """Prints the differences between bfloat16 and float32 scores of the embedded model."""
    models = [load_checkpoint(CHECKPOINTS[MINI], dtype) for dtype in ("float32", "bfloat16")]
    differences, relative, agreement = [], [], []
    for name in tasks:
        task, cell = TASKS[name], Settings.of(data=MINI, shots=1, limit=rows).cell(name)
        test, train = read(task, MINI, "validation", rows), read(task, MINI, "train")
        context = render(task, cell, test, train)
        texts, labels = list(context.blocks["test"].inputs), context.label_texts
        exact, narrow = (CausalLM(model).score(texts, labels).log_probs for model in models)
        difference = narrow - exact
        differences.append(np.abs(difference).ravel())
        # A constant shift of all labels of a row changes no prediction.
        relative.append(np.abs(difference - difference.mean(axis=1, keepdims=True)).ravel())
        agreement.append(narrow.argmax(axis=1) == exact.argmax(axis=1))
    errors, centered = np.concatenate(differences), np.concatenate(relative)
    print(
        f"bfloat16 against float32, the embedded model, {len(tasks)} tasks, 1 shot a class, "
        f"{errors.size} scores: mean {errors.mean():.4f}, 99th percentile "
        f"{np.quantile(errors, 0.99):.4f}, largest {errors.max():.4f} nats (goal 0.02); between "
        f"labels of a row: mean {centered.mean():.4f}, largest {centered.max():.4f}; "
        f"{np.concatenate(agreement).mean():.2%} of predictions agree"
    )


def training() -> None:
    """Prints the training time of each embedded model from scratch, in minutes."""
    for program in ("train_mini", "train_mini_clip"):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            command = f"-m experiments.{program} --config=configs/{program}.py --out={folder}/out"
            subprocess.run([sys.executable, *command.split(), f"--workdir={folder}"], check=True)
            print(f"{program}: {(time.perf_counter() - start) / 60:.1f} minutes")


def main(arguments: list[str] | None = None) -> None:
    """Runs the chosen measurements and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small shape and a few rows")
    parser.add_argument("--host", action="store_true", help="only the parts without an accelerator")
    parser.add_argument("--train", action="store_true", help="also train the embedded models")
    parser.add_argument("--scan", action="store_true", help="all layers as one compiled body")
    chosen = parser.parse_args(arguments)
    size = QUICK if chosen.quick else FULL
    backend = jax.default_backend()
    print(f"jax {jax.__version__} on {backend}: {jax.devices()[0].device_kind}")
    kinds: tuple[programs.Kind, ...] = ("in turn",)
    if backend == "gpu" or chosen.quick:
        kinds = ("joint", *kinds)
    if not chosen.host:
        rates(size, network(size.shape, chosen.scan), kinds)
    host(size.shape["vocab_size"], size.rows[0])
    parity(size.tasks, size.compared)
    if chosen.train:
        training()


if __name__ == "__main__":
    main()
