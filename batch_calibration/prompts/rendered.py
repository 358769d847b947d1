"""What a plan is: everything a model will be asked in one context."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

DEFAULTS = {
    "selection": "per_class", "order": -1, "template": "", "verbalizer": "", "over_long": "error",
}  # fmt: skip
"""Choices that a context names under `options` where they are not these."""


class Request(NamedTuple):
    """The texts of one block, or references to its pictures, before any model is asked."""

    texts: Sequence[str]
    labels: list[int]
    row_ids: list[str]
    spec: dict[str, Any]


class Plan(NamedTuple):
    """One context, rendered.

    Attributes:
        context: What it is: all that decides its numbers but the model.
        label_names: Names of the `k` labels.
        label_texts: Texts to score, `forms[j]` of them for label `j`, one label after the other.
        forms: Surface forms of each label.
        blocks: The texts of each block.
        inputs: What the blocks' texts are: `text`, or `image`, references for
            `tasks.sources.pictures.open_picture`.
        ensemble: Whether a label's forms are statements whose embeddings are averaged; if not,
            their probabilities are summed.
        notes: What a reader of the numbers must know, in sentences.
    """

    context: dict[str, Any]
    label_names: tuple[str, ...]
    label_texts: list[str]
    forms: tuple[int, ...]
    blocks: dict[str, Request]
    inputs: str = "text"
    ensemble: bool = False
    notes: tuple[str, ...] = ()


def digest(texts: Iterable[str]) -> str:
    """One hash over lengths and texts."""
    content = hashlib.sha256()
    for text in texts:
        content.update(f"{len(text)}:{text}".encode())
    return content.hexdigest()[:16]
