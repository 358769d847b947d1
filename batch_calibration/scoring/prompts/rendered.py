"""A rendered context: all inputs for a model in one context.

`render.py` renders contexts of texts; this module renders contexts of images.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError, spell
from batch_calibration.files import Json
from batch_calibration.scores import BALANCED
from batch_calibration.scoring.inputs import ImageInputs, ImageRows, Inputs
from batch_calibration.scoring.prompts import demonstrations
from batch_calibration.scoring.tasks.base import Task
from batch_calibration.settings import Cell, PromptSettings, refuse_changed

USUAL = PromptSettings()
OF_CHATS = ("chat", "system", "answer_start", "chat_date")
CHOICES = ("selection", "order", "template", "verbalizer", "label_words", "over_long", *OF_CHATS)
"""Settings that a context lists under `options` if they are not the default."""
OF_DEMONSTRATIONS = ("train_split", "demonstration_labels")
"""Further settings of contexts with demonstrations."""
BLOCK_CHOICES = {
    "cc": ("cc_fill",),
    "dc": ("dc_texts",),
    "permutations": ("option_orders",),
    "labeled": ("labeled_per_class", "train_split"),
}
"""Settings that affect only one block: its spec names them, but its context's id does not."""
USUAL_LABELED = {"labeled_per_class": 128}
"""The size of the paper's labeled set. Specs do not list it; stored blocks without it have it."""


class RenderedBlock(NamedTuple):
    """The inputs of one block, before a model scores them."""

    inputs: Inputs  # texts or images
    labels: list[int]  # gold labels, -1 if unknown
    row_ids: list[str]  # names that identify the rows in the source
    # A digest of the inputs, and non-default settings under `options`. A stored block is stale if
    # its spec differs.
    spec: dict[str, Json]
    # Number of consecutive inputs that form a unit: if one lacks scores, the unit does.
    together: int = 1

    @property
    def size(self) -> int:
        """The number of inputs."""
        return len(self.labels)


class RenderedContext(NamedTuple):
    """A context with its rendered inputs."""

    context: dict[str, Json]  # everything except the model that determines the scores
    label_names: tuple[str, ...]  # names of the `k` labels
    # The texts of each label: surface forms of its words, or statements.
    label_texts: tuple[tuple[str, ...], ...]
    blocks: dict[str, RenderedBlock]  # the inputs of each block
    notes: tuple[str, ...] = ()  # sentences for readers of the scores

    @property
    def size(self) -> int:
        """The number of inputs of all blocks."""
        return sum(block.size for block in self.blocks.values())

    def count(self, change: str) -> int:
        """Counts the shortened prompts of all blocks; `change` is "dropped" or "truncated"."""
        counts = (block.spec.get(change) for block in self.blocks.values())
        return sum(count for count in counts if isinstance(count, int))


def text_digest(texts: Iterable[str]) -> str:
    """Hashes texts and their lengths."""
    content = hashlib.sha256()
    for text in texts:
        # The length separates texts: "ab" and "c" differ from "a" and "bc".
        content.update(f"{len(text)}:{text}".encode())
    return content.hexdigest()[:16]


def unusual(cell: Cell, names: Iterable[str]) -> dict[str, Json]:
    """Returns the settings that differ from their defaults."""
    # Defaults are left out, so that a new setting does not change the ids of stored contexts.
    default = Cell(cell.task)
    settings = vars(cell.data) | vars(cell.prompt)
    defaults = vars(default.data) | vars(default.prompt) | USUAL_LABELED
    return {name: settings[name] for name in names if settings[name] != defaults[name]}


def block_options(cell: Cell, block: str) -> dict[str, Json]:
    """Returns the part of a block's spec with its non-default settings."""
    options = unusual(cell, BLOCK_CHOICES.get(block, ()))
    return {"options": options} if options else {}


def specify(
    task: Task,
    cell: Cell,
    rows: str,
    served: str,
    label_texts: Sequence[Sequence[str]],
    form: dict[str, Json],
    demonstrations: Sequence[str] = (),
    **optional: Json,
) -> dict[str, Json]:
    """Describes a context; usual values, and empty ones in `optional`, are left out.

    Args:
        task: the task.
        cell: the settings.
        rows: a digest of the test rows.
        served: the split that was read for the requested one.
        label_texts: the texts of each label.
        form: the template and a digest of its demonstrations.
        demonstrations: ids of the rows shown.
        **optional: further entries.
    """
    has_own_data = bool(task.files or task.folder)
    form_counts = [len(texts) for texts in label_texts]
    # Keys and their order decide a context's id: stored scores are found by it.
    context: dict[str, Json] = {
        "task": task.name,
        # Only the folder's name, because the same data may be elsewhere on another machine.
        "data": "task file" if has_own_data else Path(cell.data.data).name,
        "rows": rows,
        "split": cell.data.split,
        "limit": cell.data.limit,
        "shots": cell.prompt.shots,
        "seed": cell.seed,
        "demonstrations": list(demonstrations),
        "labels": [*chain.from_iterable(label_texts)],
        **form,
    }
    if served != cell.data.split:
        context["served"] = served
    if max(form_counts) > 1:
        context["forms"] = list(form_counts)
    has_all_labels = not optional.get("absent") or cell.data.classes == "present"
    if has_all_labels and task.is_balanced_in(cell.data.data):
        context[BALANCED] = True
    return context | {key: optional[key] for key in optional if optional[key]}


ENSEMBLE = "ensemble"  # the template of an image task that selects all its statements
POOL = 10_000  # maximum images of the train split from which the labeled set is drawn


def render_images(
    task: Task, cell: Cell, test: ImageRows, train: ImageRows | None
) -> RenderedContext:
    """Renders the blocks `test` and `labeled`; no image is content-free, so there are no probes.

    Args:
        task: an image task.
        cell: the settings.
        test: the test rows.
        train: rows from which the labeled set is drawn, or None without a labeled set.
    """
    _check(task, cell)
    notes = tuple(test.notes)
    if train is not None:
        _check_apart(task, test, train)
    elif cell.data.labeled_per_class:
        split = cell.data.train_split
        notes += (f"{task.name}: {test.where} has no {split!r} split, so bcl is not computed",)
    scored, absent, more_notes = _classes(task, cell, test)
    statements = _statements(task, cell.prompt.template)
    names = tuple(task.label_names[label] for label in scored)
    label_texts = []
    for name in names:
        noun = task.statement_words[name]
        label_texts.append(tuple(statement.replace("{label}", noun) for statement in statements))
    blocks = {"test": _block(test, range(len(test.images)), scored)}
    if train is not None:
        # Images have no demonstrations to exclude.
        per_label = cell.data.labeled_per_class
        chosen = demonstrations.labeled_set(train.labels, len(scored), per_label, (), cell.seed)
        labeled = _block(train, chosen, scored)
        labeled.spec.update(block_options(cell, "labeled"))
        blocks["labeled"] = labeled
    form: dict[str, Json] = {"template": " | ".join(statements), "shown": ""}  # one text
    digest, options = text_digest(test.ids), unusual(cell, ("template", "classes"))
    context = specify(
        task, cell, digest, test.split, label_texts, form, absent=list(absent), options=options
    )
    return RenderedContext(context, names, tuple(label_texts), blocks, (*notes, *more_notes))


def _block(rows: ImageRows, chosen: Sequence[int], scored: Sequence[int]) -> RenderedBlock:
    """Makes a block of the chosen rows, with labels renumbered to their index in `scored`."""
    images = [rows.images[i] for i in chosen]
    ids = [rows.ids[i] for i in chosen]
    # The references are left out, because they depend on where the data lie on this machine.
    signatures = (f"{i} {image.signature()}" for i, image in zip(ids, images, strict=True))
    number_of = dict(zip(scored, range(len(scored)), strict=True)) | {-1: -1}
    labels = [number_of[rows.labels[i]] for i in chosen]
    return RenderedBlock(ImageInputs(images), labels, ids, {"texts": text_digest(signatures)})


def _check_apart(task: Task, test: ImageRows, train: ImageRows) -> None:
    # The references are compared, because the same file may be listed in two splits.
    shared = set(map(str, train.images)) & set(map(str, test.images))
    if shared:
        got = f"{len(shared):,} images of both, from which bcl would learn test labels"
        remedy = f"give {spell('labeled_per_class', 0)} or another {spell('split')}"
        expected = f"other images in {train.split!r} than in {test.split!r}"
        raise InputError.at(f"task {task.name}", expected, got, remedy)


def _classes(
    task: Task, cell: Cell, test: ImageRows
) -> tuple[Sequence[int], list[str], tuple[str, ...]]:
    """Returns the scored labels, the names of classes without images, and notes on them.

    All classes are scored, or only classes with images if `classes` is "present".
    """
    labels = range(len(task.label_names))
    absent = [task.label_names[i] for i in labels if test.present and i not in test.present]
    if not absent:
        return labels, [], ()
    listed = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
    fact = f"{task.name}: {len(absent)} of {len(labels)} classes have no image ({listed}); "
    if cell.data.classes == "present":
        note = f"only the other {len(test.present)} are scored: an easier task than the whole one"
        return test.present, absent, (fact + note,)
    note = "they are scored anyway, which harms bc, because it evens out all labels; "
    note += f"{spell('classes', 'present')} leaves them out"
    return labels, absent, (fact + note,)


def _check(task: Task, cell: Cell) -> None:
    if cell.prompt.shots:
        raise InputError("images are classified without demonstrations; give 0.", key="shots")
    why = f"{spell('template')} chooses the label texts of images ({task.name})"
    refuse_changed(cell.prompt, ("verbalizer", "label_words", "over_long"), why)


def _statements(task: Task, choice: str) -> tuple[str, ...]:
    """Returns the statement that `choice` numbers or holds, the usual one, or all of them."""
    # Numbers start at 1, as in the docs' tables of statements.
    numbered = {str(i): form for i, form in enumerate(task.statements, 1)}
    if choice == ENSEMBLE:
        return task.statements
    if choice.count("{label}") == 1:
        return (choice,)
    if choice and choice not in numbered:
        choices = [*numbered, ENSEMBLE, "a text with {label}"]
        raise InputError.unknown(f"statement of {task.name}", choice, choices)
    return (numbered[choice],) if choice else (task.statement,)
