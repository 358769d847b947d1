"""Renders one context: every text that a model will be asked about, before any model is there."""

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import chain

from batch_calibration.errors import InputError
from batch_calibration.scoring.embedded import label_words as drawn_words
from batch_calibration.scoring.prompts import (
    demonstrations,
    length_limit,
    probe_blocks,
    rendered,
    template,
)  # fmt: skip
from batch_calibration.scoring.prompts.composing import ChatRenderer, Shown, chat, label_text, plain
from batch_calibration.scoring.prompts.length_limit import TokenBudget
from batch_calibration.scoring.prompts.probe_blocks import BlockRows, RowFormat, rendered_rows
from batch_calibration.scoring.prompts.rendered import (
    USUAL,
    RenderedBlock,
    RenderedContext,
    text_digest,
)
from batch_calibration.scoring.tasks import Rows, Task
from batch_calibration.scoring.tasks.base import LabelWords, first_form
from batch_calibration.settings import Cell


def render(
    task: Task,
    cell: Cell,
    test: Rows,
    train: Rows,
    compares_statements: bool = False,
    budget: TokenBudget | None = None,
    log_probs: bool = True,
    renderer: ChatRenderer | None = None,
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
        renderer: the model's chat template; only a `chat` other than `off` asks it.

    Raises:
        InputError: a choice that the task does not have, too few rows, prompts that do not fit.
    """
    chosen = _choose(task, cell, train)
    shots = len(chosen)  # in all, not a class
    # The labeled set never holds a row that is shown, so new labels do not reach it.
    train = _relabeled(task, cell, train, chosen)
    labeled = demonstrations.labeled_set(
        train.labels, len(task.label_names), cell.data.labeled_per_class, chosen, cell.seed
    )
    if compares_statements:
        row_format = _statements(task, cell)
    else:
        row_format = _prompts(task, cell, train, chosen, renderer)
    # Of all labels, for the positions that the longest of them takes.
    label_texts = [*chain.from_iterable(row_format.labels)]

    rows_of = {"test": rendered_rows(test.rows, test.ids, row_format.render, shots, test.labels)}
    rows_of |= _probe_rows(task, cell, row_format, test, train, chosen, log_probs)
    if labeled:
        picked = train.pick(labeled)
        rows_of["labeled"] = rendered_rows(
            picked.rows, picked.ids, row_format.render, shots, picked.labels
        )
    left_out = 0
    if cell.prompt.over_long == "same_context":
        prompts = [(rows.prompt, rows.size) for rows in rows_of.values()]
        left_out = length_limit.common_skip(budget, prompts, shots, label_texts)
    blocks = {}
    for name, rows in rows_of.items():
        blocks[name] = _fit_block(cell, name, rows, budget, label_texts, left_out)

    choices = rendered.CHOICES + (rendered.OF_DEMONSTRATIONS if chosen else ())
    description = rendered.describe(
        task,
        cell,
        rows=text_digest(map(str, test.rows)),
        served=test.split,
        shots=cell.prompt.shots,
        demonstrations=train.pick(chosen).ids,
        label_texts=row_format.labels,
        form=row_format.context,
        options=rendered.unusual(cell, choices),
    )
    context = RenderedContext(description, task.label_names, row_format.labels, blocks)
    shortened = context.count("dropped") + context.count("truncated")
    notes = length_limit.notes(cell.prompt.over_long, shots, shortened)
    if left_out:
        notes += (
            f"{task.name}, seed {cell.seed}: {left_out} of {shots} demonstrations are left "
            "out of every prompt, so that the longest fits the model's positions",
        )
    return context._replace(notes=notes)


def _probe_rows(
    task: Task, cell: Cell, row_format: RowFormat, test: Rows, train: Rows, chosen: list[int],
    log_probs: bool,
) -> dict[str, BlockRows]:  # fmt: skip
    """The blocks of probe inputs that can be used."""
    rows_of = probe_blocks.probes(cell, row_format, test.rows)
    # A dual encoder has no template to make further probes of.
    if not row_format.template:
        return rows_of
    rows_of["pmi"] = probe_blocks.domain_premise(row_format)
    # With one demonstration nothing is left to show before it.
    if len(chosen) > 1:
        rows_of["looc"] = probe_blocks.left_out(row_format, train, chosen)
    # A template that does not show the options cannot move them round.
    if task.options and set(task.options) <= set(template.fields_of(row_format.template)):
        rows_of["permutations"] = probe_blocks.permuted(task, cell, row_format, test)
    # Presets that need the whole vocabulary; a server may give letters alone.
    if log_probs:
        rows_of |= probe_blocks.original_probes(cell, row_format, test.rows)
    return rows_of


def _fit_block(
    cell: Cell, name: str, rows: BlockRows, budget: TokenBudget | None,
    label_texts: Sequence[str], left_out: int,
) -> RenderedBlock:  # fmt: skip
    """A block whose prompts fit; all of them leave out the first `left_out` demonstrations."""

    def prompt(row: int, skip: int) -> str:
        return rows.prompt(row, left_out + skip)

    policy = cell.prompt.over_long
    fitted = length_limit.fit(policy, budget, prompt, rows.size, rows.shots, label_texts)
    # Any change in what is asked makes the block stale.
    spec = {"texts": text_digest(fitted.texts), **rendered.block_options(cell, name)}
    if policy != USUAL.over_long:
        dropped = rows.size if left_out and rows.shots else fitted.dropped
        spec |= {"dropped": dropped, "truncated": fitted.truncated}
    return RenderedBlock(fitted.texts, list(rows.labels), list(rows.ids), spec, rows.together)


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
            names = cell.prompt.demonstrations
            chosen = demonstrations.explicit(train.labels, train.ids, names, train.where)
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
            shown = demonstrations.flipped_labels(train.pick(chosen).labels, count)
    labels = list(train.labels)
    for row, label in zip(chosen, shown, strict=True):
        labels[row] = label
    return train._replace(labels=tuple(labels))


def _label_words(task: Task, cell: Cell, shots: int) -> tuple[LabelWords, ...]:
    """The words of each label: the task's, or drawn ones."""
    pool, choice = cell.prompt.label_words, cell.prompt.verbalizer
    if pool == "own":
        # WiC has other words without demonstrations.
        return task.words_for(shots, choice)
    if choice:
        raise InputError(
            f"config.verbalizer: label_words={pool!r} takes drawn words in place of all of the "
            f"task's, so the verbalizer {choice!r} has no words to give; leave one of both out."
        )
    return drawn_words.draw(pool, task, cell.seed)


def _prompts(
    task: Task, cell: Cell, train: Rows, chosen: list[int], renderer: ChatRenderer | None
) -> RowFormat:
    """Rows as prompts: the demonstrations, then the row without its label."""
    choice = cell.prompt.template
    # A text with braces is a template of its own; else it is the number of one of the task's.
    form = choice if "{" in choice else task.template(len(chosen), choice)
    template.check(form, task.fields)
    label_words = _label_words(task, cell, len(chosen))
    shown = []
    for i in chosen:
        # A demonstration shows the first surface form of its label.
        first_word = first_form(label_words[train.labels[i]])
        shown.append(Shown(template.query(form, train.rows[i]), first_word))
    labels = []
    for forms in label_words:
        surface_forms = (forms,) if isinstance(forms, str) else forms
        labels.append(tuple(label_text(form, cell.prompt, text) for text in surface_forms))
    form_of_input = template.whole_input(form)
    compose = plain(form)
    # All demonstrations as text, whatever becomes of them in a chat: contexts are found by it.
    shown_text = compose("", shown).removesuffix("\n\n")
    if cell.prompt.chat != "off":
        compose = chat(form, cell.prompt, renderer)
    for key in ("system", "answer_start"):
        if cell.prompt.chat == "off" and getattr(cell.prompt, key):
            raise InputError(
                f"config.{key}: it is a part of a chat; give config.chat=turns or one_message, or "
                "leave it out."
            )
    return RowFormat(
        task.fields,
        {"template": form, "shown": hashlib.sha256(shown_text.encode()).hexdigest()},
        lambda row, skip: compose(template.query(form, row), shown[skip:]),
        lambda row, skip: compose(template.query(form_of_input, row), shown[skip:]),
        tuple(labels),
        form,
        shown,
        compose,
    )


def _statements(task: Task, cell: Cell) -> RowFormat:
    """Rows as plain texts, labels as statements: what a dual encoder compares."""
    if cell.prompt.shots:
        raise InputError("config.shots: a dual encoder reads no demonstrations; give 0.")
    for key in ("template", "verbalizer", "label_words", "over_long", "chat"):
        setting, default = getattr(cell.prompt, key), getattr(USUAL, key)
        if setting != default:
            raise InputError(
                f"config.{key}: a dual encoder compares texts, cut at config.max_tokens, with the "
                f"task's label statements, and knows no {setting!r}; leave it at {default!r}."
            )
    statement_of = partial(task.statement.replace, "{label}")
    return RowFormat(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        tuple((statement_of(task.statement_words[name]),) for name in task.label_names),
    )
