"""Creates score tables from imported scores: joins shards, splits contexts, fills gaps."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import add
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from batch_calibration.arrays import missing_scores
from batch_calibration.arrays.numbers import read_whole_numbers
from batch_calibration.arrays.score_scale import (
    FromProbs,
    keep_differences,
    note_counts,
    note_fillers,
    note_moved,
    to_nats,
)
from batch_calibration.errors import InputError, spell
from batch_calibration.files import Json
from batch_calibration.importers.base import Imported, Reading
from batch_calibration.importers.cells import MAX_LISTED
from batch_calibration.importers.gold import check_gold
from batch_calibration.responses.servers import label_mass, note_little_mass, refuse_constant
from batch_calibration.scores import (
    FILE_ROWS,
    FILLED,
    KEY,
    POOLED_AS,
    ScoreTable,
    check,
    load,
    make_block,
)

TABLE_START = f'{{"__metadata__":{{"{KEY}"'.encode()
"""The beginning of the header in files of `ScoreTable.save`."""


MIN_ROWS = 10  # fewer rows may have the score of only one label by chance


class Gaps(NamedTuple):
    """Counts of rows with missing labels, in a file or a part of it."""

    rows: int = 0  # all rows
    lacking: int = 0  # rows that lack one label or several
    single: int = 0  # rows with the score of only one label
    empty: int = 0  # rows without any score
    by_label: np.ndarray | int = 0  # [k], rows that lack each label

    def plus(self, gaps: "Gaps") -> "Gaps":
        """Returns the sums of these counts and the counts of another part."""
        return Gaps(*map(add, self, gaps))

    def notes(
        self, label_names: Sequence[str], missing: missing_scores.Missing | None, *, is_named: bool
    ) -> tuple[str, ...]:
        """Returns notes on the treatment of missing labels and on rare labels.

        `is_named` means that the user named the labels; `rare_labels` then reports fewer of them.
        """
        if not self.lacking:
            return ()
        ways = {"least": "set just below the lowest returned score", "drop": "dropped"}
        way = ways.get(str(missing), f"set to {missing} nats")
        notes = [f"{self.lacking:,} of {self.rows:,} rows lack the score of a label: {way}."]
        if missing != "drop" and self.empty:
            notes.append(f"{self.empty:,} rows had no score of any label and are left out.")
        notes.append(self.rare_labels(label_names, is_named=is_named))
        return tuple(filter(None, notes))

    def rare_labels(self, label_names: Sequence[str], *, is_named: bool = False) -> str:
        """Returns a note on labels that most rows lack, "" if no label is rare.

        If the user named the labels (`is_named`), only labels that all rows lack count.

        >>> Gaps(300, 299, 0, 0, np.array([0, 0, 299])).rare_labels(("no", "yes", "maybe"))[:52]
        "Most rows lack 'maybe' (299 of 300); leave out label"
        """
        counts = np.broadcast_to(self.by_label, len(label_names)).tolist()
        least = self.rows if is_named else self.rows // 2 + 1
        rare = {name: n for name, n in zip(label_names, counts, strict=True) if n >= least}
        if not rare:
            return ""
        listed = [f"{name!r} ({count:,} of {self.rows:,})" for name, count in rare.items()]
        names = ", ".join(listed[:MAX_LISTED]) + (" ..." if len(listed) > MAX_LISTED else "")
        frequent = [name for name in label_names if name not in rare]
        kept = tuple(frequent) if len(frequent) > 1 else ("A", "B")
        if min(rare.values()) == self.rows:
            return (
                f"No row has a score of {names}: a label filled in for all rows may still be "
                f"predicted; leave it out: {spell('labels', kept)}."
            )
        return (
            f"Most rows lack {names}; leave out labels that you did not ask for: "
            f"{spell('labels', kept)}."
        )

    def refuse_single(self, where: str) -> None:
        """Raises InputError if most rows have the score of one label, which shows no preference."""
        if self.rows >= MIN_ROWS and 2 * self.single > self.rows:
            got = f"only one label in {self.single:,} of {self.rows:,} rows"
            remedy = "request more tokens (top_logprobs=20)"
            if self.single + self.empty < self.rows:
                remedy += f", or pass {spell('missing', 'drop')}"
            expected = "the scores of two labels or more in most rows"
            raise InputError.at(where, expected, got, remedy, "missing")

    def no_rows(self, where: str) -> InputError:
        """Returns the error for a file without any usable row."""
        return InputError(
            f"{where}: no row is left after rows with missing labels are dropped ({self.lacking} "
            f"of {self.rows}); pass {spell('missing', 'least')}, or request more top tokens."
        )


def own_tables(path: Path) -> list[ScoreTable] | None:
    """Loads this package's score tables from a file or working folder; None for other files."""
    if path.is_dir():
        files = sorted((path / "scores").glob("*.safetensors"))  # glob's order varies
        if not files:
            expected = "a file of scores, or a working folder with scores/ in it"
            raise InputError.at(path, expected, "a folder without scores/")
        return list(map(load, files))
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")  # of the safetensors header
            start = file.read(min(size, len(TABLE_START)))
    except OSError:
        return None  # the importer will raise an error with the reason
    return [load(path)] if start == TABLE_START else None


def split_contexts(imported: Imported, reading: Reading) -> list[Imported]:
    """Splits a file into contexts, one per combination of values in the columns `reading.by`."""
    if not reading.by:
        refuse_several(imported.where, imported.columns, reading)
        return [imported]
    columns = [map(str, imported.columns[name]) for name in reading.by]
    rows: dict[tuple[str, ...], list[int]] = {}  # combination -> its rows
    for row, combination in enumerate(zip(*columns, strict=True)):
        rows.setdefault(combination, []).append(row)
    task = str(imported.about.get("task", ""))
    about = {key: fact for key, fact in imported.about.items() if key != POOLED_AS}
    of_rows = _columns_of_rows(imported, rows)
    contexts = []
    for combination, indices in rows.items():
        context = {**about, "task": f"{task} {', '.join(combination)}".strip()}
        own = f"{task} {', '.join(combination[place] for place in of_rows)}".strip()
        if len(of_rows) < len(combination):
            context |= {POOLED_AS: own, "rows": "same"}
        context["factors"] = {"task": own, **dict(zip(reading.by, combination, strict=True))}
        rows_of_context = replace(imported.take_rows(np.array(indices)), about=context)
        refuse_several(imported.where, rows_of_context.columns, reading)
        contexts.append(rows_of_context)
    return contexts


def _columns_of_rows(
    imported: Imported, contexts: Mapping[tuple[str, ...], Sequence[int]]
) -> list[int]:
    """Returns the places of the columns along which contexts have different questions.

    Along the other columns, such as prompts or seeds, contexts ask the same questions.
    """
    kept = list(range(len(next(iter(contexts)))))
    for place in range(len(kept)):
        others = [other for other in kept if other != place]
        groups = dict[tuple[str, ...], list[Sequence[int]]]()
        for combination, rows in contexts.items():
            groups.setdefault(tuple([combination[other] for other in others]), []).append(rows)
        is_same = [_ask_the_same(imported, group) for group in groups.values()]
        if len(groups) < len(contexts) and all(is_same):
            kept = others
    return kept


def _ask_the_same(imported: Imported, contexts: Iterable[Sequence[int]]) -> bool:
    """Checks whether contexts, given by their rows, have equal ids and right labels in order.

    If right labels are unknown, ids that only number the rows are no evidence of equal rows.
    """
    ids, gold = imported.row_ids, imported.labels
    if not ids:
        return False
    asked = set[tuple[tuple[str, ...], bytes]]()
    for rows in contexts:
        known = b"" if gold is None else np.asarray(gold)[rows].tobytes()
        asked.add((tuple(ids[row] for row in rows), known))
    (of_first, _), *others = asked
    is_counted = of_first == tuple(map(str, range(len(of_first))))
    return not others and not (is_counted and gold is None)


def refuse_several(where: str, columns: Mapping[str, Iterable[str]], reading: Reading) -> None:
    """Raises an error if the rows of a context belong to several models or tasks.

    Each model and each task has its own bias. Columns in `reading.by` are not checked. A column of
    models or tasks is not checked if `reading` names the model or the task.
    """
    telling = {}
    for name, cells in columns.items():
        kind = name.lower().partition("_")[0]
        models = list(filter(None, dict.fromkeys(cells)))
        is_said = name in reading.by or (kind in ("model", "task") and getattr(reading, kind))
        if len(models) > 1 and not is_said:
            more = " ..." if len(models) > 2 else ""
            telling[name] = (kind, f"{models[0]!r}, {models[1]!r}{more}")
    if telling:
        name, (kind, came) = next(iter(telling.items()))
        expected = f"one {kind} in a context, which has one bias"
        remedy = f"pass {spell('by', (*reading.by, *telling))}, which makes each a context, or "
        remedy += f"{spell(kind, 'NAME')} if they are the same"
        raise InputError.at(f"{where}, column {name!r}", expected, came, remedy)


def in_nats(imported: Imported, reading: Reading) -> Imported:
    """Returns the scores of a file in nats, after checks, with the filler of missing scores."""
    where, scores = imported.where, np.asarray(imported.log_probs, np.float64)
    if reading.missing == "drop":  # Rows with an overflow are dropped, too.
        scores = np.where(np.isposinf(scores), np.nan, scores)
    if not len(scores):
        raise InputError.at(where, "at least one row of scores", "none")
    kind: FromProbs = "counts" if imported.are_counts else reading.from_probs
    # Probabilities become nats first, since the logarithm of 0 marks a missing score.
    names, blocks = imported.score_names or imported.label_names, {}
    nats = to_nats(scores, where, kind, names=names)
    is_of_others = bool((nats > 0).any())
    for name, rows in imported.blocks.items():
        at = f"{where}, block {name!r}"
        blocks[name] = to_nats(rows, at, kind, names=names, beside_others=is_of_others)
    if kind == "counts":  # The scores of rows that agree are no filler.
        notes = (*imported.notes, *note_counts(scores))
        counted = replace(imported, log_probs=nats, blocks=blocks, notes=notes)
        return counted.take_rows(np.nansum(scores, axis=1) > 0)
    filler = missing_scores.find_lowest(nats).filler
    return replace(imported, log_probs=nats, blocks=blocks, filler=filler)


def to_table(imported: Imported, reading: Reading) -> ScoreTable:
    """Creates the score table of one context, with missing labels filled or dropped.

    Raises:
        InputError: The scores are on another scale or equal in each row, labels are missing and
            `reading.missing` is None, row ids repeat, or `scores.check` raises an error.
    """
    where, k = imported.where, len(imported.label_names)
    notes = note_fillers(imported.log_probs) if imported.filler == -np.inf else ()
    is_absent = missing_scores.find_missing(imported.log_probs, imported.filler)
    scores, is_kept, gaps = fill_labels(imported, reading)
    if reading.missing != "drop":
        gaps.refuse_single(where)
    if not is_kept.any():
        raise gaps.no_rows(where)
    notes += gaps.notes(imported.label_names, reading.missing, is_named=bool(reading.labels))
    imported = imported.take_rows(is_kept)
    refuse_constant(scores, where)
    # Rows keep their numbers in the file, even if other rows are dropped or in other contexts.
    file_rows = np.asarray(imported.file_rows).tolist()
    ids = imported.row_ids or tuple(map(str, file_rows))
    row_id, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{where}: the row id {row_id!r} appears {times} times; give each row a unique "
            "id, or keep one of the rows."
        )
    if imported.full:
        notes += note_little_mass(label_mass(scores))
    gold = imported.labels
    labels = None if gold is None else np.asarray(read_whole_numbers(gold, f"{where}, gold", k))
    notes += check_gold(imported, scores, labels, reading)
    moved = keep_differences(scores)
    notes = (*imported.notes, *notes, *note_moved(scores, moved))
    spec: dict[str, Json] = {"notes": list(notes)} if notes else {}
    if file_rows != list(range(len(ids))):
        spec[FILE_ROWS] = file_rows
    if len(filled_in := np.argwhere(is_absent[is_kept])):
        spec[FILLED] = cast("Json", filled_in.tolist())
    blocks = {"test": make_block(moved, labels, row_ids=ids, spec=spec)}
    for name, rows in imported.blocks.items():
        numbered = tuple(map(str, range(rows.shape[-1])))
        filled = fill_labels(Imported(f"{where}, block {name!r}", rows, numbered), reading)[0]
        blocks[name] = make_block(keep_differences(filled))

    context = dict(imported.about)
    if reading.model:
        context["model"] = reading.model
    # The facts of a context may be incomplete, so a digest of the numbers identifies it.
    digest = hashlib.sha256()
    for block in blocks.values():
        digest.update(block.log_probs.tobytes())
    digest.update(blocks["test"].labels.tobytes())
    context["imported"] = digest.hexdigest()[:16]
    table = ScoreTable(context, tuple(imported.label_names), blocks)
    check(table, where)
    return table


def to_tables(files: Iterable[Imported], reading: Reading) -> list[ScoreTable]:
    """Creates a score table for each context in the imported scores."""
    in_files = (split_contexts(in_nats(imported, reading), reading) for imported in files)
    return [to_table(context, reading) for context in chain.from_iterable(in_files)]


def fill_labels(imported: Imported, reading: Reading) -> tuple[np.ndarray, np.ndarray, Gaps]:
    """Returns scores without missing labels, a mask of the rows kept, and the number of gaps."""
    scores, where, n = imported.log_probs, imported.where, len(imported.log_probs)
    is_absent = missing_scores.find_missing(scores, imported.filler)
    if not is_absent.any():
        return scores, np.ones(n, bool), Gaps(n)
    missing_scores.refuse_greedy(scores, where)
    counts = (~is_absent).sum(axis=1)
    few = np.stack([is_absent.any(axis=1), counts == 1, counts == 0])
    lacking, single, empty = few.sum(axis=1).tolist()
    gaps = Gaps(n, lacking, single, empty, is_absent.sum(axis=0))
    if reading.missing is None:
        gaps.refuse_single(where)
        row, label = np.argwhere(is_absent)[0]
        file_row = row if imported.file_rows is None else imported.file_rows[row]
        rare_labels = "" if reading.labels else gaps.rare_labels(imported.label_names)
        raise InputError(
            f"{where}: row {file_row} has {scores[row, label]:g} as the score of "
            f"{imported.label_names[label]!r} ({int(is_absent.sum())} scores like it in "
            f"{gaps.lacking} of {n} rows): the label was not returned, so its score is below all "
            f"returned scores; pass {spell('missing', 'least')}, which sets it there: a far lower "
            f"number such as -100 would dominate the mean of its label. {rare_labels}".strip()
        )
    # Scores are filled just below the lowest returned score, of all tokens if `bound` is known.
    filled, is_kept = missing_scores.fill_scores(
        scores, reading.missing, imported.bound, below=reading.below, filler=imported.filler
    )
    return filled, is_kept, gaps


def join_shards(shards: Sequence[Imported]) -> Imported:
    """Joins the rows of all shards as one file, numbered across the shards."""
    first = shards[0]
    shards = [_order_labels(shard, first) for shard in shards]
    context = dict(first.about)
    for shard in shards:
        context = {key: fact for key, fact in context.items() if shard.about.get(key) == fact}
    # Shards with different tasks, such as their file names, get the name of their folder.
    context.setdefault("task", Path(first.where).resolve().parent.name)
    file_rows, row_ids, rows_before = list[np.ndarray](), list[str](), 0
    columns: dict[str, list[str]] = {name: [] for name in first.columns}
    notes: dict[str, None] = {}  # as keys: a note of several shards appears once
    for shard in shards:
        n = len(shard.log_probs)
        rows = np.arange(n) if shard.file_rows is None else shard.file_rows
        file_rows.append(rows_before + rows)
        row_ids += shard.row_ids or ()
        rows_before += n
        for name, cells in columns.items():
            cells += shard.columns[name]
        notes |= dict.fromkeys(shard.notes)
    blocks = {}
    for name in first.blocks:
        blocks[name] = np.concatenate([shard.blocks[name] for shard in shards])
    return replace(
        first,
        where=f"{first.where} and {len(shards) - 1} more",
        log_probs=np.concatenate([shard.log_probs for shard in shards]),
        labels=_join([shard.labels for shard in shards]),
        bound=_join([shard.bound for shard in shards]),
        row_ids=tuple(row_ids) or None,
        file_rows=np.concatenate(file_rows),
        about=context,
        columns=columns,
        blocks=blocks,
        notes=tuple(notes),
    )


def _join(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Concatenates the arrays of all shards; returns None unless each shard has one."""
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if len(present) == len(arrays) else None


def _order_labels(shard: Imported, first: Imported) -> Imported:
    """Returns a shard with its labels in the order of the first shard."""
    names = shard.label_names
    if names == first.label_names:
        return shard
    if set(names) != set(first.label_names):
        expected = f"the labels of {first.where} ({', '.join(first.label_names)})"
        remedy = f"name them with {spell('labels')}, or leave {spell('shards')} out"
        raise InputError.at(shard.where, expected, ", ".join(names), remedy)
    return shard.take_labels(first.label_names)
