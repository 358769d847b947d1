"""Files that are parts (shards) of one data set, joined before anything is learned of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.importers.base import Imported
from batch_calibration.importers.cells import choose_labels, renumber_labels


def join_shards(shards: Sequence[Imported]) -> Imported:
    """The rows of all shards one after the other, numbered through."""
    first = shards[0]
    shards = [_order_labels(shard, first) for shard in shards]
    context = dict(first.about)
    for shard in shards:
        context = {key: fact for key, fact in context.items() if shard.about.get(key) == fact}
    # Of files that are called by their own names the folder is what they share.
    context.setdefault("task", Path(first.where).resolve().parent.name)
    file_rows, row_ids, rows_before = list[np.ndarray](), list[str](), 0
    columns: dict[str, list[str]] = {name: [] for name in first.columns}
    notes: dict[str, None] = {}  # what several shards say is said once
    for shard in shards:
        n = len(shard.log_probs)
        rows = np.arange(n) if shard.file_rows is None else shard.file_rows
        file_rows.append(rows_before + rows)
        row_ids += shard.row_ids or ()
        rows_before += n
        for name, cells in columns.items():
            cells += shard.columns[name]
        notes |= dict.fromkeys(shard.notes)
    blocks = {}
    for name in first.blocks:
        blocks[name] = np.concatenate([shard.blocks[name] for shard in shards])
    return replace(
        first,
        where=f"{first.where} and {len(shards) - 1} more",
        log_probs=np.concatenate([shard.log_probs for shard in shards]),
        labels=_join([shard.labels for shard in shards]),
        bound=_join([shard.bound for shard in shards]),
        row_ids=tuple(row_ids) or None,
        file_rows=np.concatenate(file_rows),
        about=context,
        columns=columns,
        blocks=blocks,
        notes=tuple(notes),
    )


def _join(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The arrays of all shards, None where they have none: all are read alike."""
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if len(present) == len(arrays) else None


def _order_labels(shard: Imported, first: Imported) -> Imported:
    """A shard with its labels in the order that the first one has."""
    names = shard.label_names
    if names == first.label_names:
        return shard
    if set(names) != set(first.label_names):
        raise InputError(
            where=shard.where,
            expected=f"the labels of {first.where} ({', '.join(first.label_names)})",
            got=", ".join(names),
            remedy="name them with --labels, or leave --shards out",
        )
    _, indices = choose_labels(shard.where, names, first.label_names, are_named=True)
    blocks = {name: scores[:, indices] for name, scores in shard.blocks.items()}
    gold = shard.labels
    if gold is not None:
        gold = renumber_labels(shard.where, gold, names, indices)
    return replace(
        shard, log_probs=shard.log_probs[:, indices], label_names=first.label_names, labels=gold,
        blocks=blocks,
    )  # fmt: skip
