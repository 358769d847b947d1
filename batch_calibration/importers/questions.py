"""Questions with choices, as logs hold them: rows become columns of scores with one meaning each.

A log's importer makes a `Row` of each question; `import_rows` makes scores of the rows.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.files import Json, count_at
from batch_calibration.importers import base, cells
from batch_calibration.importers.gold import refuse_counted_from_one
from batch_calibration.responses.top_k import refuse_absent_labels, scores_of_top_k

CHOICES = "choices"  # the column of `Reading.by` that is a row's number of choices
FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
"""Spellings of whether an answer is right."""
MAX_PROMPTS = 1000  # prompts of a log that are compared
MIN_ROWS_TO_WARN = 10  # rows below which a right choice that is always the same one may be chance

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A question.

    Attributes:
        id: the row's name.
        scores: log-probability of each choice, in nats.
        choices: their texts; () if the prompt lists the choices.
        target: the right choice as the log has it: index, text, or a list of these; None if
            unknown.
        right: whether the log counts the highest score as right; None if it does not say.
        alone: log-probability of each choice without the question; () if it was not asked.
        columns: values of the columns that `Reading.by` names.
        bound: least log-probability that was returned; None if all choices were scored.
        prompt: the text before the choices, of the first rows of a log; "" if it is not known.
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
        """The texts without the spaces around them."""
        return tuple(map(str.strip, self.choices))


def score_by_first_tokens(
    rows: Sequence[Row], lists: Sequence[Mapping[str, float]], where: str, reading: base.Reading
) -> list[Row]:
    """Rows with the scores of their choices, where a choice is an answer of one token.

    `lists` are, for each row, token -> log-probability at the answer, in nats; `reading.tokens` say
    which tokens mean a choice.
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
    """True or False as a cell says of an answer; None if it says neither."""
    return FLAGS.get(str(cell).strip().lower())


def by_columns(
    fields: Mapping[str, object], where: str, reading: base.Reading, *, kind: str = "document"
) -> dict[str, str]:
    """The columns of `reading.by` among a row's fields; `kind` says in sentences what has them."""
    columns = {}
    for name in reading.by:
        if name != CHOICES:
            columns[name] = str(_field(fields, name, where, kind))
    return columns


def target_of(
    fields: Mapping[str, T], target: T, where: str, reading: base.Reading, *, kind: str = "document"
) -> T:
    """The right choice of a row: the log's own, or the field that `reading.gold` names."""
    return _field(fields, reading.gold, where, kind) if reading.gold else target


def _field(fields: Mapping[str, T], name: str, where: str, kind: str) -> T:
    """A field by its name, which may begin with "doc." as in the harness's own documents."""
    name = name.removeprefix("doc.")
    if name not in fields:
        listed = ", ".join(map(shown, list(fields)[:20])) or "none"
        raise InputError(
            f"{where}: the {kind} has no field {shown(name)}; it has {listed}, and {spell('by')} "
            "also takes 'choices'."
        )
    return fields[name]


# Prompts of one context


def note_differing_demonstrations(
    prompts: Sequence[str], shots: int | None, remedy: str
) -> list[str]:
    r"""A note if the demonstrations differ from row to row.

    The last line that all prompts end in, for example "Answer:", also ends each demonstration's
    question: its occurrences count the demonstrations, and the text before the last occurrence is
    equal in all prompts of one context. If the prompts share no line, and shots are known, the
    length of their shared beginning decides.

    Args:
        prompts: of a log, `MAX_PROMPTS` at most.
        shots: how many demonstrations, where the log says so.
        remedy: how to give every row the same, the end of a sentence.

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
    # The last occurrence ends the query, each other one a demonstration's question.
    count = min([prompt.count(ending) for prompt in prompts]) - 1 if ending else 0
    if count > 0:
        demonstrations = {tuple(prompt.split(ending, count)[:count]) for prompt in prompts}
        is_one_context = len(demonstrations) == 1
    else:
        # If demonstrations are as long as queries, n of n + 1 parts are shared.
        is_one_context = shots is None or shared / mean > 0.5 * shots / (shots + 1)
    if is_one_context:
        return []
    return [
        f"The demonstrations differ from row to row: the prompts share their first {shared:,} of "
        f"{mean:,.0f} characters ({100 * shared / mean:.0f} %). The rows come from several "
        f"prompts, and BC and similar methods would correct their average bias; {remedy}"
    ]


def _last_line(ending: str) -> str:
    """The last whole line that all prompts end in, or its last word where it has no line."""
    lines = ending.rstrip().rsplit("\n", 1)
    last = "\n" + lines[-1] if len(lines) == 2 else "".join(lines[-1].split()[-1:])
    return last if len(last.strip()) > 1 else ""  # a single letter ends too much


# Rows as scores


def choice_orders(rows: Sequence[Row]) -> np.ndarray | None:
    """Places [n, k] of the first row's choices in each row; None if a row has other choices.

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
    """Rows as scores: one `Imported`, or one for each number of choices with `by=("choices",)`.

    Args:
        rows: of one prompt, but for the questions.
        where: the log's name, for sentences.
        reading: the user's description of the log.
        context: what is known of it; None and "" are left out.
        notes: on it.
        remedy: how to give every row the same demonstrations; "" if no prompts are known.
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
        raise InputError(
            f"{where}: {lacking:,} of {len(rows):,} rows have fewer than two choices, but a "
            "bias needs two or more; use a multiple-choice log."
        )
    contexts = []
    for _, indices in sorted(by_count.items()):
        imported = _stack_rows([rows[i] for i in indices], where, reading)
        imported = replace(imported, about=context, file_rows=np.array(indices))
        contexts.append(replace(imported, notes=(*notes, *imported.notes)))
    return contexts


def _stack_rows(rows: Sequence[Row], where: str, reading: base.Reading) -> base.Imported:
    """Rows of one number of choices as scores."""
    # Labels are the choices' texts, in whatever order, or else their places.
    orders, names = choice_orders(rows), rows[0].bare_choices
    names = cells.numbered_names(len(rows[0].scores)) if orders is None else names
    notes = [cells.note_places(names[0])] if orders is None else []
    scores = np.array([row.scores for row in rows], np.float64)
    # As a table holds them: numbers that round to the same float32 are a tie there.
    predicted = scores.astype(np.float32).argmax(axis=1)
    # 1 or 0 as the log counts it; -1 if it does not say.
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
    right_labels = np.unique(gold[gold >= 0])
    if orders is None and len(right_labels) == 1 and len(gold) >= MIN_ROWS_TO_WARN:
        notes.append(
            f"The right choice is {names[right_labels[0]]} in every row: its position reveals the "
            "answer, so accuracy after correction is meaningless; shuffle the choices and ask "
            "again."
        )
    blocks = {}
    if all(row.alone for row in rows):  # a block has scores for every row or is left out
        blocks["pmi"] = np.array([row.alone for row in rows], np.float64)
    if orders is not None and (orders != orders[0]).any():
        notes.append("The order of the choices varies from row to row: they are matched by text.")
        scores = np.take_along_axis(scores, orders, axis=1)
        for name, block in blocks.items():
            blocks[name] = np.take_along_axis(block, orders, axis=1)
        gold = np.where(gold < 0, -1, (orders == gold[:, None]).argmax(axis=1))
    # Choices that are the same in all rows are asked alone once.
    if blocks and (blocks["pmi"] == blocks["pmi"][0]).all():
        blocks["pmi"] = blocks["pmi"][:1]
    has_bounds = all(row.bound is not None for row in rows)
    bound = np.array([row.bound for row in rows], np.float64) if has_bounds else None
    columns = {}
    for name in reading.by:
        columns[name] = [str(len(r.scores)) if name == CHOICES else r.columns[name] for r in rows]
    ids = tuple([row.id for row in rows])
    imported = base.Imported(where, scores, names, gold, ids, bound, columns=columns, blocks=blocks)
    imported = replace(imported, notes=tuple(notes), full=orders is not None)
    return imported.take_labels(reading.labels)


def gold_labels(
    rows: Sequence[Row], predicted: np.ndarray, right: np.ndarray, where: str
) -> tuple[np.ndarray, list[str]]:
    """The right choice [n] of each row, -1 if unknown, and notes on how it was found.

    `predicted` [n] are the choices of the highest scores, `right` [n] says which of them the log
    counts as right.

    A target may be the text of one choice and the index of another. Then it is read so that it
    agrees with the log's counts, or as the kind that all targets can be. If no target is a choice,
    and there are two choices, the log's counts tell the right one.
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
            kind, reason = possible[0], "all of them can be"
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
    """A target as index and as text, -1 where it is none; True with them if several are right.

    An index may be k, in logs that count from 1.
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
