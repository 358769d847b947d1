"""Calibrates the score tables of a workdir and keeps their records there."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from batch_calibration.errors import InputError, step
from batch_calibration.methods import METHODS, Options, get_method, read_options
from batch_calibration.scores import ScoreTable
from batch_calibration.settings import CalibrationSettings
from batch_calibration.studies import OverStream, ProbeSizes, Record, Records, Store
from batch_calibration.studies.calibration import check_labeled, run_calibration

ByRows = TypeVar("ByRows", ProbeSizes, OverStream)
CHANGED = "{} score table{} changed while being calibrated, and no record was kept: {} again"


class CalibrationReport(NamedTuple):
    """The outcome of a run.

    Attributes:
        records: one per score table that could be read and is still there, unchanged.
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
    options: Mapping[str, Options] | None = None,
    probe_sizes: Sequence[int] = (),
    draws: int = 20,
    stream_orders: int = 0,
    tasks: Sequence[str] = (),
    shots: int | None = None,
) -> CalibrationReport:
    """Calibrate the score tables of a workdir, and keep the records there.

    Results of an earlier run with other methods and probe sizes are kept, if scores and floor are
    the same.

    Args:
        store: a workdir with scores.
        methods: names from `METHODS`, all by default.
        floor: as in `run_calibration`.
        options: as in `run_calibration`.
        probe_sizes: as in `run_calibration`.
        draws: as in `run_calibration`.
        stream_orders: as in `run_calibration`.
        tasks: tables of these tasks alone, where curves of all would take too long.
        shots: tables of so many shots alone.

    Raises:
        InputError: no score tables, or none of these tasks and shots; what `run_calibration`
            raises of its other arguments.
    """
    for name in methods or ():
        get_method(name)  # refused before tables are read
    store = store if isinstance(store, Store) else Store(store)
    # Before the tables are read: a record whose table changes from here on is not kept.
    digests = store.digests()
    tables, broken = store.tables()
    if not tables and not broken:
        raise InputError(f"workdir {store.workdir}: no score tables yet; {step('score')} first.")
    tables = [table for table in tables if _is_chosen(table, tasks, shots)]
    if not tables and not broken:
        chosen = [*tasks, *([] if shots is None else [f"{shots} shots"])]
        raise InputError(
            f"workdir {store.workdir}: no score table is of {', '.join(chosen)}; "
            f"{step('score')} first, or ask for others."
        )
    began = time.monotonic()
    usable = list[ScoreTable]()
    for table in tables:
        try:
            check_labeled(table, floor)  # one table that cannot be judged must not stop the others
            usable.append(table)
        except InputError as error:
            broken.append(str(error))
    calibrated = run_calibration(
        usable, methods, floor=floor, options=options, probe_sizes=probe_sizes, draws=draws,
        stream_orders=stream_orders,
    )  # fmt: skip
    records = list[Record]()
    for record in calibrated:
        # One whose table came after the digests were taken has none, and is not kept.
        record = replace(record, scores=digests.get(record.id, "gone"))
        record = _merge_earlier(record, store.record(record.id))
        if store.put_record(record):
            records.append(record)
    changed = len(calibrated) - len(records)
    notes = [CHANGED.format(changed, "s" * (changed > 1), step("calibrate"))] if changed else []
    seconds = time.monotonic() - began
    return CalibrationReport(Records(records), tuple(broken), seconds, (*notes, *_notes(records)))


def calibrate_study(
    store: Store | str | Path,
    settings: CalibrationSettings,
    *,
    floor: float | None = None,
    tasks: Sequence[str] = (),
    shots: int | None = None,
) -> CalibrationReport:
    """`calibrate_store` as the settings of a study say; errors as there."""
    return calibrate_store(
        store,
        settings.methods or None,
        floor=floor,
        options=read_options(settings.method_options),
        probe_sizes=settings.probe_sizes,
        draws=settings.draws,
        stream_orders=settings.stream_orders,
        tasks=tasks,
        shots=shots,
    )


def _is_chosen(table: ScoreTable, tasks: Sequence[str], shots: int | None) -> bool:
    """True of a table of these tasks and so many shots; an empty choice takes all."""
    context = table.context
    return (not tasks or context.get("task") in tasks) and shots in (None, context.get("shots"))


def _merge_earlier(record: Record, earlier: Record | None) -> Record:
    """The record, with fields that only an earlier run on the same scores computed."""
    if earlier is None or (earlier.floor, earlier.scores) != (record.floor, record.scores):
        return record
    methods = {**earlier.methods, **record.methods}
    skipped = {**earlier.skipped, **record.skipped}
    options = dict(earlier.options)
    for name in record.methods:
        options.pop(name, None)  # this run's own count, the defaults too
    options |= record.options
    return replace(
        record,
        options=options,
        methods={name: methods[name] for name in METHODS if name in methods},
        right={**earlier.right, **record.right},
        skipped={name: reason for name, reason in skipped.items() if name not in methods},
        bias={**earlier.bias, **record.bias},
        # Not `or`: a strength of 0 is one.
        strength=earlier.strength if record.strength is None else record.strength,
        curve=record.curve or earlier.curve,
        probe_size=record.probe_size or _still_true(earlier.probe_size, earlier.options, options),
        over_stream=record.over_stream
        or _still_true(earlier.over_stream, earlier.options, options),
    )


def _still_true(
    curves: ByRows | None, earlier: Mapping[str, Options], options: Mapping[str, Options]
) -> ByRows | None:
    """Accuracies of an earlier run, of the methods whose options were what they are now."""
    if curves is None:
        return None
    accuracy = {}
    for name, of_method in curves.accuracy.items():
        # As JSON, where a tuple and a list are one.
        before = json.dumps(earlier.get(name, {}), sort_keys=True)
        if json.dumps(options.get(name, {}), sort_keys=True) == before:
            accuracy[name] = of_method
    return replace(curves, accuracy=accuracy) if accuracy else None


def _notes(records: Sequence[Record]) -> Iterator[str]:
    skipped, notes = dict[str, str](), dict[str, None]()
    for record in records:
        skipped.update(record.skipped)
        notes |= dict.fromkeys(record.notes)
    yield from notes
    for name, reason in skipped.items():
        yield f"{name} is left out of some contexts: {reason}"
    for record in records:
        for name, count in record.unreadable.items():
            yield (
                f"{record.context.task}, block {name!r}: left out for they could not be read: "
                f"{count:,} of {record.rows[name] + count:,} images"
            )
