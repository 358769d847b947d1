"""Renders one context: every text that a model will be asked about, before any model is there."""

import hashlib

from batch_calibration.errors import InputError
from batch_calibration.prompts import (
    demonstrations,
    label_words,
    length_limit,
    probe_blocks,
    template,
)
from batch_calibration.prompts.length_limit import TokenBudget
from batch_calibration.prompts.probe_blocks import Form, Part, rendered_rows
from batch_calibration.prompts.rendered import (
    CHOICES,
    OF_DEMONSTRATIONS,
    USUAL,
    RenderedBlock,
    RenderedContext,
    block_options,
    description,
    text_digest,
    unusual,
)
from batch_calibration.settings import Cell
from batch_calibration.tasks import Rows, Task
from batch_calibration.tasks.base import LabelWords


def render(
    task: Task,
    cell: Cell,
    test: Rows,
    train: Rows,
    compares_statements: bool = False,
    budget: TokenBudget | None = None,
    log_probs: bool = True,
) -> RenderedContext:
    """Render a context of texts: test rows, probe inputs, the labeled set.

    Args:
        task: a task of texts.
        cell: what is asked for.
        test: the rows that are tested.
        train: where demonstrations and the labeled set are drawn from.
        compares_statements: texts and label statements, as a dual encoder takes them; not prompts.
        budget: the model's positions and tokenizer; only an `over_long` other than `error` asks it.
        log_probs: whether scores will be log-probabilities over the whole vocabulary, which the
            published presets need.

    Raises:
        InputError: a choice that the task does not have, too few rows, prompts that do not fit.
    """
    chosen = _choose(task, cell, train)
    shots = len(chosen)
    train = _relabeled(task, cell, train, chosen)
    labeled = demonstrations.labeled_set(
        train.labels, len(task.label_names), cell.data.labeled_per_class, chosen, cell.seed
    )
    form = _statements(task, cell) if compares_statements else _prompts(task, cell, train, chosen)
    label_texts = [text for texts in form.labels for text in texts]

    def block(part: Part, name: str) -> RenderedBlock:
        fitted = length_limit.fit(
            cell.prompt.over_long,
            budget,
            lambda row, skip: part.prompt(row, left_out + skip),
            part.size,
            part.shots,
            label_texts,
        )
        # Any change in what is asked makes the block stale.
        spec = {"texts": text_digest(fitted.texts), **block_options(cell, name)}
        if cell.prompt.over_long != USUAL.over_long:
            dropped = part.size if left_out and part.shots else fitted.dropped
            spec |= {"dropped": dropped, "truncated": fitted.truncated}
        return RenderedBlock(fitted.texts, list(part.labels), list(part.ids), spec, part.together)

    parts = {"test": rendered_rows(test.rows, test.ids, form.render, shots, test.labels)}
    parts |= _probes(task, cell, form, test, train, chosen, log_probs)
    if labeled:
        parts["labeled"] = rendered_rows(
            [train.rows[i] for i in labeled],
            [train.ids[i] for i in labeled],
            form.render,
            shots,
            [train.labels[i] for i in labeled],
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
        options=unusual(cell, (*CHOICES, *OF_DEMONSTRATIONS) if chosen else CHOICES),
    )
    left_out = 0
    if cell.prompt.over_long == "same_context":
        prompts = [(one.prompt, one.size) for one in parts.values()]
        left_out = length_limit.common_skip(budget, prompts, shots, label_texts)
    blocks = {name: block(one, name) for name, one in parts.items()}
    made = RenderedContext(about, task.label_names, form.labels, blocks)
    shortened = made.count("dropped") + made.count("truncated")
    notes = length_limit.notes(cell.prompt.over_long, shots, shortened)
    if left_out:
        notes += (
            f"{task.name}, seed {cell.seed}: {left_out} of {shots} demonstrations are left "
            "out of every prompt, so that the longest fits the model's positions",
        )
    return made._replace(notes=notes)


def _probes(
    task: Task, cell: Cell, form: Form, test: Rows, train: Rows, chosen: list[int], log_probs: bool
) -> dict[str, Part]:
    """The blocks of probe inputs that can be used."""
    parts = probe_blocks.probes(cell, form, test.rows)
    if not form.template:
        return parts
    parts["pmi"] = probe_blocks.domain_premise(form)
    if len(chosen) > 1:
        parts["looc"] = probe_blocks.left_out(form, train, chosen)
    if task.options and set(task.options) <= set(template.fields_of(form.template)):
        parts["pride"] = probe_blocks.permuted(task, cell, form, test)
    if log_probs:
        parts |= probe_blocks.original_probes(cell, form, test.rows)
    return parts


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


def _relabeled(task: Task, cell: Cell, train: Rows, chosen: list[int]) -> Rows:
    """The training rows, the demonstrations among them with the labels that they are shown with."""
    count = len(task.label_names)
    match cell.prompt.demonstration_labels:
        case "gold":
            return train
        case "random":
            shown = demonstrations.random_labels(chosen, count, cell.seed)
        case "flipped":
            shown = demonstrations.flipped_labels([train.labels[i] for i in chosen], count)
    labels = list(train.labels)
    for row, label in zip(chosen, shown, strict=True):
        labels[row] = label
    return train._replace(labels=tuple(labels))


def _words(task: Task, cell: Cell, shots: int) -> tuple[LabelWords, ...]:
    """The words of each label: the task's, or drawn ones."""
    pool, choice = cell.prompt.label_words, cell.prompt.verbalizer
    if pool == "own":
        return task.words_for(shots, choice)
    if choice:
        raise InputError(
            f"config.verbalizer: label_words={pool!r} takes drawn words in place of all of the "
            f"task's, so the verbalizer {choice!r} has no words to give; leave one of both out."
        )
    return label_words.draw(pool, task, cell.seed)


def _prompts(task: Task, cell: Cell, train: Rows, chosen: list[int]) -> Form:
    wanted = cell.prompt.template
    form = wanted if "{" in wanted else task.template(len(chosen), wanted)
    template.check(form, task.fields)
    words = [
        (one,) if isinstance(one, str) else tuple(one) for one in _words(task, cell, len(chosen))
    ]
    # A demonstration shows the first surface form of its label.
    shown = [template.demonstration(form, train.rows[i], words[train.labels[i]][0]) for i in chosen]
    whole = template.whole_input(form)
    return Form(
        task.fields,
        {"template": form, "shown": hashlib.sha256("\n\n".join(shown).encode()).hexdigest()},
        lambda row, skip: template.prompt(form, shown[skip:], row),
        lambda row, skip: template.prompt(whole, shown[skip:], row),
        tuple(tuple(template.continuation(form, one) for one in forms) for forms in words),
        form,
        shown,
    )


def _statements(task: Task, cell: Cell) -> Form:
    if cell.prompt.shots:
        raise InputError("config.shots: a dual encoder reads no demonstrations; give 0.")
    for key in ("template", "verbalizer", "label_words", "over_long"):
        value, usual = getattr(cell.prompt, key), getattr(USUAL, key)
        if value != usual:
            raise InputError(
                f"config.{key}: a dual encoder compares texts, cut at config.max_tokens, with the "
                f"task's label statements, and knows no {value!r}; leave it at {usual!r}."
            )
    return Form(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        tuple(
            (task.statement.replace("{label}", task.statement_words[name]),)
            for name in task.label_names
        ),
    )
