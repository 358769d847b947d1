"""Questions with choices, as logs hold them, as columns of scores that mean one thing each."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.labels import choose, renumbered

CHOICES = "choices"
"""The column of `Reading.by` that is a row's number of choices."""
T = TypeVar("T")
FEW = 10
"""Rows below which a right choice that is always the same one may be chance."""


@dataclass(frozen=True)
class Row:
    """One question.

    Attributes:
        id: the row's name.
        scores: log-probability of each choice, nats.
        choices: their texts; () where the choices stand in the prompt.
        target: the right choice as the log has it: index, text, or a list of such; None if unknown.
        right: whether the log counts the highest score as right; None where it does not say.
        alone: log-probability of each choice without the question; () where it was not asked.
        columns: values of the columns that `Reading.by` names.
        bound: least log-probability that was returned; None where all were asked for.
    """

    id: str
    scores: tuple[float, ...]
    choices: tuple[str, ...] = ()
    target: Json = None
    right: bool | None = None
    alone: tuple[float, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    bound: float | None = None


def to_imported(
    rows: Sequence[Row],
    where: str,
    reading: Reading,
    about: Mapping[str, Json],
    notes: Sequence[str] = (),
) -> list[Imported]:
    """Rows as scores: one `Imported`, or one for each number of choices with `by=("choices",)`.

    Raises:
        InputError: no rows; a number of choices that varies and is not asked for by `by`; labels
            that are none of the choices; one choice alone.
    """
    if not rows:
        raise InputError(where=where, expected="at least one row", got="none")
    counts = Counter(len(row.scores) for row in rows)
    if len(counts) > 1 and CHOICES not in reading.by:
        found = ", ".join(f"{k} in {n:,} rows" for k, n in counts.most_common())
        raise InputError(
            f"{where}: the number of choices varies ({found}), and a label must mean one thing in "
            "all rows; say --by=choices, which makes each number of choices a context of its own."
        )
    if few := counts[0] + counts[1]:
        raise InputError(
            f"{where}: {few:,} of {len(rows):,} rows have fewer than two choices, and a "
            "bias is between two or more; take a log of multiple choice."
        )
    return [
        _one([row for row in rows if len(row.scores) == k], where, reading, about, notes)
        for k in sorted(counts)
    ]


def _one(
    rows: Sequence[Row],
    where: str,
    reading: Reading,
    about: Mapping[str, Json],
    notes: Sequence[str],
) -> Imported:
    names, fixed = label_names(rows)
    notes = list(notes)
    if not fixed:
        notes.append(
            f"The choices are other texts in each row: {names[0]} is the first of them, whatever "
            "it says, and a bias is for a place. Where the prompt does not list the choices, a "
            "place means nothing, and there is no such bias to remove."
        )
    scores = np.array([row.scores for row in rows], np.float64)
    # As a table holds them: what rounds to the same number is a tie there.
    predicted = scores.astype(np.float32).argmax(axis=1)
    gold, said = gold_labels(rows, predicted)
    notes += said
    notes += _against_the_log(rows, predicted == gold, gold)
    known = set(gold[gold >= 0].tolist())
    if not fixed and len(known) == 1 and len(rows) >= FEW:
        notes.append(
            f"The right choice is {names[known.pop()]} in every row: its place tells the answer, "
            "and accuracies of corrected scores mean nothing; shuffle the choices and ask again."
        )
    blocks = {}
    if all(row.alone for row in rows):
        alone = np.array([row.alone for row in rows], np.float64)
        blocks["pmi"] = alone[:1] if (alone == alone[0]).all() else alone
    bound = None
    if all(row.bound is not None for row in rows):
        bound = np.array([row.bound for row in rows], np.float64)
    columns = {
        name: [str(len(row.scores)) if name == CHOICES else row.columns[name] for row in rows]
        for name in reading.by
    }
    whole = Imported(
        where, scores, names, gold, tuple(row.id for row in rows), bound, dict(about), columns,
        blocks, tuple(notes), full=fixed,
    )  # fmt: skip
    return chosen(whole, reading)


def by_columns(
    known: Mapping[str, object], where: str, reading: Reading, *, what: str = "document"
) -> dict[str, str]:
    """The values of the columns of `reading.by` among a row's fields.

    Args:
        known: name -> value.
        where: the row, for sentences.
        reading: its `by`; "choices" is no field.
        what: what the fields are of.

    Raises:
        InputError: a name that is no field.
    """
    names = [name for name in reading.by if name != CHOICES]
    return {name: str(field_of(known, name, where, what=what)) for name in names}


def target_of(
    known: Mapping[str, T], own: T, where: str, reading: Reading, *, what: str = "document"
) -> T:
    """The right choice of a row: the log's own, or the field that `reading.gold` names."""
    return field_of(known, reading.gold, where, what=what) if reading.gold else own


def field_of(known: Mapping[str, T], name: str, where: str, *, what: str) -> T:
    """A field by its name, which may begin with "doc." as the harness's own documents do."""
    plain = name.removeprefix("doc.")
    if plain not in known:
        raise InputError(
            f"{where}: the {what} has no field {shown(plain)}; it has "
            f"{', '.join(map(shown, list(known)[:20])) or 'none'}, and --by takes 'choices' too."
        )
    return known[plain]


def label_names(rows: Sequence[Row]) -> tuple[tuple[str, ...], bool]:
    """Names of the labels, and whether they are the choices' own texts, the same in all rows.

    >>> label_names([Row("0", (-1.0, -2.0), (" no", " yes"))])
    (('no', 'yes'), True)
    >>> label_names([Row("0", (-1.0, -2.0), ("a", "b")), Row("1", (-1.0, -2.0), ("c", "d"))])
    (('A', 'B'), False)
    """
    first = _stripped(rows[0])
    named = len(set(first)) == len(first) > 0 and all(first)
    if named and all(_stripped(row) == first for row in rows):
        return first, True
    k = len(rows[0].scores)
    return tuple(chr(65 + i) if k <= 26 else f"choice {i + 1}" for i in range(k)), False


def gold_labels(rows: Sequence[Row], predicted: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The right choice [n] of each row, -1 where unknown, and notes on how it was found.

    A target that is the text of one choice and the index of another is what agrees with what the
    log counts as right. Where no target is a choice, and there are two, what the log counts as
    right tells it.
    """
    read = [_target(row) for row in rows]
    index, text = (np.array([one[i] for one in read]) for i in (0, 1))
    n, notes = len(rows), []
    right = np.array([-1 if row.right is None else int(row.right) for row in rows])
    both = [np.where(index >= 0, index, text), np.where(text >= 0, text, index)]
    if (both[0] != both[1]).any():
        agree = [int((((predicted == gold) == right) & (right >= 0)).sum()) for gold in both]
        how = int(agree[1] > agree[0])
        gold = both[how]
        notes.append(
            f"The targets are both indices and texts of choices; they are read as "
            f"{('indices', 'texts')[how]}, which agrees with what the log counts as right in "
            f"{agree[how]:,} of {n:,} rows, and otherwise in {agree[1 - how]:,}."
        )
    else:
        gold = both[0]
    if (gold < 0).all() and len(rows[0].scores) == 2 and (right >= 0).any():
        gold = np.where(right < 0, -1, np.where(right == 1, predicted, 1 - predicted))
        notes.append(
            "The log does not name the right choice; of two it is the one with the higher score "
            "where the log counts the row as right, and the other where it does not."
        )
    if lacking := int((gold < 0).sum()):
        several = sum(one[2] for one in read)
        why = f", {several:,} of them because several are right" if several else ""
        notes.append(f"The right choice of {lacking:,} of {n:,} rows is not known{why}.")
    return gold, notes


def _against_the_log(rows: Sequence[Row], ours: np.ndarray, gold: np.ndarray) -> list[str]:
    """A note where the log counts other rows as right than the highest score does."""
    told = [i for i, row in enumerate(rows) if row.right is not None and gold[i] >= 0]
    wrong = sum(bool(ours[i]) != rows[i].right for i in told)
    if not wrong:
        return []
    log = 100 * float(np.mean([bool(rows[i].right) for i in told]))
    return [
        f"The log's own accuracy is {log:.1f} % and that of the highest score "
        f"{100 * ours[told].mean():.1f} %: they differ in {wrong:,} of {len(told):,} rows, so the "
        "log's counts something else, or a target was read wrongly."
    ]


def chosen(found: Imported, reading: Reading) -> Imported:
    """The labels that `reading.labels` names, in their order; all where it names none."""
    names, kept = choose(found.where, found.label_names, reading.labels, given=True)
    gold = found.labels
    return replace(
        found,
        log_probs=found.log_probs[:, kept],
        label_names=names,
        labels=gold if gold is None else renumbered(found.where, gold, found.label_names, kept),
        blocks={name: rows[:, kept] for name, rows in found.blocks.items()},
    )


def _stripped(row: Row) -> tuple[str, ...]:
    return tuple(one.strip() for one in row.choices)


def _target(row: Row) -> tuple[int, int, bool]:
    """A target as index and as text, -1 where it is none, and whether several are right."""
    target, k, texts = row.target, len(row.scores), _stripped(row)
    listed = isinstance(target, str) and re.fullmatch(r"\s*\[(.*)\]\s*", target, re.DOTALL)
    if listed and str(target).strip() not in texts:
        # The repr of a list: logs since 0.4.9 hold every target as text.
        target = [one.strip().strip("'\"") for one in listed[1].split(",")]
    if isinstance(target, list):
        if len(target) != 1:
            return -1, -1, len(target) > 1
        target = target[0]
    if isinstance(target, int):
        return (int(target) if 0 <= target < k else -1), -1, False
    if not isinstance(target, str):
        return -1, -1, False
    target = target.strip()
    text = texts.index(target) if texts.count(target) == 1 else -1
    index = int(target) if re.fullmatch(r"[0-9]{1,9}", target) else -1
    if target in ("False", "True") and k == 2:
        index = int(target == "True")
    return (index if index < k else -1), text, False
