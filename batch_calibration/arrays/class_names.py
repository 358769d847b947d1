"""Which column of the scores each class of `y` is."""

import warnings
from collections.abc import Hashable, Sequence

import numpy as np

from batch_calibration.errors import InputError, shown


def class_columns(
    y: np.ndarray | Sequence[Hashable] | None,
    k: int,
    classes: Sequence[Hashable] | None = None,
    names: np.ndarray | None = None,
    *,
    needed: bool = True,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The class of each column, and the column of each row's class, -1 where it is unknown.

    Args:
        y: the class of each row, or -1 for unknown; None for none.
        k: how many columns.
        classes: the class of each column, where it is known.
        names: the names of the columns, where they have any.
        needed: whether a class without a column is refused; else a whole number is warned of, as
            no prediction can be right there, and has no column.

    Raises:
        InputError: classes that are not k different ones; a class without a column.

    >>> class_columns(["yes", "no", "yes"], 2)[1].tolist()
    [1, 0, 1]
    """
    columns = np.arange(k)
    if classes is not None:
        columns = np.asarray(classes)
        if columns.shape != (k,) or len(set(columns.tolist())) < k:
            raise InputError(
                where="classes", expected=f"{k} different ones, one per column of X in order",
                got=shown(classes), remedy="name the class of each column",
            )  # fmt: skip
    if y is None:
        return columns, None
    found, place = np.unique(np.asarray(y), return_inverse=True)
    whole = found.dtype.kind in "iuf"
    unknown = (found == -1) & (-1 not in columns.tolist()) if whole else found != found
    known = found[~unknown].tolist()
    if classes is None and not set(known) <= set(range(k)):
        if names is not None and set(known) <= set(names.tolist()):
            columns = names
        elif len(known) == k:
            columns = found[~unknown]
    of = {value: column for column, value in enumerate(columns.tolist())}
    if other := [value for value in known if value not in of]:
        if needed or not whole or classes is not None:
            raise InputError(
                where="y", expected=f"classes of the {k} columns of X, {shown(columns.tolist())}",
                got=f"{len(known)} classes with {shown(other[0])} among them",
                remedy="give classes=[...], the class of each column in order",
            )  # fmt: skip
        warnings.warn(
            f"y: the class {other[0]} has no column in X, whose columns are {columns.tolist()}, so "
            "that no prediction for its rows is right; give classes=[...] if it has.",
            stacklevel=4,
        )
    return columns, np.array([of.get(value, -1) for value in found.tolist()], np.int32)[place]
