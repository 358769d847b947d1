"""Scores the contexts of a study with a model and stores the score tables.

Runs on one workdir share the contexts: a run claims a context before scoring it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from batch_calibration.arrays.numbers import usual_jax
from batch_calibration.errors import InputError, spell
from batch_calibration.scores import digest, one_label_notes
from batch_calibration.scoring import Scorer
from batch_calibration.scoring.data.images import image_splits
from batch_calibration.scoring.data.task_file import load_task
from batch_calibration.scoring.data.texts import RowReader
from batch_calibration.scoring.inputs import ImageRows
from batch_calibration.scoring.prompts.render import render
from batch_calibration.scoring.prompts.rendered import POOL, RenderedContext, render_images
from batch_calibration.scoring.table import SCORERS, OpenFiles
from batch_calibration.scoring.tasks import Task
from batch_calibration.scoring.tasks.base import Rows
from batch_calibration.settings import Cell, Settings
from batch_calibration.studies import Store, runs
from batch_calibration.studies.claims import Claim
from batch_calibration.studies.context_scores import Context, plan, score_context
from batch_calibration.studies.loading import api_cost, load_scorer, load_token_budget, open_model
from batch_calibration.studies.queue import Queue

if TYPE_CHECKING:
    from batch_calibration.scoring.api.scorer import ApiScorer
    from batch_calibration.scoring.engine.token_budget import TokenBudget

KEPT_PROMPTS = 10_000
"""The maximum number of prompts per run that stay in memory between rendering and scoring."""


class ScoringProgress(NamedTuple):
    """The progress of a run.

    Attributes:
        context: readable name of the current context.
        done: number of finished inputs, including inputs stored before the run.
        total: number of all inputs.
        asked: number of inputs scored in this run.
        to_ask: number of inputs that were not stored before the run.
        tokens: estimated number of tokens of these inputs; a prefix that all prompts of a block
            share counts once.
        tokens_run: estimated number of these tokens that the model has run.
    """

    context: str
    done: int
    total: int
    asked: int = 0
    to_ask: int = 0
    tokens: int = 0
    tokens_run: int = 0


class ScoringReport(NamedTuple):
    """The outcome of a scoring run.

    Attributes:
        ids: ids of the score tables, in the order of the run's cells.
        inputs: number of inputs of all contexts.
        scored: number of inputs scored in this run; the others were stored before.
        seconds: duration of scoring, without rendering prompts and loading the model.
        notes: notes of the scorer on the run.
    """

    ids: tuple[str, ...]
    inputs: int
    scored: int
    seconds: float
    notes: tuple[str, ...]


@usual_jax
def run_scoring(
    settings: Settings,
    cells: Iterable[Cell] | None = None,
    store: Store | str | Path = "runs/study",
    *,
    scorer: Scorer | None = None,
    progress: Callable[[ScoringProgress], None] | None = None,
    notify: Callable[[str], None] | None = None,
    command: str = "",
) -> ScoringReport:
    """Scores every context that the store does not hold yet, and stores the score tables.

    All contexts are rendered before the model is loaded, so a wrong setting raises at once. A
    stopped run continues where it stopped; nothing is scored twice. Runs on one workdir share the
    contexts, also across machines: one run scores each context, and every run ends when all
    contexts are finished. If a context cannot be scored, the run still scores the others.

    Args:
        settings: the model, and the settings that all contexts share.
        cells: contexts made by `settings.cell`; None takes `settings.grid()`.
        store: a store or a workdir; a missing folder is created.
        scorer: asks the model; None loads the scorer that the settings name.
        progress: called with the progress of the run.
        notify: called with remarks that qualify the numbers, in sentences.
        command: the user's command line, for the workdir's list of runs; "" records only the name
            of the program.

    Raises:
        InputError: a setting that does not fit its task, rows or model; a context that cannot be
            scored.

    Example:
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        run_scoring(settings, [settings.cell("sst2", shots=k) for k in (0, 1)], "runs/shots")
    """
    store = store if isinstance(store, Store) else Store(store, create=True)
    cells = list(settings.grid() if cells is None else cells)
    # A scorer that the caller passes may need no files of the model.
    files = None if scorer else open_model(settings)
    budget = load_token_budget(settings, files) if files else None
    rendered = render_contexts(settings, cells, notify=notify, files=files, budget=budget)
    scorer = load_scorer(settings, store.workdir, files) if scorer is None else scorer
    contexts = plan(rendered, scorer, settings.model.model, store, progress and budget)
    facts = SCORERS.get(str(scorer.identity.get("kind")))
    if notify and facts and facts.asks_server:
        api_scorer = cast("ApiScorer", scorer)
        api_scorer.notify = notify
        cost = api_cost([(context.rendered, context.missing) for context in contexts], api_scorer)
        notify(f"{api_scorer.settings.server} will be asked {cost}")
    # After all checks, so that a run with invalid settings leaves nothing in the workdir.
    run = begin_run(settings, store, len(contexts), command)
    queue = Queue(plan_name(settings, cells), contexts, store, notify)
    total, done, scored = reduce(_Extent.plus, contexts, _Extent()), _Extent(), 0
    began = time.monotonic()
    for context, claim in queue:
        report = partial(_report, progress, claim, context, done, total)
        with queue.attempt(context, claim):
            report(0)
            started = time.monotonic()
            asked = 0
            if context.place not in queue.complete:
                asked = score_context(context, scorer, store, claim, report)
            if claim and asked:
                store.progress.add_scored(asked, time.monotonic() - started)
            report(context.planned.rows)
            scored += asked
            done = done.plus(context)
    seconds = time.monotonic() - began
    if run:
        run.end(scored, seconds)
    if queue.failed:
        names = {context.id: context.planned.name for context in contexts}
        raise InputError(describe_failures(queue.failed, names))
    ids = tuple(context.id for context in contexts)
    return ScoringReport(ids, total.rows, scored, seconds, tuple(scorer.notes))


class _Extent(NamedTuple):
    """Totals of contexts: rows, rows to ask a model about, and estimated tokens of the latter."""

    rows: int = 0
    to_ask: int = 0
    tokens: float = 0.0

    def plus(self, context: Context) -> "_Extent":
        """Returns the extent with one more context."""
        rows, to_ask = self.rows + context.planned.rows, self.to_ask + context.to_ask
        return _Extent(rows, to_ask, self.tokens + context.tokens)


def _report(
    progress: Callable[[ScoringProgress], None] | None,
    claim: Claim | None,
    context: Context,
    before: _Extent,
    total: _Extent,
    rows: int,
) -> None:
    """Reports the progress: the finished rows of a context and the contexts `before` it."""
    if claim:
        claim.rows = rows  # for the claim's heartbeats
    if progress:
        asked = min(rows, context.to_ask)
        tokens = before.tokens + context.tokens * asked / max(context.to_ask, 1)
        counts = before.rows + rows, total.rows, before.to_ask + asked, total.to_ask
        progress(ScoringProgress(context.planned.name, *counts, round(total.tokens), round(tokens)))


def plan_name(settings: Settings, cells: Iterable[Cell]) -> str:
    """Returns the name of a run's plan: a digest of the model's settings, and one of the cells."""
    model = [asdict(settings.model), asdict(settings.api)]
    return f"{digest(model)}-{digest([*map(asdict, cells)])}"


def describe_failures(failed: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Describes the contexts that cannot be scored, and lists each reason once.

    Args:
        failed: id of a context -> the reason.
        names: id of each context of the run -> its name.
    """
    reasons = list(dict.fromkeys(failed.values()))
    few = " ".join(reasons[:3]) + (" ..." if len(reasons) > 3 else "")
    if len(names) == 1:
        return few
    failed_names = [name for id_, name in names.items() if id_ in failed]
    named = "; ".join(failed_names[:3]) + ("; ..." if len(failed_names) > 3 else "")
    hint = "the other scores are stored; reason: " if len(failed) < len(names) else ""
    return f"{len(failed)} of {len(names)} contexts cannot be scored ({named}); {hint}{few}"


def begin_run(
    settings: Settings, store: Store, contexts: int, command: str = ""
) -> runs.RunFile | None:
    """Records the start of a run in the workdir; of several processes, only the first does."""
    import jax

    defaults = Settings().flat()
    config = {key: chosen for key, chosen in settings.flat().items() if chosen != defaults[key]}
    if SCORERS[settings.model.scorer].asks_server:
        return runs.begin(store.workdir, config, contexts, f"server {settings.api.server}", command)
    if jax.process_index():
        return None  # The first of several processes writes for all.
    device = f"{jax.device_count()} x {jax.devices()[0].device_kind}"
    return runs.begin(store.workdir, config, contexts, device, command)


def render_contexts(
    settings: Settings,
    cells: Iterable[Cell] | None = None,
    *,
    notify: Callable[[str], None] | None = None,
    files: OpenFiles | None = None,
    budget: "TokenBudget | None" = None,
) -> list[RenderedContext]:
    """Renders every context of a study; reads each file of rows once.

    Args:
        settings: the model, and the settings that all contexts share.
        cells: the contexts; None takes `settings.grid()`.
        notify: called with remarks that qualify the numbers, in sentences.
        files: the model's files from `open_model`; None opens them.
        budget: counts the tokens of prompts; None loads it from the files.

    Raises:
        InputError: as in `run_scoring`; no cells.
    """
    files = files or open_model(settings)
    budget = budget or load_token_budget(settings, files)
    task_of = cache(load_task)
    renderer = files.chat_template if files else None
    reader, contexts, notified = RowReader(), [], set[str]()
    dropped, truncated, sizes = Counter[str](), Counter[str](), Counter[str]()
    keep = KEPT_PROMPTS

    def render_cell(task: Task, cell: Cell) -> RenderedContext:
        data, model = cell.data, settings.model
        if not task.is_image:
            test = _test_rows(task, cell, reader)
            prompt, split = cell.prompt, data.train_split
            learns = bool(prompt.shots or prompt.demonstrations or data.labeled_per_class)
            train = reader.training_texts(task, data.data, split, is_needed=learns)
            compares, log_probs = SCORERS[model.scorer].compares_statements, not model.logits_only
            return render(task, cell, test, train, compares, budget, log_probs, renderer, keep)
        if not SCORERS[model.scorer].reads_images:
            readers = " or ".join(repr(name) for name in SCORERS if SCORERS[name].reads_images)
            expected, remedy = f"{readers} for the images of {task.name}", "see configs/vision.py"
            raise InputError.at("", expected, repr(model.scorer), remedy, "scorer")
        images = reader.images(task, data.data, data.split, data.limit)
        pool: ImageRows | None = None
        if data.labeled_per_class and data.train_split in image_splits(task, data.data):
            # The labeled set is drawn from the first images, because reading all takes long.
            pool = reader.images(task, data.data, data.train_split, POOL)
        return render_images(task, cell, images, pool)

    for cell in settings.grid() if cells is None else cells:
        context = render_cell(task_of(cell.task), cell)
        context = _with_blocks_of(context, settings.calibration.methods)
        keep = max(0, keep - context.size)
        contexts.append(context)
        is_first = cell.task not in sizes
        special = _note_special(cell, task_of(cell.task), reader, files) if is_first else ()
        of_rows = one_label_notes(cell.task, context.blocks["test"].labels, context.label_names)
        for note in (*(budget.notes if budget else ()), *special, *of_rows, *context.notes):
            if notify and note not in notified:
                notify(note)
            notified.add(note)
        dropped[cell.task] += context.count("dropped")
        truncated[cell.task] += context.count("truncated")
        sizes[cell.task] += context.size
    if not contexts:
        raise InputError(
            f"the sweep has no context; give at least one task in {spell('tasks')} and "
            f"{spell('seeds')} of 1 or more."
        )
    for task, size in sizes.items():
        if notify and (dropped[task] or truncated[task]):
            notify(
                f"{task}: of {size:,} prompts, {dropped[task]:,} lost demonstrations and "
                f"{truncated[task]:,} were truncated on the left to fit the model's context length"
            )
    return contexts


def _with_blocks_of(context: RenderedContext, methods: Sequence[str]) -> RenderedContext:
    """Returns the context with only the blocks that these methods use; all without methods."""
    if not methods:
        return context
    # Imported here, because methods load many modules that scoring does not need.
    from batch_calibration.methods import ALL, METHODS

    known = METHODS if ALL in methods else filter(METHODS.__contains__, methods)
    read = {"test"}.union(*(METHODS[name].probe.blocks for name in known))
    blocks = {name: block for name, block in context.blocks.items() if name in read}
    return context._replace(blocks=blocks)


def _note_special(
    cell: Cell, task: Task, reader: RowReader, files: OpenFiles | None
) -> tuple[str, ...]:
    """Returns a note if rows contain the text of a special token, which is read as the token."""
    if files is None or task.is_image:
        return ()
    tokens = files.tokenizer_info.tokenizer.get_added_tokens_decoder().values()
    special = [token.content for token in tokens if token.special and token.content.strip()]
    rows = _test_rows(task, cell, reader)
    found: list[str] = []
    for row in rows.rows:
        text = "\n".join(row.values())
        found.append(next(filter(text.__contains__, special), ""))
    count = len(found) - found.count("")
    if not count:
        return ()
    return (
        f"{count:,} of {len(found):,} rows of {cell.task} contain the text of a special token, "
        f"such as {next(filter(None, found))!r}. The model reads it as the token, as in "
        "transformers.",
    )


def _test_rows(task: Task, cell: Cell, reader: RowReader) -> Rows:
    data = cell.data
    return reader.texts(task, data.data, data.split, data.limit, data.limit_rows)
