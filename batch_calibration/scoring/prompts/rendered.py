"""What a rendered context is: everything that a model will be asked about in one context."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batch_calibration.files import Json
from batch_calibration.scoring.inputs import Inputs
from batch_calibration.scoring.tasks.base import Task
from batch_calibration.settings import Cell, PromptSettings

USUAL = PromptSettings()
CHOICES = (
    "selection", "order", "template", "verbalizer", "label_words", "over_long", "chat", "system",
    "answer_start", "chat_date",
)  # fmt: skip
"""Settings that a context names under `options` where they are not the default."""
OF_DEMONSTRATIONS = ("train_split", "demonstration_labels")
"""Further ones, of contexts that have demonstrations."""
BLOCK_CHOICES = {
    "cc": ("cc_fill",),
    "dc": ("dc_texts",),
    "permutations": ("option_orders",),
    "labeled": ("labeled_per_class", "train_split"),
}
"""Settings that decide one block alone: its spec names them, and its context's id does not."""


class RenderedBlock(NamedTuple):
    """The inputs of one block, before any model is asked."""

    inputs: Inputs  # texts or images
    labels: list[int]  # the gold label of each, -1 where it is unknown
    row_ids: list[str]  # names that lead back to the rows
    # What made the inputs, settings that are not the default under `options`; another spec makes a
    # stored block stale.
    spec: dict[str, Json]
    # How many inputs in a row count as one: where one of them has no scores, none has.
    together: int = 1

    @property
    def size(self) -> int:
        """How many inputs there are."""
        return len(self.labels)


class RenderedContext(NamedTuple):
    """One context, rendered."""

    context: dict[str, Json]  # what it is: all that decides its numbers but the model
    label_names: tuple[str, ...]  # names of the `k` labels
    # The texts of each label: surface forms of its words, or statements.
    label_texts: tuple[tuple[str, ...], ...]
    blocks: dict[str, RenderedBlock]  # the inputs of each block
    notes: tuple[str, ...] = ()  # what a reader of the numbers must know, in sentences

    @property
    def size(self) -> int:
        """How many inputs all blocks have."""
        return sum(block.size for block in self.blocks.values())

    def count(self, change: str) -> int:
        """How many prompts of all blocks were shortened; `change` is "dropped" or "truncated"."""
        counts = (block.spec.get(change) for block in self.blocks.values())
        return sum(count for count in counts if isinstance(count, int))


def text_digest(texts: Iterable[str]) -> str:
    """One hash over lengths and texts."""
    content = hashlib.sha256()
    for text in texts:
        # The length keeps texts apart: "ab" and "c" are not "a" and "bc".
        content.update(f"{len(text)}:{text}".encode())
    return content.hexdigest()[:16]


def unusual(cell: Cell, names: Iterable[str]) -> dict[str, Json]:
    """Those of the settings that are not the default."""
    # A default is left out, so that a new setting keeps the ids of stored contexts.
    default = Cell(cell.task)
    settings = vars(cell.data) | vars(cell.prompt)
    defaults = vars(default.data) | vars(default.prompt)
    return {name: settings[name] for name in names if settings[name] != defaults[name]}


def block_options(cell: Cell, block: str) -> dict[str, Json]:
    """The part of a block's spec that names its settings; nothing where all are the default."""
    options = unusual(cell, BLOCK_CHOICES.get(block, ()))
    return {"options": options} if options else {}


def describe(
    task: Task,
    cell: Cell,
    *,
    rows: str,
    served: str,
    shots: int,
    demonstrations: Sequence[str],
    label_texts: Sequence[Sequence[str]],
    form: dict[str, Json],
    **optional: Json,
) -> dict[str, Json]:
    """A context's description; what is as usual, and what is empty in `optional`, is not in it.

    `rows` is a digest of the test rows, `served` the split that serves as the one asked for,
    `demonstrations` are ids of the rows shown, and `form` is the template and what it shows.
    """
    has_own_data = bool(task.files or task.folder)
    form_counts = [len(texts) for texts in label_texts]
    # Keys and their order decide a context's id: stored scores are found by it.
    context: dict[str, Json] = {
        "task": task.name,
        # The folder's name alone: the same data may lie elsewhere on another machine.
        "data": "task file" if has_own_data else Path(cell.data.data).name,
        "rows": rows,
        "split": cell.data.split,
        "limit": cell.data.limit,
        "shots": shots,
        "seed": cell.seed,
        "demonstrations": list(demonstrations),
        "labels": [*chain.from_iterable(label_texts)],
        **form,
    }
    if served != cell.data.split:
        context["served"] = served
    if max(form_counts) > 1:
        context["forms"] = list(form_counts)
    return context | {key: optional[key] for key in optional if optional[key]}
