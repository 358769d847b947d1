"""Cells of a table, and its forms in Markdown and LaTeX; names in them stay as they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.metrics import Estimate, deviation
from batch_calibration.reporting.frame import Frame, task_title
from batch_calibration.studies import Number, Record

LEARNED = "✓"  # behind a task that the model has learned
MARK = "*"  # behind a gain or a loss that exceeds noise
WINS = "wins, ties, losses"  # the name of what `wins_cell` counts
GREEK = {"γ": "gamma", "μ": "mu", "Σ": "Sigma"}  # letters of formulas, and what LaTeX calls them
LATEX = str.maketrans(
    dict(zip("&%$#_{}", (r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"), strict=True))
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"±": r"$\pm$", LEARNED: r"$\checkmark$", "\n": " "}
    | {letter: rf"$\{name}$" for letter, name in GREEK.items()}
)
MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in r"\`*[]<>|"})


class NumberCell(Number):
    """A number as it is printed, and where it has an interval, its three parts.

    Attributes:
        parts: the number, the interval with its brackets, and the mark behind them; else empty.
    """

    parts: tuple[str, ...] = ()


class Best(NumberCell):
    """A cell that is the best of its row: printed in bold."""


class Second(NumberCell):
    """A cell that is the second best of its row: underlined, in Markdown italic."""


class Sums(list[str]):
    """A row that sums up those above it."""


Samples = Sequence[ArrayLike]  # numbers, several of each or none
Marks = Sequence[type[NumberCell]]  # of the best, the second best, and so on
Column = TypeVar("Column")
Cells = list[list[str]]  # texts are names and counts, each `NumberCell` is a measured number


def task_cell(frame: Frame) -> str:
    """The task as papers print it, and the split that served where the one asked is missing."""
    context = frame.records[0].context
    title = task_title(context.task)
    return f"{title} ({context.served})" if context.served else title


def rows_cell(records: Sequence[Record]) -> str:
    """Test rows, and behind † the most of them that one context had to shorten."""
    # A row that is cut has lost its demonstrations first, so the counts are not added.
    counts = chain.from_iterable(record.over_long.get("test", {}).values() for record in records)
    shortened = max(counts, default=0)
    labeled, rows = records[0].labeled_rows, str(records[0].rows["test"])
    if str(labeled) != rows:
        rows = f"{labeled} labeled of {rows}"
    return f"{rows} †{shortened}" if shortened else rows


def estimate_cell(estimate: Estimate, mark: str = "", *, is_share: bool = False) -> NumberCell:
    """A difference in points, or a share in %, with its interval and perhaps a mark.

    >>> estimate_cell(Estimate(0.015, 0.002, 0.028), "*").parts
    ('+1.5', '[+0.2, +2.8]', '*')
    """
    sign = "" if is_share else "+"
    number, low, high = (f"{100 * end:{sign}.1f}" for end in estimate)
    cell = NumberCell(f"{number} [{low}, {high}]{mark}")
    cell.parts = number, f"[{low}, {high}]", mark
    return cell


def gain_cell(gain: Estimate | None) -> NumberCell:
    """A gain with its interval, and the mark where it exceeds noise; a dash of an unknown one."""
    return estimate_cell(gain, MARK * abs(gain.beyond_noise)) if gain else NumberCell("-")


def count_signs(gains: Iterable[Estimate]) -> tuple[int, int, int]:
    """Counts of gains above noise, within it, below it."""
    signs = [gain.beyond_noise for gain in gains]
    return signs.count(1), signs.count(0), signs.count(-1)


def wins_cell(gains: Iterable[Estimate]) -> str:
    """The same counts as a cell."""
    return ", ".join(map(str, count_signs(gains)))


def notes(records: Iterable[Record], *sentences: str) -> str:
    """The sentences that are not empty, then what a reader of these records must know, once."""
    paragraph = dict.fromkeys(filter(None, sentences))
    for record in records:
        paragraph |= dict.fromkeys(record.notes)
    return " ".join(paragraph)


def spread(values: np.ndarray, digits: int = 1) -> NumberCell:
    """The mean, and behind ± the standard deviation where there are several; of none a dash."""
    if not len(values):
        return NumberCell("-")
    mean = f"{values.mean():.{digits}f}"
    return NumberCell(mean if len(values) == 1 else f"{mean} ± {deviation(values):.{digits}f}")


def mark_best(
    numbers: Sequence[float | None], cells: Sequence[NumberCell], digits: int = 1, *,
    is_lowest: bool = False, marks: Marks = (Best,),
) -> list[NumberCell]:  # fmt: skip
    """The cells, with a mark on the highest numbers as rounded for print; None is never the best.

    With `is_lowest` the lowest are the best; `marks` are of the best, the second best, and so on.
    """
    rounded = [None if number is None else round(float(number), digits) for number in numbers]
    ranks = sorted({number for number in rounded if number is not None}, reverse=not is_lowest)
    mark_of: dict[float | None, type[NumberCell]] = dict(zip(ranks, marks, strict=False))
    marked = []
    for number, cell in zip(rounded, cells, strict=True):
        marked.append(mark_of.get(number, NumberCell)(cell))
        marked[-1].parts = cell.parts
    return marked


def best_of(
    samples: Samples, digits: int = 1, *, is_lowest: bool = False, marks: Marks = (Best,)
) -> list[NumberCell]:
    """A cell for each sample, a number or several or none: `spread`, marked by its mean."""
    arrays = [np.atleast_1d(np.asarray(sample, float)) for sample in samples]
    means = [array.mean() if len(array) else None for array in arrays]
    cells = [spread(array, digits) for array in arrays]
    return mark_best(means, cells, digits, is_lowest=is_lowest, marks=marks)


def rows_of_tasks(
    tasks: Mapping[str, Frame], columns: Sequence[str], cells_of: Callable[[str], Sequence[str]]
) -> Cells:
    """Header, and a row a task: its title, its test rows, its cells in these columns."""
    rows: Cells = [["task", "rows", *columns]]
    for task, frame in tasks.items():
        rows.append([task_cell(frame), rows_cell(frame.records), *cells_of(task)])
    return rows


def rows_of_methods(
    name: str, methods: Sequence[str], columns: Iterable[Column],
    sample_of: Callable[[Column, str], ArrayLike],
) -> Cells:  # fmt: skip
    """A row a method with its sample in each column; the best of each column is marked."""
    marked = []
    for column in columns:
        samples = [sample_of(column, method) for method in methods]
        marked.append(best_of(samples))
    return [[name, *row] for row in zip(methods, *marked, strict=True)]


def markdown(cells: Cells, note: str = "") -> str:
    """A pipe table, and below it a note."""

    def text(cell: str) -> str:
        plain = " ".join(cell.split()).translate(MARKDOWN)
        sign = "**" if isinstance(cell, Best) else "*" if isinstance(cell, Second) else ""
        return f"{sign}{plain}{sign}"

    lines = [f"| {' | '.join(map(text, row))} |" for row in cells]
    lines.insert(1, f"| --- |{' ---: |' * (len(cells[0]) - 1)}")
    return "\n".join([*lines, *(["", text(note)] if note else []), ""])


def latex(cells: Cells, note: str = "") -> str:
    """A booktabs table, a rule above its sums where there are any, and a note.

    The mark of a learned task is amssymb's.
    """

    def text(cell: str) -> str:
        plain = cell.translate(LATEX)
        if isinstance(cell, Second):
            return rf"\underline{{{plain}}}"
        return rf"\textbf{{{plain}}}" if isinstance(cell, Best) else plain

    header, *body = [" & ".join(map(text, row)) + r" \\" for row in cells]
    if sums := sum(isinstance(row, Sums) for row in cells):
        body.insert(len(body) - sums, r"\midrule")
    columns = "l" + "r" * (len(cells[0]) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *body]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {text(note)}"] if note else []
    return "\n".join([*lines, ""])
