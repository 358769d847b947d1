"""What every importer gives, and how it becomes score tables."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from batch_calibration.arrays import (
    BELOW,
    Missing,
    fill_scores,
    find_missing,
    keep_differences,
    note_moved,
    read_whole_numbers,
    to_nats,
)
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.importers.gaps import Gaps
from batch_calibration.responses import label_mass, note_little_mass, refuse_constant
from batch_calibration.scores import FILE_ROWS, KEY, ScoreTable, check, load, make_block

ALIGNED = ("pmi",)
"""Blocks that may have a row for each row of scores, where the choices differ from row to row."""
CONTEXT_NAMES = ("model", "model_name", "task", "task_name")
"""Names of columns that tell whose scores a row has, or of which task."""
TABLE_START = f'{{"__metadata__":{{"{KEY}"'.encode()
"""How the header of a file that `ScoreTable.save` wrote begins."""


@dataclass(frozen=True)
class Reading:
    """What a person says of a file of scores beyond what it says itself.

    Attributes:
        format: an importer's name, "" to find it out.
        labels: names of the labels in the order of the columns; of a file of named columns, the
            columns that hold the scores; of a log, which of its choices and in which order.
        tokens: label -> the tokens that mean it, where scores are of tokens; the label's own name,
            with and without a space and capital, where it is not named.
        gold: column of the right label, its name or index; "" for the log's own, or none.
        ids: column of row ids.
        by: columns whose values tell contexts apart, such as a subject or a prompt.
        missing: what is done about labels that were not returned; None refuses them.
        below: how far below the least returned score `missing="least"` puts them, in nats.
        from_probs: whether the numbers are probabilities; None finds out, and refuses what are
            neither log-probabilities nor scores of another kind, such as logits; False takes all.
        task: what to call the task, one for all rows; "" for the log's own name, or the file's.
        model: what to call the model, one for all rows; "" for the log's own name, or none.
        filter: of a harness log whose rows repeat per filter, which.
    """

    format: str = ""
    labels: tuple[str, ...] = ()
    tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gold: str = ""
    ids: str = ""
    by: tuple[str, ...] = ()
    missing: Missing | None = None
    below: float = BELOW
    from_probs: bool | None = None
    task: str = ""
    model: str = ""
    filter: str = ""


@dataclass(frozen=True)
class Imported:
    """Scores of one context or several as a file has them.

    Attributes:
        where: the file's name, for sentences.
        log_probs: [n, k], nats; minus infinity or NaN where a label was not returned.
        label_names: k names.
        labels: [n], the right label's index, -1 where unknown; None for unknown throughout.
        row_ids: n names, None to number the rows.
        file_rows: [n], each row's number in the file, from 0; None where they are 0 to n - 1.
        bound: [n], the least log-probability that was returned for each row, of any token.
        about: what is known of the context: task, model, data, shots, seed, template, split ...
        columns: n values each of the columns of `Reading.by`, and of those that may tell models or
            tasks apart.
        blocks: name -> scores [m, k] of other rows, such as "pmi", "cc", "dc".
        notes: what a reader of the numbers must know, in sentences.
        score_names: what names the scores where it is not the labels: the one array or column that
            holds all of a row's; evidence of what kind of numbers they are.
        full: whether a label's score is of its whole vocabulary, so that a row's label mass says
            whether the model answered with a label.
    """

    where: str
    log_probs: np.ndarray
    label_names: tuple[str, ...]
    labels: np.ndarray | None = None
    row_ids: tuple[str, ...] | None = None
    bound: np.ndarray | None = None
    about: Mapping[str, Json] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    blocks: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    score_names: tuple[str, ...] = ()
    full: bool = False
    file_rows: np.ndarray | None = None

    def take_rows(self, chosen: np.ndarray) -> "Imported":
        """The same of some rows: a mask or indices [n]."""
        n = len(self.log_probs)
        index = np.arange(n)[chosen]  # of a mask, too
        blocks, columns = dict(self.blocks), {}
        for name in ALIGNED:
            if name in blocks and len(blocks[name]) == n:
                blocks[name] = blocks[name][index]
        for name, cells in self.columns.items():
            columns[name] = [cells[i] for i in index]
        return replace(
            self,
            log_probs=self.log_probs[index],
            labels=None if self.labels is None else np.asarray(self.labels)[index],
            row_ids=None if self.row_ids is None else tuple(self.row_ids[i] for i in index),
            bound=None if self.bound is None else self.bound[index],
            columns=columns,
            blocks=blocks,
            file_rows=index if self.file_rows is None else self.file_rows[index],
        )


def own_tables(path: Path) -> list[ScoreTable] | None:
    """Our own tables in a file or a working folder, as they are; None where it is none of ours."""
    if path.is_dir():
        files = sorted((path / "scores").glob("*.safetensors"))  # in the same order on every system
        if not files:
            raise InputError(
                where=path,
                expected="a file of scores, or a working folder with scores/ in it",
                got="a folder without",
            )
        return list(map(load, files))
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")  # of the header, as safetensors write it
            start = file.read(min(size, len(TABLE_START)))
    except OSError:
        return None  # an importer says why it cannot be read
    return [load(path)] if start == TABLE_START else None


def split_contexts(imported: Imported, reading: Reading) -> list[Imported]:
    """The contexts of a file: one, or one for each combination of the values of `reading.by`."""
    if not reading.by:
        refuse_several(imported.where, imported.columns, reading)
        return [imported]
    lacking = [name for name in reading.by if name not in imported.columns]
    if lacking:
        raise InputError(
            where=imported.where,
            expected=f"the column {lacking[0]!r} of --by",
            got="none",
            remedy=f"known are {', '.join(imported.columns) or 'no columns'}",
        )
    columns = [map(str, imported.columns[name]) for name in reading.by]
    rows: dict[tuple[str, ...], list[int]] = {}  # of each combination, in the file's order
    for row, combination in enumerate(zip(*columns, strict=True)):
        rows.setdefault(combination, []).append(row)
    task = str(imported.about.get("task", ""))
    contexts = []
    for combination, indices in rows.items():
        context = {**imported.about, "task": f"{task} {', '.join(combination)}".strip()}
        rows_of_context = replace(imported.take_rows(np.array(indices)), about=context)
        refuse_several(imported.where, rows_of_context.columns, reading)
        contexts.append(rows_of_context)
    return contexts


def refuse_several(where: str, columns: Mapping[str, Iterable[str]], reading: Reading) -> None:
    """Refuse rows of several models or tasks in one context: each has a bias of its own.

    A model or task that `reading` names is said to be one.
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
        raise InputError(
            where=f"{where}, column {name!r}",
            expected=f"one {kind} in a context, which has one bias",
            got=came,
            remedy=f"say --by={','.join((*reading.by, *telling))}, which makes each a context, or "
            f"--{kind}=NAME where they are one",
        )


def to_table(imported: Imported, reading: Reading) -> ScoreTable:
    """One context as a score table: checked, without missing labels, its notes in the block.

    Raises:
        InputError: probabilities; missing labels that `reading.missing` says nothing of; scores
            that are all equal; repeated row ids; what `scores.check` refuses.
    """
    where = imported.where
    scores, k = np.asarray(imported.log_probs, np.float64), len(imported.label_names)
    # What an importer gives is checked as a file is.
    if scores.ndim != 2 or scores.shape[-1] != k:
        raise InputError(where=where, expected=f"{k} scores a row", got=f"shape {scores.shape}")
    if not len(scores):
        raise InputError(where=where, expected="at least one row of scores", got="none")
    # Probabilities become nats before anything is missing: the logarithm of 0 says so.
    names = imported.score_names or imported.label_names
    scores = to_nats(scores, where, reading.from_probs, names=names)
    is_of_others = bool((scores > 0).any())
    scores, is_kept, gaps = fill_missing(replace(imported, log_probs=scores), reading)
    if not is_kept.any():
        raise gaps.no_rows(where)
    notes = gaps.notes(imported.label_names, reading.missing, is_named=bool(reading.labels))
    imported = imported.take_rows(is_kept)
    refuse_constant(scores, where)
    # Rows of one context among several, and those beside dropped ones, keep their numbers.
    file_rows = np.asarray(imported.file_rows).tolist()
    ids = imported.row_ids or tuple(map(str, file_rows))
    if len(set(ids)) < len(ids):
        twice = next(row_id for row_id in dict.fromkeys(ids) if ids.count(row_id) > 1)
        raise InputError(
            f"{where}: the row id {twice!r} stands {ids.count(twice)} times; give each row an id "
            "of its own, or keep one of the rows."
        )
    if imported.full:
        notes += note_little_mass(label_mass(scores))
    gold = imported.labels
    labels = None if gold is None else read_whole_numbers(gold, f"{where}, gold", k)
    moved = keep_differences(scores)
    notes = (*imported.notes, *notes, *note_moved(scores, moved))
    spec: dict[str, Json] = {"notes": list(notes)} if notes else {}
    if file_rows != list(range(len(ids))):
        spec[FILE_ROWS] = file_rows
    blocks = {"test": make_block(moved, labels, row_ids=ids, spec=spec)}
    for name, rows in imported.blocks.items():
        at = f"{where}, block {name!r}"
        numbered = tuple(map(str, range(rows.shape[-1])))
        nats = to_nats(rows, at, reading.from_probs, names=names, beside_others=is_of_others)
        filled = fill_missing(Imported(at, nats, numbered), reading)[0]
        blocks[name] = make_block(keep_differences(filled))

    context = dict(imported.about)
    if reading.model:
        context["model"] = reading.model
    # What was read is not known to the last detail, so the numbers themselves make the id.
    digest = hashlib.sha256()
    for block in blocks.values():
        digest.update(block.log_probs.tobytes())
    digest.update(blocks["test"].labels.tobytes())
    context["imported"] = digest.hexdigest()[:16]
    table = ScoreTable(context, tuple(imported.label_names), blocks)
    check(table, where)
    return table


def to_tables(files: Iterable[Imported], reading: Reading) -> list[ScoreTable]:
    """Every context of what was read as a score table."""
    contexts = chain.from_iterable(split_contexts(imported, reading) for imported in files)
    return [to_table(context, reading) for context in contexts]


def fill_missing(imported: Imported, reading: Reading) -> tuple[np.ndarray, np.ndarray, Gaps]:
    """Scores without missing labels, a mask of the rows kept, and what was missing."""
    scores, where, n = imported.log_probs, imported.where, len(imported.log_probs)
    is_absent = find_missing(scores)
    if not is_absent.any():
        return scores, np.ones(n, bool), Gaps(n)
    lacking = int(is_absent.any(axis=1).sum())
    empty = int(is_absent.all(axis=1).sum())
    gaps = Gaps(n, lacking, empty, is_absent.sum(axis=0))
    if reading.missing is None:
        row, label = np.argwhere(is_absent)[0]
        file_row = row if imported.file_rows is None else imported.file_rows[row]
        rare_labels = "" if reading.labels else gaps.rare_labels(imported.label_names)
        raise InputError(
            f"{where}: row {file_row} has {scores[row, label]:g} as the score of "
            f"{imported.label_names[label]!r} ({int(is_absent.sum())} such in {lacking} of {n} "
            "rows): it was not among the tokens returned, so it lies below the least of them; say "
            "--missing=least (missing='least'), which puts it there: a far lower number such as "
            f"-100 would decide the mean of its label. {rare_labels}".strip()
        )
    # Just below the least returned: of all tokens where the file says it (bound).
    filled, is_kept = fill_scores(scores, reading.missing, imported.bound, below=reading.below)
    return filled, is_kept, gaps
