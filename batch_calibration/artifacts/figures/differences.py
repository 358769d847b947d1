"""Draws what methods gain over ICL: a panel a method, a dot and an interval a task, around zero."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.artifacts import gains
from batch_calibration.artifacts.cells import named
from batch_calibration.artifacts.figures import forest
from batch_calibration.artifacts.grouping import SettingRecords
from batch_calibration.metrics import over_tasks

VERDICTS = {1: "gain", 0: "inside the noise", -1: "loss"}
"""What `forest` calls a gain by its sign."""
STEP = 5.0
"""The axes end at a multiple of so many points."""


def draw(group: SettingRecords, methods: Sequence[str]) -> Figure:
    """The gain of each method on each task in points, and its 95 % interval; last their average.

    The axes hold nine in ten of all ends; what is beyond is at the edge, with its number.

    Args:
        group: the records of a setting.
        methods: those whose gain over icl is known.
    """
    rows = [named(task, records) for task, records in group.records.items()]
    panels = {}
    for method in methods:
        each = [gains.gain(group, task, method) for task in group.records]
        each += [over_tasks(each)] if len(each) > 1 else []
        names = [*rows, "average"][: len(each)]
        panels[method] = {
            name: (100 * one.value, 100 * one.low, 100 * one.high, VERDICTS[one.beyond_noise])
            for name, one in zip(names, each, strict=True)
        }
    rows += ["average"] if len(rows) > 1 else []
    ends = [abs(end) for found in panels.values() for one in found.values() for end in one[1:3]]
    reach = STEP * max(1.0, float(np.ceil(np.quantile(ends, 0.9) / STEP)))
    words = f"Gain over icl, {group.setting}. Blue: a gain beyond noise (95 %), orange: a loss, "
    heading = f"{words}gray: 0 is inside the interval."
    return forest.draw(panels, rows, "gain over icl (points)", reach, heading)
