"""Writes a random checkpoint in Llama-2-7B's shape, never held in memory, for benchmarks."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tokenizers import ByteLevelBPETokenizer

SHAPE: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
"""Llama-2-7B's."""
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
