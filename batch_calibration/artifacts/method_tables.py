"""Tables of methods x tasks: accuracy with the gain over ICL, and the quality of probabilities."""

from collections.abc import Callable, Sequence
from functools import partial

from numpy.typing import ArrayLike

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import LEARNED, Cell, Cells, Sums, best_of, rows_of_tasks
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, methods_of_group
from batch_calibration.methods import METHODS, Group

GAIN = "gain over icl"  # the name of the row of average gains
# The sentence on what stands behind a mean.
SPREAD = "± is the standard deviation over draws of demonstrations (n - 1)."
# Metric of probabilities -> what it is called, and its unit.
PROBABILITIES = {"nll": ("NLL", "nats"), "brier": ("Brier", "0 to 2"), "ece": ("ECE", "0 to 1")}
PROBABILITIES_NOTE = (
    "Lower is better. Of each row's scores the softmax over its labels is taken first, corrected "
    "or not, so these judge probabilities that add up to 1 over the labels. ECE is how far "
    "confidence is from accuracy; it is not label bias, which the corrections remove."
)
LOWEST_BEST = partial(best_of, digits=3, is_lowest=True)  # cells of such metrics
BCL_NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."


def table_methods(group: SettingRecords, kind: Group) -> list[str]:
    """Methods of a group's table; all but the paper's stand beside icl and bc."""
    methods = group.among(methods_of_group(kind))
    if kind == "paper" or not methods:
        return methods
    return group.among([*REFERENCES, *methods])


def _with_average(
    group: SettingRecords,
    methods: Sequence[str],
    measure: Callable[[str, str], ArrayLike],
    average: Callable[[str], float],
    mark: Callable[[Sequence[ArrayLike]], list[Cell]] = best_of,
) -> Cells:
    """Header, a row a task of what is measured of each method, and the average of the tasks."""

    def cells_of(task: str) -> list[Cell]:
        return mark([measure(task, method) for method in methods])

    rows = rows_of_tasks(group.records, methods, cells_of)
    return [*rows, Sums(["average", "", *mark(list(map(average, methods)))])]


def mean_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Accuracies in %, `mean ± sd` over seeds, and their average over the tasks."""
    return _with_average(
        group, methods, lambda task, method: 100 * group.values(task, method),
        lambda method: 100 * group.average(method),
    )  # fmt: skip


def accuracy_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Those, with the marks that `accuracy_note` explains, and sums of the gains that are known.

    These are the average gain over icl, and on how many tasks it is beyond noise.
    """
    if not methods:
        return []
    rows, learned = mean_cells(group, methods), gains.learned_tasks(group)
    compared = gains.compared(group, methods)
    by_method = {method: gains.gain_by_task(group, method) for method in compared}
    for task, row in zip(group.records, rows[1:], strict=False):
        row[0] += f" {LEARNED}" * (task in learned)
        for i, method in enumerate(methods, 2):
            if method in by_method and by_method[method][task].beyond_noise:
                # The mark is as bold as its cell.
                row[i] = type(row[i])(f"{row[i]} {gains.MARK}")
    return rows + (gains.sum_rows(GAIN, methods, by_method) if compared else [])


def accuracy_note(group: SettingRecords, methods: Sequence[str]) -> str:
    """The sentences below the table: what its marks mean, and how sure its gains are."""
    sentences = [SPREAD if gains.max_seeds(group) > 1 else "", gains.learned_note(group)]
    if gains.compared(group, methods):
        sentences.append(gains.note(group))
    return " ".join(filter(None, sentences))


def probability_methods(group: SettingRecords) -> list[str]:
    """Methods of which every record has all three."""
    methods = list(group.methods)
    for record in group.all_records:
        methods = [name for name in methods if PROBABILITIES.keys() <= record.methods[name].keys()]
    return methods


def probability_averages(group: SettingRecords) -> Cells:
    """A row a method, each metric averaged over the tasks; nothing of no method."""
    methods, columns = probability_methods(group), []
    for metric in PROBABILITIES:
        averages = [group.average(method, metric) for method in methods]
        columns.append(LOWEST_BEST(averages))
    header = ["method", *(f"{name} ({unit})" for name, unit in PROBABILITIES.values())]
    return [header, *map(list, zip(methods, *columns, strict=True))] if methods else []


def probability_cells(group: SettingRecords, metric: str) -> Cells:
    """Header, one row a task (mean over seeds), and the average; nothing of no method."""
    methods = probability_methods(group)
    return _with_average(
        group, methods, lambda task, method: group.values(task, method, metric).mean(),
        lambda method: group.average(method, metric), LOWEST_BEST,
    ) if methods else []  # fmt: skip


def bcl_cells(group: SettingRecords) -> Cells:
    """BCL: a row a task with the learned strength, the average; nothing without a curve."""
    group = group.first_seeds()
    learned = group.among([name for name, method in METHODS.items() if method.has_curve])
    if not learned or not group.records:
        return []
    rows = mean_cells(group, group.among([*REFERENCES, *learned]))
    strengths = [record.strength for record in group.all_records]
    column = ["-" if strength is None else f"{strength:+.1f}" for strength in strengths]
    for row, cell in zip(rows, ["γ learned", *column, ""], strict=True):
        row.append(cell)
    return rows
