"""The shares of the labels that --prior names: numbers, a file, or shares of labeled rows."""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from batch_calibration.cli import summaries
from batch_calibration.errors import InputError
from batch_calibration.importers.cells import first_repeated
from batch_calibration.scores import ScoreTable

ESTIMATED = "estimated"


def shares(text: str, tables: Sequence[ScoreTable]) -> list[tuple[float, ...] | None]:
    """The expected share of each label of each context, None for equal ones.

    Raises:
        InputError: no shares of those labels; shares without names, where contexts have other
            labels or another order of them; nothing to estimate them from.
    """
    if not text:
        return [None] * len(tables)
    if text == ESTIMATED:
        estimates = [_estimate(table) for table in tables]
        summaries.say_notes(note for _, note in estimates if note)
        return [estimated for estimated, _ in estimates]
    return read_shares(text, [table.label_names for table in tables])


def share_range(text: str) -> tuple[float, float] | None:
    """The two shares that --share names, None for none.

    Raises:
        InputError: other than two numbers.

    >>> share_range("0.3,0.7")
    (0.3, 0.7)
    """
    if not text:
        return None
    with suppress(ValueError):
        low, high = map(float, text.split(","))
        return low, high
    raise InputError.at("--share", "two shares, the lower one first", text, "as in --share=0.3,0.7")


def read_shares(
    text: str, names_by_context: Sequence[Sequence[str]]
) -> list[tuple[float, ...] | None]:
    """The shares that a text or a file gives for the labels of each context; see `shares`.

    >>> read_shares("4,1", [("no", "yes")])
    [(0.8, 0.2)]
    >>> read_shares("yes=0.1,no=0.9", [("no", "yes"), ("yes", "no")])
    [(0.9, 0.1), (0.1, 0.9)]
    """
    where = "--prior"
    # A file goes before numbers.
    if Path(text).is_file():
        where = f"--prior={text}"
        pairs: Sequence[tuple[str, ...]] = _read_pairs(Path(text), names_by_context[0])
    else:
        pairs = [pair.rpartition("=")[::2] for pair in text.split(",")]  # without the "="
    names, numbers = list[str](), list[float]()
    with suppress(ValueError):  # what is no number is refused below
        for name, share in pairs:
            numbers.append(float(share))
            names.append(name.strip())
    is_named = any(names)
    is_readable = len(numbers) == len(pairs) and (all(names) or not is_named)
    if not is_readable or not 0 < sum(numbers) < np.inf:
        raise InputError.at(
            where,
            f"shares such as 0.8,0.2 or {_example(names_by_context[0])}, {ESTIMATED!r} or a file",
            f"{text!r}, which is none of these",
            "correct it",
        )
    orders = list(dict.fromkeys(map(", ".join, names_by_context)))
    if not is_named and len(orders) > 1:
        raise InputError.at(
            where,
            "shares with the names of their labels, as the contexts have the labels "
            f"{orders[0]} and the labels {orders[1]}",
            f"{text!r}",
            f"write them as {_example(names_by_context[0])}",
        )
    if repeated := first_repeated(names) if is_named else "":
        raise InputError.at(where, "each label once", f"{repeated!r} twice", "correct it")
    return [_in_order(where, text, labels, names, numbers) for labels in names_by_context]


def _in_order(
    where: str, text: str, labels: Sequence[str], names: Sequence[str], numbers: Sequence[float]
) -> tuple[float, ...]:
    """The shares in the order of the labels; by place where they have no names."""
    is_named = any(names)
    fits = set(names) == set(labels) if is_named else len(numbers) == len(labels)
    if not fits or min(numbers) < 0:
        raise InputError.at(
            where,
            f"{len(labels)} shares, one for each of {', '.join(labels)}",
            f"{text!r}",
            f"write them as {_example(labels)}, or give a file",
        )
    places = list(map(names.index, labels)) if is_named else slice(None)
    return tuple((np.array(numbers)[places] / sum(numbers)).tolist())  # they need not sum to 1


def _example(labels: Sequence[str]) -> str:
    """Equal shares by name, as --prior takes them."""
    return ",".join(f"{label}={1 / len(labels):.2g}" for label in labels)


def _read_pairs(path: Path, labels: Sequence[str]) -> list[tuple[str, ...]]:
    """The lines of a file: a share, or a label and its share; labels are "" in the first form."""
    try:
        # "-sig": a spreadsheet may write a byte order mark.
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    except (ValueError, csv.Error):
        lines = []  # refused below
    cells = [line for line in lines if line]
    if not cells or set(map(len, cells)) not in ({1}, {2}):
        raise InputError.at(
            path,
            f"a share a line, or LABEL,SHARE for each of {', '.join(labels)}",
            "other lines",
            "correct them",
        )
    return [(line[0] if line[1:] else "", line[-1]) for line in cells]


def _estimate(table: ScoreTable) -> tuple[tuple[float, ...], str]:
    """The shares among labeled rows, one more of each label counted (Laplace's rule), and a note.

    The note says which rows were counted where they are those that are corrected.
    """
    test, k = table.blocks["test"].labels, len(table.label_names)
    labeled = table.blocks.get("labeled")
    gold = test if labeled is None else labeled.labels  # -1 where unknown
    known_labels = gold[gold >= 0]
    if not len(known_labels):
        raise InputError.at(
            f"--prior={ESTIMATED}",
            "labeled rows to count, and none is labeled: unlabeled rows cannot tell "
            "their shares from the bias",
            remedy="give --labeled=FILE, or the shares",
        )
    note = ""
    if labeled is None:
        note = (
            f"The shares are those of the {len(known_labels):,} right answers in the file itself, "
            "which nobody knows beforehand: take the accuracy as the best that shares can give."
        )
    # [k]; no label may have share 0, whose logarithm is infinite.
    counts = np.bincount(known_labels, minlength=k) + 1.0
    return tuple((counts / counts.sum()).tolist()), note
