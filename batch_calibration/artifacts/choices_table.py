"""The paper's table of templates and verbalizers (Table 7): ICL and BC for each by its number."""

from collections.abc import Sequence

import numpy as np

from batch_calibration.artifacts.cells import Best, Cells
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.artifacts.robustness import Axis, value

NUMBERED = ("templates", "verbalizers")
"""The axes whose choices have numbers."""


def cells(axes: Sequence[Axis]) -> Cells:
    """Two rows an axis, a column a number, the better of ICL and BC marked; none of no axis."""
    found = [axis for axis in axes if axis.name in NUMBERED]
    numbers = sorted({value(one) for axis in found for one in axis.records}, key=_number)
    rows: Cells = [["choice", "method", *numbers]]
    for axis in found:
        means = []
        for method in REFERENCES:
            by_number = dict.fromkeys(numbers, "")
            for number in numbers:
                some = [one for one in axis.records if value(one) == number]
                if some:
                    by_number[number] = f"{np.mean(axis.values(method, some)):.1f}"
            means.append(by_number)
        best = {
            number: max((float(one[number]) for one in means if one[number]), default=0.0)
            for number in numbers
        }
        for method, by_number in zip(REFERENCES, means, strict=True):
            marked = [
                Best(cell) if cell and float(cell) == best[number] else cell or "-"
                for number, cell in by_number.items()
            ]
            rows.append([axis.name, method, *marked])
    return rows if len(rows) > 1 else []


def _number(name: str) -> tuple[bool, str]:
    return not name.isdigit(), name.zfill(8)
