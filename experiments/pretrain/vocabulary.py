"""Trains the tokenizers of the mini models: byte-level BPE, so any text can be encoded."""

import json
import random

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from batch_calibration.scoring.models.files import tokenizer_files
from batch_calibration.scoring.tasks.base import Task
from experiments.pretrain import captions
from experiments.pretrain.documents import END, Recipe, written


def train_tokenizer(
    tasks: dict[str, Task], recipe: Recipe, size: int, texts: int, seed: int
) -> Tokenizer:
    """Trains a tokenizer of `size` tokens on `texts` documents.

    The vocabulary holds the 256 bytes, the merges and the end token.
    """
    rng = random.Random(f"{seed}/vocabulary")
    tokenizer = Tokenizer(models.BPE())
    # Prompts contain all of their spaces, so the tokenizer adds none.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        # All bytes, so that any text can be encoded.
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[END],
        show_progress=False,
    )
    corpus = (written(tasks, recipe, rng).text for _ in range(texts))
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def train_clip_tokenizer(size: int, texts: int, seed: int) -> Tokenizer:
    """Trains CLIP's tokenizer, with at most `size` tokens, on `texts` captions."""
    # Stream 1 of the seed; training draws from stream 0.
    _, corpus = captions.caption_batch(np.random.default_rng([seed, 1]), texts)
    learner = tokenizer_files.build([])
    learner.model = models.BPE(end_of_word_suffix=tokenizer_files.WORD)
    trainer = trainers.BpeTrainer(
        vocab_size=size, end_of_word_suffix=tokenizer_files.WORD, show_progress=False
    )
    learner.train_from_iterator(corpus, trainer)
    merges = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["merges"]]
    # As many merges as the vocabulary without merges leaves room for.
    return tokenizer_files.build(merges[: size - tokenizer_files.build([]).get_vocab_size()])
