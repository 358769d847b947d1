"""What is measured of a group of contexts, and from it the record of each."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from batch_calibration.methods import METHODS, probes
from batch_calibration.metrics import Estimate, order_flip_rate, with_intervals
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.scoring.prompts import length_limit
from batch_calibration.studies import ContextInfo, Curve, Record, pack


class Measured(NamedTuple):
    """What is found of a group of c contexts.

    Attributes:
        metrics: metric -> method -> [c].
        bias: method -> [c k], in nats.
        strength: method -> [c], of methods that have a curve.
        labeled: method -> [c g], its curve on the labeled set.
        test: method -> [c g], its curve on the test rows.
        right: method -> [c n], whether each test row is right.
    """

    metrics: dict[str, dict[str, jax.Array]]
    bias: dict[str, jax.Array]
    strength: dict[str, jax.Array]
    labeled: dict[str, jax.Array]
    test: dict[str, jax.Array]
    right: dict[str, jax.Array]


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
    table: ScoreTable, i: int, measured: Measured, skipped: Mapping[str, str], floor: float | None
) -> Record:
    """The i-th context of a group as a record."""
    test = table.blocks["test"]
    has_label = test.labels >= 0  # [n]; accuracies are of these rows
    gold, log_probs = test.labels[has_label], test.log_probs[has_label]
    if floor is not None:
        log_probs = np.maximum(log_probs, floor)
    icl_is_right = log_probs.argmax(axis=-1) == gold
    methods, right = {}, {}
    for name in METHODS:
        if name not in measured.right or name in skipped:
            continue
        # Rows of padding stand behind those of the context.
        is_right = np.asarray(measured.right[name][i])[: len(has_label)][has_label]
        right[name] = pack(is_right)
        metrics = {}
        for metric, by_method in measured.metrics.items():
            metrics[metric] = float(by_method[name][i])
        metrics["accuracy"] = float(is_right.mean())  # to the last bit, without the padding
        # What learns nothing is what the others are compared with.
        baseline = icl_is_right if METHODS[name].probe.blocks else None
        methods[name] = with_intervals(metrics, is_right, baseline)
    # Of the methods that learn a strength a record holds the first one's.
    strength, curve = None, None
    for name in measured.strength:
        if name not in skipped and curve is None:
            strength = float(measured.strength[name][i])
            curve = Curve(_floats(measured.labeled[name][i]), _floats(measured.test[name][i]))
    over_long, unreadable, notes = _outcomes(table)
    context = ContextInfo.from_table(table)
    shortened = sum(sum(counts.values()) for counts in over_long.values())
    return Record(
        id=table.id,
        context=context,
        label_names=tuple(table.label_names),
        rows={name: len(block.row_ids) for name, block in table.blocks.items()},
        classes=tuple(np.bincount(gold, minlength=len(table.label_names)).tolist()),
        methods=methods,
        right=right,
        skipped=skipped,
        over_long=over_long,
        unreadable=unreadable,
        bias={name: _floats(measured.bias[name][i]) for name in methods if name in measured.bias},
        floor=floor,
        notes=(
            *length_limit.shortening_notes(
                context.options.get("over_long"), context.shots, shortened
            ),
            *notes,
        ),
        strength=strength,
        curve=curve,
        order_flips=_numbers(order_flips(table)),
    )


def _numbers(estimate: Estimate | None) -> tuple[float, ...]:
    """A share and the ends of its interval, none of none."""
    return () if estimate is None else (estimate.value, estimate.low, estimate.high)


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
