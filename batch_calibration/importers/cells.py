"""The cells of a table: what is a number, what is empty, what a cell says as text."""

from collections.abc import Sequence

import numpy as np

Column = Sequence[object] | np.ndarray
"""One value a row: a number, a text, None; or a list or dict of the scores of a row."""


class Texts(tuple[str, ...]):
    """The cells of a column in a file of text, where numbers are written as texts."""


EMPTY = ("", "na", "n/a", "nan", "null", "none")
"""How files of text write that there is no value."""


def text_of(cell: object) -> str:
    """A cell as text: nothing for None and NaN, a whole number without a point.

    >>> [text_of(cell) for cell in (None, float("nan"), 2.0, " a ")]
    ['', '', '2', 'a']
    """
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def values(column: Column) -> tuple[np.ndarray, list[int]]:
    """The numbers [n] of a column, NaN where there is none, and the rows that hold no number."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64), []
    if isinstance(column, Texts):
        cells = [parsed(cell) for cell in column]
    else:
        cells = [number(cell) for cell in column]
    values = np.array([np.nan if cell is None else cell for cell in cells])
    return values, [row for row, cell in enumerate(cells) if cell is None]


def parsed(text: str) -> float | None:
    """The number that a text says, NaN where it is empty, None where it says none."""
    text = text.strip()
    if text.lower() in EMPTY:
        return np.nan
    # Python reads 1_000 and digits of other scripts, which no file of numbers means.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def number(cell: object) -> float | None:
    """A cell as a number, NaN where it is empty, None where it is no number."""
    if cell is None:
        return np.nan
    if isinstance(cell, bool) or not isinstance(cell, int | float | np.integer | np.floating):
        return None
    try:
        return float(cell)
    except OverflowError:
        return None


def is_whole(numbers: np.ndarray) -> bool:
    """Whether numbers look like codes or counts: whole, and -1 the least.

    Scores may be whole by chance, but log-probabilities lie below.
    """
    given = numbers[np.isfinite(numbers)]
    return bool(len(given) and (given % 1 == 0).all() and (given >= -1).all())
