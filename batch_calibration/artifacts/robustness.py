"""The robustness study: accuracy as one choice of the prompt varies and the rest stays."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells, best_of, spread, tested
from batch_calibration.artifacts.grouping import (
    AXES,
    BASELINE,
    CONTROL,
    CONTROLS,
    CORRECTED,
    REFERENCES,
    Setting,
    axis,
    joined,
    of_group,
    title,
    with_settings,
)
from batch_calibration.artifacts.steadiness import change_of_deviation
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate
from batch_calibration.store import Record

SUMMARY = 2
"""Rows at the end of a table that sum up the others."""
VARIES = {
    "choices": "Which training rows are shown as demonstrations",
    "orders": "In which order the same demonstrations are shown",
    "templates": "The wording around the row",
    "verbalizers": "The words that stand for the labels",
}
"""What a study changes while all else stays, in words."""
NOTE = (
    "A row is one task whose prompt was varied in one way. ± is the standard deviation over the "
    "prompts; 'change' is bc's less icl's: below 0, the choice of the prompt matters less. In "
    "brackets 95 % intervals over prompts of this kind and over the test rows, which are the same "
    f"for all prompts. {gains.MARK} beyond noise: 0 is outside it. '{gains.WINS}' counts prompts "
    "with which bc gains, neither, loses beyond the noise of their rows."
)
"""The sentences below the table of all studies."""


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

    @property
    def compared(self) -> bool:
        """Whether the answers of icl and bc are known, of two prompts or more."""
        known = all(name in record.right for record in self.records for name in REFERENCES)
        return known and len(self.records) > 1

    def values(self, method: str, records: Sequence[Record] | None = None) -> np.ndarray:
        """Accuracy in %, one for each record."""
        some = self.records if records is None else records
        return 100 * np.array([record.methods[method]["accuracy"] for record in some])

    def gain(self) -> Estimate:
        """Bc's gain over icl, mean over the prompts, and its interval over prompts and rows."""
        return gains.of(self.records, CORRECTED)

    def gains(self) -> list[Estimate]:
        """Bc's gain over icl with each prompt, and its interval over rows."""
        return [gains.of([record], CORRECTED) for record in self.records]

    def change(self) -> Estimate | None:
        """The standard deviation over prompts, bc's less icl's; None where they are too few."""
        before, after = (gains.right(self.records, name) for name in REFERENCES)
        if len({len(rows) for rows in before}) > 1:
            return None
        return change_of_deviation(np.array(before), np.array(after))


def axes(records: Iterable[Record]) -> list[Axis]:
    """Every axis among the records, in the order of the paper's figure."""
    groups: dict[tuple[str, Setting, str], list[Record]] = {}
    for setting, record in with_settings(records):
        if (name := axis(record)) not in ("", CONTROL):
            groups.setdefault((record.context.task, setting, name), []).append(record)
    order = list(dict.fromkeys(AXES.values()))
    found = [Axis(setting, task, name, group) for (task, setting, name), group in groups.items()]
    return sorted(found, key=lambda a: order.index(a.name) if a.name in order else len(order))


def by_task(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc by the slug of a figure: one task and model, whatever the shots."""
    groups: dict[str, list[Axis]] = {}
    for one in axes:
        if {*REFERENCES} <= {*one.methods}:
            groups.setdefault(f"{one.setting._replace(shots=1).slug}-{one.task}", []).append(one)
    return groups


def by_study(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc that vary the same choice of one setting, by slug, a task each."""
    groups: dict[str, list[Axis]] = {}
    for one in axes:
        if one.compared:
            groups.setdefault(f"{one.setting.slug}-{one.name}", []).append(one)
    return groups


def value(record: Record) -> str:
    """Where on its axis a record stands: the draw, the order, the template, the verbalizer."""
    options = record.context.options
    keys = ("order", "template", "verbalizer", *CONTROLS)
    named = [str(options[key]) for key in keys if key in options]
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


def study_cells(axes: Iterable[Axis]) -> Cells:
    """Header, and a row an axis: icl and bc, how far each moves, the gain, the change."""
    rows: Cells = [
        ["what varies", "task", "prompts", "icl", "icl max - min", "bc", "bc max - min",
         "gain over icl", "change of ±", gains.WINS]
    ]  # fmt: skip
    for one in axes:
        change = one.change()
        moves = [
            cell
            for values in map(one.values, REFERENCES)
            for cell in (spread(values), f"{np.ptp(values):.1f}")
        ]
        sure = [gains.marked(one.gain()), gains.marked(change) if change else "-"]
        counts = gains.said(gains.verdicts(one.gains()))
        rows.append([one.name, title(one.task), str(len(one.records)), *moves, *sure, counts])
    return rows


def prompt_cells(axes: Iterable[Axis]) -> Cells:
    """Header, and a row a task and prompt: accuracy of icl and bc in %, the gain and its ends."""
    rows: Cells = [["task", "prompt", *REFERENCES, "gain", "low", "high"]]
    for one in axes:
        for record, gain in zip(one.records, one.gains(), strict=True):
            both = (f"{one.values(name, [record])[0]:.4g}" for name in REFERENCES)
            ends = (f"{100 * x:.4g}" for x in gain)
            rows.append([one.task, value(record), *both, *ends])
    return rows


def varied(axes: Sequence[Axis]) -> str:
    """What a study varies, in words."""
    said = VARIES.get(axes[0].name, f"The prompt ({axes[0].name})")
    totals = {r.context.options.get("selection") == "total" for one in axes for r in one.records}
    return f"{said} (shots are rows in all)" if totals == {True} else said


def paragraph(axes: Sequence[Axis]) -> str:
    """What one study varies, whether bc makes it matter less, how much, and how sure that is."""
    tasks, changes = [title(one.task) for one in axes], [one.change() for one in axes]
    counts = joined(dict.fromkeys(str(len(one.records)) for one in axes))
    each = [f"{np.ptp(one.values(BASELINE)):.1f} and {np.ptp(one.values(CORRECTED)):.1f}"
            for one in axes]  # fmt: skip
    moves = "; ".join(f"{both} on {task}" for both, task in zip(each, tasks, strict=True))
    gained = joined(gains.marked(one.gain()) for one in axes)
    won, _, lost = zip(*(gains.verdicts(one.gains()) for one in axes), strict=True)
    sds = [gains.marked(one) for one in changes if one]
    of_sds = f"The standard deviation over them changes by {joined(sds)} points. " if sds else ""
    return (
        f"{varied(axes)} ({counts} {axes[0].name} on {joined(tasks)}, all else stays: "
        f"{axes[0].setting}){_verdict(changes, tasks)}. From the worst to the best, accuracy moves "
        f"by this many points with the plain scores (icl) and with Batch Calibration (bc): {moves}."
        f" {of_sds}On average over them bc gains {gained} points; with {joined(map(str, won))} of "
        f"{counts} it gains beyond noise, with {sum(lost) or 'none'} it loses. In brackets 95 % "
        f"intervals over prompts and test rows, {gains.MARK} where 0 is outside."
    )


def _verdict(changes: Sequence[Estimate | None], tasks: Sequence[str]) -> str:
    """On which tasks the choice matters less with bc, on which more, and where that is noise."""
    kinds = {
        -1: "it matters less after the correction",
        1: "it matters more after the correction",
        0: "the correction makes no difference beyond noise to how much it matters",
    }
    said = []
    for sign, words in kinds.items():
        pairs = zip(changes, tasks, strict=True)
        if on := [task for change, task in pairs if change and change.beyond_noise == sign]:
            said.append(f"on {joined(on)} {words}")
    return f": {'; '.join(said)}" if said else ""
