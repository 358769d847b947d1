"""Questions with choices as columns of scores that mean one thing each, and which one is right."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import (
    choose_labels,
    note_places,
    refuse_counted_from_one,
    renumber_labels,
)
from batch_calibration.importers.rows import CHOICES, Row, choice_orders, label_names

MIN_ROWS_TO_WARN = 10  # rows below which a right choice that is always the same one may be chance


def to_imported(
    rows: Sequence[Row],
    where: str,
    reading: Reading,
    context: Mapping[str, Json],
    notes: Sequence[str] = (),
) -> list[Imported]:
    """Rows as scores: one `Imported`, or one for each number of choices with `by=("choices",)`."""
    if not rows:
        raise InputError(where=where, expected="at least one row", got="none")
    by_count: dict[int, list[int]] = {}  # number of choices -> indices of rows
    for i, row in enumerate(rows):
        by_count.setdefault(len(row.scores), []).append(i)
    if len(by_count) > 1 and CHOICES not in reading.by:
        counts = Counter(len(row.scores) for row in rows).most_common()
        listed = ", ".join(f"{k} in {n:,} rows" for k, n in counts)
        raise InputError(
            f"{where}: the number of choices varies ({listed}), and a label must mean one thing in "
            "all rows; say --by=choices, which makes each number of choices a context of its own."
        )
    if lacking := len(by_count.get(0, [])) + len(by_count.get(1, [])):
        raise InputError(
            f"{where}: {lacking:,} of {len(rows):,} rows have fewer than two choices, and a "
            "bias is between two or more; take a log of multiple choice."
        )
    contexts = []
    for _, indices in sorted(by_count.items()):
        group = [rows[i] for i in indices]
        imported = _stack_rows(group, where, reading, context, notes)
        contexts.append(replace(imported, file_rows=np.array(indices)))
    return contexts


def _stack_rows(
    rows: Sequence[Row],
    where: str,
    reading: Reading,
    context: Mapping[str, Json],
    notes: Sequence[str],
) -> Imported:
    """Rows of one number of choices as scores."""
    names, are_fixed = label_names(rows)
    notes = list(notes)
    if not are_fixed:
        notes.append(note_places(names[0]))
    scores = np.array([row.scores for row in rows], np.float64)
    # As a table holds them: what rounds to the same number is a tie there.
    predicted = scores.astype(np.float32).argmax(axis=1)
    # What the log counts, 1 or 0; -1 where it does not say.
    right = np.array([-1 if row.right is None else int(row.right) for row in rows])
    gold, gold_notes = gold_labels(rows, predicted, right, where)
    notes += gold_notes
    notes += note_other_accuracy(right, predicted == gold, gold)
    if not are_fixed:
        notes += note_one_place(gold, names)
    alone = None
    if all(row.alone for row in rows):  # a block has scores for every row or is left out
        alone = np.array([row.alone for row in rows], np.float64)
    orders = choice_orders(rows) if are_fixed else None
    if orders is not None and (orders != orders[0]).any():
        notes.append("The choices change places from row to row: they are matched by their texts.")
        scores = np.take_along_axis(scores, orders, axis=1)
        alone = None if alone is None else np.take_along_axis(alone, orders, axis=1)
        gold = np.where(gold < 0, -1, (orders == gold[:, None]).argmax(axis=1))
    blocks = {}
    if alone is not None:
        # Choices that are the same in all rows are asked alone once.
        blocks["pmi"] = alone[:1] if (alone == alone[0]).all() else alone
    bound = None
    if all(row.bound is not None for row in rows):
        bound = np.array([row.bound for row in rows], np.float64)
    columns = {}
    for name in reading.by:
        columns[name] = [str(len(r.scores)) if name == CHOICES else r.columns[name] for r in rows]
    # The labels that `reading.labels` names, in their order; all where it names none.
    chosen, indices = choose_labels(where, names, reading.labels, are_named=True)
    return Imported(
        where,
        scores[:, indices],
        chosen,
        renumber_labels(where, gold, names, indices),
        tuple(row.id for row in rows),
        bound,
        dict(context),
        columns,
        {name: block[:, indices] for name, block in blocks.items()},
        tuple(notes),
        full=are_fixed,
    )


def gold_labels(
    rows: Sequence[Row], predicted: np.ndarray, right: np.ndarray, where: str
) -> tuple[np.ndarray, list[str]]:
    """The right choice [n] of each row, -1 where unknown, and notes on how it was found.

    `predicted` [n] are the choices of the highest scores, `right` [n] what the log counts of them.

    A target that is the text of one choice and the index of another is what agrees with what the
    log counts as right, or what all targets can be. Where no target is a choice, and there are two,
    what the log counts as right tells it.
    """
    index, text, are_several = np.array(list(map(_target_labels, rows))).T  # each [n]
    n, k, notes = len(rows), len(rows[0].scores), []
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


def note_other_accuracy(right: np.ndarray, is_ours: np.ndarray, gold: np.ndarray) -> list[str]:
    """A note where the log counts other rows as right than the highest score does; [n] each."""
    is_counted = (right >= 0) & (gold >= 0)
    counted, ours = right[is_counted], is_ours[is_counted]
    differing = int((counted != ours).sum())
    if not differing:
        return []
    return [
        f"The log's own accuracy is {100 * counted.mean():.1f} % and that of the highest score "
        f"{100 * ours.mean():.1f} %: they differ in {differing:,} of {len(counted):,} "
        "rows, so the log's counts something else, or a target was read wrongly."
    ]


def note_one_place(gold: np.ndarray, names: Sequence[str]) -> list[str]:
    """A note where the right choice stands in one place in all of many rows."""
    right_labels = np.unique(gold[gold >= 0])
    if len(right_labels) != 1 or len(gold) < MIN_ROWS_TO_WARN:
        return []
    return [
        f"The right choice is {names[right_labels[0]]} in every row: its place tells the "
        "answer, and accuracies of corrected scores mean nothing; shuffle the choices and ask "
        "again."
    ]


def _target_labels(row: Row) -> tuple[int, int, bool]:
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
