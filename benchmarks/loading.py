"""Loads a random checkpoint of Llama-2-7B's shape in bfloat16 and scores 32 rows with it.

    python -m benchmarks.loading --folder=DIR               # 13.5 GB are written there, and removed
    python -m benchmarks.loading --folder=DIR --layers=2    # the same width, 1.3 GB

Prints seconds of loading beside those of reading and of hashing the same files alone, each with the
page cache emptied of them; the most memory held beside the files' size; and rows a second, with and
without the softmax's denominator. Loading and scoring are a process of their own. Goals: memory at
most the files and 2 GB, loading at the speed of the disk.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from tokenizers import ByteLevelBPETokenizer

from benchmarks.shapes import PUBLISHED

SHAPE = PUBLISHED["Llama-2-7B"]["config"]
SHARD = 5e9
"""Most bytes in a file, as the checkpoints on the Hugging Face hub have it."""


def make(directory: Path, layers: int, tokenizer: Path) -> list[Path]:
    """A checkpoint in Hugging Face layout, a tensor at a time; its files of weights."""
    width, inner, vocab_size = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["vocab_size"]
    (directory / "config.json").write_text(json.dumps(SHAPE | {"num_hidden_layers": layers}))
    ids = json.loads((tokenizer / "encoder.json").read_text())
    # Without the version line; 256 tokens are bytes.
    lines = (tokenizer / "vocab.bpe").read_text().splitlines()[1 : vocab_size - 255]
    merges = [(first, second) for first, second in map(str.split, lines)]
    merged_ids = {token: number for token, number in ids.items() if number < vocab_size}
    ByteLevelBPETokenizer(merged_ids, merges).save(str(directory / "tokenizer.json"))
    shapes = {"model.embed_tokens.weight": (vocab_size, width)}
    for layer in range(layers):
        block = f"model.layers.{layer}"
        shapes |= {f"{block}.self_attn.{name}_proj.weight": (width, width) for name in "qkvo"}
        shapes |= {f"{block}.mlp.{name}_proj.weight": (inner, width) for name in ("gate", "up")}
        shapes[f"{block}.mlp.down_proj.weight"] = width, inner
        for norm in ("input", "post_attention"):
            shapes[f"{block}.{norm}_layernorm.weight"] = (width,)
    shapes |= {"model.norm.weight": (width,), "lm_head.weight": (vocab_size, width)}
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    for tensor, shape in shapes.items():
        if sum(map(nbytes, shards[-1].values())) + nbytes(shape) > SHARD:
            shards.append({})
        shards[-1][tensor] = shape
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    index = {}
    for file, shard in zip(names, shards, strict=True):
        index |= dict.fromkeys(shard, file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    # 8 MiB, repeated over each tensor
    noise = np.random.default_rng(0).standard_normal(1 << 22, np.float32).astype(ml_dtypes.bfloat16)
    for file, shard in zip(names, shards, strict=True):
        write(directory / file, shard, noise * ml_dtypes.bfloat16(0.02))
    return [directory / file for file in names]


def nbytes(shape: tuple[int, ...]) -> int:
    """Bytes of a tensor in bfloat16."""
    return 2 * int(np.prod(shape))


def write(path: Path, shapes: dict[str, tuple[int, ...]], noise: np.ndarray) -> None:
    """One safetensors file: the same noise over and over, from another place in each tensor."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + nbytes(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format aligns tensors to 8 bytes
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for number, shape in enumerate(shapes.values()):
            # Scales of norms are one.
            turned = np.roll(noise, 1009 * number) if len(shape) > 1 else np.ones_like(noise)
            count_left = int(np.prod(shape))
            while count_left:
                file.write(turned[:count_left].tobytes())
                count_left -= min(count_left, len(turned))


ROOT = Path(__file__).resolve().parents[1]
ROWS = 32
T = TypeVar("T")


def main() -> None:
    """Make the checkpoint, read it, load it, score with it, remove it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where there is room")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.dtype, args.shared / "data")
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        files = make(Path(name), args.layers, args.shared / "tokenizers" / "gpt2")
        size = sum(path.stat().st_size for path in files)
        print(f"{args.layers} layers: {len(files)} files, {size / 1e9:.2f} GB", flush=True)
        for heading, read in (("read alone", touch), ("hashed alone", digest)):
            forget(files)
            # The defaults bind this turn of the loop.
            timed(heading, size, lambda read=read: [read(path) for path in files])
        forget(files)
        command = [sys.executable, "-m", "benchmarks.loading", *sys.argv[1:], f"--measure={name}"]
        subprocess.run(command, check=True)


def measure(directory: Path, dtype: str, data: Path) -> None:
    """Load a checkpoint and score with it."""
    import jax

    from batch_calibration.scoring.causal_lm import CausalLM
    from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
    from benchmarks.cases import Case, render

    size = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    jax.device_put(0).block_until_ready()  # the runtime's own memory comes before the count
    print(f"before: {held()}")
    checkpoint = timed("loaded", size, lambda: load_checkpoint(directory, dtype))
    print(f"loaded: {held()}")
    case = render(Case("SST-2, 4 shots a class", "sst2", 4, 2 * ROWS, 0), data, 2 * ROWS)
    for logits_only in (False, True):
        scorer = CausalLM(checkpoint, logits_only=logits_only)
        for start in (0, ROWS):
            heading = f"rows {start} to {start + ROWS}{', logits_only' * logits_only}"
            texts = case["texts"][start : start + ROWS]
            timed(heading, 0, lambda score=scorer.score, texts=texts: score(texts, case["labels"]))
            print(f"{heading}: {held()}", flush=True)


def timed(heading: str, size: int, call: Callable[[], T]) -> T:
    """Do it and print the seconds, and bytes a second of `size`, or `ROWS` a second."""
    wall, busy = time.perf_counter(), time.process_time()  # seconds on the clock, and of all cores
    answer = call()
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    rate = f"{size / wall / 1e9:.2f} GB/s" if size else f"{ROWS / wall:.2f} rows/s"
    print(f"{heading}: {wall:.1f} s, {rate}; {busy:.1f} s of processors", flush=True)
    return answer


def held() -> str:
    """Memory of this process now, and at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    memory = dict(line.split(":", 1) for line in lines)
    # /proc gives KiB
    rss, most = (int(memory[key].split()[0]) * 1024 / 1e9 for key in ("VmRSS", "VmHWM"))
    return f"{rss:.2f} GB held, {most:.2f} GB at most"


def forget(files: list[Path]) -> None:
    """Have the page cache let go of the files, as far as the system does that on request."""
    for path in files:
        with path.open("rb+") as file:
            os.fsync(file.fileno())  # pages not yet written cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def touch(path: Path) -> None:
    """Read a file into one buffer, over and over."""
    buffer = bytearray(1 << 24)  # 16 MiB
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def digest(path: Path) -> None:
    """The part of a checkpoint's digest for one file."""
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


if __name__ == "__main__":
    main()
