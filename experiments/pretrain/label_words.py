"""Chooses the words that stand for labels in training, and those held out from it.

What it chose is fixed in `batch_calibration/embedded/label_words.py`.
"""

import hashlib
import re
from collections.abc import Iterable

from tokenizers import Tokenizer

from batch_calibration.tasks.base import Task
from experiments.pretrain import prose
from experiments.pretrain.documents import VERBALIZERS
from experiments.pretrain.grammar import sst2

HELD_OUT = 60
FUNCTION_WORDS = frozenset((
    "about", "above", "after", "almost", "and", "but", "does", "down", "for", "from", "had",
    "have", "into", "its", "never", "not", "off", "other", "out", "rather", "say", "says",
    "that", "the", "this", "though", "through", "truly", "two", "until", "very", "what",
    "which", "with", "without",
))  # fmt: skip


def choose(
    texts: Iterable[str], tokenizer: Tokenizer, tasks: Iterable[Task]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words for training and `HELD_OUT` others, each sorted.

    They are the words of the texts of three letters or more, in lower case and one token after a
    space, that are no function words, no label words, and no words that say how good something is.
    Held out are those whose SHA-256 is lowest.
    """
    left_out = FUNCTION_WORDS | _label_words(tasks) | _judgments()
    found = {word for text in texts for word in re.findall(r"(?<= )[a-z]{3,}\b", text)}
    fine = sorted(word for word in found - left_out if _is_one_token(word, tokenizer))
    held_out = sorted(fine, key=lambda word: hashlib.sha256(word.encode()).digest())[:HELD_OUT]
    return tuple(word for word in fine if word not in held_out), tuple(sorted(held_out))


def _is_one_token(word: str, tokenizer: Tokenizer) -> bool:
    return len(tokenizer.encode(f" {word}", add_special_tokens=False).ids) == 1


def _label_words(tasks: Iterable[Task]) -> set[str]:
    """Words of the tasks' labels, in training and in tests, and of the thesaurus's entries."""
    words = {prose.SAME, prose.OTHER, prose.APART}
    for task in tasks:
        words |= task.own_words.union(*VERBALIZERS[task.name])
    return words


def _judgments() -> set[str]:
    graded = [word for _, words in (*sst2.GOOD, *sst2.BAD) for word in words]
    return {*graded, *sst2.PRAISE, *sst2.BLAME}
