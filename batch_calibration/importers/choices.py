"""Questions with choices, as logs hold them, as columns of scores that mean one thing each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import (
    choose_labels,
    note_places,
    numbered_names,
    renumber_labels,
)
from batch_calibration.importers.targets import gold_labels, note_other_accuracy
from batch_calibration.responses import scores_of_top_k

CHOICES = "choices"
"""The column of `Reading.by` that is a row's number of choices."""
MIN_ROWS_TO_WARN = 10
"""Rows below which a right choice that is always the same one may be chance."""
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One question."""

    id: str  # the row's name
    scores: tuple[float, ...]  # log-probability of each choice, nats
    choices: tuple[str, ...] = ()  # their texts; () where the choices stand in the prompt
    # The right choice as the log has it: index, text, or a list of such; None if unknown.
    target: Json = None
    # Whether the log counts the highest score as right; None where it does not say.
    right: bool | None = None
    # Log-probability of each choice without the question; () where it was not asked.
    alone: tuple[float, ...] = ()
    # Values of the columns that `Reading.by` names.
    columns: Mapping[str, str] = field(default_factory=dict)
    # Least log-probability that was returned; None where all were asked for.
    bound: float | None = None

    @property
    def bare_choices(self) -> tuple[str, ...]:
        """The texts without the spaces around them."""
        return tuple(map(str.strip, self.choices))


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
        counts = Counter({k: len(group) for k, group in by_count.items()}).most_common()
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
    gold, gold_notes = gold_labels(rows, predicted, where)
    notes += gold_notes
    notes += note_other_accuracy(rows, predicted == gold, gold)
    right_labels = np.unique(gold[gold >= 0])
    if not are_fixed and len(right_labels) == 1 and len(rows) >= MIN_ROWS_TO_WARN:
        notes.append(
            f"The right choice is {names[right_labels[0]]} in every row: its place tells the "
            "answer, and accuracies of corrected scores mean nothing; shuffle the choices and ask "
            "again."
        )
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


def score_by_first_tokens(
    rows: Sequence[Row], lists: Sequence[Mapping[str, float]], where: str, reading: Reading
) -> list[Row]:
    """Rows whose choices are answers of one token, with the scores of these.

    Args:
        rows: n questions without scores.
        lists: for each, token -> log-probability where the model answered, in nats.
        where: what to call the log in sentences.
        reading: its `tokens` say which tokens mean a choice.
    """
    scored = list(rows)
    for choices in dict.fromkeys(row.choices for row in rows):
        indices = [i for i, row in enumerate(rows) if row.choices == choices]
        tokens = {name: texts for name, texts in reading.tokens.items() if name in choices}
        top = scores_of_top_k([lists[i] for i in indices], choices, tokens, where)
        for name, taken in top.tokens.items():
            if not taken:
                likely = [max(lists[i], key=lists[i].__getitem__) for i in indices[:5]]
                raise InputError(
                    f"{where}: no row's list has a token of the answer {shown(name)}; the "
                    f"likeliest are {shown(likely)}: ask for more tokens (top_logprobs=20), or "
                    "name those that mean it (tokens)."
                )
        for i, scores, bound in zip(indices, top.log_probs, top.bound, strict=True):
            scored[i] = replace(scored[i], scores=tuple(map(float, scores)), bound=float(bound))
    return scored


def by_columns(
    fields: Mapping[str, object], where: str, reading: Reading, *, kind: str = "document"
) -> dict[str, str]:
    """The values of the columns of `reading.by` among a row's fields; `kind` is what has them."""
    names = [name for name in reading.by if name != CHOICES]
    return {name: str(_field(fields, name, where, kind)) for name in names}


def target_of(
    fields: Mapping[str, T], target: T, where: str, reading: Reading, *, kind: str = "document"
) -> T:
    """The right choice of a row: the log's own, or the field that `reading.gold` names."""
    return _field(fields, reading.gold, where, kind) if reading.gold else target


def _field(fields: Mapping[str, T], name: str, where: str, kind: str) -> T:
    """A field by its name, which may begin with "doc." as the harness's own documents do."""
    name = name.removeprefix("doc.")
    if name not in fields:
        listed = ", ".join(map(shown, list(fields)[:20])) or "none"
        raise InputError(
            f"{where}: the {kind} has no field {shown(name)}; it has {listed}, and --by takes "
            "'choices' too."
        )
    return fields[name]


def label_names(rows: Sequence[Row]) -> tuple[tuple[str, ...], bool]:
    """Names of the labels, and whether they are the choices' own texts, in whatever order.

    >>> label_names([Row("0", (-1.0, -2.0), (" no", " yes"))])
    (('no', 'yes'), True)
    >>> label_names([Row("0", (-1.0, -2.0), ("a", "b")), Row("1", (-1.0, -2.0), ("c", "d"))])
    (('A', 'B'), False)
    """
    first = rows[0].bare_choices
    are_names = len(set(first)) == len(first) > 0 and all(first)
    if are_names and choice_orders(rows) is not None:
        return first, True
    return numbered_names(len(rows[0].scores)), False


def choice_orders(rows: Sequence[Row]) -> np.ndarray | None:
    """Where each row [n, k] has the choices of the first row, None where they are other ones."""
    first = rows[0].bare_choices
    if not first or len(set(first)) < len(first):
        return None
    orders = []
    for row in rows:
        if len(row.choices) != len(first) or set(row.bare_choices) != set(first):
            return None
        orders.append([row.bare_choices.index(text) for text in first])
    return np.array(orders)
