"""The paper's main table: methods x tasks, mean and standard deviation over seeds."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from batch_calibration.artifacts.learned import MARK, learned
from batch_calibration.artifacts.study import Record, Study, title

Cells = list[list[str]]


def accuracy_cells(study: Study, methods: Sequence[str]) -> Cells:
    """Header, one row a task (`mean ± sd`, in %, over seeds), and the average of the tasks.

    The best of a row is in `**`. The standard deviation is the sample's (n - 1), as papers print.
    `learned.note` says what the mark behind a task means.
    """
    rows, known = [["task", "rows", *methods]], learned(study)
    for task, records in study.records.items():
        values = {method: 100 * study.values(task, method) for method in methods}
        best = max(round(v.mean(), 1) for v in values.values())
        rows.append(
            [named(task, records) + f" {MARK}" * (task in known), tested(records)]
            + [bold(spread(v), round(v.mean(), 1) == best) for v in values.values()]
        )
    averages = {method: round(100 * study.average(method), 1) for method in methods}
    rows.append(
        ["average", ""] + [bold(f"{v:.1f}", v == max(averages.values())) for v in averages.values()]
    )
    return rows


def named(task: str, records: Sequence[Record]) -> str:
    """The task as papers print it, and the split that served where the one asked is missing."""
    served = records[0]["context"].get("served")
    return f"{title(task)} ({served})" if served else title(task)


def tested(records: Sequence[Record]) -> str:
    """Test rows, and behind † the most of them that one context had to shorten."""
    counts = [record.get("over_long", {}).get("test", {}) for record in records]
    # A row that is cut has lost its demonstrations first.
    shortened = max(max(found.values(), default=0) for found in counts)
    rows = str(records[0]["rows"]["test"])
    return f"{rows} †{shortened}" if shortened else rows


def spread(values: np.ndarray) -> str:
    """The mean, and behind ± the sample's standard deviation where there are several values."""
    mean = f"{values.mean():.1f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.1f}"


def bold(text: str, best: bool) -> str:
    """The text, between two stars where it is the best."""
    return f"**{text}**" if best else text


def markdown(cells: Cells, note: str = "") -> str:
    """A pipe table, and below it a note."""
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    rule = "|" + "|".join([" --- "] + [" ---: "] * (len(cells[0]) - 1)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n" + (f"\n{note}\n" if note else "")


def latex(cells: Cells, note: str = "", last: int = 1) -> str:
    """A booktabs table with a rule above its `last` rows, and below it a note.

    The mark of a learned task is amssymb's.
    """

    def cell(text: str) -> str:
        bold = text.startswith("**")
        text = text.strip("*").replace("_", r"\_").replace("%", r"\%")
        text = text.replace(" ± ", r" $\pm$ ").replace(MARK, r"$\checkmark$")
        return rf"\textbf{{{text}}}" if bold else text

    below = [rf"\par\footnotesize {cell(note)}"] if note else []
    body = [" & ".join(map(cell, row)) + r" \\" for row in cells]
    columns = "l" + "r" * (len(cells[0]) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:-last],
         r"\midrule", *body[-last:], r"\bottomrule", r"\end{tabular}", *below, ""]
    )  # fmt: skip


def plain_csv(cells: Cells) -> str:
    """The cells as they are, without stars."""
    out = io.StringIO()
    rows = [[cell.strip("*") for cell in row] for row in cells]
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def long_csv(study: Study) -> str:
    """One line per task, seed, method and metric: everything that was measured."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "shots", "task", "seed", "rows", "method", "metric", "value"])
    for task, records in study.records.items():
        for record in records:
            for method, metrics in record["methods"].items():
                writer.writerows(
                    [study.setting.model, study.setting.shots, task, record["context"]["seed"],
                     record["rows"]["test"], method, metric, f"{value:.6g}"]
                    for metric, value in metrics.items()
                )  # fmt: skip
    return out.getvalue()
