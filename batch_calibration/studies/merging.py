"""Merges workdirs: copies the score tables of several folders into one and keeps every block."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.studies import runs
from batch_calibration.studies.store import Store

TOLERANCE = 1e-3
"""Tolerance for two scores of one label, in nats; rounding on other devices causes about 1e-5."""


class MergeReport(NamedTuple):
    """The outcome of a merge.

    Attributes:
        added: number of contexts that the workdir lacked.
        widened: number of contexts in the workdir that got further blocks.
        unchanged: number of contexts that the workdir already held with all blocks.
        left_out: messages on score tables that were left out, either because the file cannot be
            read or because a worker is scoring the context.
    """

    added: int
    widened: int
    unchanged: int
    left_out: tuple[str, ...]


def merge_workdirs(
    sources: Sequence[str | Path], workdir: str | Path, *, tolerance: float = TOLERANCE
) -> MergeReport:
    """Copies the score tables of some workdirs into another; the sources stay unchanged.

    A merged context has the blocks of all folders. If two folders hold the same block, its scores
    must be equal within the tolerance; the merge keeps the workdir's scores, or else the first
    source's. A second merge changes nothing. The merge also copies the list of runs, but not
    unfinished contexts or records; `calibrate_study` makes records of the added tables.

    Args:
        sources: workdirs to read.
        workdir: the folder to merge into; created if it is missing.
        tolerance: largest difference of two scores of one label, in nats. Increase it for scores
            that were computed in bfloat16 on different devices.

    Raises:
        InputError: a source that is not a workdir; an unreadable file in the workdir; two folders
            that contradict each other. Nothing is written in these cases.
    """
    target, stores = Store(workdir, create=True), [Store(source) for source in sources]
    tables = dict[str, ScoreTable]()  # context id -> its merged table
    origins = dict[str, dict[str, Path]]()  # context id -> block -> the folder that it comes from
    seen, contradictions, left_out = set[str](), list[str](), list[str]()
    for store in (target, *stores):
        stored, broken = store.tables()
        # A merge would overwrite the unknown blocks of an unreadable table in the workdir.
        if broken and store is target:
            raise InputError(" ".join(broken))
        left_out += broken
        for table in stored:
            own, origin = tables.get(table.id, table), origins.setdefault(table.id, {})
            contradictions += _contradictions(own, origin, table, store.workdir, tolerance)
            # Blocks of earlier folders take precedence.
            tables[table.id] = own._replace(blocks={**table.blocks, **own.blocks})
            origins[table.id] = dict.fromkeys(table.blocks, store.workdir) | origin
            if store is not target:
                seen.add(table.id)
    # Contradictions raise before anything is written, so that no merge stops halfway.
    if contradictions:
        more = f" (and {len(contradictions) - 3} more)" if len(contradictions) > 3 else ""
        raise InputError(
            f"{'; '.join(contradictions[:3])}{more}. Nothing was merged: keep these workdirs "
            "separate, or delete the outdated score tables."
        )
    changed = {name for name in seen if set(origins[name].values()) != {target.workdir}}
    for store in stores:
        runs.copy_runs(store.workdir, target.workdir)
    busy = {name for name in sorted(changed) if not _put(target, tables[name])}
    if busy:
        left_out.append(
            f"workdir {target.workdir}: {len(busy)} contexts are being scored there; merge again "
            "when they are finished."
        )
    added = {name for name in changed - busy if target.workdir not in origins[name].values()}
    widened = len(changed - busy - added)
    return MergeReport(len(added), widened, len(seen - changed), tuple(left_out))


def _put(target: Store, table: ScoreTable) -> bool:
    """Writes a table and keeps blocks written meanwhile; returns False if a worker scores it."""
    claim = target.claims.take(table.id, "merging")
    if claim is None:
        return False
    with claim:
        stored = target.get(table.context)
        blocks = {**table.blocks, **stored.blocks} if stored else table.blocks
        target.put(table._replace(blocks=blocks))
    return True


def _contradictions(
    own: ScoreTable, origin: dict[str, Path], table: ScoreTable, folder: Path, tolerance: float
) -> list[str]:
    """Describes each block that differs between two folders."""
    sentences = []
    for name in table.blocks.keys() & origin.keys():
        difference = "other label names"
        if table.label_names == own.label_names:
            difference = _difference(own.blocks[name], table.blocks[name], tolerance)
        if difference:
            where = f"{table.id}.safetensors, block {name!r}"
            sentences.append(f"{where}: {folder} has {difference} than {origin[name]}")
    return sentences


def _difference(own: Block, block: Block, tolerance: float) -> str:
    """Describes the difference of two blocks; empty if they are equal within the tolerance."""
    if own.spec != block.spec:
        return "other inputs or settings"
    for field in ("row_ids", "labels", "tokens"):
        if not np.array_equal(getattr(own, field), getattr(block, field)):
            return f"other {field}"
    with np.errstate(invalid="ignore"):
        distance = np.abs(own.log_probs - block.log_probs)  # [n k], nats
    # Two scores of minus infinity are equal, but their difference is NaN.
    distance = np.where(own.log_probs == block.log_probs, 0.0, distance)
    if distance.max() <= tolerance:
        return ""
    row, label = np.unravel_index(distance.argmax(), distance.shape)
    scores = f"{block.log_probs[row, label]:.6g} instead of {own.log_probs[row, label]:.6g}"
    return f"other scores (row {own.row_ids[row]}: {scores} nats)"
