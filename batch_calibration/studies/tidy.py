"""Converts records to one tidy table (pandas, Arrow, CSV, Parquet).

The table has a row per context, method and metric.
"""

from __future__ import annotations

import io
import json
from collections import UserList
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.errors import answering
from batch_calibration.files import quote_formulas, write_csv
from batch_calibration.settings import keys
from batch_calibration.studies.records import Record

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, object]

ALWAYS = ("data", "split", "limit", "shots", "demonstrations")
"""Settings that a context names even if they have their default values."""
OPTIONS: dict[str, type] = {}
for _name, _key in keys().items():
    if _key.part in ("data", "prompt") and _name not in ALWAYS:
        OPTIONS[f"option_{_name}"] = int if _key.kind is int else str
KINDS: dict[str, type] = {
    "id": str, "model": str, "data": str, "task": str, "shots": int, "seed": int,
    "method": str, "metric": str, "value": float, "low": float, "high": float,
    "rows": int, "split": str, "served": str, "limit": int, "floor": float, **OPTIONS,
    "scorer": str, "scorer_digest": str, "label_names": list, "template": str,
    "demonstrations": list,
}  # fmt: skip
"""Columns of every table and their types; `list` is a list of texts."""
PANDAS_DTYPES = {str: "string", int: "Int64", float: "float64", bool: "boolean", list: "object"}
"""The pandas dtype of each type; `Int64` keeps integers if some values are unknown."""


class Column(NamedTuple):
    """One column.

    Attributes:
        kind: type of the cells: `str`, `int`, `float`, `bool`, or `list` for lists of texts.
        cells: one cell per row; None for a missing value.
    """

    kind: type
    cells: list[object]


Columns = Mapping[str, Column]


class Records(UserList[Record]):
    """A list of records that converts to one tidy table: a row per context, method and metric."""

    def __repr__(self) -> str:
        return f"Records({self.data!r})"

    def rows(self) -> list[Row]:
        """Returns one dict per context, method and metric, with the value and all settings.

        `low` and `high` are the ends of the value's 95 % interval; None without an interval. `rows`
        is the number of test rows with a gold label; every metric counts only these rows. A setting
        is None for its default value or an unknown one. `option_NAME` is a setting of the prompt or
        of a block, `scorer_NAME` a setting of the scorer, and `method_NAME` an option of the row's
        method.
        """
        rows: list[Row] = []
        for record in self:
            shared = _describe(record)  # columns that are the same in all rows of a context
            for method, of_method in record.methods.items():
                metrics, options = of_method.metrics, prefixed("method", of_method.options)
                for metric, number in metrics.items():
                    # The ends of an interval are columns in the row of their metric.
                    if metric.removesuffix("_low").removesuffix("_high") in {*metrics} - {metric}:
                        continue
                    found: Row = {"method": method, "metric": metric, "value": number}
                    for end in ("low", "high"):
                        found[end] = metrics.get(f"{metric}_{end}")
                    rows.append(shared | options | found)
        return fill_columns(rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Converts `rows` to a pandas DataFrame.

        Raises:
            InputError: pandas is not installed.
        """
        with answering(ImportError, "to_pandas", "pandas", "install it, or use rows()"):
            import pandas
        series = {}
        for name, column in typed_columns(self.rows()).items():
            series[name] = pandas.Series(column.cells, dtype=PANDAS_DTYPES[column.kind])
        return pandas.DataFrame(series)

    def to_arrow(self) -> pyarrow.Table:
        """Converts `rows` to a pyarrow Table.

        Raises:
            InputError: pyarrow is not installed.
        """
        return to_arrow(typed_columns(self.rows()))


def _describe(record: Record) -> Row:
    """Returns the fields and settings of a context as flat columns; empty ones are None."""
    context = record.context
    # Integers skip `or None`, because 0 shots and seed 0 are values.
    row: Row = {}
    for name, field in vars(context).items():
        if name not in ("options", "blocks", "factors"):
            row[name] = field if isinstance(field, int) else field or None
    row |= prefixed("option", context.every_option) | prefixed("scorer", context.scorer.settings)
    row |= prefixed("factor", context.factors)
    return row | {
        "id": record.id, "rows": record.labeled_rows, "floor": record.floor,
        "scorer": context.scorer.kind or None, "scorer_digest": context.scorer.digest or None,
        "demonstrations": list(context.demonstrations), "label_names": list(record.label_names),
    }  # fmt: skip


def prefixed(prefix: str, settings: Mapping[str, object]) -> Row:
    """Adds a prefix to the names of settings.

    >>> prefixed("option", {"order": 2})
    {'option_order': 2}
    """
    return {f"{prefix}_{name}": setting for name, setting in settings.items()}


def fill_columns(rows: Sequence[Row]) -> list[Row]:
    """Gives every row all columns: first `KINDS`, then others by name. Missing cells are None."""
    names = set[str]().union(*rows) - KINDS.keys()  # for instance a scorer's settings
    empty = dict.fromkeys([*KINDS, *sorted(names)])
    return [empty | row for row in rows]


def typed_columns(rows: Sequence[Row]) -> dict[str, Column]:
    """Converts rows from `fill_columns` to typed columns.

    A column that is not in `KINDS` has the type of its values. Integers and floats together become
    floats; other mixtures of types become JSON texts.

    >>> typed_columns(fill_columns([{"seed": 1, "method_floor": 1}, {"method_floor": 0.5}]))[
    ...     "method_floor"
    ... ]
    Column(kind=<class 'float'>, cells=[1.0, 0.5])
    """
    table = {}
    for name in rows[0] if rows else KINDS:
        cells = [row[name] for row in rows]
        kind = KINDS.get(name) or _common_kind(cells)
        table[name] = Column(kind, [_cast(cell, kind) for cell in cells])
    return table


def _common_kind(cells: Iterable[object]) -> type:
    """Returns the type of a column with these cells."""
    kinds = set(map(type, cells)) - {type(None)}  # `isinstance` would take True for an integer.
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return kinds.pop()
    return float if kinds == {int, float} else str


def _cast(cell: object, kind: type) -> object:
    if cell is None or isinstance(cell, kind):
        return cell
    # A column of floats may hold integers; other mixtures become JSON texts.
    return float(str(cell)) if kind is float else json.dumps(cell)


def to_arrow(table: Columns) -> pyarrow.Table:
    """Converts columns to a pyarrow Table.

    Raises:
        InputError: pyarrow is not installed.
    """
    with answering(ImportError, "to_arrow", "pyarrow", "install it, or use rows()"):
        import pyarrow as pa
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    types[list] = pa.list_(pa.string())
    return pa.table({name: pa.array(c.cells, types[c.kind]) for name, c in table.items()})


def to_parquet(table: Columns) -> bytes:
    """Converts columns to the bytes of a Parquet file; raises as `to_arrow` does."""
    arrow = to_arrow(table)
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(arrow, buffer)
    return buffer.getvalue()


def to_csv(table: Columns) -> str:
    """Converts columns to CSV text; lists become JSON, and None becomes an empty cell."""
    csv_columns = []
    for column in table.values():
        cells = column.cells
        if column.kind is list:
            cells = [None if cell is None else json.dumps(cell) for cell in cells]
        csv_columns.append(quote_formulas(cells) if column.kind is str else cells)
    return write_csv([list(table), *zip(*csv_columns, strict=True)], ",")
