"""Errors about bad input, and the spelling of their arguments for Python or for the console.

The library names arguments by their keys and work by its steps. An interface, such as a console
program, sets how messages spell them: `with doors_spelling(CONSOLE): ...`. By default they are
spelled as arguments and functions in Python.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

# Control characters, except tab and newline, and marks that change the direction of text.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
Kinds = type[Exception] | tuple[type[Exception], ...]  # exception types, as in `except`


class Spelling(NamedTuple):
    """The spelling of keys and steps in an interface's messages.

    Attributes:
        key: Maps a key and its value (or None) to the argument as users write it.
        step: Maps a step of the work, such as "score", to an instruction to run it.
        call: Maps a step, its input and its keys to the complete call.
    """

    key: Callable[[str, object], str]
    step: Callable[[str], str]
    call: Callable[[str, str, Mapping[str, object]], str]


def python_argument(key: str, setting: object) -> str:
    """Returns a key as an argument in Python.

    >>> python_argument("gold", "label"), python_argument("gold", None)
    ("gold='label'", 'gold=')
    """
    return f"{key}=" if setting is None else f"{key}={setting!r}"


def _words(step_name: str) -> str:
    return step_name.replace("_", " ")


def _call(step_name: str, source: str, keys: Mapping[str, object]) -> str:
    return f"{step_name}({', '.join([source, *map(python_argument, keys, keys.values())])})"


PYTHON = Spelling(python_argument, _words, _call)
_spelling = PYTHON  # the active spelling; a ContextVar would not reach other threads


@contextmanager
def doors_spelling(spelling: Spelling) -> Iterator[None]:
    """Spells keys and steps in messages with `spelling` while the block runs."""
    global _spelling
    outer, _spelling = _spelling, spelling
    try:
        yield
    finally:
        _spelling = outer


def current_spelling() -> Spelling:
    """Returns the active spelling, which worker processes need."""
    return _spelling


def spell(key: str, setting: object = None) -> str:
    """Returns a key and its value as users of the active interface write them.

    Args:
        key: Name of the argument in Python, or of the field in `Settings`.
        setting: Its value: a text, a number, a bool or a tuple of names. None for the key only.

    >>> spell("labels", ("no", "yes"))
    "labels=('no', 'yes')"
    """
    return _spelling.key(key, setting)


def step(name: str) -> str:
    """Returns an instruction to run a step of a study; in Python, the verb only.

    >>> f"no records yet; {step('calibrate')} first"
    'no records yet; calibrate first'
    """
    return _spelling.step(name)


def call(step_name: str, source: str, keys: Mapping[str, object]) -> str:
    """Returns the call of a step on some scores as users of the active interface write it.

    >>> call("calibrate", "scores", {"method": "bc"})
    "calibrate(scores, method='bc')"
    """
    return _spelling.call(step_name, source, keys)


class InputError(ValueError):
    """An error about bad input: where it is, the expected input, the actual input, the remedy.

    Programs exit with code 2 when they catch it. The message is always one readable line: line
    breaks become spaces, control characters become escape codes, and words of more than 200
    characters are cut.

    Attributes:
        key: The wrong argument or setting; "" if the error concerns something else.
        where: The beginning of the message: a file, a row, or the key as the interface spells it.
        expected: The input that belongs there.
        got: The input that was found; "" if it is clear from the other fields.
        remedy: How to correct the input; "" if it is clear from the other fields.

    >>> error = InputError(key="scores", expected="at least 2 labels", got="1", remedy="add one")
    >>> print(error)
    scores: expected at least 2 labels; got 1: add one.
    >>> error.key, error.got
    ('scores', '1')
    """

    def __init__(
        self,
        sentence: object = "",
        *,
        key: str = "",
        where: object = "",
        expected: object = "",
        got: object = "",
        remedy: object = "",
    ):
        self.key, self.expected = key, str(expected)
        self.where = str(where) or (spell(key).rstrip("=") if key else "")
        self.got, self.remedy = str(got), str(remedy)
        if not sentence:
            sentence = f"expected {self.expected}"
            sentence += f"; got {self.got}" if self.got else ""
            sentence += f": {self.remedy}" if self.remedy else ""
            sentence += "" if sentence.endswith("?") else "."
        if self.where:
            sentence = f"{self.where}: {sentence}"
        line = escape_controls(re.sub(r"[\n\r\x85\u2028\u2029]+", " ", str(sentence)))
        super().__init__(re.sub(r"(\S{200})\S{200,}", r"\1...", line))

    @classmethod
    def at(
        cls, where: object, expected: object, got: object = "", remedy: object = "", key: str = ""
    ) -> InputError:
        """Returns the error at a place, or of a `key`, from the parts of its message.

        >>> print(InputError.at("f.csv, row 3", "a number", "'x'", "correct it"))
        f.csv, row 3: expected a number; got 'x': correct it.
        """
        return cls(where=where, expected=expected, got=got, remedy=remedy, key=key)

    @classmethod
    def unknown(
        cls, kind: str, name: object, options: Iterable[str], *, key: str = "", where: object = ""
    ) -> InputError:
        """Returns the error for an unknown name, with the most similar known name.

        >>> print(InputError.unknown("method", "bcc", ["bc", "icl"]))
        There is no method named 'bcc'; did you mean 'bc'? Known: bc, icl.
        """
        names = list(options)
        listed = ", ".join(names) or "none"
        guess = nearest(name, names) or "."
        sentence = f"There is no {kind} named {name!r}{guess} Known: {listed}."
        error = cls(f"{where}: {sentence}" if where else sentence)
        error.key, error.expected, error.got = key or kind, listed, str(name)
        return error

    def replacing(self, old: str, new: str) -> InputError:
        """Returns this error with `old` replaced by `new`, such as a path by its title."""
        error = InputError(str(self).replace(old, new))
        for name in ("key", "where", "expected", "got", "remedy"):
            setattr(error, name, getattr(self, name).replace(old, new))
        return error


@contextmanager
def answering(
    kinds: Kinds, where: object, expected: object, remedy: object = "", key: str = ""
) -> Iterator[None]:
    """Raises an `InputError` if the block raises one of `kinds`; "got" is the original message.

    >>> with answering(ValueError, "f.csv, row 3", "a number", "correct it"):
    ...     float("x")
    Traceback (most recent call last):
    batch_calibration.errors.InputError: f.csv, row 3: expected a number; got could not convert ...
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        # The text of an OSError repeats the path, so its `strerror` is preferred.
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        missing = "nothing under " if isinstance(error, KeyError) else ""
        # The repr of an object with its address, as in Pillow's messages, is left out.
        got = re.sub(r" <[^<>]* at 0x\w+>", "", f"{missing}{reason.splitlines()[0]:.200}")
        raise InputError.at(where, expected, got.rstrip("."), remedy, key) from error


def extra(name: str) -> str:
    """Returns the command that installs an extra of this package."""
    return f"pip install 'batch-calibration[{name}]'"


def refuse_unknown(kind: str, name: object, options: Iterable[str], *, where: object = "") -> None:
    """Raises `InputError.unknown` if `name` is not among the options."""
    names = list(options)
    if name not in names:
        raise InputError.unknown(kind, name, names, where=where)


def nearest(name: object, names: Iterable[object], least: float = 0.4) -> str:
    """Returns a question with the most similar name; "" if no name is similar enough.

    >>> nearest("Yess", ["no", "yes"])
    "; did you mean 'yes'?"
    """
    by_letters = {str(known).lower(): known for known in reversed([*names])}
    near = difflib.get_close_matches(str(name).lower(), by_letters, n=1, cutoff=least)
    return f"; did you mean {by_letters[near[0]]!r}?" if near else ""


def escape_controls(text: str) -> str:
    r"""Replaces control characters, such as ESC, by escape codes, so that terminals are safe.

    >>> print(escape_controls("file\x1b[2J.csv"))
    file\x1b[2J.csv
    """
    return CONTROLS.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


def shown(value: object, most: int = 80) -> str:
    """Returns the repr of a value for a message, cut to `most` characters.

    >>> shown("x" * 100, 10)
    "'xxxxxxxxx..."
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, thousands of levels
        return f"a very long {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."


def callers_level() -> int:
    """Returns the `stacklevel` for a warning that points at the user's call of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("batch_calibration"):
        level, frame = level + 1, frame.f_back
    return level
