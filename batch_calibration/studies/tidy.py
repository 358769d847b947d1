"""Records as one tidy table: a row per context, method and metric; pandas, Arrow, CSV, Parquet."""

from __future__ import annotations

import io
import json
from collections import UserList
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.errors import answering
from batch_calibration.files import quote_formula, write_csv
from batch_calibration.settings import keys
from batch_calibration.studies.records import Record

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, object]

ALWAYS = ("data", "split", "limit", "shots", "demonstrations")
"""Settings that a context names whatever they are."""
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
"""Columns that every table has, and the type of each; `list` is one of texts."""
PANDAS_DTYPES = {str: "string", int: "Int64", float: "float64", bool: "boolean", list: "object"}
"""The dtype of each kind: a column of whole numbers stays one where some are unknown."""


class Column(NamedTuple):
    """One column.

    Attributes:
        kind: `str`, `int`, `float`, `bool`, or `list` for lists of texts.
        cells: one for each row, None where there is none.
    """

    kind: type
    cells: list[object]


Columns = Mapping[str, Column]


class Records(UserList[Record]):
    """Records in order, and the same as one tidy table: a row per context, method and metric."""

    def __repr__(self) -> str:
        return f"Records({self.data!r})"

    def rows(self) -> list[Row]:
        """One dict per context, method and metric: what was found, and every setting.

        `low` and `high` are the ends of the value's 95 % interval, None where it has none. `rows`
        counts the test rows whose right label is known, for each metric is of these. A setting is
        None where it is the default or not known: `option_NAME` is one of the prompt or of a
        block, `scorer_NAME` one of the scorer, `method_NAME` one of the row's method.
        """
        rows: list[Row] = []
        for record in self:
            shared = _describe(record)  # columns that are the same in all rows of a context
            for method, of_method in record.methods.items():
                metrics, options = of_method.metrics, prefixed("method", of_method.options)
                for metric, number in metrics.items():
                    # The ends of an interval stand beside their metric, in its own row.
                    if metric.removesuffix("_low").removesuffix("_high") in {*metrics} - {metric}:
                        continue
                    found: Row = {"method": method, "metric": metric, "value": number}
                    for end in ("low", "high"):
                        found[end] = metrics.get(f"{metric}_{end}")
                    rows.append(shared | options | found)
        return fill_columns(rows)

    def to_pandas(self) -> pandas.DataFrame:
        """`rows` as a pandas DataFrame.

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
        """`rows` as a pyarrow Table.

        Raises:
            InputError: pyarrow is not installed.
        """
        return to_arrow(typed_columns(self.rows()))


def _describe(record: Record) -> Row:
    """A context's fields and settings, flat; what is empty is None."""
    context = record.context
    # Not `or None` for numbers: 0 shots and seed 0 are no gaps.
    row: Row = {}
    for name, field in vars(context).items():
        if name not in ("options", "blocks"):
            row[name] = field if isinstance(field, int) else field or None
    row |= prefixed("option", context.every_option) | prefixed("scorer", context.scorer.settings)
    return row | {
        "id": record.id, "rows": record.labeled_rows, "floor": record.floor,
        "scorer": context.scorer.kind or None, "scorer_digest": context.scorer.digest or None,
        "demonstrations": list(context.demonstrations), "label_names": list(record.label_names),
    }  # fmt: skip


def prefixed(prefix: str, settings: Mapping[str, object]) -> Row:
    """Settings as columns.

    >>> prefixed("option", {"order": 2})
    {'option_order': 2}
    """
    return {f"{prefix}_{name}": setting for name, setting in settings.items()}


def fill_columns(rows: Sequence[Row]) -> list[Row]:
    """The rows, each with all columns: first `KINDS`, then others by name; None for nothing."""
    names = set[str]().union(*rows) - KINDS.keys()  # such as those of a scorer's settings
    empty = dict.fromkeys([*KINDS, *sorted(names)])
    return [empty | row for row in rows]


def typed_columns(rows: Sequence[Row]) -> dict[str, Column]:
    """Typed columns of rows that `fill_columns` gave.

    A column that is not in `KINDS` has the kind of its values; where these are of several kinds,
    or of none, they become JSON texts.

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
    """The kind that holds all these values."""
    kinds = set(map(type, cells)) - {type(None)}  # not isinstance: True is no whole number here
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return kinds.pop()
    return float if kinds == {int, float} else str


def _cast(cell: object, kind: type) -> object:
    if cell is None or isinstance(cell, kind):
        return cell
    # A column of floats may hold whole numbers; any other mixture becomes texts.
    return float(str(cell)) if kind is float else json.dumps(cell)


def to_arrow(table: Columns) -> pyarrow.Table:
    """A pyarrow Table.

    Raises:
        InputError: pyarrow is not installed.
    """
    with answering(ImportError, "to_arrow", "pyarrow", "install it, or use rows()"):
        import pyarrow as pa
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    types[list] = pa.list_(pa.string())
    return pa.table({name: pa.array(c.cells, types[c.kind]) for name, c in table.items()})


def to_parquet(table: Columns) -> bytes:
    """A Parquet file; errors as in `to_arrow`."""
    arrow = to_arrow(table)
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(arrow, buffer)
    return buffer.getvalue()


def to_csv(table: Columns) -> str:
    """A CSV file: a list is JSON, what is None is empty."""
    csv_columns = []
    for column in table.values():
        cells = column.cells
        if column.kind is list:
            cells = [None if cell is None else json.dumps(cell) for cell in cells]
        # Most cells of a tidy table are numbers, and most texts are there many times.
        distinct = {cell: quote_formula(cell) for cell in set(cells)} if column.kind is str else {}
        csv_columns.append([distinct.get(cell, cell) for cell in cells])
    return write_csv([list(table), *zip(*csv_columns, strict=True)], ",")
