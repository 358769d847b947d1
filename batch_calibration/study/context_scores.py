"""Scores one context: what its table lacks is asked of the model, and the table is kept."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.inputs import joined
from batch_calibration.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.scores import Block, ScoreTable, make_block
from batch_calibration.scoring import LabelScores, Scorer
from batch_calibration.store import Store
from batch_calibration.store.claims import Claim

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
    # Many checkpoints lie in a folder called "model": the folder above tells them apart.
    folder = bool(model) and model not in CHECKPOINTS and Path(model).is_dir()
    parts = (Path(model).resolve() if folder else Path(model)).parts[-2:]
    name = "-".join(part for part in parts if part != "/")
    return {**context.context, "model": name, "scorer": dict(scorer.identity)}


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

    stored = None if jax.process_index() else store.get(about)
    wanted = sharding.agree(list(context.blocks), missing(context, stored))
    inputs = joined([context.blocks[name].inputs for name in wanted])
    size = sum(context.blocks[name].size for name in wanted)
    if jax.process_index():
        if wanted:
            scorer.score(inputs, context.label_texts, progress=progress)
        return size
    if not wanted and stored is not None:
        table = _relabel(context, stored)
        if table is not stored:
            store.put(table)
        return 0
    answer = scorer.score(inputs, context.label_texts, progress=progress)
    blocks: dict[str, Block] = dict(stored.blocks) if stored else {}
    start = 0
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
    if claim:
        claim.check()
    store.put(_relabel(context, ScoreTable(about, context.label_names, blocks)))
    return size


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
