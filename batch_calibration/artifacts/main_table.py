"""The main table: methods x tasks, mean and standard deviation over seeds, gain over ICL."""

from collections.abc import Callable, Sequence

from batch_calibration.artifacts import gains, learned
from batch_calibration.artifacts.cells import MARK, Best, Cells, best_of, named, tested
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, of_group
from batch_calibration.methods import Group
from batch_calibration.metrics import over_tasks

GAIN = "gain over icl"
"""The name of the row of average gains."""
SPREAD = "± is the standard deviation over draws of demonstrations (n - 1)."
"""The sentence on what stands behind a mean."""


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
    """Header, one row a task (`mean ± sd`, in %, over seeds), and rows that sum up the tasks.

    `note` says what the marks mean. The last `summary_rows` sum up: the average, and where gains
    are known the average gain over icl and on how many tasks it is beyond noise.
    """
    rows: Cells = [["task", "rows", *methods]]
    known, against = learned.learned(group), gains.compared(group, methods)
    each = {name: [gains.gain(group, task, name) for task in group.records] for name in against}
    for place, (task, records) in enumerate(group.records.items()):
        name = named(task, records) + f" {MARK}" * (task in known)
        values = best_of([100 * group.values(task, method) for method in methods])
        sure = [name in each and each[name][place].beyond_noise != 0 for name in methods]
        cells = [_marked(cell) if mark else cell for cell, mark in zip(values, sure, strict=True)]
        rows.append([name, tested(records), *cells])
    averages = [round(100 * group.average(method), 1) for method in methods]
    best = max(averages)
    cells = [Best(f"{value:.1f}") if value == best else f"{value:.1f}" for value in averages]
    rows.append(["average", "", *cells])
    if against:
        mean = {name: gains.marked(over_tasks(some)) for name, some in each.items()}
        wins = {name: gains.said(gains.verdicts(some)) for name, some in each.items()}
        rows.append([GAIN, "", *(mean.get(name, "") for name in methods)])
        rows.append([gains.WINS, "", *(wins.get(name, "") for name in methods)])
    return rows


def summary_rows(group: SettingRecords, methods: Sequence[str]) -> int:
    """How many rows at the end of `accuracy_cells` sum up the others."""
    return 3 if gains.compared(group, methods) else 1


def note(group: SettingRecords, methods: Sequence[str]) -> str:
    """The sentences below the table: what its marks mean, and how sure its gains are."""
    sure = gains.note(group) if gains.compared(group, methods) else ""
    several = any(len(records) > 1 for records in group.records.values())
    return " ".join(filter(None, (SPREAD if several else "", learned.note(group), sure)))


def _marked(cell: str) -> str:
    """The cell with the mark of what is beyond noise, as bold as it was."""
    return type(cell)(f"{cell} {gains.MARK}")
