"""Accuracy against shots, against the rows a bias is learned from, and against the rows seen."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from batch_calibration.methods import METHODS
from batch_calibration.metrics import deviation
from batch_calibration.reporting.cells import Cells, best_of
from batch_calibration.reporting.frame import LABELS, REFERENCES, Frame, factor_name, task_title
from batch_calibration.reporting.items import notes_of
from batch_calibration.studies import Record
from batch_calibration.studies.records import ByRows

# Accuracies in %, one for each context or draw, by the number on the horizontal axis.
Points = dict[int, np.ndarray]
STREAM_NOTE = (
    "Rows arrive in several orders, and each is corrected on arrival; a number is the accuracy on "
    "the rows between the count of rows seen in the line above and its own."
)


class Curves(NamedTuple):
    """Accuracy of some methods against one number, by task.

    Attributes:
        slug: part of a file name.
        heading: the title of the table and the figure.
        axis: the quantity on the horizontal axis.
        tasks: task -> method -> number -> accuracies.
        note: sentences that qualify the numbers.
        levels: task -> method -> an accuracy that does not depend on the number.
        of_mean: True if a band is the standard error of the mean, not the standard deviation.
        number: the figure's number in the paper behind its kind; empty for other figures.
    """

    slug: str
    heading: str
    axis: str
    tasks: dict[str, dict[str, Points]]
    note: str = ""
    levels: Mapping[str, Mapping[str, float]] = {}
    of_mean: bool = False
    number: str = ""

    @property
    def methods(self) -> list[str]:
        """The methods of all tasks."""
        return list(dict.fromkeys(chain.from_iterable(self.tasks.values())))


def is_over_shots(name: str) -> bool:
    """Checks whether a method is in curves of shots: the paper's comparison of whole batches."""
    method = METHODS[name]
    return method.group == "paper" and not method.own_rows


def mean_and_band(points: Points, *, of_mean: bool) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Returns the numbers, the means there, and the half-widths of the band (`Curves.of_mean`)."""
    numbers = sorted(points)
    samples = [points[number] for number in numbers]
    means = np.array([sample.mean() for sample in samples])
    widths = np.array(list(map(deviation, samples)))
    return numbers, means, widths / np.sqrt(list(map(len, samples))) if of_mean else widths


def by_shots(section: str, group: Frame) -> Curves | None:
    """Makes curves over the shots (the paper's Fig. 6) of tasks and methods with two numbers."""
    tasks: dict[str, dict[str, Points]] = {}
    if "shots" not in group.varying:
        return None
    for task, contexts in group.tasks.items():
        by_method: dict[str, Points] = {}
        matched = contexts.matched("shots")
        for (shots,), part in matched.frame.by("shots").items() if matched.is_fair else ():
            for method in filter(is_over_shots, part.methods if shots.isdigit() else ()):
                by_method.setdefault(method, {})[int(shots)] = 100 * part.values(method)
        several = {method: points for method, points in by_method.items() if len(points) > 1}
        tasks |= {task: several} if several else {}
    is_paper = not any(name in group.varying for name in LABELS)
    heading, number = f"Shots: {group.heading}", "Figure 6" * is_paper
    note = notes_of(group, _mixed(group, "shots"))
    curves = Curves(f"{section}-shots", heading, "shots per class", tasks, note, number=number)
    return curves if tasks else None


def find_curves(section: str, group: Frame) -> Iterator[Curves]:
    """Yields curves over probe sizes (the paper's Fig. 9) and over the rows of a stream."""
    if tasks := _pool(group.records, "probe_size"):
        heading, axis = f"Probe size: {group.heading}", "rows the bias is learned from"
        note, number = notes_of(group, _mixed(group)), "Figure 9"
        yield Curves(f"{section}-probe-size", heading, axis, tasks, note, number=number)
    streamed, levels = list[Record](), dict[str, dict[str, float]]()
    for record in group.records:
        if any(result.over_stream for result in record.methods.values()):
            streamed.append(record)
    if streamed:
        # Plain ICL, and BC on all rows at once.
        for task, contexts in Frame(streamed).tasks.items():
            of_task = filter(contexts.has, REFERENCES)
            levels[task] = {name: float(100 * contexts.values(name).mean()) for name in of_task}
        note, heading = notes_of(group, STREAM_NOTE, _mixed(group)), f"Rows seen: {group.heading}"
        tasks, slug = _pool(streamed, "over_stream"), f"{section}-rows-seen"
        yield Curves(slug, heading, "rows seen", tasks, note, levels, of_mean=True)


def _mixed(group: Frame, *shown: str) -> str:
    """Returns a sentence on factors that a curve does not show."""
    hidden = [factor_name(name) for name in group.varying if name not in ("task", "seed", *shown)]
    return f"Means over contexts that differ in {', '.join(hidden)}." if hidden else ""


def _pool(records: Iterable[Record], curve: str) -> dict[str, dict[str, Points]]:
    """Pools the draws of all contexts: task -> method -> its points on a curve of `CURVES`."""
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


def curve_cells(curves: Curves) -> Cells:
    """Makes a row for each task and number: accuracy in %, mean ± sd; a level is one number."""
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
