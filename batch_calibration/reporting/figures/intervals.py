"""Numbers with intervals: gains by task or context, and accuracies by method."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.reporting.cells import task_cell
from batch_calibration.reporting.figures.chart import INTERVALS, Axis, Chart, Panel
from batch_calibration.reporting.figures.marks import FAINT, Dots, Mark, Rule, Spans
from batch_calibration.reporting.frame import Frame
from batch_calibration.reporting.method_display import PALETTE, verdict_color

STEP = 5.0  # the axes end at a multiple of so many points
FARTHEST = 30.0  # a panel shows so many points on either side of 0, at most
MAX_NAMED = 60  # of more contexts none is named beside the figure
VERDICT_NOTE = (
    "Blue: a gain beyond noise, orange: a loss, gray: 0 is inside the 95 % interval. An arrow: the "
    "end lies beyond the axis."
)
# Title -> row -> gain, 0 to 1, and the sign of what is beyond noise.
Gains = Mapping[str, Mapping[str, tuple[Estimate, int]]]
Accuracies = Mapping[str, Mapping[str, Estimate]]  # title -> method -> accuracy, 0 to 1


def forest(
    panels: Gains, rows: Sequence[str], label: str, heading: str, columns: tuple[str, str],
    *, together: bool = False,
) -> Chart:  # fmt: skip
    """A panel a set: differences in points, a row each, with intervals and a line at zero.

    All panels have one range, which holds 0 in its middle and nine in ten of all ends. Rows are
    from the top, one without a difference in a panel is left empty; `label` is of the horizontal
    axes, `columns` are of the CSV: what a panel and what a row is.
    """
    ends: list[float] = []
    for by_row in panels.values():
        for estimate, _ in by_row.values():
            ends += [abs(100 * estimate.low), abs(100 * estimate.high)]
    reach = STEP * max(1.0, float(np.ceil(np.quantile(ends or [0.0], 0.9) / STEP)))
    limits = -min(reach, FARTHEST), min(reach, FARTHEST)
    y = Axis("", names=rows, from_top=True, shows_names=len(rows) <= MAX_NAMED)
    heights, ones = np.arange(len(rows)), np.ones(len(rows))
    grid = Spans(heights, limits[0] * ones, limits[1] * ones, "x", FAINT, 0.6)
    drawn = []
    for title, by_row in panels.items():
        shown = [row for row in rows if row in by_row]
        numbers = 100 * np.array([by_row[row][0] for row in shown]).reshape(-1, 3)  # [row 3]
        places = np.array([i for i, row in enumerate(rows) if row in by_row], float)
        colors = [verdict_color(by_row[row][1]) for row in shown]
        value, low, high = numbers.T
        dots = Dots("gain", value, places, colors, along="x", low=low, high=high)
        drawn.append(Panel(title, [grid, Rule(0.0), dots], Axis(label, limits, clips=True), y))
    return Chart(
        heading, drawn, (columns[0], "", columns[1], "gain"), VERDICT_NOTE,
        (2.6, 0.7 + 0.17 * max(3, len(rows))), together=together, dpi=100,
    )  # fmt: skip


def gain_chart(group: Frame, methods: Sequence[str]) -> Chart:
    """The gain of each method on each task in points, and its 95 % interval; last their average.

    The gain of all these methods over icl is known.
    """
    rows = list(map(task_cell, group.tasks.values()))
    rows += ["average"] if len(rows) > 1 else []
    panels = {}
    for method in methods:
        estimates = list(group.gains(method).values())
        estimates.append(over_tasks(estimates))
        # Of one task there is no average: zip leaves it out.
        pairs = [(estimate, estimate.beyond_noise) for estimate in estimates]
        panels[method] = dict(zip(rows, pairs, strict=False))
    heading = f"Gain over icl, task by task: {group.setting}"
    return forest(panels, rows, "gain over icl (points)", heading, ("method", "task"))


def context_chart(gains_by_context: Mapping[str, Estimate], heading: str) -> Chart:
    """The gain of each context, the largest on top: a named row each, or of many a thin strip."""
    names = sorted(gains_by_context, key=lambda name: -gains_by_context[name].value)
    pairs = {name: (gains_by_context[name], gains_by_context[name].beyond_noise) for name in names}
    label = "gain in accuracy (points)"
    if len(names) <= MAX_NAMED:
        return forest({"gain": pairs}, names, label, heading, ("", "context"), together=True)
    numbers = 100 * np.array([gains_by_context[name] for name in names])  # [context 3]
    colors = [verdict_color(pairs[name][1]) for name in names]
    axes = Axis("contexts, the largest gain first"), Axis(label)
    return strip("gain", names, numbers, colors, axes, heading, VERDICT_NOTE)._replace(dpi=100)


def strip(
    kind: str, names: Sequence[str], numbers: np.ndarray, color: str | Sequence[str],
    axes: tuple[Axis, Axis], heading: str, note: str,
) -> Chart:  # fmt: skip
    """Many contexts by rank, a thin line each: number and ends [context 3], the name on hover."""
    ranks, (value, low, high) = np.arange(1.0, len(names) + 1), numbers.T
    dots = Dots(
        kind, ranks, value, color, size=3, low=low, high=high, hover=names,
        extra={"context": names},
    )  # fmt: skip
    panel = Panel(kind, [Rule(0.0, "x"), dots], *axes)
    return Chart(heading, [panel], ("", "", "rank", kind), note, size=(8.0, 3.0), together=True)


def estimate_chart(panels: Accuracies, heading: str) -> Chart:
    """A dot and its interval for each method; the dotted line is the first method's."""
    methods = list(dict.fromkeys(chain.from_iterable(panels.values())))
    estimates = chain.from_iterable(panel.values() for panel in panels.values())
    ends = [100 * end for end in chain.from_iterable(estimates)]
    x = Axis("accuracy (%)", (min(ends) - 2, max(ends) + 2))
    y = Axis("", names=methods, from_top=True)
    drawn = []
    for title, panel in panels.items():
        value, low, high = 100 * np.array(list(panel.values())).T  # [method] each
        places = [float(methods.index(method)) for method in panel]
        texts = [f"{number:.1f}" for number in value]
        marks: list[Mark] = [
            Rule(float(value[0]), color=PALETTE.color(methods[0]), dash="dot"),
            Dots("accuracy", value, places, list(map(PALETTE.color, panel)), along="x", low=low,
                 high=high, texts=texts),
        ]  # fmt: skip
        drawn.append(Panel(title, marks, x, y))
    return Chart(
        heading, drawn, ("panel", "", "method", "accuracy"), f"{INTERVALS} Dotted: {methods[0]}.",
        (3.2, 0.7 + 0.28 * len(methods)), together=len(drawn) <= 4,
    )  # fmt: skip
