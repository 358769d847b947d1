"""Two-way tables: accuracy over models and tasks, and over two choices of the prompt at once."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from batch_calibration.methods import METHODS
from batch_calibration.reporting import cells, grouping
from batch_calibration.reporting.cells import Best, Cell, Cells, Second, Sums, best_of
from batch_calibration.reporting.grouping import REFERENCES, VARIED, Setting, SettingRecords
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record

SHOTS = "shots"
# What a choice of the prompt is called where it is the task's own, or the default.
OWN = {"selection": "per_class", "order": "as drawn", "template": "own", "verbalizer": "own"}
MODELS_NOTE = (
    "Means over seeds; the tables of each setting say how far these vary. The best of each model "
    "and task is marked. An average is over the tasks that all models have."
)
SIZES_NOTE = (
    "Best of each model in bold, second best underlined (in Markdown italic), as printed. "
    "Of several seeds mean ± standard deviation."
)


class Models(NamedTuple):
    """Settings that differ in the model alone."""

    slug: str  # part of a file name
    heading: str  # what the table shows
    note: str  # the sentences below it
    groups: list[SettingRecords]
    tasks: list[str]  # those that any model has; those that are none of ours by name


def find_models(groups: Iterable[SettingRecords]) -> list[Models]:
    """Settings of two models or more, with two tasks or more."""
    families = grouping.group_by(
        groups, lambda group: group.setting._replace(model="", scorer="", variant="")
    )
    several = []
    for setting, family in families.items():
        tasks = grouping.sort_tasks(sorted(set().union(*(group.records for group in family))))
        if len(family) > 1 and len(tasks) > 1:
            shared = setting._replace(model=setting.data or "unnamed data")
            slug, heading = f"{shared.slug}-models", f"Models on {shared}"
            several.append(Models(slug, heading, MODELS_NOTE, family, tasks))
    return several


def model_cells(models: Models) -> Cells:
    """Header, then a row for each model and method of the paper's comparison: accuracy in %."""
    tasks = models.tasks
    rows: Cells = [["model", "method", *map(grouping.task_title, tasks), "average"]]
    of_all = set(tasks).intersection(*(group.records for group in models.groups))
    shared = list(filter(of_all.__contains__, tasks))
    # The last column is the average over the tasks that all models have.
    columns = [*([task] for task in tasks), shared]
    for group in models.groups:
        name = f"{group.setting.model or 'unnamed'} {group.setting.variant}".rstrip()
        mean = partial(_mean_of_tasks, group)
        rows += cells.rows_of_methods(name, group.paper_methods, columns, mean)
    return rows


def _mean_of_tasks(group: SettingRecords, tasks: Sequence[str], method: str) -> list[float]:
    """The accuracy in %, mean over seeds, then over the tasks that there are; of none nothing."""
    present = filter(group.records.__contains__, tasks)
    means = [100 * group.values(task, method).mean() for task in present]
    return [float(np.mean(means))] if means else []


def compared_by_size() -> list[str]:
    """The methods that the paper's tables of sizes compare: those that need no labels."""
    methods = []
    for name, method in METHODS.items():
        if method.group == "paper" and not method.probe.labels and not method.in_order:
            methods.append(name)
    return methods


def sizes(
    groups: Sequence[SettingRecords], shots: int, models: Sequence[str] = ()
) -> list[list[SettingRecords]]:
    """Settings of text that differ in the model alone, those with the most tasks first.

    `models` are names, smallest first; others come behind, by name.
    """
    compared = []
    for group in groups:
        of_images = any(task in TASKS and TASKS[task].is_image for task in group.records)
        is_compared = len(group.among(compared_by_size())) > 1
        if group.setting.shots == shots and not of_images and is_compared:
            compared.append(group)

    def rank(group: SettingRecords) -> tuple[int, str]:
        name = group.setting.model
        return models.index(name) if name in models else len(models), name

    def count_cells(family: list[SettingRecords]) -> int:
        return len(family) * max(len(group.records) for group in family)

    by_setting = grouping.group_by(
        compared, lambda group: group.setting._replace(model="", variant="")
    )
    families = [sorted(family, key=rank) for family in by_setting.values()]
    return sorted(families, key=count_cells, reverse=True)


def size_cells(columns: Sequence[tuple[str, SettingRecords]]) -> Cells:
    """Header, a row a task (accuracy in %), and the average over the tasks that a model has.

    A pair is what stands over a model's columns, and its records.
    """
    header, averages = [], Sums(["average", ""])
    tasks: dict[str, list[Record]] = {}
    for name, group in columns:
        methods = group.among(compared_by_size())
        header += [f"{name} {method}" for method in methods]
        means = [100 * group.average(method) for method in methods]
        averages += best_of(means, marks=(Best, Second))
        for task, records in group.records.items():
            tasks.setdefault(task, records)  # the first model that has a task names it

    def cells_of(task: str) -> list[Cell]:
        row = []
        for _, group in columns:
            records, methods = group.records.get(task, ()), group.among(compared_by_size())
            samples = [100 * grouping.metric_values(records, method) for method in methods]
            row += best_of(samples, marks=(Best, Second))
        return row

    ordered = {task: tasks[task] for task in grouping.sort_tasks(tasks)}
    return [*cells.rows_of_tasks(ordered, header, cells_of), averages]


class Grid(NamedTuple):
    """Records of one task in which two choices vary, each with each."""

    slug: str  # part of a file name
    heading: str  # what the table and the figure show
    note: str  # the sentences below the table
    down: str  # the choice whose values are rows
    across: str  # the choice whose values are columns
    # Value of `down`, value of `across` -> the records of all seeds.
    records: dict[tuple[str, str], list[Record]]

    def values(self, dimension: int) -> list[str]:
        """The values of `down` (0) or `across` (1), numbers first."""

        def rank(choice: str) -> tuple[bool, int, str]:
            return not choice.isdigit(), int(choice) if choice.isdigit() else 0, choice

        return sorted({key[dimension] for key in self.records}, key=rank)

    def accuracies(self, down: str, across: str, method: str) -> np.ndarray:
        """In %, of all seeds, [s]; of nothing that was run [0]."""
        return 100 * grouping.metric_values(self.records.get((down, across), []), method)


# Task, what is held (without shots where they vary), `down`, `across`, other choices in words.
Varied = tuple[str, Setting, str, str, tuple[str, ...]]


def find_grids(records: Iterable[Record]) -> list[Grid]:
    """Every two choices of the prompt, the shots among them, that were varied together."""
    by_pair: dict[Varied, dict[tuple[str, str], list[Record]]] = {}
    for setting, record in grouping.with_settings(records):
        is_compared = record.methods.keys() >= {*REFERENCES}
        is_control = grouping.axis_name(record) == grouping.CONTROL
        if setting.shots is None or not is_compared or is_control:
            continue
        chosen = {SHOTS: str(setting.shots)}
        for name in VARIED:
            chosen[name] = str(record.context.options.get(name, OWN[name]))
        changed = [name for name in VARIED if chosen[name] != OWN[name]]
        for across, down in combinations((SHOTS, *VARIED), 2):
            fixed_setting = setting._replace(shots=None) if across == SHOTS else setting
            fixed = [name for name in changed if name not in (across, down)]
            other_choices = tuple(f"{name} {chosen[name]}" for name in fixed)
            key = record.context.task, fixed_setting, down, across, other_choices
            choices = chosen[down], chosen[across]
            by_pair.setdefault(key, {}).setdefault(choices, []).append(record)
    grids = []
    for (task, setting, down, across, other_choices), by_choices in by_pair.items():
        title, words = grouping.task_title(task), ", ".join([str(setting), *other_choices])
        choice_slugs = [choice.replace(" ", "-") for choice in other_choices]
        slug = "-".join([setting.slug, task, down, across, *choice_slugs])
        heading = f"{title}, {down} × {across}: {words}"
        note = cells.notes(chain.from_iterable(by_choices.values()))
        grid = Grid(slug, heading, note, down, across, by_choices)
        # Both choices vary at once: one at a time is a cross, which has fewer cells.
        if len(by_choices) >= len(grid.values(0)) + len(grid.values(1)):
            grids.append(grid)
    return grids


def grid_cells(grid: Grid) -> Cells:
    """Header, then rows of icl and bc for each value down: accuracy in %, mean ± sd over seeds."""
    rows: Cells = [[grid.down, "method", *map(f"{grid.across} {{}}".format, grid.values(1))]]
    for down in grid.values(0):
        accuracies = partial(grid.accuracies, down)
        rows += cells.rows_of_methods(down, REFERENCES, grid.values(1), accuracies)
    return rows
