"""Scores one context: what its table lacks is asked of the model, and the table is kept."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.inputs import joined
from batch_calibration.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.scores import Block, ScoreTable, context_id, digest, make_block
from batch_calibration.scoring import LabelScores, NothingFinished, Scorer
from batch_calibration.store import Store
from batch_calibration.store.claims import Claim
from batch_calibration.store.journal import BlockPlan, Journal

UNREADABLE = "unreadable"
"""What a block's spec calls the number of its inputs that have no scores: images that could not be
read, answers without a label."""


def name_of(context: RenderedContext) -> str:
    """A context in a few words, for people who wait."""
    about = context.context
    options = about.get("options")
    varied = options.items() if isinstance(options, dict) else ()
    name = ", ".join(f"{key} {value}" for key, value in varied if key != "over_long")
    return f"{about['task']}, seed {about['seed']}, {name or str(about['shots']) + ' shots'}"


def describe(context: RenderedContext, scorer: Scorer, model: str) -> dict[str, Json]:
    """The context's description: everything that decides its numbers, and the model's name."""
    return {**context.context, "model": model_name(model), "scorer": dict(scorer.identity)}


def model_name(model: str) -> str:
    """What tables call a model: its name, or the last two parts of its folder."""
    # Many checkpoints lie in a folder called "model": the folder above tells them apart.
    folder = bool(model) and model not in CHECKPOINTS and Path(model).is_dir()
    parts = (Path(model).resolve() if folder else Path(model)).parts[-2:]
    return "-".join(part for part in parts if part != "/")


def missing(context: RenderedContext, stored: ScoreTable | None) -> list[str]:
    """The blocks that no stored table holds with these very inputs."""
    have = stored.blocks if stored else {}

    def asked(name: str) -> dict[str, Json]:
        return {key: value for key, value in have[name].spec.items() if key != UNREADABLE}

    return [
        name
        for name, wanted in context.blocks.items()
        if name not in have or asked(name) != wanted.spec
    ]


def score_context(
    context: RenderedContext,
    scorer: Scorer,
    store: Store,
    about: dict[str, Json],
    claim: Claim | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Ask the model for what is not stored yet, store the table, say how many inputs were asked.

    Batches are kept as they come, so that whoever goes on after a stop asks for the others alone.

    Of several processes the first alone reads and writes the store; the others work on their
    share of the rows.

    Args:
        context: what is asked.
        scorer: asks the model.
        store: where the table is kept.
        about: the context's description, of `describe`.
        claim: what keeps other workers from this context.
        progress: called with the rows done so far.

    Raises:
        InputError: rows or labels that cannot be scored.
        ClaimLost: another worker took this one for dead; nothing is written.
    """
    import jax

    from batch_calibration.scoring import sharding

    first, name = jax.process_index() == 0, context_id(about)
    stored = store.get(about) if first else None
    wanted = sharding.agree(list(context.blocks), missing(context, stored))
    parts = [_part(each, context.blocks[each]) for each in wanted]
    size = sum(part.size for part in parts)
    inputs = joined([context.blocks[each].inputs for each in wanted])
    asked = 0

    def keep(table: ScoreTable) -> None:
        if claim:
            claim.check()
        store.put(table)

    if wanted and not first:
        there = _Followed(sharding.broadcast_rows({}, size))
        scorer.score(inputs, context.label_texts, progress=progress, finished=there)
    elif wanted:
        with store.journal(name, parts) as journal:
            sharding.broadcast_rows(_with_failed(journal), size)
            asked = size - len(journal.rows) - len(journal.failed)
            answer = scorer.score(inputs, context.label_texts, progress=progress, finished=journal)
        # Read again: who holds no claim, such as an import, may have written meanwhile.
        blocks = _blocks(context, wanted, answer, store.get(about))
        keep(_relabel(context, ScoreTable(about, context.label_names, blocks)))
    elif stored and (relabeled := _relabel(context, stored)) is not stored:
        keep(relabeled)
    if first:
        store.remove_journal(name, [_part(*each) for each in context.blocks.items()])
    return asked


class _Followed(NothingFinished):
    """What the first of several processes finished, in the others."""

    def __init__(self, rows: Mapping[int, np.ndarray]):
        self.rows = {row: value for row, value in rows.items() if not np.isnan(value).all()}
        self.failed = dict.fromkeys(rows.keys() - self.rows.keys(), "")


def _with_failed(journal: Journal) -> dict[int, np.ndarray]:
    return dict.fromkeys(journal.failed, np.full(1, np.nan, np.float32)) | journal.rows


def _part(name: str, block: RenderedBlock) -> BlockPlan:
    return BlockPlan(name, digest(block.spec), block.size)


def _blocks(
    context: RenderedContext, wanted: Sequence[str], answer: LabelScores, stored: ScoreTable | None
) -> dict[str, Block]:
    """The stored blocks and, of an answer about those that were wanted, theirs."""
    blocks, start = dict(stored.blocks) if stored else {}, 0
    for name in wanted:
        block = _block(context.blocks[name], answer, start)
        start += context.blocks[name].size
        blocks[name] = block
        if not block.row_ids:
            # A probe without scores is as if it were not there.
            del blocks[name]
            if name == "test":
                raise InputError(
                    f"{name_of(context)}: no test row has scores; {answer.failed[start - 1]}"
                )
    return blocks


def _block(asked: RenderedBlock, answer: LabelScores, start: int) -> Block:
    """The part of an answer that begins at `start`, without inputs that could not be read."""
    lost_groups = {(row - start) // asked.together for row in answer.failed}
    kept = [row for row in range(asked.size) if row // asked.together not in lost_groups]
    lost: dict[str, Json] = {UNREADABLE: asked.size - len(kept)} if len(kept) < asked.size else {}
    here = [start + row for row in kept]
    return make_block(
        answer.log_probs[here], [asked.labels[row] for row in kept], answer.tokens[here],
        [asked.row_ids[row] for row in kept], asked.spec | lost,
    )  # fmt: skip


def _relabel(context: RenderedContext, table: ScoreTable) -> ScoreTable:
    """The table with the context's gold labels and row ids; the same object where they agree."""
    blocks = dict(table.blocks)
    for name in context.blocks.keys() & blocks.keys():
        asked = context.blocks[name]
        labels, ids = np.asarray(asked.labels, np.int32), tuple(asked.row_ids)
        if UNREADABLE in blocks[name].spec:
            place = {row: i for i, row in enumerate(ids)}
            labels = labels[[place[row] for row in blocks[name].row_ids]]
            ids = blocks[name].row_ids
        if not np.array_equal(blocks[name].labels, labels) or blocks[name].row_ids != ids:
            blocks[name] = blocks[name]._replace(labels=labels, row_ids=ids)
    changed = any(blocks[name] is not table.blocks[name] for name in blocks)
    return table._replace(blocks=blocks) if changed else table
