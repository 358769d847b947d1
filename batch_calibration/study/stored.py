"""Calibrates the score tables of a workdir and keeps the records beside them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.methods import METHODS, get_method
from batch_calibration.records import Record, Records
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Store
from batch_calibration.study.calibration import check, run_calibration


class CalibrationReport(NamedTuple):
    """What a run did.

    Attributes:
        records: one per score table that could be read.
        broken: a sentence on each score table that could not.
        seconds: what calibrating took, compilation included.
        notes: which methods and rows are left out, in sentences.
    """

    records: Records
    broken: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...]


def calibrate_store(
    store: Store | str | Path,
    methods: Sequence[str] | None = None,
    *,
    floor: float | None = None,
    probe_sizes: Sequence[int] = (),
    draws: int = 20,
) -> CalibrationReport:
    """Calibrate every score table of a workdir, and keep the records beside them.

    What an earlier run found of other methods and probe sizes, from the same scores with the same
    floor, is kept.

    Args:
        store: a workdir with scores.
        methods: names from `METHODS`, all by default.
        floor: as in `run_calibration`.
        probe_sizes: as in `run_calibration`.
        draws: as in `run_calibration`.

    Raises:
        InputError: no score tables; what `run_calibration` raises of its other arguments.
    """
    for name in methods or ():
        get_method(name)
    store = store if isinstance(store, Store) else Store(store)
    tables, broken = store.tables()
    if not tables and not broken:
        raise InputError(f"workdir {store.workdir}: no score tables yet; run experiments.score.")
    began = time.monotonic()
    fine, others = _judged(tables, floor)
    broken += others
    made = run_calibration(fine, methods, floor=floor, probe_sizes=probe_sizes, draws=draws)
    records = Records([_with_earlier(store, one) for one in made])
    for record in records:
        store.put_record(record)
    seconds = time.monotonic() - began
    return CalibrationReport(records, tuple(broken), seconds, tuple(_notes(records)))


def _judged(
    tables: Sequence[ScoreTable], floor: float | None
) -> tuple[list[ScoreTable], list[str]]:
    """The tables that can be calibrated, and a sentence on each of the others."""
    fine, broken = list[ScoreTable](), list[str]()
    for table in tables:
        try:
            check(table, floor)
        except InputError as error:
            broken.append(str(error))
        else:
            fine.append(table)
    return fine, broken


def _with_earlier(store: Store, record: Record) -> Record:
    """The record with what an earlier run found of the same scores and this one did not."""
    record = replace(record, scores=store.digest(record.id))
    earlier = store.record(record.id)
    if earlier is None or (earlier.floor, earlier.scores) != (record.floor, record.scores):
        return record
    methods = {**earlier.methods, **record.methods}
    skipped = {**earlier.skipped, **record.skipped}
    left = earlier.strength if record.strength is None else record.strength
    return replace(
        record,
        methods={name: methods[name] for name in METHODS if name in methods},
        right={**earlier.right, **record.right},
        skipped={name: why for name, why in skipped.items() if name not in methods},
        bias={**earlier.bias, **record.bias},
        strength=left,
        curve=record.curve or earlier.curve,
        probe_size=record.probe_size or earlier.probe_size,
    )


def _notes(records: Records) -> Iterator[str]:
    reasons = {name: why for record in records for name, why in record.skipped.items()}
    yield from dict.fromkeys(note for record in records for note in record.notes)
    for name, why in reasons.items():
        yield f"{name} is left out of some contexts: {why}"
    for record in records:
        for name, count in record.unreadable.items():
            yield (
                f"{record.context.task}, block {name!r}: left out for they could not be read: "
                f"{count:,} of {record.rows[name] + count:,} images"
            )
