r"""A task file: a user's own task as a TOML file, with its files beside it; no code runs.

    name = "tickets"
    fields = ["subject", "body"]                  # columns of the files
    label_names = ["billing", "bug"]
    labels_are = "names"                          # or "numbers": places in label_names, from 0
    template = "Ticket: {subject}\n{body}\nKind: {label}"

    [verbalizer]                                  # the words that the model scores
    billing = "billing"
    bug = ["bug", "error"]                        # several forms: their probabilities add up

    [files]                                       # .jsonl, .jsonl.gz, .csv or .parquet
    train = "train.csv"
    validation = "validation.csv"

These keys are needed. Others have defaults: `title` (the name), `label_column` ("label"),
`zero_shot` (the template), `[zero_shot_verbalizer]` (the verbalizer), and for dual encoders
`statement` ("{label}"), `[statement_words]` (the verbalizer) and `statement_fields` (the fields).

A task of pictures says so, and where they are: a folder for each class, or tables of paths:

    kind = "image"
    name = "leaves"
    label_names = ["oak", "elm"]
    statements = ["a photo of a {label} leaf."]   # the first is the usual one
    folder = "leaves"                             # leaves/oak/*.jpg, or leaves/test/oak/*.jpg

Instead of `folder`, `[files]` names tables by split (`test = "test.csv"`) with the columns `path`
and `label`; optional are `title`, `label_column`, `labels_are` and `[statement_words]`.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from batch_calibration.errors import InputError
from batch_calibration.prompts.template import check
from batch_calibration.tasks import TASKS, get_task
from batch_calibration.tasks.base import IMAGE, NAMES, NUMBERS, Task, Words
from batch_calibration.tasks.image import COLUMNS, image_task

ENDING = ".toml"
NEEDED: dict[str, type] = {
    "name": str, "fields": list, "label_names": list, "labels_are": str, "template": str,
    "verbalizer": dict, "files": dict,
}  # fmt: skip
OPTIONAL: dict[str, type] = {
    "title": str, "label_column": str, "zero_shot": str, "zero_shot_verbalizer": dict,
    "statement": str, "statement_words": dict, "statement_fields": list,
}  # fmt: skip
NEEDED_OF_IMAGES: dict[str, type] = {
    "kind": str, "name": str, "label_names": list, "statements": list,
}  # fmt: skip
OPTIONAL_OF_IMAGES: dict[str, type] = {
    "title": str, "label_column": str, "labels_are": str, "statement_words": dict,
    "folder": str, "files": dict,
}  # fmt: skip
KINDS: dict[type, str] = {str: "a text", list: "a list of texts", dict: "a table of texts"}
SEVERAL = ("verbalizer", "zero_shot_verbalizer")
"""Tables whose values may be lists: several surface forms of a label."""


def load_task(name: str) -> Task:
    """The task called `name`, or the one that the task file at the path `name` describes.

    An unknown name is answered with the nearest right one.
    """
    if not name.endswith(ENDING):
        return get_task(name)
    task = read_task_file(name)
    if task.name in TASKS:
        raise InputError(
            f"{name}: its name {task.name!r} is a task of the package; give it another."
        )
    return task


def read_task_file(path: str) -> Task:
    """The task that a card describes; its files are looked for beside the card.

    Raises:
      InputError: the card is no TOML, lacks a key or has an unknown one, or does not fit together.
    """
    try:
        card = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such task file; give the path of a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a task file in TOML ({error}).") from error
    if "kind" in card:
        return _images(card, path)
    _check_keys(card, path, NEEDED, OPTIONAL)
    _check_names(card, path)
    for key in ("verbalizer", "zero_shot_verbalizer", "statement_words"):
        _check_words(card, path, key)
    fields = tuple(card["fields"])
    for key in ("template", "zero_shot"):
        if key in card:
            try:
                check(card[key], fields)
            except InputError as error:
                raise InputError(f"{path}, key {key}: {error}") from error
    shown = {n: w if isinstance(w, str) else w[0] for n, w in card["verbalizer"].items()}
    return Task(
        name=card["name"],
        title=card.get("title", card["name"]),
        fields=fields,
        label_names=tuple(card["label_names"]),
        verbalizer=_words(card["verbalizer"]),
        few_shot=card["template"],
        zero_shot=card.get("zero_shot", card["template"]),
        statement=card.get("statement", "{label}"),
        statement_words=card.get("statement_words", shown),
        statement_fields=tuple(card.get("statement_fields", fields)),
        zero_shot_verbalizer=_words(card.get("zero_shot_verbalizer", {})),
        columns=({"label": card.get("label_column", "label")},),
        files={split: str(Path(path).parent / file) for split, file in card["files"].items()},
        labels_are=card["labels_are"],
        source=path,
    )


def _images(card: dict[str, Any], path: str) -> Task:
    if card["kind"] != IMAGE:
        raise InputError(
            f"{path}: kind must be {IMAGE!r}, got {card['kind']!r}; a card of texts has none."
        )
    card = {"labels_are": NAMES} | card
    _check_keys(card, path, NEEDED_OF_IMAGES, OPTIONAL_OF_IMAGES)
    _check_names(card, path)
    _check_words(card, path, "statement_words")
    if ("folder" in card) == ("files" in card):
        raise InputError(
            f"{path}: expected folder or [files] and not both; say where pictures are."
        )
    for statement in card["statements"]:
        _check_statement(statement, path)
    words = card.get("statement_words", {})
    home = Path(path).parent
    return image_task(
        card["name"],
        str(card.get("title", card["name"])),
        {name: words.get(name, name) for name in card["label_names"]},
        tuple(card["statements"]),
        columns=tuple({**c, "label": card.get("label_column", "label")} for c in COLUMNS),
        files={split: str(home / file) for split, file in card.get("files", {}).items()},
        folder=str(home / card["folder"]) if "folder" in card else "",
        labels_are=card["labels_are"],
        source=path,
    )


def _check_statement(statement: str, path: str) -> None:
    if statement.count("{label}") != 1:
        raise InputError(f"{path}: statement {statement!r} must hold {{label}} once.")


def _check_words(card: dict[str, Any], path: str, key: str) -> None:
    if key in card and set(card[key]) != set(card["label_names"]):
        raise InputError(
            f"{path}: [{key}] must have words for exactly {', '.join(card['label_names'])}, "
            f"it has them for {', '.join(card[key]) or 'none'}."
        )


def _check_keys(
    card: dict[str, Any], path: str, needed: dict[str, type], optional: dict[str, type]
) -> None:
    known = needed | optional
    for key, value in card.items():
        if key not in known:
            raise InputError(f"{path}: {InputError.unknown('key of a task file', key, known)}")
        if not isinstance(value, known[key]) or not _all_texts(value, several=key in SEVERAL):
            raise InputError(f"{path}: {key} must be {KINDS[known[key]]}, got {value!r}.")
    missing = [key for key in needed if not card.get(key)]
    if missing:
        raise InputError(
            f"{path}: a task file needs {', '.join(missing)}; "
            "`python -m experiments.data --help` shows a whole card."
        )


def _all_texts(value: Any, several: bool = False) -> bool:
    if isinstance(value, dict):
        return all(
            isinstance(v, str) or (several and isinstance(v, list) and v and _all_texts(v))
            for v in value.values()
        )
    return isinstance(value, str) or all(isinstance(v, str) for v in value)


def _words(table: dict[str, Any]) -> dict[str, Words]:
    return {name: w if isinstance(w, str) else tuple(w) for name, w in table.items()}


def _check_names(card: dict[str, Any], path: str) -> None:
    if not re.fullmatch(r"[\w.-]+", card["name"]):
        raise InputError(
            f"{path}: name {card['name']!r} becomes part of file names; use letters, digits, "
            "'.', '_' and '-'."
        )
    if card["labels_are"] not in (NUMBERS, NAMES):
        raise InputError(
            f"{path}: labels_are must be {NUMBERS!r} or {NAMES!r}, got {card['labels_are']!r}."
        )
    for key in ("fields", "label_names", "statements"):
        if len(set(card.get(key, ()))) != len(card.get(key, ())):
            raise InputError(f"{path}: {key} {card[key]} names one twice; name each once.")
    if len(card["label_names"]) < 2:
        raise InputError(f"{path}: label_names {card['label_names']} must be at least two.")
    if "label" in card.get("fields", ()):
        raise InputError(
            f"{path}: a field may not be called 'label', which a template keeps for the label; "
            "rename the column."
        )
    _check_statement(card.get("statement", "{label}"), path)
    unknown = [name for name in card.get("statement_fields", []) if name not in card["fields"]]
    if unknown:
        raise InputError(
            f"{path}: statement_fields names {', '.join(unknown)}, but the fields are "
            f"{', '.join(card['fields'])}."
        )
