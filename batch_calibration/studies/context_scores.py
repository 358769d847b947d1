"""Scores one context: what its table lacks is asked of the model, and the table is kept."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scores import Block, ScoreTable, context_id, digest, make_block
from batch_calibration.scoring import LabelScores, NothingFinished, Scorer
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.inputs import joined
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.studies import Store
from batch_calibration.studies.claims import Claim
from batch_calibration.studies.journal import BlockPlan, Journal

UNREADABLE = "unreadable"
"""The key of a block's spec for the number of inputs without scores: images that could not be
read, answers without a label."""


def name_of(context: RenderedContext) -> str:
    """A context in a few words, for people who wait."""
    settings = context.context
    options = settings.get("options")
    varied = options.items() if isinstance(options, dict) else ()
    name = ", ".join(f"{key} {option}" for key, option in varied if key != "over_long")
    name = name or f"{settings['shots']} shots"
    return f"{settings['task']}, seed {settings['seed']}, {name}"


def identify(context: RenderedContext, scorer: Scorer, model: str) -> dict[str, Json]:
    """The context's description: everything that decides its numbers, and the model's name."""
    return {**context.context, "model": model_name(model), "scorer": dict(scorer.identity)}


def model_name(model: str) -> str:
    """The name of a model in tables: its own, of a file, or the last two parts of its folder."""
    if model.endswith(".gguf"):
        return Path(model).stem
    # Many checkpoints lie in a folder called "model": the folder above tells them apart.
    is_folder = bool(model) and model not in CHECKPOINTS and Path(model).is_dir()
    path = Path(model).resolve() if is_folder else Path(model)
    # an absolute path begins with "/"
    return "-".join(name for name in path.parts[-2:] if name != "/")


def missing(context: RenderedContext, stored: ScoreTable | None) -> list[str]:
    """The blocks that no stored table holds with these very inputs."""
    names = []
    for name, block in context.blocks.items():
        spec = dict(stored.blocks[name].spec) if stored and name in stored.blocks else None
        if spec is not None:
            spec.pop(UNREADABLE, None)  # an outcome, not what was asked
        if spec != block.spec:
            names.append(name)
    return names


def score_context(
    context: RenderedContext,
    scorer: Scorer,
    store: Store,
    description: dict[str, Json],
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
        description: of the context, as `identify` gives it.
        claim: what keeps other workers from this context.
        progress: called with the rows done so far.

    Raises:
        InputError: rows or labels that cannot be scored.
        ClaimLost: another worker took this one for dead; nothing is written.
    """
    import jax

    from batch_calibration.scoring.engine import sharding

    is_first = jax.process_index() == 0
    table_id = context_id(description)
    stored = store.get(description) if is_first else None
    # Only the first reads the store, and all must score the same blocks.
    names = sharding.agree(list(context.blocks), missing(context, stored))
    plans = {}
    for name, block in context.blocks.items():
        plans[name] = BlockPlan(name, digest(block.spec), block.size)
    size = sum(plans[name].size for name in names)
    inputs = joined([context.blocks[name].inputs for name in names])
    asked_count = 0

    def keep(table: ScoreTable) -> None:
        if claim:
            claim.check()
        store.put(table)

    if names and not is_first:
        finished = _Followed(sharding.broadcast_rows({}, size))
        scorer.score(inputs, context.label_texts, progress=progress, finished=finished)
    elif names:
        with store.journal(table_id, [plans[name] for name in names]) as journal:
            sharding.broadcast_rows(_with_failed(journal), size)
            asked_count = size - len(journal.rows) - len(journal.failed)
            answer = scorer.score(inputs, context.label_texts, progress=progress, finished=journal)
        # Read again: who holds no claim, such as an import, may have written meanwhile.
        blocks = _add_blocks(context, names, answer, store.get(description))
        keep(_relabel(context, ScoreTable(description, context.label_names, blocks)))
    elif stored and (relabeled := _relabel(context, stored)) is not stored:
        keep(relabeled)
    if is_first:
        store.remove_journal(table_id, list(plans.values()))
    return asked_count


class _Followed(NothingFinished):
    """Rows that the first of several processes finished, in the others."""

    def __init__(self, rows: Mapping[int, np.ndarray]):
        # Rows that failed came as NaN, see `_with_failed`.
        self.rows = {row: scores for row, scores in rows.items() if not np.isnan(scores).all()}
        self.failed = dict.fromkeys(rows.keys() - self.rows.keys(), "")


def _with_failed(journal: Journal) -> dict[int, np.ndarray]:
    """The finished rows of a journal, failed ones as NaN: arrays alone can be sent."""
    return dict.fromkeys(journal.failed, np.full(1, np.nan, np.float32)) | journal.rows


def _add_blocks(
    context: RenderedContext, names: Sequence[str], answer: LabelScores, stored: ScoreTable | None
) -> dict[str, Block]:
    """The stored blocks, and the blocks of these names from an answer about them."""
    blocks, start = dict(stored.blocks) if stored else {}, 0
    for name in names:
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


def _block(rendered: RenderedBlock, answer: LabelScores, start: int) -> Block:
    """The part of an answer that begins at `start`, without inputs that could not be read."""
    # Rows that belong together, such as the permutations of one question, are lost together.
    failed = np.array([*answer.failed], int) - start
    numbers = np.arange(rendered.size)
    is_kept = ~np.isin(numbers // rendered.together, failed // rendered.together)
    rows = numbers[is_kept]
    spec = dict(rendered.spec)
    if len(rows) < rendered.size:
        spec[UNREADABLE] = rendered.size - len(rows)
    labels, row_ids = compress(rendered.labels, is_kept), compress(rendered.row_ids, is_kept)
    log_probs, tokens = answer.log_probs[start + rows], answer.tokens[start + rows]
    return make_block(log_probs, list(labels), tokens, list(row_ids), spec)


def _relabel(context: RenderedContext, table: ScoreTable) -> ScoreTable:
    """The table with the context's gold labels and row ids; the same object where they agree."""
    blocks = dict(table.blocks)
    for name in context.blocks.keys() & blocks.keys():
        rendered = context.blocks[name]
        labels, ids = np.asarray(rendered.labels, np.int32), tuple(rendered.row_ids)
        # The stored block lacks rows that could not be read.
        if UNREADABLE in blocks[name].spec:
            positions = {row_id: i for i, row_id in enumerate(ids)}
            labels = labels[[positions[row_id] for row_id in blocks[name].row_ids]]
            ids = blocks[name].row_ids
        if not np.array_equal(blocks[name].labels, labels) or blocks[name].row_ids != ids:
            blocks[name] = blocks[name]._replace(labels=labels, row_ids=ids)
    changed = any(blocks[name] is not table.blocks[name] for name in blocks)
    return table._replace(blocks=blocks) if changed else table
