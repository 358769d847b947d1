"""Writes scores and figures, streams large Parquet files, and prints findings as JSON."""

import io
import json
import math
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, groupby
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
from scipy.special import softmax

from batch_calibration.calibration.temperature import AUTO
from batch_calibration.cli import inputs, prior
from batch_calibration.cli.progress import Waiting
from batch_calibration.cli.summaries import CorrectedContext, say_notes, title
from batch_calibration.diagnosis.diagnosis import Grades
from batch_calibration.diagnosis.threshold import Threshold
from batch_calibration.errors import CONTROLS, InputError, answering, extra
from batch_calibration.files import csv_text, object_at, quote_formulas, write_csv, write_whole
from batch_calibration.importers.lm_eval import results_of
from batch_calibration.integrations import streams
from batch_calibration.metrics import accuracy, balanced_accuracy
from batch_calibration.metrics.grades import expected_grade
from batch_calibration.reporting.cells import Cells, show_cells
from batch_calibration.scores import FILLED, PROBABILITY, ScoreTable

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".npz")
FIGURES = (".png", ".pdf", ".svg")
ABOUT = ("task", "model")
"""Columns that name the context of each row, if there are several contexts."""
STREAM_METHODS = ("bc", "cc")
"""Methods that can correct a stream, because they need only the mean of the rows."""
MAX_ROWS_IN_MEMORY = 20_000_000
"""Maximum number of rows of a table in memory; more rows need Parquet output."""
ROWS_AT_ONCE = 65536
"""Number of rows that are formatted at a time."""
Columns = dict[str, np.ndarray]


class Scored(NamedTuple):
    """A context to write.

    Attributes:
        table: the score table.
        scores: [n, k], the scores of its test rows.
        file: its file.
        has_probs: True to write the softmax of the scores, too.
        grades: the measured grades, to write the expected grade of each row.
        answers: [n], the predictions; None for the labels of the largest scores.
        beside: further columns [n] of texts, such as ids, by name.
    """

    table: ScoreTable
    scores: np.ndarray
    file: Path
    has_probs: bool = False
    grades: Grades | None = None
    answers: np.ndarray | None = None
    beside: Mapping[str, np.ndarray] = {}


def check_output(output: str, endings: Sequence[str] = ENDINGS) -> None:
    """Raises an error if no format has the ending of this file name, or it may not be replaced."""
    if output and output != "-" and Path(output).suffix not in endings:
        expected = f"a file that ends in {', '.join(endings)}"
        raise InputError.at(output, expected, remedy="rename the output")
    # A file is replaced as a whole: a link would become a file, and its target would stay.
    path, got = Path(output), ""
    if path.is_file() and not (path.stat().st_mode & 0o200 and os.access(path, os.W_OK)):
        got = "a read-only file"
    if got := "a link" if path.is_symlink() else got:
        raise InputError.at(output, "a file that may be replaced", got, "name another file")


def make_columns(contexts: Sequence[Scored]) -> list[Columns]:
    """Returns each context's columns: id, scores by label, prediction, right label if any is known.

    Their rows are in the order of the contexts.
    """
    blocks = [scored.table.blocks["test"] for scored in contexts]
    # All rows have the same columns. A single context needs no columns that identify it.
    keys = [*ABOUT] * (len(contexts) > 1) + ["row", "prediction"]
    keys += [streams.CONFIDENCE] * contexts[0].has_probs
    keys += ["gold"] * any((block.labels >= 0).any() for block in blocks)
    keys += ["filled"] * any(FILLED in block.spec for block in blocks)
    keys += contexts[0].beside
    keys += ["expected_grade", "grade_deviation"] * all(context.grades for context in contexts)
    column = _name_columns(keys, contexts)
    of_contexts = []
    for (table, scores, _, _, grades, answers, beside), block in zip(contexts, blocks, strict=True):
        names, columns = np.array([*table.label_names, ""], object), Columns()
        for key in filter(column.__contains__, ABOUT):
            columns[column[key]] = np.full(len(scores), str(table.context.get(key, "")), object)
        columns[column["row"]] = np.array(block.row_ids, object)
        columns |= {column[key]: cells for key, cells in beside.items()}
        columns |= zip(table.label_names, scores.T, strict=True)
        predicted = scores.argmax(axis=-1) if answers is None else answers
        if streams.CONFIDENCE in column:
            probs = softmax(scores, axis=-1)
            columns |= zip(map(PROBABILITY.format, table.label_names), probs.T, strict=True)
            columns[column[streams.CONFIDENCE]] = probs[np.arange(len(probs)), predicted]
        columns[column["prediction"]] = names[predicted]
        if "gold" in column:
            columns[column["gold"]] = names[block.labels]  # -1, unknown, is the last name, ""
        if "filled" in column:  # labels with scores that were not returned
            filled = columns[column["filled"]] = np.full(len(scores), "", object)
            for row, label in cast("list[list[int]]", block.spec.get(FILLED, [])):
                filled[row] += ", " * bool(filled[row]) + names[label]
        if grades and "expected_grade" in column:
            found = expected_grade(scores, grades.values)
            columns[column["expected_grade"]], columns[column["grade_deviation"]] = found
        of_contexts.append(columns)
    return of_contexts


def _file_order(contexts: Sequence[Scored]) -> np.ndarray:
    """Returns the order of output rows, as indices into the rows of all contexts.

    The rows of one file keep their order in the file, even if they belong to several contexts.
    """
    order = list[np.ndarray]()
    for _, scored_of_file in groupby(contexts, key=lambda scored: scored.file):
        rows_of_file = [scored.table.blocks["test"].file_rows for scored in scored_of_file]
        numbers = np.concatenate(rows_of_file)
        places = np.argsort(numbers, kind="stable")
        # If a file repeats its rows, as for several models, its contexts follow each other.
        is_split = (np.diff(numbers[places]) > 0).all()
        order.append(sum(map(len, order)) + (places if is_split else np.arange(len(numbers))))
    return np.concatenate(order)


def _name_columns(keys: Sequence[str], contexts: Sequence[Scored]) -> dict[str, str]:
    """Returns a name for each column that is no score; the name differs from all labels."""
    labels = set[str]().union(*(context.table.label_names for context in contexts))
    column = {key: key for key in keys}
    for key in filter(labels.__contains__, keys):
        while column[key] in labels:
            column[key] += "_"
        say_notes([f"{key!r} is a label of the output, so the column is renamed {column[key]!r}."])
    return column


def write(contexts: Sequence[Scored], output: str) -> None:
    """Writes the scores of some contexts to a file, or to standard output as CSV.

    Raises:
        InputError: The ending is not in `ENDINGS`, the contexts have different labels, or pyarrow
            is not installed.
    """
    check_output(output)
    labels = {context.table.label_names for context in contexts}
    ending = Path(output).suffix
    # Only JSON Lines can hold rows with different columns.
    if len(labels) > 1 and ending != ".jsonl":
        remedy = "write a .jsonl file, or write each file of scores separately"
        raise InputError.at(output, "contexts of the same labels", f"{len(labels)} sets", remedy)
    if ending == ".npz":
        write_whole(Path(output), _npz(contexts))
        return
    of_contexts, order = make_columns(contexts), _file_order(contexts)
    columns = Columns()
    if ending == ".jsonl":
        lines = [*chain.from_iterable(map(_json_lines, of_contexts))]
        chunks: Callable[[], Iterator[str]] = partial(map, lines.__getitem__, order)
    else:
        for name in of_contexts[0]:
            columns[name] = np.concatenate([cells[name] for cells in of_contexts])[order]
        chunks = partial(_csv_chunks, columns, "\t" if ending == ".tsv" else ",")
    if output == "-":
        sys.stdout.writelines(chunks())
    elif ending == ".parquet":
        write_whole(Path(output), _parquet(columns))
    else:
        # UTF-8 cannot encode lone surrogates, which texts of logs may contain.
        encode = methodcaller("encode", errors="backslashreplace")
        write_whole(Path(output), lambda: map(encode, chunks()))


def _json_lines(columns: Columns) -> Iterator[str]:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for cells in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield encode(dict(zip(columns, cells, strict=True))) + "\n"


def _csv_chunks(columns: Columns, delimiter: str) -> Iterator[str]:
    """Yields the columns as `csv_text` formats rows, `ROWS_AT_ONCE` rows at a time."""
    texts = "".join(chain(columns, *(cells for cells in columns.values() if cells.dtype == object)))
    write_rows = partial(write_csv, delimiter=delimiter, quote_all="\r" in texts)
    yield write_rows([quote_formulas([*columns])])
    for start in range(0, len(next(iter(columns.values()))), ROWS_AT_ONCE):
        cells = [_cells(column[start : start + ROWS_AT_ONCE]) for column in columns.values()]
        rows = zip(*cells, strict=True)
        # Without special signs, a join gives the same text in a fifth of the time.
        is_plain = not any(sign in texts for sign in f'\r\n"{delimiter}')
        yield "\n".join([*map(delimiter.join, rows), ""]) if is_plain else write_rows(rows)


def _cells(column: np.ndarray) -> list[str]:
    """Returns the cells of a CSV column: quoted formulas, the shortest digits of float32."""
    if column.dtype == object:
        return cast("list[str]", quote_formulas(column.tolist()))
    numbers = np.ascontiguousarray(column, np.float32)
    # For a short table, the import of pyarrow takes longer.
    if len(numbers) < ROWS_AT_ONCE or find_spec("pyarrow") is None:
        return [*map(str, numbers)]
    import pyarrow as pa

    array = pa.Array.from_buffers(pa.float32(), len(numbers), [None, pa.py_buffer(numbers)])
    cells: list[str] = array.cast(pa.string()).to_pylist()
    # Arrow writes the other numbers in another form, such as 1 for 1.0.
    is_alike = (abs(numbers) > 1e-4) & (abs(numbers) < 1e5) & (numbers != np.rint(numbers))
    for row in np.flatnonzero(~is_alike):
        cells[row] = str(numbers[row])
    return cells


def _parquet(columns: Columns) -> bytes:
    remedy = f"{extra('tables')}, or write .csv"
    with answering(ImportError, "a .parquet file", "pyarrow, which writes it", remedy):
        import pyarrow
        import pyarrow.parquet
    buffer = io.BytesIO()
    cells = {name: column.tolist() for name, column in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(cells), buffer)
    return buffer.getvalue()


def _npz(contexts: Sequence[Scored]) -> bytes:
    blocks = [context.table.blocks["test"] for context in contexts]
    arrays: dict[str, Any] = {"scores": np.concatenate([context.scores for context in contexts])}
    arrays["gold"] = np.concatenate([block.labels for block in blocks])
    arrays["row"] = np.concatenate([block.row_ids for block in blocks])
    if contexts[0].has_probs:
        arrays["probabilities"] = softmax(arrays["scores"], axis=-1)
    for key in ABOUT:
        facts = [str(context.table.context.get(key, "")) for context in contexts]
        arrays[key] = np.repeat(facts, [len(block.row_ids) for block in blocks])
    order, buffer = _file_order(contexts), io.BytesIO()
    arrays = {name: array[order] for name, array in arrays.items()}
    np.savez_compressed(buffer, labels=np.array(contexts[0].table.label_names), **arrays)
    return buffer.getvalue()


def print_line(table: ScoreTable, finding: tuple[object, ...]) -> None:
    """Prints a finding about a context, a named tuple, as one line of JSON."""
    facts = {"context": title(table), **{key: table.context.get(key) for key in ABOUT}}
    line = json.dumps(facts | cast("dict[str, object]", plain(finding)), ensure_ascii=False)
    # json.dumps leaves control characters above ASCII, to which terminals react as to ESC.
    print(CONTROLS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line))


def plain(fact: object) -> object:
    """Converts NumPy values and named tuples to JSON types; NaN and infinity become None.

    >>> from batch_calibration.metrics import Estimate
    >>> plain({"gain": Estimate(0.5, float("nan"), 1.0), "rows": np.arange(2)})
    {'gain': {'value': 0.5, 'low': None, 'high': 1.0}, 'rows': [0, 1]}
    """
    if isinstance(fact, np.ndarray | np.generic):
        return plain(fact.tolist())
    if isinstance(fact, tuple) and hasattr(fact, "_asdict"):
        return plain(fact._asdict())
    if isinstance(fact, dict):
        return {str(name): plain(member) for name, member in fact.items()}
    if isinstance(fact, list | tuple):
        return [plain(member) for member in fact]
    if isinstance(fact, float) and not math.isfinite(fact):
        return None
    return fact


def write_lines(path: str, lines: Sequence[Sequence[object]], name: str) -> None:
    """Writes a table as CSV, and prints its name and its path."""
    write_whole(Path(path), csv_text(lines).encode(errors="backslashreplace"))
    print(f"{name}: {path}", file=sys.stderr)


def write_plot(
    path: str, contexts: Sequence[CorrectedContext], stream: TextIO, cuts: Sequence[Threshold] = ()
) -> None:
    """Writes the figure of the diagnoses, or of the cut-offs, if a path is given."""
    if path:
        from batch_calibration.reporting.figures import preferences, style, thresholds

        titles = [title(context.table) for context in contexts]
        if cuts:
            drawn = thresholds.draw_thresholds(cuts, titles)
        else:
            drawn = preferences.draw_preferences([one.diagnosis for one in contexts], titles)
        write_whole(Path(path), style.to_file(drawn.figure, Path(path).suffix[1:]))
        print(f"figure: {path}", file=stream)


def write_harness_results(
    files: Sequence[Path], corrected: Sequence[CorrectedContext], method: str
) -> list[Path]:
    """Writes `results_*_corrected.json` next to each file of results.

    Each task gets the metrics that `integrations.lm_eval.CorrectedTask` adds to the harness's
    table: `acc_METHOD`, `balanced_acc`, `balanced_acc_METHOD` and `preference_nats`.

    Returns:
        Paths of the written files.

    Raises:
        InputError: A log has no results next to it, or it has several contexts.
    """
    documents: dict[Path, Any] = {}  # several logs may share a file of results
    for file, context in zip(files, corrected, strict=True):
        if list(files).count(file) > 1:
            raise InputError.at(file, "a log of one context", "several", "leave --results out")
        log = file.with_name(re.sub(r"\.(gz|zst)$", "", file.name))
        name, averages, task = results_of(log)
        if task not in object_at(averages, "results"):
            expected = f"the task {task!r} in {name}"
            raise InputError.at(file, expected, "none", "leave --results out or copy it there")
        path = file.with_name(f"{Path(name).stem}_corrected.json")
        document = documents.setdefault(path, dict(averages))
        results = document["results"] = {**document["results"]}
        results[task] = {**results[task], **_harness_metrics(context, method)}
    for path, document in documents.items():
        write_whole(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    return list(documents)


def _harness_metrics(context: CorrectedContext, method: str) -> dict[str, float]:
    """Returns the metrics of one task by their names in the harness's results."""
    block = context.table.blocks["test"]
    scores, is_known = np.asarray(block.log_probs), block.labels >= 0
    metrics = {"preference_nats": float(np.ptp(scores.astype(np.float64).mean(axis=0)))}
    if is_known.any():
        labels, after = block.labels[is_known], context.predicted[is_known]
        metrics[f"acc_{method}"] = float(accuracy(after, labels))
        metrics["balanced_acc"] = float(balanced_accuracy(scores[is_known], labels))
        metrics[f"balanced_acc_{method}"] = float(balanced_accuracy(after, labels))
    return {f"{name},none": number for name, number in metrics.items()}


def is_streamed(args: Namespace, files: Sequence[Path]) -> bool:
    """Checks whether the input and the output are Parquet and the method needs only one mean.

    Raises:
        InputError: The files are too large for memory, and the output or the method is another.
    """
    if {path.suffix for path in files} != {".parquet"}:
        return False
    # All other options need to read a row twice, or rows of other files.
    fits = args.method in STREAM_METHODS and not args.labeled and args.missing != "bound"
    fits = fits and args.temperature != AUTO and not args.threshold
    # Estimated shares would have to be counted before the first batch.
    fits = fits and not (args.option or args.results) and args.prior != prior.ESTIMATED
    if fits and not args.ordinal and Path(args.output).suffix == ".parquet":
        return True
    if (rows := streams.count_rows(files)) > MAX_ROWS_IN_MEMORY:
        expected, remedy = (
            f"at most {MAX_ROWS_IN_MEMORY:,} rows in memory",
            "to read batch by batch, ",
        )
        remedy += "use --output=FILE.parquet and --method=bc or cc, not --ordinal"
        raise InputError.at(args.files[0], expected, f"{rows:,}", remedy)
    return False


def calibrate_stream(args: Namespace, files: Sequence[Path]) -> None:
    """Corrects the files batch by batch, and prints the changes."""
    if args.plot:
        raise InputError("--plot: Parquet that is read as a stream is not drawn; leave --plot out.")
    reading = inputs.reading_of(args)
    labels = streams.open_source(files, reading).labels
    say_notes(inputs.note_of_files(args, files))
    bias, strength = _stream_bias(args, labels), 1.0 if args.strength is None else args.strength
    stated = prior.read_shares(args.prior, [labels])[0].options if args.prior else {}
    shares = cast("Sequence[float] | None", stated.get("target_prior"))
    correct = partial(streams.correct_stream, bias=bias, strength=strength, target_prior=shares)
    correct = partial(correct, temperature=args.temperature or 1.0, by_file=not args.shards)
    with Waiting("correcting rows") as waiting:
        done = correct(files, args.output, reading, progress=waiting.move)
    say_notes(done.notes)
    _show_stream(args, done)


def _stream_bias(args: Namespace, labels: tuple[str, ...]) -> list[float] | None:
    """Returns the mean of the probe's rows for cc, None for bc."""
    if args.method != "cc":
        return None
    tables = [table for _, table in inputs.probes(args)]
    if len(tables) != 1 or tables[0].label_names != labels:
        expected = f"one context with the labels {', '.join(labels)}"
        raise InputError.at("--probe", expected, f"{len(tables)} contexts")
    # [k], summed in float64 because there may be many rows
    return [*map(float, tables[0].blocks["test"].log_probs.mean(axis=0, dtype=np.float64))]


def _show_stream(args: Namespace, done: streams.Streamed) -> None:
    cells: Cells = [["label", "predicted", f"after {args.method}"]]
    for name, *shares in zip(done.label_names, done.before, done.after, strict=True):
        cells.append([name, *(f"{100 * share:.1f}" for share in shares)])
    show_cells(f"{done.rows:,} rows: share of each label in %", cells)
    print(f"\n{args.method} changes the prediction of {done.changed:,} of {done.rows:,} rows.")
    if done.accuracy:
        before, after = (100 * share for share in done.accuracy)
        print(f"Accuracy moves from {before:.1f} to {after:.1f} %.")
    print(f"corrected scores: {args.output}")
