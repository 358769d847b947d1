"""Tokens of what is sent: counted with the model's tokenizer, or by a rule of thumb."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.errors import InputError

if TYPE_CHECKING:
    from batch_calibration.scoring.models.files.checkpoint import TokenizerInfo

BYTES_PER_TOKEN = 4  # bytes of UTF-8 in a token, by the rule of thumb
ROWS_AT_ONCE = 1024  # rows rendered and tokenized at a time


class LabelIds(NamedTuple):
    """Token ids of a prompt, and of each label after it."""

    prompt: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()


def count_tokens(texts: Sequence[str], tokenizer: "TokenizerInfo | None") -> list[int]:
    """Tokens of each text; without a tokenizer one for `BYTES_PER_TOKEN` bytes.

    >>> count_tokens(["Review: a fine film"], None)
    [5]
    """
    if tokenizer:
        from batch_calibration.scoring.engine.token_budget import TokenBudget

        return TokenBudget(tokenizer).token_counts(texts)
    # Negated twice, the division rounds up.
    return [-(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN) for text in texts]


def count_in_batches(texts: Sequence[str], tokenizer: "TokenizerInfo | None") -> np.ndarray:
    """Tokens of each text, int32 [n]; 0 without a tokenizer."""
    counts = np.zeros(len(texts), np.int32)
    if tokenizer:
        for start in range(0, len(texts), ROWS_AT_ONCE):
            batch = texts[start : start + ROWS_AT_ONCE]
            counts[start : start + ROWS_AT_ONCE] = count_tokens(batch, tokenizer)
    return counts


def label_ids(
    texts: Sequence[str], forms: Sequence[str], tokenizer: "TokenizerInfo", first_row: int = 0
) -> list[LabelIds]:
    """The ids that `CausalLM` would read of each text and its labels."""
    from batch_calibration.scoring.engine.tokens import encode

    encoded = encode(tokenizer.tokenizer, texts, forms, tokenizer.bos, first_row, tokenizer.prefix)
    rows = []
    for row, (prompt, labels) in enumerate(zip(*encoded, strict=True), first_row):
        for form, ids in zip(forms, labels, strict=True):
            if len(ids) > 1:
                raise InputError(
                    f"row {row}: the label {form!r} is {len(ids)} tokens, and this way of asking "
                    "scores one; choose other label words, or config.api_scores=prompt_logprobs "
                    "(vLLM) or echo."
                )
        if len(prompt) < 2:  # SGLang's score takes the last token apart from those before it
            raise InputError(
                where=f"row {row}",
                expected="a prompt of two tokens or more",
                got=repr(texts[row - first_row]),
                remedy="say something before the label",
            )
        rows.append(LabelIds(tuple(prompt), tuple(ids[0] for ids in labels)))
    return rows


def tokenizer_digest(tokenizer: "TokenizerInfo") -> str:
    """Hash of all that decides which ids a text has."""
    text = f"{tokenizer.bos} {tokenizer.tokenizer.to_str()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
