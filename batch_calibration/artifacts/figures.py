"""The paper's figures that need only records: average bars (Fig. 1) and strength curves (BCL)."""

from collections.abc import Sequence
from itertools import cycle
from textwrap import fill

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration.artifacts.study import MAIN, Study, title
from batch_calibration.artifacts.style import COLORS, COLUMNS, STYLE
from batch_calibration.calibration.learned_shift import STRENGTHS


def bars(study: Study) -> Figure:
    """Accuracy of each method averaged over the tasks, a mark for each task (the paper's Fig. 1).

    The whisker is one standard deviation over seeds of the average over tasks.
    """
    methods = study.among(MAIN)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(1 + 1.1 * len(methods), 3.2))
        for x, method in enumerate(methods):
            per_task = 100 * np.array([study.values(t, method).mean() for t in study.records])
            axes.bar(x, per_task.mean(), color=COLORS[method], width=0.7, zorder=1)
            axes.errorbar(x, per_task.mean(), _spread(study, method), color="black", capsize=3)
            axes.text(x - 0.33, 1, f"{per_task.mean():.1f}", color="white", weight="bold")
            # Side by side in the order of the legend: equal values stay apart.
            places = x + np.linspace(-0.29, 0.29, len(per_task))
            marks = zip(study.records, places, per_task, cycle("osD^vP*X<>hpd"), strict=False)
            for task, place, value, mark in marks:
                axes.plot(place, value, mark, mfc="white", mec="black", mew=0.8, ms=4,
                          label=title(task) if x == 0 else None)  # fmt: skip
        axes.set_xticks(range(len(methods)), methods)
        axes.set_ylabel("accuracy (%)")
        axes.set_ylim(0, 100)
        axes.set_title(f"Average over tasks: {study.setting}", loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="one task")
    return figure


def _spread(study: Study, method: str) -> float:
    """Standard deviation over seeds of the average over tasks; 0 with one seed."""
    runs = [100 * study.values(task, method) for task in study.records]
    count = min(map(len, runs))
    return float(np.mean([run[:count] for run in runs], axis=0).std(ddof=1)) if count > 1 else 0.0


def strength_curves(study: Study) -> Figure:
    """Accuracy against the strength γ, per task: the paper's Fig. 4 and its appendix twin."""
    tasks = list(study.records)
    columns = min(len(tasks), COLUMNS)
    lines = -(-len(tasks) // columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            lines, columns, figsize=(3.2 * columns, 0.8 + 2.3 * lines), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axes, task in zip(grid.flat, tasks, strict=False):
            records = study.records[task]
            test = 100 * np.array([record["curve"]["test"] for record in records])
            labeled = 100 * np.array([record["curve"]["labeled"] for record in records])
            _band(axes, test, COLORS["bc"], "test rows")
            _band(axes, labeled, COLORS["cc"], "labeled rows")
            for value, color, style, name in (
                (0.0, COLORS["icl"], ":", "γ = 0: ICL"),
                (1.0, COLORS["bc"], "--", "γ = 1: BC"),
                (np.mean([record["strength"] for record in records]), "#D55E00", "-",
                 "γ learned (mean)"),
                (STRENGTHS[test.mean(0).argmax()], COLORS["bcl"], "-.", "γ best on test"),
            ):  # fmt: skip
                axes.axvline(value, color=color, linestyle=style, linewidth=1.2, label=name)
            axes.set_title(title(task), loc="left")
            axes.set_xlabel("strength γ (no unit)")
        for axes in grid.flat[len(tasks) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy (%)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        heading = f"Strength of BC, {_seeds(records)}: {study.setting}"
        figure.suptitle(fill(heading, 48 * columns), x=0.01, ha="left", fontsize=10)
    return figure


def _band(axes: plt.Axes, curves: np.ndarray, color: str, name: str) -> None:
    mean, spread = curves.mean(0), curves.std(0)
    axes.plot(STRENGTHS, mean, color=color, label=name)
    axes.fill_between(STRENGTHS, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)


def _seeds(records: Sequence[object]) -> str:
    return "one seed" if len(records) == 1 else f"mean ± sd of {len(records)} seeds"
