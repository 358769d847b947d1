"""Which of a table's columns are scores, the right label, row ids and names of contexts."""

from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.arrays import GOLD
from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import (
    Column,
    are_whole,
    choose_labels,
    gold_indices,
    number_of,
    numbers_of,
    renumber_labels,
    text_of,
)

SCORE_NAMES = (
    "scores", "log_probs", "logprobs", "log_likelihoods", "loglikelihoods", "logits", "probs",
    "probabilities",
)  # fmt: skip
"""Names under which tables keep all scores of a row together."""
ROW_NUMBER_NAMES = (
    "", "id", "ids", "idx", "index", "row", "row_id", "doc_id", "unnamed: 0", "__index_level_0__",
)  # fmt: skip
"""Names of columns that number the rows."""


def from_columns(
    where: str,
    columns: Mapping[str, Column],
    reading: Reading,
    *,
    task: str,
    label_names: Sequence[str] = (),
) -> Imported:
    """The scores in a table of named columns.

    The columns of `reading.labels` hold the scores; without these all columns of real numbers do,
    but for the gold, id and by columns; or one column holds all scores of a row as a list or dict.
    What is not plain is refused, never guessed.

    Args:
        where: what to call the table in sentences.
        columns: name -> values, all of one length.
        reading: what is said of it.
        task: what to call the task where `reading` does not.
        label_names: names of the labels where the table says them elsewhere.

    Raises:
        InputError: no rows; a column that is named and not there; a cell that is no number; a
            column of right labels that nobody named; a right label that is none.
    """
    if not len(next(iter(columns.values()), ())):
        raise InputError(where=where, expected="at least one row of scores", got="none")
    candidates = _score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is not None:
        column = candidates[vector_name]
        names, scores = _stack_vectors(f"{where}, column {vector_name!r}", column, label_names)
        # --labels may name the column itself, and then no label.
        named_labels = () if reading.labels == (vector_name,) else reading.labels
        are_named = bool(label_names) or isinstance(_first_cell(column), dict)
        chosen, indices = choose_labels(where, names, named_labels, are_named=are_named)
        names = names if are_named else chosen
    else:
        names = chosen = _named_or_real_columns(where, candidates, reading)
        indices = list(range(len(names)))
        scores = np.stack([_score_column(where, name, candidates[name]) for name in names], axis=1)
    gold = None
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        gold = gold_indices(at, columns[reading.gold], names)
        gold = renumber_labels(at, gold, names, indices)
    return Imported(
        where,
        scores[:, indices],
        chosen,
        labels=gold,
        row_ids=tuple(map(text_of, columns[reading.ids])) if reading.ids else None,
        about={"task": reading.task or task},
        columns={name: list(map(text_of, columns[name])) for name in reading.by},
    )


def label_columns(where: str, columns: Mapping[str, Column], reading: Reading) -> tuple[str, ...]:
    """The columns that hold a label's scores each, in the order of the labels; see `from_columns`.

    Raises:
        InputError: as there; one column holds the scores of all labels.
    """
    candidates = _score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is not None:
        raise InputError(
            where=where,
            expected="a column of its own for each label",
            got=f"all scores of a row in {vector_name!r}",
            remedy="write one column a label",
        )
    return _named_or_real_columns(where, candidates, reading)


def _named_or_real_columns(
    where: str, candidates: Mapping[str, Column], reading: Reading
) -> tuple[str, ...]:
    names = reading.labels or _real_columns(where, candidates)
    return choose_labels(where, names, reading.labels, are_named=True)[0]


def _score_candidates(
    where: str, columns: Mapping[str, Column], reading: Reading
) -> dict[str, Column]:
    """The columns that may hold scores: all that are not named as something else."""
    named = [name for name in (reading.gold, reading.ids, *reading.by) if name]
    for name in named:
        if name not in columns:
            raise InputError(f"{where}: {InputError.unknown('column', name, columns)}")
        if name in reading.labels:
            raise InputError(
                f"{where}: the column {name!r} is named as scores and as something else; leave it "
                "out of --labels, or out of --gold, --ids and --by."
            )
    candidates = {name: column for name, column in columns.items() if name not in named}
    if not reading.labels:
        _refuse_unnamed_gold(where, candidates)
    return candidates


def _refuse_unnamed_gold(where: str, candidates: Mapping[str, Column]) -> None:
    """Refuse a column of right labels that nobody named: it would be taken for scores, or lost."""
    for name, column in candidates.items():
        if name.lower() in GOLD:
            numbers, bad_rows = numbers_of(column)
            is_whole = not bad_rows and (numbers[np.isfinite(numbers)] % 1 == 0).all()
            if is_whole or set(map(text_of, column)) - {""} <= candidates.keys():
                raise InputError(
                    f"{where}: the column {name!r} looks like the right labels; say "
                    f"--gold={name} if it is, or name the columns of the scores: --labels=A,B,..."
                )


def _vector_column(
    where: str, candidates: Mapping[str, Column], labels: tuple[str, ...]
) -> str | None:
    """The column that holds all scores of a row, None where each label has one of its own."""
    vectors = [name for name, column in candidates.items() if _is_vector(column)]
    lacking = [name for name in labels if name not in candidates]
    if labels and not lacking:
        return labels[0] if len(labels) == 1 and labels[0] in vectors else None
    # Names of no column may be those of the labels in a vector: all of them, or none.
    if lacking and (len(lacking) < len(labels) or not vectors):
        raise InputError(f"{where}: {InputError.unknown('column', lacking[0], candidates)}")
    # Columns of real numbers are the scores then, and the lists something else.
    has_real = not labels and any(map(_is_real, candidates.values()))
    fits = [name for name in vectors if name.lower() in SCORE_NAMES]
    if not fits and not has_real:
        fits = vectors
    if len(fits) > 1:
        raise InputError(
            f"{where}: the scores of a row may be in {', '.join(map(repr, fits))}; name one of "
            f"these columns: --labels={fits[0]}"
        )
    return fits[0] if fits else None


def _first_cell(column: Column) -> object:
    """The first cell that is not empty."""
    return next((cell for cell in column if cell is not None), None)


def _is_vector(column: Column) -> bool:
    """Whether the cells of a column are lists or dicts of numbers."""
    cell = _first_cell(column)
    if isinstance(cell, dict):
        cell = list(cell.values())  # label -> score
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if not isinstance(cell, list | tuple):
        return False
    return any(score is not None and number_of(score) is not None for score in cell)


def _is_real(column: Column) -> bool:
    """Whether a column holds numbers that are not whole."""
    numbers, bad_rows = numbers_of(column)
    # More numbers than other cells.
    return int(np.sum(~np.isnan(numbers))) > len(bad_rows) and not are_whole(numbers)


def _stack_vectors(
    where: str, column: Column, label_names: Sequence[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and scores of a column whose cells hold all scores of a row."""
    first = _first_cell(column)
    keys: dict[object, None] = {}  # an ordered set
    if isinstance(first, dict):
        for cell in column:
            keys |= dict.fromkeys(cell if isinstance(cell, dict) else ())
        names = tuple(map(str, keys))
    else:
        names = tuple(label_names) or tuple(f"label {i}" for i in range(len(first)))  # type: ignore[arg-type]
    rows = []
    for row, cell in enumerate(column):
        cells: list[object] = []
        if isinstance(cell, dict) and isinstance(first, dict):
            cells = list(map(cell.get, keys))
        elif cell is None:
            cells = [None] * len(names)  # no label was returned
        elif isinstance(cell, list | tuple | np.ndarray) and not isinstance(first, dict):
            cells = list(cell)
        numbers = list(map(number_of, cells))
        if len(numbers) != len(names) or None in numbers:
            raise InputError(
                where=f"{where}, row {row} (counted from 0)",
                expected=f"{len(names)} numbers, one per label as in the rows before",
                got=shown(cell),
            )
        rows.append(numbers)
    return names, np.array(rows, np.float64)


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


def _real_columns(where: str, candidates: Mapping[str, Column]) -> tuple[str, ...]:
    """The columns of scores where nobody named them: those of real numbers."""
    real, unsure, reason = [], [], ""
    for name, column in candidates.items():
        numbers, bad_rows = numbers_of(column)
        count = int(np.sum(~np.isnan(numbers)))
        # Mostly texts is a column of texts; one text among numbers is a mistake to be told.
        if len(bad_rows) > count or (name.lower() in ROW_NUMBER_NAMES and not bad_rows):
            continue
        if not count:
            unsure.append(name)
            reason = reason or f"the column {name!r} is empty"
        elif not bad_rows and are_whole(numbers):
            unsure.append(name)
            reason = reason or f"the column {name!r} holds whole numbers"
        else:
            real.append(name)
    if unsure:
        likely = ",".join(real if len(real) > 1 else real + unsure)
        raise InputError(
            f"{where}: {reason}, and it is not plain whether it is a label's scores; name the "
            f"columns of the scores: --labels={likely}"
        )
    if len(real) < 2:
        raise InputError(
            where=where,
            expected="two columns of real numbers or more, one per label",
            got=f"{', '.join(map(repr, real)) or 'none'} among {len(candidates)} columns",
            remedy="name them by --labels=A,B",
        )
    return tuple(real)
