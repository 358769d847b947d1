"""Alignment of rows by index or position, and of labels by name or column index.

Rows: two pandas objects are aligned by their indexes if both hold the same entries, each once.
If the entries differ, or only one has a default RangeIndex, InputError is raised. Objects without
an index are aligned by position.

Labels: a frame's column names are the names of the labels. Gold labels, shares and the columns of
other frames are looked up by these names. A whole number is a column index, unless the names are
whole numbers themselves: then it is a name.
"""

from collections.abc import Hashable, Mapping, Sequence

import jax
import numpy as np

from batch_calibration.arrays.frames import package, tensor_values
from batch_calibration.arrays.missing_scores import is_gap
from batch_calibration.errors import InputError, shown
from batch_calibration.typing import Container

UNKNOWN = -1  # the column index of an unknown label


def is_text(cell: object) -> bool:
    """Checks whether a cell is a string; only a string can be a label's name."""
    return isinstance(cell, str)


def is_whole_number(cell: object) -> bool:
    """Checks whether a cell is an integer, and so a column index; booleans are not."""
    return isinstance(cell, int | np.integer) and not isinstance(cell, bool)


def has_index(values: object) -> bool:
    """Checks whether an object has an index, as the series and frames of pandas do."""
    return hasattr(values, "iloc")


def in_row_order(
    values: Container, where: str, rows: Container, rows_where: str = "scores"
) -> Container:
    """Reorders values of rows, such as labels or weights, to match other rows.

    Raises:
        InputError: both have an index, and the indexes do not determine which rows belong together.
            (A different number of rows is refused later, with the shapes.)

    >>> in_row_order([0, 1], "labels", [[-1.0, -2.0], [-2.0, -1.0]])
    [0, 1]
    """
    if not (has_index(values) and has_index(rows)) or len(values) != len(rows):
        return values
    own, index = values.index, rows.index
    if own.equals(index):
        return values
    are_alike = own.is_unique and index.is_unique and not (_counts(own) or _counts(index))
    places = own.get_indexer(index) if are_alike else np.array([-1])  # -1: a missing entry
    if (places < 0).any():
        expected = f"the index of {rows_where}, or its entries in another order"
        got = f"{shown(list(own[:4]))} and {shown(list(index[:4]))}"
        remedy = f"give {where}.to_numpy() if rows belong together by position, or "
        remedy += f"{where}.reindex({rows_where}.index) if by index"
        raise InputError.at(where, expected, got, remedy)
    return values.iloc[places]


def _counts(index: Container) -> bool:
    """Checks whether an index counts from 0, as pandas' default index does."""
    return index.dtype.kind in "iu" and bool((np.asarray(index) == np.arange(len(index))).all())


def column_by_name(names: Sequence[Hashable]) -> dict[Hashable, int]:
    """Maps each name to its column; a name such as "1" is found as a number and as a string.

    >>> column_by_name(["no", "yes"]), column_by_name(["1", "2"])
    ({'no': 0, 'yes': 1}, {'1': 0, '2': 1, 1: 0, 2: 1})
    """
    columns = dict(zip(names, range(len(names)), strict=True))
    try:
        numbers = {int(str(name)): column for name, column in columns.items()}
    except ValueError:
        return columns
    if len(numbers) < len(columns):  # two names of one number, such as "1" and "01"
        return columns
    for number, column in numbers.items():
        columns |= {number: column, str(number): column}
    return columns


def column_numbers(labels: Container, names: Sequence[Hashable] | None) -> Container:
    """Converts label names, in an array of any shape, to column indices.

    Labels without names are returned unchanged. Among names, None, NaN and empty cells become -1,
    which means unknown. `names` are the names of the score columns.

    Raises:
        InputError: a label that is not among the names.

    >>> column_numbers(["yes", "no"], ["no", "yes"]).tolist()
    [1, 0]
    """
    # Masked arrays are refused later, by `read_numbers`.
    if names is None or isinstance(labels, jax.core.Tracer) or np.ma.is_masked(labels):
        return labels
    column_of = column_by_name(names)
    try:
        if isinstance(labels, list | tuple):
            array = np.asarray(labels, object)  # otherwise NaN among strings becomes "nan"
        else:
            array = tensor_values(labels) if package(labels) == "torch" else np.asarray(labels)
        if array.dtype == object and not any(map(is_text, array.flat)):
            array = np.asarray(array.tolist())
    except (TypeError, ValueError, RuntimeError):  # refused later, by `read_numbers`
        return labels
    cells = array.reshape(-1).tolist()
    is_whole = array.dtype.kind in "iu"
    # Whole numbers are column indices, unless the names are other whole numbers.
    is_named = any(map(is_whole_number, column_of)) and [*names] != [*range(len(names))]
    if not (is_named if is_whole else any(map(is_text, cells))):
        return labels
    columns = []
    for cell in cells:
        is_unknown = is_gap(cell) or cell != cell or (cell == UNKNOWN and is_whole)
        if cell not in column_of and not is_unknown:
            expected = f"names of columns of the scores, {shown([*names])}"
            remedy = "rename the columns to the labels, or give arrays and column indices"
            raise InputError.at("labels", expected, shown(cell), remedy)
        columns.append(column_of.get(cell, UNKNOWN))
    return np.array(columns, np.int32).reshape(array.shape)


def in_label_order(
    shares: Container,
    names: Sequence[Hashable] | None,
    where: str,
    k: int | None = None,
    *,
    absent: float | None = 0.0,
) -> Container:
    """Sorts values of labels, such as shares, in the order of the columns.

    `shares` map names to values: a mapping, a pandas series (as `value_counts` returns it) or a
    polars frame of two columns. Any other object is returned unchanged, because its values have a
    position and no name. Whole numbers are column indices, of `k` labels, unless `names` hold whole
    numbers. A label without a value gets `absent`.

    Raises:
        InputError: an unknown or repeated name; a label without a value if `absent` is None.

    >>> in_label_order({"yes": 0.9, "no": 0.1}, ["no", "yes"], "target_prior")
    [0.1, 0.9]
    """
    if package(shares) == "polars" and shares.width == 2:
        pairs = list(shares.iter_rows())
    elif isinstance(shares, Mapping) or (has_index(shares) and shares.ndim == 1):
        pairs = list(shares.items())
    else:
        return shares
    columns = column_by_name(() if names is None else names)
    labels = len(set(columns.values())) or k or len(pairs)
    if all(is_whole_number(name) for name, _ in pairs) and not any(map(is_whole_number, columns)):
        columns = {column: column for column in range(labels)}
    by_column = {}
    for name, share in pairs:
        column = columns.get(name)
        if column is None or column in by_column:
            order = "indices of columns from 0 on" if names is None else shown([*names])
            expected = f"one share for each of {labels} labels by name, {order}"
            got = f"{shown(name)}{'' if column is None else ' twice'}"
            remedy = "use the columns' names, or give shares in the order of the columns"
            raise InputError.at(where, expected, got, remedy)
        by_column[column] = share
    if absent is None and len(by_column) < labels:
        expected = f"a number for each of {labels} labels"
        raise InputError.at(where, expected, len(by_column), "give them all")
    return [by_column.get(column, absent) for column in range(labels)]
