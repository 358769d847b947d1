"""Writes rows to label to a table, and reads the labels back by the ids of the rows."""

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from batch_calibration.cli import summaries
from batch_calibration.cli.prior import read_columns
from batch_calibration.diagnosis import labeling
from batch_calibration.errors import InputError, nearest
from batch_calibration.files import csv_text, object_at, write_whole
from batch_calibration.importers import IMPORTERS, Imported, Reading, find_importer
from batch_calibration.importers.cells import Column, numbers_of, texts_of
from batch_calibration.importers.compressed import plain_copy
from batch_calibration.importers.frames import rows_to_columns
from batch_calibration.importers.gold import check_gold, fold, plain_labels, read_gold
from batch_calibration.importers.score_columns import is_real
from batch_calibration.importers.vectors import is_vector
from batch_calibration.methods.run import have_same_rows, holds_cosines, task_of
from batch_calibration.reporting.frame import group_by
from batch_calibration.scores import ScoreTable, make_block

ROW, CONTEXT, LABEL = "row", "context", "label"
"""Columns of a table of rows to label, before and after the columns of texts."""
WITH_TEXTS = [IMPORTERS[name] for name in ("csv", "json", "parquet", "arrow", "lm_eval")]
"""Formats with the texts of each row of scores."""
Row = tuple[str, int]  # the name of a group of contexts, and the index of a row


def group_rows(tables: Sequence[ScoreTable]) -> dict[str, list[int]]:
    """Maps names to the indices of contexts with the same rows, such as prompts of one task."""
    groups = dict[str, list[int]]()
    for (task, _), places in group_by(range(len(tables)), lambda i: task_of(tables[i])).items():
        if have_same_rows([tables[place] for place in places]):
            groups[summaries.title(tables[places[0]]) if task in groups else task] = places
        else:
            groups |= {summaries.title(tables[place]): [place] for place in places}
    return groups


def find_rows(
    tables: Sequence[ScoreTable], groups: Mapping[str, Sequence[int]], *, by_context: bool
) -> dict[tuple[str, str], Row]:
    """Maps the name of a context ("" unless `by_context`) and the id of a row to the row.

    Raises:
        InputError: Two rows have one id, or ids that a spreadsheet makes equal.
    """
    row_of = dict[tuple[str, str], Row]()
    for name, places in groups.items():
        for row, row_id in enumerate(tables[places[0]].blocks["test"].row_ids):
            if row_of.setdefault((name * by_context, plain_id(row_id)), (name, row)) != (name, row):
                expected = "row ids that stay different in a spreadsheet and in all contexts"
                remedy = f"use other --ids, or a column 'context' with one of {', '.join(groups)}"
                raise InputError.at(name, expected, f"{row_id!r} for two rows", remedy)
    return row_of


def plain_id(row_id: str) -> str:
    """Returns an id as a spreadsheet may write it.

    >>> [*map(plain_id, ("007", "1.0", "'-a", "b"))]
    ['7', '1', '-a', 'b']
    """
    whole = re.fullmatch(r"0*(\d+)(\.0*)?", row_id.strip())
    return whole[1] if whole else row_id.strip().removeprefix("'")


def label_rows(
    tables: Sequence[ScoreTable], path: Path, reading: Reading
) -> list[ScoreTable] | None:
    """Adds the rows that a file labels by their ids to each context, as its block "labeled".

    Returns None for a file with scores, or without columns of ids and labels.

    Raises:
        InputError: No row has a label, or a row has an unknown id or label, or two labels; several
            columns may hold the ids or the labels; or rows have one id.
    """
    columns, groups, widened = dict[str, Column](), group_rows(tables), [*tables]
    # The importers raise the errors of other files.
    with suppress(InputError), plain_copy(path) as file:
        columns |= read_columns(file)
    texts = {name: texts_of(column) for name, column in columns.items()}
    known = {"", *map(fold, chain(*(table.label_names for table in tables)))}
    known |= {*map(str, range(len(known) - 1))}
    labels = [n for n in (reading.gold, LABEL) if n in texts][:1]
    labels = labels or [n for n in texts if {""} < {"", *map(fold, texts[n])} <= known]
    is_nested = any(isinstance(cell, list | dict) for cell in chain(*columns.values()))
    has_scores = any({*table.label_names} <= columns.keys() for table in tables)
    has_scores |= any(is_real(column) or is_vector(column) for column in columns.values())
    if is_nested or has_scores or not labels:
        return None
    row_of = find_rows(tables, groups, by_context=CONTEXT in texts)
    cells, of_context = texts[labels[0]], texts.get(CONTEXT) or [""] * len(texts[labels[0]])
    keys = {n: [*zip(of_context, map(plain_id, texts[n]), strict=True)] for n in texts}
    ids = [n for n in texts if n not in labels and {*keys[n]} <= row_of.keys()]
    ids = [n for n in ids if len({*keys[n]}) == len(cells)] or [n for n in texts if n == ROW]
    ids = [n for n in texts if n == reading.ids] or ids
    if len(ids) > 1 or len(labels) > 1:
        expected, remedy = "one column of row ids and one of labels", "leave the others out"
        raise InputError.at(path, expected, " and ".join(map(repr, ids + labels)), remedy)
    if not ids:
        return None
    found = dict[Row, int]()  # -> its line of the file
    for line, key in enumerate(keys[ids[0]]):
        if cells[line] and key[0] in ("", *groups):
            if key not in row_of or row_of[key] in found:
                where = f"{path}, row {line} (counted from 0)"
                near = nearest(key[1], (row_id for _, row_id in row_of), 0.8)
                got = f"{texts[ids[0]][line]!r}{' again' if key in row_of else near}"
                raise InputError.at(where, "the id of a row of the scores, once", got, "correct it")
            found[row_of[key]] = line
    where = f"{path}, column {labels[0]!r}"
    if not found:
        remedy = "write the labels of some rows in this column"
        raise InputError.at(where, f"labels of rows of {', '.join(groups)}", "none", remedy)
    note = [f"{len(found):,} of {len(cells):,} rows of {path} have a label."]
    note *= len(found) < len(cells)
    for name, places in groups.items():
        # In the order of the scores, because folds of rows depend on their order.
        rows = sorted(row for group, row in found if group == name)
        lines = [found[name, row] for row in rows]
        own = np.where(np.isin(np.arange(len(cells)), lines), cells, "").tolist()
        for place in places if rows else ():
            (_, names, blocks), test = tables[place], tables[place].blocks["test"]
            right, order, read_as = read_gold(where, own, names, reading.gold_names)
            scores, gold = test.log_probs[rows], right[lines]
            imported = Imported(where, scores, names, index_names=order)
            fit = check_gold(imported, scores, gold, replace(reading, gold=""))
            row_ids = [test.row_ids[row] for row in rows]
            block = make_block(scores, gold, None, row_ids, {"notes": [*note, *read_as, *fit]})
            widened[place] = tables[place]._replace(blocks={**blocks, "labeled": block})
    return widened


def check_output(path: Path) -> None:
    """Raises an error if a file would be lost that is no table of rows without labels."""
    if path.exists() and any(texts_of(read_columns(path).get(LABEL, ["?"]))):
        got = "a file with labels or other data, which would be lost"
        raise InputError.at(f"--output={path}", "a new file", got, "name another file")


def write_rows(
    args: Namespace, files: Sequence[Path], tables: Sequence[ScoreTable], reading: Reading
) -> str:
    """Writes rows to label, and those labeled already; returns sentences on their labels."""
    groups, texts = group_rows(tables), dict[str, dict[str, list[str]]]()
    find_rows(tables, groups, by_context=len(groups) > 1)  # raises an error for equal ids
    label_of, left, probs = dict[Row, str](), list[Row](), list[np.ndarray]()
    for name, places in groups.items():
        tests, file = [tables[place].blocks["test"] for place in places], files[places[0]]
        _, names, blocks = tables[places[0]]
        if labeled := blocks.get("labeled"):
            for row_id, right in zip(labeled.row_ids, labeled.labels, strict=True):
                label_of[name, tests[0].row_ids.index(row_id)] = names[right]
        probs.append(labeling.corrected_probs(np.stack([test.log_probs for test in tests])))
        order = labeling.order_rows(probs[-1])
        is_known = np.any([test.labels >= 0 for test in tests], axis=0)
        left += ((name, row) for row in order[~is_known[order]].tolist())
        of_files = zip(tables, files, strict=True)
        count = sum(len(t.blocks["test"].labels) for t, other in of_files if other == file)
        texts[name] = _texts(file, count, tables[places[0]], reading)
    left, total = [row for row in left if row not in label_of], sum(map(len, probs))
    if not left:
        got = f"right labels of all {total:,} rows"
        raise InputError.at(args.files[0], "rows without a right label", got)
    columns = [ROW, *[CONTEXT] * (len(groups) > 1), *dict.fromkeys(chain(*texts.values())), LABEL]
    chosen = labeling.take_evenly(np.arange(len(left)), args.n, args.seed)
    # In random order, the lines that a person labels first are a sample of all.
    lines, random = [columns], np.random.default_rng(args.seed)
    for name, row in [*label_of, *(left[place] for place in random.permutation(chosen))]:
        line = {column: cells[row] for column, cells in texts[name].items()}
        line |= {CONTEXT: name, LABEL: label_of.get((name, row), "")}
        line[ROW] = tables[groups[name][0]].blocks["test"].row_ids[row]
        lines.append([line.get(column, "") for column in columns])
    text = csv_text(lines)
    # Spreadsheets need a byte order mark to read UTF-8.
    encoding = "utf-8" if text.isascii() else "utf-8-sig"
    write_whole(Path(args.output), text.encode(encoding, errors="backslashreplace"))
    how = f"spread evenly over answers and doubt in {len(left):,} rows without a label"
    how = how if len(chosen) < len(left) else f"all that have no label (--n={args.n})"
    said = f"{args.output}: {len(chosen):,} rows to label, {how}; {total - len(left):,} of "
    said += f"{total:,} rows are labeled already."
    listed = ""
    if len(label_names := {table.label_names for table in tables}) == 1:
        listed = f" ({', '.join(*label_names)})"
        error = labeling.label_error(np.concatenate(probs))
        said += f" {labeling.narrowing(error, total)}" * (not holds_cosines(tables[0]))
    return f"{said} Write labels{listed} into the column {LABEL!r}, then run:"


def _texts(path: Path, count: int, table: ScoreTable, reading: Reading) -> dict[str, list[str]]:
    """Returns the columns of texts of a file with `count` rows, for the rows of a context.

    Columns of label names are left out, because predictions would anchor the labels.
    """
    block, columns, texts = table.blocks["test"], dict[str, Column](), dict[str, list[str]]()
    rows = block.file_rows.tolist()
    # A JSON document of another form than rows has scores, but no columns.
    with suppress(InputError), plain_copy(path) as file:
        columns |= read_columns(file) if find_importer(file, reading) in WITH_TEXTS else {}
    if {"doc_id", "doc", "arguments"} <= columns.keys():  # a log of the harness
        docs = dict(zip(texts_of(columns["doc_id"]), map(object_at, columns["doc"]), strict=True))
        columns = rows_to_columns([docs.get(row_id, {}) for row_id in block.row_ids])
        rows, count = [*range(len(block.row_ids))], len(block.row_ids)
    labels = {"", *map(fold, (*table.label_names, *plain_labels(table.label_names)))}
    for name, column in columns.items():
        cells = texts_of(column)
        is_text = all(isinstance(cell, str | None) for cell in column) and not is_real(column)
        is_text = is_text and bool(numbers_of(column)[1]) and cells[0][:1] not in ("[", "{")
        is_other = name in (reading.gold, reading.ids, *reading.by) or {*map(fold, cells)} <= labels
        # A table with several lines for a row of scores has another number of them.
        if is_text and not is_other and len(cells) == count and len({*cells}) > 1:
            texts[name + "_" * (name in (ROW, CONTEXT, LABEL))] = [cells[row] for row in rows]
    return texts
