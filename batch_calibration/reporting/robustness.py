"""The robustness study: accuracy as one choice of the prompt varies and the rest stays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from batch_calibration.diagnosis.findings import join_names
from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.metrics.steadiness import change_of_deviation, gain_over_prompts
from batch_calibration.reporting import gains, grouping
from batch_calibration.reporting.cells import Cells, Sums, best_of, notes, rows_cell, spread
from batch_calibration.reporting.grouping import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.studies import Record

# What a study changes while all else stays, in words.
VARIES = {
    "choices": "Which training rows are shown as demonstrations",
    "orders": "In which order the same demonstrations are shown",
    "templates": "The wording around the row",
    "verbalizers": "The words that stand for the labels",
}
# The sentences below the table of all studies.
NOTE = (
    "A row is one task whose prompt was varied in one way; a prompt's accuracy is its mean over "
    "its seeds, the draws of demonstrations. ± is the standard deviation over the prompts; "
    "'change' is bc's less icl's: below 0, the choice of the prompt matters less. In brackets 95 % "
    "intervals over prompts of this kind, over seeds where there are several, and over the test "
    f"rows, which are the same for all prompts. {gains.MARK} beyond noise: 0 is outside it. "
    f"'{gains.WINS}' counts prompts with which bc gains, neither, loses beyond the noise of their "
    "seeds and rows."
)


@dataclass(frozen=True)
class Axis:
    """The records of one task and setting in which one choice of the prompt varies."""

    setting: grouping.Setting
    task: str
    name: str
    records: list[Record]
    slug: str  # the axis as part of a file name
    heading: str  # what the table of its prompts shows
    note: str  # what a reader of the records must know

    @cached_property
    def methods(self) -> list[str]:
        """Methods of the paper's comparison that every record has."""
        shared = grouping.shared_methods(self.records)
        return list(filter(shared.__contains__, grouping.methods_of_group("paper")))

    @cached_property
    def prompts(self) -> dict[str, list[Record]]:
        """Each prompt by its choice, numbers first -> its records, one for each seed.

        Of several draws of demonstrations, an order of each is a prompt of its own: the third
        order of one draw has nothing to do with the third of another.
        """
        seeds = {record.context.seed for record in self.records}

        def prompt_name(record: Record) -> str:
            is_of_draw = "order" in record.context.options and len(seeds) > 1
            return choice_name(record) + is_of_draw * f", seed {record.context.seed}"

        groups = grouping.group_by(self.records, prompt_name)
        return {name: groups[name] for name in sorted(groups, key=choice_rank)}

    @property
    def seeds(self) -> str:
        """How many seeds a prompt has: "5", or "3 to 5"."""
        counts = sorted({len(records) for records in self.prompts.values()})
        return " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))

    @property
    def count(self) -> str:
        """How many prompts there are: "10 templates, 5 seeds each"."""
        count = f"{len(self.prompts)} {self.name}"
        return count if self.seeds == "1" else f"{count}, {self.seeds} seeds each"

    @cached_property
    def is_compared(self) -> bool:
        """Whether the answers of icl and bc are known, of two prompts or more."""
        has_answers = all(record.right.keys() >= {*REFERENCES} for record in self.records)
        return has_answers and len(self.prompts) > 1

    def values(self, method: str) -> np.ndarray:
        """Accuracy in % of each prompt [p], mean over its seeds."""
        return np.array([accuracies(records, method).mean() for records in self.prompts.values()])

    def reach(self, method: str) -> str:
        """How far the best prompt is from the worst, in points."""
        return f"{np.ptp(self.values(method)):.1f}"

    @cached_property
    def outcomes(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Which rows are right with icl, and with bc: [p s n] each, prompts x seeds x rows.

        Where prompts have unlike seeds, the share of a prompt's seeds, s = 1; None where contexts
        have unlike rows.
        """
        prompts = list(self.prompts.values())
        if len({sum(record.classes) for record in self.records}) > 1:
            return None
        sides, seeds = [], set()
        for records in prompts:
            seeds.add(tuple(record.context.seed for record in records))
        for method in REFERENCES:
            rights = [np.array(gains.right_rows(records, method)) for records in prompts]  # [s n]
            if len(seeds) > 1:
                rights = [rows.mean(axis=0, keepdims=True) for rows in rights]
            sides.append(np.array(rights))
        before, after = sides
        return before, after

    @cached_property
    def gain(self) -> Estimate:
        """Bc's gain over icl, mean over the prompts; its interval over prompts, seeds and rows."""
        if self.outcomes is None:
            return over_tasks(self.gains)
        before, after = self.outcomes
        return gain_over_prompts(after - before)

    @cached_property
    def gains(self) -> list[Estimate]:
        """Bc's gain over icl with each prompt, and its interval over seeds and rows."""
        return [gains.gain_over_contexts(records, CORRECTED) for records in self.prompts.values()]

    @cached_property
    def change(self) -> Estimate | None:
        """The standard deviation over prompts, bc's less icl's; None where they are too few."""
        return None if self.outcomes is None else change_of_deviation(*self.outcomes)


def accuracies(records: Iterable[Record], method: str) -> np.ndarray:
    """Accuracy in %, one for each record."""
    return 100 * grouping.metric_values(records, method)


def find_axes(records: Iterable[Record]) -> list[Axis]:
    """Every axis among the records, in the order of the paper's figure."""
    groups: dict[tuple[grouping.Setting, str, str], list[Record]] = {}
    for setting, record in grouping.with_settings(records):
        name = grouping.axis_name(record)
        if name not in ("", grouping.CONTROL):
            groups.setdefault((setting, record.context.task, name), []).append(record)
    axes = []
    for (setting, task, name), siblings in groups.items():
        slug, heading = (
            f"{setting.slug}-{task}-{name}",
            f"{task_title(task)} over {name}: {setting}",
        )
        axes.append(Axis(setting, task, name, siblings, slug, heading, notes(siblings)))
    order = list(dict.fromkeys(grouping.AXES.values()))
    # Axes that the paper does not have stand behind its own.
    return sorted(axes, key=lambda axis: [*order, axis.name].index(axis.name))


def by_task(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc by the slug of a figure: one task and model, whatever the shots."""
    judged = [axis for axis in axes if {*REFERENCES} <= {*axis.methods}]
    return grouping.group_by(
        judged, lambda axis: f"{axis.setting._replace(shots=1).slug}-{axis.task}"
    )


def by_study(axes: Iterable[Axis]) -> dict[str, list[Axis]]:
    """The axes of icl and bc that vary the same choice of one setting, by slug, a task each."""
    compared = [axis for axis in axes if axis.is_compared]
    return grouping.group_by(compared, lambda axis: f"{axis.setting.slug}-{axis.name}")


def choice_name(record: Record) -> str:
    """Where on its axis a record stands: the draw, the order, the template, the verbalizer."""
    options = record.context.options
    keys = filter(options.__contains__, ("order", "template", "verbalizer", *grouping.CONTROLS))
    names = [str(options[key]) for key in keys]
    if options.get("selection") == "explicit":
        names += record.context.demonstrations
    return ", ".join(names) or str(record.context.seed)


def choice_rank(name: str) -> tuple[bool, str]:
    """Sorts numbers first, by size."""
    return not name.isdigit(), name.zfill(8)


def accuracy_cells(axis: Axis) -> Cells:
    """Header, one row for each value on the axis; of all prompts mean ± sd, and max - min."""
    rows: Cells = [[axis.name, "rows", *axis.methods]]
    for name, records in axis.prompts.items():
        cells = best_of([accuracies(records, method) for method in axis.methods])
        rows.append([name, rows_cell(records), *cells])
    of_all = best_of([axis.values(method) for method in axis.methods])
    rows.append(Sums(["all", rows_cell(axis.records), *of_all]))
    return [*rows, Sums(["max - min", "", *map(axis.reach, axis.methods)])]


def study_cells(axes: Iterable[Axis]) -> Cells:
    """Header, and a row an axis: icl and bc, how far each moves, the gain, the change."""
    rows: Cells = [
        ["what varies", "task", "shots", "prompts", "seeds each", "icl", "icl max - min", "bc",
         "bc max - min", "gain over icl", "change of ±", gains.WINS]
    ]  # fmt: skip
    for axis in axes:
        shots = "-" if axis.setting.shots is None else str(axis.setting.shots)
        row = [axis.name, task_title(axis.task), shots, str(len(axis.prompts)), axis.seeds]
        for method in REFERENCES:
            row += [spread(axis.values(method)), axis.reach(method)]
        row += [gains.gain_cell(axis.gain), gains.gain_cell(axis.change)]
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
    moves, won, lost = [], [], 0
    for axis in axes:
        ends = f"{axis.reach(BASELINE)} and {axis.reach(CORRECTED)}"
        moves.append(f"{ends} on {task_title(axis.task)}")
        above, _, below = gains.verdicts(axis.gains)
        won.append(str(above))
        lost += below
    changes = [gains.gain_cell(axis.change) for axis in axes if axis.change]
    of_changes = "The standard deviation over them changes by {} points. "
    counts = join_names(dict.fromkeys(str(len(axis.prompts)) for axis in axes))
    prompts = join_names(dict.fromkeys(axis.count for axis in axes))
    tasks = join_names(task_title(axis.task) for axis in axes)
    seeds = ", seeds" if any(axis.seeds != "1" for axis in axes) else ""
    gained = join_names(gains.gain_cell(axis.gain) for axis in axes)
    return (
        f"{describe_study(axes)} ({prompts} on {tasks}, all else stays: "
        f"{axes[0].setting}){_verdict(axes)}. From the worst to the best, accuracy moves by this "
        "many points with the plain scores (icl) and with Batch Calibration (bc): "
        f"{'; '.join(moves)}. {of_changes.format(join_names(changes)) if changes else ''}On "
        f"average over them bc gains {gained} points; with {join_names(won)} of {counts} it gains "
        f"beyond noise, with {lost or 'none'} it loses. In brackets 95 % intervals over prompts"
        f"{seeds} and test rows, {gains.MARK} where 0 is outside."
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
