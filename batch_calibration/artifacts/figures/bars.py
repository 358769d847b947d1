"""Draws accuracy averaged over the tasks, a bar a method: the paper's Fig. 1."""

from itertools import cycle

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.figures.style import STYLE, color
from batch_calibration.artifacts.grouping import SettingRecords, title
from batch_calibration.intervals import deviation

SIGNS = "osD^vP*X<>hpd"
"""A sign a task."""


def draw(group: SettingRecords) -> Figure:
    """Accuracy of each method averaged over the tasks, a mark for each task.

    The whisker is one standard deviation over seeds of the average over tasks.
    """
    methods = group.compared
    # More tasks than signs are points without a name.
    named = len(group.records) <= len(SIGNS)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(1 + 1.1 * len(methods), 3.2))
        for x, method in enumerate(methods):
            per_task = 100 * np.array([group.values(t, method).mean() for t in group.records])
            axes.bar(x, per_task.mean(), color=color(method), width=0.7, zorder=1)
            axes.errorbar(x, per_task.mean(), _spread(group, method), color="black", capsize=3)
            axes.text(x - 0.33, 1, f"{per_task.mean():.1f}", color="white", weight="bold")
            # Side by side in the order of the legend: equal values stay apart.
            places = x + np.linspace(-0.29, 0.29, len(per_task))
            signs = cycle(SIGNS if named else ".")
            marks = zip(group.records, places, per_task, signs, strict=False)
            for task, place, value, mark in marks:
                axes.plot(place, value, mark, mfc="white", mec="black", mew=0.8, ms=4,
                          label=title(task) if x == 0 and named else None)  # fmt: skip
        axes.set_xticks(range(len(methods)), methods)
        axes.set_ylabel("accuracy (%)")
        axes.set_ylim(0, 100)
        axes.set_title(f"Average over tasks: {group.setting}", loc="left")
        if named:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="one task")
    return figure


def _spread(group: SettingRecords, method: str) -> float:
    """Standard deviation over seeds of the average over tasks; 0 with one seed."""
    runs = [100 * group.values(task, method) for task in group.records]
    count = min(map(len, runs))
    return float(deviation(np.mean([run[:count] for run in runs], axis=0)))
