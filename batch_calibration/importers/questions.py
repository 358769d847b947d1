"""Converts per-question choices to a score matrix [n, k] with one meaning for each column.

A log's importer creates a `Row` for each question. `import_rows` combines the rows.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.files import Json, count_at
from batch_calibration.importers import base, cells
from batch_calibration.importers.gold import refuse_counted_from_one
from batch_calibration.responses.top_k import refuse_absent_labels, scores_of_top_k
from batch_calibration.scores import NO_PLACE_BIAS

CHOICES = "choices"  # name in `Reading.by` for a row's number of choices
FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
"""Spellings of True and False in logs."""
MAX_PROMPTS = 1000  # most prompts of a log to compare
MIN_ROWS_TO_WARN = 10  # in fewer rows, the same right choice may be chance

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A question.

    Attributes:
        id: The row's id.
        scores: The log-probability of each choice, in nats.
        choices: The texts of the choices; () if the prompt lists the choices.
        target: The right choice in the form of the log: an index, a text, or a list of these;
            or None for an unknown choice.
        right: True if the log counts the choice with the highest score as right, or None.
        alone: The log-probability of each choice without the question; () if the log has none.
        columns: The row's values of the columns in `Reading.by`.
        bound: The lowest log-probability returned for the row, or None with all choices scored.
        prompt: The text before the choices, for the first rows of a log; "" if it is unknown.
    """

    id: str
    scores: tuple[float, ...]
    choices: tuple[str, ...] = ()
    target: Json = None
    right: bool | None = None
    alone: tuple[float, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    bound: float | None = None
    prompt: str = ""

    @cached_property
    def bare_choices(self) -> tuple[str, ...]:
        """The texts without surrounding spaces."""
        return tuple(map(str.strip, self.choices))


def score_by_first_tokens(
    rows: Sequence[Row], lists: Sequence[Mapping[str, float]], where: str, reading: base.Reading
) -> list[Row]:
    """Returns rows with scores of their choices, from the most probable first tokens.

    Args:
        rows: Questions without scores.
        lists: For each row, token -> log-probability at the answer's position, in nats.
        where: The log's name, for messages.
        reading: The user's description of the log, with the tokens that mean a choice.
    """
    scored = list(rows)
    by_choices: dict[tuple[str, ...], list[int]] = {}  # choices -> indices of rows
    for i, row in enumerate(rows):
        by_choices.setdefault(row.choices, []).append(i)
    for choices, indices in by_choices.items():
        tokens = {name: texts for name, texts in reading.tokens.items() if name in choices}
        lists_of_choices = [lists[i] for i in indices]
        top = scores_of_top_k(lists_of_choices, choices, tokens, where)
        refuse_absent_labels(top, lists_of_choices, where)
        for i, scores, bound in zip(indices, top.log_probs, top.bound, strict=True):
            scored[i] = replace(scored[i], scores=tuple(map(float, scores)), bound=float(bound))
    return scored


# Fields of a row


def read_flag(cell: object) -> bool | None:
    """Parses a flag of a right answer; returns None for other cells."""
    return FLAGS.get(str(cell).strip().lower())


def by_columns(
    fields: Mapping[str, object], where: str, reading: base.Reading, *, kind: str = "document"
) -> dict[str, str]:
    """Returns the fields in `reading.by`; `kind` names the owner of the fields in messages."""
    columns = {}
    for name in reading.by:
        if name != CHOICES:
            columns[name] = str(_field(fields, name, where, kind))
    return columns


def target_of(
    fields: Mapping[str, T], target: T, where: str, reading: base.Reading, *, kind: str = "document"
) -> T:
    """Returns the right choice: the field that `reading.gold` names, or else the log's `target`."""
    return _field(fields, reading.gold, where, kind) if reading.gold else target


def _field(fields: Mapping[str, T], name: str, where: str, kind: str) -> T:
    """Returns a field; its name may begin with "doc.", as in the harness's templates."""
    name = name.removeprefix("doc.")
    if name not in fields:
        known = [*list(fields)[:20], CHOICES]  # the last one is no field, but `by` takes it
        raise InputError.unknown(f"field of the {kind}", name, known, where=where)
    return fields[name]


# The prompts of one context


def note_differing_demonstrations(
    prompts: Sequence[str], shots: int | None, remedy: str
) -> list[str]:
    r"""Returns a note if the demonstrations differ between rows, else an empty list.

    Usually, all prompts end with the same line, such as "Answer:". The line also ends the question
    of each demonstration, so its occurrences count the demonstrations. In one context, the
    demonstrations are equal in all prompts. If no line ends all prompts and the number of shots is
    known, the length of the shared beginning decides.

    Args:
        prompts: The first prompts of a log, `MAX_PROMPTS` at most.
        shots: The number of demonstrations, or None for an unknown number.
        remedy: The end of the note, on how to give every row the same demonstrations.

    >>> shared, differing = ("Q: a\nA: b\nQ: d\nA:", "Q: e\nA: b\nQ: d\nA:")
    >>> note_differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", shared], 1, "ask.")
    []
    >>> note_differing_demonstrations(["Q: a\nA: b\nQ: c\nA:", differing], 1, "ask.")[0][:42]
    'The demonstrations differ from row to row:'
    """
    if len(prompts) < 2 or shots == 0:
        return []
    shared = len(cells.shared_beginning(prompts))
    mean = max(sum(map(len, prompts)) / len(prompts), 1.0)  # prompts may be empty
    ending = _last_line(cells.shared_beginning([prompt[::-1] for prompt in prompts])[::-1])
    # The last occurrence ends the query; each earlier one ends a demonstration's question.
    count = min([prompt.count(ending) for prompt in prompts]) - 1 if ending else 0
    if count > 0:
        demonstrations = {tuple(prompt.split(ending, count)[:count]) for prompt in prompts}
        is_one_context = len(demonstrations) == 1
    else:
        # If demonstrations are as long as queries, shots / (shots + 1) of a prompt is shared.
        is_one_context = shots is None or shared / mean > 0.5 * shots / (shots + 1)
    if is_one_context:
        return []
    return [
        f"The demonstrations differ from row to row: the prompts share their first {shared:,} of "
        f"{mean:,.0f} characters ({100 * shared / mean:.0f} %). The rows come from several "
        f"prompts, and BC and similar methods would correct their average bias; {remedy}"
    ]


def _last_line(ending: str) -> str:
    """Returns the last whole line of the prompts' shared ending, or else its last word."""
    lines = ending.rstrip().rsplit("\n", 1)
    last = "\n" + lines[-1] if len(lines) == 2 else "".join(lines[-1].split()[-1:])
    return last if len(last.strip()) > 1 else ""  # one letter may end any line


# From rows to scores


def choice_orders(rows: Sequence[Row]) -> np.ndarray | None:
    """Returns the indices [n, k] of the first row's choices in each row, or None for other choices.

    >>> choice_orders([Row("0", (), (" no", " yes")), Row("1", (), ("yes", "no"))]).tolist()
    [[0, 1], [1, 0]]
    """
    first = rows[0].bare_choices
    if not first or not all(first) or len(set(first)) < len(first):
        return None
    orders = []
    for row in rows:
        if len(row.choices) != len(first) or set(row.bare_choices) != set(first):
            return None
        orders.append([row.bare_choices.index(text) for text in first])
    return np.array(orders)


def import_rows(
    rows: Sequence[Row],
    where: str,
    reading: base.Reading,
    context: Mapping[str, Json],
    notes: Sequence[str] = (),
    remedy: str = "",
) -> list[base.Imported]:
    """Combines rows into one `Imported`, or one per number of choices with `by=("choices",)`.

    Args:
        rows: Questions of one context.
        where: The log's name, for messages.
        reading: The user's description of the log.
        context: Known facts of the log; None and "" are left out.
        notes: Notes on the log.
        remedy: How to give every row the same demonstrations; "" if prompts are unknown.
    """
    if not rows:
        raise InputError.at(where, "at least one row", "none")
    context = {name: fact for name, fact in context.items() if fact not in (None, "")}
    if remedy:
        prompts = [row.prompt for row in rows[:MAX_PROMPTS]]
        shots = count_at(context, "shots")
        notes = [*note_differing_demonstrations(prompts, shots, remedy), *notes]
    by_count: dict[int, list[int]] = {}  # number of choices -> indices of rows
    for i, row in enumerate(rows):
        by_count.setdefault(len(row.scores), []).append(i)
    if len(by_count) > 1 and CHOICES not in reading.by:
        counts = Counter(len(row.scores) for row in rows).most_common()
        listed = ", ".join(f"{k} in {n:,} rows" for k, n in counts)
        raise InputError(
            f"{where}: the number of choices varies ({listed}), but a label must mean the same in "
            f"all rows; pass {spell('by', 'choices')}, which makes a separate context for "
            "each number of choices."
        )
    if lacking := len(by_count.get(0, [])) + len(by_count.get(1, [])):
        got = f"fewer in {lacking:,} of {len(rows):,} rows"
        raise InputError.at(where, "two choices or more", got, "use a multiple-choice log")
    contexts = []
    for _, indices in sorted(by_count.items()):
        imported = _stack_rows([rows[i] for i in indices], where, reading)
        about = {**imported.about, **context}
        imported = replace(imported, about=about, file_rows=np.array(indices))
        contexts.append(replace(imported, notes=(*notes, *imported.notes)))
    return contexts


def _stack_rows(rows: Sequence[Row], where: str, reading: base.Reading) -> base.Imported:
    """Combines rows that have the same number of choices."""
    # Labels are the texts of the choices if all rows have the same texts, else their positions.
    orders, names = choice_orders(rows), rows[0].bare_choices
    names = cells.numbered_names(len(rows[0].scores)) if orders is None else names
    notes = [cells.note_places(names[0])] if orders is None else []
    scores = np.array([row.scores for row in rows], np.float64)
    # A score table stores float32, where close scores may be ties.
    predicted = scores.astype(np.float32).argmax(axis=1)
    # 1 if the log counts the prediction as right, 0 if wrong, -1 if unknown.
    right = np.array([-1 if row.right is None else int(row.right) for row in rows])
    gold, gold_notes = gold_labels(rows, predicted, right, where)
    notes += gold_notes
    is_counted = (right >= 0) & (gold >= 0)
    counted, ours = right[is_counted], (predicted == gold)[is_counted]
    if differing := int((counted != ours).sum()):
        notes.append(
            f"The log's own accuracy is {100 * counted.mean():.1f} %, the highest score gives "
            f"{100 * ours.mean():.1f} %: they disagree on {differing:,} of {len(counted):,} "
            "rows, so the log judges by another rule, or a target was misread."
        )
    right_labels, about = np.unique(gold[gold >= 0]), dict[str, Json]()
    if orders is None and not any(map(_lists_choices, rows)):
        about[NO_PLACE_BIAS] = "no prompt lists the choices, so a position has no bias"
    if orders is None and len(right_labels) == 1 and len(gold) >= MIN_ROWS_TO_WARN:
        about[NO_PLACE_BIAS] = "the right choice has the same position in every row"
        notes.append(
            f"The right choice is {names[right_labels[0]]} in every row: its position reveals the "
            "answer, so accuracy after correction is meaningless; shuffle the choices and ask "
            "again."
        )
    blocks = {}
    if all(row.alone for row in rows):  # a block has scores for every row or is left out
        blocks["pmi"] = np.array([row.alone for row in rows], np.float64)
    if orders is not None and (orders != orders[0]).any():
        notes.append("The order of the choices varies from row to row; they are matched by text.")
        scores = np.take_along_axis(scores, orders, axis=1)
        for name, block in blocks.items():
            blocks[name] = np.take_along_axis(block, orders, axis=1)
        gold = np.where(gold < 0, -1, (orders == gold[:, None]).argmax(axis=1))
    # If the choices are the same in all rows, one row of scores without a question is enough.
    if blocks and (blocks["pmi"] == blocks["pmi"][0]).all():
        blocks["pmi"] = blocks["pmi"][:1]
    has_bounds = all(row.bound is not None for row in rows)
    bound = np.array([row.bound for row in rows], np.float64) if has_bounds else None
    columns = {}
    for name in reading.by:
        columns[name] = [str(len(r.scores)) if name == CHOICES else r.columns[name] for r in rows]
    ids = tuple([row.id for row in rows])
    imported = base.Imported(where, scores, names, gold, ids, bound, columns=columns, blocks=blocks)
    imported = replace(imported, notes=tuple(notes), full=orders is not None, about=about)
    return imported.take_labels(reading.labels)


def _lists_choices(row: Row) -> bool:
    """Checks whether a prompt lists the choices of its row, or may do so."""
    return not row.prompt or all(choice in row.prompt for choice in row.bare_choices)


def gold_labels(
    rows: Sequence[Row], predicted: np.ndarray, right: np.ndarray, where: str
) -> tuple[np.ndarray, list[str]]:
    """Returns the right choice [n] of each row, -1 if unknown, and notes on the derivation.

    A target may be both the text of one choice and the index of another. The reading that agrees
    more often with `right` is then used. After a tie, the reading must be the only one that fits
    all targets. If no target is a choice and each row has two choices, `right` determines the right
    choice.

    Args:
        rows: Questions with the same number of choices.
        predicted: [n], the index of the choice with the highest score.
        right: [n], 1 if the log counts this choice as right, 0 if wrong, -1 if unknown.
        where: The log's name, for messages.

    Raises:
        InputError: Both readings are possible, or indices count from 1.
    """
    index, text, are_several = np.array(list(map(_target_labels, rows))).T  # each [n]
    n, k, notes = len(rows), len(rows[0].scores), []
    have_target = (index >= 0) | (text >= 0)
    # Indices from 1 would each be read as the choice after the right one.
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
            f"agrees with the log's own results in {agreement[kind]:,} of {n:,} rows, the other "
            f"reading in {agreement[other_kind]:,}"
        )
        if agreement[kind] == agreement[other_kind]:
            are_all = {"indices": (index >= 0)[have_target], "texts": (text >= 0)[have_target]}
            possible = [kind for kind in kinds if are_all[kind].all()]
            if len(possible) != 1:
                got = "numbers that may be either, and no `acc` to decide"
                remedy = "name a field of the document that holds one or the other, "
                remedy += spell("gold", "FIELD")
                raise InputError.at(where, "right choices that are indices or texts", got, remedy)
            kind, reason = possible[0], "fits all of them"
        gold = kinds[kind]
        notes.append(
            f"The targets may be indices or texts of choices; they are read as {kind}, which "
            f"{reason}."
        )
    if (gold < 0).all() and k == 2 and (right >= 0).any():
        gold = np.where(right < 0, -1, np.where(right == 1, predicted, 1 - predicted))
        notes.append(
            "The log does not name the right choice: it is the choice with the higher score if the "
            "log counts the row as right, and the other choice if not."
        )
    if lacking := int((gold < 0).sum()):
        several = int(are_several.sum())
        why = f", {several:,} of them because several are right" if several else ""
        notes.append(f"The right choice of {lacking:,} of {n:,} rows is not known{why}.")
    return gold, notes


def _target_labels(row: Row) -> tuple[int, int, bool]:
    """Returns the choice of a target read as an index, and read as a text, or -1 for no choice.

    The third value is True if several choices are right. The index may be k, in logs that count
    from 1.
    """
    target, k, texts = row.target, len(row.scores), row.bare_choices
    listed = isinstance(target, str) and re.fullmatch(r"\s*\[(.*)\]\s*", target, re.DOTALL)
    if listed and str(target).strip() not in texts:
        # Harness logs since 0.4.9 store every target as text, and a list as its repr.
        target = [member.strip().strip("'\"") for member in listed[1].split(",")]
    if isinstance(target, list):
        if len(target) != 1:
            return -1, -1, len(target) > 1
        target = target[0]
    if isinstance(target, int):
        # A bool is an int: False is the first choice, True the second.
        return (int(target) if 0 <= target <= k else -1), -1, False
    if not isinstance(target, str):
        return -1, -1, False
    target = target.strip()
    text = texts.index(target) if texts.count(target) == 1 else -1
    # Nine digits fit into 32 bits.
    index = int(target) if re.fullmatch(r"[0-9]{1,9}", target) else -1
    if target in ("False", "True") and k == 2:
        index = int(target == "True")
    return (index if index <= k else -1), text, False
