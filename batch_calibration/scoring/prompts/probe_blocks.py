"""The probe blocks of a context: empty inputs, random words and other orders, and their prompts."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from batch_calibration.files import Json
from batch_calibration.scoring.prompts import template
from batch_calibration.scoring.prompts.composing import Compose, Shown
from batch_calibration.scoring.tasks import Row, Rows, Task
from batch_calibration.settings import Cell

Render = Callable[[Row, int], str]
"""`(row, skip)` -> its prompt without the first `skip` demonstrations."""
CONTENT_FREE = ("N/A", "", "[MASK]")
ORIGINAL_TEXTS = 20  # random-word texts in the code of Fei et al.
PRIDE_SHARE = 0.05
"""Of the test rows, the share whose options are permuted: that of PriDe's main results."""


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
    return " ".join(bag[i] for i in draw)


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


class RowFormat(NamedTuple):
    """How rows become texts: `fill` renders a row of one field, `input`, the whole input part.

    `template`, `shown`, the demonstrations, and `compose`, which puts them and a query together,
    are of prompts; a dual encoder has none of them.
    """

    fields: tuple[str, ...]
    context: dict[str, Json]
    render: Render
    fill: Render
    labels: tuple[tuple[str, ...], ...]
    template: str = ""
    shown: Sequence[Shown] = ()
    compose: Compose | None = None


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
        """How many rows there are."""
        return len(self.ids)


def rendered_rows(
    rows: Sequence[Row],
    ids: Sequence[str],
    render: Render,
    shots: int,
    labels: Sequence[int] | None = None,
    together: int = 1,
) -> BlockRows:
    """Rows that are all rendered in one way; labels that are not given are unknown."""
    labels = [-1] * len(rows) if labels is None else labels
    return BlockRows(lambda row, skip: render(rows[row], skip), labels, ids, shots, together)


def probes(cell: Cell, row_format: RowFormat, rows: Sequence[Row]) -> dict[str, BlockRows]:
    """CC's and DC's rows, as the paper describes them."""
    prompt, shots = cell.prompt, len(row_format.shown)
    fills_whole_input = prompt.cc_fill == "whole_input"
    cc_fields = ("input",) if fills_whole_input else row_format.fields
    cc_render = row_format.fill if fills_whole_input else row_format.render
    cc = content_free(cc_fields)
    # Words of the test inputs, as in the paper: no label is read.
    dc = random_words(rows, row_format.fields, prompt.dc_texts, cell.seed)
    return {
        "cc": rendered_rows(cc, _numbered("cc", len(cc)), cc_render, shots),
        "dc": rendered_rows(dc, _numbered(f"dc/{cell.seed}", len(dc)), row_format.render, shots),
    }


def original_probes(cell: Cell, row_format: RowFormat, rows: Sequence[Row]) -> dict[str, BlockRows]:
    """The rows of CC and DC as the published code makes them, which fills the whole input.

    In the tasks of two texts that Zhao et al. 2021 (tonyzhaozh/few-shot-learning) and Fei et al.
    2023 (fywalter/label-bias) share with the paper, the two and the words between them are one
    input: "N/A" stands once, and random words are drawn from all of it. Fei et al. have one task,
    of medical questions, whose texts are filled one by one.
    """
    shots, inputs = len(row_format.shown), template.input_part(row_format.template)
    # One field, which takes the place of the whole input.
    cc = content_free(("input",))
    filled = [template.fill(inputs, row) for row in rows]
    dc = [{"input": text} for text in original_random_words(filled, cell.seed)]
    dc_ids = _numbered(f"dc_original/{cell.seed}", len(dc))
    cc_ids = _numbered("cc_original", len(cc))
    return {
        "dc_original": rendered_rows(dc, dc_ids, row_format.fill, shots),
        "cc_original": rendered_rows(cc, cc_ids, row_format.fill, shots),
    }


def domain_premise(row_format: RowFormat) -> BlockRows:
    """DC-PMI's one prompt, the template after its input, without demonstrations."""
    premise = template.domain_premise(row_format.template)
    if row_format.compose is not None:
        premise = row_format.compose(premise, ())
    return BlockRows(lambda row, skip: premise, [-1], ["pmi"], 0)


def left_out(row_format: RowFormat, train: Rows, chosen: Sequence[int]) -> BlockRows:
    """LOOC's rows: each demonstration asked as the input, the others shown before it.

    Where a context leaves out its first demonstrations, they are asked all the same.
    """
    queries = train.pick(chosen)

    def prompt(row: int, skip: int) -> str:
        # Its own demonstration is left out by place: another may have the same text.
        shown = [text for i, text in enumerate(row_format.shown) if i >= skip and i != row]
        assert row_format.compose is not None
        return row_format.compose(template.query(row_format.template, queries.rows[row]), shown)

    return BlockRows(prompt, queries.labels, queries.ids, len(chosen) - 1)


def permuted(task: Task, cell: Cell, row_format: RowFormat, test: Rows) -> BlockRows:
    """Test rows with their options in several orders, those of one row after each other.

    The rows and the orders are those that the setting `option_orders` names.
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
    return rendered_rows(rows, ids, row_format.render, len(row_format.shown), together=orders)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}/{i}" for i in range(count)]
