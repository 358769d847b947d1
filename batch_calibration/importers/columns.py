"""Which of a table's columns are scores, the right label, row ids and names of contexts."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from batch_calibration.errors import InputError, shown
from batch_calibration.files import Json
from batch_calibration.importers.base import CONTEXT_NAMES, Imported, Reading
from batch_calibration.importers.cells import (
    Column,
    are_whole,
    choose_labels,
    gold_indices,
    look_up_gold,
    numbers_of,
    refuse_counted_from_one,
    renumber_labels,
    text_of,
)
from batch_calibration.importers.score_columns import (
    named_or_real_columns,
    recognize_gold,
    score_candidates,
)
from batch_calibration.importers.vectors import OWN_LISTS, Names, Vectors, is_vector, read_vectors

SCORE_NAMES = (
    "scores", "log_probs", "logprobs", "log_likelihoods", "loglikelihoods", "logits", "probs",
    "probabilities",
)  # fmt: skip
"""Names under which tables keep all scores of a row together."""
NUMBERED = re.compile(r"LABEL_(\d+)")  # how models of Hugging Face name labels that nobody named
MIN_ROWS_TO_WARN = 10  # rows a label, beyond which a first label that is never right is no chance


def from_columns(
    where: str,
    columns: Mapping[str, Column],
    reading: Reading,
    *,
    task: str,
    label_names: Sequence[str] = (),
) -> Imported:
    """The scores in a table of named columns, all of one length.

    The columns of `reading.labels` hold the scores; without these all columns of real numbers do,
    but for the gold, id and by columns; or one column holds all scores of a row as a list or dict.
    What is not plain is refused, never guessed. `task` is what to call the task where `reading`
    does not, `label_names` are the labels' where the table says them elsewhere.

    Raises:
        InputError: no rows; a column that is named and not there; a cell that is no number; a
            column of right labels that nobody named; a right label that is none.
    """
    if not len(next(iter(columns.values()), ())):
        raise InputError(where=where, expected="at least one row of scores", got="none")
    reading, gold_notes = recognize_gold(columns, reading)
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is None:
        names, notes = named_or_real_columns(where, candidates, reading)
        scores = [_score_column(where, name, candidates[name]) for name in names]
        vectors = Vectors(names, np.stack(scores, axis=1), notes=notes)
    else:
        if reading.labels == (vector_name,):  # the column itself, and no label
            reading = replace(reading, labels=())
        vectors = read_vectors(where, candidates, vector_name, reading, label_names)
    vectors = vectors._replace(notes=(*vectors.notes, *gold_notes))
    context = {"task": reading.task or task}
    return label_rows(where, vectors, columns, reading, context, {vector_name})


def label_rows(
    where: str,
    vectors: Vectors,
    columns: Mapping[str, Column],
    reading: Reading,
    context: Mapping[str, Json],
    read_names: Collection[str | None] = (),
) -> Imported:
    """Scores with their labels chosen, and with the columns that say something of the rows.

    `columns` are the right labels, ids and names of contexts among others; `read_names` are those
    that hold scores.
    """
    chosen, indices = choose_labels(
        where, vectors.names, reading.labels, are_named=vectors.are_named
    )
    gold, notes = None, vectors.notes
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        # New names of places stand for all of them.
        names = vectors.names if set(chosen) <= set(vectors.names) else chosen
        gold, gold_notes = gold_of_rows(at, columns[reading.gold], vectors, names)
        notes += gold_notes + note_never_first(gold, names)
        gold = renumber_labels(at, gold, names, indices)
    told_apart: dict[str, list[str]] = {}
    names_in_use = {*read_names, *vectors.names, reading.gold, reading.ids}
    for name, column in columns.items():
        if name in reading.by or (name.lower() in CONTEXT_NAMES and name not in names_in_use):
            told_apart[name] = list(map(text_of, column))
    return Imported(
        where,
        vectors.scores[:, indices],
        chosen,
        labels=gold,
        row_ids=tuple(map(text_of, columns[reading.ids])) if reading.ids else None,
        about=context,
        columns=told_apart,
        notes=notes,
        score_names=tuple(filter(None, read_names)),
    )


def label_columns(
    where: str, columns: Mapping[str, Column], reading: Reading
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that hold a label's scores each, and notes on them; see `from_columns`."""
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is not None:
        raise InputError(
            where=where,
            expected="a column of its own for each label",
            got=f"all scores of a row in {vector_name!r}",
            remedy="write one column a label",
        )
    return named_or_real_columns(where, candidates, reading)


def _vector_column(
    where: str, candidates: Mapping[str, Column], labels: tuple[str, ...]
) -> str | None:
    """The column that holds all scores of a row, None where each label has one of its own."""
    vectors = []
    for name, column in candidates.items():
        if is_vector(column, may_be_texts=name.lower() in SCORE_NAMES):
            vectors.append(name)
    lacking = [name for name in labels if name not in candidates]
    if labels and not lacking:
        return labels[0] if len(labels) == 1 and labels[0] in vectors else None
    # Names of no column may be those of the labels in a vector: all of them, or none.
    if lacking and (len(lacking) < len(labels) or not vectors):
        raise InputError(f"{where}: {InputError.unknown('column', lacking[0], candidates)}")
    fits = [name for name in vectors if name.lower() in SCORE_NAMES]
    # Without such a name, columns of real numbers are the scores, and the lists something else.
    if vectors and not fits and (labels or not any(map(_is_real, candidates.values()))):
        fits = vectors
    if len(fits) > 1:
        raise InputError(
            f"{where}: the scores of a row may be in {', '.join(map(repr, fits))}; name one of "
            f"these columns: --labels={fits[0]}"
        )
    return fits[0] if fits else None


def _is_real(column: Column) -> bool:
    """Whether a column holds numbers that are not whole."""
    numbers, bad_rows = numbers_of(column)
    return int(np.sum(~np.isnan(numbers))) > len(bad_rows) and not are_whole(numbers)


def _score_column(where: str, name: str, column: Column) -> np.ndarray:
    """A column of scores; a cell that is no number is refused."""
    numbers, bad_rows = numbers_of(column)
    if bad_rows:
        raise InputError(
            where=f"{where}, column {name!r}, row {bad_rows[0]} (counted from 0)",
            expected="a number",
            got=f"{shown(column[bad_rows[0]])} ({len(bad_rows)} such rows)",
            remedy="correct it, or leave it empty where the label was not returned",
        )
    return numbers


def note_never_first(gold: np.ndarray, names: Sequence[str]) -> tuple[str, ...]:
    """A note where many right labels are known, and none is the first."""
    known_labels = gold[gold >= 0]
    if len(known_labels) < MIN_ROWS_TO_WARN * len(names) or known_labels.min() != 1:
        return ()
    return (
        f"The right label is {names[0]!r} in no row: where the column counts labels from 1, "
        "subtract 1 from each.",
    )


def gold_of_rows(
    where: str, column: Column, vectors: Vectors, names: Names
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The right labels [n], and notes: names, texts that the row lists, indices, or nothing.

    Raises:
        InputError: an index where rows list the labels in different orders, which may count in
            the row's own list or in another one; a text that is one choice and the index of
            another; a cell that names no label.
    """
    cells, k = list(map(text_of, column)), len(names)
    if all(map(NUMBERED.fullmatch, names)):  # an index is that of the name
        cells = [f"LABEL_{cell}" if cell.isdecimal() else cell for cell in cells]
    is_own = vectors.source.lower() in OWN_LISTS
    # In the model's own order, likeliest first, no index of a right label counts.
    are_plain = vectors.are_answers or is_own or not (vectors.source and vectors.are_ranked)
    if are_plain and all(names[: len(listed)] == listed for listed in vectors.lists):
        return gold_indices(where, cells, names), ()
    refuse_counted_from_one(where, set(cells) - set(names), k)
    unknown = {"": -1, "-1": -1}
    label_of = dict(zip(names, range(k), strict=True))
    by_text, by_index = [], []
    for listed in vectors.lists:
        if vectors.are_answers:
            # A text that stands twice in a row says nothing.
            texts = {text: i for i, text in enumerate(listed) if listed.count(text) == 1}
            by_text.append({**unknown, **texts})
            by_index.append({**unknown, **{str(i): i for i in range(k)}, **label_of})
        else:
            by_text.append({**unknown, **label_of})
            indices = {str(i): label_of[text] for i, text in enumerate(listed)}
            by_index.append({**unknown, **indices})
    are_texts = all(cell in row for cell, row in zip(cells, by_text, strict=True))
    are_indices = all(cell in row for cell, row in zip(cells, by_index, strict=True))
    if are_texts and not (vectors.are_answers and are_indices):
        return look_up_gold(where, cells, names, by_text), ()
    if not are_indices:
        return look_up_gold(where, cells, names, by_index if vectors.are_answers else by_text), ()
    gold = look_up_gold(where, cells, names, by_index)
    is_own = is_own and not vectors.are_ranked
    if vectors.are_answers:
        is_own = not are_texts or (gold == look_up_gold(where, cells, names, by_text)).all()
    if not is_own:
        raise InputError(
            where=where,
            expected="the right label by its text",
            got="indices, while rows list the labels in different orders, or likeliest first",
            remedy="it is not plain in which list they count; write the label's name",
        )
    note = f"The right labels are indices in the list {vectors.source!r} of their own row."
    return gold, () if vectors.are_answers else (note,)
