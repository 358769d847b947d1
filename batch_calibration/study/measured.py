"""What is found of a group of contexts, and of it the record of each."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from batch_calibration.files import Json
from batch_calibration.methods import METHODS
from batch_calibration.metrics import table as metrics
from batch_calibration.prompts import length_limit
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.store import ContextInfo, Curve, Record, pack


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


def make_record(
    table: ScoreTable, i: int, found: Measured, skipped: Mapping[str, str], floor: float | None
) -> Record:
    """The i-th context of a group as a record."""
    test = table.blocks["test"]
    known = test.labels >= 0
    gold, plain = test.labels[known], test.log_probs[known]
    before = (plain if floor is None else np.maximum(plain, floor)).argmax(axis=-1) == gold
    values, right = {}, {}
    for name in found.metrics.get("accuracy", ()):
        if name not in skipped:
            one = {metric: float(of[name][i]) for metric, of in found.metrics.items()}
            hits = right[name] = np.asarray(found.right[name][i])[: len(known)][known]
            one["accuracy"] = float(hits.mean())  # to the last bit
            # What learns nothing is what the others are compared with.
            learns = bool(METHODS[name].probe.blocks)
            values[name] = metrics.with_intervals(one, hits, before if learns else None)
    curved = next((name for name in found.strength if name not in skipped), None)
    curves = (found.labeled, found.test)
    over_long = {
        name: {what: n for what in ("dropped", "truncated") if (n := _count(block, what))}
        for name, block in table.blocks.items()
    }
    shortened = sum(sum(counts.values()) for counts in over_long.values())
    about = ContextInfo.from_table(table)
    return Record(
        id=table.id,
        context=about,
        label_names=tuple(table.label_names),
        rows={name: len(block.row_ids) for name, block in table.blocks.items()},
        classes=tuple(np.bincount(gold, minlength=len(table.label_names)).tolist()),
        methods={name: values[name] for name in METHODS if name in values},
        right={name: pack(hits) for name, hits in right.items()},
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
        curve=Curve(*(_floats(of[curved][i]) for of in curves)) if curved else None,
    )


def _said(block: Block) -> list[Json]:
    """What the importer of a block says of it, in sentences."""
    said = block.spec.get("notes")
    return said if isinstance(said, list) else []


def _count(block: Block, what: str) -> int:
    """A number that the block's spec holds, 0 where it holds none."""
    count = block.spec.get(what)
    return count if isinstance(count, int) else 0


def _floats(array: jax.Array | np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(array).tolist())
