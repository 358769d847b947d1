"""Plans the contexts of a run, and scores one: the model scores the blocks that a table lacks."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.scores import Block, ScoreTable, context_id, digest, make_block
from batch_calibration.scoring import LabelScores, NothingFinished, Scorer
from batch_calibration.scoring.embedded import CHECKPOINTS
from batch_calibration.scoring.inputs import ImageInputs, joined
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.studies import Store
from batch_calibration.studies.claims import Claim
from batch_calibration.studies.journal import BlockPlan, Journal
from batch_calibration.studies.progress import Planned

if TYPE_CHECKING:
    from batch_calibration.scoring.engine.token_budget import TokenBudget

SAMPLED_PROMPTS = 4
"""Prompts of a block whose tokens are counted for the estimate of all."""

UNREADABLE = "unreadable"
"""The key of a block's spec for the number of inputs without scores: images that could not be
read, answers without a label."""


class Context(NamedTuple):
    """A context of a run, and the work that was left of it when the run was planned.

    Attributes:
        place: its index in the plan.
        planned: its id, its name and the rows of each block, as a workdir keeps them.
        rendered: its inputs.
        description: everything that decides its numbers, as `identify` gives it.
        missing: the names of the blocks that no stored table holds.
        tokens: about how many a model runs for these blocks; 0 without a token budget.
    """

    place: int
    planned: Planned
    rendered: RenderedContext
    description: dict[str, Json]
    missing: list[str]
    tokens: float

    @property
    def id(self) -> str:
        """The id of its score table."""
        return self.planned.id

    @property
    def to_ask(self) -> int:
        """The number of rows of the missing blocks."""
        return sum(self.rendered.blocks[name].size for name in self.missing)


def plan(
    rendered: Sequence[RenderedContext],
    scorer: Scorer,
    model: str,
    store: Store,
    budget: "TokenBudget | None" = None,
) -> list[Context]:
    """Plans the contexts of a run: their ids, the blocks that the store lacks, and the tokens.

    Args:
        rendered: the contexts.
        scorer: asks the model.
        model: its name or folder.
        store: keeps the scores.
        budget: counts tokens; None leaves them out.
    """
    contexts = []
    for place, context in enumerate(rendered):
        description = identify(context, scorer, model)
        names = missing(context, store.get(description))
        sizes = {name: block.size for name, block in context.blocks.items()}
        planned = Planned(context_id(description), name_of(context), sizes)
        tokens = _estimate_tokens([context.blocks[name] for name in names], budget)
        contexts.append(Context(place, planned, context, description, names, tokens))
    return contexts


def _estimate_tokens(blocks: Sequence[RenderedBlock], budget: "TokenBudget | None") -> float:
    """About how many tokens a model runs for these blocks, by their first rows."""
    tokens = 0.0
    if budget is None:
        return tokens
    for block in blocks:
        if not isinstance(block.inputs, ImageInputs):
            sample = list(block.inputs[:SAMPLED_PROMPTS])
            # The common beginning of all prompts is run once.
            shared = len(commonprefix(sample)) / max(1, *map(len, sample))  # noqa: RUF071
            length = sum(budget.token_counts(sample)) / max(len(sample), 1)
            tokens += length * (shared + (1 - shared) * block.size)
    return tokens


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
    planned: Context,
    scorer: Scorer,
    store: Store,
    claim: Claim | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Scores the blocks that are not stored, stores the table, and returns the rows asked about.

    Batches are kept as they come, so that a run after a stop asks for the other rows alone.

    Of several processes the first alone reads and writes the store; the others work on their
    share of the rows.

    Args:
        planned: the context.
        scorer: asks the model.
        store: keeps the table.
        claim: keeps other workers from this context.
        progress: called with the rows done so far.

    Raises:
        InputError: rows or labels that cannot be scored.
        ClaimLost: another worker took this one for dead; nothing is written.
    """
    import jax

    from batch_calibration.scoring.engine import sharding

    context, description, table_id = planned.rendered, planned.description, planned.id
    is_first = jax.process_index() == 0
    stored = store.get(description) if is_first else None
    # Asked again under the claim: another worker may have finished blocks since the plan. Only the
    # first process reads the store, and all must score the same blocks.
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
