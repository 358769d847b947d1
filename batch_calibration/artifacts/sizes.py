"""Models of several sizes side by side, methods x tasks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells, Second, named, spread, tested
from batch_calibration.artifacts.grouping import Setting, SettingRecords
from batch_calibration.methods import METHODS
from batch_calibration.tasks import TASKS

NOTE = (
    "Best of each model in bold, second best underlined (in Markdown italic), as printed. "
    "Of several seeds mean ± standard deviation."
)


class Column(NamedTuple):
    """The records of one model that stand side by side with others', under a name."""

    name: str
    group: SettingRecords


def methods() -> list[str]:
    """The methods that the paper's tables of sizes compare: those that need no labels."""
    return [
        name
        for name, method in METHODS.items()
        if method.group == "paper" and not method.probe.labels and not method.in_order
    ]


def alike(
    groups: Sequence[SettingRecords], shots: int, models: Sequence[str] = ()
) -> list[list[SettingRecords]]:
    """Settings of text that differ in the model alone, those with the most tasks first.

    Args:
        groups: of which to choose.
        shots: per class.
        models: their order, smallest first; others come behind, by name.
    """
    found: dict[Setting, list[SettingRecords]] = {}
    for group in groups:
        setting = group.setting
        of_text = not any(task in TASKS and TASKS[task].is_image for task in group.records)
        if setting.shots == shots and of_text and len(group.among(methods())) > 1:
            same = setting._replace(model="", variant="")
            found.setdefault(same, []).append(group)

    def place(group: SettingRecords) -> tuple[int, str]:
        name = group.setting.model
        return models.index(name) if name in models else len(models), name

    several = [sorted(some, key=place) for some in found.values()]
    return sorted(several, key=lambda some: -len(some) * max(len(one.records) for one in some))


def first_seeds(group: SettingRecords) -> SettingRecords:
    """The group with one record a task, that of the first seed."""
    return group._replace(records={task: some[:1] for task, some in group.records.items()})


def cells(columns: Sequence[Column]) -> Cells:
    """Header, a row a task (accuracy in %), and the average over the tasks that a model has."""
    compared = [(one, one.group.among(methods())) for one in columns]
    tasks = list(dict.fromkeys(task for one in columns for task in one.group.records))
    order = [task for task in TASKS if task in tasks]
    order += [task for task in tasks if task not in TASKS]
    rows: Cells = [["task", "rows"]]
    rows[0] += [f"{one.name} {method}" for one, chosen in compared for method in chosen]
    for task in order:
        first = next(one.group.records[task] for one in columns if task in one.group.records)
        row = [named(task, first), tested(first)]
        for one, chosen in compared:
            if task in one.group.records:
                row += ranked([100 * one.group.values(task, method) for method in chosen])
            else:
                row += ["-"] * len(chosen)
        rows.append(row)
    last = ["average", ""]
    for one, chosen in compared:
        last += ranked([np.array([100 * one.group.average(method)]) for method in chosen])
    return [*rows, last]


def ranked(values: Sequence[np.ndarray]) -> list[str]:
    """A cell for each method's values, the best and the second best marked, as printed."""
    means = [round(float(one.mean()), 1) for one in values]
    ranks = sorted(set(means), reverse=True)
    marks = {mean: mark for mean, mark in zip(ranks, (Best, Second), strict=False)}
    return [marks.get(mean, str)(spread(one)) for mean, one in zip(means, values, strict=True)]
