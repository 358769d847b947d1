"""A bias learned in one pass over Parquet files and removed in another."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.calibration.base import predict
from batch_calibration.calibration.shift import Shift, apply, log_target
from batch_calibration.errors import InputError
from batch_calibration.files import whole_file
from batch_calibration.importers.base import Reading
from batch_calibration.methods import METHODS, check_options, check_scores, warn_of_few_rows
from batch_calibration.streams.source import MOST_ROWS, Rows, Source, open_source, sentences

if TYPE_CHECKING:
    import pyarrow as pa

PREDICTION = "prediction"
"""The column of the label that the corrected scores favor."""


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
    """

    rows: int
    left_out: int
    label_names: tuple[str, ...]
    bias: dict[str, np.ndarray]
    before: np.ndarray
    after: np.ndarray
    changed: int
    accuracy: tuple[float, float] | None


def correct_stream(
    source: str | Path,
    target: str | Path,
    reading: Reading | None = None,
    *,
    bias: Sequence[float] | None = None,
    strength: float = 1.0,
    target_prior: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> Streamed:
    """BC on Parquet of any size: s_ij - gamma b_j, b_j the mean of all rows of a context.

    One pass sums the scores in float64, the other removes their mean and writes, under the same
    names, corrected scores and all other columns, and a column `prediction`. A batch is in memory
    at a time.

    Args:
        source: a Parquet file, a folder of them, or a pattern such as "scores/*.parquet".
        target: the Parquet file to write, whole or not at all.
        reading: what is said of the columns; `by` tells contexts apart.
        bias: [k] in nats, learned elsewhere, such as the mean of content-free rows (CC); the rows
            are then read once.
        strength: gamma.
        target_prior: the share of each of the k labels one expects.
        progress: called after each batch.

    Raises:
        InputError: what a table in memory is refused for, with file and row; `target` is one of
            the files read.
    """
    where = open_source(source, reading or Reading())
    target = Path(target)
    _check_target(target, where)
    k = len(where.labels)
    given = {"strength": strength, "target_prior": target_prior}
    check_options("bc", METHODS["bc"].make, given, k)
    passes = 1 if bias is not None else 2
    told = _Told(progress, where.total * passes)
    if bias is None:
        means = _means(where, told)
    else:
        means = np.asarray(check_scores([list(bias)], "bias", labels=k), np.float64)
    means = means - np.asarray(log_target(target_prior), np.float64)
    done = _write(where, target, means, strength, told)
    names = {", ".join(key): i for key, i in where.contexts.items()} or {"": 0}
    return done._replace(bias={name: means[i if bias is None else 0] for name, i in names.items()})


class _Told:
    """Tells of progress over all passes."""

    def __init__(self, progress: Progress | None, total: int):
        self.progress, self.total, self.start, self.before = progress, total, time.monotonic(), 0

    def __call__(self, source: Source, *, scores_alone: bool = False) -> Iterator[Rows]:
        """The batches of a pass."""
        done = 0
        for done, rows in source.rows(scores_alone=scores_alone):
            yield rows
            if self.progress:
                seconds = max(time.monotonic() - self.start, 1e-9)
                self.progress(self.before + done, self.total, (self.before + done) / seconds)
        self.before += done


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
            f"{source.files[0]}: has a column {PREDICTION!r}, which the corrected file would have "
            "twice; rename it."
        )


def _means(source: Source, told: "_Told") -> np.ndarray:
    """The mean score [contexts, k] of each context's rows, in float64."""
    k = len(source.labels)
    sums, counts = np.zeros((0, k)), np.zeros(0)
    for rows in told(source, scores_alone=True):
        many = max(len(source.contexts), 1)
        sums = np.pad(sums, ((0, many - len(sums)), (0, 0)))
        counts = np.pad(counts, (0, many - len(counts)))
        counts += np.bincount(rows.contexts, minlength=many)
        for label in range(k):
            sums[:, label] += np.bincount(rows.contexts, rows.scores[:, label], minlength=many)
    if not counts.all():
        raise InputError(
            f"{source.files[0]}: no row is left once those with missing labels are dropped; say "
            "--missing=least, or ask for more tokens."
        )
    warn_of_few_rows("bc", ("test",), int(counts.min()), str(source.files[0]))
    return sums / counts[:, None]


@jax.jit
def _corrected(state: Shift, scores: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Corrected scores, and the labels that the scores favored and now favor."""
    corrected = apply(state, scores)
    return corrected, predict(scores), predict(corrected)


def _write(
    source: Source, target: Path, means: np.ndarray, strength: float, told: "_Told"
) -> Streamed:
    """Write the corrected scores of all rows; count what was predicted."""
    import pyarrow as pa
    from pyarrow import parquet

    k = len(source.labels)
    before, after, changed, left = np.zeros(k), np.zeros(k), 0, source.total
    right, known = np.zeros(2), 0
    schema = _schema(source)
    other = [name for name in schema.names if name not in source.labels]
    with (
        sentences(target),
        whole_file(target) as file,
        parquet.ParquetWriter(pa.PythonFile(file), schema, use_dictionary=other) as writer,
    ):
        for rows in told(source):
            n = len(rows.scores)
            # Batches of one shape, of which one program is compiled.
            scores = np.zeros((MOST_ROWS, k), np.float32)
            scores[:n] = rows.scores
            bias = np.zeros((MOST_ROWS, k), np.float32)
            bias[:n] = means[rows.contexts] if len(means) > 1 else means
            state = Shift(jnp.asarray(bias), jnp.float32(strength))
            corrected, *favored = (np.asarray(x)[:n] for x in _corrected(state, scores))
            before += np.bincount(favored[0], minlength=k)
            after += np.bincount(favored[1], minlength=k)
            changed += int((favored[0] != favored[1]).sum())
            left -= n
            gold = source.gold(rows)
            if gold is not None:
                known += int((gold >= 0).sum())
                right += [(one == gold).sum() for one in favored]
            columns = {name: rows.table[name] for name in source.schema.names}
            columns |= {name: pa.array(corrected[:, i]) for i, name in enumerate(source.labels)}
            columns[PREDICTION] = pa.DictionaryArray.from_arrays(favored[1], list(source.labels))
            writer.write_table(pa.table(columns, schema=schema))
    rows_written = source.total - left
    return Streamed(
        rows_written,
        left,
        source.labels,
        {},
        before / rows_written,
        after / rows_written,
        changed,
        (float(right[0] / known), float(right[1] / known)) if known else None,
    )


def _schema(source: Source) -> "pa.Schema":
    """The columns of the corrected file: those of the source, and the prediction."""
    import pyarrow as pa

    kinds = {name: pa.float32() for name in source.labels}
    fields = [pa.field(f.name, kinds.get(f.name, f.type)) for f in source.schema]
    return pa.schema([*fields, pa.field(PREDICTION, pa.dictionary(pa.int32(), pa.string()))])
