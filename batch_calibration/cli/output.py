"""Writes scores row by row: CSV, TSV, JSON Lines, Parquet, npz; each file whole or not at all."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from batch_calibration.scores import ScoreTable

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")
ABOUT = ("task", "model")
"""What of a context stands in each row, where there are several contexts."""

Row = dict[str, object]


class Scored(NamedTuple):
    """A context, and the scores [n, k] of its test rows that are written."""

    table: ScoreTable
    scores: np.ndarray


def check_output(output: str, others: Sequence[str] = ()) -> None:
    """Refuse an ending that nothing is written as."""
    known = (*ENDINGS, *others)
    if output and output != "-" and Path(output).suffix not in known:
        raise InputError(
            where=output,
            expected=f"a file that ends in {', '.join(known)}",
            remedy="name the output so",
        )


def rows(found: Sequence[Scored]) -> Iterator[Row]:
    """Each row: its id, its scores by label, the prediction, the right label where any is known."""
    about = ABOUT if len(found) > 1 else ()
    gold = any((one.table.blocks["test"].labels >= 0).any() for one in found)
    for one in found:
        names, block = one.table.label_names, one.table.blocks["test"]
        context: Row = {key: one.table.context.get(key, "") for key in about}
        for row, values, right in zip(block.row_ids, one.scores, block.labels, strict=True):
            said: Row = {**context, "row": row}
            said |= dict(zip(names, map(float, values), strict=True))
            said["prediction"] = names[int(values.argmax())]
            yield said | ({"gold": names[right] if right >= 0 else ""} if gold else {})


def write(found: Sequence[Scored], output: str) -> None:
    """Write the scores of some contexts into a file, or to standard output as CSV.

    Raises:
        InputError: an ending that is none of `ENDINGS`; contexts of other labels; no pyarrow.
    """
    check_output(output)
    labels = {one.table.label_names for one in found}
    ending = Path(output).suffix
    if len(labels) > 1 and ending != ".jsonl":
        raise InputError(
            f"{output}: the contexts have {len(labels)} sets of labels, which one table cannot "
            "hold; write a .jsonl file, or each file of scores by itself."
        )
    every = list(rows(found))
    if output == "-":
        sys.stdout.write(_delimited(every, ","))
    elif ending == ".npz":
        write_whole(Path(output), _npz(found))
    elif ending == ".parquet":
        write_whole(Path(output), _parquet(every))
    else:
        text = (
            _lines(every)
            if ending == ".jsonl"
            else _delimited(every, "\t" if ending == ".tsv" else ",")
        )
        write_whole(Path(output), text.encode(errors="backslashreplace"))


def _delimited(every: Sequence[Row], delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, every[0], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _short(v) for k, v in row.items()} for row in every)
    return out.getvalue()


def _short(value: object) -> object:
    """A float32 in as few digits as tell it apart."""
    return str(np.float32(value)) if isinstance(value, float) else value


def _lines(every: Sequence[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in every)


def _parquet(every: Sequence[Row]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "a .parquet file needs pyarrow; install batch-calibration[tables], or write .csv."
        ) from error
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(every)), out)
    return out.getvalue()


def _npz(found: Sequence[Scored]) -> bytes:
    blocks = [one.table.blocks["test"] for one in found]
    arrays: dict[str, Any] = {
        "scores": np.concatenate([one.scores for one in found]),
        "labels": np.array(found[0].table.label_names),
        "gold": np.concatenate([block.labels for block in blocks]),
        "row": np.array([row for block in blocks for row in block.row_ids]),
        **{
            key: np.repeat(
                [str(one.table.context.get(key, "")) for one in found],
                [len(block.row_ids) for block in blocks],
            )
            for key in ABOUT
        },
    }
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()
