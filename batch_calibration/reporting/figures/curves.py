"""Accuracy against a number: shots, rows (Fig. 6 and 9), the strength γ (Fig. 5 and 11)."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import deviation
from batch_calibration.reporting.curves import Curves, Points, mean_and_band
from batch_calibration.reporting.figures.chart import ACCURACY, Axis, Chart, Panel, share_values
from batch_calibration.reporting.figures.marks import Line, Mark, Rule
from batch_calibration.reporting.frame import REFERENCES, Frame, task_title
from batch_calibration.reporting.method_display import PALETTE

AVERAGE = "average over the tasks"
LEAST_POINTS = 3  # a line between two numbers shows no curve
FAR = 20  # numbers beyond it are on a logarithmic axis


def curve_chart(curves: Curves) -> Chart:
    """A panel a task, a line a method, its band one standard deviation (by n - 1, as in tables).

    Of a mean over many random orders the band is its standard error; a dashed line is a level.
    """
    curves, left_out = _without_short_lines(curves)
    panels = [_curve_panel(curves, task) for task in curves.tasks]
    lines = chain.from_iterable(by_method.values() for by_method in curves.tasks.values())
    numbers = sorted(set.intersection(*map(set, lines)))
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
    drawn, short = {}, []
    for task, by_method in curves.tasks.items():
        if len(_numbers(by_method)) < LEAST_POINTS:
            short.append(task_title(task))
        else:
            drawn[task] = by_method
    if not short or not drawn:
        return curves, ""
    numbers = f"as they were run with two numbers of {curves.axis} alone"
    return curves._replace(tasks=drawn), f" Not drawn, {numbers}: {', '.join(short)}."


def _numbers(by_method: Mapping[str, Points]) -> list[int]:
    return sorted(set().union(*by_method.values()))


def _curve_panel(curves: Curves, task: str) -> Panel:
    marks: list[Mark] = []
    numbers = _numbers(curves.tasks[task])
    for method, points in curves.tasks[task].items():
        at, mean, band = mean_and_band(points, of_mean=curves.of_mean)
        # What is compared stands out: five bands of one strength cannot be told apart.
        width, alpha = (2.2, 0.25) if method in REFERENCES else (1.0, 0.06)
        color, dash, ends = PALETTE.color(method), PALETTE.dash(method), (mean - band, mean + band)
        marks.append(Line(method, at, mean, color, dash, width, *ends, alpha, has_dots=True))
    for method, level in curves.levels.get(task, {}).items():
        name, color, ends = f"{method}, all rows", PALETTE.color(method), (numbers[0], numbers[-1])
        marks.append(Line(name, ends, (level, level), color, "dash", 1.0))
    return Panel(task_title(task), marks, _number_axis(curves.axis, numbers), ACCURACY)


def _average_panel(curves: Curves, numbers: Sequence[int]) -> Panel:
    """The mean over the tasks at the numbers that all lines have."""
    marks: list[Mark] = []
    for method in curves.methods:
        tasks = [by_method[method] for by_method in curves.tasks.values() if method in by_method]
        # An average over some of the tasks would not compare.
        if len(tasks) == len(curves.tasks):
            means = []
            for points in tasks:
                of_task = [points[number].mean() for number in numbers]
                means.append(of_task)
            mean, color, dash = np.mean(means, axis=0), PALETTE.color(method), PALETTE.dash(method)
            marks.append(Line(method, numbers, mean, color, dash, 2.2, has_dots=True))
    return Panel(AVERAGE, marks, _number_axis(curves.axis, numbers), ACCURACY)


def _number_axis(title: str, numbers: Sequence[int]) -> Axis:
    return Axis(title, is_log=numbers[-1] > FAR, ticks=numbers)


def has_strength(group: Frame) -> bool:
    """Whether every record has BCL's curve."""
    return all(record.curve is not None for record in group.records)


def strength_chart(group: Frame) -> Chart:
    """Accuracy against γ, a panel a task: mean and deviation over seeds, test and labeled rows."""
    panels, means = [], []
    x = Axis("strength γ (no unit)")
    for task, frame in group.tasks.items():
        records = frame.records
        curves = [record.curve for record in records if record.curve]  # see `has_strength`
        test = 100 * np.array([curve.test for curve in curves])  # [seed strength], %
        labeled = 100 * np.array([curve.labeled for curve in curves])
        means.append(test.mean(0))
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
        panels.append(Panel(task_title(task), marks, x, ACCURACY))
    if len(panels) > 2:  # of two, which are the paper's examples, both are seen
        mean_line = Line("test rows", STRENGTHS, np.mean(means, axis=0), PALETTE.color("bc"))
        panels.append(Panel(AVERAGE, [mean_line], x, ACCURACY))
    # Every task has as many seeds.
    count = group.max_seeds
    seeds = "One seed" if count == 1 else f"Mean and band of one sd over {count} seeds"
    return Chart(
        f"Strength of BC: {group.setting}", share_values(panels),
        ("task", "rows", "strength", "accuracy"), f"{seeds}.", (3.2, 2.3), slider="γ",
        first=len(panels) - 1,
    )  # fmt: skip


def strength_band(name: str, curves: np.ndarray, color: str, dash: str) -> Line:
    """The mean of curves [seed strength], and one standard deviation on either side."""
    mean, band = curves.mean(0), deviation(curves)  # [strength] both
    return Line(name, STRENGTHS, mean, color, dash, 1.5, mean - band, mean + band, 0.2)
