"""Networks of popular shapes with random weights, and the least work for scoring texts."""

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
    """The shape of a network, from its published `config.json`.

    Attributes:
        config: The keys that determine its shape.
        layers: Number of layers for a run within 20 minutes.
    """

    config: dict[str, Any]
    layers: int

    def cut(self, whole: bool) -> dict[str, Any]:
        """Returns the config, with only `layers` layers unless `whole`."""
        key = "n_layer" if "n_layer" in self.config else "num_hidden_layers"
        return self.config | ({} if whole else {key: self.layers})


_PUBLISHED = json.loads(Path(__file__).with_name("shapes.json").read_text(encoding="utf-8"))
SHAPES = {name: Shape(**entry) for name, entry in _PUBLISHED.items()}
"""Name of a network -> its shape."""
GPT2 = SHAPES["GPT-2"].config
"""The shape of GPT-2-small."""


def random_checkpoint(directory: Path, tokenizer: Path, shape: dict[str, Any]) -> Path:
    """Writes a Hugging Face checkpoint with GPT-2's tokenizer and GPT-2's initial weights."""
    directory.mkdir(parents=True)
    bpe = ByteLevelBPETokenizer(str(tokenizer / "encoder.json"), str(tokenizer / "vocab.bpe"))
    bpe.save(str(directory / "tokenizer.json"))
    # Without it transformers uses the architecture's class, which may tokenize differently.
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    family, random = FAMILIES[shape["model_type"]], np.random.default_rng(0)
    graph, state = nnx.split(_skeleton(directory, shape))

    def draw(path: Any, like: Any) -> np.ndarray:
        ones = "scale" in jax.tree_util.keystr(path)  # the scale of a norm
        # GPT-2's scale
        noise = np.float32(0.02) * random.standard_normal(like.shape, np.float32)
        return np.ones(like.shape, np.float32) if ones else noise

    drawn = jax.tree_util.tree_map_with_path(draw, state)
    weights.save(directory, nnx.merge(graph, drawn), family, shape)
    # Qwen2, for example, splits differently from this file, and llama.cpp reads only the file.
    read_causal(directory, shape)[0].save(str(directory / "tokenizer.json"))
    return directory


def _skeleton(directory: Path, shape: dict[str, Any]) -> nnx.Module:
    family = FAMILIES[shape["model_type"]]
    config = read_config(family, shape, directory)
    # Only shapes, without weights.
    model: nnx.Module = nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0)))
    return model


class Work(NamedTuple):
    """The least work for scoring labels after texts, with each distinct prefix computed once.

    Attributes:
        tokens: Number of positions to run: the distinct prefixes.
        reads: Number of positions with a next token to read.
        flops: Floating point operations of weights, unmasked attention and unembedding.
    """

    tokens: int
    reads: int
    flops: float


def least_work(
    directory: Path, shape: dict[str, Any], texts: Sequence[str], labels: Sequence[str]
) -> Work:
    """Computes the least work for scoring all labels after all texts."""
    family = FAMILIES[shape["model_type"]]
    config: Any = read_config(family, shape, directory)
    leaves = nnx.to_flat_state(nnx.state(_skeleton(directory, shape)))
    matrices = sum(leaf.size for path, leaf in leaves if path[-1] == "kernel")
    kinds = getattr(config, "layer_types", ("full_attention",) * config.layers)
    # None: no attention window
    windows = [config.sliding_window if kind.startswith("sliding") else None for kind in kinds]
    head = getattr(config, "head_dim", None) or config.width // config.heads
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    encoded = tokenizer.encode_batch_fast(list(starmap(add, product(texts, labels))))
    ids = sorted(encoding.ids[:-1] for encoding in encoded)  # no token follows the last one
    depths = list[int]()
    # Sorted, a text shares its longest prefix with its predecessor; the first has none.
    for before, text_ids in pairwise([[], *ids]):
        start = len(commonprefix([before, text_ids]))  # noqa: RUF071 (tokens are meant)
        depths += range(start, len(text_ids))
    # Unmasked pairs of query and key, over all layers.
    pairs = 0
    for window in windows:
        pairs += sum(min(depth + 1, window or depth + 1) for depth in depths)
    prompts = tokenizer.encode_batch_fast(list(texts))
    beginnings = set[tuple[int, ...]]()  # a prefix of two rows is read once
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
