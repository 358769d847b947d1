"""Prints a preview of a study: prompts, token boundaries of labels, and the cost."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import chain, groupby
from pathlib import Path
from typing import cast

import numpy as np

from batch_calibration.cli.progress import show_progress
from batch_calibration.errors import spell
from batch_calibration.files import Json, list_at, object_at
from batch_calibration.methods import METHODS
from batch_calibration.reporting.cells import Cells, show_cells
from batch_calibration.scores import context_id
from batch_calibration.scoring.api.scorer import BYTES_PER_TOKEN, ApiScorer
from batch_calibration.scoring.engine.token_budget import TokenBudget
from batch_calibration.scoring.inputs import ImageInputs
from batch_calibration.scoring.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.scoring.table import SCORERS
from batch_calibration.settings import ModelSettings, Settings, Study
from batch_calibration.studies import Store
from batch_calibration.studies.context_scores import missing, model_name
from batch_calibration.studies.loading import api_cost, load_scorer, load_token_budget, open_model
from batch_calibration.studies.scoring import render_contexts


def show_prompts(
    contexts: Sequence[RenderedContext], model: ModelSettings, budget: TokenBudget | None, rows: int
) -> None:
    """Prints the notes on the tokenizer, and the first context of each task."""
    for note in budget.notes if budget else ():
        print(f"{note}\n")
    for _, group in groupby(contexts, key=_task):  # contexts of one task are adjacent
        first = next(group)
        _show_context(first, rows)
        # Dual encoders embed whole statements, which have no boundary.
        if budget and not SCORERS[model.scorer].compares_statements:
            _show_boundary(first, budget)


def _show_context(context: RenderedContext, rows: int) -> None:
    """Prints the first rows of every block."""
    facts = context.context
    title = f"=== {facts['task']}, seed {facts['seed']}, {facts['shots']} shots"
    for key, option in object_at(facts, "options").items():
        title += f", {key} {option}"
    print(title)
    if "served" in facts:
        print(f"the data have no split {facts['split']!r}; {facts['served']!r} replaces it")
    names = ", ".join(map(str, list_at(facts, "demonstrations")))
    print(f"demonstrations: {names or 'none'}")
    for name, texts in zip(context.label_names, context.label_texts, strict=True):
        print(f"label {name}: {', '.join(map(repr, texts))}")
    for name, block in context.blocks.items():
        _show_block(name, block, context.label_names, rows)


def _show_block(name: str, block: RenderedBlock, label_names: Sequence[str], rows: int) -> None:
    readers = [method for method, row in METHODS.items() if name in row.probe.blocks]
    title = f"\n--- block {name}: {block.size} rows"
    for change in ("dropped", "truncated"):
        if block.spec.get(change):
            title += f", {block.spec[change]} {change}"
    print(f"{title}; read by {', '.join(readers)}")
    inputs = block.inputs
    texts = [str(ref) for ref in inputs.refs[:rows]] if isinstance(inputs, ImageInputs) else inputs
    # zip stops at the end of the cut texts; labels and ids are longer.
    for text, label, row in zip(texts[:rows], block.labels, block.row_ids, strict=False):
        print(f"[{row}, label {label_names[label] if label >= 0 else 'unknown'}]\n{text}|\n")


def _show_boundary(context: RenderedContext, budget: TokenBudget) -> None:
    """Prints the last tokens of the first test row and the tokens of each label."""
    inputs, labels = context.blocks["test"].inputs, _labels(context)
    if isinstance(inputs, ImageInputs):
        return
    prompt, label_tokens = budget.boundary(inputs[0], labels)
    # Some tokenizers have no token for the beginning of a text.
    beginning = "included" if budget.tokenizer_info.bos is not None else "none"
    count = f"{len(prompt)} of {budget.positions} positions"
    print(f"--- tokens of the first test row: {count}, beginning token {beginning}")
    for text, tokens in zip(labels, label_tokens, strict=True):
        # The last six tokens show how the prompt ends.
        print(f"... {' '.join(map(repr, prompt[-6:]))} | {' '.join(map(repr, tokens))}  ({text!r})")
    print()


def show_cost(
    contexts: Sequence[RenderedContext], settings: Settings, budget: TokenBudget | None
) -> None:
    """Prints the sweep's tokens by task; for a server, its requests and their price."""
    model = settings.model
    if SCORERS[model.scorer].asks_server:
        _show_api_cost(contexts, cast(ApiScorer, load_scorer(settings)))
        return
    columns = ("tokens in the prompts", "positions asked for")
    _show_sums(contexts, columns, lambda context: _tokens(context, model, budget))
    note = SCORERS[model.scorer].cost_note
    print(note if budget else f"no tokens are counted without {spell('model')}")


def _show_api_cost(contexts: Sequence[RenderedContext], scorer: ApiScorer) -> None:
    # Keys are ids, because a context holds dicts and is not hashable.
    costs = {id(context): api_cost([(context, context.blocks)], scorer) for context in contexts}
    columns = ("requests", "tokens sent")
    _show_sums(contexts, columns, lambda context: costs[id(context)][:2])
    tokens = sum(cost.tokens for cost in costs.values())
    price, tokenizer = scorer.settings.price, scorer.settings.tokenizer
    rule = f"as one for {BYTES_PER_TOKEN} bytes (no {spell('tokenizer')})"
    rule = f"with the tokenizer of {tokenizer}" if tokenizer else rule
    sums = f"{tokens:,} tokens at {spell('price')}, ${price:g} a million, cost"
    print(f"tokens are counted {rule}; {sums} ${tokens / 1e6 * price:,.2f}")


def _show_sums(
    contexts: Sequence[RenderedContext],
    columns: tuple[str, str],
    count: Callable[[RenderedContext], tuple[int, int]],
) -> None:
    """Prints the contexts, rows and two counts of each task, and their sums."""
    # Contexts, rows, and the two columns of `count`.
    counts = {_task(context): np.zeros(4, int) for context in contexts}
    sums = ((_task(context), (1, context.size, *count(context))) for context in contexts)
    for task, sums_of_context in show_progress("counting tokens", sums, len(contexts)):
        counts[task] += sums_of_context
    counts["all"] = np.sum([*counts.values()], axis=0)
    cells: Cells = [["task", "contexts", "rows", *columns]]
    for task, row in counts.items():
        cells.append([task, *(f"{number:,}" for number in row)])
    show_cells("the whole sweep", cells)
    print()


def _tokens(
    context: RenderedContext, model: ModelSettings, budget: TokenBudget | None
) -> tuple[int, int]:
    """Returns the number of tokens in the texts, and of token positions to compute."""
    count_tokens = SCORERS[model.scorer].count_tokens
    if budget is None or count_tokens is None:
        return 0, 0
    inputs = (block.inputs for block in context.blocks.values())
    texts = [*chain.from_iterable(of for of in inputs if not isinstance(of, ImageInputs))]
    return count_tokens(budget, texts, _labels(context), model)


def _labels(context: RenderedContext) -> list[str]:
    return list(chain.from_iterable(context.label_texts))


def _task(context: RenderedContext) -> str:
    return str(context.context["task"])


def show_plan(studies: Sequence[Study], workdir: str, workers: int) -> None:
    """Prints the contexts and tokens of each study, and an estimate of the total time."""
    # A plan does not create the workdir.
    store = Store(workdir) if (Path(workdir) / "scores").is_dir() else None
    rows_left = rows = 0
    for settings, cells in studies:
        files = open_model(settings)
        budget = load_token_budget(settings, files)
        rendered = render_contexts(settings, cells, notify=print, files=files, budget=budget)
        # Contexts of a task may be apart, as in a grid; sorting makes them one line of the table.
        contexts = sorted(rendered, key=_task)
        print(f"\nmodel {settings.model.model or 'not named'}")
        show_cost(contexts, settings, budget)
        # Stored rows are not scored again.
        rows_left += _rows_left(contexts, settings.model.model, store)
        rows += sum(context.size for context in contexts)
    by = f"{workers} worker{'s' * (workers > 1)}"
    print(f"{rows_left:,} of {rows:,} rows are left to score, by {by}")
    rate = store.progress.rate() if store else None
    if rate is None:
        print(f"time: unknown, because no rows were scored in {workdir} yet")
    else:
        duration = timedelta(seconds=round(rows_left / rate / workers))  # `rate` is per worker
        print(f"time: about {duration}, at the {rate:,.0f} rows/s of a worker so far in {workdir}")


def _rows_left(contexts: Sequence[RenderedContext], model: str, store: Store | None) -> int:
    """Counts the rows that no stored table of this model holds; reads no weights."""
    tables = {_key(table.context): table for table in (store.tables()[0] if store else ())}
    name, rows = {"model": model_name(model)}, 0
    for context in contexts:
        table = tables.get(_key({**context.context, **name}))
        rows += sum(context.blocks[block].size for block in missing(context, table))
    return rows


def _key(context: Mapping[str, Json]) -> str:
    """Returns an id of a context without its scorer, since identifying that reads the weights."""
    return context_id({key: fact for key, fact in context.items() if key != "scorer"})
