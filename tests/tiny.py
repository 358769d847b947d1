"""Tiny random checkpoints and tokenizers, made on the spot."""

import json
from pathlib import Path

import jax
import numpy as np
from flax import nnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files import weights
from batch_calibration.scoring.models.files.config import read_config

CORPUS = [
    "Review: a charming and often affecting journey.\nSentiment: positive\n\n",
    "Review: unflinchingly bleak and desperate, not even funny.\nSentiment: negative\n\n",
    "Review: it's slow -- very, very slow; the acting is fine.\nSentiment: neutral\n\n",
]
GPT2 = {"model_type": "gpt2", "vocab_size": 400, "n_positions": 160}
GPT2 |= {"n_embd": 16, "n_layer": 2, "n_head": 2}
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
TOWER |= {"num_attention_heads": 2}
CLIP = {
    "model_type": "clip",
    "projection_dim": 8,
    "text_config": TOWER | {"vocab_size": 400, "eos_token_id": 399, "max_position_embeddings": 40},
    "vision_config": TOWER | {"image_size": 32, "patch_size": 8},
}


def byte_level(size: int = 330) -> Tokenizer:
    """A byte-level BPE like GPT-2's: it may be cut at spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = {"initial_alphabet": alphabet, "special_tokens": ["<|end|>"]}
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **special)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def whole_text(size: int = 330) -> Tokenizer:
    """A BPE over characters with no words at all: tokens reach over spaces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    marks = ["<unk>", "<s>"]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=marks, show_progress=False)
    tokenizer.train_from_iterator([text + text for text in CORPUS], trainer)
    return tokenizer


def write(
    directory: Path, raw: dict, tokenizer: Tokenizer | None = None, seed=0, noise=0.2
) -> Path:
    """A checkpoint directory with every weight at random, the norms' and biases too."""
    family = FAMILIES[raw["model_type"]]
    config = read_config(family, raw, directory)
    graph, shapes = nnx.split(nnx.eval_shape(lambda: family.model(config, rngs=nnx.Rngs(0))))
    random = np.random.default_rng(seed)
    state = jax.tree.map(lambda s: random.normal(0, noise, s.shape).astype(np.float32), shapes)
    weights.save(directory, nnx.merge(graph, state), family, raw)
    (tokenizer or byte_level()).save(str(directory / "tokenizer.json"))
    # The network's own class would split text its own way (decision 11).
    as_it_stands = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (directory / "tokenizer_config.json").write_text(json.dumps(as_it_stands))
    return directory
