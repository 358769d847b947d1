"""Errors that users see: sentences about bad input, in the spelling of the door they came by.

The library knows arguments by their keys, and work by its steps. A door, such as a console program,
says how its users spell these: `with doors_spelling(CONSOLE): ...`. In Python a key is an argument.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

# Signs that steer a terminal or turn the direction of a text; tabs and line ends are not among
# them.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
Kinds = type[Exception] | tuple[type[Exception], ...]  # of errors, as `except` takes them


class Spelling(NamedTuple):
    """How the users of a door write what the library names.

    Attributes:
        key: (key, its value or None) -> the key as its users give it.
        step: a step of the work, such as "score" -> an imperative that says to do it.
        call: a step, what it reads, and its keys -> the whole call.
    """

    key: Callable[[str, object], str]
    step: Callable[[str], str]
    call: Callable[[str, str, Mapping[str, object]], str]


def python_argument(key: str, setting: object) -> str:
    """A key as an argument in Python.

    >>> python_argument("gold", "label"), python_argument("gold", None)
    ("gold='label'", 'gold=')
    """
    return f"{key}=" if setting is None else f"{key}={setting!r}"


def _words(step_name: str) -> str:
    return step_name.replace("_", " ")


def _call(step_name: str, source: str, keys: Mapping[str, object]) -> str:
    return f"{step_name}({', '.join([source, *map(python_argument, keys, keys.values())])})"


PYTHON = Spelling(python_argument, _words, _call)
_spelling = PYTHON  # of the door that is open; of all threads, unlike a ContextVar


@contextmanager
def doors_spelling(spelling: Spelling) -> Iterator[None]:
    """Within it sentences spell keys and steps as a door's users do."""
    global _spelling
    outer, _spelling = _spelling, spelling
    try:
        yield
    finally:
        _spelling = outer


def current_spelling() -> Spelling:
    """The spelling of the door that is open, for workers in other processes."""
    return _spelling


def spell(key: str, setting: object = None) -> str:
    """A key, and what to set it to, as the door's users write it.

    Args:
        key: as the argument is called in Python, or the setting in `Settings`.
        setting: a text, a number, a bool, or a tuple of names.

    >>> spell("labels", ("no", "yes"))
    "labels=('no', 'yes')"
    """
    return _spelling.key(key, setting)


def step(name: str) -> str:
    """An imperative that says to do a step of a study: in Python the verb alone.

    >>> f"no records yet; {step('calibrate')} first"
    'no records yet; calibrate first'
    """
    return _spelling.step(name)


def call(step_name: str, source: str, keys: Mapping[str, object]) -> str:
    """A step on some scores with these keys, as the door's users write it.

    >>> call("calibrate", "scores", {"method": "bc"})
    "calibrate(scores, method='bc')"
    """
    return _spelling.call(step_name, source, keys)


class InputError(ValueError):
    """A sentence about bad input: where, what was expected, what came, what to do.

    Programs turn it into exit code 2. It stays one line that can be read, whatever the input is:
    line ends become spaces, control characters are escaped, and words of hundreds of letters are
    cut.

    Attributes:
        key: the argument or setting that is wrong, "" where it is none.
        where: what the sentence begins with: a file, a row, or the key as the door spells it.
        expected: what belongs there.
        got: what came instead, "" where that is plain from the rest.
        remedy: what to do, "" where that is plain from the rest.

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
        """The error at a place, or of a `key`: where, what belongs there, what came, what to do.

        >>> print(InputError.at("f.csv, row 3", "a number", "'x'", "correct it"))
        f.csv, row 3: expected a number; got 'x': correct it.
        """
        return cls(where=where, expected=expected, got=got, remedy=remedy, key=key)

    @classmethod
    def unknown(
        cls, kind: str, name: object, options: Iterable[str], *, key: str = "", where: object = ""
    ) -> InputError:
        """The sentence for a name nobody knows, with the nearest one that exists.

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
        """The same error with other words, such as a file's path in place of its copy's."""
        error = InputError(str(self).replace(old, new))
        fields = {name: text.replace(old, new) for name, text in vars(self).items()}
        vars(error).update(fields)
        return error


@contextmanager
def answering(
    kinds: Kinds, where: object, expected: object, remedy: object = "", key: str = ""
) -> Iterator[None]:
    """Answer in a sentence where the block raises an error of these kinds, which is what came.

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
        # Errors of the system have their path in the text, too.
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        missing = "nothing under " if isinstance(error, KeyError) else ""
        got = f"{missing}{reason.splitlines()[0]:.200}".rstrip(".")
        raise InputError.at(where, expected, got, remedy, key) from error


def extra(name: str) -> str:
    """The command that installs an extra of this package."""
    return f"pip install 'batch-calibration[{name}]'"


def refuse_unknown(kind: str, name: object, options: Iterable[str], *, where: object = "") -> None:
    """Refuse a name that is none of the options, as `InputError.unknown` says it."""
    names = list(options)
    if name not in names:
        raise InputError.unknown(kind, name, names, where=where)


def nearest(name: object, names: Iterable[object], least: float = 0.4) -> str:
    """A question after the one name that is nearest to a name nobody knows; "" where none is near.

    >>> nearest("Yess", ["no", "yes"])
    "; did you mean 'yes'?"
    """
    by_letters = {str(known).lower(): known for known in reversed([*names])}
    near = difflib.get_close_matches(str(name).lower(), by_letters, n=1, cutoff=least)
    return f"; did you mean {by_letters[near[0]]!r}?" if near else ""


def escape_controls(text: str) -> str:
    r"""A text that steers no terminal: control characters, such as ESC, are written as codes.

    >>> print(escape_controls("file\x1b[2J.csv"))
    file\x1b[2J.csv
    """
    return CONTROLS.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


def shown(value: object, most: int = 80) -> str:
    """A value as a sentence shows it: its repr, cut where it is long, or else its type.

    >>> shown("x" * 100, 10)
    "'xxxxxxxxx..."
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, thousands of levels
        return f"a very long {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."


def callers_level() -> int:
    """The `stacklevel` of a warning that points at the line of a user which called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("batch_calibration"):
        level, frame = level + 1, frame.f_back
    return level
