"""Prints what a model will be asked: prompts, where labels begin in tokens, and the cost."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import cast

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batch_calibration.inputs import ImageInputs
from batch_calibration.methods import METHODS
from batch_calibration.prompts.rendered import RenderedBlock, RenderedContext
from batch_calibration.scoring import Scorer
from batch_calibration.scoring.api.scorer import ApiScorer
from batch_calibration.scoring.api.tokens import BYTES_PER_TOKEN
from batch_calibration.scoring.table import SCORERS
from batch_calibration.scoring.token_budget import TokenBudget
from batch_calibration.settings import ModelSettings
from batch_calibration.study.loading import api_cost


def show(
    contexts: Sequence[RenderedContext], model: ModelSettings, budget: TokenBudget | None, rows: int
) -> None:
    """Print what the tokenizer or the pooling does, and the first context of each task."""
    print(*(f"{note}\n\n" for note in (budget.notes if budget else ())), sep="", end="")
    for _, group in groupby(contexts, key=_task):
        first = next(group)
        show_context(first, rows)
        if budget and not SCORERS[model.scorer].compares_statements:
            show_boundary(first, budget)


def show_context(context: RenderedContext, rows: int) -> None:
    """Print the first rows of every block."""
    about = context.context
    options = about.get("options")
    varied = options.items() if isinstance(options, dict) else ()
    print(f"=== {about['task']}, seed {about['seed']}, {about['shots']} shots"
          + "".join(f", {key} {value}" for key, value in varied))  # fmt: skip
    if "served" in about:
        print(f"the data have no split {about['split']!r}; {about['served']!r} stands in for it")
    shown = about["demonstrations"]
    names = ", ".join(map(str, shown)) if isinstance(shown, list) else ""
    print(f"demonstrations: {names or 'none'}")
    for name, texts in zip(context.label_names, context.label_texts, strict=True):
        print(f"label {name}: {', '.join(map(repr, texts))}")
    for name, block in context.blocks.items():
        _show_block(name, block, context.label_names, rows)


def _show_block(name: str, block: RenderedBlock, names: Sequence[str], rows: int) -> None:
    readers = [method for method, row in METHODS.items() if name in row.probe.blocks]
    shortened = "".join(
        f", {block.spec[what]} {what}" for what in ("dropped", "truncated") if block.spec.get(what)
    )
    print(f"\n--- block {name}: {block.size} rows{shortened}; "
          f"learned from by {', '.join(readers)}")  # fmt: skip
    inputs = block.inputs
    texts = [str(ref) for ref in inputs.refs[:rows]] if isinstance(inputs, ImageInputs) else inputs
    for text, label, row in zip(texts[:rows], block.labels, block.row_ids, strict=False):
        print(f"[{row}, label {names[label] if label >= 0 else 'unknown'}]\n{text}|\n")


def show_boundary(context: RenderedContext, budget: TokenBudget) -> None:
    """Print the last tokens of the first test row and those of each label."""
    inputs, labels = context.blocks["test"].inputs, _labels(context)
    if isinstance(inputs, ImageInputs):
        return
    prompt, label_tokens = budget.boundary(inputs[0], labels)
    print(f"--- tokens of the first test row: {len(prompt)}, beginning token "
          f"{'included' if budget.tokenizer_info.bos is not None else 'none'}, "
          f"of {budget.positions} positions")  # fmt: skip
    for text, tokens in zip(labels, label_tokens, strict=True):
        print(f"... {' '.join(map(repr, prompt[-6:]))} | {' '.join(map(repr, tokens))}  ({text!r})")
    print()


def show_cost(
    contexts: Sequence[RenderedContext], model: ModelSettings, budget: TokenBudget | None
) -> None:
    """Print what the sweep asks: rows and tokens, task by task."""
    columns = ("tokens in the prompts", "positions asked for")
    _show_sums(contexts, columns, lambda context: _tokens(context, model, budget))
    print(
        SCORERS[model.scorer].cost_note if budget else "no tokens are counted without config.model"
    )


def show_api_cost(contexts: Sequence[RenderedContext], scorer: Scorer) -> None:
    """Print what the sweep asks a server: requests and tokens, task by task, and their price."""
    asker = cast(ApiScorer, scorer)
    costs = {id(one): api_cost([(one, one.blocks)], asker) for one in contexts}
    _show_sums(contexts, ("requests", "tokens sent"), lambda one: costs[id(one)][:2])
    tokens = sum(cost.tokens for cost in costs.values())
    price, own = asker.settings.price, asker.settings.tokenizer
    how = f"one for {BYTES_PER_TOKEN} bytes (no config.tokenizer)"
    how = f"by the tokenizer of {own}" if own else how
    print(f"tokens are counted {how}; {tokens:,} of them at config.price, ${price:g} a million, "
          f"are ${tokens / 1e6 * price:,.2f}")  # fmt: skip


def _show_sums(
    contexts: Sequence[RenderedContext],
    names: tuple[str, str],
    count: Callable[[RenderedContext], tuple[int, int]],
) -> None:
    """Print contexts, rows and two counts of each task, and the sums of all."""
    table = Table(title="the whole sweep", title_justify="left", box=SIMPLE_HEAD)
    for name in ("task", "contexts", "rows", *names):
        table.add_column(name, justify="left" if name == "task" else "right")
    sums = [0, 0, 0, 0]
    for task, group in groupby(contexts, key=_task):
        counts = [0, 0, 0, 0]
        for context in group:
            for i, value in enumerate((1, context.size, *count(context))):
                counts[i] += value
        table.add_row(Text(task), *(f"{count:,}" for count in counts))
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
    table.add_row("all", *(f"{count:,}" for count in sums))
    Console(width=max(100, Console().width)).print(table)


def _tokens(
    context: RenderedContext, model: ModelSettings, budget: TokenBudget | None
) -> tuple[int, int]:
    """Tokens in the texts, and token positions asked for."""
    texts = [
        text
        for block in context.blocks.values()
        if not isinstance(block.inputs, ImageInputs)
        for text in block.inputs
    ]
    count_tokens = SCORERS[model.scorer].count_tokens
    if budget is None or count_tokens is None:
        return 0, 0
    return count_tokens(budget, texts, _labels(context), model)


def _labels(context: RenderedContext) -> list[str]:
    return [text for texts in context.label_texts for text in texts]


def _task(context: RenderedContext) -> str:
    return str(context.context["task"])
