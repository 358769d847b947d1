"""Reads columns that hold all scores of a row, and columns that list the labels of each row."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, shown, spell
from batch_calibration.importers import cells
from batch_calibration.importers.base import Reading

OWN_LISTS = ("choices", "options")
"""Usual names of lists that a person wrote; the right label may be an index into them."""
LIST_NAMES = (*cells.LABEL_NAMES, "answers", "candidates", "tokens")
"""Usual names of columns that list a label for each score of a row."""
MAX_TEXTS_PER_PLACE = 5
"""The most different texts per position of lists of labels; other lists are each row's answers."""

NUMBERED = re.compile(r"LABEL_(\d+)")  # how models of Hugging Face name labels that nobody named
MIN_ROWS_OF_HIGHEST = 5
"""The least number of rows that show that a column names the label with the highest score."""

Names = tuple[str, ...]


class Vectors(NamedTuple):
    """Scores [n, k] from a column that holds all scores of a row."""

    names: Names  # of the k labels
    scores: np.ndarray  # [n, k]; NaN where a row does not list a label
    # The n lists of labels, in the order of each row's scores; () for a row without a list.
    lists: Sequence[Names] = ()
    are_named: bool = True  # whether the table names the labels
    # Whether each row lists its own answers, so that a label is a position.
    are_answers: bool = False
    source: str = ""  # the column that lists the labels; "" without lists
    are_ranked: bool = False  # whether the scores of each row are in descending order
    notes: tuple[str, ...] = ()  # for the user


def first_cell(column: Sequence[object] | np.ndarray) -> object:
    """Returns the first cell that is not empty."""
    return next((cell for cell in column if cell is not None), None)


def is_vector(column: cells.Column, *, may_be_texts: bool = False) -> bool:
    """Checks whether cells are lists or dicts of numbers, or of numbers as texts if allowed."""
    for score in scores_of(first_cell(column)):
        # Texts that are numbers may be choices.
        is_text = isinstance(score, str) and not may_be_texts
        if score is not None and not is_text and cells.number_of(score) is not None:
            return True
    return False


def has_counts(column: cells.Column) -> bool:
    """Checks whether cells are lists of whole numbers, or dicts of counts and costs."""
    members = [scores_of(cell) for cell in column]
    if isinstance(first_cell(column), dict):  # A cost may stand next to whole numbers.
        return all(map(cells.are_counts, filter(None, members)))
    return cells.are_whole(cells.numbers_of(list(chain.from_iterable(members)))[0])


def scores_of(cell: object) -> list[object]:
    """Returns the members of a list, or the values of a dict; [] for other cells."""
    members = _plain(cell)
    if isinstance(members, dict):
        return list(members.values())  # label -> score
    return members if isinstance(members, list) else []


def _plain(cell: object) -> object:
    """Converts arrays to lists, and lists of {"label": ..., "score": ...} to dicts of scores."""
    if isinstance(cell, tuple | np.ndarray):
        cell = list(cell)
    if not isinstance(cell, list) or not cell:
        return cell
    scores = {}
    for pair in cell:
        if not isinstance(pair, dict) or not {"label", "score"} <= pair.keys():
            return cell
        scores[cells.text_of(pair["label"])] = pair["score"]
    return scores if len(scores) == len(cell) else cell


def read_vectors(
    where: str, candidates: cells.Columns, vector_name: str, reading: Reading, names_of_table: Names
) -> Vectors:
    """Reads the scores of a column of lists or dicts, each under its label's name.

    The names are the keys of the dicts, the texts that each row lists for its scores in any order,
    or the table's names. Without names, each label is a position.
    """
    at = f"{where}, column {vector_name!r}"
    column = list(map(_plain, candidates[vector_name]))
    keys, rows = _read_cells(at, column)
    if isinstance(first_cell(column), dict):
        # A list of {"label": ..., "score": ...} may begin with the most probable label.
        is_list = not isinstance(first_cell(candidates[vector_name]), dict)
        return _by_name(at, keys, rows, vector_name if is_list else "")
    source, lists = _find_lists(where, candidates, vector_name, rows)
    if source and are_labels(lists, rows):
        at = f"{where}, column {source!r}"
        vectors = _by_name(at, lists, rows, source, names_of_table)
        _refuse_incomplete(at, vectors, reading)
        return vectors
    names, k = tuple(names_of_table), len(next(filter(None, rows), ()))
    if not names and not source:
        names = names_of_table = _names_of_highest(candidates, rows, reading)
    if not names:
        names = cells.numbered_names(k) if source else tuple(map("label {}".format, range(k)))
    for row, numbers in enumerate(rows):
        if len(numbers) != len(names) and column[row] is not None:
            raise _other_cell(at, row, len(names), column[row])
    empty = [np.nan] * len(names)  # no label was returned
    scores = np.array([numbers or empty for numbers in rows], np.float64)
    are_named = bool(names_of_table)
    notes = (cells.note_places(names[0]),) if source else ()
    return Vectors(names, scores, lists, are_named, bool(source), source, notes=notes)


def _names_of_highest(
    candidates: cells.Columns, rows: Sequence[Sequence[float]], reading: Reading
) -> Names:
    """Returns the labels if a column names the label with the highest score; otherwise ().

    If one label never has the highest score, its name is the remaining name in `reading.labels`.
    """
    for column in candidates.values():
        text_of: dict[int, str] = {}
        pairs = [(text, row) for text, row in zip(column, rows, strict=True) if row and text]
        is_plain = len(pairs) >= MIN_ROWS_OF_HIGHEST
        for text, row in pairs:
            is_plain &= (
                isinstance(text, str) and text_of.setdefault(int(np.argmax(row)), text) == text
            )
        k, named = max(map(len, rows)), set(text_of.values())
        left = sorted(set(reading.labels) - named)
        if is_plain and len(left) == 1 == k - len(text_of):
            text_of |= dict.fromkeys(set(range(k)) - text_of.keys(), left[0])
        names = tuple(text_of[j] for j in sorted(text_of))
        is_whole = is_plain and len(set(names)) == len(names) == k > 1
        if is_whole and set(reading.labels) <= set(names):
            return names
    return ()


def _other_cell(where: str, row: int, k: int, cell: object) -> InputError:
    return InputError.at(
        f"{where}, row {row} (counted from 0)", f"{k} numbers, as in earlier rows", shown(cell)
    )


def _read_cells(where: str, column: Sequence[object]) -> tuple[list[Names], list[list[float]]]:
    """Returns the keys of each row's dict and its numbers; both are empty for an empty cell."""
    kind = dict if isinstance(first_cell(column), dict) else list
    keys: list[Names] = []
    rows: list[list[float]] = []
    for row, cell in enumerate(column):
        scores = kind() if cell is None else cell
        numbers: list[float | None] = [None]
        if isinstance(scores, kind):
            numbers = list(map(cells.number_of, scores_of(scores)))
        if None in numbers:
            raise _other_cell(where, row, len(rows[0] if rows else numbers), cell)
        keys.append(cells.bare_names(list(map(str, scores))) if isinstance(scores, dict) else ())
        rows.append(numbers)  # type: ignore[arg-type]
    return keys, rows


def _find_lists(
    where: str, candidates: cells.Columns, vector_name: str, rows: list[list[float]]
) -> tuple[str, list[Names]]:
    """Returns the name and the lists of the column that lists a label for each score, or ""."""
    named: dict[str, list[Names]] = {}  # lists with a usual name
    shuffled = []  # columns that list the same texts in different orders
    for name, column in candidates.items():
        may_be_real = name.lower() in OWN_LISTS
        lists = None if name == vector_name else _read_texts(column, may_be_real)
        if lists is None:
            continue
        other_lengths = np.flatnonzero(np.array([*map(len, lists)]) != [*map(len, rows)]).tolist()
        if not other_lengths and len(set(lists)) > len(set(map(frozenset, lists))) == 1:
            shuffled.append(name)
        if name.lower() in LIST_NAMES and len(other_lengths) < len(lists):
            named[name] = lists
            if other_lengths:
                row = other_lengths[0]
                at = f"{where}, column {name!r}, row {row} (counted from 0)"
                expected = f"{len(rows[row])} labels, one for each score"
                raise InputError.at(at, expected, shown(list(lists[row])))
    # Without a list of a usual name, texts in varying order are the labels of the scores.
    shuffled = [name for name in shuffled if name in named or not named]
    if shuffled and list(named) != shuffled[:1]:
        expected = f"one column that lists the labels of {vector_name!r}"
        remedy = "rename that column to 'labels', and leave the others out"
        got = f"{', '.join(map(repr, dict.fromkeys((*named, *shuffled))))}, and "
        got += f"{shuffled[0]!r} lists the same texts in an order that varies from row to row"
        raise InputError.at(where, expected, got, remedy)
    if shuffled and set(named[shuffled[0]]) == {("0", "1"), ("1", "0")}:
        expected = "the names of the labels in the order of the scores"
        got = "[0, 1] and [1, 0], which may be flags of the right label"
        remedy = "write names in place of numbers, or rename the column of flags"
        raise InputError.at(f"{where}, column {shuffled[0]!r}", expected, got, remedy)
    fixed = [name for name in named if len(set(named[name])) == 1]
    source = next(iter([*fixed, *named]), "")
    return source, named.get(source, [])


def _read_texts(column: cells.Column, may_be_real: bool) -> list[Names] | None:
    """Reads a column's lists of texts or of different numbers; None for other columns."""
    numbers = (int, float) if may_be_real else (int,)
    lists: list[Names] = []
    for cell in column:
        members = [] if cell is None else _plain(cell)
        if not isinstance(members, list):
            return None
        are_texts = all(isinstance(member, str | None) for member in members)
        if not are_texts and not all(type(member) in numbers for member in members):
            return None
        lists.append(tuple(map(cells.text_of, members)))
        if not are_texts and len(set(members)) < len(members):
            return None  # flags of the right label, such as [0, 1, 0]
    return lists if any(lists) else None


def are_labels(lists: Sequence[Names], rows: Sequence[Sequence[float]]) -> bool:
    """Checks whether rows list labels: the same texts in all rows, in any order, some missing.

    Lists of different texts are the answers to each row's question; a label is then a position.

    >>> are_labels([("yes", "no"), ("no", "yes")], [[0.9, 0.1], [0.8, 0.2]])
    True
    >>> are_labels([("Paris", "Rome"), ("4", "5")], [[0.9, 0.1], [0.2, 0.8]])
    False
    """
    different_lists = set(filter(None, lists))  # a question may be repeated
    if len(set(map(frozenset, different_lists))) == 1 or are_ranked(rows):
        return True
    counts = Counter(chain.from_iterable(different_lists))
    are_all_different = len(counts) == counts.total()
    k = max(map(len, lists))
    return not are_all_different and len(counts) <= MAX_TEXTS_PER_PLACE * k


def are_ranked(rows: Sequence[Sequence[float]]) -> bool:
    """Checks whether each row's scores are in descending order, so that a position is no label."""
    return all(list(row) == sorted(row, reverse=True) for row in rows)


def _by_name(
    where: str, lists: list[Names], rows: list[list[float]], source: str, names_of_table: Names = ()
) -> Vectors:
    """Places each score in the column of the label that its row lists for it."""
    names = dict.fromkeys(chain.from_iterable(lists))
    if all(map(NUMBERED.fullmatch, names)):
        names = dict.fromkeys(sorted(names, key=lambda name: int(name.partition("_")[2])))
    if set(names_of_table) >= names.keys():
        names = dict.fromkeys(names_of_table)
    index = {name: label for label, name in enumerate(names)}
    scores = np.full((len(rows), len(names)), np.nan)
    for row, (listed, numbers) in enumerate(zip(lists, rows, strict=True)):
        if len(set(listed)) < len(listed):
            got = shown(list(listed))
            raise InputError.at(f"{where}, row {row} (counted from 0)", "each label once", got)
        scores[row, [index[name] for name in listed]] = numbers
    return Vectors(tuple(names), scores, lists, source=source, are_ranked=are_ranked(rows))


def _refuse_incomplete(where: str, vectors: Vectors, reading: Reading) -> None:
    """Raises an error for rows that lack labels, unless `reading.missing` is set."""
    chosen = set(reading.labels) & set(vectors.names) or set(vectors.names)
    for row, listed in enumerate(vectors.lists):
        if listed and not chosen <= set(listed) and reading.missing is None:
            expected = f"the labels {shown(list(vectors.names))} in any order"
            got = shown(list(listed))
            remedy = f"pass {spell('missing', 'least')} if a row lists only some of the labels, "
            remedy += "or leave the column out if a position means the same label in all rows"
            raise InputError.at(f"{where}, row {row} (counted from 0)", expected, got, remedy)
