"""The mini model's tokenizer: a byte-level BPE learned from the grammar, so any text encodes."""

import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from batch_calibration.mini.documents import END, Recipe, text
from batch_calibration.tasks.base import Task


def learn(tasks: dict[str, Task], recipe: Recipe, size: int, texts: int, seed: int) -> Tokenizer:
    """Learn `size` tokens from `texts` documents; bytes come first, then merges, then the end."""
    rng = random.Random(f"{seed}/vocabulary")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[END],
        show_progress=False,
    )
    corpus = (text(tasks[rng.choice(recipe.tasks)], recipe, rng)[0] for _ in range(texts))
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer
