"""Columns of a table: scores, right labels, row ids and names of contexts.

The columns of scores are those that the user names, or all columns of real numbers; a column may
hold all scores of a row. Anything ambiguous is refused, with a request for names.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from batch_calibration.arrays.frames import GOLD
from batch_calibration.arrays.score_scale import plain_names
from batch_calibration.errors import InputError, refuse_unknown, shown, spell
from batch_calibration.files import object_at
from batch_calibration.importers import cells
from batch_calibration.importers.base import CONTEXT_NAMES, Imported, Reading
from batch_calibration.importers.cells import Column, Columns
from batch_calibration.importers.nested import or_nested
from batch_calibration.importers.vectors import (
    OWN_LISTS,
    Names,
    Vectors,
    are_labels,
    first_cell,
    is_vector,
    read_vectors,
    scores_of,
)

SCORE_NAMES = "scores log_probs logprobs log_likelihoods loglikelihoods logits probs probabilities"
"""Names under which tables keep all scores of a row together."""
SURE = frozenset({"cost", "latency", "time", "seconds", "price"})
"""Words of measures that a column may have as a label: a note names these columns."""
MIN_ROWS_TO_WARN = 10  # rows a label, beyond which a first label that is never right is no chance


@or_nested
def from_columns(
    where: str, columns: Columns, reading: Reading, task: str, label_names: Names = ()
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
        raise InputError.at(where, "at least one row of scores", "none")
    bare = cells.bare_names(list(columns))
    if bare != tuple(columns):
        columns = dict(zip(bare, columns.values(), strict=True))
        reading = replace(reading, labels=cells.bare_names(reading.labels))
    reading, gold_notes = recognize_gold(columns, reading)
    columns, reading, other_notes = _two_of_one(columns, reading)
    gold_notes += other_notes
    full_names = _full_names(columns, reading)
    named = reading.labels
    if full_names:
        reading = replace(reading, labels=full_names)
    if not reading.ids and {"id", "prompt", "api_scores"} <= columns.keys():  # written by `ask`
        reading = replace(reading, ids="id")
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    score_names: Names = ()
    if vector_name is None:
        names, notes = named_or_real_columns(where, candidates, reading)
        scores = [_score_column(where, name, candidates[name]) for name in names]
        short = named if full_names else _short_names(names, columns, reading)
        vectors = Vectors(short, np.stack(scores, axis=1), notes=notes)
        if short != names:
            score_names = names
            reading = replace(reading, labels=short if reading.labels else ())
            note = f"The labels are {', '.join(short)}: {names[0]!r} holds {short[0]!r}, and so on."
            gold_notes.append(note)
    else:
        score_names = (vector_name,)
        if reading.labels == score_names:  # the column itself, and no label
            reading = replace(reading, labels=())
        vectors = read_vectors(where, candidates, vector_name, reading, label_names)
    vectors = vectors._replace(notes=(*vectors.notes, *gold_notes))
    imported = label_rows(where, vectors, columns, reading, score_names)
    if vector_name is None and not named and imported.labels is not None:
        # A label that a server left out of some rows may be right in none of them.
        is_whole = np.isfinite(vectors.scores).all(axis=0)
        refuse_unnamed(where, columns[reading.gold], imported.labels, names, is_whole)
    return replace(imported, about={"task": reading.task or task})


def _full_names(columns: Columns, reading: Reading) -> Names:
    """The columns of labels whose names are parts of theirs, in one way; () without these."""
    labels, found = reading.labels, set[Names]()
    if len(labels) < 2 or any(label in columns for label in labels):
        return ()
    for name in columns:
        start, is_here, end = name.partition(labels[0])
        names = tuple(f"{start}{label}{end}" for label in labels)
        if is_here and cells.short_names(names) == labels and set(names) <= columns.keys():
            found.add(names)
    return found.pop() if len(found) == 1 else ()


def _short_names(names: Names, columns: Columns, reading: Reading) -> Names:
    """The names without what all share, where the right labels are called so."""
    texts = set(map(cells.text_of, columns[reading.gold])) - {"", "-1"} if reading.gold else set()
    short = cells.short_names(names)
    is_needed = not texts <= set(names) and texts <= set(short)
    return short if is_needed and not all(map(str.isdecimal, texts)) else names


def _two_of_one(columns: Columns, reading: Reading) -> tuple[Columns, Reading, list[str]]:
    """One column of probabilities p of one of two labels as two columns, p and 1 - p."""
    others = {reading.gold, reading.ids, *reading.by}
    if not reading.from_probs or not reading.gold or reading.labels:
        return columns, reading, []
    real = [name for name in columns if name not in others and _is_real(columns[name])]
    texts = sorted(set(map(cells.text_of, columns.get(reading.gold, ()))) - {"", "-1"})
    if len(real) != 1 or len(texts) != 2:
        return columns, reading, []
    words = cells.words_of(real[0])
    spelled = {text: cells.words_of(text) for text in texts}
    own = [text for text, parts in spelled.items() if parts and words[-len(parts) :] == parts]
    if len(own) != 1 or set(texts) & columns.keys() - set(real):
        return columns, reading, []
    other = texts[texts[0] == own[0]]
    probs = _score_column("", real[0], columns[real[0]])
    kept = {name: column for name, column in columns.items() if name != real[0]}
    columns = {**kept, own[0]: probs, other: 1 - probs}
    note = f"The column {real[0]!r} is the probability of {own[0]!r}; {other!r} has 1 - p."
    return columns, replace(reading, labels=(own[0], other)), [note]


def label_rows(
    where: str, vectors: Vectors, columns: Columns, reading: Reading, read_names: Names
) -> Imported:
    """Scores with their labels chosen, and with the columns that say something of the rows.

    `columns` are the right labels, ids and names of contexts among others; `read_names` are those
    that hold scores, where they are not called as the labels.
    """
    own, gold, notes = vectors.names, None, vectors.notes
    chosen, indices = cells.choose_labels(where, own, reading.labels, are_named=vectors.are_named)
    if reading.gold:
        at = f"{where}, column {reading.gold!r}"
        # New names of places stand for all of them.
        names = own if set(chosen) <= set(own) else chosen
        gold, gold_notes = gold_of_rows(at, columns[reading.gold], vectors, names)
        notes += gold_notes
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
            told_apart[name] = list(map(cells.text_of, column))
    if not reading.by and not told_apart:
        texts = {}
        for name, column in columns.items():
            if name not in {*read_names, *vectors.names, reading.gold}:
                texts[name] = list(map(cells.text_of, column))
        refuse_repeated_ids(where, texts)
    return Imported(
        where,
        vectors.scores[:, indices],
        chosen,
        labels=gold,
        row_ids=tuple(map(cells.text_of, columns[reading.ids])) if reading.ids else None,
        columns=told_apart,
        notes=notes,
        score_names=read_names,
    )


def refuse_unnamed(
    where: str, column: Column, gold: np.ndarray, names: Names, is_whole: np.ndarray
) -> None:
    """Raises an error if gold labels are names, and a whole column of scores is right in no row."""
    is_named = np.isin(np.arange(len(names)), gold) | ~is_whole
    texts = set(map(cells.text_of, column)) - {"", "-1"}
    has_rows = (gold >= 0).sum() >= MIN_ROWS_TO_WARN * len(names)
    if is_named.all() or is_named.sum() < 2 or not has_rows or all(map(str.isdecimal, texts)):
        return
    named = tuple(name for name, is_right in zip(names, is_named, strict=True) if is_right)
    got = ", ".join(repr(name) for name in names if name not in named)
    remedy = f"pass {spell('labels', named)}, or {spell('labels', names)} if all are labels"
    expected = "a column of scores for each name of the right labels"
    raise InputError.at(where, expected, f"{got} in addition, right in no row", remedy, "labels")


def refuse_repeated_ids(where: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Raises an error if each value of a column occurs once under each value of another column.

    The first column then holds ids, and the other one a prompt, a seed or a run with a bias of its
    own. Several columns may differ between the rows of an id.

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
        pairs = set(zip(columns[ids], settings, strict=False))  # no setting without such a column
        if len(set(settings)) == repeats and len(pairs) == rows:
            remedy = f"pass {spell('by', tuple(apart))}, which makes each a context, or leave "
            remedy += f"{', '.join(map(repr, apart))} out if the rows have one prompt"
            got = f"each value of {ids!r} {repeats} times, once for each {' and '.join(apart)}"
            raise InputError.at(where, "one context", got, remedy, "by")


def label_columns(where: str, columns: Columns, reading: Reading) -> tuple[Names, Names]:
    """The columns that hold a label's scores each, and notes on them; see `from_columns`."""
    candidates = score_candidates(where, columns, reading)
    vector_name = _vector_column(where, candidates, reading.labels)
    if vector_name is not None:
        expected = "a column for each label"
        raise InputError.at(where, expected, f"all scores of a row in {vector_name!r}")
    return named_or_real_columns(where, candidates, reading)


def _vector_column(where: str, candidates: Columns, labels: Names) -> str | None:
    """The column that holds all scores of a row, None where each label has one of its own."""
    vectors = []
    for name, column in candidates.items():
        is_usual = name.lower() in SCORE_NAMES.split()
        is_named = is_usual or name in labels
        if is_vector(column, may_be_texts=is_usual) and (is_named or not _is_of_counts(column)):
            vectors.append(name)
    lacking = [name for name in labels if name not in candidates]
    if labels and not lacking:
        return labels[0] if len(labels) == 1 and labels[0] in vectors else None
    # Names of no column may be those of the labels in a vector: all of them, or none.
    if lacking and (len(lacking) < len(labels) or not vectors):
        raise InputError.unknown("column", lacking[0], candidates, where=where)
    fits = [name for name in vectors if name.lower() in SCORE_NAMES.split()]
    # Without such a name, columns of real numbers are the scores, and the lists something else.
    if vectors and not fits and (labels or not any(map(_is_real, candidates.values()))):
        fits = vectors
    if len(fits) > 1:
        raise InputError(
            f"{where}: each of the columns {', '.join(map(repr, fits))} may hold all scores of a "
            f"row; name one of them: {spell('labels', fits[0])}."
        )
    return fits[0] if fits else None


def _is_of_counts(column: Column) -> bool:
    """True for lists of whole numbers, such as ids of tokens, and dicts of counts and costs."""
    first = first_cell(column)
    if isinstance(first, dict):
        return bool(first) and len(cells.derived_names(list(map(str, first)))) >= len(first) - 1
    return cells.are_whole(cells.numbers_of(list(chain.from_iterable(map(scores_of, column))))[0])


def _is_real(column: Column) -> bool:
    """True if a column holds numbers that are not whole."""
    numbers, bad_rows = cells.numbers_of(column)
    return int(np.sum(~np.isnan(numbers))) > len(bad_rows) and not cells.are_whole(numbers)


def _score_column(where: str, name: str, column: Column) -> np.ndarray:
    """A column of scores; a cell that is no number is refused."""
    numbers, bad_rows = cells.numbers_of(column)
    if bad_rows:
        at = f"{where}, column {name!r}, row {bad_rows[0]} (counted from 0)"
        got = f"{shown(column[bad_rows[0]])} ({len(bad_rows)} rows like it)"
        remedy = "correct it, or leave it empty if the label was not returned"
        raise InputError.at(at, "a number", got, remedy)
    return numbers


def gold_of_rows(
    where: str, column: Column, vectors: Vectors, names: Names
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The right labels [n], and notes: names, texts that the row lists, indices, or nothing.

    Raises:
        InputError: an index where rows list the labels in different orders, which may count in
            the row's own list or in another one; a text that is one choice and the index of
            another; a cell that names no label.
    """
    gold_cells, k = list(map(cells.text_of, column)), len(names)
    if all(map(cells.NUMBERED.fullmatch, names)):  # an index is that of the name
        gold_cells = [f"LABEL_{cell}" if cell.isdecimal() else cell for cell in gold_cells]
    is_own = vectors.source.lower() in OWN_LISTS
    # In the model's own order, most probable first, no index of a right label counts.
    are_plain = vectors.are_answers or is_own or not (vectors.source and vectors.are_ranked)
    if are_plain and all(names[: len(listed)] == listed for listed in vectors.lists):
        gold = cells.gold_indices(where, gold_cells, names)
        for cell, label in dict.fromkeys(zip(gold_cells, gold.tolist(), strict=True)):
            if cell != names[label] and cell.casefold() == names[label].casefold():
                return gold, (f"{where}: {cell!r} is read as the label {names[label]!r}.",)
        return gold, ()
    cells.refuse_counted_from_one(where, set(gold_cells) - set(names), k)
    unknown = {"": -1, "-1": -1}
    label_of = dict(zip(names, range(k), strict=True))
    by_text, by_index = [], []
    for listed in vectors.lists:
        texts, indices = label_of, {str(i): i for i in range(k)} | label_of
        if vectors.are_answers:
            # A text that appears twice in a row says nothing.
            texts = {text: i for i, text in enumerate(listed) if listed.count(text) == 1}
        else:
            indices = {str(i): label_of[text] for i, text in enumerate(listed)}
        by_text.append(unknown | texts)
        by_index.append(unknown | indices)
    look_up = partial(cells.look_up_gold, where, gold_cells, names)
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


ROW_NUMBER = re.compile("|ids?|idx|index|row|row_id|doc_id|unnamed: 0|__index_level_0__")
"""Names of columns that number the rows."""
MAX_CELLS_LOOKED_AT = 1000  # of a column of texts, to see whether they are meant as numbers
LIKE_A_NUMBER = re.compile(r"[(+-]?\s?(\d{1,3}([.,'\s]\d{3})+|\d+)?([.,]\d+)?\s?[%)]?")
"""Texts that people read as numbers, such as 1,234 or 35 %."""


def recognize_gold(columns: Columns, reading: Reading) -> tuple[Reading, list[str]]:
    """The reading with the column of right labels that nobody named, and a note that says so.

    It has a usual name of right labels and holds only names of other columns, as no scores do. If
    two columns are like this, none is taken.
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
            texts = {cells.text_of(cell).casefold() for cell in column} - {""}
            if texts and texts <= known:
                gold_names.append(name)
    if len(gold_names) != 1:
        return reading, []
    name = gold_names[0]
    note = f"The column {name!r} names labels and is read as right labels ({spell('gold')})."
    return replace(reading, gold=name), [note]


def score_candidates(where: str, columns: Columns, reading: Reading) -> dict[str, Column]:
    """The columns that may hold scores: all that are not named as something else."""
    named = [name for name in (reading.gold, reading.ids, *reading.by) if name]
    for name in named:
        refuse_unknown("column", name, columns, where=where)
        if name in reading.labels:
            raise InputError(
                f"{where}: the column {name!r} is named both as scores and for another use; remove "
                f"it from {spell('labels')}, or from {spell('gold')}, {spell('ids')} "
                f"and {spell('by')}."
            )
    candidates = {name: column for name, column in columns.items() if name not in named}
    if reading.labels:
        return candidates
    # A column of right labels that nobody named would be taken for scores, or lost.
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


def named_or_real_columns(where: str, candidates: Columns, reading: Reading) -> tuple[Names, Names]:
    """The columns of `reading.labels`, or else all columns of real numbers, and notes on them."""
    if reading.labels:  # whatever is in them: a cell that is no number is refused later
        return cells.choose_labels(where, reading.labels, reading.labels, are_named=True)[0], ()
    real: dict[str, np.ndarray] = {}
    unsure: dict[str, str] = {}
    notes = []
    for name, column in candidates.items():
        numbers, bad_rows = cells.numbers_of(column)
        kind, reason = _kind_of_column(name, column, numbers, bad_rows)
        if kind == "real":
            real[name] = numbers
        elif kind == "unsure":
            unsure[name] = reason
        elif reason:
            notes.append(f"The column {name!r} is left out: {reason}.")
    for name, reason in cells.derived_names(list(real)).items():
        if SURE.isdisjoint(cells.words_of(name)):
            del real[name]
            notes.append(f"The column {name!r} {reason}.")
    for name in real:
        # A column `id` may be Indonesian, beside others of log-probabilities.
        if ROW_NUMBER.fullmatch(name.lower()) and not _is_like_others(name, real):
            unsure[name] = "holds numbers unlike the other columns and may number the rows"
    if unsure:
        name, reason = next(iter(unsure.items()))
        likely = tuple(real if len(real) > 1 else {**real, **unsure})
        raise InputError(
            f"{where}: the column {name!r} {reason}, so it is unclear whether it holds a label's "
            f"scores; name the columns of scores: {spell('labels', likely)}."
        )
    if len(real) < 2:
        example = spell("labels", ("A", "B"))
        expected = "at least two columns of real numbers, one per label"
        got = f"{', '.join(map(repr, real)) or 'none'} among {len(candidates)} columns"
        remedy = " ".join([f"name them with {example}.", *notes]).removesuffix(".")
        raise InputError.at(where, expected, got, remedy)
    _refuse_ranks(where, real, candidates)
    return tuple(real), (*notes, *cells.note_measures(real))


def _kind_of_column(
    name: str, column: Column, numbers: np.ndarray, bad_rows: list[int]
) -> tuple[str, str]:
    """The kind of a column that nobody named, "real", "unsure" or "", and the reason."""
    count = int(np.sum(~np.isnan(numbers)))
    if is_vector(column):
        # Lists of whole numbers are ids of tokens and the like.
        is_of_ids = cells.are_whole(cells.numbers_of(scores_of(first_cell(column)))[0])
        return "", "" if is_of_ids else "it holds several numbers per row, and other columns one"
    if len(bad_rows) > count:  # mostly texts; one text among numbers is a mistake to be told
        sample = bad_rows[:MAX_CELLS_LOOKED_AT]
        unread = [column[row] for row in sample if _is_like_a_number(column[row])]
        has_scores = count and not cells.are_whole(numbers)
        if not has_scores and 2 * len(unread) <= len(sample):
            return "", ""  # a column of texts
        bad_cell = shown((unread or [column[bad_rows[0]]])[0])
        return "", f"{len(bad_rows):,} of {len(column):,} cells are not numbers, such as {bad_cell}"
    is_row_number = ROW_NUMBER.fullmatch(name.lower())
    if not count:
        return ("", "") if is_row_number else ("unsure", "is empty")
    if bad_rows or not cells.are_whole(numbers):
        return "real", ""
    # Whole numbers as texts, such as "12", are codes where other columns hold true numbers.
    is_of_text_file = isinstance(column, cells.Texts)
    are_texts = not is_of_text_file and any(isinstance(cell, str) for cell in column)
    if is_row_number or are_texts:
        return "", ""
    return "unsure", "holds whole numbers"


def _is_like_a_number(cell: object) -> bool:
    text = cells.text_of(cell).translate(cells.MINUS_SIGNS)
    return any(map(str.isdigit, text)) and LIKE_A_NUMBER.fullmatch(text) is not None


def _is_like_others(name: str, real: Mapping[str, np.ndarray]) -> bool:
    """True if a column fits the others: all log-probabilities, or probabilities of one row."""
    other_names = [column for column in real if column != name]
    if not other_names:
        return False
    if max(np.nanmax(real[column]) for column in other_names) <= 0:
        return bool(np.nanmax(real[name]) <= 0)
    numbers = np.stack(list(real.values()))  # [columns, n]
    return bool(np.nanmin(numbers) >= 0 and np.nansum(numbers, axis=0).max() <= 1 + 1e-3)


def _refuse_ranks(where: str, real: Mapping[str, np.ndarray], candidates: Columns) -> None:
    """Refuse columns score_1, score_2 with label_1, label_2: their labels differ by row."""
    # Found rather than replaced: a pattern with \D* on both sides takes hours for long names.
    ranks = ["".join(re.findall(r"\d+", name)) or name for name in real]
    if len(set(ranks)) < len(ranks):  # a number that all have counts nothing
        return
    columns_of_stem: dict[str, dict[str, str]] = {}
    for name in candidates.keys() - real.keys():
        if match := re.fullmatch(r"(\D*)(\d+)(\D*)", name):
            columns_of_stem.setdefault(match[1] + match[3], {})[match[2]] = name
    rows = np.stack(list(real.values()), axis=1).tolist()
    for columns in columns_of_stem.values():
        if not columns.keys() >= set(ranks):
            continue
        names = [columns[rank] for rank in ranks]
        texts = [map(cells.text_of, candidates[name]) for name in names]
        lists = list(zip(*texts, strict=True))
        if len(set(lists)) > 1 and are_labels(lists, rows):
            got = f"{', '.join(map(repr, real))} next to {', '.join(map(repr, names))}, which "
            got += "name different labels from row to row"
            remedy = "write one column per label, or JSON lines with lists labels and scores; "
            remedy += f"if they are not labels, pass {spell('labels', tuple(real))}"
            raise InputError.at(where, "columns that each hold one label's scores", got, remedy)
