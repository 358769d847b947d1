"""How good the probabilities are that corrected scores give: NLL, Brier score and ECE."""

from collections.abc import Iterator, Sequence

from batch_calibration.artifacts.cells import Best, Cells, named, tested
from batch_calibration.artifacts.grouping import SettingRecords

METRICS = {"nll": ("NLL", "nats"), "brier": ("Brier", "0 to 2"), "ece": ("ECE", "0 to 1")}
"""Metric -> what it is called, and its unit."""
NOTE = (
    "Lower is better. Of each row's scores the softmax over its labels is taken first, corrected "
    "or not, so these judge probabilities that add up to 1 over the labels. ECE is how far "
    "confidence is from accuracy; it is not label bias, which the corrections remove."
)


def tables(group: SettingRecords) -> Iterator[tuple[str, str, str, Cells]]:
    """What each is called in a file's name and in words, its unit, its cells; none of no method."""
    if methods(group):
        yield "probabilities", "Probabilities over the tasks", "", average_cells(group)
        for metric, (name, unit) in METRICS.items():
            yield metric, name, unit, task_cells(group, metric)


def methods(group: SettingRecords) -> list[str]:
    """Methods of which every record has all three."""
    return [
        name
        for name in group.methods
        if all(metric in one.methods[name] for metric in METRICS for one in group.every)
    ]


def average_cells(group: SettingRecords) -> Cells:
    """A row a method, each metric averaged over the tasks."""
    names = methods(group)
    columns = [_lowest([group.average(name, metric) for name in names]) for metric in METRICS]
    header = ["method", *(f"{name} ({unit})" for name, unit in METRICS.values())]
    return [header, *map(list, zip(names, *columns, strict=True))]


def task_cells(group: SettingRecords, metric: str) -> Cells:
    """Header, one row a task (mean over seeds), and the average of the tasks."""
    names = methods(group)
    rows: Cells = [["task", "rows", *names]]
    for task, records in group.records.items():
        values = [float(group.values(task, name, metric).mean()) for name in names]
        rows.append([named(task, records), tested(records), *_lowest(values)])
    return [*rows, ["average", "", *_lowest([group.average(name, metric) for name in names])]]


def _lowest(values: Sequence[float]) -> list[str]:
    """A cell for each value; the lowest, as printed, are the best."""
    best = min((round(value, 3) for value in values), default=0.0)
    return [Best(f"{x:.3f}") if round(x, 3) == best else f"{x:.3f}" for x in values]
