"""Rows of Parquet files in batches of bounded size, checked as tables in memory are."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.arrays import LARGEST, to_nats
from batch_calibration.errors import InputError
from batch_calibration.importers.base import (
    CONTEXT_NAMES,
    Imported,
    Reading,
    fill_missing,
    refuse_several,
)
from batch_calibration.importers.cells import gold_indices, text_of
from batch_calibration.importers.columns import label_columns
from batch_calibration.importers.frames import arrow_columns, need_pyarrow
from batch_calibration.responses import refuse_constant

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH_ROWS = 2**16
MAX_BATCH_BYTES = 2**25  # by the mean size of a row, where rows hold long texts
MAX_CONTEXTS = 100_000  # combinations of the values of --by; each has a bias in memory


class Rows(NamedTuple):
    """A batch of rows that were kept."""

    table: "pa.Table"  # all columns that were read
    scores: np.ndarray  # float64 [n, k], nats
    contexts: np.ndarray  # int [n], which context each row is of


@dataclass
class Source:
    """Parquet files of one schema."""

    files: list[Path]
    schema: "pa.Schema"
    labels: tuple[str, ...]  # the columns of scores
    total: int  # rows in all files
    reading: Reading
    contexts: dict[tuple[str, ...], int]  # values of the by columns, as far as read -> number
    notes: tuple[str, ...]  # on which columns hold scores
    # A column and the number of a context -> the model or task there, as far as read
    telling: dict[tuple[str, int], str] = field(default_factory=dict)

    def batches(self, *, scores_alone: bool = False) -> Iterator[tuple[int, Rows]]:
        """Each batch, and how many rows were read up to its end.

        With `scores_alone` the columns that tell nothing of scores and contexts are left out.

        Raises:
            InputError: probabilities; missing labels that `reading.missing` does not settle;
                scores that are no number or all equal; with file and row.
        """
        rows_read, low, high = 0, np.inf, -np.inf
        names = (*self.labels, *self.reading.by, *self._telling()) if scores_alone else None
        for path in self.files:
            first_row = 0
            for table in _read_batches(path, list(dict.fromkeys(names)) if names else None):
                rows = self._check(table, path, first_row)
                first_row += table.num_rows
                if len(rows.scores):
                    low = min(low, float(rows.scores.min()))
                    high = max(high, float(rows.scores.max()))
                yield rows_read + first_row, rows
            rows_read += first_row
        if low == high:
            refuse_constant(np.full((rows_read, len(self.labels)), low), str(self.files[0]))

    def _check(self, table: "pa.Table", path: Path, first_row: int) -> Rows:
        """Rows of a file from number `first_row` on, without those that are dropped."""
        where = f"{path}, rows {first_row} to {first_row + table.num_rows - 1}"
        raw = np.stack([table[name].to_numpy() for name in self.labels], axis=1)  # [n, k]
        scores = to_nats(raw.astype(np.float64), where, self.reading.from_probs)
        # NaN is no error here: it may be a missing label.
        too_high = np.argwhere(scores > LARGEST)
        if len(too_high):
            row, label = too_high[0]
            raise InputError(
                f"{where}: the score of {self.labels[label]!r} in row {first_row + row} is "
                f"{scores[row, label]:g}, one such value decides the mean of its label; score that "
                "row again."
            )
        file_rows = first_row + np.arange(len(scores))
        imported = Imported(where, scores, self.labels, file_rows=file_rows)
        scores, is_kept, _ = fill_missing(imported, self.reading)
        if not is_kept.all():
            table = table.filter(is_kept)
        contexts = self._number_contexts(table, where)
        self._refuse_several(table, contexts, where)
        return Rows(table, scores, contexts)

    def _telling(self) -> list[str]:
        """Columns that may tell models or tasks apart, and are nothing else."""
        read_names = {*self.labels, self.reading.gold, self.reading.ids, *self.reading.by}
        return [
            name
            for name in self.schema.names
            if name.lower() in CONTEXT_NAMES and name not in read_names
        ]

    def _refuse_several(self, table: "pa.Table", contexts: np.ndarray, where: str) -> None:
        """Refuse several models or tasks in one context, in this batch and those before it."""
        for name in self._telling():
            column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
            texts = list(map(text_of, column.dictionary.to_pylist()))
            pairs = np.stack([contexts, column.indices.to_numpy()], axis=1)
            for context, code in np.unique(pairs, axis=0).tolist():
                if texts[code]:
                    first = self.telling.setdefault((name, context), texts[code])
                    refuse_several(where, {name: (first, texts[code])}, self.reading)

    def _number_contexts(self, table: "pa.Table", where: str) -> np.ndarray:
        """The number of each row's context; contexts not met before are added."""
        if not self.reading.by:
            return np.zeros(table.num_rows, np.int64)
        codes, texts = [], []
        for name in self.reading.by:
            column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
            codes.append(column.indices.to_numpy())
            texts.append(list(map(text_of, column.dictionary.to_pylist())))
        # A batch has few different contexts, so that only these are looked up by their texts.
        unique, of_row = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        numbers = np.empty(len(unique), np.int64)
        for i, codes_of_context in enumerate(unique):
            key = tuple(text[code] for text, code in zip(texts, codes_of_context, strict=True))
            numbers[i] = self.contexts.setdefault(key, len(self.contexts))
        if len(self.contexts) > MAX_CONTEXTS:
            raise InputError(
                f"{where}: {', '.join(self.reading.by)} of --by has more than {MAX_CONTEXTS:,} "
                "values; name a column that tells contexts apart, such as a prompt."
            )
        return numbers[of_row.reshape(-1)]

    def gold(self, rows: Rows) -> np.ndarray | None:
        """The right label [n] of each row, -1 where unknown; None without a gold column."""
        if not self.reading.gold:
            return None
        column = rows.table[self.reading.gold].combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        where = f"{self.files[0].parent}, values of the column {self.reading.gold!r}"
        label_of_code = gold_indices(where, encoded.dictionary.to_pylist(), self.labels)
        return np.asarray(label_of_code[encoded.indices.to_numpy()])


def open_source(source: str | Path, reading: Reading) -> Source:
    """The Parquet files of a name, a folder or a pattern; a few rows of the first are looked at.

    Raises:
        InputError: pyarrow is not installed; no such files, or damaged ones; files of different
            columns; columns that are not plain.
    """
    need_pyarrow(str(source))
    from pyarrow import parquet, types

    files = _find_files(source)
    schema, total = None, 0
    for path in files:
        with parquet_errors(path), parquet.ParquetFile(path) as file:
            total += file.metadata.num_rows
            schema = schema or file.schema_arrow
            if not file.schema_arrow.equals(schema):
                raise InputError(
                    where=path,
                    expected=f"the columns of {files[0]} ({', '.join(schema.names)})",
                    got=f"others or of other types ({', '.join(file.schema_arrow.names)})",
                )
    first_batch = next((batch for path in files for batch in _read_batches(path)), None)
    if first_batch is None:
        raise InputError(where=source, expected="at least one row of scores", got="none")
    where = str(files[0])
    columns = arrow_columns(where, first_batch)
    labels, notes = label_columns(where, columns, reading)
    for name in labels:
        kind = first_batch.schema.field(name).type
        if not (types.is_floating(kind) or types.is_integer(kind)):
            raise InputError(where=where, expected=f"numbers in column {name!r}", got=kind)
    if len(labels) < 2:
        raise InputError(where=where, expected="two labels or more", got=list(labels))
    scores = np.stack([np.asarray(columns[name], np.float64) for name in labels], axis=1)
    to_nats(scores, where, reading.from_probs)
    # Decided by this batch: few rows at the end may look like probabilities by chance.
    reading = replace(reading, from_probs=bool(reading.from_probs))
    return Source(files, first_batch.schema, labels, total, reading, {}, notes)


def _find_files(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith("."))
    else:
        files = [path] if path.is_file() else sorted(map(Path, glob.glob(str(source))))
    if not files:
        raise InputError(where=source, expected="Parquet files", got="none of this name")
    return files


def _read_batches(path: Path, columns: list[str] | None = None) -> "Iterator[pa.Table]":
    """A file's rows in batches, however large its row groups are."""
    import pyarrow as pa
    from pyarrow import parquet

    # With a buffer, and not read ahead, a column is read page by page.
    with parquet_errors(path), parquet.ParquetFile(
        path, buffer_size=2**20, pre_buffer=False
    ) as file:  # fmt: skip
        metadata = file.metadata
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        # As many rows as fit by their mean size.
        rows_that_fit = MAX_BATCH_BYTES * metadata.num_rows // max(size, 1)
        batch_rows = min(max(rows_that_fit, 1), MAX_BATCH_ROWS)
        for batch in file.iter_batches(batch_rows, columns=columns):
            yield pa.Table.from_batches([batch])


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Answer in a sentence where a file cannot be read or written."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        cause = str(error).partition("\n")[0]
        raise InputError(f"{path}: no whole Parquet file, or no space left ({cause}).") from error
