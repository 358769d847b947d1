"""Networks with random weights in the shapes that people use, and the work that texts cost them."""

import json
from collections.abc import Sequence
from itertools import pairwise, product, starmap
from operator import add
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from tokenizers import ByteLevelBPETokenizer, Tokenizer

from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.config import read_config

GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12,
}  # fmt: skip
"""The shape of GPT-2-small."""
TINY = GPT2 | {"n_embd": 64, "n_layer": 2, "n_head": 2}


class Shape(NamedTuple):
    """A network by its published `config.json`.

    Attributes:
        config: The keys that decide its shape.
        layers: How many of its layers a run of 20 minutes has time for.
    """

    config: dict[str, Any]
    layers: int

    def cut(self, whole: bool) -> dict[str, Any]:
        """The config with all its layers, or with as many as there is time for."""
        key = "n_layer" if "n_layer" in self.config else "num_hidden_layers"
        return self.config | ({} if whole else {key: self.layers})


SHAPES = {
    "GPT-2": Shape(GPT2, 12),
    "Pythia-160M": Shape(
        {
            "model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 768,
            "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
            "max_position_embeddings": 2048, "rotary_pct": 0.25, "tie_word_embeddings": False,
        },
        6,
    ),
    "Qwen2-0.5B": Shape(
        {
            "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 896,
            "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "intermediate_size": 4864, "max_position_embeddings": 32_768,
            "rope_theta": 1_000_000.0, "tie_word_embeddings": True,
        },
        4,
    ),
    "Qwen3-0.6B": Shape(
        {
            "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
            "head_dim": 128, "intermediate_size": 3072, "max_position_embeddings": 40_960,
            "rope_theta": 1_000_000.0, "tie_word_embeddings": True,
        },
        4,
    ),
    "Gemma3-270M": Shape(
        {
            "model_type": "gemma3_text", "vocab_size": 262_144, "hidden_size": 640,
            "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1,
            "head_dim": 256, "intermediate_size": 2048, "max_position_embeddings": 32_768,
            # Tokens that a layer with a window sees.
            "sliding_window": 512, "query_pre_attn_scalar": 256,
        },
        6,
    ),
    "Llama-3.2-1B": Shape(
        {
            "model_type": "llama", "vocab_size": 128_256, "hidden_size": 2048,
            "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 64, "intermediate_size": 8192, "max_position_embeddings": 131_072,
            "rope_theta": 500_000.0, "tie_word_embeddings": True,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            },
        },
        2,
    ),
}  # fmt: skip
"""By the configs that their makers published; read by ours and by transformers alike."""


def random_checkpoint(directory: Path, tokenizer: Path, shape: dict[str, Any]) -> Path:
    """A directory in Hugging Face layout: GPT-2's own tokenizer, weights as GPT-2 begins."""
    directory.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer(str(tokenizer / "encoder.json"), str(tokenizer / "vocab.bpe"))
    bpe.save(str(directory / "tokenizer.json"))
    # Else transformers takes the class of the architecture, which may split texts otherwise.
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    family, random = FAMILIES[shape["model_type"]], np.random.default_rng(0)
    graph, state = nnx.split(_skeleton(directory, shape))

    def draw(path: Any, like: Any) -> np.ndarray:
        ones = "scale" in jax.tree_util.keystr(path)  # the scale of a norm
        # 0.02 as in GPT-2
        noise = np.float32(0.02) * random.standard_normal(like.shape, np.float32)
        return np.ones(like.shape, np.float32) if ones else noise

    drawn = jax.tree_util.tree_map_with_path(draw, state)
    weights.save(directory, nnx.merge(graph, drawn), family, shape)
    return directory


def _skeleton(directory: Path, shape: dict[str, Any]) -> nnx.Module:
    family = FAMILIES[shape["model_type"]]
    config = read_config(family, shape, directory)
    # Shapes alone, no weights.
    model: nnx.Module = nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0)))
    return model


class Work(NamedTuple):
    """The least that texts and their labels cost a network that runs no beginning twice.

    Attributes:
        tokens: Distinct beginnings: positions to run.
        reads: Positions whose next token is read.
        flops: Floating point operations: weights, attention as far as masks see, unembedding.
    """

    tokens: int
    reads: int
    flops: float


def least_work(
    directory: Path, shape: dict[str, Any], texts: Sequence[str], labels: Sequence[str]
) -> Work:
    """The work of texts with labels, each distinct beginning once."""
    family = FAMILIES[shape["model_type"]]
    config: Any = read_config(family, shape, directory)
    leaves = nnx.to_flat_state(nnx.state(_skeleton(directory, shape)))
    matrices = sum(leaf.size for path, leaf in leaves if path[-1] == "kernel")
    kinds = getattr(config, "layer_types", ("full_attention",) * config.layers)
    # None sees all
    windows = [config.sliding_window if kind.startswith("sliding") else None for kind in kinds]
    head = getattr(config, "head_dim", None) or config.width // config.heads
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    encoded = tokenizer.encode_batch_fast(list(starmap(add, product(texts, labels))))
    ids = sorted(encoding.ids[:-1] for encoding in encoded)  # nothing is read after the last token
    depths = list[int]()
    # The first text has none before it.
    for before, text_ids in pairwise([[], *ids]):
        start = len(commonprefix([before, text_ids]))  # noqa: RUF071 (tokens are meant)
        depths += range(start, len(text_ids))
    # Pairs of query and key that a layer's mask lets through.
    pairs = 0
    for window in windows:
        pairs += sum(min(depth + 1, window or depth + 1) for depth in depths)
    prompts = tokenizer.encode_batch_fast(list(texts))
    beginnings = set[tuple[int, ...]]()  # one that two rows share is read once
    for (prompt, _), encoding in zip(product(prompts, labels), encoded, strict=True):
        ends = range(len(prompt.ids), len(encoding.ids))
        beginnings.update(tuple(encoding.ids[:end]) for end in ends)
    reads = len(beginnings)
    flops = (
        2.0 * matrices * len(depths)
        + 4.0 * config.heads * head * pairs  # 2 for the scores, 2 for the weighted sum
        + 2.0 * config.width * config.vocab_size * reads
    )
    return Work(len(depths), reads, flops)
