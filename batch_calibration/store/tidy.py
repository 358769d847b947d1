"""The tidy table of results: its columns and their types; as pandas, Arrow, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.settings import keys

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, object]

ALWAYS = ("data", "split", "limit", "shots", "demonstrations")
"""Settings that a context names whatever they are."""
OPTIONS: dict[str, type] = {
    f"option_{name}": int if key.kind is int else str
    for name, key in keys().items()
    if key.part in ("data", "prompt") and name not in ALWAYS
}
KINDS: dict[str, type] = {
    "id": str, "model": str, "data": str, "task": str, "shots": int, "seed": int,
    "method": str, "metric": str, "value": float, "low": float, "high": float,
    "rows": int, "split": str, "served": str, "limit": int, "floor": float, **OPTIONS,
    "scorer": str, "scorer_digest": str, "label_names": list, "template": str,
    "demonstrations": list,
}  # fmt: skip
"""Columns that every table has, and what stands in each; `list` is one of texts."""
PANDAS = {str: "string", int: "Int64", float: "float64", bool: "boolean", list: "object"}
"""The dtype of each kind: a column of whole numbers stays one where some are unknown."""


class Column(NamedTuple):
    """One column.

    Attributes:
        kind: `str`, `int`, `float`, `bool`, or `list` for lists of texts.
        values: one for each row, None where there is none.
    """

    kind: type
    values: list[object]


Columns = Mapping[str, Column]


def named(what: str, given: Mapping[str, object]) -> Row:
    """Settings as columns.

    >>> named("option", {"order": 2})
    {'option_order': 2}
    """
    return {f"{what}_{name}": value for name, value in given.items()}


def filled(rows: Iterable[Row]) -> list[Row]:
    """The rows, each with all columns: those of `KINDS`, then others by name; None for nothing."""
    some = list(rows)
    others = {name for row in some for name in row} - KINDS.keys()
    empty = dict.fromkeys([*KINDS, *sorted(others)])
    return [empty | row for row in some]


def columns(rows: Sequence[Row]) -> dict[str, Column]:
    """Typed columns of rows that `filled` gave.

    A column that is not in `KINDS` has the kind of its values; where these are of several kinds,
    or of none, they become JSON texts.

    >>> columns(filled([{"seed": 1, "method_floor": 1}, {"method_floor": 0.5}]))["method_floor"]
    Column(kind=<class 'float'>, values=[1.0, 0.5])
    """
    found = {}
    for name in rows[0] if rows else KINDS:
        values = [row[name] for row in rows]
        kind = KINDS.get(name) or _kind(values)
        found[name] = Column(kind, [_cast(value, kind) for value in values])
    return found


def _kind(values: Iterable[object]) -> type:
    """The kind that holds all these values."""
    seen = {type(value) for value in values if value is not None}
    if len(seen) == 1 and seen <= {str, int, float, bool}:
        return seen.pop()
    return float if seen == {int, float} else str


def _cast(value: object, kind: type) -> object:
    if value is None or isinstance(value, kind):
        return value
    return float(str(value)) if kind is float else json.dumps(value)


def to_pandas(table: Columns) -> pandas.DataFrame:
    """A pandas DataFrame.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise InputError("to_pandas needs pandas; install it, or use rows().") from error
    return pandas.DataFrame(
        {name: pandas.Series(of.values, dtype=PANDAS[of.kind]) for name, of in table.items()}
    )


def to_arrow(table: Columns) -> pyarrow.Table:
    """A pyarrow Table.

    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError("to_arrow needs pyarrow; install it, or use rows().") from error
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    kinds[list] = pa.list_(pa.string())
    return pa.table({name: pa.array(of.values, kinds[of.kind]) for name, of in table.items()})


def to_parquet(table: Columns) -> bytes:
    """A Parquet file; errors as in `to_arrow`."""
    made = to_arrow(table)
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(made, out)
    return out.getvalue()


def to_csv(table: Columns) -> str:
    """A CSV file: a list is JSON, what is None is empty."""
    values = [
        [json.dumps(x) if x is not None else x for x in of.values] if of.kind is list else of.values
        for of in table.values()
    ]
    return csv_text([list(table), *zip(*values, strict=True)])


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV; a text that a spreadsheet would take for a formula is quoted with `'`."""

    def text(cell: object) -> object:
        formula = isinstance(cell, str) and cell[:1] in tuple("=+-@\t\r")
        number = formula and re.fullmatch(r"[+-][\d.e+-]*( ± [\d.]+| \[[^=@]*\]\*?)?", str(cell))
        return f"'{cell}" if formula and not number else cell

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([text(cell) for cell in row] for row in rows)
    return out.getvalue()
