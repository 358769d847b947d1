"""Which choice of a log's question is right, as its target and its accuracy say it."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers.cells import refuse_counted_from_one

if TYPE_CHECKING:
    from batch_calibration.importers.choices import Row


def gold_labels(
    rows: "Sequence[Row]", predicted: np.ndarray, where: str
) -> tuple[np.ndarray, list[str]]:
    """The right choice [n] of each row, -1 where unknown, and notes on how it was found.

    A target that is the text of one choice and the index of another is what agrees with what the
    log counts as right, or what all targets can be. Where no target is a choice, and there are two,
    what the log counts as right tells it.

    Raises:
        InputError: nothing tells indices from texts; indices that are counted from 1.
    """
    index, text, are_several = np.array(list(map(_target_labels, rows))).T  # each [n]
    n, k, notes = len(rows), len(rows[0].scores), []
    right = np.array([-1 if row.right is None else int(row.right) for row in rows])
    have_target = (index >= 0) | (text >= 0)
    # All others would be taken for the next choice.
    if (index == k).any() and (index[have_target] > 0).all() and (text[have_target] < 0).all():
        refuse_counted_from_one(where, set(map(str, index[have_target])), k)
    index = np.where(index < k, index, -1)
    as_index, as_text = np.where(index >= 0, index, text), np.where(text >= 0, text, index)
    gold = as_index
    if (as_index != as_text).any():
        kinds = {"indices": as_index, "texts": as_text}
        agreement = {}
        for kind, labels in kinds.items():
            agreement[kind] = int((((predicted == labels) == right) & (right >= 0)).sum())
        kind, other_kind = sorted(agreement, key=lambda kind: -agreement[kind])
        reason = (
            f"agrees with what the log counts as right in {agreement[kind]:,} of {n:,} rows, and "
            f"otherwise in {agreement[other_kind]:,}"
        )
        if agreement[kind] == agreement[other_kind]:
            are_whole = {"indices": (index >= 0)[have_target], "texts": (text >= 0)[have_target]}
            possible = [kind for kind in kinds if are_whole[kind].all()]
            if len(possible) != 1:
                raise InputError(
                    where=where,
                    expected="right choices that are indices or texts",
                    got="numbers that are both, and no `acc` that tells",
                    remedy="name a field of the document that holds one of these, --gold=FIELD",
                )
            kind, reason = possible[0], "all of them can be"
        gold = kinds[kind]
        notes.append(
            f"The targets are both indices and texts of choices; they are read as {kind}, which "
            f"{reason}."
        )
    if (gold < 0).all() and len(rows[0].scores) == 2 and (right >= 0).any():
        gold = np.where(right < 0, -1, np.where(right == 1, predicted, 1 - predicted))
        notes.append(
            "The log does not name the right choice; of two it is the one with the higher score "
            "where the log counts the row as right, and the other where it does not."
        )
    if lacking := int((gold < 0).sum()):
        several = int(are_several.sum())
        why = f", {several:,} of them because several are right" if several else ""
        notes.append(f"The right choice of {lacking:,} of {n:,} rows is not known{why}.")
    return gold, notes


def note_other_accuracy(rows: "Sequence[Row]", is_ours: np.ndarray, gold: np.ndarray) -> list[str]:
    """A note where the log counts other rows as right than the highest score does."""
    counted = [i for i, row in enumerate(rows) if row.right is not None and gold[i] >= 0]
    differing = sum(bool(is_ours[i]) != rows[i].right for i in counted)
    if not differing:
        return []
    log = 100 * float(np.mean([bool(rows[i].right) for i in counted]))
    return [
        f"The log's own accuracy is {log:.1f} % and that of the highest score "
        f"{100 * is_ours[counted].mean():.1f} %: they differ in {differing:,} of {len(counted):,} "
        "rows, so the log's counts something else, or a target was read wrongly."
    ]


def _target_labels(row: "Row") -> tuple[int, int, bool]:
    """A target as index, as text, -1 where it is none, and whether several are right.

    An index may be k, as it is where they are counted from 1.
    """
    target, k, texts = row.target, len(row.scores), row.bare_choices
    listed = isinstance(target, str) and re.fullmatch(r"\s*\[(.*)\]\s*", target, re.DOTALL)
    if listed and str(target).strip() not in texts:
        # The repr of a list: logs since 0.4.9 hold every target as text.
        target = [member.strip().strip("'\"") for member in listed[1].split(",")]
    if isinstance(target, list):
        if len(target) != 1:
            return -1, -1, len(target) > 1
        target = target[0]  # a list of one
    if isinstance(target, int):
        # A bool too: False and True are the first choice and the second.
        return (int(target) if 0 <= target <= k else -1), -1, False
    if not isinstance(target, str):
        return -1, -1, False
    target = target.strip()
    text = texts.index(target) if texts.count(target) == 1 else -1
    # Few enough digits for 32 bits.
    index = int(target) if re.fullmatch(r"[0-9]{1,9}", target) else -1
    if target in ("False", "True") and k == 2:
        index = int(target == "True")
    return (index if index <= k else -1), text, False
