"""Counts the tokens of prompts and the positions that prompts need with their labels."""

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from batch_calibration.scoring.engine import trie
from batch_calibration.scoring.engine.batches import group_prompts
from batch_calibration.scoring.engine.packing import SHORTEST
from batch_calibration.scoring.engine.tokens import Encoded, encode, token_ids
from batch_calibration.scoring.models.files.checkpoint import TokenizerInfo

TOKENIZED_ROWS = 4096
"""Rows tokenized at a time, so that memory does not grow with the number of rows."""


class Cost(NamedTuple):
    """Token counts of some rows: tokens of their texts, and tokens that the scorer runs."""

    prompts: int
    computed: int


class TokenBudget:
    r"""A tokenizer and the model's positions, known before the weights are loaded.

    Example:
        budget = TokenBudget(load_tokenizer("checkpoints/gpt2"))
        budget.positions_needed(["Review: fine\nSentiment:"], [" negative", " positive"])
    """

    def __init__(self, tokenizer_info: TokenizerInfo):
        self.tokenizer_info = tokenizer_info
        tokenizer = tokenizer_info.tokenizer
        pre, normalizer = tokenizer.pre_tokenizer, type(tokenizer.normalizer).__name__
        # A token holds at least one byte. NFC lengthens a text at most three times (UAX 15).
        by_bytes = pre is not None and b'"ByteLevel"' in pre.__getstate__()
        longer = {"NoneType": 1, "NFC": 3}.get(normalizer) if by_bytes else None
        self._tokens_per_byte = longer or math.inf

    # `notes` are sentences on how the model reads texts, for readers of the scores.
    positions = property(attrgetter("tokenizer_info.positions"))
    notes = property(attrgetter("tokenizer_info.notes"))

    def positions_needed(self, texts: Sequence[str], labels: Sequence[str]) -> list[int]:
        """Returns the positions that each text needs with its longest label.

        The beginning token counts. A label's last token is read but never fed, so it needs no
        position. If rows fit even with the largest possible number of tokens, this bound is
        returned, and only one row is tokenized to check the labels.
        """
        needed: list[int] = []  # positions
        most_of_labels = max(map(self._most_tokens, labels), default=0)
        for start in range(0, len(texts), TOKENIZED_ROWS):
            rows = list(texts[start : start + TOKENIZED_ROWS])  # rendered once
            # The added 1 is the beginning token.
            bounds = [1 + self._most_tokens(text) + most_of_labels for text in rows]
            fit = max(bounds) <= self.positions
            exact = []
            for encoded in self._encode(rows[:1] if fit else rows, labels, start):
                for prompt, label_tokens in zip(*encoded, strict=True):
                    exact.append(len(prompt) + max(map(len, label_tokens)) - 1)
            needed += map(int, bounds) if fit else exact
        return needed

    def _most_tokens(self, text: str) -> float:
        """Returns an upper bound of a text's tokens; infinity if only the tokenizer can decide."""
        try:
            return self._tokens_per_byte * (1 + len(text.encode())) if text.strip() else math.inf
        except (UnicodeEncodeError, AttributeError):
            return math.inf

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Counts the tokens of each text with the special tokens around it."""
        return list(map(len, token_ids(self.tokenizer_info.tokenizer, list(texts), special=True)))

    def truncate_left(self, text: str, tokens: int) -> str:
        """Cuts the first `tokens` tokens off a text, at the edge of a token."""
        offsets = self.tokenizer_info.tokenizer.encode(text, add_special_tokens=False).offsets
        if tokens >= len(offsets):
            return ""
        # Tokens of one character share its start, so at least one character is cut.
        return text[max(1, offsets[tokens][0]) :]

    def boundary(self, text: str, labels: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        """Returns the prompt's tokens and each label's tokens, as the tokenizer writes them."""
        info = self.tokenizer_info
        tokenizer = info.tokenizer
        prompts, ids = encode(tokenizer, [text], labels, info.bos, prefix=info.prefix)

        def write(numbers: Sequence[int]) -> list[str]:
            return [tokenizer.id_to_token(number) or "?" for number in numbers]

        return write(prompts[0]), list(map(write, ids[0]))

    def cost(self, texts: Sequence[str], labels: Sequence[str]) -> Cost:
        """Counts the tokens of the texts, and the positions run with shared prefixes and tries."""
        read = computed = 0  # tokens
        for prompts, ids in self._encode(texts, labels):
            read += sum(map(len, prompts))
            computed += sum(len(trie.build_trie(row).tokens) for row in ids)
            for shared, rows in group_prompts(prompts, SHORTEST):
                computed += shared + sum(len(prompts[row]) - shared for row in rows)
        return Cost(read, computed)

    def cut_cost(self, texts: Sequence[str], max_tokens: int) -> Cost:
        """Counts the tokens of the texts and the tokens that an encoder runs after its cut."""
        counts = self.token_counts(texts)
        longest = min(max_tokens or self.positions, self.positions)
        return Cost(sum(counts), int(np.minimum(counts, longest).sum()))

    def _encode(
        self, texts: Sequence[str], labels: Sequence[str], first: int = 0
    ) -> Iterator[Encoded]:
        for start in range(0, len(texts), TOKENIZED_ROWS):
            some_texts = texts[start : start + TOKENIZED_ROWS]
            info = self.tokenizer_info
            yield encode(info.tokenizer, some_texts, labels, info.bos, first + start, info.prefix)
