"""Scores in memory: arrays, tensors, data frames, Arrow tables, lists and dicts of columns."""

from collections.abc import Iterable, Mapping

import numpy as np

from batch_calibration.arrays import EACH_SCORE, SCORES, numbers
from batch_calibration.errors import InputError
from batch_calibration.importers.base import Imported, Reading, to_tables
from batch_calibration.importers.cells import Column
from batch_calibration.importers.columnar import arrow_columns, need_pyarrow
from batch_calibration.importers.columns import from_columns
from batch_calibration.importers.labels import twice
from batch_calibration.importers.named_arrays import from_arrays
from batch_calibration.scores import ScoreTable

WHERE = "scores"


def tables_of(given: object, reading: Reading | None = None) -> list[ScoreTable]:
    """The score tables in an object: of numpy, pandas, polars, pyarrow, torch, or plain Python.

    Args:
        given: an array or tensor [n, k] or [contexts, n, k]; a frame, an Arrow table, a dict of
            columns or a list of dicts, with columns as in a file.
        reading: what is said of it.

    Raises:
        InputError: it is none of these; what files of columns and arrays are refused for.

    >>> table, = tables_of({"no": [-1.5, -0.2], "yes": [-0.4, -2.0], "gold": ["yes", "no"]},
    ...                    Reading(gold="gold"))
    >>> table.label_names, table.blocks["test"].labels.tolist()
    (('no', 'yes'), [1, 0])
    """
    reading = reading or Reading()
    return to_tables(_contexts(given, reading), reading)


def _contexts(given: object, reading: Reading) -> list[Imported]:
    columns = columns_of(given)
    if columns is not None:
        lengths = {len(of) for of in columns.values()}
        if len(lengths) > 1:
            raise InputError(
                where=WHERE, expected="columns of one length", got=f"lengths {sorted(lengths)}"
            )
        return [from_columns(WHERE, columns, reading, task=WHERE)]
    array = np.asarray(numbers(given, WHERE, SCORES, EACH_SCORE))
    return from_arrays(WHERE, {WHERE: array}, reading, task=WHERE)


def columns_of(given: object) -> dict[str, Column] | None:
    """The columns of a frame, an Arrow table, a dict or a list of dicts; None of anything else."""
    if isinstance(given, Mapping):
        return {str(name): _cells(of) for name, of in given.items()}
    if isinstance(given, list | tuple) and given and all(isinstance(x, Mapping) for x in given):
        names = dict.fromkeys(name for row in given for name in row)
        return {str(name): [row.get(name) for row in given] for name in names}
    frame_columns = getattr(given, "columns", None)
    if isinstance(frame_columns, Iterable) and hasattr(given, "to_dict"):
        keys = list(frame_columns)
        if len(set(map(str, keys))) < len(keys):
            name = twice([str(key) for key in keys])
            raise InputError(
                f"{WHERE}: the column {name!r} stands twice; give each a name of its own."
            )
        return {str(key): _cells(given[key]) for key in keys}  # type: ignore[index]
    if hasattr(given, "__arrow_c_stream__"):
        need_pyarrow(WHERE)
        import pyarrow as pa

        return dict(arrow_columns(WHERE, pa.table(given)))
    return None


def _cells(column: object) -> Column:
    """A column's values: numbers as an array, else a list with None where there is none."""
    if hasattr(column, "isna") and hasattr(column, "to_numpy"):
        gone, found = np.asarray(column.isna()), np.asarray(column.to_numpy())
        if found.dtype.kind in "fiu":
            return found
        return [None if out else cell for out, cell in zip(gone, found, strict=True)]
    if isinstance(column, list | tuple):
        return column
    if hasattr(column, "to_list"):
        return list(column.to_list())
    found = np.asarray(column)
    if found.ndim != 1:
        raise InputError(
            where=WHERE,
            expected="columns of one value a row",
            got=f"{type(column).__name__} of shape {found.shape}",
        )
    return found
