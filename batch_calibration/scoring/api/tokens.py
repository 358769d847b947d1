"""Tokens of what is sent: counted with the model's tokenizer, or by a rule of thumb."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.errors import InputError

if TYPE_CHECKING:
    from batch_calibration.models.checkpoint import TokenizerInfo

BYTES = 4
"""Bytes of UTF-8 in a token, by the rule of thumb."""


class LabelIds(NamedTuple):
    """Token ids of a prompt, and of each label after it."""

    prompt: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()


def count_tokens(texts: Sequence[str], tokenizer: "TokenizerInfo | None") -> list[int]:
    """Tokens of each text; without a tokenizer one for `BYTES` bytes.

    >>> count_tokens(["Review: a fine film"], None)
    [5]
    """
    if tokenizer:
        from batch_calibration.scoring.token_budget import TokenBudget

        return TokenBudget(tokenizer).token_counts(texts)
    return [-(-len(text.encode(errors="replace")) // BYTES) for text in texts]


def label_ids(
    texts: Sequence[str], forms: Sequence[str], tokenizer: "TokenizerInfo", first: int = 0
) -> list[LabelIds]:
    """The ids that `CausalLM` would read of each text and its labels.

    Raises:
        InputError: a label of several tokens, or two that begin with the same one.
    """
    from batch_calibration.scoring.tokens import encode

    prompts, labels = encode(tokenizer.tokenizer, texts, forms, tokenizer.bos, first)
    made = []
    for row, (prompt, of) in enumerate(zip(prompts, labels, strict=True), first):
        long = next((i for i, ids in enumerate(of) if len(ids) > 1), None)
        if long is not None:
            raise InputError(
                f"row {row}: the label {forms[long]!r} is {len(of[long])} tokens, and this way of "
                "asking scores one; choose other label words, or config.api_scores=prompt_logprobs "
                "(vLLM) or echo."
            )
        if len(prompt) < 2:
            raise InputError(
                where=f"row {row}",
                expected="a prompt of two tokens or more",
                got=f"{texts[row - first]!r}",
                remedy="say something before the label",
            )
        made.append(LabelIds(tuple(prompt), tuple(ids[0] for ids in of)))
    return made


def tokenizer_digest(tokenizer: "TokenizerInfo") -> str:
    """Hash of all that decides which ids a text has."""
    whole = f"{tokenizer.bos} {tokenizer.tokenizer.to_str()}"
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
