"""Tables, figures and words of the study "rows"."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.methods import METHODS
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import charts
from experiments.evidence.page import Written, csv_link
from experiments.evidence.statistics import interval_cell, mean_interval, number_cells

BASELINE, SHOWN = REFERENCES
BLOCK = "cc"
"""The block of content-free rows."""
ON_THE_PAGE = ("bc", "bc_shrunk", "bc_empirical_bayes", "bcl")
"""The methods in the page's tables; all are in the file."""
NEAR = 0.5
"""So many points from what all rows give count as near."""


class Curves(NamedTuple):
    """Accuracy of methods with few rows.

    Attributes:
        title: whose rows.
        sizes: rows learned from; the last is all that are no test rows.
        tested: test rows of each pool.
        plain: the baseline's mean accuracy, in percent.
        accuracy: method -> [sizes u], points above the baseline, u models.
        error: method -> [sizes u], nats between the bias learned from so many rows and from all,
            root mean square over labels and draws.
    """

    title: str
    sizes: Sequence[int]
    tested: int
    plain: float
    accuracy: dict[str, np.ndarray]
    error: dict[str, np.ndarray]

    def rows_needed(self, method: str, gain: float) -> str:
        """The fewest rows from which on the mean gain is never below `gain` again."""
        below = np.flatnonzero(self.accuracy[method].mean(axis=1) < gain)
        # The size after the last that is below; none is left where that is the largest.
        size_index = 0 if not below.size else int(below[-1]) + 1
        return f"{self.sizes[size_index]:,}" if size_index < len(self.sizes) else "–"

    def gain(self, method: str, size_index: int) -> str:
        """The gain at a size, with its interval over models."""
        return interval_cell(*mean_interval(self.accuracy[method][size_index]))


def write_up(curves: Sequence[Curves]) -> Written:
    """Sentences on the curves."""
    return Written(
        findings(curves), section(curves), {"evidence_rows": cells(curves)},
        {"evidence_rows": partial(draw, curves)},
    )  # fmt: skip


def findings(curves_by_group: Sequence[Curves]) -> list[str]:
    """The number of rows that the paper's method needs."""
    sentences = []
    for curves in curves_by_group:
        last = float(curves.accuracy[SHOWN][-1].mean())
        # Ten rows where they were measured, else the fewest.
        ten = list(curves.sizes).index(10) if 10 in curves.sizes else 0
        sentences.append(
            f"**{SHOWN} needs rows**, on {curves.title}: with {curves.sizes[0]} row it changes "
            f"accuracy by {curves.gain(SHOWN, 0)} points, with {curves.sizes[ten]} by "
            f"{curves.gain(SHOWN, ten)} "
            f"(its bias is {curves.error[SHOWN][ten].mean():.2f} nats off), with all "
            f"{curves.sizes[-1]:,} by {curves.gain(SHOWN, -1)}; it is not below {BASELINE} from "
            f"{curves.rows_needed(SHOWN, 0.0)} rows on, and within {NEAR} points of what all rows "
            f"give from {curves.rows_needed(SHOWN, last - NEAR)} on."
        )
    return sentences


def section(curves_by_group: Sequence[Curves]) -> str:
    """The section in Markdown."""
    paragraphs = [
        "A method learns from m rows drawn without replacement, and is judged on "
        f"{min(curves.tested for curves in curves_by_group):,} other rows of the same model. "
        "Methods that read labels learn from m labeled rows, and the unlabeled test rows where "
        "they read these. Intervals (95 %) are over models; a model's number is the mean over "
        "draws.",
        "![Bias error and gain against the rows learned from](figures/evidence_rows.png)",
    ]
    for curves in curves_by_group:
        paragraphs += [
            f"### {curves.title}: gain over ICL ({curves.plain:.1f} %) in points, by rows learned "
            "from",
            markdown(gains(curves, ON_THE_PAGE)),
        ]
    paragraphs.append(
        f"[Every method and size, with the bias's error]({csv_link('evidence_rows')})."
    )
    return "\n\n".join(paragraphs)


def gains(curves: Curves, methods: Sequence[str]) -> Cells:
    """A line a method: its gain at each size, and the fewest rows that do not cost."""
    shown = [index for index, size in enumerate(curves.sizes) if size in (1, 10, 100)]
    shown.append(len(curves.sizes) - 1)  # all rows, whatever their number
    sizes = number_cells(np.array(curves.sizes)[shown], ",")
    lines = [["method", *sizes, f"rows to reach {BASELINE}"]]
    for name in filter(methods.__contains__, curves.accuracy):
        row = [curves.gain(name, index) for index in shown]
        lines.append([name, *row, curves.rows_needed(name, 0.0)])
    return lines


def cells(curves_by_group: Sequence[Curves]) -> Cells:
    """Every number, for a spreadsheet."""
    lines = [["rows", "method", "learned_from", "gain", "low", "high", "bias_error_nats"]]
    for curves in curves_by_group:
        for name, gains_ in curves.accuracy.items():
            for index, size in enumerate(curves.sizes):
                # Fewer draws: a cell for each number.
                numbers = number_cells(mean_interval(gains_[index], draws=1000))
                errors = curves.error.get(name)
                error = "" if errors is None else f"{errors[index].mean():.4g}"
                lines.append([curves.title, name, str(size), *numbers, error])
    return lines


def draw(curves_by_group: Sequence[Curves]) -> Figure:
    """Bias error, gain without labels and gain with labels, a line of panels each kind of rows."""
    lines = []
    for curves in curves_by_group:
        errors: dict[str, np.ndarray] = {}
        without_labels: dict[str, np.ndarray] = {}
        with_labels: dict[str, np.ndarray] = {}
        for name, gains_ in curves.accuracy.items():
            probe = METHODS[name].probe
            (with_labels if probe.labels else without_labels)[name] = gains_.mean(axis=1)
            # One that learns from content-free rows has the same error at every size.
            if name in curves.error and not probe.labels and BLOCK not in probe.blocks:
                errors[name] = curves.error[name].mean(axis=1)
        lines.append({
            f"{curves.title}: error of the bias (nats)": (errors, True),
            f"{curves.title}: without labels, points above {BASELINE}": (without_labels, False),
            f"{curves.title}: m labeled rows, points above {BASELINE}": (with_labels, False),
        })  # fmt: skip
    heading = "Accuracy of methods against the rows they learned from"
    return charts.learning_chart(lines, [curves.sizes for curves in curves_by_group], heading)
