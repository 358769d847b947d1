"""One context of pictures: references to them and the statements of the labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batch_calibration.data import images as pictures
from batch_calibration.data.sources import read, splits
from batch_calibration.errors import InputError
from batch_calibration.prompts import demonstrations
from batch_calibration.prompts.rendered import DEFAULTS, Plan, Request, digest
from batch_calibration.tasks import Rows, Task
from batch_calibration.tasks.base import IMAGE

ENSEMBLE = "ensemble"
"""The template of an image task that stands for all its statements."""
CLASSES = ("task", "present")
"""Labels of an image task: all it has, or those that the data have pictures of."""
POOL = 10_000
"""Pictures of the train split that the labeled set is drawn from, at most."""


def image_plan(settings: Mapping[str, Any], task: Task) -> Plan:
    """Pictures and statements: blocks `test` and `labeled`, for no picture is free of content.

    Args:
        settings: As `plan` takes them; `classes`, "task" where it is absent, may be "present".
        task: An image task.

    Raises:
        InputError: a setting that does not exist or does not fit pictures.
    """
    _check_settings(settings, task)
    test = read(task, settings["data"], settings["split"], settings["limit"])
    train, notes = _train(settings, task, test)
    kept, absent, note = _classes(settings, task, test)
    statements = _statements(settings["template"], task)
    words = [task.statement_words[task.label_names[i]] for i in kept]
    label_texts = [form.replace("{label}", word) for word in words for form in statements]
    blocks = {"test": _request(test, range(len(test.rows)), kept)}
    if train:
        most = settings["labeled_per_class"]
        chosen = demonstrations.labeled_set(train.labels, len(kept), most, (), settings["seed"])
        blocks["labeled"] = _request(train, chosen, kept)
    options = {"template": settings["template"]} if settings["template"] else {}
    if len(kept) < len(task.label_names):
        options["classes"] = settings["classes"]
    forms = (len(statements),) * len(kept)
    about = {
        "task": task.name,
        "data": "card" if task.files or task.folder else Path(settings["data"]).name,
        "rows": digest(test.ids),
        "split": settings["split"],
        "limit": settings["limit"],
        "shots": 0,
        "seed": settings["seed"],
        "demonstrations": [],
        "labels": label_texts,
        "template": " | ".join(statements),
        "shown": "",
        **({"served": test.split} if test.split != settings["split"] else {}),
        **({"forms": list(forms)} if len(statements) > 1 else {}),
        **({"absent": absent} if absent else {}),
        **({"options": options} if options else {}),
    }
    return Plan(
        about,
        tuple(task.label_names[i] for i in kept),
        label_texts,
        forms,
        blocks,
        inputs="image",
        ensemble=len(statements) > 1,
        notes=(*test.notes, *notes, *note),
    )


def _request(rows: Rows, chosen: Sequence[int], kept: Sequence[int]) -> Request:
    """A block of the chosen rows, labels renumbered to their places in `kept`."""
    references = [rows.rows[i][IMAGE] for i in chosen]
    ids = [rows.ids[i] for i in chosen]
    # Not the references: they say where the data lie on this machine.
    signed = (f"{i} {pictures.signature(r)}" for i, r in zip(ids, references, strict=True))
    place = {label: i for i, label in enumerate(kept)} | {-1: -1}
    return Request(
        references, [place[rows.labels[i]] for i in chosen], ids, {"texts": digest(signed)}
    )


def _train(settings: Mapping[str, Any], task: Task, test: Rows) -> tuple[Rows | None, list[str]]:
    """Where the labeled set is drawn from; none where none is wanted, or with a note none there."""
    data, split = settings["data"], settings["train_split"]
    if not settings["labeled_per_class"]:
        return None, []
    if split not in splits(task, data):
        return None, [f"{task.name}: {test.where} has no {split!r} split, so there is no bcl"]
    train = read(task, data, split, POOL)
    shared = {row[IMAGE] for row in train.rows} & {row[IMAGE] for row in test.rows}
    if shared:
        raise InputError(
            f"task {task.name}: splits {train.split!r} and {test.split!r} share {len(shared):,} "
            "pictures, so bcl would learn from test labels; give config.labeled_per_class=0 or "
            "another config.split."
        )
    return train, []


def _classes(
    settings: Mapping[str, Any], task: Task, test: Rows
) -> tuple[Sequence[int], list[str], list[str]]:
    """Labels that are scored, names of those without pictures, and what is to be said of it."""
    every = range(len(task.label_names))
    absent = [task.label_names[i] for i in every if test.present and i not in test.present]
    if not absent:
        return every, [], []
    few = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
    said = f"{task.name}: {len(absent)} of {len(every)} classes have no picture ({few}); "
    if settings.get("classes", CLASSES[0]) == "present":
        said += f"only the other {len(test.present)} are scored: an easier task than the whole one"
        return test.present, absent, [said]
    said += (
        "they are scored all the same, and bc, which evens out all labels, pays for it; "
        "--config.classes=present leaves them out"
    )
    return every, absent, [said]


def _check_settings(settings: Mapping[str, Any], task: Task) -> None:
    if settings["scorer"] != "dual_encoder":
        raise InputError(
            f"config.scorer: {task.name} is a task of pictures, which {settings['scorer']!r} "
            "cannot read; give 'dual_encoder' and a CLIP checkpoint, as in configs/vision.py."
        )
    if settings["shots"]:
        raise InputError("config.shots: pictures are classified without demonstrations; give 0.")
    for key in ("verbalizer", "over_long"):
        if settings[key] != DEFAULTS[key]:
            raise InputError(
                f"config.{key}: expected {DEFAULTS[key]!r} for the pictures of {task.name}, got "
                f"{settings[key]!r}; their label texts are chosen by config.template."
            )
    if settings.get("classes", CLASSES[0]) not in CLASSES:
        raise InputError.unknown("config.classes", settings["classes"], CLASSES)


def _statements(choice: str, task: Task) -> tuple[str, ...]:
    """The statement that `choice` numbers or is, the usual one, or all."""
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
