"""Accuracy against shots, against the rows a bias is learned from, and against the rows seen."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.metrics import Estimate, deviation
from batch_calibration.reporting import frame
from batch_calibration.reporting.cells import Cells, best_of, notes
from batch_calibration.reporting.frame import CORRECTED, REFERENCES, Frame, task_title
from batch_calibration.studies import ByRows, Record

# Accuracies in %, one for each seed or draw, by the number on the axis below them.
Points = dict[int, np.ndarray]
STREAM_NOTE = (
    "Rows arrive in several orders, and each is corrected on arrival; a number is the accuracy on "
    "the rows between the count of rows seen in the line above and its own."
)


class Curves(NamedTuple):
    """Accuracy of some methods against one number, task by task."""

    slug: str  # part of a file name
    heading: str  # what the tables and the figure show
    axis: str  # what the number counts
    tasks: dict[str, dict[str, Points]]  # task -> method -> number -> accuracies
    note: str = ""  # what a reader of the numbers must know
    # Task -> method -> one accuracy that does not depend on the number.
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


def by_shots(groups: Sequence[Frame]) -> list[Curves]:
    """Settings that differ in nothing but the shots, two or more, as curves (the paper's Fig. 6).

    A task, or a method on it, that was run with one number of shots alone is left out.
    """
    with_shots = [group for group in groups if group.setting.shots is not None]
    families = frame.group_by(with_shots, lambda group: group.setting._replace(shots=None))
    several = [family for family in families.values() if len(family) > 1]
    return [curves for curves in map(_shot_curves, several) if curves.tasks]


def _shot_curves(family: Sequence[Frame]) -> Curves:
    tasks: dict[str, dict[str, Points]] = {}
    gained: dict[str, dict[int, Estimate]] = {}
    for group in family:
        shots = group.setting.shots or 0
        for task, contexts in group.tasks.items():
            if group.has_references:
                gained.setdefault(task, {})[shots] = frame.gain(contexts, CORRECTED)
            for method in filter(frame.is_over_shots, group.methods):
                points = tasks.setdefault(task, {}).setdefault(method, {})
                points[shots] = 100 * contexts.values(method)
    lines: dict[str, dict[str, Points]] = {}
    for task, by_method in tasks.items():
        # One point alone is no line.
        several = {method: points for method, points in by_method.items() if len(points) > 1}
        lines |= {task: several} if several else {}
    setting, most = family[0].setting, max(group.setting.shots or 0 for group in family)
    slug = setting.slug.replace(f"-{setting.shots}shot", f"-0to{most}shots", 1)
    heading = f"Shots: {setting._replace(shots=None)}"
    note = notes(chain.from_iterable(group.records for group in family))
    number = "Figure 6" * setting.has_own_labels
    return Curves(slug, heading, "shots per class", lines, note, gains=gained, number=number)


def _pool(records: Iterable[Record], curve: str) -> dict[str, dict[str, Points]]:
    """Pools the draws of all seeds: task -> method -> its points on a curve of `CURVES`."""
    tasks: dict[str, dict[str, Points]] = {}
    for record in records:
        for method in sorted(record.methods):
            by_rows: ByRows | None = getattr(record.methods[method], curve)
            if by_rows is None:
                continue
            points = tasks.setdefault(record.context.task, {}).setdefault(method, {})
            for number, shares in zip(by_rows.rows, by_rows.accuracy, strict=True):
                points[number] = np.append(points.get(number, []), 100 * np.array(shares))
    return tasks


def by_probe_size(groups: Sequence[Frame]) -> list[Curves]:
    """Accuracy against how many unlabeled rows a method learns from (the paper's Fig. 9)."""
    curves = []
    for group in groups:
        if tasks := _pool(group.records, "probe_size"):
            slug, heading = f"{group.setting.slug}-probe-size", f"Probe size: {group.setting}"
            axis, note = "rows the bias is learned from", notes(group.records)
            number = "Figure 9" * group.setting.has_own_labels
            curves.append(Curves(slug, heading, axis, tasks, note, number=number))
    return curves


def by_rows_seen(groups: Sequence[Frame]) -> list[Curves]:
    """Accuracy of rows as they come against how many have come.

    Plain ICL and BC on all rows at once are levels.
    """
    curves = []
    for group in groups:
        levels: dict[str, dict[str, float]] = {}
        streamed = list[Record]()
        for record in group.records:
            if any(result.over_stream for result in record.methods.values()):
                streamed.append(record)
        tasks = _pool(streamed, "over_stream")
        for task, contexts in Frame(group.setting, streamed).tasks.items():
            for method in filter(contexts.methods.__contains__, REFERENCES):
                levels.setdefault(task, {})[method] = 100 * float(contexts.values(method).mean())
        if tasks:
            slug, heading = f"{group.setting.slug}-rows-seen", f"Rows seen: {group.setting}"
            note = notes(group.records, STREAM_NOTE)
            curves.append(Curves(slug, heading, "rows seen", tasks, note, levels, of_mean=True))
    return curves


def curve_cells(curves: Curves) -> Cells:
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
