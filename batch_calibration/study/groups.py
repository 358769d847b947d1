"""Score tables of like shape, padded so that they share compiled programs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.methods import METHODS, Evidence
from batch_calibration.scores import Block, ScoreTable


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
