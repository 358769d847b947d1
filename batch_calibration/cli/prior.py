"""Reads the label shares that --prior states: numbers, ranges, a file, or labels to count."""

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.cli import summaries
from batch_calibration.diagnosis.known_shares import BALANCED, Known, know_roughly, know_shares
from batch_calibration.errors import InputError, refuse_unknown
from batch_calibration.files.rows import beginning, first_repeated, json_rows
from batch_calibration.importers import frames, text_files
from batch_calibration.importers.cells import Column, texts_of
from batch_calibration.importers.gold import gold_indices, index_order, list_indices
from batch_calibration.methods.options import counted_shares
from batch_calibration.scores import ScoreTable

ESTIMATED = "estimated"
Range = tuple[float, float]  # the lower and the upper end of a share
FEW_COUNTED = 64
"""Number of counted labels below which a note warns of noise. With 64 labels, matching their shares
harms 1 % of the contexts of real models, and with 16 labels 7 % (evidence_labels.csv)."""


class Stated(NamedTuple):
    """The shares of a context's labels as a user states them.

    Attributes:
        known: the shares, None if they are not stated.
        counts: [k], the labels counted in a file, which replace the shares.
    """

    known: Known | None = None
    counts: tuple[int, ...] | None = None

    @property
    def options(self) -> dict[str, object]:
        """The options for the methods that accept them."""
        if self.counts is not None:
            return {"target_prior": counted_shares(self.counts)}
        return dict(self.known.options) if self.known else {}


def state(text: str, tables: Sequence[ScoreTable]) -> list[Stated]:
    """Returns the shares that a text states for each context; "" states no shares.

    Raises:
        InputError: The shares do not fit the labels, shares without names are ambiguous because
            the contexts have different labels, or there are no labels to estimate shares from.
    """
    if not text:
        return [Stated()] * len(tables)
    if text == ESTIMATED:
        estimates = [_estimate(table) for table in tables]
        summaries.say_notes(note for _, note in estimates if note)
        return [estimated for estimated, _ in estimates]
    return read_shares(text, [table.label_names for table in tables])


def read_shares(text: str, names_by_context: Sequence[Sequence[str]]) -> list[Stated]:
    """Returns the shares that a text or a file states for each context's labels; see `state`.

    >>> read_shares("4,1", [("no", "yes")])[0].known.shares
    (0.8, 0.2)
    >>> stated = read_shares("yes=0.1,no=0.9", [("no", "yes"), ("yes", "no")])
    >>> [of_context.known.shares for of_context in stated]
    [(0.9, 0.1), (0.1, 0.9)]
    >>> read_shares("0.2..0.6", [("no", "yes")])[0].known.shares
    (0.4, 0.6)
    """
    if text.partition(":")[0] == BALANCED and not Path(text).is_file():
        known = [know_roughly(text, len(names), where="--prior") for names in names_by_context]
        return [*map(Stated, known)]
    where, (path, _, column) = "--prior", text.rpartition(":")
    # A file with this name takes precedence over numbers.
    if Path(text).is_file():
        where = f"--prior={text}"
        pairs: Sequence[tuple[str, ...]] = _read_pairs(Path(text), names_by_context[0])
    elif path and ("=" not in text or Path(path).is_file()):
        return _count_labels(Path(path), column, names_by_context)
    else:
        pairs = [pair.rpartition("=")[::2] for pair in text.split(",")]  # without the "="
    names, numbers = list[str](), list[Range]()
    with suppress(ValueError):  # an invalid number is reported below
        for name, share in pairs:
            low, dots, high = share.partition("..")
            numbers.append((float(low), float(high if dots else low)))
            names.append(name.strip())
    is_named = any(names)
    is_readable = len(numbers) == len(pairs) and (all(names) or not is_named)
    if not is_readable or not 0 < sum(high for _, high in numbers) < np.inf:
        expected = f"shares such as 0.8,0.2 or {_example(names_by_context[0])}, ranges such as "
        expected += f"0.7..0.9, {BALANCED!r}, 'balanced:12', {ESTIMATED!r}, a file or FILE:COLUMN"
        raise InputError.at(where, expected, f"{text!r}, which is not one of these", "correct it")
    orders = list(dict.fromkeys(map(", ".join, names_by_context)))
    if not is_named and len(orders) > 1:
        remedy = f"write them as {_example(names_by_context[0])}"
        expected = f"label names, as contexts have the labels {orders[0]} and {orders[1]}"
        raise InputError.at(where, expected, repr(text), remedy)
    if repeated := first_repeated(names) if is_named else "":
        raise InputError.at(where, "each label once", f"{repeated!r} twice", "correct it")
    return [_in_order(where, text, labels, names, numbers) for labels in names_by_context]


def _in_order(
    where: str, text: str, labels: Sequence[str], names: Sequence[str], numbers: Sequence[Range]
) -> Stated:
    """Returns the shares in the order of the labels; shares without names are in order already."""
    k, is_named = len(labels), any(names)
    are_ranges = any(low != high for low, high in numbers)
    is_of_first = are_ranges and not is_named and (k, len(numbers)) == (2, 1)
    fits = is_of_first or (set(names) == set(labels) if is_named else len(numbers) == k)
    if not fits or min(map(min, numbers)) < 0:
        expected = f"{k} shares, one for each of {', '.join(labels)}"
        remedy = f"write them as {_example(labels)}, or use a file"
        raise InputError.at(where, expected, repr(text), remedy)
    bounds = np.array(numbers)[list(map(names.index, labels)) if is_named else slice(None)]
    if are_ranges:
        given = bounds[0] if is_of_first else bounds
        return Stated(know_roughly(given.tolist(), k, where=where))
    # Counts need not sum to 1; fractions must, up to rounding to two digits.
    total = bounds[:, 0].sum()
    if bounds.max() < 1 and abs(total - 1) > 0.005 * k:
        expected, got = "shares that sum to 1, or counts", f"{text!r}, which sum to {total:.3g}"
        raise InputError.at(where, expected, got, "correct one of them")
    return Stated(know_shares((bounds[:, 0] / total).tolist()))


def _example(labels: Sequence[str]) -> str:
    """Returns equal shares with label names in the format of --prior."""
    return ",".join(f"{label}={1 / len(labels):.2g}" for label in labels)


def _read_pairs(path: Path, labels: Sequence[str]) -> list[tuple[str, ...]]:
    """Reads a share from each line of a file, and its label if there is one, else ""."""
    cells = list[list[str]]()
    with suppress(ValueError, csv.Error):  # reported below
        # "-sig" skips the byte order mark that a spreadsheet may write.
        lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        # An error in a line leaves no cells.
        cells += [line for line in lines if line]
    if not cells or set(map(len, cells)) not in ({1}, {2}):
        expected = f"a share on each line, or LABEL,SHARE for each of {', '.join(labels)}"
        raise InputError.at(path, expected, "other lines")
    return [(line[0] if line[1:] else "", line[-1]) for line in cells]


def _count_labels(
    path: Path, column: str, names_by_context: Sequence[Sequence[str]]
) -> list[Stated]:
    """Counts the labels in a column of a file; adds one to each count (Laplace's rule)."""
    if not path.is_file():
        raise InputError.at(path, "a file of labels", "none", "correct the name")
    columns = read_columns(path)
    refuse_unknown("column", column, columns, where=path)
    where = f"{path}, column {column!r}"

    @cache
    def count(labels: tuple[str, ...]) -> Stated:
        gold = gold_indices(where, columns[column], labels)
        if order := index_order(set(texts_of(columns[column])), labels):
            said = f"{where}: {list_indices(order)} by the order of the labels"
            summaries.say_notes([f"{said}; write their names if it is another."])
        counts = np.bincount(gold[gold >= 0], minlength=len(labels))
        total = int(counts.sum())
        if not counts.all():
            got = f"no row of {labels[int(counts.argmin())]!r} among {total:,}"
            remedy = f"write the shares you expect, such as {_example(labels)}"
            raise InputError.at(where, f"rows of each label: {', '.join(labels)}", got, remedy)
        if total < FEW_COUNTED:
            note = f"{total:,} labels were counted; shares of fewer than {FEW_COUNTED} are noisy. "
            note += "`recommend` moves its estimates only as far as the counts contradict them."
            summaries.say_notes([note])
        return Stated(counts=tuple(counts.tolist()))

    return [count(tuple(labels)) for labels in names_by_context]


def read_columns(path: Path) -> Mapping[str, Column]:
    """Returns the columns of a CSV, JSON, Parquet or Arrow file."""
    start = beginning(path)
    if frames.is_parquet(path, start):
        return frames.load_columns(frames.load_parquet, path)
    if frames.is_arrow(path, start):
        return frames.load_columns(frames.load_arrow, path)
    if text_files.is_json(path, start):
        return frames.rows_to_columns([row for _, row in json_rows(path)])
    return text_files.delimited_columns(path)


def _estimate(table: ScoreTable) -> tuple[Stated, str]:
    """Returns the shares of labels in labeled rows, with one added to each count, and a note.

    The note warns if the counted rows are the rows to correct.
    """
    labeled, k = table.blocks.get("labeled"), len(table.label_names)
    gold = (labeled or table.blocks["test"]).labels  # -1: unknown
    known_labels = gold[gold >= 0]
    if not len(known_labels):
        remedy = "use --labeled=FILE, or state the shares"
        expected = "labeled rows to count, which separate label shares from the bias"
        raise InputError.at(f"--prior={ESTIMATED}", expected, remedy=remedy)
    note = (
        f"The shares are counted from the {len(known_labels):,} right answers in the file, which "
        "are unknown in practice: the accuracy is the best that stated shares can give."
    )
    shares = counted_shares(np.bincount(known_labels, minlength=k))
    return Stated(know_shares(shares)), note * (labeled is None)
