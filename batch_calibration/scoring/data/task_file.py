r"""Reads task files: a user's own task as TOML, with its rows in the same folder, without code.

    name = "tickets"
    fields = ["subject", "body"]                  # columns of the files
    label_names = ["billing", "bug"]
    labels_are = "names"                          # or "numbers": places in label_names, from 0
    template = "Ticket: {subject}\n{body}\nKind: {label}"

    [verbalizer]                                  # the words that the model scores
    billing = "billing"
    bug = ["bug", "error"]                        # several forms: their probabilities add up

    [files]                                       # .jsonl, .jsonl.gz, .csv or .parquet
    train = "train.csv"                           # only for demonstrations and labeled rows
    validation = "validation.csv"

These keys are required. Other keys have defaults: `title` (the name), `label_column` ("label"),
`zero_shot` (the template), `[zero_shot_verbalizer]` (the verbalizer), and for dual encoders
`statement` ("{label}"), `[statement_words]` (the verbalizer) and `statement_fields` (the fields).
`options` names the fields with the options of a multiple-choice question, in the order of the
labels, which must be letters or numbers; PriDe permutes the options. `balanced = true` means that
labels have about equal numbers of rows, so that BC is recommended.

A task of images has `kind = "image"` and either a folder for each class or tables of paths:

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
from itertools import chain
from pathlib import Path
from typing import Any

from batch_calibration.errors import InputError, answering, refuse_unknown, shown
from batch_calibration.scoring.prompts.template import check_fields
from batch_calibration.scoring.tasks import TASKS, base, get_task
from batch_calibration.scoring.tasks.base import IMAGE, NAMES, NUMBERS, Task

ENDING = ".toml"
# Required and optional keys of task files of texts, then of images.
NEEDED = "name fields label_names labels_are template verbalizer files"
OPTIONAL = (
    "title label_column zero_shot zero_shot_verbalizer statement statement_words statement_fields "
    "options balanced"
)
NEEDED_OF_IMAGES = "kind name label_names statements"
OPTIONAL_OF_IMAGES = "title label_column labels_are statement_words folder files balanced"
HOLDS: dict[str, type] = {
    **dict.fromkeys(("fields", "label_names", "statements", "statement_fields", "options"), list),
    **dict.fromkeys(("verbalizer", "zero_shot_verbalizer", "statement_words", "files"), dict),
    "balanced": bool,
}
"""The type of each key that is not a text."""
KINDS = {str: "a text", list: "a list of texts", dict: "a table of texts", bool: "true or false"}
VERBALIZERS = ("verbalizer", "zero_shot_verbalizer")
"""Tables that may hold lists: several surface forms of a label."""
SHARED = ("labels_are", "zero_shot", "statement", "statement_words", "balanced")
"""Keys with the same name and type in `Task`."""


def load_task(name: str) -> Task:
    """Loads the task called `name`, or the task file at the path `name`.

    An unknown name raises an error with the most similar name.
    """
    # Without the ending, it is a name and not a path.
    if not name.endswith(ENDING):
        return get_task(name)
    task = read_task_file(name)
    # Stored scores are found by a task's name, so two tasks may not share one.
    if task.name in TASKS:
        raise InputError.at(name, "a name that no task of the package has", repr(task.name))
    return task


def read_task_file(path: str) -> Task:
    """Reads the task that a file describes; its rows are in the same folder.

    Raises:
      InputError: the file is not TOML, lacks a key, has an unknown key, or is inconsistent.
    """
    with (
        answering(OSError, path, "a task file", "give the path of a TOML file"),
        # tomllib recurses into nested tables.
        answering((ValueError, RecursionError), path, "a task file in TOML, a flat table"),
    ):
        table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    if "kind" in table:
        return _image_task(table, path)
    _check_keys(table, path, NEEDED, OPTIONAL)
    _check_names(table, path)
    for key in (*VERBALIZERS, "statement_words"):
        _check_words(table, path, key)
    fields = tuple(table["fields"])
    for key in ("template", "zero_shot"):
        try:
            check_fields(table.get(key, table["template"]), fields)
        except InputError as error:
            raise InputError(f"{path}, key {key}: {error}") from error
    # Missing keys keep the defaults of `text_task`.
    settings = {key: table[key] for key in SHARED if key in table}
    return base.text_task(
        table["name"],
        table.get("title", table["name"]),
        fields,
        _surface_forms(table["verbalizer"]),
        table["template"],
        label_names=tuple(table["label_names"]),
        zero_shot_verbalizer=_surface_forms(table.get("zero_shot_verbalizer", {})),
        columns=({"label": table.get("label_column", "label")},),
        files=_beside(path, table["files"]),
        statement_fields=tuple(table.get("statement_fields", fields)),
        options=tuple(table.get("options", ())),
        source=path,
        **settings,
    )


def _image_task(table: dict[str, Any], path: str) -> Task:
    if table["kind"] != IMAGE:
        got, remedy = shown(table["kind"]), "leave it out if rows are texts"
        raise InputError.at(f"{path}, kind", repr(IMAGE), got, remedy)
    table = {"labels_are": NAMES, "files": {}} | table
    _check_keys(table, path, NEEDED_OF_IMAGES, OPTIONAL_OF_IMAGES)
    _check_names(table, path)
    _check_words(table, path, "statement_words")
    if ("folder" in table) == bool(table["files"]):
        raise InputError.at(path, "folder or [files] and not both", remedy="give one of the two")
    for statement in table["statements"]:
        _check_statement(statement, path)
    # The default words of a class are its name.
    names = {name: name for name in table["label_names"]}
    label_column = {"label": table.get("label_column", "label")}
    return base.image_task(
        table["name"],
        str(table.get("title", table["name"])),
        names | table.get("statement_words", {}),
        tuple(table["statements"]),
        columns=tuple(schema | label_column for schema in map(dict, base.COLUMNS)),
        files=_beside(path, table["files"]),
        folder=str(Path(path).parent / table["folder"]) if "folder" in table else "",
        labels_are=table["labels_are"],
        balanced=table.get("balanced", False),
        source=path,
    )


def _beside(path: str, files: dict[str, str]) -> dict[str, str]:
    """Resolves the files that a task file names in the task file's folder."""
    return {split: str(Path(path).parent / file) for split, file in files.items()}


def _surface_forms(table: dict[str, Any]) -> dict[str, base.LabelWords]:
    # The tasks of the package have tuples too.
    return {name: tuple(w) if isinstance(w, list) else w for name, w in table.items()}


def _check_statement(statement: str, path: str) -> None:
    if statement.count("{label}") != 1:
        raise InputError(f"{path}: statement {statement!r} must hold {{label}} once.")


def _check_words(table: dict[str, Any], path: str, key: str) -> None:
    if key in table and set(table[key]) != set(table["label_names"]):
        expected = f"words for exactly {', '.join(table['label_names'])}"
        raise InputError.at(f"{path}, [{key}]", expected, shown(list(table[key])))
    if key not in VERBALIZERS:
        return  # Two classes of images may share their words.
    forms = _surface_forms(table.get(key, {})).values()
    words = list(chain.from_iterable([form] if isinstance(form, str) else form for form in forms))
    for word in words:
        if not word.strip() or words.count(word) > 1:
            got = f"{word!r} twice" if word.strip() else "an empty one"
            raise InputError.at(f"{path}, [{key}]", "different words for each label", got)


def _check_keys(table: dict[str, Any], path: str, needed: str, optional: str) -> None:
    """Raises for keys that are unknown, missing or empty, and for values of another type."""
    known = f"{needed} {optional}".split()
    for key in table:
        refuse_unknown("key of a task file", key, known, where=path)
        kind = HOLDS.get(key, str)
        if not isinstance(table[key], kind) or not _holds_texts(table[key], key):
            raise InputError.at(f"{path}, {key}", KINDS[kind], shown(table[key]))
    missing = [key for key in needed.split() if not table.get(key)]
    if missing:
        raise InputError(
            f"{path}: a task file needs {', '.join(missing)}; "
            "docs/your-checkpoint.md shows a complete task file."
        )


def _holds_texts(content: Any, key: str) -> bool:
    """Checks whether a value holds only texts; in verbalizers, lists of texts are allowed too."""
    if isinstance(content, str | bool):
        return True
    for member in content.values() if isinstance(content, dict) else content:
        is_list_of_forms = key in VERBALIZERS and isinstance(member, list) and bool(member)
        if not isinstance(member, str) and not (is_list_of_forms and _holds_texts(member, "")):
            return False
    return True


def _check_names(table: dict[str, Any], path: str) -> None:
    if not re.fullmatch(r"[\w.-]+", table["name"]):
        expected = "letters, digits, '.', '_' and '-', as in file names"
        raise InputError.at(f"{path}, name", expected, repr(table["name"]))
    if table["labels_are"] not in (NUMBERS, NAMES):
        expected, got = f"{NUMBERS!r} or {NAMES!r}", repr(table["labels_are"])
        raise InputError.at(f"{path}, labels_are", expected, got)
    for key in ("fields", "label_names", "statements", "options"):
        if len(set(table.get(key, ()))) != len(table.get(key, ())):
            raise InputError(f"{path}: {key} {table[key]} has a repeated name; list each once.")
    if len(table["label_names"]) < 2:
        raise InputError.at(path, "two label_names or more", table["label_names"])
    if "label" in table.get("fields", ()):
        expected = "no field 'label', which templates use for the label"
        raise InputError.at(path, expected, remedy="rename the column")
    _check_statement(table.get("statement", "{label}"), path)
    for key in ("statement_fields", "options"):
        unknown = [name for name in table.get(key, []) if name not in table["fields"]]
        if unknown:
            raise InputError.unknown(f"field of {key}", unknown[0], table["fields"], where=path)
    if len(table.get("options", table["label_names"])) != len(table["label_names"]):
        expected = f"a field for each of {', '.join(table['label_names'])}, in their order"
        raise InputError.at(f"{path}, options", expected, shown(table["options"]))
