"""The one error users see: a sentence about bad input."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Signs that steer a terminal or turn the direction of a text; tabs and line ends are not among
# them.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class InputError(ValueError):
    """A sentence about bad input: where, what was expected, what came, what to do.

    Programs turn it into exit code 2. It stays one line that can be read, whatever the input is:
    line ends become spaces, control characters are escaped, and words of hundreds of letters are
    cut.

    Attributes:
        where: the argument, file, row or flag that is wrong.
        expected: what belongs there.
        got: what came instead, "" where that is plain from the rest.
        remedy: what to do, "" where that is plain from the rest.

    >>> error = InputError(where="scores", expected="at least 2 labels", got="1", remedy="add one")
    >>> print(error)
    scores: expected at least 2 labels; got 1: add one.
    >>> error.got
    '1'
    """

    def __init__(
        self,
        sentence: object = "",
        *,
        where: object = "",
        expected: object = "",
        got: object = "",
        remedy: object = "",
    ):
        self.where, self.expected = str(where), str(expected)
        self.got, self.remedy = str(got), str(remedy)
        if not sentence:
            sentence = f"{self.where}: expected {self.expected}"
            sentence += f"; got {self.got}" if self.got else ""
            sentence += f": {self.remedy}." if self.remedy else "."
        line = escape_controls(re.sub(r"[\n\r\x85\u2028\u2029]+", " ", str(sentence)))
        super().__init__(re.sub(r"(\S{200})\S{200,}", r"\1...", line))

    @classmethod
    def unknown(cls, kind: str, name: object, options: Iterable[str]) -> InputError:
        """The sentence for a name nobody knows, with the nearest one that exists.

        >>> print(InputError.unknown("method", "bcc", ["bc", "icl"]))
        There is no method named 'bcc'; did you mean 'bc'? Known: bc, icl.
        """
        names = list(options)
        near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        listed = ", ".join(names) or "none"
        return cls(f"There is no {kind} named {name!r}{hint} Known: {listed}.")


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
