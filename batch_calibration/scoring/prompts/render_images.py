"""Renders one context of an image task: references to images and the statements of the labels."""

from collections.abc import Sequence
from typing import NamedTuple

from batch_calibration.errors import InputError, spell
from batch_calibration.scoring.inputs import ImageInputs, ImageRows
from batch_calibration.scoring.prompts import demonstrations, rendered
from batch_calibration.scoring.prompts.rendered import (
    USUAL,
    RenderedBlock,
    RenderedContext,
    text_digest,
)
from batch_calibration.scoring.tasks import Task
from batch_calibration.settings import Cell

ENSEMBLE = "ensemble"  # the template of an image task that stands for all its statements
POOL = 10_000  # images of the train split that the labeled set is drawn from, at most


class _Classes(NamedTuple):
    """Labels that are scored, names of those without images, and what a reader must know of it."""

    scored: Sequence[int]
    absent: list[str]
    notes: tuple[str, ...]


def render_images(
    task: Task, cell: Cell, test: ImageRows, train: ImageRows | None
) -> RenderedContext:
    """Render blocks `test` and `labeled`, for no image is free of content.

    Args:
        task: an image task.
        cell: what is asked for.
        test: the rows that are tested.
        train: where the labeled set is drawn from; None where none is wanted or there is none.
    """
    _check(task, cell)
    notes = tuple(test.notes)
    if train is not None:
        _check_apart(task, test, train)
    elif cell.data.labeled_per_class:
        split = cell.data.train_split
        notes += (f"{task.name}: {test.where} has no {split!r} split, so there is no bcl",)
    classes = _classes(task, cell, test)
    statements = _statements(task, cell.prompt.template)
    names = tuple(task.label_names[label] for label in classes.scored)
    label_texts = []
    for name in names:
        noun = task.statement_words[name]
        label_texts.append(tuple(statement.replace("{label}", noun) for statement in statements))
    blocks = {"test": _block(test, range(len(test.images)), classes.scored)}
    if train is not None:
        # No image is shown in a prompt, so none is excluded.
        chosen = demonstrations.labeled_set(
            train.labels, len(classes.scored), cell.data.labeled_per_class, (), cell.seed
        )
        labeled = _block(train, chosen, classes.scored)
        labeled.spec.update(rendered.block_options(cell, "labeled"))
        blocks["labeled"] = labeled
    context = rendered.describe(
        task,
        cell,
        rows=text_digest(test.ids),
        served=test.split,
        shots=0,
        demonstrations=(),
        label_texts=label_texts,
        form={"template": " | ".join(statements), "shown": ""},  # one text for all statements
        absent=list(classes.absent),
        options=rendered.unusual(cell, ("template", "classes")),
    )
    return RenderedContext(context, names, tuple(label_texts), blocks, (*notes, *classes.notes))


def _block(rows: ImageRows, chosen: Sequence[int], scored: Sequence[int]) -> RenderedBlock:
    """A block of the chosen rows, labels renumbered to their places in `scored`."""
    images = [rows.images[i] for i in chosen]
    ids = [rows.ids[i] for i in chosen]
    # Not the references: they say where the data lie on this machine.
    signatures = (f"{i} {image.signature()}" for i, image in zip(ids, images, strict=True))
    number_of = dict(zip(scored, range(len(scored)), strict=True)) | {-1: -1}
    labels = [number_of[rows.labels[i]] for i in chosen]
    return RenderedBlock(ImageInputs(images), labels, ids, {"texts": text_digest(signatures)})


def _check_apart(task: Task, test: ImageRows, train: ImageRows) -> None:
    # By reference: the same file may be listed in two splits.
    shared = set(map(str, train.images)) & set(map(str, test.images))
    if shared:
        raise InputError(
            f"task {task.name}: splits {train.split!r} and {test.split!r} share {len(shared):,} "
            f"images, so bcl would learn from test labels; give {spell('labeled_per_class', 0)} or "
            f"another {spell('split')}."
        )


def _classes(task: Task, cell: Cell, test: ImageRows) -> _Classes:
    """All classes, or those that have images where `classes` is "present"."""
    labels = range(len(task.label_names))
    absent = [task.label_names[i] for i in labels if test.present and i not in test.present]
    if not absent:
        return _Classes(labels, [], ())
    listed = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
    fact = f"{task.name}: {len(absent)} of {len(labels)} classes have no image ({listed}); "
    if cell.data.classes == "present":
        note = f"only the other {len(test.present)} are scored: an easier task than the whole one"
        return _Classes(test.present, absent, (fact + note,))
    note = (
        "they are scored all the same, and bc, which evens out all labels, pays for it; "
        f"{spell('classes', 'present')} leaves them out"
    )
    return _Classes(labels, absent, (fact + note,))


def _check(task: Task, cell: Cell) -> None:
    if cell.prompt.shots:
        raise InputError("images are classified without demonstrations; give 0.", key="shots")
    for key in ("verbalizer", "label_words", "over_long"):
        setting, default = getattr(cell.prompt, key), getattr(USUAL, key)
        if setting != default:
            raise InputError(
                key=key,
                expected=f"{default!r} for the images of {task.name}",
                got=f"{setting!r}",
                remedy=f"their label texts are chosen by {spell('template')}",
            )


def _statements(task: Task, choice: str) -> tuple[str, ...]:
    """The statement that `choice` numbers or is, the usual one, or all."""
    # Numbers begin with 1, as in the docs' tables of statements.
    numbered = {str(i): form for i, form in enumerate(task.statements, 1)}
    if choice == ENSEMBLE:
        return task.statements
    if choice.count("{label}") == 1:
        return (choice,)
    if choice and choice not in numbered:
        raise InputError.unknown(
            f"statement of {task.name}", choice, [*numbered, ENSEMBLE, "a text with {label}"]
        )
    return (numbered[choice],) if choice else (task.statement,)
