"""Merges workdirs: the score tables of several folders in one, every block kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scores import Block, ScoreTable
from batch_calibration.store import runs
from batch_calibration.store.workdir import Store

TOLERANCE = 1e-3
"""Nats by which two scores of one label may differ: rounding on another device is some 1e-5."""


class MergeReport(NamedTuple):
    """What a merge did.

    Attributes:
        added: contexts that the workdir lacked.
        widened: contexts of its own that were given blocks.
        there: contexts that it had whole.
        left: sentences on score tables that were left out: of files that cannot be read, and of
            contexts that a worker scores at the moment.
    """

    added: int
    widened: int
    there: int
    left: tuple[str, ...]


class _Held(NamedTuple):
    """A table, and the folder that each of its blocks comes from."""

    table: ScoreTable
    origin: dict[str, Path]


def merge_workdirs(
    sources: Sequence[str | Path], workdir: str | Path, *, tolerance: float = TOLERANCE
) -> MergeReport:
    """Bring the score tables of some workdirs into another; the sources stay as they are.

    A context has the blocks of all folders. Where two hold one block, their scores must be the
    same but for rounding; the workdir's own are kept, or those of the first source. Merged twice,
    nothing changes. What was run is told of, too; contexts that are not finished stay where they
    are. Records are derived: `experiments.calibrate` makes those of what was added.

    Args:
        sources: workdirs to read.
        workdir: where their tables go; made where there is none.
        tolerance: nats by which two scores of one label may differ. Raise it for scores that were
            computed in bfloat16 on unlike devices.

    Raises:
        InputError: a source that is no workdir; a file of the workdir's that cannot be read; two
            folders that contradict each other. Nothing is written then.
    """
    stores = [Store(source) for source in sources]
    target = Store(workdir, create=True)
    tables, unread = target.tables()
    if unread:
        raise InputError(" ".join(unread))
    own = {table.id: table for table in tables}
    held = {name: _held(table, target.workdir) for name, table in own.items()}
    seen, wrong, left = set[str](), list[str](), list[str]()
    for store in stores:
        tables, unread = store.tables()
        left += unread
        for table in tables:
            seen.add(table.id)
            if mine := held.get(table.id):
                wrong += _contradictions(mine, table, store.workdir, tolerance)
            held[table.id] = _joined(mine, table, store.workdir)
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        raise InputError(
            f"{'; '.join(wrong[:3])}{more}. Nothing was merged: keep such workdirs apart, or "
            "delete those score tables that are out of date."
        )
    changed = {n for n in seen if n not in own or held[n].origin.keys() != own[n].blocks.keys()}
    for store in stores:
        runs.bring(store.workdir, target.workdir)
    busy = {name for name in sorted(changed) if not _put(target, held[name].table)}
    if busy:
        left.append(
            f"workdir {target.workdir}: {len(busy)} contexts are being scored there; merge again "
            "when they are done."
        )
    widened = len((own.keys() & changed) - busy)
    added = len(changed - own.keys() - busy)
    return MergeReport(added, widened, len(seen - changed), tuple(left))


def _put(target: Store, table: ScoreTable) -> bool:
    """Write a table, unless a worker scores its context now; blocks it wrote meanwhile are kept."""
    claim = target.claims.take(table.id, "merging")
    if claim is None:
        return False
    with claim:
        now = target.get(table.context)
        blocks = {**table.blocks, **now.blocks} if now else table.blocks
        target.put(table._replace(blocks=blocks))
    return True


def _held(table: ScoreTable, folder: Path) -> _Held:
    return _Held(table, dict.fromkeys(table.blocks, folder))


def _joined(held: _Held | None, table: ScoreTable, folder: Path) -> _Held:
    """What is held, with the blocks that the table has beside."""
    if held is None:
        return _held(table, folder)
    blocks = {**table.blocks, **held.table.blocks}
    origin = {name: held.origin.get(name, folder) for name in blocks}
    return _Held(held.table._replace(blocks=blocks), origin)


def _contradictions(held: _Held, table: ScoreTable, folder: Path, tolerance: float) -> list[str]:
    """Part of a sentence on each block that two folders hold and that differs."""
    renamed = table.label_names != held.table.label_names
    return [
        f"{table.id}.safetensors, block {name!r}: {folder} has {what} than {held.origin[name]}"
        for name in table.blocks.keys() & held.table.blocks.keys()
        if (
            what := "other names of labels"
            if renamed
            else _difference(held.table.blocks[name], table.blocks[name], tolerance)
        )
    ]


def _difference(one: Block, other: Block, tolerance: float) -> str:
    """What differs between two blocks of one name, empty where it is nothing but rounding."""
    if one.spec != other.spec:
        return "other inputs or settings"
    for what in ("row_ids", "labels", "tokens"):
        if not np.array_equal(getattr(one, what), getattr(other, what)):
            return f"other {what}"
    with np.errstate(invalid="ignore"):
        far = np.abs(one.log_probs - other.log_probs)
    # Minus infinity is the same as itself.
    far = np.where(one.log_probs == other.log_probs, 0.0, far)
    if far.max() <= tolerance:
        return ""
    row, label = np.unravel_index(far.argmax(), far.shape)
    scores = f"{other.log_probs[row, label]:.6g} and not {one.log_probs[row, label]:.6g}"
    return f"other scores (of row {one.row_ids[row]} {scores} nats)"
