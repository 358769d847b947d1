"""Finds the labels' scores in tables with lists and dicts in their cells."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from itertools import chain

import numpy as np

from batch_calibration.arrays.frames import GOLD
from batch_calibration.arrays.score_scale import to_nats
from batch_calibration.errors import InputError, spell
from batch_calibration.importers import cells
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Columns
from batch_calibration.importers.vectors import first_cell, is_vector
from batch_calibration.responses import servers, top_k
from batch_calibration.responses.answers import choose_places
from batch_calibration.responses.shapes import Answer, Pair, find_answers, unpack

PROMPT = r"(^|\.)(prompt|input|prefill)"
"""Pattern of keys with scores of the prompt instead of the answer."""
SCORES = "scores"  # the name of the column that gets the scores of all labels
SEVERAL = "several"
MAX_ROWS_LOOKED_AT = 1000  # rows that are checked for answers without numbers
Answers = list[Answer | None]  # of each row


def or_nested(read: Callable[..., Imported]) -> Callable[..., Imported]:
    """Wraps a reader of columns: if it finds no scores, nested cells are searched for them."""

    @wraps(read)
    def read_or_search(
        where: str, columns: Columns, reading: Reading, task: str, label_names: Sequence[str] = ()
    ) -> Imported:
        try:
            return read(where, columns, reading, task, label_names)
        except InputError:
            nested = _nested_columns(columns)
            plain = {name: column for name, column in columns.items() if name not in nested}
            if reading.labels and plain.keys() >= set(reading.labels):
                raise
            flat = plain | _flatten(nested, plain, reading)
            by_path = _answers_by_path(nested, reading)
            named = {reading.gold, reading.ids, *reading.by, *plain}
            beside = {name: column for name, column in flat.items() if name in named}
            path = _choose_path(where, by_path, reading)
            if nested and not path:
                with suppress(InputError):
                    return read(where, flat, reading, task, label_names)
            if path := path or next(iter(by_path if reading.labels else ()), ""):
                # Raises if the answers hold no label.
                return _read_answers(read, where, beside, by_path[path], path, reading, task)
            if not by_path:
                if counted := _count_answers(where, nested, plain, reading):
                    columns, described, notes = counted
                    found = read(where, columns, described, task)
                    return replace(found, are_counts=True, notes=(*found.notes, *notes))
                _refuse_hard_labels(where, flat, reading)
                raise
            # Names of candidates that vary, or of tokens, are no labels by themselves.
            got = f"none, beside the candidates in {next(iter(by_path))!r}"
            remedy, expected = f"pass {spell('labels', ('yes', 'no'))}", "the model's answers"
            raise InputError.at(where, expected, got, remedy, "labels") from None

    return read_or_search


def _nested_columns(columns: Columns) -> dict[str, list[object]]:
    """Returns the columns with lists or dicts in their cells, unpacked."""
    nested = {}
    for name, column in columns.items():
        if not (isinstance(column, np.ndarray) and column.dtype.kind in "fiub"):
            unpacked = list(map(unpack, column))
            if any(isinstance(cell, list | dict) for cell in unpacked):
                nested[name] = unpacked
    return nested


def _flatten(
    nested: Mapping[str, list[object]], plain: Columns, reading: Reading
) -> dict[str, list[object]]:
    """Returns columns of the texts, numbers and lists inside of cells, one for each path.

    A number inside of a dict may be a count or a cost, so only numbers that the user names become
    columns.
    """
    leaves: dict[str, list[object]] = {}
    for name, column in nested.items():
        for row, cell in enumerate(column):
            for path, leaf in _leaves(cell, name):
                leaves.setdefault(path, [None] * len(column))[row] = leaf
    last_keys = {path: path.rpartition(".")[2] for path in leaves}
    uses = Counter([*last_keys.values(), *plain])
    named = {reading.gold, reading.ids, *reading.by, *reading.labels}
    flat = {}
    for path, key in last_keys.items():
        name, column = path if path in named or uses[key] > 1 else key, leaves[path]
        known = [leaf for leaf in column if leaf is not None]
        if all(isinstance(leaf, list) and len(leaf) == 1 for leaf in known):  # as R writes cells
            column = [leaf[0] if isinstance(leaf, list) else None for leaf in column]
        if path in nested or name in named or not isinstance(first_cell(column), int | float):
            flat[name] = column
    return flat


def _leaves(node: object, path: str) -> Iterator[tuple[str, object]]:
    """Yields texts, numbers and lists of these with their paths; a list of one dict is the dict."""
    if isinstance(node, list) and len(node) == 1 and isinstance(node[0], dict):
        (node,) = node
    if isinstance(node, dict):
        for key, member in node.items():
            yield from _leaves(member, f"{path}.{key}")
    else:
        yield path, node


def _answers_by_path(nested: Mapping[str, list[object]], reading: Reading) -> dict[str, Answers]:
    """Returns the answers inside of cells, by the keys that lead to them.

    A row with different answers under the same keys has the path `SEVERAL`.
    """
    by_path: dict[str, Answers] = {}
    ids = frozenset(chain(*reading.tokens.values()))
    for name, column in nested.items():
        for row, cell in enumerate(column):
            for answer in find_answers(cell, name, ids):
                answers = by_path.setdefault(answer.path, [None] * len(column))
                first = answers[row] or answer
                is_other = first.lists != answer.lists
                answers[row] = first._replace(path=SEVERAL) if is_other else first
    return {path: by_path[path] for path in by_path if not _are_counts(by_path[path])}


def _are_counts(answers: Answers) -> bool:
    """Checks whether the numbers of candidates are counts, perhaps with a cost."""
    lists = chain.from_iterable(answer.lists for answer in answers if answer)
    return all(cells.are_counts(list(dict(pairs).values())) for pairs in lists)


def _choose_path(where: str, by_path: Mapping[str, Answers], reading: Reading) -> str:
    """Returns the keys that lead to the labels' scores, or "" if there are no such keys.

    If the user names labels, their scores are the answers with the most labels among their
    candidates. Otherwise, they are the answers with the same candidates in all rows.
    """
    fits: dict[str, int] = {}
    for path, answers in by_path.items():
        known = [answer for answer in answers if answer]
        texts = list(map(_texts, known))
        if reading.labels:
            tokens = dict.fromkeys(chain(*texts), 1.0)
            label_of, _ = top_k.match_tokens(tokens, reading.labels, reading.tokens, where)
            fits[path] = len(set(label_of.values()))
        elif "*" not in path and all(map(_has_labels, known)):
            names = sorted(texts[0])
            fits[path] = len(names) > 1 and all(sorted(of_row) == names for of_row in texts)
    most = max(fits.values(), default=0)
    best = [path for path, fit in fits.items() if fit == most > 0]
    of_answers = [path for path in best if not re.search(PROMPT, path)]
    chosen: dict[str, object] = {}
    for path in of_answers or best:
        lists = [answer and answer.lists for answer in by_path[path]]
        is_inside = any(path.startswith(f"{outer}.") for outer in chosen)
        is_written = any(_are_written(by_path[path], by_path[other]) for other in best)
        if not (is_inside or is_written or lists in chosen.values()):
            chosen[path] = lists
    if len(chosen) > 1:
        expected = "one answer in a row"
        remedy = "leave the others out, or write them to files of their own"
        raise InputError.at(where, expected, " and ".join(map(repr, chosen)), remedy)
    return "".join(chosen)


def _texts(answer: Answer) -> list[str]:
    """Returns the texts of all candidates of an answer."""
    return [str(text) for text, _ in chain(*answer.lists)]


def _has_labels(answer: Answer) -> bool:
    """Checks whether candidates may be labels, unlike tokens with log-probabilities."""
    is_token = bool(answer.tokens[0]) and not any(number > 0 for _, number in answer.lists[0])
    return len(answer.lists) == 1 and not is_token


def _are_written(answers: Answers, others: Answers) -> bool:
    """Checks whether candidates are the written tokens of another answer."""
    are_tokens = []
    for answer, other in zip(answers, others, strict=True):
        if answer and other:
            are_tokens.append([text for text, _ in answer.lists[0]] == other.tokens)
    return bool(are_tokens) and all(are_tokens)


def _read_answers(
    read: Callable[..., Imported],
    where: str,
    columns: Columns,
    answers: Answers,
    path: str,
    reading: Reading,
    task: str,
) -> Imported:
    """Returns the scores of the labels in the answers, with the columns beside them."""
    labels, given = reading.labels, {row: answer for row, answer in enumerate(answers) if answer}
    at = {row: f"{where}, row {row} (counted from 0)" for row in given}
    for row in given:
        if given[row].path == SEVERAL:
            expected = f"one answer in {path!r}"
            raise InputError.at(at[row], expected, SEVERAL, "write each to a row of its own")
    places, notes = list[int | None]([0] * len(given)), [f"The scores are read in {path!r}."]
    if labels:
        written = [answer.tokens for answer in given.values()]
        found = choose_places(written, list(at.values()), labels, reading.at, reading.tokens)
        places, notes = found[0], notes + found[1]
    # A row without candidates is kept without scores; an answer without a label is left out.
    rows: dict[int, list[Pair]] = {row: [] for row in range(len(answers))}
    for row, place in zip(given, places, strict=True):
        if place is None:
            del rows[row]
        else:
            rows[row] = given[row].lists[place]
    columns = {name: list(map(columns[name].__getitem__, rows)) for name in columns}
    bound, are_above_0 = None, any(number > 0 for _, number in chain(*rows.values()))
    if labels and (reading.from_probs or not are_above_0):
        listed = {}
        for row in filter(rows.get, rows):
            texts, numbers = zip(*rows[row], strict=True)
            nats = to_nats(np.array(numbers, np.float64), at[row], reading.from_probs or False)
            listed[row] = servers.read_tokens(zip(texts, nats.tolist(), strict=True), at[row])
        top = top_k.scores_of_top_k([*listed.values()], labels, reading.tokens, where)
        top_k.refuse_absent_labels(top, [*listed.values()], where)
        scores = np.full((len(answers), len(labels) + 1), np.nan)  # [n, k] and the bound
        scores[[*listed]] = np.column_stack([top.log_probs, top.bound])
        *of_labels, bound = scores[[*rows]].T
        for name, column in zip(labels, of_labels, strict=True):
            columns[name] = np.exp(column) if reading.from_probs else column
        notes.append(servers.note_tokens(top.tokens))
    else:
        columns[SCORES] = [dict(pairs) or None for pairs in rows.values()]
    imported = read(where, columns, reading, task)
    notes += imported.notes
    return replace(
        imported, bound=bound, file_rows=np.array([*rows]), notes=tuple(notes), full=True
    )


def _count_answers(
    where: str, nested: Mapping[str, list[object]], plain: Columns, reading: Reading
) -> tuple[Columns, Reading, list[str]] | None:
    """Counts each label in the column of lists of answers, or of dicts of counts if stated.

    A list of answers repeats a label in some row, unlike a list of choices.

    Returns:
        The plain columns with a column of counts for each label, the reading with these labels and
        the column of right labels that names them, and notes; None without such a column.
    """
    gold, tokens = _find_gold(plain, reading), reading.tokens
    kinds = (list, dict, type(None)) if reading.from_probs == "counts" else (list, type(None))
    if dict not in kinds and any(map(is_vector, nested.values())):
        return None
    known = set(map(cells.text_of, plain.get(gold, ()))) - {"", "-1"}
    labels, found = reading.labels or tuple(sorted(known)), dict[str, list[Counter[str]]]()
    # Right labels that are indices do not name the labels.
    is_unnamed = not reading.labels and all(map(str.isdecimal, known))
    for name, column in nested.items():
        if all(isinstance(cell, kinds) for cell in column):
            counts = list(map(_count_texts, column))
            most = max((max(of_row.values()) for of_row in counts if of_row), default=0)
            totals = _sum_counts(counts)
            if most > 1 and (is_unnamed or top_k.match_tokens(totals, labels, tokens, where)[0]):
                found[name] = counts
    if len(found) > 1:
        got, remedy = " and ".join(map(repr, found)), "leave the others out"
        raise InputError.at(where, "one column of answers", got, remedy)
    for name, counts in found.items():
        at, totals = f"{where}, column {name!r}", _sum_counts(counts)
        label_of, notes = match_answers(totals, labels, tokens, at)
        table = np.zeros((len(counts), len(labels)))
        for row, count in enumerate(counts):
            for text in count.keys() & label_of.keys():
                table[row, label_of[text]] += count[text]
        notes.append(f"The answers in {name!r} are counted for the labels {', '.join(labels)}.")
        if not reading.labels:
            notes.append(f"They are the labels of the column {gold!r}, read as right labels.")
            reading = replace(reading, labels=labels, gold=gold)
        others = {other: plain[other] for other in plain if other not in labels}
        return {**others, **dict(zip(labels, table.T, strict=True))}, reading, notes
    return None


def match_answers(
    counts: Counter[str], labels: Sequence[str], tokens: top_k.Forms, where: str
) -> tuple[dict[str, int], list[str]]:
    """Maps texts of answers to the index of their label, with a note on texts that name none."""
    label_of = top_k.match_tokens(counts, labels, tokens, where)[0] if labels else {}
    if len(labels) < 2 or not label_of:
        names = tuple(text for text, _ in counts.most_common(2))
        got, remedy = ", ".join(map(repr, names)), f"name the labels: {spell('labels', names)}"
        raise InputError.at(where, "answers that name labels", got, remedy, "labels")
    lost = Counter({text: counts[text] for text in counts if text not in label_of})
    text = max(lost, key=lost.__getitem__, default="")
    note = f"{where}: {lost.total():,.0f} of {counts.total():,.0f} answers name no label, such as "
    return label_of, [f"{note}{text!r}, and are left out."] * bool(lost)


def _count_texts(cell: object) -> Counter[str]:
    """Counts the texts of a list, or returns the counts of a dict."""
    if isinstance(cell, dict):
        numbers = {key: cells.number_of(count) or 0.0 for key, count in cell.items()}
        return Counter(numbers)
    return Counter(filter(None, map(cells.text_of, cell or ())))  # type: ignore[call-overload]


def _sum_counts(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Returns the sum of the counts of all rows."""
    total = Counter[str]()
    for of_row in counts:
        total.update(of_row)
    return total


def _refuse_hard_labels(where: str, columns: Columns, reading: Reading) -> None:
    """Raises an error for answers without numbers, such as Anthropic's messages."""
    gold = _find_gold(columns, reading)
    columns = {name: column[:MAX_ROWS_LOOKED_AT] for name, column in columns.items()}
    texts = {name: Counter(map(_bare, column)) - Counter([""]) for name, column in columns.items()}
    labels = set(map(_bare, reading.labels or texts.get(gold, ())))
    answers = list[str]()
    for name, column in columns.items():
        numbers, _ = cells.numbers_of(column)
        if is_vector(column) or (numbers[np.isfinite(numbers)] % 1).any():
            return
        named = sum(texts[name][label] for label in labels)
        are_labels = len(texts[name]) > 1 and 2 * named > texts[name].total()
        if name not in (gold, reading.ids, *reading.by) and are_labels:
            answers.append(name)
    answers += [name for name in columns if name == "stop_reason"]
    if answers:
        got = f"answers without numbers, in {answers[0]!r}"
        remedy = (
            "ask an API for log-probabilities (logprobs=true, top_logprobs=20), or ask 10 times "
            "and write a list of the answers in each cell; the command diagnose corrects their "
            f"shares, but no row, with {spell('answers', answers[0])} "
            f"{spell('gold', gold or 'COLUMN')}"
        )
        raise InputError.at(where, "log-probabilities of the labels", got, remedy)


def _find_gold(columns: Columns, reading: Reading) -> str:
    """Returns the column of right labels, or the first one with a usual name, or ""."""
    return reading.gold or next(filter(columns.__contains__, GOLD), "")


def _bare(cell: object) -> str:
    """Returns a text without capitals and without signs around it."""
    return top_k.fold(cells.text_of(cell).strip(top_k.AROUND))
