"""Tiny random checkpoints and tokenizers, made on the spot."""

import json
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
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
BERT = {"model_type": "bert", "vocab_size": 400, "max_position_embeddings": 40, "hidden_size": 16}
BERT |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


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


def write_sentence_transformer(
    directory: Path, pooling: dict, *folders: str, network: dict = BERT, **files: dict
) -> Path:
    """A random encoder and what sentence-transformers writes with it.

    `pooling` is its config; `folders` follow, such as `"2_Dense"` and `"3_Normalize"`; `files` are
    others by their names without `.json`.
    """
    write(directory, network)
    named = ["", "1_Pooling", *folders]
    kinds = ["Transformer", *(folder.split("_")[1] for folder in named[1:])]
    modules = [
        {"idx": i, "name": str(i), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, folder) in enumerate(zip(kinds, named, strict=True))
    ]
    (directory / "1_Pooling").mkdir()
    texts = {"modules": modules, "1_Pooling/config": pooling} | files
    for name, content in texts.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return directory


def write_dense(
    directory: Path, shape: tuple[int, int], activation: str = "activation.Tanh", **more: object
) -> dict[str, np.ndarray]:
    """A dense layer `[out, in]` as sentence-transformers writes it; its tensors."""
    directory.mkdir()
    random = np.random.default_rng(shape[0])
    tensors = {"linear.weight": random.normal(0, 0.5, shape).astype(np.float32)}
    if more.get("bias", True):
        tensors["linear.bias"] = random.normal(0, 0.5, shape[0]).astype(np.float32)
    safetensors.numpy.save_file(tensors, directory / "model.safetensors")
    config = {"in_features": shape[1], "out_features": shape[0], "bias": True}
    config |= {"activation_function": f"torch.nn.modules.{activation}"} | more
    (directory / "config.json").write_text(json.dumps(config))
    return tensors
