"""Finds the columns of a table that hold the scores of labels, one column for each label."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, compress, permutations, product

import numpy as np
from scipy.special import softmax

from batch_calibration.arrays.frames import GOLD
from batch_calibration.errors import InputError, shown, spell
from batch_calibration.importers import cells
from batch_calibration.importers.base import Reading
from batch_calibration.importers.cells import Column, Columns
from batch_calibration.importers.questions import read_flag
from batch_calibration.importers.vectors import Names, are_labels, first_cell, is_vector, scores_of
from batch_calibration.responses.top_k import SPACES, fold
from batch_calibration.scores import PROBABILITY

ROW_NUMBER = re.compile("|ids?|idx|index|row|row_id|doc_id|unnamed: 0|__index_level_0__")
"""Names of columns that number the rows."""
MAX_CELLS_LOOKED_AT = 1000  # cells of a column of texts that are checked for numbers
LIKE_A_NUMBER = re.compile(r"[(+-]?\s?(\d{1,3}([.,'\s]\d{3})+|\d+)?([.,]\d+)?\s?[%)]?")
"""Texts that people read as numbers, such as 1,234 or 35 %."""
WORD_ENDS = re.compile(r"(?<=[^\W_])(?=[\W_])|(?<=[\W_])(?=[^\W_])")
"""Places in a name where a word or the signs between two words end."""
MAX_CUTS = 20  # parts of a name that are compared with other names
MOST_ROWS = 0.9  # share of the rows in which probabilities have to sum to 1
MIN_ROWS = 10  # rows from which sums of 1 without a column show that it belongs to no label
SUM_ERROR = 5e-3  # distance of a sum of probabilities from 1, after rounding to a few decimals

WHOLE = "holds whole numbers"

Numbers = Mapping[str, np.ndarray]
"""Column -> numbers [n]."""


def label_columns(
    where: str, candidates: Columns, reading: Reading, gold: Sequence[str] = ()
) -> tuple[Names, Names, Numbers]:
    """Finds the columns of `reading.labels`, or else all columns of real numbers.

    Args:
        where: The file's name, for messages.
        candidates: The columns without another role.
        reading: The user's description of the table.
        gold: [n], the right labels as texts, "" if unknown; () without them.

    Returns:
        The columns, notes on them, and sums of the columns that spell one label in several ways.

    Raises:
        InputError: Fewer than two columns, or columns that may belong to no label.
    """
    if reading.labels:  # A cell without a number is refused later.
        chosen = cells.choose_labels(where, reading.labels, reading.labels, are_named=True)[0]
        return chosen, (), {}
    real, notes = _real_columns(where, candidates, are_counts=reading.from_probs == "counts")
    if len(real) < 2:
        expected = "at least two columns of real numbers, one per label"
        got = f"{', '.join(map(repr, real)) or 'none'} among {len(candidates)} columns"
        name = spell("labels", ("A", "B"))
        remedy = " ".join([f"name them with {name}.", *notes]).removesuffix(".")
        raise InputError.at(where, expected, got, remedy)
    _refuse_ranks(where, real, candidates)
    names, more_notes, sums = choose_real(where, real, reading, gold)
    return names, (*notes, *more_notes), sums


def choose_real(
    where: str, real: Numbers, reading: Reading, gold: Sequence[str]
) -> tuple[Names, Names, Numbers]:
    """Returns the columns of numbers that hold labels' scores, notes, and sums of spellings.

    Raises:
        InputError: Some columns may belong to no label.
    """
    kept = _without_softmax(real)
    sums, notes = _sum_spellings(kept, gold)
    if len(kept) < len(real):
        notes.append("The columns p(LABEL) are the softmax of the scores, so these are corrected.")
    real = kept
    if sums:
        spelled = {fold(name) for name in sums}
        real = {name: real[name] for name in real if fold(name) not in spelled or name in sums}
        real |= sums
    options = _possible_labels(real, gold, reading)
    if options and options != [tuple(real)]:
        _ask_for_labels(where, real, [*options, tuple(real)], gold)
    if not options and len(real) > 2:
        listed, name = ", ".join(map(repr, real)), spell("labels", tuple(real)[:2])
        notes.append(f"All columns of real numbers are labels: {listed}; if not, pass {name}.")
    return tuple(real), tuple(notes), sums


def _without_softmax(real: Numbers) -> Numbers:
    """Leaves out probabilities p(A), p(B) that are the softmax of A, B, and their choice."""
    labels = [name for name in real if PROBABILITY.format(name) in real]
    if len(labels) < 2:
        return real
    columns = [*map(PROBABILITY.format, labels)]
    probs = np.stack([real[name] for name in columns])  # [k, n]
    expected = softmax(np.stack([real[name] for name in labels]), axis=0)
    if not np.allclose(probs, expected, atol=1e-4):
        return real
    kept = {name: numbers for name, numbers in real.items() if name not in columns}
    chosen = [name for name in kept if np.isclose(kept[name], probs).any(axis=0).all()]
    return {name: kept[name] for name in kept if name in labels or name not in chosen}


def column_sets(names: Collection[str], labels: Sequence[str]) -> list[Names]:
    """Finds each set of columns, one per label, with equal text before and after the labels.

    >>> column_sets(["p_no", "p_yes", "yes", "p_yes_norm", "p_no_norm"], ["yes", "no"])
    [('p_yes', 'p_no'), ('p_yes_norm', 'p_no_norm')]
    """
    for spell_alike in (str, str.casefold):  # Yes is yes, unless another column is YES.
        column_of = {spell_alike(name): name for name in names}
        texts = list(map(spell_alike, labels))
        if len(column_of) < len(names) or len(set(texts)) < len(texts):
            continue
        sets = []
        for name in column_of:
            start, is_here, end = name.partition(texts[0])
            of_labels = [f"{start}{text}{end}" for text in texts]
            if not is_here or not all(map(column_of.__contains__, of_labels)):
                continue
            columns = tuple(map(column_of.__getitem__, of_labels))
            if not start + end or len(labels) == 1 or cells.short_names(columns) != columns:
                sets.append(columns)
        if sets:
            return sets
    return []


def _real_columns(
    where: str, candidates: Columns, *, are_counts: bool
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the columns of real numbers, or of counts, and notes on columns left out."""
    real: dict[str, np.ndarray] = {}
    unsure: dict[str, str] = {}
    notes, counts = [], 0
    for name, column in candidates.items():
        numbers, bad_rows = cells.numbers_of(column)
        kind, reason = _kind_of_column(name, column, numbers, bad_rows)
        is_count = reason == WHOLE and not (numbers < 0).any()
        counts += is_count
        if are_counts and kind and not is_count:
            is_whole = np.mean((numbers >= 0) & (numbers % 1 == 0)) > 0.5
            kind, reason = "unsure" if is_whole else "", "holds numbers that are no counts"
        kind = "real" if are_counts and is_count else kind
        if kind == "real":
            real[name] = numbers
        elif kind == "unsure":
            unsure[name] = reason
        elif reason:
            notes.append(f"The column {name!r} is left out: {reason}.")
    for name in real:
        # The column `id` may hold the scores of a label, such as the language code of Indonesian.
        if ROW_NUMBER.fullmatch(name.lower()) and not _is_like_others(name, real):
            unsure[name] = "holds numbers unlike the other columns and may number the rows"
    if unsure:
        name, reason = next(iter(unsure.items()))
        likely = tuple(real if len(real) > 1 else {**real, **unsure})
        hint = f", and pass {spell('from_probs', 'counts')} if they count sampled answers"
        hint *= counts > 1 and not real
        raise InputError(
            f"{where}: the column {name!r} {reason}, so it is unclear whether it holds a label's "
            f"scores; name the columns of scores: {spell('labels', likely)}{hint}."
        )
    return real, notes


def _kind_of_column(
    name: str, column: Column, numbers: np.ndarray, bad_rows: list[int]
) -> tuple[str, str]:
    """Returns the kind of a column, "real", "unsure" or "", and the reason."""
    count = int(np.sum(~np.isnan(numbers)))
    if is_vector(column):
        # Lists of whole numbers are, for example, token ids.
        is_of_ids = cells.are_whole(cells.numbers_of(scores_of(first_cell(column)))[0])
        return "", "" if is_of_ids else "it holds several numbers per row, and other columns one"
    if len(bad_rows) > count:  # mostly texts; a single text among numbers is reported as a mistake
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
    # Whole numbers as texts, such as "12", are codes if other columns hold true numbers.
    is_of_text_file = isinstance(column, cells.Texts)
    are_texts = not is_of_text_file and any(isinstance(cell, str) for cell in column)
    if is_row_number or are_texts:
        return "", ""
    return "unsure", WHOLE


def _is_like_a_number(cell: object) -> bool:
    text = cells.text_of(cell).translate(cells.MINUS_SIGNS)
    return any(map(str.isdigit, text)) and LIKE_A_NUMBER.fullmatch(text) is not None


def _is_like_others(name: str, real: Numbers) -> bool:
    """Checks whether a column fits the others: all log-probabilities, or probabilities of rows."""
    others = [real[column] for column in real if column != name]
    if not others:
        return False
    if max(map(np.nanmax, others)) <= 0:
        return bool(np.nanmax(real[name]) <= 0)
    numbers = np.stack(list(real.values()))  # [columns, n]
    return bool(np.nanmin(numbers) >= 0 and np.nansum(numbers, axis=0).max() <= 1 + 1e-3)


def _sum_spellings(real: Numbers, gold: Sequence[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Adds the probabilities of columns that differ only in case, such as yes and Yes."""
    columns_of: dict[str, list[str]] = {}
    for name in real:
        columns_of.setdefault(fold(name), []).append(name)
    texts = set(gold)
    if len({fold(text) for text in texts}) < len(texts):  # The right labels differ in case.
        return {}, []
    if len(columns_of) < 2:
        return {}, []
    sums, notes = dict[str, np.ndarray](), []
    for names in columns_of.values():
        if len(names) == 1:
            continue
        numbers = np.stack([real[name] for name in names])
        if np.nanmax(numbers) <= 0:
            sums[names[0]] = np.logaddexp.reduce(np.where(np.isnan(numbers), -np.inf, numbers))
        elif np.nanmin(numbers) >= 0 and np.nanmax(np.nansum(numbers, axis=0)) <= 1 + SUM_ERROR:
            sums[names[0]] = np.nansum(numbers, axis=0)
        else:
            continue
        listed = ", ".join(map(repr, names))
        notes.append(f"{listed} spell one label: their probabilities are added.")
    return sums, notes


def _possible_labels(real: Numbers, gold: Sequence[str], reading: Reading) -> list[Names]:
    """Returns the sets of columns that may hold all scores of labels; [] without evidence."""
    names, texts = (
        tuple(real),
        sorted({text.translate(SPACES).strip() for text in gold} - {"", "-1"}),
    )
    rows = np.stack(list(real.values()), axis=1)  # [n, columns]
    highest = np.where(np.isnan(rows), -np.inf, rows).max(axis=0)  # of each column
    sums = np.exp(rows) if max(highest) <= 0 else np.where(np.isfinite(rows), rows, np.nan)
    total = sums.sum(axis=1, keepdims=True)  # NaN if a score is missing
    without = _are_one(total - sums) if len(names) > 2 else np.zeros(len(names), bool)
    if _are_one(total).all() and not without.any():
        return [names]  # Only all columns together are a distribution.
    sets = column_sets(real, sorted(texts)) if len(texts) > 1 else []
    if sets:
        return [tuple(filter(columns.__contains__, real)) for columns in sets]
    bases = _columns_with_additions(real)
    if bases:
        return [bases]
    is_negative = highest <= 0
    low = tuple(compress(names, is_negative))
    if len(low) > 1 and reading.from_probs is not False and len(low) < len(names):
        masses = np.nansum(np.exp(rows[:, is_negative]), axis=1)
        if masses.max() <= 1 + SUM_ERROR:  # They are log-probabilities, the others are not.
            return [low]
    if without.any() and len(rows) >= MIN_ROWS:
        return [tuple(compress(names, ~without))]
    are_indices = len(texts) > 1 and all(map(str.isdecimal, texts))
    if are_indices and max(map(int, texts)) < len(names) - 1:
        return [names[: max(map(int, texts)) + 1]]  # no row has the index of a later column
    return []


def _are_one(sums: np.ndarray) -> np.ndarray:
    """Checks whether each column of sums [n, columns] is mostly 1, the sum of probabilities."""
    return np.asarray((np.abs(sums - 1) <= SUM_ERROR).mean(axis=0) >= MOST_ROWS)


def _columns_with_additions(real: Numbers) -> Names:
    """Finds columns with a second set of columns that adds the same text, such as yes_norm."""
    bases: dict[tuple[str, str], list[str]] = {}
    for name in real:
        cuts = [0, *(match.start() for match in WORD_ENDS.finditer(name)), len(name)]
        for start, end in combinations(cuts[:MAX_CUTS], 2):
            base = name[start:end]
            if base in real and base != name:
                bases.setdefault((name[:start], name[end:]), []).append(base)
    return next((tuple(names) for names in bases.values() if len(names) > 1), ())


def _ask_for_labels(
    where: str, real: Numbers, options: Sequence[Names], gold: Sequence[str]
) -> None:
    """Raises an error with each possible set of label columns and its accuracy."""
    options = list(dict.fromkeys(options))
    ways = [f"{spell('labels', names)}{_share_right(real, names, gold)}" for names in options]
    others = [name for name in real if name not in options[0]]
    got = f"{', '.join(map(repr, others[: cells.MAX_LISTED]))}"
    got += " ..." if len(others) > cells.MAX_LISTED else ""
    got += f" next to {', '.join(map(repr, options[0][: cells.MAX_LISTED]))}"
    remedy = f"pass {', or '.join(ways)}, if all are labels"
    expected = "only columns with the scores of a label"
    raise InputError.at(where, expected, got, remedy, "labels")


def _share_right(real: Numbers, names: Names, gold: Sequence[str]) -> str:
    """Returns the accuracy of columns in parentheses; "" if no right label names a column."""
    label_of = {str(i): i for i in range(len(names))}
    for known in (cells.short_names(names), names):
        label_of |= {fold(name): i for i, name in enumerate(known)}
    labels = np.array([label_of.get(fold(text), -1) for text in gold], int)
    if not (labels >= 0).any():
        return ""
    rows = np.stack([real[name] for name in names], axis=1)[labels >= 0]
    is_right = np.where(np.isnan(rows), -np.inf, rows).argmax(axis=1) == labels[labels >= 0]
    return f" ({100 * is_right.mean():.1f} % right)"


def _refuse_ranks(where: str, real: Numbers, candidates: Columns) -> None:
    """Raises an error for columns score_1, score_2 and label_1, label_2 if labels vary by row."""
    # Found rather than replaced: a pattern with \D* on both sides takes hours for long names.
    ranks = ["".join(re.findall(r"\d+", name)) or name for name in real]
    if len(set(ranks)) < len(ranks):  # A number that names share is not a rank.
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


def pivot_choices(columns: Columns, reading: Reading) -> tuple[Columns, Reading, list[str]]:
    """Merges the rows of each id into one row, if a table has a row for each choice of an id.

    One column then holds all scores, and another one the same k texts for each id: the labels. The
    right labels are these texts, or flags. Without right labels, the probabilities of each id have
    to sum to 1.
    """
    if reading.labels:
        return columns, reading, []
    gold = reading.gold or next((name for name in columns if name.lower() in GOLD), "")
    named = {gold, *reading.by}
    real = [name for name, column in columns.items() if name not in named and is_real(column)]
    if len(real) != 1:
        return columns, reading, []
    texts = {name: cells.texts_of(column) for name, column in columns.items()}
    numbers, bad_rows = cells.numbers_of(columns[real[0]])
    different = {name: tuple(dict.fromkeys(column)) for name, column in texts.items()}
    others = [name for name in texts if name not in {*named, *real}]
    for ids, choices in permutations(others if not bad_rows else [], 2):
        labels, rows = different[choices], different[ids]
        if len(labels) * len(rows) != len(numbers) or min(len(labels), len(rows)) < 2:
            continue
        places = zip(texts[ids], texts[choices], strict=True)
        row_of = dict(zip(places, range(len(numbers)), strict=True))
        if len(row_of) < len(numbers):
            continue  # an id has a choice twice
        grid = np.reshape([row_of[place] for place in product(rows, labels)], (len(rows), -1))
        scores = numbers[grid]
        pivoted: dict[str, Column] = dict(zip(labels, scores.T, strict=True))
        for name, column in texts.items():
            is_of_id = len(set(zip(texts[ids], column, strict=True))) == len(rows)
            if is_of_id and name not in (choices, *real):
                pivoted.setdefault(name, [column[i] for i in grid[:, 0]])
        right = texts.get(gold, [])
        flags = list(map(read_flag, right))
        if gold in pivoted:  # equal in all rows of an id
            is_sure = set(right) <= {*labels, "", *map(str, range(len(labels)))}
        elif right:
            is_right = np.array(flags, object)[grid] == True  # noqa: E712
            is_sure = None not in flags and bool((is_right.sum(axis=1) == 1).all())
            pivoted[gold] = [labels[j] for j in is_right.argmax(axis=1)]
        else:
            sums = (np.exp(scores) if np.nanmax(scores) <= 0 else scores).sum(axis=1)
            is_sure = bool(_are_one(sums[:, None]).all())
        if not is_sure:
            continue
        note = f"The rows of each {ids!r} are read as one row: {choices!r} names the labels."
        return pivoted, replace(reading, labels=labels, gold=gold, ids=reading.ids or ids), [note]
    return columns, reading, []


def is_real(column: Column) -> bool:
    """Checks whether a column holds numbers that are not whole."""
    numbers, bad_rows = cells.numbers_of(column)
    return int(np.sum(~np.isnan(numbers))) > len(bad_rows) and not cells.are_whole(numbers)
