"""The paper's table of BCL (Table 3): BC beside methods that choose its strength by labels."""

import numpy as np

from batch_calibration.artifacts.cells import Cells, best_of, named, tested
from batch_calibration.artifacts.grouping import REFERENCES, SettingRecords
from batch_calibration.artifacts.sizes import first_seeds
from batch_calibration.methods import METHODS

NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."


def cells(found: SettingRecords) -> Cells:
    """Header, a row a task with the learned strength, the average; nothing without a curve."""
    group = first_seeds(found)
    learned = group.among([name for name, method in METHODS.items() if method.has_curve])
    methods = group.among([*REFERENCES, *learned])
    if not learned or not group.records:
        return []
    rows: Cells = [["task", "rows", *methods, "γ learned"]]
    for task, (record,) in group.records.items():
        strength = "-" if record.strength is None else f"{record.strength:+.1f}"
        values = best_of([100 * group.values(task, method) for method in methods])
        rows.append([named(task, [record]), tested([record]), *values, strength])
    averages = best_of([np.array([100 * group.average(method)]) for method in methods])
    return [*rows, ["average", "", *averages, ""]]
