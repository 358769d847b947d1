"""Accuracy against the number of shots, and against the number of rows a bias is learned from."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.study import MAIN, Study, title
from batch_calibration.artifacts.style import COLORS, COLUMNS, STYLE
from batch_calibration.artifacts.tables import Cells, bold, spread

Points = dict[int, np.ndarray]
"""Accuracies in %, one for each seed or draw, by the number on the axis below them."""


class Curves(NamedTuple):
    """Accuracy of some methods against one number, task by task.

    Attributes:
        slug: Part of a file name.
        heading: What the tables and the figure show.
        axis: What the number counts.
        tasks: task -> method -> number -> accuracies.
    """

    slug: str
    heading: str
    axis: str
    tasks: dict[str, dict[str, Points]]


def apart(studies: Sequence[Study]) -> list[Study]:
    """Studies to be shown by themselves: all but those whose tasks a wider study has too.

    Where shots alone differ they are points of a curve beside it, and the curve shows them.
    """

    def wider(study: Study, other: Study) -> bool:
        alike = study.setting._replace(shots=0) == other.setting._replace(shots=0)
        return alike and study.records.keys() < other.records.keys()

    return [study for study in studies if not any(wider(study, other) for other in studies)]


def by_shots(studies: Sequence[Study]) -> list[Curves]:
    """Studies that differ in nothing but the shots, two or more, as curves (the paper's Fig. 5).

    A task, or a method on it, that was run with one number of shots alone is left out.
    """
    groups: dict[object, list[Study]] = {}
    for study in studies:
        groups.setdefault(study.setting._replace(shots=0), []).append(study)
    found = []
    for group in groups.values():
        if len(group) < 2:
            continue
        tasks: dict[str, dict[str, Points]] = {}
        for study in group:
            for task in study.records:
                for method in study.among([name for name in MAIN if name != "bc_running"]):
                    points = tasks.setdefault(task, {}).setdefault(method, {})
                    points[study.setting.shots] = 100 * study.values(task, method)
        lines = {
            task: {method: points for method, points in of_task.items() if len(points) > 1}
            for task, of_task in tasks.items()
        }
        tasks = {task: of_task for task, of_task in lines.items() if of_task}
        if not tasks:
            continue
        held = group[0].setting
        most = max(study.setting.shots for study in group)
        slug = held.slug.replace(f"-{held.shots}shot-", f"-0to{most}shots-")
        rows = f", first {held.limit} rows" if held.limit else ""
        heading = f"Shots: {held.model}, {held.split} split{rows}"
        found.append(Curves(slug, heading, "shots per class", tasks))
    return found


def by_probe_size(studies: Sequence[Study]) -> list[Curves]:
    """Accuracy against how many unlabeled rows BC and PC learn from, draws of all seeds pooled."""
    found = []
    for study in studies:
        tasks: dict[str, dict[str, Points]] = {}
        for task, records in study.records.items():
            for record in records:
                sizes = record.get("probe_size", {})
                for method, draws in sizes.get("accuracy", {}).items():
                    points = tasks.setdefault(task, {}).setdefault(method, {})
                    for size, values in zip(sizes["sizes"], draws, strict=True):
                        before = points.get(size, np.zeros(0))
                        points[size] = np.concatenate([before, 100 * np.array(values)])
        if tasks:
            slug, heading = f"{study.setting.slug}-probe-size", f"Probe size: {study.setting}"
            found.append(Curves(slug, heading, "rows the bias is learned from", tasks))
    return found


def accuracy_cells(curves: Curves) -> Cells:
    """Header, then one row for each task and number: mean ± sd in %."""
    methods = list(dict.fromkeys(m for of_task in curves.tasks.values() for m in of_task))
    rows = [["task", curves.axis, *methods]]
    for task, of_task in curves.tasks.items():
        for number in sorted({n for points in of_task.values() for n in points}):
            values = {m: of_task[m][number] for m in methods if number in of_task.get(m, {})}
            best = max(round(v.mean(), 1) for v in values.values())
            rows.append([title(task), str(number)] + [
                bold(spread(values[m]), round(values[m].mean(), 1) == best) if m in values else "-"
                for m in methods
            ])  # fmt: skip
    return rows


def figure(curves: Curves) -> Figure:
    """A panel a task, a line a method, its band one standard deviation."""
    count = len(curves.tasks)
    columns = min(count, COLUMNS)
    lines = -(-count // columns)
    with plt.rc_context(STYLE):
        drawn, grid = plt.subplots(
            lines, columns, figsize=(1 + 3 * columns, 0.6 + 2.6 * lines), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axes, (task, of_task) in zip(grid.flat, curves.tasks.items(), strict=False):
            _panel(axes, of_task)
            axes.set_title(title(task), loc="left")
            axes.set_xlabel(curves.axis)
        for axes in grid.flat[count:]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy (%)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        drawn.suptitle(fill(curves.heading, 48 * columns), x=0.01, ha="left", fontsize=10)
    return drawn


def _panel(axes: plt.Axes, of_task: Mapping[str, Points]) -> None:
    numbers = sorted({number for points in of_task.values() for number in points})
    far = numbers[-1] > 20
    if far:
        axes.set_xscale("log")
    for method, points in of_task.items():
        places = sorted(points)
        mean = np.array([points[place].mean() for place in places])
        sd = np.array([points[place].std() for place in places])
        axes.plot(places, mean, "o-", ms=3, color=COLORS[method], label=method)
        axes.fill_between(places, mean - sd, mean + sd, color=COLORS[method], alpha=0.15, lw=0)
    axes.set_xticks(numbers, [str(number) for number in numbers], rotation=45 if far else 0)
    axes.minorticks_off()
