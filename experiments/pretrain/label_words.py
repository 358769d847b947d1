"""Chooses the words that stand for labels in training, and those held out from it.

What it chose is fixed in `batch_calibration/scoring/embedded/words/`.
"""

import hashlib
import re
from collections.abc import Iterable

from tokenizers import Tokenizer

from batch_calibration.scoring.tasks.base import Task
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
    vocabulary = set[str]().union(*(re.findall(r"(?<= )[a-z]{3,}\b", text) for text in texts))

    def is_one_token(candidate: str) -> bool:
        # With its space, as in a prompt.
        return len(tokenizer.encode(f" {candidate}", add_special_tokens=False).ids) == 1

    left_out = FUNCTION_WORDS | _label_words(tasks) | _judgments()
    eligible = set(filter(is_one_token, vocabulary - left_out))
    by_hash = sorted(eligible, key=lambda candidate: hashlib.sha256(candidate.encode()).digest())
    held_out = by_hash[:HELD_OUT]
    return tuple(sorted(eligible - {*held_out})), tuple(sorted(held_out))


def _label_words(tasks: Iterable[Task]) -> set[str]:
    """Words of the tasks' labels, in training and in tests, and of the thesaurus's entries."""
    label_words = {prose.SAME, prose.OTHER, prose.APART}
    for task in tasks:
        label_words |= task.own_words.union(*VERBALIZERS[task.name])
    return label_words


def _judgments() -> set[str]:
    graded = (adjectives for _, adjectives in (*sst2.GOOD, *sst2.BAD))
    return {*sst2.PRAISE, *sst2.BLAME}.union(*graded)
