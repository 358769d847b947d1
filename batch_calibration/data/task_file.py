r"""Reads task files: a user's own task as a TOML file, with its rows beside it; no code runs.

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
`options` names the fields that hold the options of a multiple-choice question, in the order of the
labels, which are then letters or numbers: PriDe permutes them.

A task of images says so, and where they are: a folder for each class, or tables of paths:

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

from batch_calibration.errors import InputError, shown
from batch_calibration.prompts.template import check
from batch_calibration.tasks import TASKS, get_task
from batch_calibration.tasks.base import (
    COLUMNS,
    IMAGE,
    NAMES,
    NUMBERS,
    LabelWords,
    Task,
    image_task,
)

ENDING = ".toml"
NEEDED: dict[str, type] = {
    "name": str, "fields": list, "label_names": list, "labels_are": str, "template": str,
    "verbalizer": dict, "files": dict,
}  # fmt: skip
OPTIONAL: dict[str, type] = {
    "title": str, "label_column": str, "zero_shot": str, "zero_shot_verbalizer": dict,
    "statement": str, "statement_words": dict, "statement_fields": list, "options": list,
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
    """The task that a file describes; its rows are looked for beside it.

    Raises:
      InputError: the file is no TOML, lacks a key or has an unknown one, or does not fit together.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such task file; give the path of a TOML file.") from error
    except OSError as error:
        raise InputError(f"{path}: the task file cannot be read ({error.strerror}).") from error
    except RecursionError as error:
        raise InputError(f"{path}: a task file is a flat table, this one is nested.") from error
    except ValueError as error:
        raise InputError(where=path, expected=f"a task file in TOML ({error})") from error
    if "kind" in table:
        return _images(table, path)
    _check_keys(table, path, NEEDED, OPTIONAL)
    _check_names(table, path)
    for key in ("verbalizer", "zero_shot_verbalizer", "statement_words"):
        _check_words(table, path, key)
    fields = tuple(table["fields"])
    for key in ("template", "zero_shot"):
        if key in table:
            try:
                check(table[key], fields)
            except InputError as error:
                raise InputError(f"{path}, key {key}: {error}") from error
    shown = {n: w if isinstance(w, str) else w[0] for n, w in table["verbalizer"].items()}
    return Task(
        name=table["name"],
        title=table.get("title", table["name"]),
        fields=fields,
        label_names=tuple(table["label_names"]),
        verbalizer=_words(table["verbalizer"]),
        few_shot=table["template"],
        zero_shot=table.get("zero_shot", table["template"]),
        statement=table.get("statement", "{label}"),
        statement_words=table.get("statement_words", shown),
        statement_fields=tuple(table.get("statement_fields", fields)),
        zero_shot_verbalizer=_words(table.get("zero_shot_verbalizer", {})),
        columns=({"label": table.get("label_column", "label")},),
        files={split: str(Path(path).parent / file) for split, file in table["files"].items()},
        labels_are=table["labels_are"],
        source=path,
        options=tuple(table.get("options", ())),
    )


def _images(table: dict[str, Any], path: str) -> Task:
    if table["kind"] != IMAGE:
        raise InputError(
            f"{path}: kind must be {IMAGE!r}, got {shown(table['kind'])}; a task file of texts has "
            "none."
        )
    table = {"labels_are": NAMES} | table
    _check_keys(table, path, NEEDED_OF_IMAGES, OPTIONAL_OF_IMAGES)
    _check_names(table, path)
    _check_words(table, path, "statement_words")
    if ("folder" in table) == ("files" in table):
        raise InputError(
            where=path, expected="folder or [files] and not both", remedy="say where images are"
        )
    for statement in table["statements"]:
        _check_statement(statement, path)
    words = table.get("statement_words", {})
    home = Path(path).parent
    return image_task(
        table["name"],
        str(table.get("title", table["name"])),
        {name: words.get(name, name) for name in table["label_names"]},
        tuple(table["statements"]),
        columns=tuple({**c, "label": table.get("label_column", "label")} for c in COLUMNS),
        files={split: str(home / file) for split, file in table.get("files", {}).items()},
        folder=str(home / table["folder"]) if "folder" in table else "",
        labels_are=table["labels_are"],
        source=path,
    )


def _check_statement(statement: str, path: str) -> None:
    if statement.count("{label}") != 1:
        raise InputError(f"{path}: statement {statement!r} must hold {{label}} once.")


def _check_words(table: dict[str, Any], path: str, key: str) -> None:
    if key in table and set(table[key]) != set(table["label_names"]):
        raise InputError(
            f"{path}: [{key}] must have words for exactly {', '.join(table['label_names'])}, "
            f"it has them for {', '.join(table[key]) or 'none'}."
        )


def _check_keys(
    table: dict[str, Any], path: str, needed: dict[str, type], optional: dict[str, type]
) -> None:
    known = needed | optional
    for key, value in table.items():
        if key not in known:
            raise InputError(f"{path}: {InputError.unknown('key of a task file', key, known)}")
        if not isinstance(value, known[key]) or not _all_texts(value, several=key in SEVERAL):
            raise InputError(f"{path}: {key} must be {KINDS[known[key]]}, got {shown(value)}.")
    missing = [key for key in needed if not table.get(key)]
    if missing:
        raise InputError(
            f"{path}: a task file needs {', '.join(missing)}; "
            "`python -m experiments.data --help` shows a whole task file."
        )


def _all_texts(value: Any, several: bool = False) -> bool:
    if isinstance(value, dict):
        return all(
            isinstance(v, str) or (several and isinstance(v, list) and v and _all_texts(v))
            for v in value.values()
        )
    return isinstance(value, str) or all(isinstance(v, str) for v in value)


def _words(table: dict[str, Any]) -> dict[str, LabelWords]:
    return {name: w if isinstance(w, str) else tuple(w) for name, w in table.items()}


def _check_names(table: dict[str, Any], path: str) -> None:
    if not re.fullmatch(r"[\w.-]+", table["name"]):
        raise InputError(
            f"{path}: name {table['name']!r} becomes part of file names; use letters, digits, "
            "'.', '_' and '-'."
        )
    if table["labels_are"] not in (NUMBERS, NAMES):
        raise InputError(
            f"{path}: labels_are must be {NUMBERS!r} or {NAMES!r}, got {table['labels_are']!r}."
        )
    for key in ("fields", "label_names", "statements", "options"):
        if len(set(table.get(key, ()))) != len(table.get(key, ())):
            raise InputError(f"{path}: {key} {table[key]} names one twice; name each once.")
    if len(table["label_names"]) < 2:
        raise InputError(f"{path}: label_names {table['label_names']} must be at least two.")
    if "label" in table.get("fields", ()):
        raise InputError(
            f"{path}: a field may not be called 'label', which a template keeps for the label; "
            "rename the column."
        )
    _check_statement(table.get("statement", "{label}"), path)
    for key in ("statement_fields", "options"):
        unknown = [name for name in table.get(key, []) if name not in table["fields"]]
        if unknown:
            raise InputError(
                f"{path}: {key} names {', '.join(unknown)}, but the fields are "
                f"{', '.join(table['fields'])}."
            )
    if len(table.get("options", table["label_names"])) != len(table["label_names"]):
        raise InputError(
            f"{path}: options must name one field for each of the labels "
            f"{', '.join(table['label_names'])}, in their order; it names "
            f"{', '.join(table['options']) or 'none'}."
        )
