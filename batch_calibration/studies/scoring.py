"""Scores the contexts of a study with a model: settings in, stored score tables out.

Runs on one workdir share the contexts: each claims a context before it scores it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial, reduce
from itertools import chain
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
"""Prompts of a run whose texts are held from their first rendering until they are scored."""


class ScoringProgress(NamedTuple):
    """Progress of a run: inputs done, with the ones stored before, of all.

    Of the `to_ask` that were not stored, `asked` are done. About `tokens` are to be run for these,
    beginnings that prompts share once a context, and about `tokens_run` of them are done.
    """

    context: str
    done: int
    total: int
    asked: int = 0
    to_ask: int = 0
    tokens: int = 0
    tokens_run: int = 0


class ScoringReport(NamedTuple):
    """The outcome of a run.

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
    """Ask the model about every context that the store does not hold yet, and keep the scores.

    All contexts are rendered before the model is loaded, so a wrong setting is refused at once. A
    run that is stopped goes on where it was; nothing is scored twice. Runs on one workdir, on one
    machine or several, share the contexts: each is scored by one of them, and all end when all are
    done. A context that cannot be scored leaves the others.

    Args:
        settings: what all contexts share, and the model.
        cells: the contexts, made by `settings.cell`; None is `settings.grid()`.
        store: a workdir, made where there is none.
        scorer: asks the model; None loads the one that the settings name.
        progress: called with how far the run is.
        notify: called with sentences that a reader of the numbers must know.
        command: what a user typed, for the workdir's list of runs; "" names the program alone.

    Raises:
        InputError: a setting that does not fit its task, rows or model, with what to do.

    Example:
        settings = Settings.of(model="mini", data="mini", tasks="sst2", limit=40)
        run_scoring(settings, [settings.cell("sst2", shots=k) for k in (0, 1)], "runs/shots")
    """
    store = store if isinstance(store, Store) else Store(store, create=True)
    cells = list(settings.grid() if cells is None else cells)
    # A scorer that is handed over may need no files of the model.
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
    # After all checks: a run that is refused leaves nothing in the workdir.
    run = begin_run(settings, store, len(contexts), command)
    queue = Queue(plan_name(settings, cells), contexts, store, notify)
    total, done, scored = reduce(_Extent.plus, contexts, _Extent()), _Extent(), 0
    began = time.monotonic()
    for context, claim in queue:
        report = partial(_report, progress, claim, context, done, total)
        with queue.attempt(context, claim):
            report(0)
            started = time.monotonic()
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
        raise InputError(_describe_failures(queue.failed, contexts))
    ids = tuple(context.id for context in contexts)
    return ScoringReport(ids, total.rows, scored, seconds, tuple(scorer.notes))


class _Extent(NamedTuple):
    """Rows of contexts, their rows to ask a model about, and about the tokens of these."""

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
    """Reports the rows of a context that are done, after the contexts `before` it."""
    if claim:
        claim.rows = rows  # for its heartbeats
    if progress:
        asked = min(rows, context.to_ask)
        tokens = before.tokens + context.tokens * asked / max(context.to_ask, 1)
        counts = before.rows + rows, total.rows, before.to_ask + asked, total.to_ask
        progress(ScoringProgress(context.planned.name, *counts, round(total.tokens), round(tokens)))


def plan_name(settings: Settings, cells: Iterable[Cell]) -> str:
    """The name under which a workdir keeps what a run of these settings and cells will score."""
    return digest([asdict(settings.model), asdict(settings.api), *map(asdict, cells)])


def _describe_failures(failed: Mapping[str, str], contexts: Sequence[Context]) -> str:
    """Describes the contexts that cannot be scored; several often fail for one reason."""
    reasons = list(dict.fromkeys(failed.values()))
    few = " ".join(reasons[:3]) + (" ..." if len(reasons) > 3 else "")
    if len(contexts) == 1:
        return few
    names = [context.planned.name for context in contexts if context.id in failed]
    named = "; ".join(names[:3]) + ("; ..." if len(names) > 3 else "")
    hint = "the others are kept: " if len(failed) < len(contexts) else ""
    return f"{len(failed)} of {len(contexts)} contexts cannot be scored ({named}); {hint}{few}"


def begin_run(
    settings: Settings, store: Store, contexts: int, command: str = ""
) -> runs.RunFile | None:
    """Keep in the workdir that a run began; of several processes the first alone does."""
    import jax

    defaults = Settings().flat()
    config = {key: chosen for key, chosen in settings.flat().items() if chosen != defaults[key]}
    if SCORERS[settings.model.scorer].asks_server:
        return runs.begin(store.workdir, config, contexts, f"server {settings.api.server}", command)
    if jax.process_index():
        return None  # the first of several processes writes for all
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
    """Renders every context of a study; each file of rows is read once.

    Args:
        settings: what all contexts share, and the model.
        cells: the contexts; None is `settings.grid()`.
        notify: called with sentences that a reader of the numbers must know.
        files: the model's, of `open_model`, where they are open already.
        budget: counts the tokens of prompts; None is that of the files.

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
            train = reader.texts(task, data.data, data.train_split)
            compares, log_probs = SCORERS[model.scorer].compares_statements, not model.logits_only
            return render(task, cell, test, train, compares, budget, log_probs, renderer, keep)
        if not SCORERS[model.scorer].reads_images:
            readers = " or ".join(repr(name) for name in SCORERS if SCORERS[name].reads_images)
            raise InputError(
                f"{task.name} is a task of images, which {model.scorer!r} cannot read; "
                f"give {readers} and a CLIP checkpoint, as in configs/vision.py.",
                key="scorer",
            )
        images = reader.images(task, data.data, data.split, data.limit)
        pool: ImageRows | None = None
        if data.labeled_per_class and data.train_split in image_splits(task, data.data):
            # The labeled set is drawn from the first images alone: reading all takes long.
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
                f"{task}: of {size:,} prompts {dropped[task]:,} lost demonstrations and "
                f"{truncated[task]:,} were cut on the left, to fit the model's positions"
            )
    return contexts


def _with_blocks_of(context: RenderedContext, methods: Sequence[str]) -> RenderedContext:
    """The context with the blocks that these methods learn from; with all where none is named."""
    if not methods:
        return context
    # Only here, as methods import much that scoring does without.
    from batch_calibration.methods import METHODS

    known = [METHODS[name].probe.blocks for name in methods if name in METHODS]
    read = {"test", *chain.from_iterable(known)}
    blocks = {name: block for name, block in context.blocks.items() if name in read}
    return context._replace(blocks=blocks)


def _note_special(
    cell: Cell, task: Task, reader: RowReader, files: OpenFiles | None
) -> tuple[str, ...]:
    """A note on rows that hold a special token's text, which is read as the token."""
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
        f"{count:,} of {len(found):,} rows of {cell.task} hold the text of a special token, such "
        f"as {next(filter(None, found))!r}, which the model reads as this token, as in "
        "transformers.",
    )


def _test_rows(task: Task, cell: Cell, reader: RowReader) -> Rows:
    data = cell.data
    return reader.texts(task, data.data, data.split, data.limit, data.limit_rows)
