"""Tables of methods x tasks: accuracy with the gain over ICL, and the quality of probabilities."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.reporting import cells, gains
from batch_calibration.reporting.cells import Cell, Cells, Sums, best_of, rows_of_tasks
from batch_calibration.reporting.grouping import BASELINE, REFERENCES, SettingRecords

# The sentence on what stands behind a mean.
SPREAD = "± is the standard deviation over draws of demonstrations (n - 1)."
# Metric of probabilities -> what it is called, and its unit.
PROBABILITIES = {"nll": ("NLL", "nats"), "brier": ("Brier", "0 to 2"), "ece": ("ECE", "0 to 1")}
PROBABILITIES_NOTE = (
    "Lower is better. Of each row's scores the softmax over its labels is taken first, corrected "
    "or not, so these judge probabilities that add up to 1 over the labels. ECE is how far "
    "confidence is from accuracy; it is not label bias, which the corrections remove."
)
BCL_NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."


def _percents(samples: Sequence[ArrayLike]) -> list[Cell]:
    """Accuracies in %, `mean ± sd` over seeds."""
    return best_of([100 * np.asarray(sample) for sample in samples])


def _lowest_best(samples: Sequence[ArrayLike]) -> list[Cell]:
    """Means of a metric of probabilities."""
    return best_of([np.asarray(sample).mean() for sample in samples], digits=3, is_lowest=True)


def _metric_cells(
    group: SettingRecords, methods: Sequence[str], metric: str,
    mark: Callable[[Sequence[ArrayLike]], list[Cell]],
) -> Cells:  # fmt: skip
    """Header, a row a task, and the average over the tasks."""

    def cells_of(task: str) -> list[Cell]:
        return mark([group.values(task, method, metric) for method in methods])

    averages = mark([group.average(method, metric) for method in methods])
    return [*rows_of_tasks(group.records, methods, cells_of), Sums(["average", "", *averages])]


def accuracy_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Accuracies with the marks that `accuracy_note` explains, and sums of the known gains.

    These are the average gain over icl, and on how many tasks it is beyond noise.
    """
    if not methods:
        return []
    rows, learned = _metric_cells(group, methods, "accuracy", _percents), gains.learned_tasks(group)
    compared = gains.compared(group, methods)
    by_method = {method: gains.gain_by_task(group, method) for method in compared}
    for task, row in zip(group.records, rows[1:], strict=False):
        row[0] += f" {cells.LEARNED}" * (task in learned)
        for i, method in enumerate(methods, 2):
            if method in by_method and by_method[method][task].beyond_noise:
                # The mark is as bold as its cell.
                row[i] = type(row[i])(f"{row[i]} {gains.MARK}")
    return rows + (_sum_rows("gain over icl", methods, by_method) if compared else [])


def accuracy_note(group: SettingRecords, methods: Sequence[str]) -> str:
    """The sentences below the table: what its marks mean, and how sure its gains are."""
    sentences = [SPREAD if gains.max_seeds(group) > 1 else "", gains.learned_note(group)]
    if gains.compared(group, methods):
        sentences.append(gains.note(group))
    return " ".join(filter(None, sentences))


def gain_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Header, one row a task, their average, and on how many tasks a method wins and loses.

    Methods whose gain is not known are left out; nothing where that is none's.
    """
    methods = gains.compared(group, methods)
    if not methods:
        return []
    by_method = {method: gains.gain_by_task(group, method) for method in methods}

    def cells_of(task: str) -> list[Cell]:
        return [gains.gain_cell(by_task[task]) for by_task in by_method.values()]

    rows = rows_of_tasks(group.records, methods, cells_of)
    return [*rows, *_sum_rows("average", methods, by_method)]


def _sum_rows(
    name: str, methods: Sequence[str], by_method: Mapping[str, Mapping[str, Estimate]]
) -> Cells:
    """Two rows: average gains, under this name, and wins, ties, losses."""
    sums = [_sum_cells(by_method.get(method, {})) for method in methods]
    means, wins = zip(*sums, strict=True)
    return [Sums([name, "", *means]), Sums([gains.WINS, "", *wins])]


def _sum_cells(by_task: Mapping[str, Estimate]) -> tuple[str, str]:
    """The mean over tasks, and wins, ties, losses; empty where no gain is known."""
    if not by_task:
        return "", ""
    estimates = list(by_task.values())
    return gains.gain_cell(over_tasks(estimates)), gains.count_verdicts(estimates)


def overview_cells(group: SettingRecords) -> Cells:
    """A row a method: accuracy and gain, averages over the tasks, and tasks gained and lost."""
    methods = gains.compared(group, group.methods)
    if not methods:
        return []
    rows: Cells = [["method", "accuracy", "gain over icl", gains.WINS]]
    means = [gains.mean_accuracy(group, method) for method in (BASELINE, *methods)]
    shown = [cells.estimate_cell(mean, is_share=True) for mean in means]
    marked = cells.mark_best([100 * mean.value for mean in means], shown)
    for method, cell in zip((BASELINE, *methods), marked, strict=True):
        by_task = gains.gain_by_task(group, method) if method != BASELINE else {}
        rows.append([method, cell, *_sum_cells(by_task)])
    return rows


def overview_csv(group: SettingRecords) -> Cells:
    """One line per task and method, and of all tasks: accuracy and gain, 0 to 1, and their ends."""
    rows: Cells = [["task", "method", "metric", "value", "low", "high"]]
    methods = gains.compared(group, group.methods)
    for metric, measure, names in (
        ("accuracy", gains.accuracy, [BASELINE, *methods]),
        ("gain", gains.gain, methods),
    ):
        for method in names:
            estimates = {task: measure(group, task, method) for task in group.records}
            estimates["average"] = over_tasks(list(estimates.values()))
            for task, estimate in estimates.items():
                rows.append([task, method, metric, *map("{:.6g}".format, estimate)])
    return rows


def _probability_methods(group: SettingRecords) -> list[str]:
    """Methods of which every record has all three metrics."""
    methods = list(group.methods)
    for record in group.all_records:
        methods = [name for name in methods if PROBABILITIES.keys() <= record.methods[name].keys()]
    return methods


def probability_averages(group: SettingRecords) -> Cells:
    """A row a method, each metric averaged over the tasks; nothing of no method."""
    methods, columns = _probability_methods(group), []
    for metric in PROBABILITIES:
        averages = [group.average(method, metric) for method in methods]
        columns.append(_lowest_best(averages))
    header = ["method", *(f"{name} ({unit})" for name, unit in PROBABILITIES.values())]
    return [header, *map(list, zip(methods, *columns, strict=True))] if methods else []


def probability_cells(group: SettingRecords, metric: str) -> Cells:
    """Header, one row a task (mean over seeds), and the average; nothing of no method."""
    methods = _probability_methods(group)
    return _metric_cells(group, methods, metric, _lowest_best) if methods else []


def bcl_cells(group: SettingRecords) -> Cells:
    """BCL: a row a task with the learned strength, the average; nothing without a curve."""
    group = group.first_seeds()
    learned = group.among([name for name, method in METHODS.items() if method.has_curve])
    if not learned or not group.records:
        return []
    methods = group.among([*REFERENCES, *learned])
    rows = _metric_cells(group, methods, "accuracy", _percents)
    strengths = [record.strength for record in group.all_records]
    column = ["-" if strength is None else f"{strength:+.1f}" for strength in strengths]
    for row, cell in zip(rows, ["γ learned", *column, ""], strict=True):
        row.append(cell)
    return rows
