"""The right labels of rows that list their labels themselves."""

import re
from collections.abc import Sequence

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers.cells import (
    Column,
    gold_indices,
    look_up_gold,
    refuse_counted_from_one,
    text_of,
)
from batch_calibration.importers.vectors import OWN_LISTS, Names, Vectors

NUMBERED = re.compile(r"LABEL_(\d+)")  # how models of Hugging Face name labels that nobody named
MIN_ROWS_TO_WARN = 10  # rows a label, beyond which a first label that is never right is no chance


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
