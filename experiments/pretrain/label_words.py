"""Chooses the words that replace label words in training, and held-out words for tests.

The chosen words are stored in `batch_calibration/scoring/embedded/words/`.
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
    """Chooses the words for training and `HELD_OUT` held-out words, each sorted.

    Candidates are lower-case words of the texts with at least three letters that are one token
    after a space. Function words, label words and words of praise or blame are excluded. The
    candidates with the lowest SHA-256 are held out.
    """
    vocabulary = set[str]().union(*(re.findall(r"(?<= )[a-z]{3,}\b", text) for text in texts))

    def is_one_token(candidate: str) -> bool:
        # With the space before it, as in a prompt.
        return len(tokenizer.encode(f" {candidate}", add_special_tokens=False).ids) == 1

    left_out = FUNCTION_WORDS | _label_words(tasks) | _judgments()
    eligible = set(filter(is_one_token, vocabulary - left_out))
    by_hash = sorted(eligible, key=lambda candidate: hashlib.sha256(candidate.encode()).digest())
    held_out = by_hash[:HELD_OUT]
    return tuple(sorted(eligible - {*held_out})), tuple(sorted(held_out))


def _label_words(tasks: Iterable[Task]) -> set[str]:
    """Collects the label words of the tasks and of the thesaurus."""
    label_words = {prose.SAME, prose.OTHER, prose.APART}
    for task in tasks:
        label_words |= task.own_words.union(*VERBALIZERS[task.name])
    return label_words


def _judgments() -> set[str]:
    graded = (adjectives for _, adjectives in (*sst2.GOOD, *sst2.BAD))
    return {*sst2.PRAISE, *sst2.BLAME}.union(*graded)
