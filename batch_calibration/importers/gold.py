"""Reads right labels: finds their column, maps names and indices to labels, checks their fit."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from unicodedata import normalize

import numpy as np

from batch_calibration.arrays.frames import GOLD
from batch_calibration.arrays.score_scale import plain_names
from batch_calibration.errors import InputError, nearest, shown, spell
from batch_calibration.files import object_at
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import MAX_LISTED, Column, Columns, short_names, texts_of
from batch_calibration.importers.gold_fit import LEAST_SHARE, WORDS_SHARE, fit_gold
from batch_calibration.importers.vectors import NUMBERED, OWN_LISTS, Names, Vectors, first_cell
from batch_calibration.responses.top_k import SPACES

WHOLE = re.compile(r"^(-?\d+)\.0+$")  # as pandas writes whole numbers beside an empty cell
NO_WORD = re.compile(r"\W*[A-Za-z]?\W*|.*\d.*")
"""Label names such as A, (B) or label 0, which have indices in the order of the columns."""
AFFIRMATIVE = "yes true positive pos correct right good entailment acceptable"
"""Words for the label 1 in many data sets."""


class ClassIndices(list[object]):
    """A column of class indices, with the file's names for 0, 1, ..."""

    def __init__(self, cells: Sequence[object], names: Names):
        super().__init__(cells)
        self.names = names


def recognize_gold(columns: Columns, reading: Reading) -> tuple[Reading, list[str]]:
    """Finds a column of right labels that `reading` does not name, and adds it with a note.

    The column has a usual name of right labels and holds only names of labels, unlike scores. If
    several columns fit, `reading` stays unchanged.
    """
    if reading.gold or reading.labels:
        return reading, []
    label_names = columns.keys() - {reading.ids, *reading.by}
    for column in columns.values():
        label_names |= set(map(str, object_at(first_cell(column))))
    gold_names = []
    known = set(map(str.casefold, label_names.union(plain_names(label_names))))
    for name, column in columns.items():
        if name.lower() in GOLD and name in label_names:
            texts = set(map(str.casefold, set(texts_of(column)))) - {""}
            if texts and texts <= known:
                gold_names.append(name)
    if len(gold_names) != 1:
        return reading, []
    name = gold_names[0]
    note = f"The column {name!r} names labels and is read as right labels ({spell('gold')})."
    return replace(reading, gold=name), [note]


def gold_of_rows(
    where: str, column: Column, vectors: Vectors, names: Names
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns the right labels [n] as indices, -1 if unknown, and notes.

    Each cell is a label's name, a text in the row's list, an index, or empty.

    Raises:
        InputError: Rows list labels in different orders, so that an index may refer to several
            lists; a text is one choice and the index of another; a cell names no label.
    """
    gold_cells, k = texts_of(column), len(names)
    if all(map(NUMBERED.fullmatch, names)):  # index i is LABEL_i
        gold_cells = [f"LABEL_{cell}" if cell.isdecimal() else cell for cell in gold_cells]
    is_own = vectors.source.lower() in OWN_LISTS
    # Indices of right labels do not refer to lists with the most probable label first.
    are_plain = vectors.are_answers or is_own or not (vectors.source and vectors.are_ranked)
    if are_plain and all(names[: len(listed)] == listed for listed in vectors.lists):
        gold = gold_indices(where, gold_cells, names)
        for cell, label in dict.fromkeys(zip(gold_cells, gold.tolist(), strict=True)):
            if cell != names[label] and cell.casefold() == names[label].casefold():
                return gold, (f"{where}: {cell!r} is read as the label {names[label]!r}.",)
        return gold, ()
    refuse_counted_from_one(where, set(gold_cells) - set(names), k)
    unknown = {"": -1, "-1": -1}
    label_of = dict(zip(names, range(k), strict=True))
    by_text, by_index = [], []
    for listed in vectors.lists:
        texts, indices = label_of, {str(i): i for i in range(k)} | label_of
        if vectors.are_answers:
            # A text that appears twice in a row is ambiguous.
            texts = {text: i for i, text in enumerate(listed) if listed.count(text) == 1}
        else:
            indices = {str(i): label_of[text] for i, text in enumerate(listed)}
        by_text.append(unknown | texts)
        by_index.append(unknown | indices)
    look_up = partial(look_up_gold, where, gold_cells, names)
    are_texts = all(cell in row for cell, row in zip(gold_cells, by_text, strict=True))
    are_indices = all(cell in row for cell, row in zip(gold_cells, by_index, strict=True))
    if are_texts and not (vectors.are_answers and are_indices):
        return look_up(by_text), ()
    if not are_indices:
        return look_up(by_index if vectors.are_answers else by_text), ()
    gold = look_up(by_index)
    is_plain = is_own and not vectors.are_ranked
    if vectors.are_answers:
        is_plain = not are_texts or (gold == look_up(by_text)).all()
    if not is_plain:
        got = "indices, but rows list labels in different orders, or the most probable first"
        remedy = "an index may refer to several lists; write the label's name"
        raise InputError.at(where, "the right label by its text", got, remedy)
    note = f"The right labels are read as indices into each row's list {vectors.source!r}."
    return gold, () if vectors.are_answers else (note,)


def plain_labels(names: Sequence[str]) -> Names:
    """Returns the names without words such as "logit", unless they become equal or numbers."""
    plain = plain_names(names)
    is_plain = len(set(plain)) == len(plain) and not any(map(str.isdecimal, plain))
    return tuple(plain if is_plain else names)


def fold(text: str) -> str:
    """Returns a text in lowercase, with composed accents."""
    return normalize("NFC", text).casefold()


def name_indices(
    column: Column, names: Sequence[str], gold_names: Names = ()
) -> tuple[list[str], Names, Names]:
    """Returns the cells as texts, the order of their indices (() for names), and notes.

    The user or the file may give names of indices.

    >>> name_indices([1, 0], ("yes", "no"), ("no", "yes"))
    (['yes', 'no'], (), ())
    >>> name_indices([1, 0], ("True", "False"))
    (['True', 'False'], (), ("0 is read as 'False', 1 is read as 'True'.",))
    """
    plain, texts, notes = plain_labels(names), texts_of(column), Names()
    known = {*map(fold, names), *map(fold, plain)}
    for name in gold_names:
        if fold(name) not in known:
            raise InputError.unknown("label", name, plain, key="gold_names")
    if not gold_names:
        of_file = getattr(column, "names", ())
        # By convention, 0 means false.
        of_words = sorted(plain, key=fold) if {*map(fold, plain)} == {"true", "false"} else ()
        gold_names = tuple(of_file if of_file and known >= {*map(fold, of_file)} else of_words)
        if gold_names != plain and index_order(set(texts), names):
            notes = (f"{list_indices(gold_names)}.",) if gold_names else ()
    of_index = {str(i): name for i, name in enumerate(gold_names)}
    if of_index:
        texts = [of_index.get(WHOLE.sub(r"\1", text), text) for text in texts]
    return texts, index_order(set(texts), names), notes


def index_order(texts: Set[str], names: Sequence[str]) -> Names:
    """Returns the names in the order of their indices; () if the right labels are not indices."""
    numbers = {WHOLE.sub(r"\1", text) for text in texts} - {"", "-1"}
    are_indices = numbers and all(map(str.isdecimal, numbers)) and not numbers <= set(names)
    return tuple(names) if are_indices else ()


def check_gold(
    imported: Imported, scores: np.ndarray, gold: np.ndarray | None, reading: Reading
) -> tuple[str, ...]:
    """Checks right labels against the scores, and returns a note on indices of words.

    Raises:
        InputError: The scores fit other labels far better, or 1 may mean either of two words.
    """
    if gold is None or reading.gold_as_is or reading.gold_names:
        return ()
    names, order = plain_labels(imported.label_names), plain_labels(imported.index_names)
    if not order and len(names) > 2 and all(map(str.isdecimal, names)):
        return ()  # a model may give grades that are all one too high
    where = f"{imported.where}, column {reading.gold!r}" if reading.gold else imported.where
    are_words = not any(map(NO_WORD.fullmatch, order)) or order != _in_order(order)
    are_words = bool(order) and are_words
    fit = fit_gold(scores, gold, WORDS_SHARE if are_words else LEAST_SHARE)
    if fit.is_wrong:
        others = {name: names[label] for name, label in zip(names, fit.assigned, strict=True)}
        renamed = tuple(others.get(name, name) for name in order)
        remedy = f"pass {spell('gold_names', renamed)} if these are the names of 0, 1, ..."
        if not order:
            moved = [f"{name!r} fits {other!r}" for name, other in others.items() if name != other]
            listed = ", ".join(moved[:MAX_LISTED]) + (" ..." if len(moved) > MAX_LISTED else "")
            remedy = f"rename the columns of scores if they are exchanged ({listed}), or give the "
            remedy += "negatives of losses"
        got = f"labels that fit worse than chance: {_accuracies(scores, gold)} are right, and "
        got += f"{_accuracies(scores, fit.assigned[gold], gold)} with labels exchanged"
        remedy += f", or pass {spell('gold_as_is', True)} if the labels are right"
        raise InputError.at(where, "right labels that the scores fit", got, remedy, "gold")
    if not are_words:
        return ()
    note = f"{where}: {list_indices(order)} by the order of the columns"
    if fit.is_right:
        return (f"{note}, which the scores fit.",)
    first, other_order = fold(order[0]), spell("gold_names", order[::-1])
    if len(order) == 2 and (first in AFFIRMATIVE.split() or first in fold(reading.gold)):
        got = f"0 and 1: {_accuracies(scores, gold)} are right if 0 is {order[0]!r}, and "
        got += f"{_accuracies(scores, 1 - gold, gold)} if 1 is"
        remedy = f"pass {other_order} if 1 is {order[0]!r}, or {spell('gold_names', order)} if 0 is"
        raise InputError.at(where, "the names of the right labels", got, remedy, "gold")
    return (f"{note}; pass names, such as {other_order}, if it is another.",)


def _in_order(names: Sequence[str]) -> Names:
    """Returns the names in the order of their letters and numbers: A, B; label 2, label 10."""
    digits = {name: "".join(filter(str.isdecimal, name)) for name in names}
    return tuple(sorted(names, key=lambda name: (len(digits[name]), digits[name], name)))


def list_indices(order: Sequence[str]) -> str:
    """Describes the meaning of indices: 0 is read as the first name, and so on."""
    read = [f"{i} is read as {name!r}" for i, name in enumerate(order[:MAX_LISTED])]
    return ", ".join(read) + ", ..." * (len(order) > MAX_LISTED)


def _accuracies(scores: np.ndarray, labels: np.ndarray, gold: np.ndarray | None = None) -> str:
    """Formats the accuracy of the scores, and of the scores minus each label's mean."""
    is_known = (labels if gold is None else gold) >= 0
    labels, scores = labels[is_known], scores[is_known]
    plain, corrected = scores.argmax(axis=1), (scores - scores.mean(axis=0)).argmax(axis=1)
    before, after = np.mean(plain == labels), np.mean(corrected == labels)
    return f"{100 * before:.1f} % ({100 * after:.1f} % after bc)"


def gold_indices(where: str, column: Column, names: Sequence[str]) -> np.ndarray:
    """Returns the right labels [n] as indices, -1 if unknown.

    Cells are label names, indices, or empty. They are names if each cell is a label's name. If the
    label names are numbers, no cell is an index.

    >>> gold_indices("f", ["yes", "", "no"], ("no", "yes")).tolist()
    [1, -1, 0]
    """
    own, texts = set(names), texts_of(column)
    counts = Counter(texts)
    cell_of = {text: text if text in own else WHOLE.sub(r"\1", text) for text in counts}
    cells = set(cell_of.values())
    label_of = {"": -1, "-1": -1}
    # The column logit_A is the label A, but the 1 of logit_1 may also be an index.
    for known in (plain_labels(names), names):
        label_of |= dict(zip(known, range(len(names)), strict=True))
    bare = {cell.translate(SPACES).strip() for cell in cells} - {"", "-1"}
    k = len(names)
    indices = {str(i): i for i in range(-1, k)}
    for known in (tuple(plain_names(names)), short_names(names)):
        is_numbered = any(map(str.isdecimal, known)) and known != tuple(names)
        if not is_numbered or not bare or not bare <= set(known):
            continue
        if not bare <= indices.keys():  # in logit_1 and logit_10, 10 is too large
            label_of |= {name: i for i, name in enumerate(known)}
        elif any(known[indices[cell]] != cell for cell in bare):
            expected = "right labels that are clearly names, or clearly indices from 0"
            columns = ", ".join(map(repr, names[:MAX_LISTED]))
            got = f"{shown(sorted(bare))} for the columns {columns}"
            raise InputError.at(where, expected, got, "write each column's full name")
    if not cells <= label_of.keys() and not all(map(str.isdecimal, names)):
        refuse_counted_from_one(where, cells, k)
        if cells - {""} == ({"-1", "1"} if k == 2 else {*map(str, range(-1, k - 1))}):
            got = f"-1 to {max(1, k - 2)}, where -1 may mean a label or an unknown label"
            remedy = "write the labels' names, or leave cells empty if the label is unknown"
            raise InputError.at(where, f"indices of the labels from 0 to {k - 1}", got, remedy)
        # Some cells are neither. The more frequent kind is expected, and other cells are refused.
        count_indices = sum(counts[text] for text, cell in cell_of.items() if cell in indices)
        if count_indices > sum(counts[text] for text, cell in cell_of.items() if cell in own):
            label_of = {"": -1, **indices}
    # Case is ignored, unless two labels differ only in case.
    by_small_letters = {fold(name): label for name, label in label_of.items()}
    if len(by_small_letters) == len(label_of):
        for cell in bare - label_of.keys():
            if fold(cell) in by_small_letters:
                label_of[cell] = by_small_letters[fold(cell)]
    if cells <= label_of.keys():  # no cell is refused
        label_of_text = {text: label_of[cell] for text, cell in cell_of.items()}
        return np.fromiter(map(label_of_text.__getitem__, texts), np.int32, len(texts))
    in_order = [cell_of[text] for text in texts]
    return look_up_gold(where, in_order, names, [label_of] * len(texts))


def read_gold(
    where: str, column: Column, names: Sequence[str], gold_names: Names
) -> tuple[np.ndarray, Names, Names]:
    """Returns the right labels [n] of a column, the order of its indices, and notes."""
    texts, order, notes = name_indices(column, names, gold_names)
    return gold_indices(where, texts, names), order, notes


def look_up_gold(
    where: str, cells: Sequence[str], names: Sequence[str], labels: Sequence[Mapping[str, int]]
) -> np.ndarray:
    """Maps each cell to its right label by its row's dict of texts and labels; returns them [n]."""
    gold = []
    for row, (cell, label_of) in enumerate(zip(cells, labels, strict=True)):
        # A tokenizer's leading space is ignored, unless the text with the space is a label.
        name = cell if cell in label_of else cell.translate(SPACES).strip()
        if name not in label_of:
            listed = ", ".join(map(repr, names[:MAX_LISTED]))
            listed += " ..." if len(names) > MAX_LISTED else ""
            expected = f"the right label: its name ({listed}), its index from 0 to "
            expected += f"{len(names) - 1}, or an empty cell if it is unknown"
            got = f"{shown(cell)}, which names no label{nearest(cell, names, 0.6)}"
            raise InputError.at(f"{where}, row {row} (counted from 0)", expected, got)
        gold.append(label_of[name])
    return np.array(gold, np.int32)


def refuse_counted_from_one(where: str, cells: Set[str], k: int) -> None:
    """Raises an error for indices from 1 to k, since each would be read as the next label."""
    if str(k) in cells and cells <= {"", "-1", *map(str, range(1, k + 1))}:
        expected = f"indices of the right labels, counted from 0 to {k - 1}"
        remedy = "subtract 1 from each, or write the labels' names"
        raise InputError.at(where, expected, f"{k} but no 0: they are counted from 1", remedy)
