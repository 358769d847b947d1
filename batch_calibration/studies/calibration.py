"""Every method on every score table, and the record of what it did to each."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import numpy as np

from batch_calibration import metrics, scores
from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.errors import InputError, spell, step
from batch_calibration.methods import METHODS, Corrected, Evidence, Options, probes
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
) -> Records:
    """Applies every method to every table; no model is needed.

    A method whose probe block a table lacks, that cannot tell so many labels apart, or that needs
    log-probabilities where the scores are none, is left out of its record and named in `skipped`.

    Args:
        tables: score tables with a block "test".
        methods: names from `METHODS`, all by default.
        floor: scores below it, minus infinity too, are raised to it, in nats.
        options: method -> what its `make` takes, such as `{"bc_running": {"batch_size": 8}}`; those
            that differ from the defaults are in the record.
        probe_sizes: also let the methods drawn over probe sizes learn from so many test rows
            alone (the paper's Fig. 9). Sizes beyond n are left out, n is added.
        draws: random draws of rows for each probe size.
        stream_orders: also let the methods drawn over a stream correct the test rows in so many
            random orders; 0 leaves it out.
        seed: of those draws and orders, and of the methods that start at random.
        progress: called with how many tables are done, whenever some are.
        common: as in `run_methods`.
        prior: what records call the values of `common`, which may differ from table to table.

    Returns:
        One record per table, in their order.

    Raises:
        InputError: no method, or one that does not exist; a table without gold labels; scores that
            are no finite numbers; a probe size below 1; options that a method does not take.

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
    found = run_methods(
        tables, names, options=options, floor=floor, seed=seed, groups=groups, common=common
    )
    records = list[Record]()
    common = common or [{}] * len(tables)
    for table, corrected, skipped, of_table in zip(
        tables, found.results, found.skipped, common, strict=True
    ):
        # As methods see them: raised to the floor, and padded.
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
        raise InputError.at(
            "stream_orders", "a whole number from 0 on", orders, "0 leaves this curve out"
        )


def check_labeled(table: ScoreTable, floor: float | None = None) -> None:
    """Refuse a table that cannot be calibrated and judged: no right label, scores that are none."""
    where = f"table {table.id}"
    if "test" not in table.blocks:
        raise InputError.at(
            where, "a block 'test' to correct", f"{', '.join(table.blocks) or 'none'}", "name it so"
        )
    if not (table.blocks["test"].labels >= 0).any():
        raise InputError(
            f"{where}: none of its {len(table.blocks['test'].row_ids)} test rows has a gold "
            "label, so no accuracy can be given; use batch_calibration.calibrate on its scores, "
            "or label some rows."
        )
    scores.check(table, where)
    for name, block in table.blocks.items():
        check_scores(block.log_probs, f"{where}, block {name}", floor=floor)


def order_flips(table: ScoreTable) -> Estimate | None:
    """The share of questions whose answer changes with the order of their options.

    None where not every question was asked in several orders.
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
    """A table's record.

    Args:
        table: with a block "test".
        test: its rows, padded.
        corrected: what each method made of them.
        skipped: method -> why the table rules it out.
        floor: what smaller scores were raised to.
    """
    gold = table.blocks["test"].labels
    has_label = gold >= 0  # [n]; accuracies are of these rows
    gold = gold[has_label]
    icl_is_right = np.argmax(test.log_probs[: len(has_label)][has_label], axis=-1) == gold
    methods = {}
    for name, (state, scores_of_method) in corrected.items():
        is_right = np.asarray(scores_of_method)[has_label].argmax(axis=-1) == gold
        padded = pad_rows(Evidence(scores_of_method)).log_probs
        measured = jax.device_get(jit_quickly(metrics.measure)(padded, test.labels, test.weight))
        measured = {metric: float(number) for metric, number in measured.items()}
        measured["accuracy"] = float(is_right.mean())  # to the last bit, without the padding
        # What learns nothing is what the others are compared with.
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


def _outcomes(table: ScoreTable) -> tuple[dict[str, dict[str, int]], dict[str, int], list[str]]:
    """Prompts of each block that were shortened, inputs that could not be read, and notes."""
    over_long, unreadable = dict[str, dict[str, int]](), dict[str, int]()
    notes = list[str]()
    for name, block in table.blocks.items():
        for change in ("dropped", "truncated"):
            if count := _count(block, change):
                over_long.setdefault(name, {})[change] = count
        if count := _count(block, "unreadable"):
            unreadable[name] = count
        # What the importer of the block says of it.
        block_notes = block.spec.get("notes")
        notes += map(str, block_notes if isinstance(block_notes, list) else [])
    return over_long, unreadable, notes


def _count(block: Block, name: str) -> int:
    """A number that the block's spec holds, 0 where it holds none."""
    count = block.spec.get(name)
    return count if isinstance(count, int) else 0


def _floats(array: jax.Array | np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(array).tolist())


CHANGED = "{} score table{} changed while being calibrated, and no record was kept: {} again"


class CalibrationReport(NamedTuple):
    """The outcome of a run.

    Attributes:
        records: one per score table that could be read and is still there, unchanged.
        broken: a sentence on each score table that could not.
        seconds: what calibrating took, compilation included.
        notes: which rows are left out, in sentences.
        skipped: the methods that are left out of some contexts, and why.
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
        label_shares: the shares that methods match, equal ones or those of the training file.

    Raises:
        InputError: no score tables, or none of these tasks and shots; what `run_calibration`
            raises of its other arguments.
    """
    in_table_order(methods)  # a wrong name is refused before tables are read
    store = store if isinstance(store, Store) else Store(store)
    # Before the tables are read: a record whose table changes from here on is not kept.
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
        raise InputError(
            f"workdir {store.workdir}: no score table is of {', '.join(chosen)}; "
            f"{step('score')} first, or ask for others."
        )
    began = time.monotonic()
    usable, common = list[ScoreTable](), list[Options]()
    for table in tables:
        try:
            # One table that cannot be judged must not stop the others.
            check_labeled(table, floor)
            common.append(_shares_of_training(table) if label_shares == "train" else {})
            usable.append(table)
        except InputError as error:
            broken.append(str(error))
    calibrated = run_calibration(
        usable, methods, floor=floor, options=options, probe_sizes=probe_sizes, draws=draws,
        stream_orders=stream_orders, common=common, prior=label_shares,
    )  # fmt: skip
    records = list[Record]()
    for record in calibrated:
        # One whose table came after the digests were taken has none, and is not kept.
        record = replace(record, scores=digests.get(record.id, "gone"))
        record = _with_earlier(record, store.record(record.id))
        if store.put_record(record):
            records.append(record)
    changed = len(calibrated) - len(records)
    notes = [CHANGED.format(changed, "s" * (changed > 1), step("calibrate"))] if changed else []
    seconds = time.monotonic() - began
    skipped = dict(chain.from_iterable(record.skipped.items() for record in records))
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
    """`calibrate_store` as the settings of a study say; errors as there."""
    keys = dict(vars(settings))
    options = read_options(keys.pop("method_options"))
    keys["methods"] = settings.methods or None
    return calibrate_store(store, floor=floor, options=options, tasks=tasks, shots=shots, **keys)


def _shares_of_training(table: ScoreTable) -> Options:
    """Options of methods by the labels counted in the task's training file."""
    counts = table.context.get(scores.TRAIN_LABELS)
    if not isinstance(counts, list) or len(counts) != len(table.label_names):
        key, where = "label_shares", f"table {table.id}, {spell('label_shares', 'train')}"
        expected = "the labels of a training file of texts, which are counted when it is scored"
        remedy = f"{step('score')} into a new workdir"
        raise InputError(key=key, where=where, expected=expected, got="none", remedy=remedy)
    return {"target_prior": counted_shares(counts), "counts": tuple(counts)}


def _with_earlier(record: Record, earlier: Record | None) -> Record:
    """Adds the results of other methods that an earlier run found on the same scores."""
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
                f"{record.context.task}, block {name!r}: left out for they could not be read: "
                f"{count:,} of {record.rows[name] + count:,} images"
            )
