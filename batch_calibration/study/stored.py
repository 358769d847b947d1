"""Calibrates the score tables of a workdir and keeps the records beside them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.methods import get_method
from batch_calibration.records import Record, Records
from batch_calibration.store import Store
from batch_calibration.study.calibration import run_calibration


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
    """Calibrate every score table of a workdir; the records replace those of earlier runs.

    Args:
        store: a workdir with scores.
        methods: names from `METHODS`, all by default.
        floor: as in `run_calibration`.
        probe_sizes: as in `run_calibration`; what an earlier run measured with the
            same floor is kept where none are.
        draws: as in `run_calibration`.

    Raises:
        InputError: no score tables; what `run_calibration` raises.
    """
    for name in methods or ():
        get_method(name)
    store = store if isinstance(store, Store) else Store(store)
    tables, broken = store.tables()
    if not tables and not broken:
        raise InputError(f"workdir {store.workdir}: no score tables yet; run experiments.score.")
    began = time.monotonic()
    made = run_calibration(tables, methods, floor=floor, probe_sizes=probe_sizes, draws=draws)
    records = Records(
        [replace(_with_earlier_sizes(store, one), scores=store.digest(one.id)) for one in made]
    )
    for record in records:
        store.put_record(record)
    seconds = time.monotonic() - began
    return CalibrationReport(records, tuple(broken), seconds, tuple(_notes(records)))


def _with_earlier_sizes(store: Store, record: Record) -> Record:
    """The record with the probe sizes that an earlier run measured of the same scores."""
    earlier = store.record(record.id)
    if record.probe_size is not None or earlier is None or earlier.floor != record.floor:
        return record
    return replace(record, probe_size=earlier.probe_size)


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
