"""Accuracy against a number: shots, rows (Fig. 6 and 9), the strength γ (Fig. 5 and 11)."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.artifacts.curves import Curves, mean_and_band
from batch_calibration.artifacts.figures.chart import Axis, Chart, Panel, share_values
from batch_calibration.artifacts.figures.marks import Line, Mark, Rule
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords, task_title
from batch_calibration.artifacts.method_display import PALETTE
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import deviation
from batch_calibration.store import Record

AVERAGE = "average over the tasks"
LEAST_POINTS = 3  # a line between two numbers shows no curve
FAR = 20  # numbers beyond it are on a logarithmic axis


def curve_chart(curves: Curves) -> Chart:
    """A panel a task, a line a method, its band one standard deviation (by n - 1, as in tables).

    Of a mean over many random orders the band is its standard error; a dashed line is a level.
    """
    curves, left_out = _without_short_lines(curves)
    panels = [_curve_panel(curves, task) for task in curves.tasks]
    numbers = sorted(set.intersection(*(set(points) for _, _, points in curves.lines())))
    if len(curves.tasks) > 1 and len(numbers) > 1:
        panels.append(_average_panel(curves, numbers))
    kind = "standard error of the mean" if curves.of_mean else "standard deviation of the draws"
    slider = curves.axis if "probe-size" in curves.slug else ""
    return Chart(
        curves.heading, share_values(panels), ("task", "method", curves.axis, "accuracy"),
        f"Band: {kind}.{left_out}", slider=slider, first=len(panels) - 1,
    )  # fmt: skip


def _without_short_lines(curves: Curves) -> tuple[Curves, str]:
    """The tasks that were run with three numbers or more, if there are any, and who is left out."""
    sizes = {
        task: len(set().union(*by_method.values())) for task, by_method in curves.tasks.items()
    }
    short = [task for task, count in sizes.items() if count < LEAST_POINTS]
    if not short or len(short) == len(sizes):
        return curves, ""
    drawn = {task: curves.tasks[task] for task in curves.tasks if task not in short}
    names = ", ".join(map(task_title, short))
    note = f" Not drawn, as they were run with two numbers of {curves.axis} alone: {names}."
    return curves._replace(tasks=drawn), note


def _curve_panel(curves: Curves, task: str) -> Panel:
    marks: list[Mark] = []
    numbers = sorted(set().union(*curves.tasks[task].values()))
    for method, points in curves.tasks[task].items():
        at, mean, band = mean_and_band(points, of_mean=curves.of_mean)
        # What is compared stands out: five bands of one strength cannot be told apart.
        width, alpha = (2.2, 0.25) if method in REFERENCES else (1.0, 0.06)
        marks.append(_line(method, at, mean, width, mean - band, mean + band, alpha))
    for method, level in curves.levels.get(task, {}).items():
        color = PALETTE.color(method)
        marks.append(Line(f"{method}, all rows", [numbers[0], numbers[-1]], [level] * 2, color,
                          "dash", 1.0))  # fmt: skip
    return Panel(task_title(task), marks, _number_axis(curves.axis, numbers),
                 Axis("accuracy (%)"))  # fmt: skip


def _line(
    method: str, at: Sequence[int], mean: np.ndarray, width: float,
    low: np.ndarray | None = None, high: np.ndarray | None = None, alpha: float = 0.0,
) -> Line:  # fmt: skip
    color, dash = PALETTE.color(method), PALETTE.dash(method)
    return Line(method, at, mean, color, dash, width, low, high, alpha, has_dots=True)


def _average_panel(curves: Curves, numbers: Sequence[int]) -> Panel:
    """The mean over the tasks at the numbers that all lines have."""
    marks: list[Mark] = []
    for method in curves.methods:
        tasks = [by_method[method] for by_method in curves.tasks.values() if method in by_method]
        # An average over some of the tasks would not compare.
        if len(tasks) == len(curves.tasks):
            means = [[points[number].mean() for number in numbers] for points in tasks]
            marks.append(_line(method, numbers, np.mean(means, axis=0), 2.2))
    return Panel(AVERAGE, marks, _number_axis(curves.axis, numbers), Axis("accuracy (%)"))


def _number_axis(title: str, numbers: Sequence[int]) -> Axis:
    return Axis(title, is_log=numbers[-1] > FAR, ticks=numbers)


def has_strength(group: SettingRecords) -> bool:
    """Whether every record has BCL's curve."""
    return all(record.curve is not None for record in group.all_records)


def strength_chart(group: SettingRecords) -> Chart:
    """Accuracy against γ, a panel a task: mean and deviation over seeds, test and labeled rows."""
    panels, curves = [], []
    for task, records in group.records.items():
        test, labeled = _strength_curves(records)
        curves.append(test.mean(0))
        learned = [record.strength for record in records if record.strength is not None]
        marks: list[Mark] = [
            strength_band("test rows", test, PALETTE.color("bc"), "solid"),
            strength_band("labeled rows", labeled, PALETTE.color("cc"), "dash"),
            Rule(0.0, color=PALETTE.color("icl"), dash="dot", name="γ = 0: ICL"),
            Rule(1.0, color=PALETTE.color("bc"), dash="dash", name="γ = 1: BC"),
        ]
        if learned:
            mean = float(np.mean(learned))
            marks.append(Rule(mean, color=PALETTE.labels[0], name="γ learned (mean)"))
        best = float(STRENGTHS[test.mean(0).argmax()])
        marks.append(Rule(best, color=PALETTE.color("bcl"), dash="dashdot", name="γ best on test"))
        panels.append(_strength_panel(task_title(task), marks))
    if len(panels) > 2:  # of two, which are the paper's examples, both are seen
        mean_line = Line("test rows", STRENGTHS, np.mean(curves, axis=0), PALETTE.color("bc"))
        panels.append(_strength_panel(AVERAGE, [mean_line]))
    # Every task has as many seeds.
    count = max(map(len, group.records.values()))
    seeds = "one seed" if count == 1 else f"mean and band of one sd over {count} seeds"
    return Chart(
        f"Strength of BC: {group.setting}", share_values(panels),
        ("task", "rows", "strength", "accuracy"),
        f"{seeds.capitalize()}.", (3.2, 2.3), slider="γ", first=len(panels) - 1,
    )  # fmt: skip


def _strength_panel(title: str, marks: Sequence[Mark]) -> Panel:
    return Panel(title, marks, Axis("strength γ (no unit)"), Axis("accuracy (%)"))


def _strength_curves(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy in % on test rows and on labeled rows, [seed strength]."""
    curves = [record.curve for record in records if record.curve]  # see `has_strength`
    test = 100 * np.array([curve.test for curve in curves])
    return test, 100 * np.array([curve.labeled for curve in curves])


def strength_band(name: str, curves: np.ndarray, color: str, dash: str) -> Line:
    """The mean of curves [seed strength], and one standard deviation on either side."""
    mean, band = curves.mean(0), deviation(curves)  # [strength] both
    return Line(name, STRENGTHS, mean, color, dash, 1.5, mean - band, mean + band, 0.2)
