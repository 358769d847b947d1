"""`calibrate` from Parquet to Parquet: a batch in memory at a time, whatever the files' size."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from batch_calibration.cli import inputs, prior, summaries
from batch_calibration.errors import InputError
from batch_calibration.importers.local_copies import is_remote
from batch_calibration.integrations.streams import Streamed, correct_stream, count_rows, open_source
from batch_calibration.reporting import terminal
from batch_calibration.reporting.cells import Cells

METHODS = ("bc", "cc")
"""Methods that need no more than a mean of rows."""
ENDING = ".parquet"
MAX_ROWS_IN_MEMORY = 20_000_000
"""Rows that a table in memory may have; of more Parquet must be written."""


def takes(args: Namespace, files: Sequence[Path]) -> bool:
    """True if the options ask for Parquet out of Parquet, by a method that needs one mean.

    Raises:
        InputError: files too large for a table in memory, and another output or method.
    """
    if {path.suffix for path in files} != {ENDING} or any(map(is_remote, files)):
        return False
    # All others need a row more than once, or rows beside it.
    fits = args.method in METHODS and not args.labeled and args.missing != "bound"
    # Estimated shares are counted before the first batch.
    fits = fits and not (args.option or args.results) and args.prior != prior.ESTIMATED
    if fits and Path(args.output).suffix == ENDING:
        return True
    if (rows := count_rows(files)) > MAX_ROWS_IN_MEMORY:
        raise InputError(
            f"{args.files[0]}: {rows:,} rows are more than a table in memory is made of; give "
            f"--output=FILE{ENDING} and --method=bc or cc, which read batch by batch."
        )
    return False


def calibrate_stream(args: Namespace, files: Sequence[Path]) -> None:
    """Correct the files batch by batch, and say what changed."""
    if args.plot:
        raise InputError("--plot: a stream of Parquet is not drawn; leave it out, or plot a part.")
    reading = inputs.reading_of(args)
    labels = open_source(files, reading).labels
    summaries.say_notes(inputs.note_of_files(args, files))
    done = correct_stream(
        files, args.output, reading, bias=_bias(args, labels),
        strength=1.0 if args.strength is None else args.strength,
        target_prior=prior.read_shares(args.prior, [labels])[0] if args.prior else None,
        by_file=not args.shards, progress=_show_progress,
    )  # fmt: skip
    summaries.say_notes(done.notes)
    _show(args, done)


def _bias(args: Namespace, labels: tuple[str, ...]) -> list[float] | None:
    """The mean of the probe's rows, for cc."""
    if args.method != "cc":
        return None
    tables = [table for _, table in inputs.probes(args)]
    if len(tables) != 1 or tables[0].label_names != labels:
        raise InputError.at(
            "--probe",
            f"one file of one context, of the labels {', '.join(labels)}",
            f"{len(tables)} contexts",
            "give one",
        )
    # [k], summed in double precision as many rows may be
    means: list[float] = tables[0].blocks["test"].log_probs.mean(axis=0, dtype=np.float64).tolist()
    return means


def _show_progress(done: int, total: int, per_second: float, /) -> None:
    """One line that is written over, where the errors go to a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done >= total else "\r"  # the next line overwrites this one
        seconds_left = (total - done) / max(per_second, 1.0)
        line = f"{100 * done / total:5.1f} %, {per_second:,.0f} rows/s, {seconds_left:.0f} s left"
        # Padded, to cover a longer line before it.
        print(f"{line:60}", end=end, file=sys.stderr, flush=True)


def _show(args: Namespace, done: Streamed) -> None:
    cells: Cells = [["label", "predicted", f"after {args.method}"]]
    for name, *shares in zip(done.label_names, done.before, done.after, strict=True):
        cells.append([name, *(f"{100 * share:.1f}" for share in shares)])
    terminal.show_cells(f"{done.rows:,} rows: share of each label in %", cells)
    print(f"\n{args.method} changes the prediction of {done.changed:,} of {done.rows:,} rows.")
    if done.accuracy:
        before, after = (100 * share for share in done.accuracy)
        print(f"Accuracy moves from {before:.1f} to {after:.1f} %.")
    print(f"corrected scores: {args.output}")
