"""Rows of Parquet files in batches of bounded size, checked as tables in memory are."""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.arrays import LARGEST, keep_differences, to_nats
from batch_calibration.errors import InputError
from batch_calibration.importers.base import CONTEXT_NAMES, Imported, Reading
from batch_calibration.importers.cells import gold_indices, text_of
from batch_calibration.importers.columns import label_columns
from batch_calibration.importers.frames import arrow_columns, arrow_errors, need_pyarrow
from batch_calibration.importers.score_columns import recognize_gold
from batch_calibration.importers.tables import Gaps, fill_missing

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH_ROWS = 2**16
MAX_BATCH_BYTES = 2**25  # by the mean size of a row, where rows hold long texts
KIND_ROWS = 1000  # of the first batch; with them each batch tells what kind of numbers it holds
MAX_CONTEXTS = 100_000  # each has a bias in memory


class Rows(NamedTuple):
    """A batch of rows that were kept."""

    table: "pa.Table"  # all columns that were read
    scores: np.ndarray  # float64 [n, k], nats
    contexts: np.ndarray  # int [n], which context each row is of
    file: str  # what tells its file apart, "" where all files are one context


@dataclass
class Source:
    """Parquet files of one schema."""

    files: dict[Path, str]  # file -> what tells its contexts apart, "" where all are one
    schema: "pa.Schema"
    labels: tuple[str, ...]  # the columns of scores
    total: int  # rows in all files
    reading: Reading
    notes: tuple[str, ...]  # on which columns hold scores
    first_scores: np.ndarray  # as they came, [`KIND_ROWS` at most, k]
    # Its file and the values of its by columns -> number of a context, as far as read.
    contexts: dict[tuple[str, ...], int] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=Gaps)  # of the rows read in the last pass

    @property
    def is_by_file(self) -> bool:
        """Whether each of several files is a context of its own."""
        return any(self.files.values())

    @property
    def telling(self) -> list[str]:
        """Columns that may tell models or tasks apart, and are nothing else."""
        named = {*self.labels, self.reading.gold, self.reading.ids, *self.reading.by}
        return [n for n in self.schema.names if n.lower() in CONTEXT_NAMES and n not in named]

    def batches(self, *, scores_alone: bool = False) -> Iterator[tuple[int, Rows]]:
        """Each batch, and how many rows were read up to its end.

        With `scores_alone` the columns that tell nothing of scores and contexts are left out.
        """
        rows_read, reading = 0, self.reading
        learned_from = [*self.labels, *reading.by, *self.telling, *filter(None, [reading.ids])]
        names = list(dict.fromkeys(learned_from)) if scores_alone else None
        self.gaps = Gaps()
        for path in self.files:
            first_row = 0
            for table in _read_batches(path, names):
                yield rows_read + first_row + table.num_rows, self._check(table, path, first_row)
                first_row += table.num_rows
            rows_read += first_row

    def _check(self, table: "pa.Table", path: Path, first_row: int) -> Rows:
        """Rows of a file from number `first_row` on, without those that are dropped."""
        where = f"{path}, rows {first_row} to {first_row + table.num_rows - 1}"
        columns = arrow_columns(where, table.select(self.labels))
        scores = np.stack([np.asarray(columns[name], np.float64) for name in self.labels], axis=1)
        if self.reading.from_probs is None:
            # Few rows at the end may look like probabilities by chance; the first ones tell.
            where_both = f"{where}, and after these the first of {next(iter(self.files))}"
            to_nats(np.concatenate([scores, self.first_scores]), where_both, names=self.labels)
        else:
            scores = to_nats(scores, where, self.reading.from_probs)
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
        scores, is_kept, gaps = fill_missing(imported, self.reading)
        self.gaps = self.gaps.plus(gaps)
        table = table if is_kept.all() else table.filter(is_kept)
        scores = keep_differences(scores)
        return Rows(table, scores, self._number_contexts(table, path), self.files[path])

    def _number_contexts(self, table: "pa.Table", path: Path) -> np.ndarray:
        """The number of each row's context; contexts not met before are added."""
        codes, keys = np.zeros(table.num_rows, np.int64), [(self.files[path],)]
        for name in self.reading.by:
            codes_of_column, cells = encode(table[name])
            # A batch has few different contexts, so that only these are looked up by their texts.
            pairs, codes = np.unique(codes * len(cells) + codes_of_column, return_inverse=True)
            split = [divmod(pair, len(cells)) for pair in pairs.tolist()]
            keys = [(*keys[first], text_of(cells[last])) for first, last in split]
        numbers = [self.contexts.setdefault(key, len(self.contexts)) for key in keys]
        if len(self.contexts) > MAX_CONTEXTS:
            raise InputError(
                f"{path}: {', '.join(self.reading.by)} of --by has more than {MAX_CONTEXTS:,} "
                "values; name a column that tells contexts apart, such as a prompt."
            )
        return np.array(numbers, np.int64)[codes]

    def gold(self, rows: Rows) -> np.ndarray | None:
        """The right label [n] of each row, -1 where unknown; None without a gold column."""
        if not self.reading.gold:
            return None
        codes, cells = encode(rows.table[self.reading.gold])
        where = f"{next(iter(self.files)).parent}, values of the column {self.reading.gold!r}"
        return np.asarray(gold_indices(where, cells, self.labels)[codes])


def encode(column: "pa.ChunkedArray") -> tuple[np.ndarray, list[object]]:
    """Which of its different cells stands in each row [n] of a column, and these."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):  # whose nulls have no code
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def open_source(
    source: str | Path | Sequence[Path], reading: Reading, *, by_file: bool = False
) -> Source:
    """The Parquet files of a name, a folder or a pattern; a few rows of the first are looked at."""
    files = find_files(source)
    need_pyarrow(str(files[0]))
    from pyarrow import parquet

    schema, total, first_batch = None, 0, None
    for path in files:
        with arrow_errors(path), parquet.ParquetFile(path) as file:
            total += file.metadata.num_rows
            schema = schema or file.schema_arrow
            if not file.schema_arrow.equals(schema):
                raise InputError(
                    where=path,
                    expected=f"the columns of {files[0]} ({', '.join(schema.names)})",
                    got=f"others or of other types ({', '.join(file.schema_arrow.names)})",
                )
        first_batch = first_batch or next(_read_batches(path), None)
    if first_batch is None:
        raise InputError(where=files[0], expected="at least one row of scores", got="none")
    where = str(files[0])
    columns = arrow_columns(where, first_batch)
    reading, gold_notes = recognize_gold(columns, reading)
    labels, notes = label_columns(where, columns, reading)
    for name in labels:
        if not isinstance(columns[name], np.ndarray):  # as columns of numbers are
            kind = first_batch.schema.field(name).type
            raise InputError(where=where, expected=f"numbers in column {name!r}", got=kind)
    if len(labels) < 2:
        raise InputError(where=where, expected="two labels or more", got=list(labels))
    scores = np.stack([np.asarray(columns[name], np.float64) for name in labels], axis=1)
    to_nats(scores, where, reading.from_probs, names=labels)
    stems = [path.stem for path in files]
    names = dict.fromkeys(files, "")
    if by_file and len(files) > 1:
        for path in files:
            names[path] = path.stem if stems.count(path.stem) == 1 else str(path)
    return Source(
        names, first_batch.schema, labels, total, reading, (*notes, *gold_notes), scores[:KIND_ROWS]
    )


def count_rows(files: Sequence[Path]) -> int:
    """The rows of Parquet files, by their metadata alone."""
    need_pyarrow(str(files[0]))
    from pyarrow import parquet

    total = 0
    for path in files:
        with arrow_errors(path):
            total += parquet.read_metadata(path).num_rows
    return total


def find_files(source: str | Path | Sequence[Path]) -> list[Path]:
    """The Parquet files of a name, a folder or a pattern."""
    if not isinstance(source, str | Path):
        return list(source)
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
    with arrow_errors(path), parquet.ParquetFile(
        path, buffer_size=2**20, pre_buffer=False
    ) as file:  # fmt: skip
        metadata = file.metadata
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        # As many rows as fit by their mean size.
        rows_that_fit = MAX_BATCH_BYTES * metadata.num_rows // max(size, 1)
        batch_rows = min(max(rows_that_fit, 1), MAX_BATCH_ROWS)
        for batch in file.iter_batches(batch_rows, columns=columns):
            yield pa.Table.from_batches([batch])
