"""A bias learned in one pass over Parquet files and removed in another."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.arrays import in_label_order
from batch_calibration.calibration.base import predict
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.errors import InputError
from batch_calibration.files import whole_file
from batch_calibration.importers import Reading
from batch_calibration.importers.cells import text_of
from batch_calibration.importers.frames import arrow_errors
from batch_calibration.importers.tables import refuse_several
from batch_calibration.integrations.streams import source as sources
from batch_calibration.integrations.streams.source import Rows, Source, encode, open_source
from batch_calibration.methods import METHODS, check_options, check_scores, warn_of_few_rows
from batch_calibration.responses import refuse_constant

PREDICTION = "prediction"  # the column of the label that the corrected scores favor
FILE = "task"
"""The column of a row's file, where each is a context; `task_` beside one that is called so."""
MAX_IDS = 50_000_000  # rows whose ids are compared; each takes 8 bytes


class Learned:
    """Sums, extremes and ids of the rows of each context, batch by batch."""

    def __init__(self, source: Source):
        k, ids = len(source.labels), source.reading.ids
        self.where = str(next(iter(source.files)))
        self.counts, self._sums = np.zeros(0), np.zeros((0, k))  # [contexts], [contexts, k]
        self._low, self._high = np.zeros(0), np.zeros(0)  # [contexts], the extremes of all scores
        self._source, self._column = source, ids
        self._hashes = np.zeros(source.total if ids else 0, np.int64)
        self._rows = 0
        # A column and the number of a context -> the model or task there.
        self._told: dict[tuple[str, int], str] = {}
        if ids and source.total > MAX_IDS:
            raise InputError(
                where="--ids",
                expected=f"{MAX_IDS:,} rows or fewer, for ids to be compared",
                got=f"{source.total:,}",
                remedy="leave --ids out: all columns of the files are written anyway",
            )

    def add(self, rows: Rows) -> None:
        """Learn from a batch."""
        number, context = len(self._source.contexts), rows.contexts
        # A batch may bring contexts that were not met before.
        more = (0, number - len(self.counts))
        self.counts = np.pad(self.counts, more) + np.bincount(context, minlength=number)
        self._sums = np.pad(self._sums, (more, (0, 0)))
        for label in range(self._sums.shape[1]):
            # bincount adds in float64, as float32 sums of many rows lose digits.
            self._sums[:, label] += np.bincount(context, rows.scores[:, label], minlength=number)
        self._low = np.pad(self._low, more, constant_values=np.inf)
        self._high = np.pad(self._high, more, constant_values=-np.inf)
        np.minimum.at(self._low, context, rows.scores.min(axis=1))
        np.maximum.at(self._high, context, rows.scores.max(axis=1))
        self._refuse_several(rows)
        if self._column:
            codes, cells = encode(rows.table[self._column])
            texts = [text_of(cell) for cell in cells]
            # Rows of several contexts may share an id.
            keys = zip(context.tolist(), (texts[code] for code in codes), strict=True)
            self._hashes[self._rows : self._rows + len(codes)] = list(map(hash, keys))
            self._rows += len(codes)

    def _refuse_several(self, rows: Rows) -> None:
        """Refuse several models or tasks in one context, in this batch and those before it."""
        for name in self._source.telling:
            codes, cells = encode(rows.table[name])
            for pair in np.unique(rows.contexts * len(cells) + codes).tolist():
                context, code = divmod(pair, len(cells))
                if text := text_of(cells[code]):
                    first = self._told.setdefault((name, context), text)
                    refuse_several(self.where, {name: (first, text)}, self._source.reading)

    def check(self) -> None:
        """Refuse a context without rows or whose scores are all equal, and ids that stand twice."""
        for key, context in self._source.contexts.items():
            where = ", ".join(filter(None, key)) or self.where
            if not self.counts[context]:
                raise self._source.gaps.no_rows(where)
            if self.counts[context] > 1 and self._low[context] == self._high[context]:
                refuse_constant(np.full((2, 2), self._low[context]), where)
        hashes = self._hashes[: self._rows]
        hashes.sort()
        if repeated := int((hashes[1:] == hashes[:-1]).sum()):
            raise InputError(
                where=f"{self.where}, column {self._column!r}",
                expected="an id of its own for each row of a context",
                got=f"{repeated:,} rows with the id of another",
                remedy="keep one of such rows, or leave --ids out",
            )

    def means(self) -> np.ndarray:
        """The mean score [contexts, k] of each context's rows, in float64."""
        return self._sums / self.counts[:, None]


class Progress(Protocol):
    """Called after each batch."""

    def __call__(self, done: int, total: int, per_second: float, /) -> None:
        """Rows done of all passes together, rows to do, rows a second since the start."""


class Streamed(NamedTuple):
    """What was done to a stream.

    Attributes:
        rows: rows written.
        left_out: rows that were dropped for their missing labels.
        label_names: k names.
        bias: context -> the bias [k] that was removed, in nats; of one context under "".
        before: share of the rows [k] for which each label was predicted.
        after: the same of the corrected scores.
        changed: rows whose prediction changed.
        accuracy: of the scores and of the corrected ones, where right labels are known.
        notes: what a reader of the numbers must know, in sentences.
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
    by_file: bool = False,
    progress: Progress | None = None,
) -> Streamed:
    """BC on Parquet of any size: s_ij - gamma b_j, b_j the mean of all rows of a context.

    One pass sums the scores in float64, the other removes their mean and writes, under the same
    names, corrected scores and all other columns, and a column `prediction`. A batch is in memory
    at a time.

    Args:
        source: a Parquet file, a folder of them, a pattern such as "scores/*.parquet", or a list.
        target: the Parquet file to write, whole or not at all.
        reading: what is said of the columns; `by` tells contexts apart.
        bias: [k] in nats, in order or by name, learned elsewhere, such as the mean of content-free
            rows (CC); the rows are then read once.
        strength: gamma.
        target_prior: the share of each of the k labels one expects, in order or by name.
        by_file: whether each file is a context of its own, which a column `task` then names, not
            a part of one data set.
        progress: called after each batch.

    Raises:
        InputError: what a table in memory is refused for, with file and row; `target` is one of
            the files read.
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

    def read_rows(rows_before: int, *, scores_alone: bool = False) -> Iterator[Rows]:
        """The batches of a pass; `rows_before` were read in the pass before."""
        for rows_read, rows in opened.batches(scores_alone=scores_alone):
            if not rows_before:
                learned.add(rows)
            yield rows
            if progress:
                done = rows_before + rows_read
                progress(done, total, done / max(time.monotonic() - start, 1e-9))  # never 0 seconds
        if not rows_before:
            learned.check()

    if bias is None:
        for _ in read_rows(0, scores_alone=True):
            pass
        means, rows_before = learned.means(), opened.total
        warn_of_few_rows("bc", ("test",), int(learned.counts.min()), learned.where)
    else:
        means = check_scores([list(bias)], "bias", labels=len(opened.labels))
        rows_before = 0
    means = np.asarray(means, np.float64) - np.asarray(log_target(prior), np.float64)
    streamed = _write(opened, target, means, strength, read_rows(rows_before))
    bias_by_context = {}
    for key, number in opened.contexts.items():
        bias_by_context[", ".join(filter(None, key))] = means[0 if len(means) == 1 else number]
    return streamed._replace(bias=bias_by_context)


def _check_target(target: Path, source: Source) -> None:
    """Refuse a target that is read, and columns whose names the output needs."""
    if target.exists() and any(target.samefile(path) for path in source.files):
        raise InputError(
            where=target, expected="a file that is not read at once", remedy="name another one"
        )
    if target.is_dir():
        raise InputError(
            where=target, expected="a file to write", got="a folder", remedy="name a file in it"
        )
    if PREDICTION in source.schema.names:
        raise InputError(
            f"{next(iter(source.files))}: has a column {PREDICTION!r}, which the corrected file "
            "would have twice; rename it."
        )


@jax.jit
def _correct(state: Shift, scores: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Corrected scores, and the labels that the scores favored and now favor."""
    corrected = apply(state, scores)
    return corrected, predict(scores), predict(corrected)


def _write(
    source: Source, target: Path, means: np.ndarray, strength: float, batches: Iterator[Rows]
) -> Streamed:
    """Write the corrected scores of all rows; count what was predicted."""
    import pyarrow as pa
    from pyarrow import parquet

    k, size = len(source.labels), sources.MAX_BATCH_ROWS
    predicted = np.zeros((2, k))  # rows by label, before and after
    right = np.zeros(2)  # rows, before and after
    rows_labeled = rows_changed = rows_written = 0
    # Without the fields' metadata, as a table that is built anew has none.
    score_types = dict.fromkeys(source.labels, pa.float32())
    fields = [pa.field(f.name, score_types.get(f.name, f.type)) for f in source.schema]
    file_column = FILE
    while file_column in source.schema.names:
        file_column += "_"
    fields += [pa.field(file_column, pa.string())] if source.is_by_file else []
    fields.append(pa.field(PREDICTION, pa.dictionary(pa.int32(), pa.string())))
    schema = pa.schema(fields)
    encoded = [name for name in schema.names if name not in source.labels]
    with (
        arrow_errors(target),
        whole_file(target) as file,
        parquet.ParquetWriter(pa.PythonFile(file), schema, use_dictionary=encoded) as writer,
    ):
        for rows in batches:
            n = len(rows.scores)
            # Batches of one shape, of which one program is compiled.
            scores, bias = np.zeros((2, size, k), np.float32)
            scores[:n] = rows.scores
            bias[:n] = means[rows.contexts] if len(means) > 1 else means
            state = Shift(jnp.asarray(bias), jnp.float32(strength))
            corrected, before, after = (np.asarray(a)[:n] for a in _correct(state, scores))
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
            if source.is_by_file:
                columns[file_column] = pa.repeat(rows.file, n)
            columns[PREDICTION] = pa.DictionaryArray.from_arrays(after, list(source.labels))
            writer.write_table(pa.table(columns, schema=schema))
    # Counted by the rows of the pass that wrote.
    missing, is_named = source.reading.missing, bool(source.reading.labels)
    return Streamed(
        rows_written, source.total - rows_written, source.labels, {},
        predicted[0] / rows_written, predicted[1] / rows_written, rows_changed,
        (float(right[0] / rows_labeled), float(right[1] / rows_labeled)) if rows_labeled else None,
        (*source.notes, *source.gaps.notes(source.labels, missing, is_named=is_named)),
    )  # fmt: skip
