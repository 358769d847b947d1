"""Every method on every score table, or one method's scores, in few compiled programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import scores
from batch_calibration.arrays import check_key
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.errors import InputError, spell
from batch_calibration.methods import (
    METHODS,
    Corrected,
    Evidence,
    Options,
    check_chosen,
    check_options,
    check_scores,
    compare,
    correct,
    get_method,
    over_contexts,
    warn_of_few_rows,
)
from batch_calibration.methods.compiling import jit_methods
from batch_calibration.metrics import table as metrics
from batch_calibration.scores import ScoreTable
from batch_calibration.studies import Record, Records
from batch_calibration.studies.accuracy_by_rows import accuracy_by_size, accuracy_over_stream
from batch_calibration.studies.groups import Group, find_skipped, make_groups
from batch_calibration.studies.measured import Measured, make_record
from batch_calibration.typing import Key

Progress = Callable[[int], None]


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

    Returns:
        One record per table, in their order.

    Raises:
        InputError: no method, or one that does not exist; a table without gold labels; scores that
            are no finite numbers; a probe size below 1; options that a method does not take.

    >>> from batch_calibration.scores import make_block
    >>> rows = make_block([[-1.0, -3.0], [-2.0, -2.5]], labels=[0, 1])
    >>> table = ScoreTable({"task": "mine"}, ("no", "yes"), {"test": rows})
    >>> run_calibration([table], ["icl", "bc"])[0].methods["bc"]["accuracy"]
    1.0
    """
    tables = list(tables)
    chosen = list(METHODS if methods is None else methods)
    for name in chosen:
        get_method(str(name))  # refuses a name that does not exist
    names = [name for name in METHODS if name in chosen]
    if not names:
        raise InputError(
            where="methods", expected=f"one or more of {', '.join(METHODS)}", got="none"
        )
    _check_counts(probe_sizes, draws, stream_orders)
    for table in tables:
        check(table, floor)
    options = check_chosen(options, names, (len(table.label_names) for table in tables))
    skipped = [find_skipped(table, names, options) for table in tables]
    key = jax.random.key(seed)
    records: dict[int, Record] = {}  # by position among the tables
    # One after the other: programs with linear algebra over many contexts have waited for each
    # other forever where several ran at once on a CPU.
    for group in make_groups(tables, skipped, names, floor):
        measured = _run(group, key=key, options=options)
        # Place in the group, and among all tables.
        for i, (position, table) in enumerate(group.tables):
            record = make_record(table, i, measured, skipped[position], floor)
            used_options = {name: options[name] for name in record.methods if name in options}
            record = replace(record, options=used_options)
            test = jax.tree.map(itemgetter(i), group.blocks["test"])  # without the axis of contexts
            if probe_sizes:
                by_size = accuracy_by_size(
                    test, probe_sizes, draws=draws, seed=seed, options=options
                )
                record = replace(record, probe_size=by_size)
            if stream_orders:
                by_seen = accuracy_over_stream(test, stream_orders, seed=seed, options=options)
                record = replace(record, over_stream=by_seen)
            records[position] = record
        if progress:
            progress(len(records))
    return Records([records[position] for position in range(len(tables))])


def _check_counts(sizes: Sequence[int], draws: int, orders: int) -> None:
    if draws < 1:
        raise InputError(where="draws", expected="1 or more for each probe size", got=draws)
    if any(size < 1 for size in sizes):
        raise InputError(where="probe sizes", expected="1 or more rows", got=min(sizes))
    if orders < 0:
        raise InputError(
            where="stream_orders",
            expected="a whole number from 0 on",
            got=orders,
            remedy="0 leaves the curve of rows seen out",
        )


def check(table: ScoreTable, floor: float | None = None) -> None:
    """Refuse a table that cannot be calibrated and judged: no right label, scores that are none."""
    where = f"table {table.id}"
    if "test" not in table.blocks:
        raise InputError(
            where=where,
            expected="a block 'test', the rows to correct",
            got=f"{', '.join(table.blocks) or 'none'}",
            remedy="name it so",
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


def _run(group: Group, *, key: Key, options: Mapping[str, Options]) -> Measured:
    """Two programs a group: methods that loop over contexts, then the others and all metrics."""
    if not group.methods:
        return Measured({}, {}, {}, {}, {}, {})
    looped_names = [name for name in group.methods if METHODS[name].looped]
    mapped_names = [name for name in group.methods if not METHODS[name].looped]
    looped: dict[str, Corrected] = {}
    if looped_names:
        run_looped = jit_methods(compare, looped=True)
        looped = run_looped(group.blocks, key=key, methods=looped_names, options=options)
    run_mapped = jit_methods(_measure, looped=False)
    measured = run_mapped(group.blocks, looped, key, methods=mapped_names, options=options)
    on_host: Measured = jax.device_get(measured)
    return on_host


def _measure(
    blocks: dict[str, Evidence], looped: dict[str, Corrected], key: Key, *,
    methods: Sequence[str], options: Mapping[str, Options],
) -> Measured:  # fmt: skip
    """The methods named, and the metrics of theirs and of the looped ones' scores."""
    corrected = compare(blocks, methods=methods, key=key, options=options) | looped
    test = blocks["test"]
    gold = jnp.asarray(test.labels)
    # One method after the other: a single body to compile.
    by_metric = jax.lax.map(
        lambda scores: jax.vmap(metrics.measure)(scores, gold, test.weight),
        jnp.stack([method.scores for method in corrected.values()]),  # [method c n k]
    )
    measured = Measured({}, {}, {}, {}, {}, {})
    for metric, of_methods in by_metric.items():
        measured.metrics[metric] = dict(zip(corrected, of_methods, strict=True))
    for name, method in corrected.items():
        measured.right[name] = metrics.predict(method.scores) == gold
        if METHODS[name].keeps_bias:
            measured.bias[name] = method.state.bias
        if METHODS[name].has_curve:
            measured.strength[name] = method.state.strength
            measured.labeled[name] = method.state.curve
            measured.test[name] = jax.vmap(strength_curve)(method.state.bias, *test)
    return measured


def corrected_scores(
    tables: Sequence[ScoreTable], method: str = "bc", *, seed: int = 0, **options: object
) -> list[np.ndarray]:
    """The test rows of each table without the bias that `method` finds there.

    Args:
        tables: score tables with a block "test"; right labels are not needed.
        method: a name from `METHODS`.
        seed: of methods that start at random.
        **options: what `METHODS[method].make` takes.

    Returns:
        float32 [n, k] of each table, in nats for the shift methods.

    Raises:
        InputError: a table that the method cannot correct; wrong scores or options.

    >>> from batch_calibration.scores import make_block
    >>> rows = make_block(10 * [[-1.0, -3.0], [-2.0, -2.5]])
    >>> corrected_scores([ScoreTable({}, ("no", "yes"), {"test": rows})])[0][:2].tolist()
    [[0.5, -0.25], [-0.5, 0.25]]
    """
    chosen = get_method(method)
    for table in tables:
        where = str(table.context.get("task") or f"table {table.id}")
        scores.check(table, where)
        if reason := find_skipped(table, [method], {method: options}).get(method):
            raise InputError(
                f"{where}: {method} cannot correct it: {reason}; name another {spell('method')}."
            )
        for name, block in table.blocks.items():
            check_scores(block.log_probs, f"{where}, block {name}")
        warn_of_few_rows(method, chosen.probe.blocks, len(table.blocks["test"].row_ids), where)
        options = check_options(method, chosen.make, options, len(table.label_names))

    def correct_one(blocks: dict[str, Evidence]) -> jax.Array:
        rows = blocks["test"].log_probs
        return correct(chosen, blocks, rows, key=check_key(seed), **options).scores  # type: ignore

    # One program for all groups of a shape.
    correct_group = jax.jit(partial(over_contexts, chosen, correct_one))
    by_position: dict[int, np.ndarray] = {}
    for group in make_groups(tables, [{}] * len(tables), [method], None):
        padded = np.asarray(correct_group(group.blocks))
        for (position, table), scores_of_one in zip(group.tables, padded, strict=True):
            # Rows of padding stand behind those of the context.
            by_position[position] = scores_of_one[: len(table.blocks["test"].row_ids)]
    return [by_position[position] for position in range(len(tables))]
