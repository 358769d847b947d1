"""The robustness study: accuracy as one choice of the prompt varies and the rest stays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.study import (
    AXES,
    MAIN,
    METHODS,
    Record,
    Setting,
    axis,
    named_apart,
    ordered,
    setting,
    title,
)
from batch_calibration.artifacts.style import COLORS, STYLE
from batch_calibration.artifacts.tables import Cells, bold, spread, tested

SUMMARY = 2
"""Rows at the end of a table that sum up the others."""
COMPARED = ("icl", "bc")


class Axis(NamedTuple):
    """The records of one task and setting in which one choice of the prompt varies."""

    setting: Setting
    task: str
    name: str
    records: list[Record]

    @property
    def methods(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        return [m for m in METHODS if m in MAIN and all(m in r["methods"] for r in self.records)]

    @property
    def slug(self) -> str:
        """The axis as part of a file name."""
        return f"{self.setting.slug}-{self.task}-{self.name}"

    def values(self, method: str, records: Sequence[Record] | None = None) -> np.ndarray:
        """Accuracy in %, one for each record."""
        some = self.records if records is None else records
        return 100 * np.array([r["methods"][method]["accuracy"] for r in some])


def axes(records: Sequence[Record]) -> list[Axis]:
    """Every axis among the records, in the order of the paper's figure."""
    groups: dict[tuple[str, Setting, str], list[Record]] = {}
    for record in named_apart(ordered(records)):
        if name := axis(record):
            key = record["context"]["task"], setting(record), name
            groups.setdefault(key, []).append(record)
    order = list(dict.fromkeys(AXES.values()))
    found = [Axis(held, task, name, group) for (task, held, name), group in groups.items()]
    return sorted(found, key=lambda a: order.index(a.name) if a.name in order else len(order))


def value(record: Record) -> str:
    """Where on its axis a record stands: the draw, the order, the template, the verbalizer."""
    options = record["context"]["options"]
    named = [str(options[key]) for key in ("order", "template", "verbalizer") if key in options]
    return ", ".join(named) or f"{record['context']['seed']}"


def accuracy_cells(found: Axis) -> Cells:
    """Header, one row for each value on the axis; of all records mean ± sd, and max - min."""
    methods = found.methods
    groups: dict[str, list[Record]] = {}
    for record in found.records:
        groups.setdefault(value(record), []).append(record)
    numbered = sorted(groups, key=lambda name: (not name.isdigit(), name.zfill(8)))
    rows = [[found.name, "rows", *methods]]
    rows += [[name, *_row(found, methods, groups[name])] for name in numbered]
    reach = [f"{np.ptp(found.values(method)):.1f}" for method in methods]
    return [*rows, ["all", *_row(found, methods, found.records)], ["max - min", "", *reach]]


def _row(found: Axis, methods: Sequence[str], records: Sequence[Record]) -> list[str]:
    values = {method: found.values(method, records) for method in methods}
    best = max(round(v.mean(), 1) for v in values.values())
    shown = [bold(spread(v), round(v.mean(), 1) == best) for v in values.values()]
    return [tested(records), *shown]


def figure(found: Sequence[Axis]) -> Figure:
    """ICL beside BC on each axis of one task: a box, and a dot for every prompt."""
    with plt.rc_context(STYLE):
        drawn, axes_ = plt.subplots(figsize=(1.5 + 1.6 * len(found), 3.2))
        for x, one in enumerate(found):
            for side, method in zip((-0.2, 0.2), COMPARED, strict=True):
                values, color = one.values(method), COLORS[method]
                axes_.boxplot(
                    values, positions=[x + side], widths=0.3, showfliers=False,
                    medianprops={"color": color}, boxprops={"color": color},
                    whiskerprops={"color": color}, capprops={"color": color},
                )  # fmt: skip
                # Fixed offsets, so that equal values stay apart and a figure stays the same.
                places = x + side + 0.1 * np.sin(2.4 * np.arange(len(values)))
                axes_.plot(places, values, "o", color=color, ms=3, alpha=0.6,
                           label=method if x == 0 else None)  # fmt: skip
        names = [f"{one.name} ({len(one.records)})" for one in found]
        axes_.set_xticks(range(len(found)), names)
        axes_.set_xlim(-0.6, len(found) - 0.4)
        axes_.set_ylabel("accuracy (%)")
        first = found[0]
        rows = f"first {first.setting.limit} rows" if first.setting.limit else "all rows"
        axes_.set_title(
            f"One choice of the prompt at a time: {title(first.task)}, {first.setting.model}, "
            f"{rows}", loc="left",
        )  # fmt: skip
        axes_.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return drawn
