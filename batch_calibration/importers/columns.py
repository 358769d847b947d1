"""Which of a table's columns are scores, the right label, row ids and names of contexts."""

from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.arrays import GOLD
from batch_calibration.errors import InputError, shown
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import Column, is_whole, number, text_of, values
from batch_calibration.importers.labels import choose, gold_indices, renumbered

SCORES = (
    "scores", "log_probs", "logprobs", "log_likelihoods", "loglikelihoods", "logits", "probs",
    "probabilities",
)  # fmt: skip
"""Names under which tables keep all scores of a row together."""
NUMBERED = (
    "",
    "id",
    "ids",
    "idx",
    "index",
    "row",
    "row_id",
    "doc_id",
    "unnamed: 0",
    "__index_level_0__",
)
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
    left = _left(where, columns, reading)
    together = _together(where, left, reading.labels)
    if together is not None:
        names, scores = _vectors(f"{where}, column {together!r}", left[together], label_names)
        asked = () if reading.labels == (together,) else reading.labels
        numbered = not label_names and not isinstance(_first(left[together]), dict)
        chosen, places = choose(where, names, asked, given=not numbered)
        names = chosen if numbered else names
    else:
        names = chosen = choose(
            where, reading.labels or _found(where, left), reading.labels, given=True
        )[0]
        places = list(range(len(names)))
        scores = np.stack([_scores_of(where, name, left[name]) for name in names], axis=1)
    gold = None
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        gold = renumbered(at, gold_indices(at, columns[reading.gold], names), names, places)
    return Imported(
        where,
        scores[:, places],
        chosen,
        labels=gold,
        row_ids=tuple(map(text_of, columns[reading.ids])) if reading.ids else None,
        about={"task": reading.task or task},
        columns={name: [text_of(cell) for cell in columns[name]] for name in reading.by},
    )


def label_columns(where: str, columns: Mapping[str, Column], reading: Reading) -> tuple[str, ...]:
    """The columns that hold a label's scores each, in the order of the labels; see `from_columns`.

    Raises:
        InputError: as there; one column holds the scores of all labels.
    """
    left = _left(where, columns, reading)
    together = _together(where, left, reading.labels)
    if together is not None:
        raise InputError(
            where=where,
            expected="a column of its own for each label",
            got=f"all scores of a row in {together!r}",
            remedy="write one column a label",
        )
    return choose(where, reading.labels or _found(where, left), reading.labels, given=True)[0]


def _left(where: str, columns: Mapping[str, Column], reading: Reading) -> dict[str, Column]:
    """The columns that may hold scores: all that are not named as something else."""
    others = [name for name in (reading.gold, reading.ids, *reading.by) if name]
    for name in others:
        if name not in columns:
            raise InputError(f"{where}: {InputError.unknown('column', name, columns)}")
        if name in reading.labels:
            raise InputError(
                f"{where}: the column {name!r} is named as scores and as something else; leave it "
                "out of --labels, or out of --gold, --ids and --by."
            )
    left = {name: of for name, of in columns.items() if name not in others}
    if not reading.labels:
        _refuse_unnamed_gold(where, left)
    return left


def _refuse_unnamed_gold(where: str, left: Mapping[str, Column]) -> None:
    """Refuse a column of right labels that nobody named: it would be taken for scores, or lost."""
    for name, column in left.items():
        if name.lower() in GOLD:
            numbers, bad = values(column)
            whole = not bad and (numbers[np.isfinite(numbers)] % 1 == 0).all()
            if whole or {text_of(cell) for cell in column} - {""} <= left.keys():
                raise InputError(
                    f"{where}: the column {name!r} looks like the right labels; say "
                    f"--gold={name} if it is, or name the columns of the scores: --labels=A,B,..."
                )


def _together(where: str, left: Mapping[str, Column], labels: tuple[str, ...]) -> str | None:
    """The column that holds all scores of a row, None where each label has one of its own."""
    vectors = [name for name, column in left.items() if _is_vector(column)]
    lacking = [name for name in labels if name not in left]
    if labels and not lacking:
        return labels[0] if len(labels) == 1 and labels[0] in vectors else None
    if lacking and (len(lacking) < len(labels) or not vectors):
        raise InputError(f"{where}: {InputError.unknown('column', lacking[0], left)}")
    flat = not labels and any(_is_real(column) for column in left.values())
    fit = [name for name in vectors if name.lower() in SCORES] or ([] if flat else vectors)
    if len(fit) > 1:
        raise InputError(
            f"{where}: the scores of a row may be in {', '.join(map(repr, fit))}; name one of "
            f"these columns: --labels={fit[0]}"
        )
    return fit[0] if fit else None


def _first(column: Column) -> object:
    """The first cell that is not empty."""
    return next((cell for cell in column if cell is not None), None)


def _is_vector(column: Column) -> bool:
    """Whether the cells of a column are lists or dicts of numbers."""
    cell = _first(column)
    if isinstance(cell, dict):
        cell = list(cell.values())
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if not isinstance(cell, list | tuple):
        return False
    return any(number(one) is not None and one is not None for one in cell)


def _is_real(column: Column) -> bool:
    """Whether a column holds numbers that are not whole."""
    numbers, bad = values(column)
    given = int(np.sum(~np.isnan(numbers)))
    return given > len(bad) and not is_whole(numbers)


def _vectors(
    where: str, column: Column, label_names: Sequence[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and scores of a column whose cells hold all scores of a row."""
    first = _first(column)
    if isinstance(first, dict):
        keys = dict.fromkeys(
            key for cell in column for key in (cell if isinstance(cell, dict) else ())
        )
        names = tuple(map(str, keys))
    else:
        names = tuple(label_names) or tuple(f"label {i}" for i in range(len(first)))  # type: ignore[arg-type]
    rows = []
    for row, cell in enumerate(column):
        if isinstance(cell, dict) and isinstance(first, dict):
            cells = [cell.get(key) for key in keys]
        elif cell is None:
            cells = [None] * len(names)
        elif isinstance(cell, list | tuple | np.ndarray) and not isinstance(first, dict):
            cells = list(cell)
        else:
            cells = []
        numbers = [number(one) for one in cells]
        if len(numbers) != len(names) or None in numbers:
            raise InputError(
                where=f"{where}, row {row} (counted from 0)",
                expected=f"{len(names)} numbers, one per label as in the rows before",
                got=shown(cell),
            )
        rows.append(numbers)
    return names, np.array(rows, np.float64)


def _scores_of(where: str, name: str, column: Column) -> np.ndarray:
    """A column of scores; a cell that is no number is refused."""
    numbers, bad = values(column)
    if bad:
        raise InputError(
            where=f"{where}, column {name!r}, row {bad[0]} (counted from 0)",
            expected="a number",
            got=f"{shown(column[bad[0]])} ({len(bad)} such rows)",
            remedy="correct it, or leave it empty where the label was not returned",
        )
    return numbers


def _found(where: str, left: Mapping[str, Column]) -> tuple[str, ...]:
    """The columns of scores where nobody named them: those of real numbers."""
    found, unsure, why = [], [], ""
    for name, column in left.items():
        numbers, bad = values(column)
        given = int(np.sum(~np.isnan(numbers)))
        if len(bad) > given or (name.lower() in NUMBERED and not bad):
            continue
        if not given:
            unsure.append(name)
            why = why or f"the column {name!r} is empty"
        elif not bad and is_whole(numbers):
            unsure.append(name)
            why = why or f"the column {name!r} holds whole numbers"
        else:
            found.append(name)
    if unsure:
        likely = ",".join(found if len(found) > 1 else found + unsure)
        raise InputError(
            f"{where}: {why}, and it is not plain whether it is a label's scores; name the "
            f"columns of the scores: --labels={likely}"
        )
    if len(found) < 2:
        raise InputError(
            where=where,
            expected="two columns of real numbers or more, one per label",
            got=f"{', '.join(map(repr, found)) or 'none'} among {len(left)} columns; name them",
            remedy="--labels=A,B,..",
        )
    return tuple(found)
