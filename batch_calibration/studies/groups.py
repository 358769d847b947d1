"""Score tables of like shape, padded so that they share compiled programs; what each rules out."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.methods import METHODS, Evidence, Options, find_unusable, no_log_probs
from batch_calibration.scores import Block, ScoreTable

MAX_PADDING_COST = 320_000
"""Rows of padding that a group may have, times the square of its labels: a program takes about four
seconds to compile, and PC 0.011 to 0.015 ms for a row and each pair of labels (1,000 drawn rows of
2 to 12 labels; the program of this trial was not kept)."""
Shape = tuple[int, tuple[tuple[str, int], ...], int]
"""Labels, the aligned blocks with their rows for each test row, and the bits of the row count."""


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


def make_groups(
    tables: Sequence[ScoreTable],
    skipped: Sequence[Mapping[str, str]],
    names: Sequence[str],
    floor: float | None,
) -> list[Group]:
    """Tables that share shapes once padded: as many labels, and few rows of padding.

    Args:
        tables: with a block "test".
        skipped: of each table, the methods that it rules out.
        names: methods, in order.
        floor: scores below it are raised to it; None leaves them.
    """
    aligned_blocks = set[str]()
    for name in names:
        if METHODS[name].probe.row_counts(1, 2):
            aligned_blocks.update(METHODS[name].probe.blocks)
    by_shape: dict[Shape, list[tuple[int, ScoreTable]]] = {}
    for position, table in enumerate(tables):
        rows, labels = table.blocks["test"].log_probs.shape
        # Such a block has so many rows for each test row, or one for all: in a group all agree.
        aligned = []
        for name in sorted(aligned_blocks & set(table.blocks)):
            per_row, remainder = divmod(len(table.blocks[name].row_ids), rows)
            if not remainder:
                aligned.append((name, per_row))
        shape = (labels, tuple(aligned), (rows - 1).bit_length())
        by_shape.setdefault(shape, []).append((position, table))
    groups = []
    for members in _merge_small(by_shape):
        skipped_by_all = set.intersection(*(set(skipped[position]) for position, _ in members))
        methods = [name for name in names if name not in skipped_by_all]
        blocks: dict[str, Evidence] = {}
        for block_names in (("test",), *(METHODS[name].probe.blocks for name in methods)):
            for block_name in block_names:
                if block_name not in blocks:
                    stored = [table.blocks.get(block_name) for _, table in members]
                    blocks[block_name] = _pad(stored, floor)
        groups.append(Group(members, blocks, methods))
    # The longest to compute first.
    return sorted(groups, key=lambda group: -group.blocks["test"].log_probs.shape[-1])


def _merge_small(
    by_shape: Mapping[Shape, list[tuple[int, ScoreTable]]],
) -> list[list[tuple[int, ScoreTable]]]:
    """The tables of each group; few rows of padding are computed sooner than a program compiled."""
    merged: list[list[tuple[int, ScoreTable]]] = []
    kind, longest, padding = None, 0, 0
    # Of each kind the longest tables first, which the shorter ones are padded to.
    for labels, aligned, bits in sorted(by_shape, key=lambda s: (s[0], s[1], -s[2])):
        members = by_shape[labels, aligned, bits]
        counts = [len(table.blocks["test"].row_ids) for _, table in members]
        added = sum(longest - count for count in counts)
        cost = (padding + added) * labels**2
        if kind == (labels, aligned) and cost <= MAX_PADDING_COST:
            merged[-1] += members
            padding += added
        else:
            merged.append(list(members))
            kind, longest, padding = (labels, aligned), max(counts), 0
    return merged


def _pad(blocks: Sequence[Block | None], floor: float | None) -> Evidence:
    """One block of several contexts, each padded to the longest by rows of weight 0.

    A context without the block is all padding.
    """
    shapes = [block.log_probs.shape for block in blocks if block is not None]
    rows, labels = max(rows for rows, _ in shapes), shapes[0][1]
    log_probs = np.zeros((len(blocks), rows, labels), np.float32)  # [c m k]
    gold = np.full((len(blocks), rows), -1, np.int32)
    weight = np.zeros((len(blocks), rows), np.float32)
    for i, block in enumerate(blocks):
        if block is not None:
            n = len(block.log_probs)
            log_probs[i, :n], gold[i, :n], weight[i, :n] = block.log_probs, block.labels, 1.0
    if floor is not None:
        log_probs = np.maximum(log_probs, np.float32(floor))
    # No weight where nothing is padded: the compiler then knows it.
    return Evidence(log_probs, gold, None if weight.all() else weight)


def find_skipped(
    table: ScoreTable, methods: Sequence[str], options: Mapping[str, Options] | None = None
) -> dict[str, str]:
    """Those of `methods` that the table's blocks, labels or kind of scores rule out: name -> why.

    Options of a method may make it need what it does not by default.

    >>> from batch_calibration.scores import make_block
    >>> table = ScoreTable({}, ("no", "yes"), {"test": make_block([[-1.0, -3.0]])})
    >>> find_skipped(table, ["cc", "bc"])
    {'cc': "no block 'cc' in the table"}
    """
    rows = {name: len(block.row_ids) for name, block in table.blocks.items()}
    unlabeled = [name for name, block in table.blocks.items() if (block.labels < 0).all()]
    reasons = find_unusable(
        methods, len(table.label_names), rows, no_level=_why_no_log_probs(table),
        unlabeled=unlabeled, options=options,
    )  # fmt: skip
    # Of three options or more, two orders do not bring each option into each place.
    if "pride" in methods and len(table.label_names) > 2 and _has_two_orders(table):
        reasons["pride"] = "its questions have two orders (option_orders), and it reads all of them"
    return reasons


def _has_two_orders(table: ScoreTable) -> bool:
    """Whether the options of its permuted questions stand in two orders."""
    block = table.blocks.get("permutations")
    options = block.spec.get("options") if block is not None else None
    return isinstance(options, dict) and options.get("option_orders") == "two"


def _why_no_log_probs(table: ScoreTable) -> str:
    """Why the scores are no log-probabilities, "" where they are: as their scorer says.

    The values of a table that names no scorer of ours are looked at.
    """
    # Here: who only calibrates loads nothing of what scores.
    from batch_calibration.scoring.table import SCORERS

    scorer = table.context.get("scorer")
    identity = scorer if isinstance(scorer, Mapping) else {"kind": scorer}
    if identity.get("logits_only"):
        return "these are logits without the softmax's denominator (logits_only)"
    facts = SCORERS.get(str(identity.get("kind")))
    if facts is not None and facts.why_no_log_probs is not None:
        return facts.why_no_log_probs
    reasons = (no_log_probs(block.log_probs) for block in table.blocks.values())
    return next(filter(None, reasons), "")
