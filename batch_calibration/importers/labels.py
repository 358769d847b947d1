"""Which labels the columns of scores stand for, and which of them is right for each row."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.importers.cells import Column, text_of

LABEL_NAMES = ("label_names", "labels", "letters", "classes", "choices", "options")
"""Names under which files keep the names of the labels."""


def choose(
    where: str, names: Sequence[str], asked: Sequence[str], *, given: bool
) -> tuple[tuple[str, ...], list[int]]:
    """The labels' names, and which columns of the scores they stand for.

    Args:
        where: what to call the scores in sentences.
        names: the name of each column.
        asked: the names a person gave: some of these in another order; new ones for all columns
            where the file itself names none.
        given: whether the file itself names the labels.

    >>> choose("f", ("A", "B", "C"), ("C", "A"), given=True)
    (('C', 'A'), [2, 0])
    """
    if not asked:
        return tuple(names), list(range(len(names)))
    if len(set(asked)) < len(asked):
        raise InputError(f"{where}: --labels names {twice(asked)!r} twice; name each label once.")
    if set(asked) <= set(names):
        return tuple(asked), [names.index(name) for name in asked]
    if given:
        lacking = next(name for name in asked if name not in names)
        raise InputError(f"{where}: {InputError.unknown('label', lacking, names)}")
    if len(asked) != len(names):
        raise InputError(
            where=where,
            expected=f"--labels to name its {len(names)} columns of scores",
            got=f"{len(asked)} names",
        )
    return tuple(asked), list(range(len(names)))


def gold_indices(where: str, column: Column, names: Sequence[str]) -> np.ndarray:
    """The right labels [n] as indices, -1 where unknown: label names, indices, or nothing.

    Where every value is a label's name they are names; labels whose names are themselves numbers
    are never taken by index.

    >>> gold_indices("f", ["yes", "", "no"], ("no", "yes")).tolist()
    [1, -1, 0]
    """
    cells = [text_of(cell) for cell in column]
    known = {**dict.fromkeys(("", "-1"), -1), **{name: i for i, name in enumerate(names)}}
    if not set(cells) <= known.keys() and not all(name.isdecimal() for name in names):
        indices = {str(i): i for i in range(-1, len(names))}
        if sum(cell in indices for cell in cells) > sum(cell in names for cell in cells):
            known = {"": -1, **indices}
    for row, cell in enumerate(cells):
        if cell not in known:
            listed = ", ".join(map(repr, names[:8])) + (" ..." if len(names) > 8 else "")
            raise InputError(
                where=f"{where}, row {row} (counted from 0)",
                expected=f"the right label, by its name ({listed}), by its index from 0 to "
                f"{len(names) - 1}, or nothing where it is unknown",
                got=f"{shown(cell)}, which names no label",
            )
    return np.array([known[cell] for cell in cells], np.int32)


def renumbered(
    where: str, gold: np.ndarray, names: Sequence[str], chosen: Sequence[int]
) -> np.ndarray:
    """Indices among all labels as indices among those that were chosen."""
    place = {-1: -1, **{index: i for i, index in enumerate(chosen)}}
    left = next((row for row, label in enumerate(gold.tolist()) if label not in place), None)
    if left is not None:
        raise InputError(
            f"{where}, row {left} (counted from 0): its right label is {names[gold[left]]!r}, "
            "which --labels leaves out; name it too, or drop the row."
        )
    return np.array([place[label] for label in gold.tolist()], np.int32)


def twice(names: Sequence[str]) -> str:
    """The first name that stands twice among `names`."""
    return next(name for i, name in enumerate(names) if name in names[:i])
