"""Two-way tables: accuracy over models and tasks, and over two choices of the prompt at once."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells, best_of
from batch_calibration.artifacts.grouping import (
    CONTROL,
    REFERENCES,
    VARIED,
    Setting,
    SettingRecords,
    axis,
    ordered,
    title,
    with_settings,
)
from batch_calibration.store import Record
from batch_calibration.tasks import TASKS

SHOTS = "shots"
OWN = {"selection": "per_class", "order": "as drawn", "template": "own", "verbalizer": "own"}
"""What a choice of the prompt is called where it is the task's own, or the default."""
OF_MODELS = (
    "Means over seeds; the tables of each setting say how far these vary. The best of each model "
    "and task is marked. An average is over the tasks that all models have."
)


class Models(NamedTuple):
    """Settings that differ in the model alone; `held` is what they share."""

    held: Setting
    groups: list[SettingRecords]


def models(groups: Iterable[SettingRecords]) -> list[Models]:
    """Settings of two models or more, with two tasks or more."""
    alike: dict[Setting, list[SettingRecords]] = {}
    for group in groups:
        held = group.setting._replace(model="", scorer="", variant="")
        alike.setdefault(held, []).append(group)
    return [
        Models(held._replace(model=held.data or "unnamed data"), some)
        for held, some in alike.items()
        if len(some) > 1 and len({task for group in some for task in group.records}) > 1
    ]


def model_cells(found: Models) -> Cells:
    """Header, then a row for each model and method of the paper's comparison: accuracy in %."""
    has = {task for group in found.groups for task in group.records}
    tasks = [task for task in TASKS if task in has] + sorted(has - TASKS.keys())
    shared = [task for task in tasks if all(task in group.records for group in found.groups)]
    rows: Cells = [["model", "method", *map(title, tasks), "average"]]
    for group in found.groups:
        methods, model = group.compared, group.setting.model or "unnamed"
        name = f"{model} {group.setting.variant}".rstrip()
        means = [
            {task: 100 * float(group.values(task, method).mean()) for task in group.records}
            for method in methods
        ]
        columns = [_marked([of.get(task) for of in means]) for task in tasks]
        columns.append(
            _marked([float(np.mean([of[t] for t in shared])) if shared else None for of in means])
        )
        rows += [[name, *row] for row in zip(methods, *columns, strict=True)]
    return rows


def _marked(values: Sequence[float | None]) -> list[str]:
    """A cell for each method's mean, the highest as printed marked."""
    shown = ["-" if value is None else f"{value:.1f}" for value in values]
    best = max((value for value in values if value is not None), default=0.0)
    return [Best(cell) if cell == f"{best:.1f}" else cell for cell in shown]


class Grid(NamedTuple):
    """Records of one task in which two choices vary, each with each.

    Attributes:
        setting: what is held, its shots 0 where they vary.
        task: the task.
        down: the choice whose values are rows.
        across: the choice whose values are columns.
        held: other choices that are not the default, in words.
        records: value of `down`, value of `across` -> the records of all seeds.
    """

    setting: Setting
    task: str
    down: str
    across: str
    held: tuple[str, ...]
    records: dict[tuple[str, str], list[Record]]

    @property
    def heading(self) -> str:
        """What the grid shows."""
        where = self.setting.words() if self.across == SHOTS else str(self.setting)
        return f"{title(self.task)}, {self.down} × {self.across}: {', '.join([where, *self.held])}"

    @property
    def slug(self) -> str:
        """The grid as part of a file name."""
        slug = self.setting.slug
        if self.across == SHOTS:
            slug = slug.replace("-0shot", "", 1)
        held = "".join(f"-{words.replace(' ', '-')}" for words in self.held)
        return f"{slug}-{self.task}-{self.down}-{self.across}{held}"

    def values(self, place: int) -> list[str]:
        """The values of `down` (0) or `across` (1), numbers first."""
        return sorted({key[place] for key in self.records}, key=_rank)


def _rank(value: str) -> tuple[bool, int, str]:
    return not value.isdigit(), int(value) if value.isdigit() else 0, value


def grids(records: Iterable[Record]) -> list[Grid]:
    """Every two choices of the prompt, the shots among them, that were varied together."""
    found: dict[tuple[object, ...], Grid] = {}
    for setting, record in with_settings(ordered(records)):
        compared = set(REFERENCES) <= record.methods.keys()
        if setting.shots is None or not compared or axis(record) == CONTROL:
            continue
        chosen = {SHOTS: str(setting.shots)} | {
            name: str(record.context.options.get(name, OWN[name])) for name in VARIED
        }
        for across, down in combinations((SHOTS, *VARIED), 2):
            held = setting._replace(shots=0) if across == SHOTS else setting
            others = tuple(
                f"{name} {chosen[name]}"
                for name in VARIED
                if name not in (across, down) and chosen[name] != OWN[name]
            )
            key = (record.context.task, held, across, down, others)
            grid = found.setdefault(key, Grid(held, record.context.task, down, across, others, {}))
            grid.records.setdefault((chosen[down], chosen[across]), []).append(record)
    return [grid for grid in found.values() if _crossed(grid)]


def _crossed(grid: Grid) -> bool:
    """Whether both choices vary at once: one at a time is a cross, which has fewer cells."""
    return len(grid.records) >= len(grid.values(0)) + len(grid.values(1))


def grid_cells(found: Grid) -> Cells:
    """Header, then rows of icl and bc for each value down: accuracy in %, mean ± sd over seeds."""
    across = found.values(1)
    rows: Cells = [[found.down, "method", *(f"{found.across} {value}" for value in across)]]
    for value in found.values(0):
        columns = [_both(found.records.get((value, other), [])) for other in across]
        rows += [[value, *row] for row in zip(REFERENCES, *columns, strict=True)]
    return rows


def _both(records: Sequence[Record]) -> list[str]:
    """Cells of icl and bc, the better one marked."""
    found = [
        100 * np.array([one.methods[name]["accuracy"] for one in records]) for name in REFERENCES
    ]
    return best_of(found) if records else ["-"] * len(REFERENCES)
