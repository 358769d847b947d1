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
    """The class of each of k columns, and the column of each row's class, -1 where it is unknown.

    `y` are the class of each row, -1 for unknown; `classes` that of each column, where it is known;
    `names` those of the columns. A class without a column is refused where it is `needed`; else a
    whole number is warned of, as no prediction can be right there, and has no column.

    Raises:
        InputError: classes that are not k different ones; a class without a column; texts, whose
            order nothing tells.

    >>> class_columns(["yes", "no", "yes"], 2, ["no", "yes"])[1].tolist()
    [1, 0, 1]
    """
    columns = np.arange(k)  # without names a class is the index of its column
    if classes is not None:
        columns = np.asarray(classes)
        if columns.shape != (k,) or len(set(columns.tolist())) < k:  # two columns of one class
            raise InputError(
                where="classes", expected=f"{k} different ones, one per column of X in order",
                got=shown(classes), remedy="name the class of each column",
            )  # fmt: skip
    if y is None:
        return columns, None
    distinct, distinct_of_row = np.unique(np.asarray(y), return_inverse=True)
    is_numeric = distinct.dtype.kind in "iuf"
    # -1 is a class only where it is named as one; of other kinds, NaN alone differs from itself.
    is_unknown = distinct != distinct
    if is_numeric:
        is_unknown = (distinct == -1) & (-1 not in columns.tolist())
    occurring = distinct[~is_unknown].tolist()
    if classes is None and not set(occurring) <= set(range(k)):
        # Names of columns settle their order; other classes, k of them, are taken in sorted order.
        if names is not None and set(occurring) <= set(names.tolist()):
            columns = names
        elif not is_numeric:
            # The order of the alphabet is a guess, which no later error would betray.
            raise InputError(
                where="y", expected="column indices, or names of the columns of X"
                + ("" if names is None else f", {shown(names.tolist())}"),
                got=f"{shown(occurring[:k])}, of which nothing tells the columns",
                remedy="make LabelBiasCorrector(classes=[...]), the class of each column in order",
            )  # fmt: skip
        elif len(occurring) == k:  # such as 1 and 2, in their order
            columns = distinct[~is_unknown]
    column_of = dict(zip(columns.tolist(), range(k), strict=True))
    without_column = [name for name in occurring if name not in column_of]
    if without_column:
        if needed or not is_numeric or classes is not None:
            raise InputError(
                where="y", expected=f"classes of the {k} columns of X, {shown(columns.tolist())}",
                got=f"{len(occurring)} classes with {shown(without_column[0])} among them",
                remedy="give classes=[...], the class of each column in order",
            )  # fmt: skip
        warnings.warn(
            f"y: the class {without_column[0]} has no column in X, whose columns are "
            f"{columns.tolist()}, so that no prediction for its rows is right; give classes=[...] "
            "if it has.",
            stacklevel=4,  # the caller of the estimator's fit
        )
    column_of_distinct = [column_of.get(name, -1) for name in distinct.tolist()]
    return columns, np.array(column_of_distinct, np.int32)[distinct_of_row]  # [n]
