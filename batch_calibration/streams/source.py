"""Rows of Parquet files in batches of bounded size, checked as tables in memory are."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.arrays import LARGEST, to_nats
from batch_calibration.errors import InputError
from batch_calibration.importers.base import Imported, Reading, fill_missing
from batch_calibration.importers.cells import gold_indices, text_of
from batch_calibration.importers.columns import label_columns
from batch_calibration.importers.frames import arrow_columns, need_pyarrow
from batch_calibration.responses import refuse_constant

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 2**16
"""Rows of a batch."""
MOST_BYTES = 2**25
"""Bytes of a batch, by the mean size of a row, where rows hold long texts."""
MOST_CONTEXTS = 100_000
"""Combinations of the values of --by; each has a bias in memory."""


class Rows(NamedTuple):
    """A batch of rows that were kept.

    Attributes:
        table: all columns of the file.
        scores: float64[n, k], in nats.
        contexts: int[n], which context each row is of.
    """

    table: "pa.Table"
    scores: np.ndarray
    contexts: np.ndarray


@dataclass
class Source:
    """Parquet files of one schema.

    Attributes:
        files: their names, in order.
        schema: of each of them.
        labels: the columns of scores.
        total: rows in all files.
        reading: what is said of them.
        contexts: values of the by columns -> number of the context, as far as they were read.
    """

    files: list[Path]
    schema: "pa.Schema"
    labels: tuple[str, ...]
    total: int
    reading: Reading
    contexts: dict[tuple[str, ...], int]

    def rows(self, *, scores_alone: bool = False) -> Iterator[tuple[int, Rows]]:
        """Each batch, and how many rows were read up to its end.

        Args:
            scores_alone: leave out the columns that tell nothing of scores and contexts.

        Raises:
            InputError: probabilities; missing labels that `reading.missing` does not settle;
                scores that are no number or all equal; with file and row.
        """
        done, low, high = 0, np.inf, -np.inf
        names = list(dict.fromkeys((*self.labels, *self.reading.by)))
        for path in self.files:
            first = 0
            for table in _batches(path, names if scores_alone else None):
                rows = self._checked(table, path, first)
                first += table.num_rows
                if len(rows.scores):
                    low = min(low, float(rows.scores.min()))
                    high = max(high, float(rows.scores.max()))
                yield done + first, rows
            done += first
        if low == high:
            refuse_constant(np.full((done, len(self.labels)), low), str(self.files[0]))

    def _checked(self, table: "pa.Table", path: Path, first: int) -> Rows:
        """Rows of a file from number `first` on, without those that are dropped."""
        where = f"{path}, rows {first} to {first + table.num_rows - 1}"
        raw = np.stack([table[name].to_numpy() for name in self.labels], axis=1)
        scores = to_nats(raw.astype(np.float64), where, self.reading.from_probs)
        high = np.argwhere(scores > LARGEST)
        if len(high):
            row, label = high[0]
            raise InputError(
                f"{where}: the score of {self.labels[label]!r} in row {first + row} is "
                f"{scores[row, label]:g}, one such value decides the mean of its label; score that "
                "row again."
            )
        found = Imported(where, scores, self.labels)
        scores, kept, _ = fill_missing(found, self.reading, first)
        if not kept.all():
            table = table.filter(kept)
        return Rows(table, scores, self._contexts(table, where))

    def _contexts(self, table: "pa.Table", where: str) -> np.ndarray:
        """The number of each row's context."""
        if not self.reading.by:
            return np.zeros(table.num_rows, np.int64)
        codes, texts = [], []
        for name in self.reading.by:
            column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
            codes.append(column.indices.to_numpy())
            texts.append([text_of(one) for one in column.dictionary.to_pylist()])
        unique, of_row = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        numbers = []
        for one in unique:
            key = tuple(text[code] for text, code in zip(texts, one, strict=True))
            numbers.append(self.contexts.setdefault(key, len(self.contexts)))
        if len(self.contexts) > MOST_CONTEXTS:
            raise InputError(
                f"{where}: {', '.join(self.reading.by)} of --by has more than {MOST_CONTEXTS:,} "
                "values; name a column that tells contexts apart, such as a prompt."
            )
        return np.array(numbers, np.int64)[of_row.reshape(-1)]

    def gold(self, rows: Rows) -> np.ndarray | None:
        """The right label [n] of each row, -1 where unknown; None without a gold column."""
        if not self.reading.gold:
            return None
        column = rows.table[self.reading.gold].combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        where = f"{self.files[0].parent}, values of the column {self.reading.gold!r}"
        names = gold_indices(where, values, self.labels)
        return np.asarray(names[encoded.indices.to_numpy()])


def open_source(source: str | Path, reading: Reading) -> Source:
    """The Parquet files of a name, a folder or a pattern; a few rows of the first are looked at.

    Raises:
        InputError: pyarrow is not installed; no such files, or damaged ones; files of different
            columns; columns that are not plain.
    """
    need_pyarrow(str(source))
    from pyarrow import parquet, types

    files = _files(source)
    schema, total = None, 0
    for path in files:
        with sentences(path), parquet.ParquetFile(path) as file:
            total += file.metadata.num_rows
            schema = schema or file.schema_arrow
            if not file.schema_arrow.equals(schema):
                raise InputError(
                    where=path, expected=f"the columns of {files[0]} ({', '.join(schema.names)})",
                    got=f"others or of other types ({', '.join(file.schema_arrow.names)})",
                )  # fmt: skip
    first = next((batch for path in files for batch in _batches(path)), None)
    if first is None:
        raise InputError(where=source, expected="at least one row of scores", got="none")
    columns = arrow_columns(str(files[0]), first)
    labels = label_columns(str(files[0]), columns, reading)
    for name in labels:
        kind = first.schema.field(name).type
        if not (types.is_floating(kind) or types.is_integer(kind)):
            raise InputError(where=f"{files[0]}", expected=f"numbers in column {name!r}", got=kind)
    if len(labels) < 2:
        raise InputError(where=f"{files[0]}", expected="two labels or more", got=list(labels))
    scores = np.stack([np.asarray(columns[name], np.float64) for name in labels], axis=1)
    to_nats(scores, str(files[0]), reading.from_probs)
    # Few rows at the end may look like probabilities by chance.
    settled = replace(reading, from_probs=bool(reading.from_probs))
    return Source(files, first.schema, labels, total, settled, {})


def _files(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        found = sorted(one for one in path.rglob("*.parquet") if not one.name.startswith("."))
    else:
        found = [path] if path.is_file() else sorted(map(Path, glob.glob(str(source))))
    if not found:
        raise InputError(where=source, expected="Parquet files", got="none of this name")
    return found


def _batches(path: Path, columns: list[str] | None = None) -> "Iterator[pa.Table]":
    """A file's rows in batches, however large its row groups are."""
    import pyarrow as pa
    from pyarrow import parquet

    # With a buffer, and not read ahead, a column is read page by page.
    with sentences(path), parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
        metadata = file.metadata
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        fit = MOST_BYTES * metadata.num_rows // max(size, 1)
        for batch in file.iter_batches(min(max(fit, 1), MOST_ROWS), columns=columns):
            yield pa.Table.from_batches([batch])


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Answer in a sentence where a file cannot be read."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise InputError(f"{path}: no whole Parquet file, or no space left ({said}).") from error
