"""The robustness study: accuracy as one choice of the prompt varies and the rest stays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells, best_of, rows_cell, spread
from batch_calibration.artifacts.grouping import (
    AXES,
    BASELINE,
    CONTROL,
    CONTROLS,
    CORRECTED,
    REFERENCES,
    Setting,
    axis_name,
    join_names,
    methods_of_group,
    task_title,
    with_settings,
)
from batch_calibration.metrics import Estimate, deviation
from batch_calibration.store import Record

MIN_PROMPTS = 3  # of fewer prompts no change of their standard deviation is told
SUMMARY_ROWS = 2  # rows at the end of a table that sum up the others
# What a study changes while all else stays, in words.
VARIES = {
    "choices": "Which training rows are shown as demonstrations",
    "orders": "In which order the same demonstrations are shown",
    "templates": "The wording around the row",
    "verbalizers": "The words that stand for the labels",
}
# The sentences below the table of all studies.
NOTE = (
    "A row is one task whose prompt was varied in one way. ± is the standard deviation over the "
    "prompts; 'change' is bc's less icl's: below 0, the choice of the prompt matters less. In "
    "brackets 95 % intervals over prompts of this kind and over the test rows, which are the same "
    f"for all prompts. {gains.MARK} beyond noise: 0 is outside it. '{gains.WINS}' counts prompts "
    "with which bc gains, neither, loses beyond the noise of their rows."
)


@dataclass(frozen=True)
class Axis:
    """The records of one task and setting in which one choice of the prompt varies."""

    setting: Setting
    task: str
    name: str
    records: list[Record]

    @cached_property
    def methods(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        shared = set.intersection(*(set(record.methods) for record in self.records))
        return list(filter(shared.__contains__, methods_of_group("paper")))

    @property
    def slug(self) -> str:
        """The axis as part of a file name."""
        return f"{self.setting.slug}-{self.task}-{self.name}"

    @cached_property
    def is_compared(self) -> bool:
        """Whether the answers of icl and bc are known, of two prompts or more."""
        known = all(record.right.keys() >= {*REFERENCES} for record in self.records)
        return known and len(self.records) > 1

    def values(self, method: str, records: Sequence[Record] | None = None) -> np.ndarray:
        """Accuracy in %, one for each record."""
        chosen = self.records if records is None else records
        return 100 * np.array([record.methods[method]["accuracy"] for record in chosen])

    def by_choice(self) -> dict[str, list[Record]]:
        """The records by their choice of the prompt, numbers first."""
        groups: dict[str, list[Record]] = {}
        for record in self.records:
            groups.setdefault(choice_name(record), []).append(record)
        return {name: groups[name] for name in sorted(groups, key=choice_rank)}

    @cached_property
    def gain(self) -> Estimate:
        """Bc's gain over icl, mean over the prompts, and its interval over prompts and rows."""
        return gains.gain_over_contexts(self.records, CORRECTED)

    @cached_property
    def gains(self) -> list[Estimate]:
        """Bc's gain over icl with each prompt, and its interval over rows."""
        return [gains.gain_over_contexts([record], CORRECTED) for record in self.records]

    @cached_property
    def change(self) -> Estimate | None:
        """The standard deviation over prompts, bc's less icl's; None where they are too few."""
        before, after = (gains.right_rows(self.records, method) for method in REFERENCES)
        if len(set(map(len, before))) > 1:
            return None
        return change_of_deviation(np.array(before), np.array(after))


def change_of_deviation(
    before: np.ndarray, after: np.ndarray, *, level: float = 0.95
) -> Estimate | None:
    """The standard deviation over prompts of the accuracy after a correction, less that before.

    Below 0 the correction makes the choice of the prompt matter less. The interval is of the
    jackknife, which leaves out a prompt at a time, and a row at a time: t sd of the first, with
    Student's t of p - 1 degrees of freedom, and z sd of the second, added in squares. Prompts and
    rows are the same on both sides, so what both lack cancels.

    Args:
        before: [p n], 1.0 where a row is right under a prompt.
        after: the same after the correction.
        level: how often the interval shall hold the change.

    Returns:
        None of fewer than `MIN_PROMPTS` prompts or two rows.

    >>> before = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    >>> round(change_of_deviation(before, np.ones((3, 4))).value, 3)
    -0.382
    """
    from scipy.special import ndtri, stdtrit

    p, n = before.shape  # prompts, rows
    if p < MIN_PROMPTS or n < 2:
        return None
    tail = 0.5 + level / 2

    def change(means: np.ndarray, corrected_means: np.ndarray) -> np.ndarray:
        difference: np.ndarray = deviation(corrected_means) - deviation(means)
        return difference

    sides = before, after
    change_of_all = float(change(*(side.mean(axis=1) for side in sides)))
    # [p, p - 1]: all prompts but one, for each.
    kept = np.nonzero(~np.eye(p, dtype=bool))[1].reshape(p, p - 1)
    # [p - 1, p] and [p, n]: means over the rows without one prompt, and without one row.
    without_prompt = change(*(side.mean(axis=1)[kept].T for side in sides))
    without_row = change(*((side.sum(axis=1, keepdims=True) - side) / (n - 1) for side in sides))
    reach = float(np.hypot(
        stdtrit(p - 1, tail) * np.sqrt((p - 1) * without_prompt.var()),
        ndtri(tail) * np.sqrt((n - 1) * without_row.var()),
    ))  # fmt: skip
    return Estimate(change_of_all, change_of_all - reach, change_of_all + reach)


def find_axes(records: Iterable[Record]) -> list[Axis]:
    """Every axis among the records, in the order of the paper's figure."""
    groups: dict[tuple[str, Setting, str], list[Record]] = {}
    for setting, record in with_settings(records):
        name = axis_name(record)
        if name not in ("", CONTROL):
            groups.setdefault((record.context.task, setting, name), []).append(record)
    order = list(dict.fromkeys(AXES.values()))
    axes = [Axis(setting, task, name, group) for (task, setting, name), group in groups.items()]
    # Axes that the paper does not have stand behind its own.
    return sorted(axes, key=lambda axis: [*order, axis.name].index(axis.name))


def by_task(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc by the slug of a figure: one task and model, whatever the shots."""
    groups: dict[str, list[Axis]] = {}
    for axis in axes:
        if {*REFERENCES} <= {*axis.methods}:
            slug = f"{axis.setting._replace(shots=1).slug}-{axis.task}"
            groups.setdefault(slug, []).append(axis)
    return groups


def by_study(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc that vary the same choice of one setting, by slug, a task each."""
    groups: dict[str, list[Axis]] = {}
    for axis in axes:
        if axis.is_compared:
            groups.setdefault(f"{axis.setting.slug}-{axis.name}", []).append(axis)
    return groups


def choice_name(record: Record) -> str:
    """Where on its axis a record stands: the draw, the order, the template, the verbalizer."""
    options = record.context.options
    keys = filter(options.__contains__, ("order", "template", "verbalizer", *CONTROLS))
    names = [str(options[key]) for key in keys]
    if options.get("selection") == "explicit":
        names += record.context.demonstrations
    return ", ".join(names) or str(record.context.seed)


def choice_rank(name: str) -> tuple[bool, str]:
    """Sorts numbers first, by size."""
    return not name.isdigit(), name.zfill(8)


def accuracy_cells(axis: Axis) -> Cells:
    """Header, one row for each value on the axis; of all records mean ± sd, and max - min."""
    rows: Cells = [[axis.name, "rows", *axis.methods]]
    for name, records in [*axis.by_choice().items(), ("all", axis.records)]:
        cells = best_of([axis.values(method, records) for method in axis.methods])
        rows.append([name, rows_cell(records), *cells])
    return [*rows, ["max - min", "", *(_reach(axis, method) for method in axis.methods)]]


def _reach(axis: Axis, method: str) -> str:
    """How far the best prompt is from the worst, in points."""
    return f"{np.ptp(axis.values(method)):.1f}"


def study_cells(axes: Iterable[Axis]) -> Cells:
    """Header, and a row an axis: icl and bc, how far each moves, the gain, the change."""
    rows: Cells = [
        ["what varies", "task", "prompts", "icl", "icl max - min", "bc", "bc max - min",
         "gain over icl", "change of ±", gains.WINS]
    ]  # fmt: skip
    for axis in axes:
        row = [axis.name, task_title(axis.task), str(len(axis.records))]
        for method in REFERENCES:
            row += [spread(axis.values(method)), _reach(axis, method)]
        row += [gains.gain_cell(axis.gain), gains.gain_cell(axis.change) if axis.change else "-"]
        rows.append([*row, gains.count_verdicts(axis.gains)])
    return rows


def describe_study(axes: Sequence[Axis]) -> str:
    """What a study varies, in words."""
    sentence = VARIES.get(axes[0].name, f"The prompt ({axes[0].name})")
    records = chain.from_iterable(axis.records for axis in axes)
    selections = {record.context.options.get("selection") for record in records}
    return f"{sentence} (shots are rows in all)" if selections == {"total"} else sentence


def paragraph(axes: Sequence[Axis]) -> str:
    """What one study varies, whether bc makes it matter less, how much, and how sure that is."""
    first, moves, changes, won, lost = axes[0], [], [], [], 0
    for axis in axes:
        reach = f"{_reach(axis, BASELINE)} and {_reach(axis, CORRECTED)}"
        moves.append(f"{reach} on {task_title(axis.task)}")
        changes += [gains.gain_cell(axis.change)] if axis.change else []
        above, _, below = gains.verdicts(axis.gains)
        won.append(str(above))
        lost += below
    counts = join_names(dict.fromkeys(str(len(axis.records)) for axis in axes))
    tasks = join_names(task_title(axis.task) for axis in axes)
    gained = join_names(gains.gain_cell(axis.gain) for axis in axes)
    of_changes = "The standard deviation over them changes by {} points. "
    return (
        f"{describe_study(axes)} ({counts} {first.name} on {tasks}, all else stays: "
        f"{first.setting}){_verdict(axes)}. From the worst to the best, accuracy moves by this "
        "many points with the plain scores (icl) and with Batch Calibration (bc): "
        f"{'; '.join(moves)}. {of_changes.format(join_names(changes)) if changes else ''}On "
        f"average over them bc gains {gained} points; with {join_names(won)} of {counts} it gains "
        f"beyond noise, with {lost or 'none'} it loses. In brackets 95 % intervals over prompts "
        f"and test rows, {gains.MARK} where 0 is outside."
    )


def _verdict(axes: Sequence[Axis]) -> str:
    """On which tasks the choice matters less with bc, on which more, and where that is noise."""
    verdicts_by_sign = {
        -1: "it matters less after the correction",
        1: "it matters more after the correction",
        0: "the correction makes no difference beyond noise to how much it matters",
    }
    clauses = []
    for sign, verdict in verdicts_by_sign.items():
        tasks = [task_title(a.task) for a in axes if a.change and a.change.beyond_noise == sign]
        clauses += [f"on {join_names(tasks)} {verdict}"] if tasks else []
    return f": {'; '.join(clauses)}" if clauses else ""
