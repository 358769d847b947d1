"""Columns of a table: scores, right labels, row ids and names of contexts.

The user names the columns of scores; otherwise they are all columns of real numbers. One column
may hold all scores of a row. Ambiguous columns raise an error that asks for names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from batch_calibration.arrays.frames import GOLD
from batch_calibration.errors import InputError, refuse_unknown, shown, spell
from batch_calibration.importers import cells, score_columns
from batch_calibration.importers.base import CONTEXT_NAMES, Imported, Reading
from batch_calibration.importers.cells import Column, Columns
from batch_calibration.importers.gold import gold_of_rows, name_indices, recognize_gold
from batch_calibration.importers.nested import or_nested
from batch_calibration.importers.score_columns import is_real, label_columns
from batch_calibration.importers.vectors import Names, Vectors, has_counts, is_vector, read_vectors

SCORE_NAMES = "scores log_probs logprobs log_likelihoods loglikelihoods logits probs probabilities"
"""Usual names of columns that hold all scores of a row."""
MIN_ROWS_TO_WARN = 10  # rows per label; with fewer, the first label may be absent by chance


@or_nested
def from_columns(
    where: str, columns: Columns, reading: Reading, task: str, label_names: Names = ()
) -> Imported:
    """Reads scores from a table of named columns of equal length.

    The columns in `reading.labels` hold the scores. Without these names, the scores are one column
    of lists or dicts with all scores of a row, or else all columns of real numbers except the gold,
    id and context columns. Ambiguous columns raise an error.

    Args:
        where: The file's name, for messages.
        columns: Column name -> cells.
        reading: The user's description of the table.
        task: The task's name if `reading` has none.
        label_names: The labels' names if the table lists them outside of its columns.

    Raises:
        InputError: The table has no rows or lacks a named column, a cell is not a number, a column
            looks like right labels but is not named as `gold`, or a right label is unknown.
    """
    if not len(next(iter(columns.values()), ())):
        raise InputError.at(where, "at least one row of scores", "none")
    bare = cells.bare_names(list(columns))
    if bare != tuple(columns):
        columns = dict(zip(bare, columns.values(), strict=True))
        reading = replace(reading, labels=cells.bare_names(reading.labels))
    reading, gold_notes = recognize_gold(columns, reading)
    columns, reading, long_notes = score_columns.pivot_choices(columns, reading)
    columns, reading, other_notes = _two_of_one(where, columns, reading)
    gold_notes += long_notes + other_notes
    named = reading.labels
    is_plain = len(named) < 2 or any(label in columns for label in named)
    full_names = [] if is_plain else score_columns.column_sets(columns, named)
    if len(full_names) == 1:  # the only columns with the names of the labels in longer names
        reading = replace(reading, labels=full_names[0])
    if not reading.ids and {"id", "prompt", "api_scores"} <= columns.keys():  # written by `ask`
        reading = replace(reading, ids="id")
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    score_names: Names = ()
    gold_texts = gold_column(columns, reading)
    if vector_name is None:
        names, notes, sums = label_columns(where, candidates, reading, gold_texts)
        candidates |= sums
        scores = [_score_column(where, name, candidates[name]) for name in names]
        short = named if len(full_names) == 1 else _short_names(names, gold_texts)
        vectors = Vectors(short, np.stack(scores, axis=1), notes=notes)
        if short != names:
            score_names = names
            reading = replace(reading, labels=short if reading.labels else ())
            note = f"The labels are {', '.join(short)}: {names[0]!r} holds {short[0]!r}, and so on."
            gold_notes.append(note)
    else:
        score_names = (vector_name,)
        if reading.labels == score_names:  # it names the column, not a label
            reading = replace(reading, labels=())
        vectors = read_vectors(where, candidates, vector_name, reading, label_names)
        if vectors.source in ("", vector_name) and vectors.lists and not reading.labels:
            real = dict(zip(vectors.names, vectors.scores.T, strict=True))
            names, notes, sums = score_columns.choose_real(where, real, reading, gold_texts)
            if sums:
                scores = [sums.get(name, real[name]) for name in names]
                vectors = Vectors(names, np.stack(scores, axis=1))
            vectors = vectors._replace(notes=notes)
    vectors = vectors._replace(notes=(*vectors.notes, *gold_notes))
    imported = label_rows(where, vectors, columns, reading, score_names)
    return replace(imported, about={"task": reading.task or task})


def gold_column(columns: Columns, reading: Reading) -> list[str]:
    """Returns the right labels [n] of a table as texts; [] without them."""
    if not reading.gold:
        return []
    column = columns[reading.gold]
    names, texts = reading.gold_names or getattr(column, "names", ()), cells.texts_of(column)
    name_of = {str(i): name for i, name in enumerate(names)}
    return [name_of.get(text, text) for text in texts] if names else texts


def _short_names(names: Names, gold: Sequence[str]) -> Names:
    """Returns the names without their shared parts, if the right labels use the short names."""
    texts, short = set(gold) - {"", "-1"}, cells.short_names(names)
    is_needed = not texts <= set(names) and texts <= set(short)
    return short if is_needed and not all(map(str.isdecimal, texts)) else names


def _two_of_one(
    where: str, columns: Columns, reading: Reading
) -> tuple[Columns, Reading, list[str]]:
    """Replaces a column of probabilities p of one of two labels by two columns, p and 1 - p."""
    others = {reading.gold, reading.ids, *reading.by}
    if reading.from_probs is not True or not reading.gold or reading.labels:
        return columns, reading, []
    real = [name for name in columns if name not in others and is_real(columns[name])]
    texts = sorted(set(map(cells.text_of, columns.get(reading.gold, ()))) - {"", "-1"})
    if len(real) != 1 or len(texts) != 2:
        return columns, reading, []
    words = cells.words_of(real[0])
    spelled = {text: cells.words_of(text) for text in texts}
    own = [text for text, parts in spelled.items() if parts and words[-len(parts) :] == parts]
    if len(own) != 1 or set(texts) & columns.keys() - set(real):
        return columns, reading, []
    other = texts[texts[0] == own[0]]
    probs = _score_column(where, real[0], columns[real[0]])
    kept = {name: column for name, column in columns.items() if name != real[0]}
    columns = {**kept, own[0]: probs, other: 1 - probs}
    note = f"The column {real[0]!r} is the probability of {own[0]!r}; {other!r} has 1 - p."
    return columns, replace(reading, labels=(own[0], other)), [note]


def label_rows(
    where: str, vectors: Vectors, columns: Columns, reading: Reading, read_names: Names
) -> Imported:
    """Selects the scores of the chosen labels, and adds right labels, row ids and contexts.

    `columns` holds the right labels, ids and names of contexts, among other columns. `read_names`
    are the columns of scores, if their names differ from the labels.
    """
    own, gold, notes, order = vectors.names, None, vectors.notes, Names()
    chosen, indices = cells.choose_labels(where, own, reading.labels, are_named=vectors.are_named)
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        # New names replace the names of all columns of scores.
        names = own if set(chosen) <= set(own) else chosen
        right, order, read_as = name_indices(columns[reading.gold], names, reading.gold_names)
        order = () if vectors.lists else order
        gold, gold_notes = gold_of_rows(at, right, vectors, names)
        notes += read_as + gold_notes
        known_labels = gold[gold >= 0]
        if len(known_labels) >= MIN_ROWS_TO_WARN * len(names) and known_labels.min() == 1:
            notes += (
                f"No row has the right label {names[0]!r}: if the column counts labels from 1, "
                "subtract 1 from each index.",
            )
        gold = cells.renumber_labels(at, gold, names, indices)
    told_apart: dict[str, list[str]] = {}
    names_in_use = {*read_names, *vectors.names, reading.gold, reading.ids}
    for name, column in columns.items():
        if name in reading.by or (name.lower() in CONTEXT_NAMES and name not in names_in_use):
            told_apart[name] = cells.texts_of(column)
    if not reading.by and not told_apart:
        texts = {}
        for name, column in columns.items():
            if name not in {*read_names, *vectors.names, reading.gold}:
                texts[name] = cells.texts_of(column)
        refuse_repeated_ids(where, texts)
    return Imported(
        where,
        vectors.scores[:, indices],
        chosen,
        labels=gold,
        row_ids=tuple(cells.texts_of(columns[reading.ids])) if reading.ids else None,
        columns=told_apart,
        notes=notes,
        score_names=read_names,
        index_names=order,
    )


def refuse_repeated_ids(where: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Raises an error if each value of a column occurs once under each value of another column.

    The first column then holds ids. The other one names a prompt, a seed or a run, and each of
    these has its own bias. Several columns may differ between the rows of an id.

    >>> refuse_repeated_ids("f.csv", {"id": [*"abcabc"], "seed": [*"000111"]})
    Traceback (most recent call last):
    batch_calibration.errors.InputError: f.csv: expected one context; got each value of 'id' 2 ...
    """
    counts: dict[str, Counter[str]] = {name: Counter(texts) for name, texts in columns.items()}
    for ids, of_id in counts.items():
        repeats = max(of_id.values(), default=0)
        if not 1 < repeats < len(of_id) or min(of_id.values()) < repeats or "" in of_id:
            continue
        pairs_of = {n: len(set(zip(columns[ids], columns[n], strict=True))) for n in columns}
        # A property of the question, such as its category, is equal in all rows of an id.
        apart = [n for n in columns if len(counts[n]) <= repeats and pairs_of[n] > len(of_id)]
        rows = len(columns[ids])
        apart = [n for n in apart if len(counts[n]) == repeats and pairs_of[n] == rows][:1] or apart
        settings = list(zip(*(columns[name] for name in apart), strict=True))
        pairs = set(zip(columns[ids], settings, strict=False))  # `settings` may be empty
        if len(set(settings)) == repeats and len(pairs) == rows:
            remedy = f"pass {spell('by', tuple(apart))}, which makes each a context, or leave "
            remedy += f"{', '.join(map(repr, apart))} out if the rows have one prompt"
            got = f"each value of {ids!r} {repeats} times, once for each {' and '.join(apart)}"
            raise InputError.at(where, "one context", got, remedy, "by")


def columns_of_labels(where: str, columns: Columns, reading: Reading) -> tuple[Names, Names]:
    """Returns the columns that hold one label each, and notes on them; see `from_columns`."""
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is not None:
        expected = "a column for each label"
        raise InputError.at(where, expected, f"all scores of a row in {vector_name!r}")
    names, notes, sums = label_columns(where, candidates, reading, gold_column(columns, reading))
    if sums:
        expected = "one column for each label, as the file is corrected in parts"
        got = f"several spellings of {', '.join(map(repr, sums))}"
        remedy = f"add their probabilities, or pass {spell('labels', names)}"
        raise InputError.at(where, expected, got, remedy, "labels")
    return names, notes


def _vector_column(where: str, candidates: Columns, labels: Names) -> str | None:
    """Returns the name of the column that holds all scores of a row, or None without one."""
    vectors = []
    for name, column in candidates.items():
        is_usual = name.lower() in SCORE_NAMES.split()
        is_named = is_usual or name in labels
        if is_vector(column, may_be_texts=is_usual) and (is_named or not has_counts(column)):
            vectors.append(name)
    lacking = [name for name in labels if name not in candidates]
    if labels and not lacking:
        return labels[0] if len(labels) == 1 and labels[0] in vectors else None
    # `labels` may name the labels in a vector; then no label is the name of a column.
    if lacking and (len(lacking) < len(labels) or not vectors):
        raise InputError.unknown("column", lacking[0], candidates, where=where)
    fits = [name for name in vectors if name.lower() in SCORE_NAMES.split()]
    # Columns of real numbers take precedence over lists without a usual name.
    if vectors and not fits and (labels or not any(map(is_real, candidates.values()))):
        fits = vectors
    if len(fits) > 1:
        expected, remedy = "one column with all scores of a row", spell("labels", fits[0])
        raise InputError.at(where, expected, " and ".join(map(repr, fits)), f"pass {remedy}")
    return fits[0] if fits else None


def _score_column(where: str, name: str, column: Column) -> np.ndarray:
    """Returns the numbers [n] of a column of scores; raises an error for cells of other kinds."""
    numbers, bad_rows = cells.numbers_of(column)
    if bad_rows:
        at = f"{where}, column {name!r}, row {bad_rows[0]} (counted from 0)"
        got = f"{shown(column[bad_rows[0]])} ({len(bad_rows)} rows like it)"
        remedy = "correct it, or leave it empty if the label was not returned"
        raise InputError.at(at, "a number", got, remedy)
    return numbers


def score_candidates(where: str, columns: Columns, reading: Reading) -> dict[str, Column]:
    """Returns the columns that may hold scores, without columns that are named for another use."""
    named = [name for name in (reading.gold, reading.ids, *reading.by) if name]
    for name in named:
        refuse_unknown("column", name, columns, where=where)
        if name in reading.labels:
            remedy = f"leave it out of {spell('labels')}, or of {spell('gold')} and others"
            raise InputError.at(where, f"one use of the column {name!r}", "two", remedy)
    candidates = {name: column for name, column in columns.items() if name not in named}
    if reading.labels:
        return candidates
    # Right labels that are not named as `gold` would be read as scores, or ignored.
    for name, column in candidates.items():
        if name.lower() in GOLD:
            numbers, bad_rows = cells.numbers_of(column)
            is_whole = not bad_rows and (numbers[np.isfinite(numbers)] % 1 == 0).all()
            if is_whole or set(map(cells.text_of, column)) - {""} <= candidates.keys():
                raise InputError(
                    f"{where}: the column {name!r} looks like the right labels; pass "
                    f"{spell('gold', name)} if it is, or else name the columns of scores: "
                    f"{spell('labels', ('A', 'B', '...'))}"
                )
    return candidates
