"""Tables with cells that hold lists and dicts: the scores of the labels, wherever they lie."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.importers import cells
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Columns
from batch_calibration.importers.vectors import first_cell, is_vector
from batch_calibration.responses import servers, top_k
from batch_calibration.responses.answers import choose_places
from batch_calibration.responses.servers import WrittenToken
from batch_calibration.responses.shapes import Answer, find_answers, unpack

PROMPT = ("prompt", "input", "prefill")
"""Beginnings of keys under which servers score the prompt in place of the answer."""
SCORES = "scores"  # the name of the column that gets the scores of all labels
Answers = list[Answer | None]  # of each row


def or_nested(read: Callable[..., Imported]) -> Callable[..., Imported]:
    """Wraps a reader of columns: where it finds no scores, nested cells are searched for them."""

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
            flat = {**plain, **_flatten(nested, plain, reading)}
            by_path = _answers_by_path(nested, reading)
            path = _choose_path(where, by_path, reading)
            if path:
                named = {reading.gold, reading.ids, *reading.by}
                own = {name: flat[name] for name in flat if name in plain or name in named}
                return _read_answers(read, where, own, by_path[path], path, reading, task)
            try:
                return read(where, flat, reading, task, label_names)
            except InputError:
                _refuse_hard_labels(where, flat, reading)
            # Names of tokens' candidates are no labels by themselves.
            of_tokens = [path for path in by_path if "prob" in path.lower()]
            if of_tokens and not reading.labels:
                raise _no_labels(where, of_tokens[0]) from None
            raise

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
    """Returns the texts, numbers and lists of these inside of cells, each kind as a column.

    A number inside of a dict may be a count or a cost: it stays where it is named.
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
        name = path if path in named or uses[key] > 1 else key
        if all(
            leaf is None or (isinstance(leaf, list) and len(leaf) == 1) for leaf in leaves[path]
        ):
            leaves[path] = [leaf and leaf[0] for leaf in leaves[path]]  # as R writes cells
        if path in nested or name in named or not isinstance(first_cell(leaves[path]), int | float):
            flat[name] = leaves[path]
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
    """Returns the answers that cells hold, by the keys that lead to them.

    Raises:
        InputError: two different answers of a row under the same keys.
    """
    by_path: dict[str, Answers] = {}
    ids = {form for forms in reading.tokens.values() for form in forms}
    for name, column in nested.items():
        for row, cell in enumerate(column):
            for answer in find_answers(cell, name):
                for pairs in answer.lists:
                    for i, (token, number) in enumerate(pairs):
                        if f"token_id:{token}" in ids:
                            pairs[i] = (f"token_id:{token}", number)
                answers = by_path.setdefault(answer.path, [None] * len(column))
                is_second = answers[row] is not None and answers[row].lists != answer.lists
                answers[row] = SEVERAL if is_second else answer
    return by_path


SEVERAL = Answer("", [], [])
"""Different answers under the same keys of a row."""


def _choose_path(where: str, by_path: Mapping[str, Answers], reading: Reading) -> str:
    """Returns the keys that lead to the labels' scores, "" without any.

    With labels, these are the answers with the most labels among their candidates. Without, these
    are answers with the same candidates in all rows.
    """
    fits: dict[str, int] = {}
    for path, answers in by_path.items():
        texts = list(map(_texts, filter(None, answers)))
        if reading.labels:
            tokens = dict.fromkeys([text for of_row in texts for text in of_row], 1.0)
            label_of, _ = top_k.match_tokens(tokens, reading.labels, reading.tokens, where)
            fits[path] = len(set(label_of.values()))
        elif len(texts[0]) > 1 and len(set(map(frozenset, texts))) == 1:
            fits[path] = not cells.derived_names(sorted(texts[0]))
    most = max(fits.values(), default=0)
    best = [path for path, fit in fits.items() if fit == most > 0]
    of_answers = [path for path in best if not _is_of_prompt(path)]
    chosen: dict[str, list[object]] = {}
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


def _texts(answer: Answer) -> set[str]:
    return {str(text) for pairs in answer.lists for text, _ in pairs}


def _is_of_prompt(path: str) -> bool:
    return any(key.startswith(PROMPT) for key in path.split("."))


def _are_written(answers: Answers, others: Answers) -> bool:
    """Checks whether candidates are the tokens of another answer, with their own numbers alone."""
    pairs = [pair for pair in zip(answers, others, strict=True) if None not in pair]
    texts = [[text for text, _ in answer.lists[0]] == other.tokens for answer, other in pairs]
    return bool(texts) and all(texts)


def _no_labels(where: str, path: str) -> InputError:
    expected = "the labels, as the model writes them"
    got = f"none, beside the candidates in {path!r}"
    return InputError.at(where, expected, got, f"pass {spell('labels', ('yes', 'no'))}", "labels")


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
        if given[row] is SEVERAL:
            raise InputError.at(
                at[row], f"one answer in {path!r}", "several", "write a row of each"
            )
    places, notes = [0] * len(given), [f"The scores are read in {path!r}."]
    if labels:
        written = [answer.tokens for answer in given.values()]
        found = choose_places(written, list(at.values()), labels, reading.at, reading.tokens)
        places, notes = found[0], [*notes, *found[1]]
    # A row without candidates stays, without scores; an answer without a label is left out.
    pairs_of = {row: [] for row in range(len(answers))}
    for (row, answer), place in zip(given.items(), places, strict=True):
        pairs_of[row] = None if place is None else answer.lists[place]
    kept = [row for row, pairs in pairs_of.items() if pairs is not None]
    rows = [pairs_of[row] for row in kept]
    columns = {name: [column[row] for row in kept] for name, column in columns.items()}
    bound = None
    are_logs = not any(number > 0 for pairs in rows for _, number in pairs)
    if labels and (are_logs or reading.from_probs):
        is_listed, listed = np.array(list(map(bool, rows))), []
        for row, pairs in zip(kept, rows, strict=True):
            if reading.from_probs:
                pairs = [(token, np.log(number) if number else -np.inf) for token, number in pairs]
            if pairs:
                listed.append(WrittenToken("", pairs).log_probs(at[row]))
        top = top_k.scores_of_top_k(listed, labels, reading.tokens, where)
        top_k.refuse_absent_labels(top, listed, where)
        scores, bound = np.full((len(rows), len(labels)), np.nan), np.full(len(rows), np.nan)
        scores[is_listed] = np.exp(top.log_probs) if reading.from_probs else top.log_probs
        bound[is_listed] = top.bound
        columns |= dict(zip(labels, scores.T, strict=True))
        notes.append(servers.note_tokens(top.tokens))
    else:
        columns[SCORES] = [dict(pairs) or None for pairs in rows]
    imported = read(where, columns, reading, task)
    notes += imported.notes
    return replace(imported, bound=bound, file_rows=np.array(kept), notes=tuple(notes), full=True)


def _refuse_hard_labels(where: str, columns: Columns, reading: Reading) -> None:
    """Raises an error for answers without numbers, such as those of Anthropic's messages."""
    used = (reading.gold, reading.ids, *reading.by)
    texts = {name: set(map(cells.text_of, column)) - {""} for name, column in columns.items()}
    labels = set(map(str.casefold, reading.labels or texts.get(reading.gold, ())))
    answers = [name for name in texts if name in ("stop_reason", "stop_sequence")]
    for name, column in columns.items():
        numbers, _ = cells.numbers_of(column)
        if is_vector(column) or (numbers[np.isfinite(numbers)] % 1).any():
            return
        if (
            name not in used
            and len(texts[name]) > 1
            and set(map(str.casefold, texts[name])) <= labels
        ):
            answers.insert(0, name)
    if answers:
        remedy = (
            "ask an API that returns them (logprobs=true, top_logprobs=20; Anthropic's does not)"
        )
        remedy += f", or ask several times and write the labels' shares ({spell('from_probs')})"
        got = f"answers without numbers, in {answers[0]!r}"
        raise InputError.at(where, "log-probabilities of the labels", got, remedy)
