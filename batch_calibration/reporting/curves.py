"""Accuracy against shots, against the rows a bias is learned from, and against the rows seen."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.diagnosis.findings import join_names
from batch_calibration.metrics import Estimate, deviation
from batch_calibration.reporting import gains, grouping
from batch_calibration.reporting.cells import Cells, best_of, notes
from batch_calibration.reporting.grouping import CORRECTED, REFERENCES, SettingRecords, task_title
from batch_calibration.reporting.method_display import is_over_shots

# Accuracies in %, one for each seed or draw, by the number on the axis below them.
Points = dict[int, np.ndarray]
STREAM_NOTE = (
    "Rows come in many orders, each corrected when it comes; a number is the accuracy of those "
    "between the number of rows seen above it and its own."
)
MAX_TASKS_NAMED = 4  # a paragraph names the accuracies of so many tasks at most


class Curves(NamedTuple):
    """Accuracy of some methods against one number, task by task."""

    slug: str  # part of a file name
    heading: str  # what the tables and the figure show
    axis: str  # what the number counts
    tasks: dict[str, dict[str, Points]]  # task -> method -> number -> accuracies
    note: str = ""  # what a reader of the numbers must know
    # Task -> method -> one accuracy beside the curves, whatever the number.
    levels: Mapping[str, Mapping[str, float]] = {}
    # Whether a band is the standard error of the mean, not the standard deviation.
    of_mean: bool = False
    # Task -> number -> what bc gains over icl there, where both were run.
    gains: Mapping[str, Mapping[int, Estimate]] = {}
    number: str = ""  # its figure's in the paper behind its kind; empty for what is not in it

    @property
    def methods(self) -> list[str]:
        """Each method once."""
        return list(dict.fromkeys(chain.from_iterable(self.tasks.values())))


def mean_and_band(points: Points, *, of_mean: bool) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Numbers, and at each the mean and the half width of its band, as `Curves.of_mean` says."""
    numbers = sorted(points)
    samples = [points[number] for number in numbers]
    means = np.array([sample.mean() for sample in samples])
    widths = np.array(list(map(deviation, samples)))
    return numbers, means, widths / np.sqrt(list(map(len, samples))) if of_mean else widths


def by_shots(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Settings that differ in nothing but the shots, two or more, as curves (the paper's Fig. 6).

    A task, or a method on it, that was run with one number of shots alone is left out.
    """
    with_shots = [group for group in groups if group.setting.shots is not None]
    families = grouping.group_by(with_shots, lambda group: group.setting._replace(shots=None))
    return [curves for curves in map(_shot_curves, families.values()) if curves.tasks]


def _shot_curves(family: Sequence[SettingRecords]) -> Curves:
    tasks: dict[str, dict[str, Points]] = {}
    gained: dict[str, dict[int, Estimate]] = {}
    for group in family:
        shots = group.setting.shots or 0
        for task in group.records:
            if gains.compared(group, REFERENCES):
                gained.setdefault(task, {})[shots] = gains.gain(group, task, CORRECTED)
            for method in filter(is_over_shots, group.methods):
                points = tasks.setdefault(task, {}).setdefault(method, {})
                points[shots] = 100 * group.values(task, method)
    lines: dict[str, dict[str, Points]] = {}
    for task, by_method in tasks.items():
        # One point alone is no line.
        several = {method: points for method, points in by_method.items() if len(points) > 1}
        lines |= {task: several} if several else {}
    setting, most = family[0].setting, max(group.setting.shots or 0 for group in family)
    return Curves(
        setting.slug.replace(f"-{setting.shots}shot", f"-0to{most}shots", 1),
        f"Shots: {setting._replace(shots=None)}", "shots per class", lines,
        notes(chain.from_iterable(group.all_records for group in family)), gains=gained,
        number="Figure 6",
    )  # fmt: skip


# A task, numbers, and method -> for each of them the shares that are right, a draw each.
Draws = tuple[str, Sequence[int], Mapping[str, Sequence[Sequence[float]]]]


def _pool(records: Iterable[Draws]) -> dict[str, dict[str, Points]]:
    """The draws of all seeds together."""
    tasks: dict[str, dict[str, Points]] = {}
    for task, numbers, accuracy in records:
        for method in sorted(accuracy):
            points = tasks.setdefault(task, {}).setdefault(method, {})
            for number, shares in zip(numbers, accuracy[method], strict=True):
                points[number] = np.append(points.get(number, []), 100 * np.array(shares))
    return tasks


def by_probe_size(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Accuracy against how many unlabeled rows a method learns from (the paper's Fig. 9)."""
    curves = []
    for group in groups:
        pairs = [(record.context.task, record.probe_size) for record in group.all_records]
        if tasks := _pool((task, p.sizes, p.accuracy) for task, p in pairs if p):
            slug, heading = f"{group.setting.slug}-probe-size", f"Probe size: {group.setting}"
            axis, note = "rows the bias is learned from", notes(group.all_records)
            curves.append(Curves(slug, heading, axis, tasks, note, number="Figure 9"))
    return curves


def by_rows_seen(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Accuracy of rows as they come against how many have come.

    Plain ICL and BC on all rows at once are levels.
    """
    curves = []
    for group in groups:
        levels: dict[str, dict[str, float]] = {}
        pairs = [(record.context.task, record.over_stream) for record in group.all_records]
        tasks = _pool((task, stream.rows, stream.accuracy) for task, stream in pairs if stream)
        for task in tasks:
            streamed = [record for record in group.records[task] if record.over_stream]
            for method in filter(grouping.shared_methods(streamed).__contains__, REFERENCES):
                mean = float(grouping.metric_values(streamed, method).mean())
                levels.setdefault(task, {})[method] = 100 * mean
        if tasks:
            slug, heading = f"{group.setting.slug}-rows-seen", f"Rows seen: {group.setting}"
            note = notes(group.all_records, STREAM_NOTE)
            curves.append(Curves(slug, heading, "rows seen", tasks, note, levels, of_mean=True))
    return curves


def accuracy_cells(curves: Curves) -> Cells:
    """Header, then one row for each task and number: mean ± sd in %; a level is one number."""
    level_names = dict.fromkeys(chain.from_iterable(curves.levels.values()))
    header = ["task", curves.axis, *curves.methods, *map("{}, all rows".format, level_names)]
    rows: Cells = [header]
    for task, by_method in curves.tasks.items():
        levels = curves.levels.get(task, {})
        level_cells = [f"{levels[name]:.1f}" if name in levels else "-" for name in level_names]
        for number in sorted(set().union(*by_method.values())):
            points = [by_method.get(method, {}) for method in curves.methods]
            samples: list[ArrayLike] = [of_method.get(number, []) for of_method in points]
            rows.append([task_title(task), str(number), *best_of(samples), *level_cells])
    return rows


def paragraph(curves: Curves) -> str:
    """How far icl and bc move along the curve, where bc is ahead, and how sure that is."""
    # Tasks where both methods have a line and their difference is known.
    tasks = [task for task in curves.gains if {*REFERENCES} <= {*curves.tasks.get(task, ())}]
    most_points, ranges, gained = max((len(curves.gains[t]) for t in tasks), default=0), [], []
    for task in tasks:
        title, by_number = task_title(task), curves.gains[task]
        icl, bc = (_range_of_means(curves.tasks[task][method]) for method in REFERENCES)
        if len(by_number) == most_points:
            ranges.append(f"{icl} with icl and {bc} with bc on {title}")
        gained += [(gain.value, gain, title, number) for number, gain in by_number.items()]
    if not gained:
        return ""
    sentence = f"Mean accuracy in % lies between {'; '.join(ranges)}. "
    range_sentence = sentence if len(ranges) <= MAX_TASKS_NAMED else ""
    won, _, lost = gains.verdicts(gain for _, gain, _, _ in gained)
    (_, lowest, low_task, low_at), (_, highest, high_task, high_at) = min(gained), max(gained)
    numbers = sorted({number for _, _, _, number in gained})
    return (
        f"{curves.heading} ({numbers[0]} to {numbers[-1]} {curves.axis} on "
        f"{join_names(map(task_title, tasks))}, all else stays): at {won or 'none'} of "
        f"{len(gained)} points Batch Calibration (bc) gains beyond noise over the plain scores "
        f"(icl), at {lost or 'none'} it loses; its gain goes from {gains.gain_cell(lowest)} points "
        f"({low_task} at {low_at}) to {gains.gain_cell(highest)} ({high_task} at {high_at}). "
        f"{range_sentence}{_spread_sentence(curves, tasks)}In brackets 95 % intervals over "
        f"draws of demonstrations and test rows, {gains.MARK} where 0 is outside; where there is "
        "one draw they are over rows alone."
    )


def _range_of_means(points: Points) -> str:
    """The lowest and the highest mean, each with where it is."""
    means = {number: float(points[number].mean()) for number in points}
    low_at, high_at = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return f"{means[low_at]:.1f} (at {low_at}) and {means[high_at]:.1f} (at {high_at})"


def _spread_sentence(curves: Curves, tasks: Sequence[str]) -> str:
    """How far draws of demonstrations are apart, mean over tasks and numbers with several."""
    deviations: dict[str, list[float]] = {method: [] for method in REFERENCES}
    for task, method in product(tasks, REFERENCES):
        for sample in curves.tasks[task][method].values():
            deviations[method] += [float(deviation(sample))] * (len(sample) > 1)
    if not all(deviations.values()):
        return ""
    icl, bc = map(np.mean, deviations.values())
    return (
        f"From one draw of demonstrations to the next it moves by {icl:.1f} points (one standard "
        f"deviation, mean over all) with icl and by {bc:.1f} with bc. "
    )
