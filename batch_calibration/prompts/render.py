"""Renders one context: every text that a model will be asked about, before any model is there."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from batch_calibration.errors import InputError
from batch_calibration.files import Json
from batch_calibration.prompts import demonstrations, length_limit, probe_inputs, template
from batch_calibration.prompts.length_limit import TokenBudget
from batch_calibration.prompts.rendered import (
    CHOICES,
    USUAL,
    RenderedBlock,
    RenderedContext,
    block_options,
    description,
    text_digest,
    unusual,
)
from batch_calibration.settings import Cell, ScorerKind
from batch_calibration.tasks import Row, Rows, Task

Render = Callable[[Row, int], str]
"""`(row, skip)` -> its prompt without the first `skip` demonstrations."""


class _Form(NamedTuple):
    """How rows become texts: `fill` renders a row of one field, `input`, the whole input part."""

    fields: tuple[str, ...]
    context: dict[str, Json]
    render: Render
    fill: Render
    labels: tuple[tuple[str, ...], ...]


class _Part(NamedTuple):
    """The rows of a block, and how they are rendered."""

    rows: Sequence[Row]
    labels: Sequence[int]
    ids: Sequence[str]
    render: Render

    def prompt(self, row: int, skip: int) -> str:
        """A row's prompt without the first `skip` demonstrations."""
        return self.render(self.rows[row], skip)


def render(
    task: Task,
    cell: Cell,
    test: Rows,
    train: Rows,
    scorer: ScorerKind = "causal_lm",
    budget: TokenBudget | None = None,
) -> RenderedContext:
    """Render a context of texts: test rows, CC's and DC's inputs, the labeled set.

    Args:
        task: a task of texts.
        cell: what is asked for.
        test: the rows that are tested.
        train: where demonstrations and the labeled set are drawn from.
        scorer: texts and statements for a dual encoder, prompts for all others.
        budget: the model's positions and tokenizer; only an `over_long` other than `error` asks it.

    Raises:
        InputError: a choice that the task does not have, too few rows, prompts that do not fit.
    """
    chosen = _choose(task, cell, train)
    labeled = demonstrations.labeled_set(
        train.labels, len(task.label_names), cell.data.labeled_per_class, chosen, cell.seed
    )
    encoder = scorer == "dual_encoder"
    form = _statements(task, cell) if encoder else _prompts(task, cell, train, chosen)
    label_texts = [text for texts in form.labels for text in texts]

    def block(name: str, part: _Part) -> RenderedBlock:
        fitted = length_limit.fit(
            cell.prompt.over_long,
            budget,
            lambda row, skip: part.prompt(row, left_out + skip),
            len(part.rows),
            len(chosen),
            label_texts,
        )
        # Any change in what is asked makes the block stale.
        spec = {"texts": text_digest(fitted.texts), **block_options(cell, name)}
        if cell.prompt.over_long != USUAL.over_long:
            dropped = len(part.rows) if left_out else fitted.dropped
            spec |= {"dropped": dropped, "truncated": fitted.truncated}
        return RenderedBlock(fitted.texts, list(part.labels), list(part.ids), spec)

    parts = {"test": _Part(test.rows, test.labels, test.ids, form.render)}
    parts |= _probes(cell, form, test.rows)
    if labeled:
        parts["labeled"] = _Part(
            [train.rows[i] for i in labeled],
            [train.labels[i] for i in labeled],
            [train.ids[i] for i in labeled],
            form.render,
        )
    about = description(
        task,
        cell,
        rows=text_digest(f"{row}" for row in test.rows),
        served=test.split,
        shots=cell.prompt.shots,
        demonstrations=[train.ids[i] for i in chosen],
        label_texts=form.labels,
        form=form.context,
        options=unusual(cell, (*CHOICES, "train_split") if chosen else CHOICES),
    )
    left_out = 0
    if cell.prompt.over_long == "same_context":
        prompts = [(part.prompt, len(part.rows)) for part in parts.values()]
        left_out = length_limit.common_skip(budget, prompts, len(chosen), label_texts)
    blocks = {name: block(name, part) for name, part in parts.items()}
    made = RenderedContext(about, task.label_names, form.labels, blocks)
    shortened = made.count("dropped") + made.count("truncated")
    notes = length_limit.notes(cell.prompt.over_long, len(chosen), shortened)
    if left_out:
        notes += (
            f"{task.name}, seed {cell.seed}: {left_out} of {len(chosen)} demonstrations are left "
            "out of every prompt, so that the longest fits the model's positions",
        )
    return made._replace(notes=notes)


def _probes(cell: Cell, form: _Form, rows: Sequence[Row]) -> dict[str, _Part]:
    """CC's and DC's rows."""
    prompt = cell.prompt
    whole = prompt.cc_fill == "whole_input"
    cc = probe_inputs.content_free(("input",) if whole else form.fields)
    dc = probe_inputs.random_words(rows, form.fields, prompt.dc_texts, cell.seed, prompt.dc_preset)
    return {
        "cc": _Part(
            cc,
            [-1] * len(cc),
            [f"cc/{i}" for i in range(len(cc))],
            form.fill if whole else form.render,
        ),
        "dc": _Part(
            dc,
            [-1] * len(dc),
            [f"dc/{cell.seed}/{i}" for i in range(len(dc))],
            form.render,
        ),
    }


def _choose(task: Task, cell: Cell, train: Rows) -> list[int]:
    """Row numbers of the demonstrations, in the order in which they stand in the context."""
    shots, order = cell.prompt.shots, cell.prompt.order
    match cell.prompt.selection:
        case "per_class":
            chosen = demonstrations.per_class(train.labels, task.label_names, shots, cell.seed)
        case "round_robin":
            chosen = demonstrations.round_robin(train.labels, task.label_names, shots, cell.seed)
        case "total":
            chosen = demonstrations.total(train.labels, shots, cell.seed)
        case "explicit":
            wanted = cell.prompt.demonstrations
            chosen = demonstrations.explicit(train.labels, train.ids, wanted, train.where)
    return chosen if order == -1 else demonstrations.reorder(chosen, order)


def _prompts(task: Task, cell: Cell, train: Rows, chosen: list[int]) -> _Form:
    wanted = cell.prompt.template
    form = wanted if "{" in wanted else task.template(len(chosen), wanted)
    template.check(form, task.fields)
    words = [
        (one,) if isinstance(one, str) else tuple(one)
        for one in task.words_for(len(chosen), cell.prompt.verbalizer)
    ]
    # A demonstration shows the first surface form of its label.
    shown = [template.demonstration(form, train.rows[i], words[train.labels[i]][0]) for i in chosen]
    whole = template.whole_input(form)
    return _Form(
        task.fields,
        {"template": form, "shown": hashlib.sha256("\n\n".join(shown).encode()).hexdigest()},
        lambda row, skip: template.prompt(form, shown[skip:], row),
        lambda row, skip: template.prompt(whole, shown[skip:], row),
        tuple(tuple(template.continuation(form, one) for one in forms) for forms in words),
    )


def _statements(task: Task, cell: Cell) -> _Form:
    if cell.prompt.shots:
        raise InputError("config.shots: a dual encoder reads no demonstrations; give 0.")
    for key in ("template", "verbalizer", "over_long"):
        value, usual = getattr(cell.prompt, key), getattr(USUAL, key)
        if value != usual:
            raise InputError(
                f"config.{key}: a dual encoder compares texts, cut at config.max_tokens, with the "
                f"task's label statements, and knows no {value!r}; leave it at {usual!r}."
            )
    return _Form(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        tuple(
            (task.statement.replace("{label}", task.statement_words[name]),)
            for name in task.label_names
        ),
    )
