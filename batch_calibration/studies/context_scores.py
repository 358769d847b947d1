"""Plans the contexts of a run, and scores the blocks that a context's stored table lacks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from batch_calibration.studies.journal import BlockPlan
from batch_calibration.studies.progress import Planned

if TYPE_CHECKING:
    from batch_calibration.scoring.engine.token_budget import TokenBudget

SAMPLED_PROMPTS = 4
"""The number of prompts of a block that the estimate of its tokens is based on."""

UNREADABLE = "unreadable"
"""Key in a block's spec: the number of inputs without scores, which are images that cannot be read
or answers without a label."""


class Context(NamedTuple):
    """A context of a run, and its unfinished work when the run was planned.

    Attributes:
        place: index in the plan.
        planned: id, name and rows of each block, as the workdir stores them.
        rendered: prompts or images of the context.
        description: all settings that determine the scores, from `identify`.
        missing: names of the blocks without stored scores.
        tokens: estimated number of tokens that the model runs for these blocks; 0 without a token
            budget.
    """

    place: int
    planned: Planned
    rendered: RenderedContext
    description: dict[str, Json]
    missing: list[str]
    tokens: float

    @property
    def id(self) -> str:
        """The id of the context's score table."""
        return self.planned.id

    @property
    def to_ask(self) -> int:
        """The number of rows in the missing blocks."""
        return sum(self.rendered.blocks[name].size for name in self.missing)


def plan(
    rendered: Sequence[RenderedContext],
    scorer: Scorer,
    model: str,
    store: Store,
    budget: "TokenBudget | None" = None,
) -> list[Context]:
    """Plans the contexts of a run: determines ids, missing blocks and numbers of tokens.

    Args:
        rendered: the contexts.
        scorer: asks the model.
        model: name or folder of the model.
        store: holds the score tables.
        budget: counts tokens; None skips the estimate.
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
    """Estimates the number of tokens that a model runs for blocks, from their first prompts."""
    tokens = 0.0
    if budget is None:
        return tokens
    for block in blocks:
        if not isinstance(block.inputs, ImageInputs):
            sample = list(block.inputs[:SAMPLED_PROMPTS])
            # The model runs the common prefix of all prompts once.
            shared = len(commonprefix(sample)) / max(1, *map(len, sample))  # noqa: RUF071
            length = sum(budget.token_counts(sample)) / max(len(sample), 1)
            tokens += length * (shared + (1 - shared) * block.size)
    return tokens


def name_of(context: RenderedContext) -> str:
    """Returns a short, readable name of a context."""
    settings = context.context
    options = settings.get("options")
    varied = options.items() if isinstance(options, dict) else ()
    names = [str(settings["task"])]
    if "shots" in settings:  # else the prompts are a user's own
        names.append(f"seed {settings['seed']}, {settings['shots']} shots")
    return ", ".join([*names, *(f"{key} {option}" for key, option in varied if key != "over_long")])


def identify(context: RenderedContext, scorer: Scorer, model: str) -> dict[str, Json]:
    """Returns the context's description: all settings that determine its scores."""
    return {**context.context, "model": model_name(model), "scorer": dict(scorer.identity)}


def model_name(model: str) -> str:
    """Returns a model's name in tables: a file's name, or the last two parts of a folder's path."""
    if model.endswith(".gguf"):
        return Path(model).stem
    # Many checkpoints are in a folder called "model"; the parent folder distinguishes them.
    is_folder = bool(model) and model not in CHECKPOINTS and Path(model).is_dir()
    path = Path(model).resolve() if is_folder else Path(model)
    # The first part of an absolute path is "/".
    return "-".join(name for name in path.parts[-2:] if name != "/")


def missing(
    context: RenderedContext, stored: ScoreTable | None, *, with_unreadable: bool = False
) -> list[str]:
    """Returns the names of the blocks that the stored table lacks or holds with other inputs.

    With `with_unreadable`, blocks that lack the scores of some inputs are among them.
    """
    names = []
    for name, block in context.blocks.items():
        spec = dict(stored.blocks[name].spec) if stored and name in stored.blocks else None
        if spec is not None and not with_unreadable:
            spec.pop(UNREADABLE, None)  # an outcome of scoring, not a property of the inputs
        if spec != block.spec:
            names.append(name)
    return names


def is_complete(planned: Context, store: Store) -> bool:
    """Checks whether a context is stored as planned, and no worker holds it or left files of it."""
    with suppress(InputError):  # `score_context` raises it again, and the run notes a failure
        stored = store.get(planned.description)
        if stored and not store.has_work(planned.id) and not missing(planned.rendered, stored):
            return _relabel(planned.rendered, stored) is stored
    return False


def score_context(
    planned: Context,
    scorer: Scorer,
    store: Store,
    claim: Claim | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    with_unreadable: bool = False,
) -> int:
    """Scores the blocks of a context that are not stored yet, and stores the table.

    A journal keeps each finished batch, so that a run after a stop scores only the remaining rows.

    If several processes score together, only the first reads and writes the store; the others
    score their share of the rows.

    Args:
        planned: the context.
        scorer: asks the model.
        store: holds the score tables.
        claim: keeps other workers from this context.
        progress: called with the number of finished rows.
        with_unreadable: whether blocks are scored again that lack the scores of some inputs.

    Returns:
        The number of rows that the model was asked about.

    Raises:
        InputError: rows or labels that cannot be scored.
        ClaimLost: another worker took the context over; nothing is written.
    """
    import jax

    from batch_calibration.scoring.engine import sharding

    context, description, table_id = planned.rendered, planned.description, planned.id
    is_first = jax.process_index() == 0
    stored = store.get(description) if is_first else None
    # Checked again under the claim, because another worker may have finished blocks since planning.
    # Only the first process reads the store, but all processes must score the same blocks.
    lacking = missing(context, stored, with_unreadable=with_unreadable)
    names = sharding.agree(list(context.blocks), lacking)
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
            # Only arrays can be sent, so failed rows have NaN.
            failed = dict.fromkeys(journal.failed, np.full(1, np.nan, np.float32))
            sharding.broadcast_rows(failed | journal.rows, size)
            asked_count = size - len(journal.rows) - len(journal.failed)
            answer = scorer.score(inputs, context.label_texts, progress=progress, finished=journal)
        # Read again, because an import needs no claim and may have written meanwhile.
        blocks = _add_blocks(context, names, answer, store.get(description))
        keep(_relabel(context, ScoreTable(description, context.label_names, blocks)))
    elif stored and (relabeled := _relabel(context, stored)) is not stored:
        keep(relabeled)
    if is_first:
        store.remove_journal(table_id, list(plans.values()))
    return asked_count


class _Followed(NothingFinished):
    """Finished rows that the first process sent to the other processes."""

    def __init__(self, rows: Mapping[int, np.ndarray]):
        # `score_context` marks failed rows with NaN.
        self.rows = {row: scores for row, scores in rows.items() if not np.isnan(scores).all()}
        self.failed = dict.fromkeys(rows.keys() - self.rows.keys(), "")


def _add_blocks(
    context: RenderedContext, names: Sequence[str], answer: LabelScores, stored: ScoreTable | None
) -> dict[str, Block]:
    """Returns the stored blocks and, from an answer, the blocks with these names."""
    blocks, start = dict(stored.blocks) if stored else {}, 0
    for name in names:
        block = _block(context.blocks[name], answer, start)
        start += context.blocks[name].size
        blocks[name] = block
        if not block.row_ids:
            # A probe without any scores is left out.
            del blocks[name]
            if name == "test":
                raise InputError(
                    f"{name_of(context)}: no test row has scores; {answer.failed[start - 1]}"
                )
    return blocks


def _block(rendered: RenderedBlock, answer: LabelScores, start: int) -> Block:
    """Returns the block of an answer that begins at row `start`, without unreadable inputs."""
    # If one row of a group fails, for instance one permutation of a question, the group is dropped.
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
    """Returns the table with the context's gold labels and ids; the same object if they agree."""
    blocks = dict(table.blocks)
    for name in context.blocks.keys() & blocks.keys():
        rendered = context.blocks[name]
        labels, ids = np.asarray(rendered.labels, np.int32), tuple(rendered.row_ids)
        # The stored block lacks the rows that could not be read.
        if UNREADABLE in blocks[name].spec:
            positions = {row_id: i for i, row_id in enumerate(ids)}
            labels = labels[[positions[row_id] for row_id in blocks[name].row_ids]]
            ids = blocks[name].row_ids
        if not np.array_equal(blocks[name].labels, labels) or blocks[name].row_ids != ids:
            blocks[name] = blocks[name]._replace(labels=labels, row_ids=ids)
    changed = any(blocks[name] is not table.blocks[name] for name in blocks)
    return table._replace(blocks=blocks) if changed else table
