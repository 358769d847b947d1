"""The shares of the labels that --prior names: numbers, a file, or those of labeled rows."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scores import ScoreTable

ESTIMATED = "estimated"


def shares(text: str, table: ScoreTable) -> tuple[tuple[float, ...] | None, str]:
    """The expected share of each label, None for equal ones, and a sentence on where it is from.

    Args:
        text: what --prior says.
        table: the context, with its labels and its labeled rows.

    Raises:
        InputError: no shares of that many labels; nothing to estimate them from.
    """
    if not text:
        return None, ""
    if text == ESTIMATED:
        return _estimated(table)
    return given_shares(text, table.label_names), ""


def given_shares(text: str, names: Sequence[str]) -> tuple[float, ...]:
    """The shares that a text or a file gives; errors as in `shares`.

    >>> given_shares("4,1", ("no", "yes"))
    (0.8, 0.2)
    """
    # A file goes before numbers.
    numbers = _of_file(Path(text), names) if Path(text).is_file() else _numbers(text)
    if len(numbers) != len(names) or min(numbers) < 0 or not sum(numbers) > 0:
        raise InputError(
            where="--prior",
            expected=f"{len(names)} shares, one for each of {', '.join(names)}",
            got=f"{text!r}",
            remedy=f"write them as {','.join(['0.5'] * len(names))}, or give a file",
        )
    return tuple((np.array(numbers) / sum(numbers)).tolist())  # they need not sum to 1


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise InputError(
            where="--prior",
            expected=f"shares such as 0.8,0.2, {ESTIMATED!r} or a file",
            got=f"{text!r}, which is none of these",
            remedy="correct it",
        ) from error


def _of_file(path: Path, names: Sequence[str]) -> list[float]:
    """A share a line, in the order of the labels, or with the label before it."""
    try:
        # "-sig": a spreadsheet may write a byte order mark.
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
        filled_lines = [line for line in lines if line]
        if all(len(line) == 2 for line in filled_lines):
            share_by_label = {label.strip(): float(share) for label, share in filled_lines}
            if set(share_by_label) == set(names):
                return [share_by_label[name] for name in names]
        if all(len(line) == 1 for line in filled_lines):
            return [float(line[0]) for line in filled_lines]
    except (ValueError, csv.Error):
        pass  # the error below says what was expected
    raise InputError(
        where=path,
        expected=f"a share a line, or LABEL,SHARE for each of {', '.join(names)}",
        got="other lines",
        remedy="correct them",
    )


def _estimated(table: ScoreTable) -> tuple[tuple[float, ...], str]:
    """The shares among labeled rows, one more of each label counted (Laplace's rule)."""
    test, k = table.blocks["test"].labels, len(table.label_names)
    labeled = table.blocks.get("labeled")
    gold = test if labeled is None else labeled.labels  # -1 where unknown
    known_labels = gold[gold >= 0]
    if not len(known_labels):
        raise InputError(
            where=f"--prior={ESTIMATED}",
            expected="labeled rows to count, and none is labeled: unlabeled rows cannot tell "
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
