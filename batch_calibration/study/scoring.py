"""Scores the contexts of a study with a model: settings in, stored score tables out."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration import runs
from batch_calibration.data import RowReader, image_splits, load_task
from batch_calibration.data.image_refs import ImageRows
from batch_calibration.embedded import CHECKPOINTS
from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.inputs import joined
from batch_calibration.prompts.render import render
from batch_calibration.prompts.render_images import POOL, render_images
from batch_calibration.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.scores import Block, ScoreTable, context_id, make_block
from batch_calibration.scoring import LabelScores, Scorer
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.settings import Cell, ModelSettings, Settings
from batch_calibration.store import Store
from batch_calibration.study.loading import api_cost, load_scorer, load_token_budget
from batch_calibration.tasks import Task

if TYPE_CHECKING:
    from batch_calibration.scoring.token_budget import TokenBudget

UNREADABLE = "unreadable"
"""What a block's spec calls the number of its inputs that have no scores: images that could not be
read, answers without a label."""


class ScoringProgress(NamedTuple):
    """How far a run is: inputs done of all, those that were stored before among them."""

    context: str
    done: int
    total: int


class ScoringReport(NamedTuple):
    """What a run did.

    Attributes:
        ids: of the score tables of this run's contexts, in the order of its cells.
        inputs: how many all contexts have.
        scored: how many of them a model was asked about; the others were stored.
        seconds: what that took, models loaded and prompts rendered before.
        notes: what the scorer has to say of the run.
    """

    ids: tuple[str, ...]
    inputs: int
    scored: int
    seconds: float
    notes: tuple[str, ...]


def run_scoring(
    settings: Settings,
    cells: Iterable[Cell] | None = None,
    store: Store | str | Path = "runs/study",
    *,
    scorer: Scorer | None = None,
    progress: Callable[[ScoringProgress], None] | None = None,
    notify: Callable[[str], None] | None = None,
) -> ScoringReport:
    """Ask the model about every context that the store does not hold yet, and keep the scores.

    All contexts are rendered before the model is loaded, so a wrong setting is refused at once. A
    run that is stopped goes on where it was; nothing is scored twice.

    Args:
        settings: what all contexts share, and the model.
        cells: the contexts, made by `settings.cell`; None is `settings.grid()`.
        store: a workdir, made where there is none.
        scorer: asks the model; None loads the one that the settings name.
        progress: called with how far the run is.
        notify: called with sentences that a reader of the numbers must know.

    Raises:
        InputError: a setting that does not fit its task, rows or model, with what to do.

    Example:
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        run_scoring(settings, [settings.cell("sst2", shots=k) for k in (0, 1)], "runs/shots")
    """
    store = store if isinstance(store, Store) else Store(store, create=True)
    contexts = render_contexts(settings, cells, notify=notify)
    scorer = load_scorer(settings, store.workdir) if scorer is None else scorer
    run = begin_run(settings, store, len(contexts))
    total, done, scored, began = sum(one.size for one in contexts), 0, 0, time.monotonic()
    if isinstance(scorer, ApiScorer) and notify:
        name = settings.model.model
        stored = (store.get(describe(one, scorer, name)) for one in contexts)
        lacking = [(one, missing(one, had)) for one, had in zip(contexts, stored, strict=True)]
        notify(f"{scorer.settings.server} will be asked {api_cost(lacking, scorer)}")
    ids = []
    for context in contexts:

        def hear(rows: int, name: str = name_of(context), before: int = done) -> None:
            if progress:
                progress(ScoringProgress(name, before + rows, total))

        hear(0)
        scored += score_context(context, scorer, store, settings.model.model, hear)
        done += context.size
        hear(context.size)
        ids.append(context_id(describe(context, scorer, settings.model.model)))
    seconds = time.monotonic() - began
    if run:
        run.end(scored, seconds)
    return ScoringReport(tuple(ids), total, scored, seconds, tuple(scorer.notes))


def begin_run(settings: Settings, store: Store, contexts: int) -> runs.RunFile | None:
    """Keep in the workdir that a run began; of several processes the first alone does."""
    import jax

    usual, api = Settings().flat(), settings.model.scorer == "api"
    config = {key: value for key, value in settings.flat().items() if value != usual[key]}
    if api:
        return runs.begin(store.workdir, config, contexts, f"server {settings.api.server}")
    if jax.process_index():
        return None
    device = f"{jax.device_count()} x {jax.devices()[0].device_kind}"
    return runs.begin(store.workdir, config, contexts, device)


def render_contexts(
    settings: Settings,
    cells: Iterable[Cell] | None = None,
    *,
    notify: Callable[[str], None] | None = None,
) -> list[RenderedContext]:
    """Every context of a study, rendered; each file of rows is read once.

    Raises:
        InputError: as in `run_scoring`; no cells.
    """
    budget, task_of = load_token_budget(settings), cache(load_task)
    reader, contexts, said = RowReader(), [], set[str]()
    dropped, truncated, sizes = Counter[str](), Counter[str](), Counter[str]()
    for cell in settings.grid() if cells is None else cells:
        context = _render(task_of(cell.task), cell, settings.model, reader, budget)
        contexts.append(context)
        for note in (*(budget.notes if budget else ()), *context.notes):
            if notify and note not in said:
                notify(note)
            said.add(note)
        dropped[cell.task] += context.count("dropped")
        truncated[cell.task] += context.count("truncated")
        sizes[cell.task] += context.size
    if not contexts:
        raise InputError(
            "the sweep has no context; give at least one task in config.tasks and config.seeds of "
            "1 or more."
        )
    for task, size in sizes.items():
        if notify and (dropped[task] or truncated[task]):
            notify(
                f"{task}: of {size:,} prompts {dropped[task]:,} lost demonstrations and "
                f"{truncated[task]:,} were cut on the left, to fit the model's positions"
            )
    return contexts


def _render(
    task: Task, cell: Cell, model: ModelSettings, reader: RowReader, budget: "TokenBudget | None"
) -> RenderedContext:
    data = cell.data
    if not task.is_image:
        test = reader.texts(task, data.data, data.split, data.limit)
        train = reader.texts(task, data.data, data.train_split)
        return render(task, cell, test, train, model.scorer, budget, not model.logits_only)
    images = reader.images(task, data.data, data.split, data.limit)
    pool: ImageRows | None = None
    if data.labeled_per_class and data.train_split in image_splits(task, data.data):
        pool = reader.images(task, data.data, data.train_split, POOL)
    return render_images(task, cell, images, pool, model.scorer)


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
    model: str,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Ask the model for what is not stored yet, store the table, say how many inputs were asked.

    Of several processes the first alone reads and writes the store; the others work on their
    share of the rows.
    """
    import jax

    from batch_calibration.scoring import sharding

    about = describe(context, scorer, model)
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
