"""`run_calibration`: every method on every score table, in few compiled programs."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration import metrics, scores
from batch_calibration.calibration.learned_shift import strength_curve
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.methods import METHODS, Corrected, Evidence, compare, get_method
from batch_calibration.prompts import length_limit
from batch_calibration.records import ContextInfo, Curve, Record, Records
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.study.left_out import left_out
from batch_calibration.study.probe_sizes import accuracy_by_size, check_sizes
from batch_calibration.typing import Key
from batch_calibration.validation import check_scores

Progress = Callable[[int], None]


class Measured(NamedTuple):
    """What is found of a group of c contexts.

    Attributes:
        metrics: metric -> method -> [c].
        bias: method -> [c k], in nats.
        strength: method -> [c], of methods that have a curve.
        labeled: method -> [c g], its curve on the labeled set.
        test: method -> [c g], its curve on the test rows.
    """

    metrics: dict[str, dict[str, jax.Array]]
    bias: dict[str, jax.Array]
    strength: dict[str, jax.Array]
    labeled: dict[str, jax.Array]
    test: dict[str, jax.Array]


class Group(NamedTuple):
    """Tables of as many labels and about as many rows, which share compiled programs.

    Attributes:
        tables: where each stands among all, and the table.
        blocks: name -> padded arrays [c m k], [c m], [c m].
        methods: those that at least one of the tables can have.
    """

    tables: list[tuple[int, ScoreTable]]
    blocks: dict[str, Evidence]
    methods: list[str]


def run_calibration(
    tables: Iterable[ScoreTable],
    methods: Sequence[str] | None = None,
    *,
    floor: float | None = None,
    probe_sizes: Sequence[int] = (),
    draws: int = 20,
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
        probe_sizes: also let the methods drawn over probe sizes learn from so many test rows
            alone (the paper's figure of batch sizes). Sizes beyond n are left out, n is added.
        draws: random draws of rows for each probe size.
        seed: of those draws, and of the methods that start at random.
        progress: called with how many tables are done, whenever some are.

    Returns:
        One record per table, in their order.

    Raises:
        InputError: no method, or one that does not exist; a table without gold labels; scores that
            are no finite numbers; a probe size below 1.

    >>> from batch_calibration.scores import make_block
    >>> rows = make_block([[-1.0, -3.0], [-2.0, -2.5]], labels=[0, 1])
    >>> table = ScoreTable({"task": "mine"}, ("no", "yes"), {"test": rows})
    >>> run_calibration([table], ["icl", "bc"])[0].methods["bc"]["accuracy"]
    1.0
    """
    tables = list(tables)
    chosen = {get_method(str(name)) and name for name in (METHODS if methods is None else methods)}
    names = [name for name in METHODS if name in chosen]
    if not names:
        raise InputError(f"methods: expected one or more of {', '.join(METHODS)}, got none.")
    check_sizes(probe_sizes, draws)
    for table in tables:
        check(table, floor)
    skipped = [left_out(table, names) for table in tables]
    groups = grouped(tables, skipped, names, floor)
    key = jax.random.key(seed)
    records: dict[int, Record] = {}
    # Compiling leaves Python's lock alone: several groups are compiled at once.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for group, found in zip(groups, pool.map(partial(_run, key=key), groups), strict=True):
            for i, (place, table) in enumerate(group.tables):
                record = _record(table, i, found, skipped[place], floor)
                if probe_sizes:
                    test = jax.tree.map(itemgetter(i), group.blocks["test"])
                    by_size = accuracy_by_size(test, probe_sizes, draws=draws, seed=seed)
                    record = replace(record, probe_size=by_size)
                records[place] = record
            if progress:
                progress(len(records))
    return Records([records[place] for place in range(len(tables))])


def check(table: ScoreTable, floor: float | None = None) -> None:
    """Refuse a table that cannot be calibrated and judged: no right label, scores that are none."""
    where = f"table {table.id}"
    if "test" not in table.blocks:
        raise InputError(
            f"{where}: expected a block 'test', the rows to correct; got "
            f"{', '.join(table.blocks) or 'none'}: name it so."
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


def grouped(
    tables: Sequence[ScoreTable],
    skipped: Sequence[Mapping[str, str]],
    names: Sequence[str],
    floor: float | None,
) -> list[Group]:
    """Tables that share shapes once padded: as many labels, test rows within a power of two.

    Blocks that may have a row for each test row are so in all tables of a group, or in none.
    """
    may_be = {
        b for name in names if METHODS[name].probe.aligned for b in METHODS[name].probe.blocks
    }
    alike: dict[tuple[object, ...], list[tuple[int, ScoreTable]]] = {}
    for place, table in enumerate(tables):
        rows, labels = table.blocks["test"].log_probs.shape
        aligned = {name for name in may_be & set(table.blocks)
                   if len(table.blocks[name].row_ids) == rows}  # fmt: skip
        shape = (labels, (rows - 1).bit_length(), frozenset(aligned))
        alike.setdefault(shape, []).append((place, table))
    groups = []
    for group in alike.values():
        here = [name for name in names if any(name not in skipped[place] for place, _ in group)]
        read = dict.fromkeys(("test", *(b for name in here for b in METHODS[name].probe.blocks)))
        blocks = {name: _pad([t.blocks.get(name) for _, t in group], floor) for name in read}
        groups.append(Group(group, blocks, here))
    # The longest first.
    return sorted(groups, key=lambda group: -group.blocks["test"].log_probs.shape[-1])


def _pad(blocks: Sequence[Block | None], floor: float | None) -> Evidence:
    """One block of several contexts, each padded to the longest by rows of weight 0.

    A context without the block is all padding. No weight where nothing is padded: the compiler
    then knows it.
    """
    shapes = [block.log_probs.shape for block in blocks if block is not None]
    rows, labels = max(rows for rows, _ in shapes), shapes[0][1]
    log_probs = np.zeros((len(blocks), rows, labels), np.float32)
    gold = np.full((len(blocks), rows), -1, np.int32)
    weight = np.zeros((len(blocks), rows), np.float32)
    for i, block in enumerate(blocks):
        if block is not None:
            n = len(block.log_probs)
            log_probs[i, :n], gold[i, :n], weight[i, :n] = block.log_probs, block.labels, 1.0
    if floor is not None:
        log_probs = np.maximum(log_probs, np.float32(floor))
    return Evidence(log_probs, gold, None if weight.all() else weight)


def _run(group: Group, *, key: Key) -> Measured:
    """Two programs a group: methods that loop over contexts, then the others and all metrics."""
    alone = tuple(name for name in group.methods if METHODS[name].looped)
    together = tuple(name for name in group.methods if not METHODS[name].looped)
    if not group.methods:
        return Measured({}, {}, {}, {}, {})
    looped = _compare(group.blocks, methods=alone, key=key) if alone else {}
    found: Measured = jax.device_get(_measured(group.blocks, looped, key, methods=together))
    return found


# Below the usual 2, which takes the CPU's compiler longer and makes these programs no faster.
_compare = jax.jit(
    compare, static_argnames="methods", compiler_options={"xla_backend_optimization_level": 1}
)


@partial(
    jax.jit,
    static_argnames="methods",
    compiler_options={"xla_backend_optimization_level": 0},
)
def _measured(
    blocks: dict[str, Evidence],
    looped: dict[str, Corrected],
    key: Key,
    *,
    methods: tuple[str, ...],
) -> Measured:
    """The methods named, and the metrics of theirs and of the looped ones' scores."""
    corrected = compare(blocks, methods=methods, key=key) | looped
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
    )


def _record(
    table: ScoreTable, i: int, found: Measured, skipped: Mapping[str, str], floor: float | None
) -> Record:
    """The i-th context of a group as a record."""
    known = int((table.blocks["test"].labels >= 0).sum())
    values = {}
    for name in found.metrics.get("accuracy", ()):
        if name not in skipped:
            one = {metric: float(of[name][i]) for metric, of in found.metrics.items()}
            low, high = metrics.accuracy_interval(one["accuracy"], known)
            values[name] = one | {"accuracy_low": float(low), "accuracy_high": float(high)}
    curved = next((name for name in found.strength if name not in skipped), None)
    over_long = {
        name: {what: n for what in ("dropped", "truncated") if (n := _count(block, what))}
        for name, block in table.blocks.items()
    }
    shortened = sum(sum(counts.values()) for counts in over_long.values())
    about = ContextInfo.of(table)
    return Record(
        id=table.id,
        context=about,
        label_names=tuple(table.label_names),
        rows={name: len(block.row_ids) for name, block in table.blocks.items()},
        methods={name: values[name] for name in METHODS if name in values},
        skipped=skipped,
        over_long={name: counts for name, counts in over_long.items() if counts},
        unreadable={
            name: n for name, block in table.blocks.items() if (n := _count(block, "unreadable"))
        },
        bias={name: _floats(of[i]) for name, of in found.bias.items() if name not in skipped},
        floor=floor,
        notes=(
            *length_limit.notes(about.options.get("over_long"), about.shots, shortened),
            *(str(note) for block in table.blocks.values() for note in _said(block)),
        ),
        strength=float(found.strength[curved][i]) if curved else None,
        curve=(
            Curve(_floats(found.labeled[curved][i]), _floats(found.test[curved][i]))
            if curved
            else None
        ),
    )


def _said(block: Block) -> list[Json]:
    """What the importer of a block says of it, in sentences."""
    said = block.spec.get("notes")
    return said if isinstance(said, list) else []


def _count(block: Block, what: str) -> int:
    """A number that the block's spec holds, 0 where it holds none."""
    count = block.spec.get(what)
    return count if isinstance(count, int) else 0


def _floats(array: jax.Array) -> tuple[float, ...]:
    return tuple(np.asarray(array).tolist())
