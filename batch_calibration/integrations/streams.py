"""Corrects Parquet files of any size: one pass learns the bias, another removes it."""

import glob
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays.alignment import in_label_order
from batch_calibration.arrays.missing_scores import LARGEST, Lowest, find_lowest
from batch_calibration.arrays.score_scale import keep_differences, to_nats
from batch_calibration.calibration.base import predict
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.calibration.temperature import check_temperature
from batch_calibration.errors import InputError, spell
from batch_calibration.files import whole_file
from batch_calibration.files.rows import arrow_errors, need_pyarrow
from batch_calibration.importers.base import CONTEXT_NAMES, Imported, Reading
from batch_calibration.importers.cells import text_of, texts_of
from batch_calibration.importers.columns import columns_of_labels, refuse_repeated_ids
from batch_calibration.importers.frames import arrow_columns, names_of_classes
from batch_calibration.importers.gold import ClassIndices, check_gold, read_gold, recognize_gold
from batch_calibration.importers.tables import Gaps, fill_labels, refuse_several
from batch_calibration.methods import METHODS, check_options, check_scores, warn_of_few_rows
from batch_calibration.responses.servers import refuse_constant
from batch_calibration.scores import PROBABILITY

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH_ROWS = 2**16
MAX_BATCH_BYTES = 2**25  # estimated from the mean size of a row, for rows with long texts
KIND_ROWS = 1000  # rows of the first batch that help to recognize the kind of every batch's numbers
MAX_CONTEXTS = 100_000  # Each has a bias in memory.


class RowBatch(NamedTuple):
    """A batch of rows, without dropped rows."""

    table: "pa.Table"  # all columns that were read
    scores: np.ndarray  # float64 [n, k], nats
    contexts: np.ndarray  # int [n], number of each row's context
    file: str  # name of the file as a context, "" if all files are one context


@dataclass
class Source:
    """Parquet files with one schema."""

    files: dict[Path, str]  # file -> its name as a context, "" if all files are one context
    schema: "pa.Schema"
    labels: tuple[str, ...]  # the columns of scores
    total: int  # rows in all files
    reading: Reading
    notes: tuple[str, ...]  # on which columns hold scores
    first_scores: np.ndarray  # unconverted, [`KIND_ROWS` at most, k]
    # Name of the file and values of the `by` columns -> number of the context, for the rows read
    contexts: dict[tuple[str, ...], int] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=Gaps)  # missing labels of the rows read in the last pass
    filler: float = -np.inf  # the number in place of scores that were not returned

    @property
    def is_by_file(self) -> bool:
        """True if each of several files is a separate context."""
        return any(self.files.values())

    @property
    def telling(self) -> list[str]:
        """Columns without another role that may name models or tasks."""
        named = {*self.labels, self.reading.gold, self.reading.ids, *self.reading.by}
        return [n for n in self.schema.names if n.lower() in CONTEXT_NAMES and n not in named]

    def batches(self, *, scores_alone: bool = False) -> Iterator[tuple[int, RowBatch]]:
        """Yields each batch with the number of rows read up to its end.

        With `scores_alone`, only the columns that determine scores and contexts are read.
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

    def _check(self, table: "pa.Table", path: Path, first_row: int) -> RowBatch:
        """Checks and converts the rows of a file from `first_row` on, and drops rows."""
        where = f"{path}, rows {first_row} to {first_row + table.num_rows - 1}"
        columns = arrow_columns(where, table.select(self.labels))
        scores = np.stack([np.asarray(columns[name], np.float64) for name in self.labels], axis=1)
        if self.reading.from_probs is None:
            # A few last rows may look like probabilities by chance; the first rows prevent this.
            where_both = f"{where}, followed by the first rows of {next(iter(self.files))}"
            to_nats(np.concatenate([scores, self.first_scores]), where_both, names=self.labels)
        else:
            scores = to_nats(scores, where, self.reading.from_probs)
        # NaN is not an error here, because it may be a missing label.
        too_high = np.argwhere(scores > LARGEST)
        if len(too_high):
            row, label = too_high[0]
            got = f"{scores[row, label]:g} of {self.labels[label]!r} in row {first_row + row}"
            raise InputError.at(where, "finite log-probabilities", got, "score that row again")
        file_rows = first_row + np.arange(len(scores))
        imported = Imported(where, scores, self.labels, file_rows=file_rows, filler=self.filler)
        scores, is_kept, gaps = fill_labels(imported, self.reading)
        self.gaps = self.gaps.plus(gaps)
        table = table if is_kept.all() else table.filter(is_kept)
        scores = keep_differences(scores)
        return RowBatch(table, scores, self._number_contexts(table, path), self.files[path])

    def _number_contexts(self, table: "pa.Table", path: Path) -> np.ndarray:
        """Returns the number of each row's context, and adds new contexts."""
        codes, keys = np.zeros(table.num_rows, np.int64), [(self.files[path],)]
        for name in self.reading.by:
            codes_of_column, cells = encode_cells(table[name])
            # A batch has few different contexts, so only these are looked up by their texts.
            pairs, codes = np.unique(codes * len(cells) + codes_of_column, return_inverse=True)
            split = [divmod(pair, len(cells)) for pair in pairs.tolist()]
            keys = [(*keys[first], text_of(cells[last])) for first, last in split]
        numbers = [self.contexts.setdefault(key, len(self.contexts)) for key in keys]
        if len(self.contexts) > MAX_CONTEXTS:
            expected = f"at most {MAX_CONTEXTS:,} values of {', '.join(self.reading.by)}"
            remedy = f"name a column of contexts in {spell('by')}, such as a prompt"
            raise InputError.at(path, expected, "more", remedy)
        return np.array(numbers, np.int64)[codes]

    def gold(self, rows: RowBatch) -> np.ndarray | None:
        """Returns the gold label [n] of each row, -1 if unknown; None without a gold column."""
        if not self.reading.gold:
            return None
        codes, cells = encode_cells(rows.table[self.reading.gold])
        where = f"{next(iter(self.files)).parent}, values of the column {self.reading.gold!r}"
        column = ClassIndices(cells, names_of_classes(self.schema).get(self.reading.gold, ()))
        gold, *_ = read_gold(where, column, self.labels, self.reading.gold_names)
        return np.asarray(gold[codes])


def encode_cells(column: "pa.ChunkedArray") -> tuple[np.ndarray, list[object]]:
    """Encodes a column as the index [n] of each row's cell in a list of the distinct cells."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):  # A dictionary column has no code for null.
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def open_source(
    source: str | Path | Sequence[Path], reading: Reading, *, by_file: bool = False
) -> Source:
    """Opens the Parquet files of a name, a folder or a pattern, and reads the first batch."""
    files = find_files(source)
    need_pyarrow(str(files[0]))
    from pyarrow import parquet

    schema, first_batch = None, None
    for path in files:
        with arrow_errors(path):
            own_schema = parquet.read_schema(path)
        schema = schema or own_schema
        if not own_schema.equals(schema):
            got = f"other columns or types ({', '.join(own_schema.names)})"
            raise InputError.at(path, f"the columns of {files[0]} ({', '.join(schema.names)})", got)
        first_batch = first_batch or next(_read_batches(path), None)
    if first_batch is None:
        raise InputError.at(files[0], "at least one row of scores", "none")
    where = str(files[0])
    columns = arrow_columns(where, first_batch)
    reading, gold_notes = recognize_gold(columns, reading)
    labels, notes = columns_of_labels(where, columns, reading)
    for name in labels:
        if not isinstance(columns[name], np.ndarray):  # Columns of numbers are arrays.
            kind = first_batch.schema.field(name).type
            raise InputError.at(where, f"numbers in column {name!r}", kind)
    if len(labels) < 2:
        raise InputError.at(where, "two labels or more", list(labels))
    scores = np.stack([np.asarray(columns[name], np.float64) for name in labels], axis=1)
    nats = to_nats(scores, where, reading.from_probs, names=labels)
    if reading.gold:
        column, is_whole = columns[reading.gold], np.isfinite(nats).all(axis=1)
        gold, order, read_as = read_gold(where, column, labels, reading.gold_names)
        rows = Imported(where, nats, labels, index_names=order)
        notes += read_as + check_gold(rows, nats[is_whole], gold[is_whole], reading)
    stems = [path.stem for path in files]
    names = dict.fromkeys(files, "")
    if by_file and len(files) > 1:
        for path in files:
            names[path] = path.stem if stems.count(path.stem) == 1 else str(path)
    notes, total = (*notes, *gold_notes), count_rows(files)
    opened = Source(names, first_batch.schema, labels, total, reading, notes, scores[:KIND_ROWS])
    opened.filler = _find_filler(opened)
    if not reading.by and not opened.telling:  # Ids repeat in the first rows if they ever do.
        others = [name for name in columns if name not in (*labels, reading.gold)]
        refuse_repeated_ids(where, {name: texts_of(columns[name]) for name in others})
    return opened


def _find_filler(source: Source) -> float:
    """Reads all scores to find the number in place of missing ones (`Lowest.filler`)."""
    lowest = Lowest()
    for path in source.files:
        for table in _read_batches(path, list(source.labels)):
            columns = [np.asarray(table[name].to_numpy(), np.float64) for name in source.labels]
            scores = np.stack(columns, axis=1)
            if source.reading.from_probs:
                with np.errstate(divide="ignore", invalid="ignore"):
                    scores = np.log(scores)
            lowest = lowest.plus(find_lowest(scores))
    return lowest.filler


def count_rows(files: Sequence[Path]) -> int:
    """Counts the rows of Parquet files from their metadata."""
    need_pyarrow(str(files[0]))
    from pyarrow import parquet

    total = 0
    for path in files:
        with arrow_errors(path):
            total += parquet.read_metadata(path).num_rows
    return total


def find_files(source: str | Path | Sequence[Path]) -> list[Path]:
    """Finds the Parquet files of a name, a folder or a pattern."""
    if not isinstance(source, str | Path):
        return list(source)
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith("."))
    else:
        files = [path] if path.is_file() else sorted(map(Path, glob.glob(str(source))))
    if not files:
        raise InputError.at(source, "Parquet files", "none with this name")
    return files


def _read_batches(path: Path, columns: list[str] | None = None) -> "Iterator[pa.Table]":
    """Yields the rows of a file in batches that do not depend on its row groups."""
    import pyarrow as pa
    from pyarrow import parquet

    # With a buffer and without reading ahead, pyarrow reads a column page by page.
    options = {"buffer_size": 2**20, "pre_buffer": False}
    with arrow_errors(path), parquet.ParquetFile(path, **options) as file:
        metadata = file.metadata
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        # The mean size of a row determines how many rows fit.
        rows_that_fit = MAX_BATCH_BYTES * metadata.num_rows // max(size, 1)
        batch_rows = min(max(rows_that_fit, 1), MAX_BATCH_ROWS)
        for batch in file.iter_batches(batch_rows, columns=columns):
            yield pa.Table.from_batches([batch])


PREDICTION = "prediction"  # column of the label with the largest corrected score
CONFIDENCE = "confidence"  # column of the probability of this label
FILE = "task"
"""Column of a row's file, if each file is a context; `task_` if another column has this name."""
MAX_IDS = 50_000_000  # maximum number of rows with compared ids, each of 8 bytes


class Learned:
    """Sums, extremes and ids of the rows of each context, collected batch by batch."""

    def __init__(self, source: Source):
        k, ids = len(source.labels), source.reading.ids
        self.where = str(next(iter(source.files)))
        self.counts, self.sums = np.zeros(0), np.zeros((0, k))  # [contexts], [contexts, k]
        # [contexts, 2], the smallest score and the negative of the largest score
        self._extremes = np.zeros((0, 2))
        self._source = source
        self._hashes = np.zeros(source.total if ids else 0, np.int64)
        self._rows = 0
        # Name of a column and number of a context -> the model or task in them
        self._told: dict[tuple[str, int], str] = {}
        if ids and source.total > MAX_IDS:
            expected = f"at most {MAX_IDS:,} rows to compare their ids"
            remedy = f"leave {spell('ids')} out: all columns of the files are written anyway"
            raise InputError.at("", expected, f"{source.total:,}", remedy, "ids")

    def add(self, rows: RowBatch) -> None:
        """Adds the rows of a batch to the sums, extremes and ids."""
        number, context, scores = len(self._source.contexts), rows.contexts, rows.scores
        # A batch may contain new contexts.
        more = (0, number - len(self.counts)), (0, 0)
        self.counts = np.pad(self.counts, more[0]) + np.bincount(context, minlength=number)
        self.sums = np.pad(self.sums, more)
        for label in range(self.sums.shape[1]):
            # bincount adds in float64; float32 sums of many rows lose digits.
            self.sums[:, label] += np.bincount(context, scores[:, label], minlength=number)
        self._extremes = np.pad(self._extremes, more, constant_values=np.inf)
        ends = np.stack([scores.min(axis=1), -scores.max(axis=1)], axis=1)
        np.minimum.at(self._extremes, context, ends)
        self._refuse_several(rows)
        if column := self._source.reading.ids:
            codes, cells = encode_cells(rows.table[column])
            texts = [text_of(cell) for cell in cells]
            # Rows of different contexts may share an id.
            keys = zip(context.tolist(), (texts[code] for code in codes), strict=True)
            self._hashes[self._rows : self._rows + len(codes)] = list(map(hash, keys))
            self._rows += len(codes)

    def _refuse_several(self, rows: RowBatch) -> None:
        """Raises if one context has several models or tasks, in this batch and earlier ones."""
        for name in self._source.telling:
            codes, cells = encode_cells(rows.table[name])
            for pair in np.unique(rows.contexts * len(cells) + codes).tolist():
                context, code = divmod(pair, len(cells))
                if text := text_of(cells[code]):
                    first = self._told.setdefault((name, context), text)
                    refuse_several(self.where, {name: (first, text)}, self._source.reading)

    def check(self) -> None:
        """Raises on a context without rows or with equal scores, and on repeated ids."""
        if self._source.reading.missing != "drop":
            self._source.gaps.refuse_single(self.where)
        for key, context in self._source.contexts.items():
            where = ", ".join(filter(None, key)) or self.where
            if not self.counts[context]:
                raise self._source.gaps.no_rows(where)
            low, high = self._extremes[context] * (1, -1)
            if self.counts[context] > 1 and low == high:
                refuse_constant(np.full((2, 2), low), where)
        hashes = self._hashes[: self._rows]
        hashes.sort()
        if repeated := int((hashes[1:] == hashes[:-1]).sum()):
            at = f"{self.where}, column {self._source.reading.ids!r}"
            expected = "a different id for each row of a context"
            got = f"{repeated:,} rows with a repeated id"
            raise InputError.at(at, expected, got, f"keep one of them, or leave {spell('ids')} out")


StreamProgress = Callable[[int, int, float], None]
"""Function of the finished rows of all passes, the rows to do, and the rows per second."""


class Streamed(NamedTuple):
    """The results of correcting a stream.

    Attributes:
        rows: number of rows written.
        left_out: number of rows that were dropped because of missing labels.
        label_names: k names.
        bias: context -> the removed bias [k], in nats; a single context has the name "".
        before: share of the rows [k] with each label predicted before the correction.
        after: share of the rows [k] with each label predicted after the correction.
        changed: number of rows with a changed prediction.
        accuracy: accuracy before and after the correction, if gold labels are known.
        notes: remarks that qualify the numbers, in sentences.
    """

    rows: int
    left_out: int
    label_names: tuple[str, ...]
    bias: dict[str, np.ndarray]
    before: np.ndarray
    after: np.ndarray
    changed: int
    accuracy: tuple[float, float] | None
    notes: tuple[str, ...] = ()


def correct_stream(
    source: str | Path | Sequence[Path],
    target: str | Path,
    reading: Reading | None = None,
    *,
    bias: Sequence[float] | Mapping[str, float] | None = None,
    strength: float = 1.0,
    target_prior: Sequence[float] | Mapping[str, float] | None = None,
    temperature: float = 1.0,
    by_file: bool = False,
    progress: StreamProgress | None = None,
) -> Streamed:
    """Applies BC to Parquet files of any size: s_ij - gamma b_j, b_j the mean over a context.

    The first pass sums the scores in float64. The second pass subtracts the mean and writes all
    columns under their old names, with corrected scores, and new columns: the probability of each
    label, `confidence` and `prediction`. Only one batch is in memory at a time.

    Args:
        source: a Parquet file, a folder, a pattern such as "scores/*.parquet", or a list of files.
        target: the Parquet file to write; it is written completely or not at all.
        reading: description of the columns; the columns `by` identify contexts.
        bias: [k] in nats, in order or by name, learned elsewhere, for instance the mean over
            content-free rows (CC); the rows are then read only once.
        strength: gamma.
        target_prior: expected share of each of the k labels, in order or by name.
        temperature: divides the corrected scores, see `calibrate`.
        by_file: makes each file a separate context, named in a new column `task`, instead of a part
            of one data set.
        progress: called after each batch.

    Raises:
        InputError: the errors of a table in memory, with file and row; a `target` that is one of
            the input files.
    """
    opened = open_source(source, reading or Reading(), by_file=by_file)
    target = Path(target)
    _check_target(target, opened)
    prior = in_label_order(target_prior, opened.labels, "target_prior")
    bias = in_label_order(bias, opened.labels, "bias", absent=None)
    options = {"strength": strength, "target_prior": prior}
    check_options("bc", METHODS["bc"].factory, options, len(opened.labels))
    learned = Learned(opened)
    start = time.monotonic()
    total = opened.total * (1 if bias is not None else 2)

    def read_rows(rows_before: int, *, scores_alone: bool = False) -> Iterator[RowBatch]:
        """Yields the batches of a pass after another pass with `rows_before` rows."""
        for rows_read, rows in opened.batches(scores_alone=scores_alone):
            if not rows_before:
                learned.add(rows)
            yield rows
            if progress:
                done = rows_before + rows_read
                progress(done, total, done / max(time.monotonic() - start, 1e-9))  # not 0 seconds
        if not rows_before:
            learned.check()

    if bias is None:
        for _ in read_rows(0, scores_alone=True):
            pass
        means, rows_before = learned.sums / learned.counts[:, None], opened.total  # in float64
        warn_of_few_rows("bc", ("test",), int(learned.counts.min()), learned.where)
    else:
        means = check_scores([list(bias)], "bias", labels=len(opened.labels))
        rows_before = 0
    means = np.asarray(means, np.float64) - np.asarray(log_target(prior), np.float64)
    check_temperature(temperature)
    removal = Removal(means, strength, temperature)
    streamed = _write(opened, target, removal, read_rows(rows_before))
    bias_by_context = {}
    for key, number in opened.contexts.items():
        bias_by_context[", ".join(filter(None, key))] = means[0 if len(means) == 1 else number]
    return streamed._replace(bias=bias_by_context)


def _check_target(target: Path, source: Source) -> None:
    """Raises if the target is an input file or a folder, or if the output needs a taken name."""
    if target.exists() and any(target.samefile(path) for path in source.files):
        raise InputError.at(target, "a file that is not an input", remedy="name another file")
    if target.is_dir():
        raise InputError.at(target, "a file to write", "a folder", "name a file in it")
    for name in new_columns(source.labels):
        if name in source.schema.names:
            raise InputError(
                f"{next(iter(source.files))}: has a column {name!r}, which the corrected file "
                "also needs; rename it."
            )


def new_columns(labels: Sequence[str]) -> list[str]:
    """Returns the names of the columns that a corrected file adds."""
    return [*map(PROBABILITY.format, labels), CONFIDENCE, PREDICTION]


@jax.jit
def _correct(
    state: Shift, scores: jax.Array, temperature: float
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns corrected scores, probabilities, and the predictions before and after."""
    corrected = apply(state, scores) / temperature
    return corrected, jax.nn.softmax(corrected), predict(scores), predict(corrected)


class Removal(NamedTuple):
    """The removed bias [contexts, k] in nats, its strength, and the temperature."""

    means: np.ndarray
    strength: float
    temperature: float


def _write(source: Source, target: Path, removal: Removal, batches: Iterator[RowBatch]) -> Streamed:
    """Writes the corrected scores of all rows and counts the predictions."""
    import pyarrow as pa
    from pyarrow import parquet

    k, size = len(source.labels), MAX_BATCH_ROWS
    predicted, right = np.zeros((2, k)), np.zeros(2)  # numbers of rows before and after correction
    rows_labeled = rows_changed = rows_written = 0
    # The fields have no metadata, because a newly built table has none.
    score_types = dict.fromkeys(source.labels, pa.float32())
    fields = [pa.field(f.name, score_types.get(f.name, f.type)) for f in source.schema]
    file_column = FILE
    while file_column in source.schema.names:
        file_column += "_"
    fields += [pa.field(file_column, pa.string())] if source.is_by_file else []
    *probabilities, _ = names = new_columns(source.labels)
    types = [pa.float32()] * len(probabilities) + [pa.dictionary(pa.int32(), pa.string())]
    fields += map(pa.field, names, types)
    schema = pa.schema(fields)
    encoded = [n for n in schema.names if n not in source.labels and n not in probabilities]
    means, strength, temperature = removal
    with (
        arrow_errors(target),
        whole_file(target) as file,
        parquet.ParquetWriter(pa.PythonFile(file), schema, use_dictionary=encoded) as writer,
    ):
        for rows in batches:
            n = len(rows.scores)
            # All batches have one shape, so that one program is compiled.
            scores, bias = np.zeros((2, size, k), np.float32)
            scores[:n] = rows.scores
            bias[:n] = means[rows.contexts] if len(means) > 1 else means
            state = Shift(jnp.asarray(bias), jnp.float32(strength))
            found = (np.asarray(array)[:n] for array in _correct(state, scores, temperature))
            corrected, probs, before, after = found
            predicted += [np.bincount(before, minlength=k), np.bincount(after, minlength=k)]
            rows_changed += int((before != after).sum())
            rows_written += n
            gold = source.gold(rows)
            if gold is not None:
                rows_labeled += int((gold >= 0).sum())
                right += [(before == gold).sum(), (after == gold).sum()]
            columns = {name: rows.table[name] for name in source.schema.names}
            for label, name in enumerate(source.labels):
                columns[name] = pa.array(corrected[:, label])
                columns[PROBABILITY.format(name)] = pa.array(probs[:, label])
            columns[CONFIDENCE] = pa.array(probs.max(axis=1))
            if source.is_by_file:
                columns[file_column] = pa.repeat(rows.file, n)
            columns[PREDICTION] = pa.DictionaryArray.from_arrays(after, list(source.labels))
            writer.write_table(pa.table(columns, schema=schema))
    # The gaps count the rows of the pass that wrote the file.
    missing, is_named = source.reading.missing, bool(source.reading.labels)
    notes = (*source.notes, *source.gaps.notes(source.labels, missing, is_named=is_named))
    left_out, (before, after) = source.total - rows_written, predicted / rows_written
    accuracy = tuple((right / rows_labeled).tolist()) if rows_labeled else None
    return Streamed(
        rows_written, left_out, source.labels, {}, before, after, rows_changed, accuracy, notes
    )
