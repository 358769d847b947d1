"""The numbers that figures draw, as header and rows: what their CSV files and the page hold."""

from collections.abc import Iterable, Sequence

import numpy as np

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.curves import Curves
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.artifacts.robustness import Axis, value
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.intervals import deviation
from batch_calibration.records import ContextInfo
from batch_calibration.scores import ScoreTable


def of_methods(group: SettingRecords) -> Cells:
    """Accuracy in % of each task and method of the paper's comparison, over seeds."""
    return [
        ["task", "method", "mean", "sd", "seeds"],
        *(
            [task, method, *_summed(100 * group.values(task, method))]
            for task in group.records
            for method in group.compared
        ),
    ]


def of_curves(curves: Curves) -> Cells:
    """Accuracy in % of each task, method and number; of a level the number is "all"."""
    rows: Cells = [["task", "method", curves.axis, "mean", "sd", "draws"]]
    for task, of_task in curves.tasks.items():
        for method, points in of_task.items():
            rows += [[task, method, str(at), *_summed(points[at])] for at in sorted(points)]
        levels = curves.levels.get(task, {})
        rows += [[task, method, "all", f"{x:.6g}", "", ""] for method, x in levels.items()]
    return rows


def of_strength(group: SettingRecords) -> Cells:
    """Accuracy in % of each task, seed and strength, on test rows and on the labeled set."""
    rows: Cells = [["task", "seed", "strength", "test", "labeled", "learned strength"]]
    for record in group.every:
        if record.curve is None:
            continue
        seed, learned = _text(record.context.seed), _text(record.strength)
        points = zip(STRENGTHS, record.curve.test, record.curve.labeled, strict=True)
        rows += [
            [record.context.task, seed, f"{x:g}", f"{100 * a:.6g}", f"{100 * b:.6g}", learned]
            for x, a, b in points
        ]
    return rows


def of_axes(axes: Iterable[Axis]) -> Cells:
    """Accuracy in % of each choice of the prompt and method."""
    return [
        ["task", "what varies", "choice", "seed", "method", "accuracy"],
        *(
            [one.task, one.name, value(record), _text(record.context.seed), method, f"{x:.6g}"]
            for one in axes
            for method in one.methods
            for record, x in zip(one.records, one.values(method), strict=True)
        ),
    ]


def of_tables(tables: Sequence[ScoreTable]) -> Cells:
    """The score of each label for each test row, in nats, and the row's right label."""
    rows: Cells = [["task", "seed", "row", "right label", "label", "score"]]
    for table in tables:
        about, test, names = ContextInfo.of(table), table.blocks["test"], table.label_names
        for row, gold, scores in zip(test.row_ids, test.labels, test.log_probs, strict=True):
            right = names[gold] if gold >= 0 else ""
            rows += [
                [about.task, _text(about.seed), row, right, name, f"{score:.6g}"]
                for name, score in zip(names, scores, strict=True)
            ]
    return rows


def _summed(values: np.ndarray) -> list[str]:
    return [f"{values.mean():.6g}", f"{deviation(values):.6g}", str(len(values))]


def _text(value: object) -> str:
    return "" if value is None else str(value)
