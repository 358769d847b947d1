"""Tables of methods x tasks: accuracy with the gain over ICL, and the quality of probabilities."""

from collections.abc import Iterator, Sequence

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import LEARNED, Cells, best_of, rows_cell, task_cell
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, methods_of_group
from batch_calibration.methods import Group

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


def table_methods(group: SettingRecords, kind: Group) -> list[str]:
    """Methods of a group's table; all but the paper's stand beside icl and bc."""
    methods = group.among(methods_of_group(kind))
    if kind == "paper" or not methods:
        return methods
    return group.among([*REFERENCES, *methods])


def accuracy_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Header, one row a task (`mean ± sd`, in %, over seeds), and rows that sum up the tasks.

    `accuracy_note` says what the marks mean. The last `summary_rows` sum up: the average, and where
    gains are known the average gain over icl and on how many tasks it is beyond noise.
    """
    rows: Cells = [["task", "rows", *methods]]
    learned, compared = gains.learned_tasks(group), gains.compared(group, methods)
    by_method = {method: gains.gain_by_task(group, method) for method in compared}
    for task, records in group.records.items():
        cells = best_of([100 * group.values(task, method) for method in methods])
        for i, method in enumerate(methods):
            if method in by_method and by_method[method][task].beyond_noise:
                # The mark is as bold as its cell.
                cells[i] = type(cells[i])(f"{cells[i]} {gains.MARK}")
        name = task_cell(task, records) + f" {LEARNED}" * (task in learned)
        rows.append([name, rows_cell(records), *cells])
    rows.append(["average", "", *best_of([100 * group.average(method) for method in methods])])
    return rows + (gains.sum_rows(GAIN, methods, by_method) if compared else [])


def summary_rows(group: SettingRecords, methods: Sequence[str]) -> int:
    """How many rows at the end of `accuracy_cells` sum up the others."""
    return 3 if gains.compared(group, methods) else 1


def accuracy_note(group: SettingRecords, methods: Sequence[str]) -> str:
    """The sentences below the table: what its marks mean, and how sure its gains are."""
    sentences = [SPREAD if gains.max_seeds(group) > 1 else "", gains.learned_note(group)]
    if gains.compared(group, methods):
        sentences.append(gains.note(group))
    return " ".join(filter(None, sentences))


def probability_tables(group: SettingRecords) -> Iterator[tuple[str, str, str, Cells]]:
    """What each is called in a file's name and in words, its unit, its cells; none of no method."""
    if not probability_methods(group):
        return
    yield "probabilities", "Probabilities over the tasks", "", probability_averages(group)
    for metric, (name, unit) in PROBABILITIES.items():
        yield metric, name, unit, probability_cells(group, metric)


def probability_methods(group: SettingRecords) -> list[str]:
    """Methods of which every record has all three."""
    methods = list(group.methods)
    for record in group.all_records:
        methods = [name for name in methods if PROBABILITIES.keys() <= record.methods[name].keys()]
    return methods


def probability_averages(group: SettingRecords) -> Cells:
    """A row a method, each metric averaged over the tasks."""
    methods, header, columns = probability_methods(group), ["method"], []
    for metric, (name, unit) in PROBABILITIES.items():
        header.append(f"{name} ({unit})")
        averages = [group.average(method, metric) for method in methods]
        columns.append(best_of(averages, 3, is_lowest=True))
    return [header, *map(list, zip(methods, *columns, strict=True))]


def probability_cells(group: SettingRecords, metric: str) -> Cells:
    """Header, one row a task (mean over seeds), and the average of the tasks."""
    methods = probability_methods(group)
    rows: Cells = [["task", "rows", *methods]]
    for task, records in group.records.items():
        means = [group.values(task, method, metric).mean() for method in methods]
        cells = best_of(means, 3, is_lowest=True)
        rows.append([task_cell(task, records), rows_cell(records), *cells])
    averages = [group.average(method, metric) for method in methods]
    return [*rows, ["average", "", *best_of(averages, 3, is_lowest=True)]]
