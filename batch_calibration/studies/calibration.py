"""Applies every method to every score table and records the results."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import numpy as np

from batch_calibration import metrics, scores
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.errors import InputError, spell, step
from batch_calibration.methods import METHODS, Corrected, Evidence, Options, on_shelf, probes
from batch_calibration.methods.options import counted_shares, read_options, with_common
from batch_calibration.methods.run import jit_quickly, pad_rows, run_methods, task_of
from batch_calibration.methods.table import in_table_order
from batch_calibration.methods.validation import check_scores
from batch_calibration.metrics import Estimate, order_flip_rate, with_intervals
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.scoring.prompts.length_limit import shortening_notes
from batch_calibration.settings import CalibrationSettings
from batch_calibration.studies import Record, Records, Store
from batch_calibration.studies.accuracy_by_rows import accuracy_by_size, accuracy_over_stream
from batch_calibration.studies.records import ContextInfo, Curve, Result, pack

Progress = Callable[[int], None]


@usual_jax
def run_calibration(
    tables: Iterable[ScoreTable],
    methods: Sequence[str] | None = None,
    *,
    floor: float | None = None,
    options: Mapping[str, Options] | None = None,
    probe_sizes: Sequence[int] = (),
    draws: int = 20,
    stream_orders: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
    common: Sequence[Options] | None = None,
    prior: str = "stated",
    in_blocks: bool = False,
) -> Records:
    """Applies every method to every table; no model is needed.

    A record leaves out a method if the table lacks its probe block, if the method does not support
    the number of labels, or if it needs log-probabilities and the scores are none. The record's
    `skipped` holds the reason.

    Args:
        tables: score tables with a block "test".
        methods: names from `METHODS`; by default all, as in `run_methods`.
        floor: lower bound in nats; smaller scores, including minus infinity, are raised to it.
        options: method -> keyword arguments of its `make`, such as
            `{"bc_running": {"batch_size": 8}}`. Records keep the options that differ from the
            defaults.
        probe_sizes: numbers of test rows to learn from (the paper's Fig. 9), for the methods with
            a curve over probe sizes. Sizes beyond n are left out, and n is added.
        draws: number of random draws of rows for each probe size.
        stream_orders: number of random orders of the test rows, for the methods with a curve over
            streams; 0 leaves the curve out.
        seed: seeds the draws, the orders, and the methods with a random start.
        progress: called after each table with the number of finished tables.
        common: as in `run_methods`.
        prior: text that records store in place of the values of `common`, which may differ between
            tables.
        in_blocks: as in `run_methods`; a study has many tables.

    Returns:
        One record per table, in the order of the tables.

    Raises:
        InputError: no methods, or an unknown one; a table without gold labels; scores that are not
            finite; a probe size below 1; options that a method does not take.

    >>> from batch_calibration.scores import make_block
    >>> rows = make_block([[-1.0, -3.0], [-2.0, -2.5]], labels=[0, 1])
    >>> table = ScoreTable({"task": "mine"}, ("no", "yes"), {"test": rows})
    >>> run_calibration([table], ["icl", "bc"])[0].methods["bc"].metrics["accuracy"]
    1.0
    """
    tables = list(tables)
    names = in_table_order(methods)
    if not names:
        raise InputError.at("methods", f"one or more of {', '.join(METHODS)}", "none")
    _check_counts(probe_sizes, draws, stream_orders)
    for table in tables:
        check_labeled(table, floor)
    groups = [*map(task_of, tables)]
    run = partial(run_methods, tables, names, in_blocks=in_blocks)
    found = run(options=options, floor=floor, seed=seed, groups=groups, common=common)
    records = list[Record]()
    common = common or [{}] * len(tables)
    for table, corrected, skipped, of_table in zip(
        tables, found.results, found.skipped, common, strict=True
    ):
        # The methods received these rows raised to the floor and padded.
        rows = table.blocks["test"].log_probs
        rows = rows if floor is None else np.maximum(rows, np.float32(floor))
        test = pad_rows(Evidence(rows, table.blocks["test"].labels))
        record = make_record(table, test, corrected, skipped, floor)
        used = {name: found.options[name] for name in record.methods if name in found.options}
        named = with_common(used, record.methods, dict.fromkeys(of_table, prior))
        made = record.methods
        options, by_size, by_seen = with_common(found.options, names, of_table), {}, {}
        if probe_sizes:
            by_size = accuracy_by_size(
                test, probe_sizes, made, draws=draws, seed=seed, options=options
            )
        if stream_orders:
            by_seen = accuracy_over_stream(test, stream_orders, made, seed=seed, options=options)
        results = {}
        for name, of_method in record.methods.items():
            own, size, seen = named.get(name, {}), by_size.get(name), by_seen.get(name)
            results[name] = replace(of_method, options=own, probe_size=size, over_stream=seen)
        records.append(replace(record, methods=results))
        if progress:
            progress(len(records))
    return Records(records)


def _check_counts(sizes: Sequence[int], draws: int, orders: int) -> None:
    if draws < 1:
        raise InputError.at("draws", "1 or more for each probe size", draws)
    if any(size < 1 for size in sizes):
        raise InputError.at("probe sizes", "1 or more rows", min(sizes))
    if orders < 0:
        raise InputError.at("stream_orders", "0 (no curve) or more", orders)


def check_labeled(table: ScoreTable, floor: float | None = None) -> None:
    """Raises if a table cannot be calibrated and evaluated: no gold labels, or invalid scores."""
    where = f"table {table.id}"
    if "test" not in table.blocks:
        raise InputError.at(where, "a block 'test'", ", ".join(table.blocks), "rename a block")
    if not (table.blocks["test"].labels >= 0).any():
        raise InputError(
            f"{where}: all {len(table.blocks['test'].row_ids)} test rows lack a gold label, so "
            "accuracy cannot be measured; use batch_calibration.calibrate on the scores, or label "
            "some rows."
        )
    scores.check(table, where)
    for name, block in table.blocks.items():
        check_scores(block.log_probs, f"{where}, block {name}", floor=floor)


def order_flips(table: ScoreTable) -> Estimate | None:
    """Returns the share of questions with different answers in different orders of their options.

    Returns None unless every question was asked in several orders.
    """
    block = table.blocks.get("permutations")
    rows, k = table.blocks["test"].log_probs.shape
    if block is None or len(block.row_ids) not in probes.OPTION_ORDERS.row_counts(rows, k):
        return None
    return order_flip_rate(block.log_probs, rows)


def make_record(
    table: ScoreTable,
    test: Evidence,
    corrected: Mapping[str, Corrected],
    skipped: Mapping[str, str],
    floor: float | None,
) -> Record:
    """Makes the record of a table.

    Args:
        table: a table with a block "test".
        test: the rows of this block, padded.
        corrected: method -> its fitted state and the corrected scores.
        skipped: method -> the reason why the table cannot be used with it.
        floor: lower bound that smaller scores were raised to, in nats.
    """
    gold = table.blocks["test"].labels
    has_label = gold >= 0  # [n]; accuracies count only these rows.
    gold = gold[has_label]
    icl_is_right = np.argmax(test.log_probs[: len(has_label)][has_label], axis=-1) == gold
    # The scores of all methods in one array [m n k], as one call is faster than m calls. Its first
    # axis is padded too, so that few programs are compiled.
    padded = np.zeros(
        (1 << (len(corrected) - 1).bit_length(), *np.shape(test.log_probs)), np.float32
    )
    for place, one in enumerate(corrected.values()):
        padded[place, : len(has_label)] = one.scores
    numbers = jax.device_get(jit_quickly(_measure_each)(padded, test))
    methods = {}
    for place, (name, (state, scores_of_method)) in enumerate(corrected.items()):
        is_right = np.asarray(scores_of_method)[has_label].argmax(axis=-1) == gold
        measured = {metric: float(of_methods[place]) for metric, of_methods in numbers.items()}
        measured["accuracy"] = float(is_right.mean())  # exact: padding changes the last bits
        # A method without a probe (ICL) is the baseline, so it has no gain.
        baseline = icl_is_right if METHODS[name].probe.blocks else None
        strength = curve = None
        if METHODS[name].has_curve:
            on_test = jit_quickly(strength_curve)(state.bias, *test)
            strength, curve = float(state.strength), Curve(_floats(state.curve), _floats(on_test))
        bias = _floats(state.bias) if METHODS[name].keeps_bias else ()
        measured = with_intervals(measured, is_right, baseline)
        packed = pack(is_right)
        methods[name] = Result(measured, packed, bias, strength=strength, curve=curve)
    over_long, unreadable, notes = _outcomes(table)
    context = ContextInfo.from_table(table)
    shortened = sum(sum(counts.values()) for counts in over_long.values())
    policy = context.options.get("over_long")
    of_lengths = shortening_notes(policy, context.shots, shortened) if shortened else ()
    of_labels = scores.one_label_notes(context.task, gold.tolist(), table.label_names)
    return Record(
        id=table.id,
        context=context,
        label_names=tuple(table.label_names),
        rows={name: len(block.row_ids) for name, block in table.blocks.items()},
        classes=tuple(np.bincount(gold, minlength=len(table.label_names)).tolist()),
        methods=methods,
        skipped=skipped,
        over_long=over_long,
        unreadable=unreadable,
        floor=floor,
        notes=(*of_lengths, *of_labels, *notes),
        order_flips=tuple(order_flips(table) or ()),
    )


def _measure_each(scores: jax.Array | np.ndarray, test: Evidence) -> dict[str, jax.Array]:
    """Measures the scores [m n k] of each method in turn, to the bits of separate calls."""
    found: dict[str, jax.Array] = jax.lax.map(
        lambda of_method: metrics.measure(of_method, test.labels, test.weight), scores
    )
    return found


def _outcomes(table: ScoreTable) -> tuple[dict[str, dict[str, int]], dict[str, int], list[str]]:
    """Returns the shortened prompts and unreadable inputs of each block, and all notes."""
    over_long, unreadable = dict[str, dict[str, int]](), dict[str, int]()
    notes = list[str]()
    for name, block in table.blocks.items():
        for change in ("dropped", "truncated"):
            if count := _count(block, change):
                over_long.setdefault(name, {})[change] = count
        if count := _count(block, "unreadable"):
            unreadable[name] = count
        # The importer of the block wrote these notes.
        block_notes = block.spec.get("notes")
        notes += map(str, block_notes if isinstance(block_notes, list) else [])
    return over_long, unreadable, notes


def _count(block: Block, name: str) -> int:
    """Returns a count from the block's spec; 0 if the spec does not hold it."""
    count = block.spec.get(name)
    return count if isinstance(count, int) else 0


def _floats(array: jax.Array | np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(array).tolist())


CHANGED = "{} score table{} changed during calibration, so no record was kept: {} again"


class CalibrationReport(NamedTuple):
    """The outcome of a calibration run.

    Attributes:
        records: one per calibrated score table that did not change during the run.
        broken: a message on each score table that cannot be read or calibrated.
        seconds: duration of the calibration, including compilation.
        notes: remarks that qualify the numbers, such as images left out, in sentences.
        skipped: method that was asked for -> the reason why some contexts leave it out.
    """

    records: Records
    broken: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...]
    skipped: dict[str, str]


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
    label_shares: Literal["equal", "train"] = "equal",
) -> CalibrationReport:
    """Calibrates the score tables of a workdir and stores the records there.

    Keeps the results of other methods and probe sizes from an earlier run with the same scores and
    floor.

    Args:
        store: a workdir with scores.
        methods: names from `METHODS`; by default all, and not only `SHELF` as in
            `calibrate_study`.
        floor: as in `run_calibration`.
        options: as in `run_calibration`.
        probe_sizes: as in `run_calibration`.
        draws: as in `run_calibration`.
        stream_orders: as in `run_calibration`.
        tasks: calibrates only tables of these tasks, for instance if curves of all take too long.
        shots: calibrates only tables with this number of shots.
        label_shares: label shares that methods match: "equal", or "train" for the shares in the
            training file.

    Raises:
        InputError: no score tables, or no table of these tasks and shots; other invalid arguments,
            as in `run_calibration`.
    """
    in_table_order(methods)  # raises on an unknown name before tables are read
    store = store if isinstance(store, Store) else Store(store)
    # Digests are computed before the tables are read, so that a later change of a table shows.
    digests = store.digests()
    tables, broken = store.tables()
    if not tables and not broken:
        raise InputError(f"workdir {store.workdir}: no score tables yet; {step('score')} first.")
    if tasks:
        tables = [table for table in tables if table.context.get("task") in tasks]
    if shots is not None:
        tables = [table for table in tables if table.context.get("shots") == shots]
    if not tables and not broken:
        chosen = [*tasks, *([] if shots is None else [f"{shots} shots"])]
        expected, remedy = f"score tables of {', '.join(chosen)}", f"{step('score')} first"
        raise InputError.at(f"workdir {store.workdir}", expected, "none", remedy)
    began = time.monotonic()
    usable, common = list[ScoreTable](), list[Options]()
    for table in tables:
        try:
            # A table that cannot be calibrated must not stop the others.
            check_labeled(table, floor)
            common.append(_shares_of_training(table) if label_shares == "train" else {})
            usable.append(table)
        except InputError as error:
            broken.append(str(error))
    calibrated = run_calibration(
        usable, methods, floor=floor, options=options, probe_sizes=probe_sizes, draws=draws,
        stream_orders=stream_orders, common=common, prior=label_shares, in_blocks=True,
    )  # fmt: skip
    records = list[Record]()
    for record in calibrated:
        # A table that was written after the digests were computed has none; its record is dropped.
        record = replace(record, scores=digests.get(record.id, "gone"))
        record = _with_earlier(record, store.record(record.id))
        if store.put_record(record):
            records.append(record)
    changed = len(calibrated) - len(records)
    notes = [CHANGED.format(changed, "s" * (changed > 1), step("calibrate"))] if changed else []
    seconds = time.monotonic() - began
    skipped = dict(chain.from_iterable(record.skipped.items() for record in calibrated))
    return CalibrationReport(
        Records(records), tuple(broken), seconds, (*notes, *_notes(records)), skipped
    )


def calibrate_study(
    store: Store | str | Path,
    settings: CalibrationSettings,
    *,
    floor: float | None = None,
    tasks: Sequence[str] = (),
    shots: int | None = None,
) -> CalibrationReport:
    """Calls `calibrate_store` with the settings of a study, and raises the same errors."""
    keys = dict(vars(settings))
    options = read_options(keys.pop("method_options"))
    keys["methods"] = on_shelf(settings.methods, options)
    report = calibrate_store(store, floor=floor, options=options, tasks=tasks, shots=shots, **keys)
    # Of the shelf, the methods that the scores allow are enough: no other one was asked for.
    return report if settings.methods else report._replace(skipped={})


def _shares_of_training(table: ScoreTable) -> Options:
    """Returns method options with the label counts of the task's training file."""
    counts = table.context.get(scores.TRAIN_LABELS)
    if not isinstance(counts, list) or len(counts) != len(table.label_names):
        key, where = "label_shares", f"table {table.id}, {spell('label_shares', 'train')}"
        expected = "label counts of a training file, which scoring stores for tasks of text"
        remedy = f"{step('score')} into a new workdir"
        raise InputError(key=key, where=where, expected=expected, got="none", remedy=remedy)
    return {"target_prior": counted_shares(counts)}


def _with_earlier(record: Record, earlier: Record | None) -> Record:
    """Adds the results of other methods from an earlier record of the same scores."""
    if earlier is None or (earlier.floor, earlier.scores) != (record.floor, record.scores):
        return record
    methods = dict(earlier.methods)
    for name, of_method in record.methods.items():
        methods[name] = of_method.with_curves_of(methods.get(name))
    skipped = {**earlier.skipped, **record.skipped}
    skipped = {name: reason for name, reason in skipped.items() if name not in methods}
    return replace(record, methods=methods, skipped=skipped)


def _notes(records: Sequence[Record]) -> Iterator[str]:
    yield from dict.fromkeys(chain.from_iterable(record.notes for record in records))
    for record in records:
        for name, count in record.unreadable.items():
            yield (
                f"{record.context.task}, block {name!r}: {count:,} of "
                f"{record.rows[name] + count:,} inputs are left out because they have no scores"
            )
