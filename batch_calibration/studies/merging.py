"""Merges workdirs: the score tables of several folders in one, every block kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.studies import runs
from batch_calibration.studies.store import Store

TOLERANCE = 1e-3
"""Nats by which two scores of one label may differ: rounding on another device is some 1e-5."""


class MergeReport(NamedTuple):
    """The outcome of a merge.

    Attributes:
        added: contexts that the workdir lacked.
        widened: contexts of its own that were given blocks.
        unchanged: contexts that it had whole.
        left_out: sentences on score tables that were left out: of files that cannot be read, and
            of contexts that a worker scores at the moment.
    """

    added: int
    widened: int
    unchanged: int
    left_out: tuple[str, ...]


def merge_workdirs(
    sources: Sequence[str | Path], workdir: str | Path, *, tolerance: float = TOLERANCE
) -> MergeReport:
    """Copy the score tables of some workdirs into another; the sources stay as they are.

    A context has the blocks of all folders. Where two hold one block, their scores must be the
    same but for rounding; the workdir's own are kept, or the first source's. Merged twice,
    nothing changes. Their runs are listed, too; unfinished contexts stay where they
    are. Records are derived: `calibrate_study` makes the records of what was added.

    Args:
        sources: workdirs to read.
        workdir: where their tables go; made where there is none.
        tolerance: nats by which two scores of one label may differ. Raise it for scores that were
            computed in bfloat16 on unlike devices.

    Raises:
        InputError: a source that is no workdir; a file of the workdir's that cannot be read; two
            folders that contradict each other. Nothing is written then.
    """
    target, stores = Store(workdir, create=True), [Store(source) for source in sources]
    tables = dict[str, ScoreTable]()  # what each context holds now
    origins = dict[str, dict[str, Path]]()  # the folder that each of its blocks comes from
    seen, contradictions, left_out = set[str](), list[str](), list[str]()
    for store in (target, *stores):
        stored, broken = store.tables()
        # What an unreadable table of the workdir held is not known: it could not be kept.
        if broken and store is target:
            raise InputError(" ".join(broken))
        left_out += broken
        for table in stored:
            own, origin = tables.get(table.id, table), origins.setdefault(table.id, {})
            contradictions += _contradictions(own, origin, table, store.workdir, tolerance)
            # Earlier ones win.
            tables[table.id] = own._replace(blocks={**table.blocks, **own.blocks})
            origins[table.id] = dict.fromkeys(table.blocks, store.workdir) | origin
            if store is not target:
                seen.add(table.id)
    # Nothing was written so far: a merge is done as a whole, or not begun.
    if contradictions:
        more = f" (and {len(contradictions) - 3} more)" if len(contradictions) > 3 else ""
        raise InputError(
            f"{'; '.join(contradictions[:3])}{more}. Nothing was merged: keep these workdirs "
            "apart, or delete the score tables that are out of date."
        )
    changed = {name for name in seen if set(origins[name].values()) != {target.workdir}}
    for store in stores:
        runs.copy_runs(store.workdir, target.workdir)
    busy = {name for name in sorted(changed) if not _put(target, tables[name])}
    if busy:
        left_out.append(
            f"workdir {target.workdir}: {len(busy)} contexts are being scored there; merge again "
            "when they are done."
        )
    added = {name for name in changed - busy if target.workdir not in origins[name].values()}
    widened = len(changed - busy - added)
    return MergeReport(len(added), widened, len(seen - changed), tuple(left_out))


def _put(target: Store, table: ScoreTable) -> bool:
    """Write a table, unless a worker scores its context now; blocks it wrote meanwhile are kept."""
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
    """Part of a sentence on each block that two folders hold and that differs."""
    sentences = []
    for name in table.blocks.keys() & origin.keys():
        difference = "other names of labels"
        if table.label_names == own.label_names:
            difference = _difference(own.blocks[name], table.blocks[name], tolerance)
        if difference:
            where = f"{table.id}.safetensors, block {name!r}"
            sentences.append(f"{where}: {folder} has {difference} than {origin[name]}")
    return sentences


def _difference(own: Block, block: Block, tolerance: float) -> str:
    """The difference of two blocks of one name, empty where it is nothing but rounding."""
    if own.spec != block.spec:
        return "other inputs or settings"
    for field in ("row_ids", "labels", "tokens"):
        if not np.array_equal(getattr(own, field), getattr(block, field)):
            return f"other {field}"
    with np.errstate(invalid="ignore"):
        distance = np.abs(own.log_probs - block.log_probs)  # [n k], nats
    # Minus infinity is the same as itself; its distance is NaN.
    distance = np.where(own.log_probs == block.log_probs, 0.0, distance)
    if distance.max() <= tolerance:
        return ""
    row, label = np.unravel_index(distance.argmax(), distance.shape)
    scores = f"{block.log_probs[row, label]:.6g} and not {own.log_probs[row, label]:.6g}"
    return f"other scores (of row {own.row_ids[row]} {scores} nats)"
