"""The main table: methods x tasks, mean and standard deviation over seeds."""

from collections.abc import Callable, Sequence

from batch_calibration.artifacts.cells import MARK, Best, Cells, best_of, named, tested
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, of_group
from batch_calibration.artifacts.learned import learned
from batch_calibration.methods import Group


def compared(group: SettingRecords) -> list[str]:
    """Methods of the table of the paper's comparison."""
    return group.compared


def beside(kind: Group) -> Callable[[SettingRecords], list[str]]:
    """Methods of another group's table, which stand beside icl and bc."""

    def methods(group: SettingRecords) -> list[str]:
        others = group.among(of_group(kind))
        return group.among([*REFERENCES, *others]) if others else []

    return methods


def accuracy_cells(group: SettingRecords, methods: Sequence[str]) -> Cells:
    """Header, one row a task (`mean ± sd`, in %, over seeds), and the average of the tasks.

    The standard deviation is the sample's (n - 1), as papers print. `learned.note` says what the
    mark behind a task means.
    """
    rows: Cells = [["task", "rows", *methods]]
    known = learned(group)
    for task, records in group.records.items():
        name = named(task, records) + f" {MARK}" * (task in known)
        values = [100 * group.values(task, method) for method in methods]
        rows.append([name, tested(records), *best_of(values)])
    averages = [round(100 * group.average(method), 1) for method in methods]
    best = max(averages)
    cells = [Best(f"{value:.1f}") if value == best else f"{value:.1f}" for value in averages]
    return [*rows, ["average", "", *cells]]
