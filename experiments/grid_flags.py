"""Reads keys of a config that were given several values at the command line."""

import ast
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_origin

from batch_calibration.errors import InputError
from batch_calibration.settings import keys, varied

PREFIX = "config."
WORDS = {"True": True, "False": False}


def take(argv: Sequence[str]) -> tuple[list[str], dict[str, list[object]]]:
    """The arguments with one value of each key, and all values of those that have several.

    `--config.shots=1,2,4` has three; so has `--config.template=("a","b","c")`, whose values may
    hold commas. Keys that are tuples already stay as they are.

    Raises:
        InputError: a value that its key cannot have.
    """
    left, found = list[str](), dict[str, list[object]]()
    words = list(argv)
    while words:
        word = words.pop(0)
        name, is_, text = word.lstrip("-").partition("=")
        key = name.removeprefix(PREFIX)
        if word.startswith("-") and name.startswith(PREFIX) and key in _keys():
            text = text if is_ or not words else words.pop(0)
            values = [_value(key, one) for one in _several(key, text)]
            if len(values) > 1:
                found[key], text = values, str(values[0])
            word = f"--{name}={text}"
        left.append(word)
    return left, found


def _keys() -> list[str]:
    return [name for name in varied() if get_origin(keys()[name].kind) is not tuple]


def _several(key: str, text: str) -> list[object]:
    """The values that a text names; a template's own text and a path are one value."""
    if text[:1] in ("(", "["):
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise InputError(
                where=f"--{PREFIX}{key}",
                expected='several values such as \'("a","b")\'',
                got=f"{text!r}",
            ) from error
        return list(values) if isinstance(values, list | tuple) else [text]
    if "{" in text or Path(text).exists():
        return [text]
    return [word.strip() for word in text.split(",")]


def _value(key: str, given: object) -> object:
    """A value in the key's own kind."""
    kind = keys()[key].kind
    if isinstance(given, str) and kind in (int, float):
        with suppress(ValueError):
            given = kind(given)  # type: ignore[operator]
    if isinstance(given, str) and kind is bool:
        given = WORDS.get(given, given)
    return keys()[key].check(given)
