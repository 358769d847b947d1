"""The probe blocks of a context: which rows each method beyond the test batch learns from."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from batch_calibration.files import Json
from batch_calibration.prompts import probe_inputs, template
from batch_calibration.prompts.composing import Compose, Shown
from batch_calibration.settings import Cell
from batch_calibration.tasks import Row, Rows, Task

Render = Callable[[Row, int], str]
"""`(row, skip)` -> its prompt without the first `skip` demonstrations."""


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
    cc = probe_inputs.content_free(cc_fields)
    # Words of the test inputs, as in the paper: no label is read.
    dc = probe_inputs.random_words(rows, row_format.fields, prompt.dc_texts, cell.seed)
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
    cc = probe_inputs.content_free(("input",))
    filled = [template.fill(inputs, row) for row in rows]
    dc = [{"input": text} for text in probe_inputs.original_random_words(filled, cell.seed)]
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
        drawn = probe_inputs.permuted_rows(len(test.rows), cell.seed)
    move = probe_inputs.reversal if choice == "two" else probe_inputs.cyclic_permutations
    rows, ids, orders = [], [], 1
    for i in drawn:
        moved = move(test.rows[i], task.options)
        orders = len(moved)
        rows += moved
        ids += _numbered(test.ids[i], orders)
    return rendered_rows(rows, ids, row_format.render, len(row_format.shown), together=orders)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}/{i}" for i in range(count)]
