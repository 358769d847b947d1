"""What every importer gives, and how it becomes score tables."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from batch_calibration.arrays import BELOW, Missing, absent, fill, nats, whole_numbers
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scores import ScoreTable, check, make_block

ALIGNED = ("pmi",)
"""Blocks that may have a row for each row of scores, where the choices differ from row to row."""
LITTLE_MASS = 0.5
"""Mean probability of all labels together, below which the model mostly answered otherwise."""


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
        from_probs: whether the numbers are probabilities; None refuses what looks like them.
        task: what to call the task; "" for the log's own name, or the file's.
        model: what to call the model; "" for the log's own name, or none.
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
        bound: [n], the least log-probability that was returned for each row, of any token.
        about: what is known of the context: task, model, data, shots, seed, template, split ...
        columns: n values each of the columns of `Reading.by`.
        blocks: name -> scores [m, k] of other rows, such as "pmi", "cc", "dc".
        notes: what a reader of the numbers must know, in sentences.
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
    full: bool = False

    def rows(self, chosen: np.ndarray) -> "Imported":
        """The same of some rows: a mask or indices [n]."""
        index = np.arange(len(self.log_probs))[chosen]
        return replace(
            self,
            log_probs=self.log_probs[index],
            labels=None if self.labels is None else np.asarray(self.labels)[index],
            row_ids=None if self.row_ids is None else tuple(self.row_ids[i] for i in index),
            bound=None if self.bound is None else self.bound[index],
            columns={name: [of[i] for i in index] for name, of in self.columns.items()},
            blocks={
                name: rows[index] if name in ALIGNED and len(rows) == len(self.log_probs) else rows
                for name, rows in self.blocks.items()
            },
        )


def beginning(path: Path) -> bytes:
    """The first bytes of a file, or a sentence where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(65_536)
    except OSError as error:
        raise InputError(
            where=path,
            expected=f"a file of scores, which cannot be read ({error.strerror})",
            remedy="correct the name",
        ) from error


def contexts(found: Imported, reading: Reading) -> list[Imported]:
    """The contexts of a file: one, or one for each combination of the values of `reading.by`."""
    if not reading.by:
        return [found]
    lacking = [name for name in reading.by if name not in found.columns]
    if lacking:
        raise InputError(
            where=found.where,
            expected=f"the column {lacking[0]!r} of --by",
            got="none",
            remedy=f"known are {', '.join(found.columns) or 'no columns'}",
        )
    values = list(zip(*(map(str, found.columns[name]) for name in reading.by), strict=True))
    parts = []
    for value in dict.fromkeys(values):
        part = found.rows(np.array([one == value for one in values]))
        name = ", ".join(value)
        given = str(found.about.get("task", ""))
        parts.append(replace(part, about={**part.about, "task": f"{given} {name}".strip()}))
    return parts


def to_table(found: Imported, reading: Reading) -> ScoreTable:
    """One context as a score table: checked, without missing labels, its notes in the block.

    Raises:
        InputError: probabilities; missing labels that `reading.missing` does not settle; scores
            that are all equal; repeated row ids; what `scores.check` refuses.
    """
    where = found.where
    scores, k = np.asarray(found.log_probs, np.float64), len(found.label_names)
    if scores.ndim != 2 or scores.shape[-1] != k:
        raise InputError(where=where, expected=f"{k} scores a row", got=f"shape {scores.shape}")
    if not len(scores):
        raise InputError(where=where, expected="at least one row of scores", got="none")
    scores = nats(scores, where, reading.from_probs)
    scores, kept, notes = filled(replace(found, log_probs=scores), reading)
    found = found.rows(kept)
    refuse_constant(scores, where)
    ids = found.row_ids or tuple(map(str, np.flatnonzero(kept)))
    if len(set(ids)) < len(ids):
        twice = next(one for one in dict.fromkeys(ids) if ids.count(one) > 1)
        raise InputError(
            f"{where}: the row id {twice!r} stands {ids.count(twice)} times; give each row an id "
            "of its own, or keep one of the rows."
        )
    if found.full:
        notes += little_mass(label_mass(scores))
    labels = None if found.labels is None else whole_numbers(found.labels, f"{where}, gold", k)
    notes = (*found.notes, *notes)
    spec: dict[str, Json] = {"notes": list(notes)} if notes else {}
    blocks = {"test": make_block(scores, labels, row_ids=ids, spec=spec)}
    for name, rows in found.blocks.items():
        blocks[name] = make_block(
            _filled_block(nats(rows, where, reading.from_probs), reading, where, name)
        )
    about = {**found.about, **_named(reading)}
    digest = hashlib.sha256(b"".join(b.log_probs.tobytes() for b in blocks.values()))
    digest.update(blocks["test"].labels.tobytes())
    about["imported"] = digest.hexdigest()[:16]
    table = ScoreTable(about, tuple(found.label_names), blocks)
    check(table, where)
    return table


def to_tables(found: Iterable[Imported], reading: Reading) -> list[ScoreTable]:
    """Every context of what was found as a score table."""
    return [to_table(part, reading) for one in found for part in contexts(one, reading)]


def _named(reading: Reading) -> dict[str, Json]:
    """What the person calls the model; the task's name is the importer's to use."""
    return {"model": reading.model} if reading.model else {}


def filled(
    found: Imported, reading: Reading, first: int = 0
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Scores without missing labels, the rows kept, and notes on what was done.

    `first` is the number of the first row, where the rows are a part of a file.
    """
    scores, where, gone = found.log_probs, found.where, absent(found.log_probs)
    if not gone.any():
        return scores, np.ones(len(scores), bool), ()
    row, label = np.argwhere(gone)[0]
    many, n = int(gone.any(axis=1).sum()), len(scores)
    if reading.missing is None:
        raise InputError(
            f"{where}: row {first + row} has {scores[row, label]:g} as the score of "
            f"{found.label_names[label]!r} ({int(gone.sum())} such in {many} of {n} rows): it was "
            "not among the tokens returned, so it lies below the least of them; say "
            "--missing=least (missing='least'), which puts it there: a far lower number such as "
            "-100 would decide the mean of its label."
        )
    filled, kept = fill(scores, reading.missing, found.bound, below=reading.below)
    if not kept.any():
        raise InputError(
            f"{where}: no row is left once those with missing labels are dropped ({many} of {n}); "
            "say --missing=least, or ask for more tokens."
        )
    how = {"least": "just below the least returned", "drop": "dropped"}.get(
        str(reading.missing), f"at {reading.missing} nats"
    )
    notes = [f"{many:,} of {n:,} rows lack the score of a label: {how}."]
    if reading.missing != "drop" and not kept.all():
        notes.append(f"{int((~kept).sum()):,} rows had no label at all and are left out.")
    return filled, kept, tuple(notes)


def _filled_block(rows: np.ndarray, reading: Reading, where: str, name: str) -> np.ndarray:
    """Rows of another block without missing labels."""
    part = Imported(f"{where}, block {name!r}", rows, tuple(map(str, range(rows.shape[-1]))))
    return filled(part, reading)[0]


def refuse_constant(scores: np.ndarray, where: str) -> None:
    """Refuse answers of servers that do not score what they are asked."""
    same = bool((scores == scores.flat[0]).all())
    if same and scores.size > scores.shape[-1]:
        raise InputError(
            f"{where}: every score is {scores.flat[0]:g}: whatever gave them did not score the "
            "labels; some servers answer so when they do not support log-probabilities."
        )


def label_mass(scores: np.ndarray) -> float:
    """The probability that all labels together have in a row [n, k], on average."""
    return float(np.exp(np.minimum(scores, 0.0)).sum(axis=-1).mean())


def little_mass(mass: float) -> tuple[str, ...]:
    """A note where the model mostly answered with no label."""
    if mass >= LITTLE_MASS:
        return ()
    return (
        f"All labels together have {100 * mass:.1f} % of the probability on average: the model "
        "mostly answers otherwise, and the scores say little about its answers.",
    )
