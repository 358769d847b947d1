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
from batch_calibration.scoring.models.files.tokenizer_files import read_causal


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


_PUBLISHED = json.loads(Path(__file__).with_name("shapes.json").read_text(encoding="utf-8"))
SHAPES = {name: Shape(**entry) for name, entry in _PUBLISHED.items()}
"""Networks that are timed, by the configs that their makers published."""
GPT2 = SHAPES["GPT-2"].config
"""The shape of GPT-2-small."""


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
    # Qwen2's splitting, for one, is another than the file's: llama.cpp reads the file alone.
    read_causal(directory, shape)[0].save(str(directory / "tokenizer.json"))
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
