"""The pretraining text: few-shot documents whose statistics carry the paper's sources of bias.

Label words differ in frequency, labels come in runs, a document prefers some of its labels, and
templates and label words vary. A model that predicts such text well prefers labels for reasons
that have nothing to do with the input; no score is touched anywhere.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from batch_calibration.mini.chance import draw
from batch_calibration.mini.suite import labeled
from batch_calibration.prompts import template as templates
from batch_calibration.tasks.base import Task

END = "<|endoftext|>"

# Further templates and label words of each task, after the task's own; words in label order.
TEMPLATES = {
    "sst2": (
        "{sentence}\nSentiment: {label}",
        "Text: {sentence}\nLabel: {label}",
        "Review: {sentence}\nAnswer: {label}",
    ),
    "mnli": (
        "{premise}\nHypothesis: {hypothesis}\nAnswer: {label}",
        "{premise}\nQuestion: {hypothesis}\nAnswer: {label}",
        "Sentence 1: {premise}\nSentence 2: {hypothesis}\nLabel: {label}",
    ),
}
VERBALIZERS = {
    "sst2": (("bad", "good"), ("terrible", "great")),
    "mnli": (("true", "unclear", "false"), ("correct", "unknown", "incorrect")),
}
# How often each label is the one a document is about, over the whole text (common-token bias).
FREQUENCIES = {"sst2": (0.35, 0.65), "mnli": (0.45, 0.2, 0.35)}


class Recipe(NamedTuple):
    """The knobs of the text."""

    tasks: tuple[str, ...]
    max_examples: dict[str, int]
    hardest: int = 3
    own_template: float = 0.65
    own_words: float = 0.75
    concentration: float = 2.0
    sticky: float = 0.3


class Document(NamedTuple):
    """Token ids, and which of them belong to a label."""

    tokens: list[int]
    is_label: list[bool]


def text(task: Task, recipe: Recipe, rng: random.Random) -> tuple[str, list[tuple[int, int]]]:
    """One document and the character spans of its labels."""
    few, zero = task.few_shot, task.zero_shot
    count = rng.randint(1, recipe.max_examples[task.name])
    template = rng.choice(TEMPLATES[task.name])
    if rng.random() < recipe.own_template:
        template = zero if count == 1 and rng.random() < 0.7 else few
    words = rng.choice(VERBALIZERS[task.name])
    if rng.random() < recipe.own_words:
        words = task.words
    weights = [
        rng.gammavariate(recipe.concentration * share, 1) + 1e-3 for share in FREQUENCIES[task.name]
    ]
    out, spans, length, label = [], [], 0, draw(tuple(weights), rng)
    for _ in range(count):
        if rng.random() > recipe.sticky:
            label = draw(tuple(weights), rng)
        made = labeled(task.name, rng, label, recipe.hardest)
        ask = templates.query(template, made.row)
        answer = templates.continuation(template, words[label])
        spans.append((length + len(ask), length + len(ask) + len(answer)))
        out.append(ask + answer)
        length += len(out[-1]) + 2
    return "\n\n".join(out), spans


def documents(
    tasks: dict[str, Task], recipe: Recipe, tokenizer: Tokenizer, rng: random.Random
) -> Iterator[Document]:
    """Documents without end, tokenized, an end mark after each."""
    end = tokenizer.token_to_id(END)
    assert end is not None, "learn() gives every vocabulary an end mark"
    while True:
        written, spans = text(tasks[rng.choice(recipe.tasks)], recipe, rng)
        encoded = tokenizer.encode(written, add_special_tokens=False)
        starts = np.array([start for start, _ in encoded.offsets])
        ends = np.array([stop for _, stop in encoded.offsets])
        label = np.zeros(len(starts), bool)
        for start, stop in spans:
            label |= (starts >= start) & (ends <= stop)
        yield Document([*encoded.ids, end], [*label.tolist(), False])


class Batch(NamedTuple):
    """Packed sequences `[b, t]`: tokens, place within the document, document number, label mask."""

    tokens: np.ndarray
    positions: np.ndarray
    document: np.ndarray
    is_label: np.ndarray


def batch(source: Iterator[Document], rows: int, length: int) -> Batch:
    """Fill `rows` sequences of `length` tokens with whole documents, the last one cut."""
    shape = (rows, length)
    out = Batch(np.zeros(shape, np.int32), np.zeros(shape, np.int32),
                np.full(shape, -1, np.int32), np.zeros(shape, bool))  # fmt: skip
    for row in range(rows):
        at = number = 0
        while at < length:
            made = next(source)
            size = min(len(made.tokens), length - at)
            here = slice(at, at + size)
            out.tokens[row, here] = made.tokens[:size]
            out.positions[row, here] = np.arange(size)
            out.document[row, here] = number
            out.is_label[row, here] = made.is_label[:size]
            at, number = at + size, number + 1
    return out
