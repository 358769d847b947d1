"""`run_calibration`: every method on every score table, in few compiled programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import jax
import jax.numpy as jnp

from batch_calibration import scores
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.errors import InputError
from batch_calibration.methods import (
    METHODS,
    Corrected,
    Evidence,
    Options,
    check_chosen,
    check_scores,
    compare,
    get_method,
)
from batch_calibration.metrics import table as metrics
from batch_calibration.scores import ScoreTable
from batch_calibration.store import Record, Records
from batch_calibration.study.groups import Group, grouped
from batch_calibration.study.left_out import left_out
from batch_calibration.study.measured import Measured, make_record
from batch_calibration.study.over_stream import accuracy_over_stream, check_orders
from batch_calibration.study.probe_sizes import accuracy_by_size, check_sizes
from batch_calibration.typing import Key

Progress = Callable[[int], None]
Frozen = tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
"""Method -> its options, as tuples."""


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
    given = {get_method(str(name)) and name for name in (METHODS if methods is None else methods)}
    names = [name for name in METHODS if name in given]
    if not names:
        raise InputError(
            where="methods", expected=f"one or more of {', '.join(METHODS)}", got="none"
        )
    check_sizes(probe_sizes, draws)
    check_orders(stream_orders)
    for table in tables:
        check(table, floor)
    chosen = check_chosen(options, names, (len(table.label_names) for table in tables))
    skipped = [left_out(table, names, chosen) for table in tables]
    groups = grouped(tables, skipped, names, floor)
    key = jax.random.key(seed)
    records: dict[int, Record] = {}
    # One after the other: programs with linear algebra over many contexts have waited for each
    # other forever where several ran at once on a CPU.
    for group in groups:
        found = _run(group, key=key, options=_frozen(chosen))
        for i, (place, table) in enumerate(group.tables):
            record = make_record(table, i, found, skipped[place], floor)
            mine = {name: chosen[name] for name in record.methods if name in chosen}
            record = replace(record, options=mine)
            test = jax.tree.map(itemgetter(i), group.blocks["test"])
            if probe_sizes:
                by_size = accuracy_by_size(
                    test, probe_sizes, draws=draws, seed=seed, options=chosen
                )
                record = replace(record, probe_size=by_size)
            if stream_orders:
                seen = accuracy_over_stream(test, stream_orders, seed=seed, options=chosen)
                record = replace(record, over_stream=seen)
            records[place] = record
        if progress:
            progress(len(records))
    return Records([records[place] for place in range(len(tables))])


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


def _frozen(options: Mapping[str, Options]) -> Frozen:
    """The same as tuples, which a compiled program can be kept under."""
    return tuple((name, tuple(given.items())) for name, given in options.items())


def _run(group: Group, *, key: Key, options: Frozen) -> Measured:
    """Two programs a group: methods that loop over contexts, then the others and all metrics."""
    alone = tuple(name for name in group.methods if METHODS[name].looped)
    together = tuple(name for name in group.methods if not METHODS[name].looped)
    if not group.methods:
        return Measured({}, {}, {}, {}, {}, {})
    looped = _compare(group.blocks, key, methods=alone, options=options) if alone else {}
    every = _measured(group.blocks, looped, key, methods=together, options=options)
    found: Measured = jax.device_get(every)
    return found


# Below the usual 2, which takes the CPU's compiler longer and makes these programs no faster.
@partial(
    jax.jit,
    static_argnames=("methods", "options"),
    compiler_options={"xla_backend_optimization_level": 1},
)
def _compare(
    blocks: dict[str, Evidence], key: Key, *, methods: tuple[str, ...], options: Frozen
) -> dict[str, Corrected]:
    chosen = {name: dict(given) for name, given in options}
    return compare(blocks, methods=methods, key=key, options=chosen)


@partial(
    jax.jit,
    static_argnames=("methods", "options"),
    compiler_options={"xla_backend_optimization_level": 0},
)
def _measured(
    blocks: dict[str, Evidence],
    looped: dict[str, Corrected],
    key: Key,
    *,
    methods: tuple[str, ...],
    options: Frozen,
) -> Measured:
    """The methods named, and the metrics of theirs and of the looped ones' scores."""
    chosen = {name: dict(given) for name, given in options}
    corrected = compare(blocks, methods=methods, key=key, options=chosen) | looped
    test = blocks["test"]
    gold = jnp.asarray(test.labels)
    # One method after the other: a single body to compile.
    each = jax.lax.map(
        lambda scores: jax.vmap(metrics.measure)(scores, gold, test.weight),
        jnp.stack([one.scores for one in corrected.values()]),
    )
    curved = {name: one.state for name, one in corrected.items() if METHODS[name].has_curve}
    return Measured(
        {metric: dict(zip(corrected, values, strict=True)) for metric, values in each.items()},
        {name: one.state.bias for name, one in corrected.items() if METHODS[name].keeps_bias},
        {name: state.strength for name, state in curved.items()},
        {name: state.curve for name, state in curved.items()},
        {name: jax.vmap(strength_curve)(state.bias, *test) for name, state in curved.items()},
        {name: metrics.predict(one.scores) == gold for name, one in corrected.items()},
    )
