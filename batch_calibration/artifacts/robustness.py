"""The robustness study: accuracy as one choice of the prompt varies and the rest stays."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells, best_of, tested
from batch_calibration.artifacts.grouping import (
    AXES,
    Setting,
    axis,
    of_group,
    with_settings,
)
from batch_calibration.methods import METHODS
from batch_calibration.records import Record

SUMMARY = 2
"""Rows at the end of a table that sum up the others."""


class Axis(NamedTuple):
    """The records of one task and setting in which one choice of the prompt varies."""

    setting: Setting
    task: str
    name: str
    records: list[Record]

    @property
    def methods(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        return [
            name
            for name in METHODS
            if name in of_group("paper") and all(name in r.methods for r in self.records)
        ]

    @property
    def slug(self) -> str:
        """The axis as part of a file name."""
        return f"{self.setting.slug}-{self.task}-{self.name}"

    def values(self, method: str, records: Sequence[Record] | None = None) -> np.ndarray:
        """Accuracy in %, one for each record."""
        some = self.records if records is None else records
        return 100 * np.array([record.methods[method]["accuracy"] for record in some])


def axes(records: Iterable[Record]) -> list[Axis]:
    """Every axis among the records, in the order of the paper's figure."""
    groups: dict[tuple[str, Setting, str], list[Record]] = {}
    for setting, record in with_settings(records):
        if name := axis(record):
            groups.setdefault((record.context.task, setting, name), []).append(record)
    order = list(dict.fromkeys(AXES.values()))
    found = [Axis(setting, task, name, group) for (task, setting, name), group in groups.items()]
    return sorted(found, key=lambda a: order.index(a.name) if a.name in order else len(order))


def by_task(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of one figure, by its slug: one task and model, whatever the number of shots."""
    groups: dict[str, list[Axis]] = {}
    for one in axes:
        groups.setdefault(f"{one.setting._replace(shots=1).slug}-{one.task}", []).append(one)
    return groups


def value(record: Record) -> str:
    """Where on its axis a record stands: the draw, the order, the template, the verbalizer."""
    options = record.context.options
    named = [str(options[key]) for key in ("order", "template", "verbalizer") if key in options]
    if options.get("selection") == "explicit":
        named += record.context.demonstrations
    return ", ".join(named) or str(record.context.seed)


def accuracy_cells(found: Axis) -> Cells:
    """Header, one row for each value on the axis; of all records mean ± sd, and max - min."""
    methods = found.methods
    groups: dict[str, list[Record]] = {}
    for record in found.records:
        groups.setdefault(value(record), []).append(record)
    numbered = sorted(groups, key=lambda name: (not name.isdigit(), name.zfill(8)))
    rows: Cells = [[found.name, "rows", *methods]]
    rows += [[name, *_row(found, methods, groups[name])] for name in numbered]
    reach = [f"{np.ptp(found.values(method)):.1f}" for method in methods]
    return [*rows, ["all", *_row(found, methods, found.records)], ["max - min", "", *reach]]


def _row(found: Axis, methods: Sequence[str], records: Sequence[Record]) -> list[str]:
    return [tested(records), *best_of([found.values(method, records) for method in methods])]
