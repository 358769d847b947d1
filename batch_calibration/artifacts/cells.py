"""Cells of a table, and their forms: Markdown, LaTeX, CSV; names in them stay what they are."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from batch_calibration.artifacts.grouping import title
from batch_calibration.metrics import deviation
from batch_calibration.store import Record, csv_text

MARK = "✓"
"""What stands behind a task that the model has learned."""


GREEK = {"γ": "gamma", "μ": "mu", "Σ": "Sigma"}
"""Letters of formulas, and what LaTeX calls them."""
LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"±": r"$\pm$", MARK: r"$\checkmark$", "\n": " "}
    | {sign: rf"$\{name}$" for sign, name in GREEK.items()}
)


class Best(str):
    """A cell that is the best of its row: printed in bold."""


class Second(str):
    """A cell that is the second best of its row: underlined, in Markdown italic."""


Cells = list[list[str]]


def named(task: str, records: Sequence[Record]) -> str:
    """The task as papers print it, and the split that served where the one asked is missing."""
    served = records[0].context.served
    return f"{title(task)} ({served})" if served else title(task)


def tested(records: Sequence[Record]) -> str:
    """Test rows, and behind † the most of them that one context had to shorten."""
    counts = [record.over_long.get("test", {}) for record in records]
    # A row that is cut has lost its demonstrations first.
    shortened = max(max(found.values(), default=0) for found in counts)
    rows = str(records[0].rows["test"])
    return f"{rows} †{shortened}" if shortened else rows


def notes(records: Iterable[Record]) -> str:
    """What a reader of a table of these records must know, each sentence once."""
    return " ".join(dict.fromkeys(note for record in records for note in record.notes))


def spread(values: np.ndarray) -> str:
    """The mean, and behind ± the standard deviation where there are several values."""
    mean = f"{values.mean():.1f}"
    return mean if len(values) == 1 else f"{mean} ± {deviation(values):.1f}"


def best_of(values: Sequence[np.ndarray]) -> list[str]:
    """A cell for each method's values; the highest means, as printed, are the best."""
    best = max(round(float(one.mean()), 1) for one in values)
    return [
        Best(spread(one)) if round(float(one.mean()), 1) == best else spread(one) for one in values
    ]


def markdown(cells: Cells, note: str = "") -> str:
    """A pipe table, and below it a note."""

    def text(cell: str) -> str:
        plain = re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(cell.split()))
        sign = "**" if isinstance(cell, Best) else "*" if isinstance(cell, Second) else ""
        return f"{sign}{plain}{sign}"

    rows = [list(map(text, row)) for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "|".join([" --- "] + [" ---: "] * (len(cells[0]) - 1)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n" + (f"\n{text(note)}\n" if note else "")


def latex(cells: Cells, note: str = "", last: int = 1) -> str:
    """A booktabs table with a rule above its `last` rows, if there are any, and below it a note.

    The mark of a learned task is amssymb's.
    """

    def text(cell: str) -> str:
        plain = cell.translate(LATEX)
        if isinstance(cell, Second):
            return rf"\underline{{{plain}}}"
        return rf"\textbf{{{plain}}}" if isinstance(cell, Best) else plain

    below = [rf"\par\footnotesize {text(note)}"] if note else []
    body = [" & ".join(map(text, row)) + r" \\" for row in cells]
    if last:
        body.insert(len(body) - last, r"\midrule")
    columns = "l" + "r" * (len(cells[0]) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:],
         r"\bottomrule", r"\end{tabular}", *below, ""]
    )  # fmt: skip


def plain_csv(cells: Cells) -> str:
    """The cells, one line a row."""
    return csv_text(cells)
