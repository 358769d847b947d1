"""Renders one context: every text that a model will be asked about, before any model is there."""

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
from batch_calibration.settings import Cell

CONTENT_FREE = ("N/A", "", "[MASK]")
ORIGINAL_TEXTS = 20  # random-word texts in the code of Fei et al.
PRIDE_SHARE = 0.05
"""Of the test rows, the share whose options are permuted: that of PriDe's main results."""
Render = Callable[[Row, int], str]
"""`(row, skip)` -> its prompt without the first `skip` demonstrations."""


class RowFormat(NamedTuple):
    """The way rows become texts: `fill` renders a row of one field, `input`, the whole input part.

    `form`, the template, `shown`, the demonstrations, and `compose`, which puts them and a query
    together, are of prompts; a dual encoder has none of them.
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

    # `(number, skip)` -> a row's prompt without the first `skip` demonstrations.
    prompt: Callable[[int, int], str]
    labels: Sequence[int]  # the gold label of each, -1 where it is unknown
    ids: Sequence[str]  # names that lead back
    shots: int  # how many demonstrations a prompt has
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
        keep: blocks of up to so many prompts hold their texts; others render them again when they
            are scored, so that memory does not grow with them.

    Raises:
        InputError: a choice that the task does not have, too few rows, prompts that do not fit.
    """
    chosen = _choose(task, cell, train)
    counted = [train.labels.count(label) for label in range(len(task.label_names))]
    shots = len(chosen)  # in all, not a class
    # The labeled set never holds a row that is shown, so new labels do not reach it.
    train = _relabeled(task, cell, train, chosen)
    per_label = cell.data.labeled_per_class
    labeled = demonstrations.labeled_set(train.labels, len(counted), per_label, chosen, cell.seed)
    if compares_statements:
        row_format = _statements(task, cell)
    else:
        row_format = _prompts(task, cell, train, chosen, renderer)
    # Of all labels, for the positions that the longest of them takes.
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
            "out of every prompt, so that the longest fits the model's positions",
        )
    labels_seen = {tuple(train.rows[row].values()) for row in (*chosen, *labeled)}
    if not labels_seen.isdisjoint(tuple(row.values()) for row in test.rows):
        notes += (
            f"{task.name}: some of its test rows are also demonstrations or in the labeled set, "
            "which show their right labels; take them out of the training rows",
        )
    return context._replace(notes=notes)


def _probe_rows(
    task: Task, cell: Cell, row_format: RowFormat, test: Rows, shown: Rows, log_probs: bool
) -> dict[str, BlockRows]:
    """The blocks of probe inputs that can be used; `shown` are the demonstrations.

    The last two are as the published code makes them, which fills the whole input. In the tasks of
    two texts that Zhao et al. 2021 (tonyzhaozh/few-shot-learning) and Fei et al. 2023
    (fywalter/label-bias) share with the paper, the two and the words between them are one input:
    "N/A" appears once, and random words are drawn from all of it. Fei et al. have one task, of
    medical questions, whose texts are filled one by one.
    """
    prompt, shots, form = cell.prompt, len(row_format.shown), row_format.form

    def probe(name: str, rows: list[Row], render: Render) -> BlockRows:
        return rendered_rows(_unlabeled(rows, _numbered(name, len(rows))), render, shots)

    whole = content_free(("input",))  # one field, which takes the place of the whole input
    if prompt.cc_fill == "whole_input":
        cc = probe("cc", whole, row_format.fill)
    else:
        cc = probe("cc", content_free(row_format.fields), row_format.render)
    # Words of the test inputs, as in the paper: no label is read.
    dc = random_words(test.rows, row_format.fields, prompt.dc_texts, cell.seed)
    rows_of = {"cc": cc, "dc": probe(f"dc/{cell.seed}", dc, row_format.render)}
    # A dual encoder has no template to make further probes of.
    if row_format.compose is None:
        return rows_of
    # DC-PMI's one prompt, the template after its input, without demonstrations.
    premise = row_format.compose(())(template.domain_premise(form))
    rows_of["pmi"] = BlockRows(lambda row, skip: premise, [-1], ["pmi"], 0)
    # With one demonstration nothing is left to show before it.
    if len(shown.rows) > 1:
        rows_of["looc"] = left_out(row_format, shown)
    # A template that does not show the options cannot move them round.
    if task.options and set(task.options) <= set(template.fields_of(form)):
        rows_of["permutations"] = permuted(task, cell, row_format, test)
    # Presets that need the whole vocabulary; a server may give letters alone.
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
    """A block whose prompts fit; all of them leave out the first `left_out` demonstrations."""
    prompt = rows.prompt
    if left_out:
        prompt = lambda row, skip: rows.prompt(row, left_out + skip)  # noqa: E731
    policy = cell.prompt.over_long
    fitted = length_limit.fit_prompts(policy, budget, prompt, rows.size, rows.shots, label_texts)
    texts = list(fitted.texts) if rows.size <= keep else fitted.texts
    # Any change in what is asked makes the block stale.
    spec = {"texts": rendered.text_digest(texts), **rendered.block_options(cell, name)}
    if policy != rendered.USUAL.over_long:
        dropped = rows.size if left_out and rows.shots else fitted.dropped
        spec |= {"dropped": dropped, "truncated": fitted.truncated}
    return rendered.RenderedBlock(texts, list(rows.labels), list(rows.ids), spec, rows.together)


def _choose(task: Task, cell: Cell, train: Rows) -> list[int]:
    """Row numbers of the demonstrations, in the order of the context."""
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
            f"label_words={pool!r} takes drawn words in place of all of the "
            f"task's, so the verbalizer {choice!r} has no words to give; leave one of both out.",
            key="verbalizer",
        )
    return drawn_words.draw_words(pool, task, cell.seed)


def _prompts(
    task: Task, cell: Cell, train: Rows, chosen: list[int], renderer: template.ChatRenderer | None
) -> RowFormat:
    """Rows as prompts: the demonstrations, then the row without its label."""
    choice = cell.prompt.template
    # A text with braces is a template of its own; else it is the number of one of the task's.
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
    # All demonstrations as text, in chats too: contexts are found by it.
    shown_text = compose(shown)("").removesuffix("\n\n")
    if cell.prompt.chat != "off":
        compose = template.chat(form, cell.prompt, renderer)
    for key in ("system", "answer_start"):
        if cell.prompt.chat == "off" and getattr(cell.prompt, key):
            raise InputError(
                f"it is a part of a chat; give {spell('chat', 'turns')} or one_message, or "
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
    """Rows as plain texts, labels as statements: what a dual encoder compares."""
    if cell.prompt.shots:
        raise InputError("a dual encoder reads no demonstrations; give 0.", key="shots")
    for key in ("template", "verbalizer", "label_words", "over_long", "chat"):
        setting, default = getattr(cell.prompt, key), getattr(rendered.USUAL, key)
        if setting != default:
            raise InputError(
                f"a dual encoder compares texts, cut at {spell('max_tokens')}, with the "
                f"task's label statements, and knows no {setting!r}; leave it at {default!r}.",
                key=key,
            )
    statement_of = partial(task.statement.replace, "{label}")
    return RowFormat(
        task.statement_fields,
        {"template": task.statement, "shown": ""},
        lambda row, _: "\n".join(row[field] for field in task.statement_fields),
        lambda row, _: row["input"],
        tuple((statement_of(task.statement_words[name]),) for name in task.label_names),
    )


def content_free(fields: Sequence[str]) -> list[Row]:
    """CC's rows: each content-free text in every field (Zhao et al. 2021, section 5).

    >>> content_free(["sentence"])
    [{'sentence': 'N/A'}, {'sentence': ''}, {'sentence': '[MASK]'}]
    """
    return [dict.fromkeys(fields, fill) for fill in CONTENT_FREE]


def random_words(
    rows: Sequence[Row], fields: Sequence[str], texts: int = 20, seed: int = 0
) -> list[Row]:
    """DC's rows: random in-domain words, per field, at the field's mean length in words.

    The bag holds every white-space word of the field in `rows`, so frequent words are drawn often
    (Fei et al. 2023; Zhou et al. 2024, app. D: 20 texts from the test inputs).
    """
    rng = np.random.default_rng([seed, 3])
    columns: dict[str, list[str]] = {}
    for field in fields:
        row_words = [row[field].split() for row in rows]
        bag = [*chain.from_iterable(row_words)] or [""]
        length = max(1, round(sum(map(len, row_words)) / len(row_words)))  # mean words of the field
        # `[texts, length]`, drawn with replacement.
        draws = rng.integers(len(bag), size=(texts, length))
        columns[field] = [_join_words(bag, draw) for draw in draws]
    # From a list of texts for each field to a row with all fields.
    return [dict(zip(fields, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def original_random_words(inputs: Sequence[str], seed: int = 0) -> list[str]:
    """The texts that the code of Fei et al. 2023 makes of whole test inputs (fywalter/label-bias).

    20 texts of floor(mean length) + 1 lower-cased words, drawn with replacement from the words of
    all inputs, and " ." at the end. They are drawn as the code draws them, so that a seed gives its
    very words for the same inputs.

    >>> len(original_random_words(["A fine film", "Dull"])[0].split())
    4
    """
    input_words = [text.lower().split() for text in inputs]
    bag = [*chain.from_iterable(input_words)] or [""]
    # Their code adds one where it rounds down.
    length = int(np.mean([*map(len, input_words)])) + 1
    # The legacy generator, as theirs: a new one would draw other words from the same seed.
    random = np.random.RandomState(seed)
    draws = [random.choice(len(bag), size=length) for _ in range(ORIGINAL_TEXTS)]
    return [_join_words(bag, draw) + " ." for draw in draws]


def _join_words(bag: Sequence[str], draw: np.ndarray) -> str:
    return " ".join(map(bag.__getitem__, draw))


def permuted_rows(rows: int, seed: int = 0) -> list[int]:
    """The test rows that PriDe permutes: 5 % of them at random, at least one, in their order.

    The published code shuffles all and takes the first 5 %.

    >>> len(permuted_rows(100)), permuted_rows(3) == permuted_rows(3)
    (5, True)
    """
    count = max(1, int(rows * PRIDE_SHARE))
    drawn = np.random.default_rng([seed, 6]).choice(rows, count, replace=False)
    # In their order, as a block's rows are.
    return sorted(drawn.tolist())


def cyclic_permutations(row: Row, options: Sequence[str]) -> list[Row]:
    """The row with its options' contents moved round: in the r-th, place j has that of j + r.

    >>> cyclic_permutations({"a": "one", "b": "two"}, ("a", "b"))
    [{'a': 'one', 'b': 'two'}, {'a': 'two', 'b': 'one'}]
    """
    contents = [row[option] for option in options]
    orders = [contents[shift:] + contents[:shift] for shift in range(len(options))]
    return [row | dict(zip(options, order, strict=True)) for order in orders]


def reversal(row: Row, options: Sequence[str]) -> list[Row]:
    """The row as it is, and with its options' contents from the last to the first.

    >>> reversal({"a": "one", "b": "two"}, ("a", "b"))[1]
    {'a': 'two', 'b': 'one'}
    """
    contents = [row[option] for option in options]
    return [row, row | dict(zip(options, contents[::-1], strict=True))]


def rendered_rows(rows: Rows, render: Render, shots: int, together: int = 1) -> BlockRows:
    """Rows that are all rendered in one way."""
    texts, labels, ids = rows.rows, rows.labels, rows.ids
    return BlockRows(lambda row, skip: render(texts[row], skip), labels, ids, shots, together)


def left_out(row_format: RowFormat, queries: Rows) -> BlockRows:
    """LOOC's rows: each demonstration asked as the input, the others shown before it.

    Where a context leaves out its first demonstrations, they are asked all the same.
    """

    def prompt(row: int, skip: int) -> str:
        # Its own demonstration is left out by place: another may have the same text.
        shown = [text for i, text in enumerate(row_format.shown) if i >= skip and i != row]
        assert row_format.compose is not None
        return row_format.compose(shown)(template.query(row_format.form, queries.rows[row]))

    return BlockRows(prompt, queries.labels, queries.ids, len(queries.rows) - 1)


def permuted(task: Task, cell: Cell, row_format: RowFormat, test: Rows) -> BlockRows:
    """Test rows with their options in several orders, all orders of a row together.

    The setting `option_orders` names the rows and the orders.
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
