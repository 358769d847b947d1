"""Renders one context: all texts for a model, before a model is loaded."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration.errors import InputError, spell
from batch_calibration.files import Json
from batch_calibration.scores import TRAIN_LABELS
from batch_calibration.scoring.embedded import label_words as drawn_words
from batch_calibration.scoring.prompts import demonstrations, length_limit, rendered, template
from batch_calibration.scoring.prompts.length_limit import TokenCounter
from batch_calibration.scoring.tasks import Row, Rows, Task
from batch_calibration.scoring.tasks.base import LabelWords, first_form
from batch_calibration.settings import Cell, refuse_changed

CONTENT_FREE = ("N/A", "", "[MASK]")
ORIGINAL_TEXTS = 20  # random-word texts in the code of Fei et al.
PRIDE_SHARE = 0.05
"""The fraction of test rows with permuted options, as in PriDe's main results."""
Render = Callable[[Row, int], str]
"""Maps `(row, skip)` to its prompt without the first `skip` demonstrations."""


class RowFormat(NamedTuple):
    """The functions that render rows as texts, and the texts of the labels.

    `render` renders a row of the task. `fill` renders a row with the one field `input`, the whole
    input part. A dual encoder has no `form` (the template), no `shown` (the demonstrations) and no
    `compose` (the function that joins demonstrations and a query).
    """

    fields: tuple[str, ...]
    context: dict[str, Json]
    render: Render
    fill: Render
    labels: tuple[tuple[str, ...], ...]
    form: str = ""
    shown: Sequence[template.Shown] = ()
    compose: template.Compose | None = None


class BlockRows(NamedTuple):
    """The rows of a block."""

    # Maps `(row, skip)` to a row's prompt without the first `skip` demonstrations.
    prompt: Callable[[int, int], str]
    labels: Sequence[int]  # gold labels, -1 if unknown
    ids: Sequence[str]  # names that identify the rows in the source
    shots: int  # number of demonstrations in a prompt
    together: int = 1  # as in `RenderedBlock`

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.ids)


def render(
    task: Task,
    cell: Cell,
    test: Rows,
    train: Rows,
    compares_statements: bool = False,
    budget: TokenCounter | None = None,
    log_probs: bool = True,
    renderer: template.ChatRenderer | None = None,
    keep: int = 0,
) -> rendered.RenderedContext:
    """Renders a context of texts: test rows, probe inputs and the labeled set.

    Args:
        task: a task of texts.
        cell: the settings of the context.
        test: the test rows.
        train: rows from which demonstrations and the labeled set are drawn.
        compares_statements: whether to render texts and label statements for a dual encoder instead
            of prompts.
        budget: the model's positions and tokenizer; needed if `over_long` is not `error`.
        log_probs: whether scores will be log-probabilities over the whole vocabulary, which the
            published presets need.
        renderer: the model's chat template; needed if `chat` is not `off`.
        keep: maximum prompts of a block that holds its texts. Larger blocks render texts again when
            they are scored, so that memory does not grow with them.

    Raises:
        InputError: the task lacks a choice, there are too few rows, or prompts do not fit.
    """
    chosen = _choose(task, cell, train)
    counted = [train.labels.count(label) for label in range(len(task.label_names))]
    shots = len(chosen)  # the total, not per class
    # The labeled set excludes the demonstrations, so their new labels do not reach it.
    train = _relabeled(task, cell, train, chosen)
    per_label = cell.data.labeled_per_class
    labeled = demonstrations.labeled_set(train.labels, len(counted), per_label, chosen, cell.seed)
    if compares_statements:
        row_format = _statements(task, cell)
    else:
        row_format = _prompts(task, cell, train, chosen, renderer)
    # The texts of all labels, for the positions of the longest one.
    label_texts = [*chain.from_iterable(row_format.labels)]

    rows_of = {"test": rendered_rows(test, row_format.render, shots)}
    shown = train.pick(chosen)
    rows_of |= _probe_rows(task, cell, row_format, test, shown, log_probs)
    if labeled:
        rows_of["labeled"] = rendered_rows(train.pick(labeled), row_format.render, shots)
    left_out = 0
    if cell.prompt.over_long == "same_context":
        prompts = [(rows.prompt, rows.size) for rows in rows_of.values()]
        left_out = length_limit.common_skip(budget, prompts, shots, label_texts)
    blocks = {}
    for name, rows in rows_of.items():
        blocks[name] = _fit_block(cell, name, rows, budget, label_texts, left_out, keep)

    choices = rendered.CHOICES + (rendered.OF_DEMONSTRATIONS if chosen else ())
    choices += ("limit_rows",) if cell.data.limit else ()
    digest, options = rendered.text_digest(map(str, test.rows)), rendered.unusual(cell, choices)
    labels, form = row_format.labels, row_format.context
    description = rendered.specify(
        task, cell, digest, test.split, labels, form, shown.ids, options=options
    )
    if any(counted):
        description[TRAIN_LABELS] = list(counted)
    context = rendered.RenderedContext(description, task.label_names, row_format.labels, blocks)
    shortened = context.count("dropped") + context.count("truncated")
    notes = length_limit.shortening_notes(cell.prompt.over_long, shots, shortened)
    if left_out:
        notes += (
            f"{task.name}, seed {cell.seed}: {left_out} of {shots} demonstrations are left "
            "out of every prompt, so that the longest prompt fits the model's positions",
        )
    labels_seen = {tuple(train.rows[row].values()) for row in (*chosen, *labeled)}
    if not labels_seen.isdisjoint(tuple(row.values()) for row in test.rows):
        notes += (
            f"{task.name}: some of its test rows are also demonstrations or in the labeled set, "
            "which reveals their right labels; remove them from the training rows",
        )
    return context._replace(notes=notes)


def _probe_rows(
    task: Task, cell: Cell, row_format: RowFormat, test: Rows, shown: Rows, log_probs: bool
) -> dict[str, BlockRows]:
    """Makes the blocks of probe inputs that are possible; `shown` are the demonstrations.

    The last two blocks follow the published code, which fills the whole input. Zhao et al. 2021
    (tonyzhaozh/few-shot-learning) and Fei et al. 2023 (fywalter/label-bias) share tasks of two
    texts with the paper. For these, the two texts and the words between them are one input: "N/A"
    appears once, and random words are drawn from the whole input. Fei et al. fill the texts one by
    one only in a task of medical questions.
    """
    prompt, shots, form = cell.prompt, len(row_format.shown), row_format.form

    def probe(name: str, rows: list[Row], render: Render) -> BlockRows:
        return rendered_rows(_unlabeled(rows, _numbered(name, len(rows))), render, shots)

    whole = content_free(("input",))  # The one field replaces the whole input.
    if prompt.cc_fill == "whole_input":
        cc = probe("cc", whole, row_format.fill)
    else:
        cc = probe("cc", content_free(row_format.fields), row_format.render)
    # As in the paper, the words come from the test inputs. No label is read.
    dc = random_words(test.rows, row_format.fields, prompt.dc_texts, cell.seed)
    rows_of = {"cc": cc, "dc": probe(f"dc/{cell.seed}", dc, row_format.render)}
    # A dual encoder has no template for further probes.
    if row_format.compose is None:
        return rows_of
    # DC-PMI has one prompt: the template after its input, without demonstrations.
    premise = row_format.compose(())(template.domain_premise(form))
    rows_of["pmi"] = BlockRows(lambda row, skip: premise, [-1], ["pmi"], 0)
    # With only one demonstration, no other is left to show before it.
    if len(shown.rows) > 1:
        rows_of["looc"] = left_out(row_format, shown)
    # Options can be permuted only if the template shows them.
    if task.options and set(task.options) <= set(template.fields_of(form)):
        rows_of["permutations"] = permuted(task, cell, row_format, test)
    # These presets need the whole vocabulary. A server may return only the label letters.
    if log_probs:
        inputs = template.input_part(form)
        words = original_random_words([template.fill(inputs, row) for row in test.rows], cell.seed)
        drawn = [{"input": text} for text in words]
        rows_of["dc_original"] = probe(f"dc_original/{cell.seed}", drawn, row_format.fill)
        rows_of["cc_original"] = probe("cc_original", whole, row_format.fill)
    return rows_of


def _fit_block(
    cell: Cell, name: str, rows: BlockRows, budget: TokenCounter | None,
    label_texts: Sequence[str], left_out: int, keep: int,
) -> rendered.RenderedBlock:  # fmt: skip
    """Makes a block with prompts that fit; all leave out the first `left_out` demonstrations."""
    prompt = rows.prompt
    if left_out:
        prompt = lambda row, skip: rows.prompt(row, left_out + skip)  # noqa: E731
    policy = cell.prompt.over_long
    fitted = length_limit.fit_prompts(policy, budget, prompt, rows.size, rows.shots, label_texts)
    texts = list(fitted.texts) if rows.size <= keep else fitted.texts
    # Any change of the texts makes the block stale.
    spec = {"texts": rendered.text_digest(texts), **rendered.block_options(cell, name)}
    if policy != rendered.USUAL.over_long:
        dropped = rows.size if left_out and rows.shots else fitted.dropped
        spec |= {"dropped": dropped, "truncated": fitted.truncated}
    return rendered.RenderedBlock(texts, list(rows.labels), list(rows.ids), spec, rows.together)


def _choose(task: Task, cell: Cell, train: Rows) -> list[int]:
    """Chooses the demonstrations and returns their row indices in the order of the context."""
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
    """Returns the training rows, with the shown labels of the demonstrations."""
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
    """Returns the words of each label: the task's words, or drawn ones."""
    pool, choice = cell.prompt.label_words, cell.prompt.verbalizer
    if pool == "own":
        # WiC's words without demonstrations differ.
        return task.words_for(shots, choice)
    if choice:
        expected = f"none, because label_words={pool!r} replaces all label words"
        raise InputError.at("", expected, repr(choice), "leave one of the two out", "verbalizer")
    return drawn_words.draw_words(pool, task, cell.seed)


def _prompts(
    task: Task, cell: Cell, train: Rows, chosen: list[int], renderer: template.ChatRenderer | None
) -> RowFormat:
    """Formats rows as prompts: the demonstrations, then the row without its label."""
    choice = cell.prompt.template
    # A text with braces is a template itself. Other texts number a template of the task.
    form = choice if "{" in choice else task.template(len(chosen), choice)
    template.check_fields(form, task.fields)
    label_words = _label_words(task, cell, len(chosen))
    shown = []
    for i in chosen:
        # A demonstration shows the first surface form of its label.
        first_word = first_form(label_words[train.labels[i]])
        shown.append(template.Shown(template.query(form, train.rows[i]), first_word))
    labels = []
    for forms in label_words:
        surface_forms = (forms,) if isinstance(forms, str) else forms
        labels.append(tuple(template.label_text(form, cell.prompt, text) for text in surface_forms))
    form_of_input = template.whole_input(form)
    compose = template.plain_text(form)
    # The demonstrations as text identify a context, in chats too.
    shown_text = compose(shown)("").removesuffix("\n\n")
    if cell.prompt.chat != "off":
        compose = template.chat(form, cell.prompt, renderer)
    for key in ("system", "answer_start"):
        if cell.prompt.chat == "off" and getattr(cell.prompt, key):
            raise InputError(
                f"it applies only to a chat; give {spell('chat', 'turns')} or one_message, or "
                "leave it out.",
                key=key,
            )
    ask_without = cache(lambda skip: compose(shown[skip:]))

    def ask(row: Row, skip: int) -> str:
        return ask_without(skip)(template.query(form, row))

    def fill(row: Row, skip: int) -> str:
        return ask_without(skip)(template.query(form_of_input, row))

    context: dict[str, Json] = {"template": form}
    context["shown"] = hashlib.sha256(shown_text.encode()).hexdigest()
    return RowFormat(task.fields, context, ask, fill, tuple(labels), form, shown, compose)


def _statements(task: Task, cell: Cell) -> RowFormat:
    """Formats rows as plain texts and labels as statements, for a dual encoder."""
    if cell.prompt.shots:
        raise InputError("a dual encoder reads no demonstrations; give 0.", key="shots")
    why = f"a dual encoder compares texts, cut at {spell('max_tokens')}, with label statements"
    names = ("template", "verbalizer", "label_words", "over_long", "chat")
    refuse_changed(cell.prompt, names, why)
    statement_of = partial(task.statement.replace, "{label}")
    return RowFormat(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        tuple((statement_of(task.statement_words[name]),) for name in task.label_names),
    )


def content_free(fields: Sequence[str]) -> list[Row]:
    """Makes CC's rows: each content-free text in every field (Zhao et al. 2021, section 5).

    >>> content_free(["sentence"])
    [{'sentence': 'N/A'}, {'sentence': ''}, {'sentence': '[MASK]'}]
    """
    return [dict.fromkeys(fields, fill) for fill in CONTENT_FREE]


def random_words(
    rows: Sequence[Row], fields: Sequence[str], texts: int = 20, seed: int = 0
) -> list[Row]:
    """Draws DC's rows: random in-domain words for each field, at the field's mean length in words.

    The bag holds every white-space word of the field in `rows`, so frequent words are drawn often
    (Fei et al. 2023; Zhou et al. 2024, app. D: 20 texts from the test inputs).
    """
    rng = np.random.default_rng([seed, 3])
    columns: dict[str, list[str]] = {}
    for field in fields:
        row_words = [row[field].split() for row in rows]
        bag = [*chain.from_iterable(row_words)] or [""]
        length = max(1, round(sum(map(len, row_words)) / len(row_words)))  # the field's mean
        # Words are drawn with replacement: `[texts, length]`.
        draws = rng.integers(len(bag), size=(texts, length))
        columns[field] = [_join_words(bag, draw) for draw in draws]
    # The transposition turns columns of texts into rows.
    return [dict(zip(fields, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def original_random_words(inputs: Sequence[str], seed: int = 0) -> list[str]:
    """Draws the random texts of Fei et al. 2023's code (fywalter/label-bias) from whole inputs.

    Each of 20 texts has floor(mean length) + 1 lower-case words, drawn with replacement from the
    words of all inputs, and ends in " .". The draws match the code, so that a seed gives the same
    words for the same inputs.

    >>> len(original_random_words(["A fine film", "Dull"])[0].split())
    4
    """
    input_words = [text.lower().split() for text in inputs]
    bag = [*chain.from_iterable(input_words)] or [""]
    # Their code rounds down and adds one.
    length = int(np.mean([*map(len, input_words)])) + 1
    # Their code uses the legacy generator. A new one would draw other words from the same seed.
    random = np.random.RandomState(seed)
    draws = [random.choice(len(bag), size=length) for _ in range(ORIGINAL_TEXTS)]
    return [_join_words(bag, draw) + " ." for draw in draws]


def _join_words(bag: Sequence[str], draw: np.ndarray) -> str:
    return " ".join(map(bag.__getitem__, draw))


def permuted_rows(rows: int, seed: int = 0) -> list[int]:
    """Draws the test rows that PriDe permutes: a random 5 %, at least one, in row order.

    The published code shuffles all rows and takes the first 5 %.

    >>> len(permuted_rows(100)), permuted_rows(3) == permuted_rows(3)
    (5, True)
    """
    count = max(1, int(rows * PRIDE_SHARE))
    drawn = np.random.default_rng([seed, 6]).choice(rows, count, replace=False)
    # A block's rows stay in the order of the test rows.
    return sorted(drawn.tolist())


def cyclic_permutations(row: Row, options: Sequence[str]) -> list[Row]:
    """Rotates the options' contents: in row r, option j has the content of option j + r.

    >>> cyclic_permutations({"a": "one", "b": "two"}, ("a", "b"))
    [{'a': 'one', 'b': 'two'}, {'a': 'two', 'b': 'one'}]
    """
    contents = [row[option] for option in options]
    orders = [contents[shift:] + contents[:shift] for shift in range(len(options))]
    return [row | dict(zip(options, order, strict=True)) for order in orders]


def reversal(row: Row, options: Sequence[str]) -> list[Row]:
    """Returns the row, and the row with its options' contents in reverse order.

    >>> reversal({"a": "one", "b": "two"}, ("a", "b"))[1]
    {'a': 'two', 'b': 'one'}
    """
    contents = [row[option] for option in options]
    return [row, row | dict(zip(options, contents[::-1], strict=True))]


def rendered_rows(rows: Rows, render: Render, shots: int, together: int = 1) -> BlockRows:
    """Makes a block of prompts: `render` makes one of each row."""
    texts, labels, ids = rows.rows, rows.labels, rows.ids
    return BlockRows(lambda row, skip: render(texts[row], skip), labels, ids, shots, together)


def left_out(row_format: RowFormat, queries: Rows) -> BlockRows:
    """Makes LOOC's rows: each demonstration as the input, after the other demonstrations.

    Demonstrations that a context leaves out still serve as inputs.
    """

    def prompt(row: int, skip: int) -> str:
        # The demonstration is left out by index, because another may have the same text.
        shown = [text for i, text in enumerate(row_format.shown) if i >= skip and i != row]
        assert row_format.compose is not None
        return row_format.compose(shown)(template.query(row_format.form, queries.rows[row]))

    return BlockRows(prompt, queries.labels, queries.ids, len(queries.rows) - 1)


def permuted(task: Task, cell: Cell, row_format: RowFormat, test: Rows) -> BlockRows:
    """Makes the block of test rows with permuted options; all orders of a row are adjacent.

    The setting `option_orders` chooses the rows and the orders.
    """
    choice = cell.prompt.option_orders
    drawn: Sequence[int] = range(len(test.rows))
    if choice == "sample":
        drawn = permuted_rows(len(test.rows), cell.seed)
    move = reversal if choice == "two" else cyclic_permutations
    rows, ids, orders = [], [], 1
    for i in drawn:
        moved = move(test.rows[i], task.options)
        orders = len(moved)
        rows += moved
        ids += _numbered(test.ids[i], orders)
    shots = len(row_format.shown)
    return rendered_rows(_unlabeled(rows, ids), row_format.render, shots, together=orders)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}/{i}" for i in range(count)]


def _unlabeled(rows: Sequence[Row], ids: Sequence[str]) -> Rows:
    return Rows(tuple(rows), (-1,) * len(rows), tuple(ids), "")
