"""Accuracy against shots, against the rows a bias is learned from, and against the rows seen."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import Cells, best_of, notes
from batch_calibration.artifacts.grouping import (
    CORRECTED,
    REFERENCES,
    SettingRecords,
    joined,
    title,
)
from batch_calibration.artifacts.method_display import is_over_shots
from batch_calibration.methods import METHODS
from batch_calibration.metrics import Estimate, deviation

Points = dict[int, np.ndarray]
"""Accuracies in %, one for each seed or draw, by the number on the axis below them."""

SEEN = (
    "Rows come in many orders, each corrected when it comes; a number is the accuracy of those "
    "between the number of rows seen above it and its own."
)

NAMED = 4
"""A paragraph names the accuracies of so many tasks at most."""


class Curves(NamedTuple):
    """Accuracy of some methods against one number, task by task.

    Attributes:
        slug: Part of a file name.
        heading: What the tables and the figure show.
        axis: What the number counts.
        tasks: task -> method -> number -> accuracies.
        note: What a reader of the numbers must know.
        levels: task -> method -> one accuracy beside the curves, whatever the number.
        of_mean: Whether a band is the standard error of the mean, not the standard deviation.
        gains: task -> number -> what bc gains over icl there, where both were run.
    """

    slug: str
    heading: str
    axis: str
    tasks: dict[str, dict[str, Points]]
    note: str = ""
    levels: Mapping[str, Mapping[str, float]] = {}
    of_mean: bool = False
    gains: Mapping[str, Mapping[int, Estimate]] = {}


def apart(groups: Sequence[SettingRecords]) -> list[SettingRecords]:
    """Settings to be shown by themselves: all but those whose tasks a wider setting has too.

    Where shots alone differ they are points of a curve beside it, and the curve shows them.
    """

    def wider(one: SettingRecords, other: SettingRecords) -> bool:
        alike = one.setting._replace(shots=0) == other.setting._replace(shots=0)
        return alike and one.records.keys() < other.records.keys()

    return [one for one in groups if not any(wider(one, other) for other in groups)]


def by_shots(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Settings that differ in nothing but the shots, two or more, as curves (the paper's Fig. 6).

    A task, or a method on it, that was run with one number of shots alone is left out.
    """
    drawn = list(filter(is_over_shots, METHODS))
    alike: dict[object, list[SettingRecords]] = {}
    for group in groups:
        if group.setting.shots is not None:
            alike.setdefault(group.setting._replace(shots=0), []).append(group)
    found = []
    for same in alike.values():
        if len(same) < 2:
            continue
        tasks: dict[str, dict[str, Points]] = {}
        gained: dict[str, dict[int, Estimate]] = {}
        for group in same:
            both = bool(gains.compared(group, REFERENCES))
            for task in group.records:
                if both:
                    of_task = gained.setdefault(task, {})
                    of_task[group.setting.shots or 0] = gains.gain(group, task, CORRECTED)
                for method in group.among(drawn):
                    points = tasks.setdefault(task, {}).setdefault(method, {})
                    points[group.setting.shots or 0] = 100 * group.values(task, method)
        lines = {
            task: {method: points for method, points in of_method.items() if len(points) > 1}
            for task, of_method in tasks.items()
        }
        tasks = {task: of_method for task, of_method in lines.items() if of_method}
        if not tasks:
            continue
        held = same[0].setting
        most = max(group.setting.shots or 0 for group in same)
        slug = held.slug.replace(f"-{held.shots}shot", f"-0to{most}shots", 1)
        note = notes(record for group in same for record in group.every)
        heading = f"Shots: {held.words()}"
        found.append(Curves(slug, heading, "shots per class", tasks, note, gains=gained))
    return found


def _pool(points: Points, numbers: Sequence[int], values: Sequence[Sequence[float]]) -> None:
    """Puts each number's values, shares from 0 to 1, beside those it has."""
    for number, some in zip(numbers, values, strict=True):
        points[number] = np.concatenate([points.get(number, np.zeros(0)), 100 * np.array(some)])


def by_probe_size(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Accuracy against how many unlabeled rows a method learns from (the paper's Fig. 9).

    Draws of all seeds are pooled.
    """
    found = []
    for group in groups:
        tasks: dict[str, dict[str, Points]] = {}
        for task, records in group.records.items():
            for record in records:
                if record.probe_size is None:
                    continue
                sizes, accuracy = record.probe_size.sizes, record.probe_size.accuracy
                for method in sorted(accuracy):
                    points = tasks.setdefault(task, {}).setdefault(method, {})
                    _pool(points, sizes, accuracy[method])
        if tasks:
            slug, heading = f"{group.setting.slug}-probe-size", f"Probe size: {group.setting}"
            note = notes(group.every)
            found.append(Curves(slug, heading, "rows the bias is learned from", tasks, note))
    return found


def by_rows_seen(groups: Sequence[SettingRecords]) -> list[Curves]:
    """Accuracy of rows as they come against how many have come, orders of all seeds pooled.

    Plain ICL and BC on all rows at once are levels.
    """
    found = []
    for group in groups:
        tasks: dict[str, dict[str, Points]] = {}
        levels: dict[str, dict[str, float]] = {}
        for task, records in group.records.items():
            drawn = [record for record in records if record.over_stream]
            for record in drawn:
                assert record.over_stream
                rows, accuracy = record.over_stream.rows, record.over_stream.accuracy
                for method in sorted(accuracy):
                    points = tasks.setdefault(task, {}).setdefault(method, {})
                    _pool(points, rows, accuracy[method])
            for method in REFERENCES if drawn else ():
                of = [one.methods[method]["accuracy"] for one in drawn if method in one.methods]
                if len(of) == len(drawn):
                    levels.setdefault(task, {})[method] = 100 * float(np.mean(of))
        if tasks:
            slug, heading = f"{group.setting.slug}-rows-seen", f"Rows seen: {group.setting}"
            note = " ".join(filter(None, (SEEN, notes(group.every))))
            found.append(Curves(slug, heading, "rows seen", tasks, note, levels, of_mean=True))
    return found


def accuracy_cells(curves: Curves) -> Cells:
    """Header, then one row for each task and number: mean ± sd in %; a level is one number."""
    methods = list(dict.fromkeys(m for of_task in curves.tasks.values() for m in of_task))
    beside = list(dict.fromkeys(m for of_task in curves.levels.values() for m in of_task))
    rows: Cells = [["task", curves.axis, *methods, *(f"{m}, all rows" for m in beside)]]
    for task, of_task in curves.tasks.items():
        for number in sorted({n for points in of_task.values() for n in points}):
            have = [m for m in methods if number in of_task.get(m, {})]
            cells = dict(zip(have, best_of([of_task[m][number] for m in have]), strict=True))
            held = curves.levels.get(task, {})
            flat = (f"{held[m]:.1f}" if m in held else "-" for m in beside)
            rows.append([title(task), str(number), *(cells.get(m, "-") for m in methods), *flat])
    return rows


def paragraph(curves: Curves) -> str:
    """How far icl and bc move along the curve, where bc is ahead, and how sure that is."""
    tasks = {task: found for task, found in curves.gains.items() if task in curves.tasks}
    tasks = {task: of for task, of in tasks.items() if {*REFERENCES} <= {*curves.tasks[task]}}
    if not tasks:
        return ""
    numbers = sorted({number for of in tasks.values() for number in of})
    lines = {name: {task: curves.tasks[task][name] for task in tasks} for name in REFERENCES}
    ends = [[_ends(points) for points in of.values()] for of in lines.values()]
    most_points = max(map(len, tasks.values()))
    lies = [
        f"{icl} with icl and {bc} with bc on {title(task)}"
        for icl, bc, task in zip(*ends, tasks, strict=True)
        if len(tasks[task]) == most_points
    ]
    said = f"Mean accuracy in % lies between {'; '.join(lies)}. "
    means = said if len(lies) <= NAMED else ""
    every = [gain for of in tasks.values() for gain in of.values()]
    won, _, lost = gains.verdicts(every)
    least, most = (
        pick((gain.value, gain, title(task), number) for task, of in tasks.items()
             for number, gain in of.items()) for pick in (min, max)
    )  # fmt: skip
    return (
        f"{curves.heading} ({numbers[0]} to {numbers[-1]} {curves.axis} on "
        f"{joined(map(title, tasks))}, all else stays): at {won or 'none'} of {len(every)} points "
        f"Batch Calibration (bc) gains beyond noise over the plain scores (icl), at "
        f"{lost or 'none'} it loses; its gain goes from {gains.marked(least[1])} points ({least[2]}"
        f" at {least[3]}) to {gains.marked(most[1])} ({most[2]} at {most[3]}). {means}"
        f"{_apart(lines)}In brackets 95 % intervals over draws of "
        f"demonstrations and test rows, {gains.MARK} where 0 is outside; where there is one draw "
        "they are over rows alone."
    )


def _ends(points: Points) -> str:
    means = {number: float(values.mean()) for number, values in points.items()}
    low, high = (pick(means, key=means.__getitem__) for pick in (min, max))
    return f"{means[low]:.1f} (at {low}) and {means[high]:.1f} (at {high})"


def _apart(lines: Mapping[str, Mapping[str, Points]]) -> str:
    """How far draws of demonstrations are apart, mean over tasks and numbers with several."""
    sds = [
        [float(deviation(v)) for points in of.values() for v in points.values() if len(v) > 1]
        for of in lines.values()
    ]
    if not all(sds):
        return ""
    icl, bc = map(np.mean, sds)
    return (
        f"From one draw of demonstrations to the next it moves by {icl:.1f} points (one standard "
        f"deviation, mean over all) with icl and by {bc:.1f} with bc. "
    )
