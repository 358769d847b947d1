"""Tables, figures and words of the study "rows"."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cell, Cells, markdown
from batch_calibration.artifacts.figures.chart import Chart
from batch_calibration.artifacts.figures.curves import learning_chart
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.methods import METHODS
from experiments.evidence import statistics
from experiments.evidence.page import Written, csv_link

BASELINE, SHOWN = REFERENCES
BLOCK = "cc"
"""The block of content-free rows."""
ON_THE_PAGE = ("bc", "bc_shrunk", "bc_empirical_bayes", "bcl")
"""The methods in the page's tables; all are in the file."""
NEAR = 0.5
"""So many points from what all rows give count as near."""


class Curves(NamedTuple):
    """What methods reach with few rows.

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

    def least(self, method: str, gain: float) -> str:
        """The fewest rows from which on the mean gain is never below `gain` again."""
        below = np.flatnonzero(self.accuracy[method].mean(axis=1) < gain)
        # The size after the last that is below; none is left where that is the largest.
        size_index = 0 if not below.size else int(below[-1]) + 1
        return f"{self.sizes[size_index]:,}" if size_index < len(self.sizes) else "–"

    def gain(self, method: str, size_index: int) -> str:
        """The gain at a size, with its interval over models."""
        mean, low, high = statistics.mean_interval(self.accuracy[method][size_index])
        return Cell(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")


def flat(name: str) -> bool:
    """Whether a method learns from content-free rows, so that the test rows are nothing to it."""
    return BLOCK in METHODS[name].probe.blocks


def write_up(curves: Sequence[Curves]) -> Written:
    """What the curves say."""
    return Written(
        findings(curves), section(curves), {"evidence_rows": cells(curves)},
        {"evidence_rows": partial(draw, curves)},
    )  # fmt: skip


def findings(curves_by_group: Sequence[Curves]) -> list[str]:
    """How many rows the paper's method needs."""
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
            f"{curves.least(SHOWN, 0.0)} rows on, and within {NEAR} points of what all rows give "
            f"from {curves.least(SHOWN, last - NEAR)} on."
        )
    return sentences


def section(curves_by_group: Sequence[Curves]) -> str:
    """The section in Markdown."""
    paragraphs = [
        "A method learns from m rows drawn without replacement, and is judged on "
        f"{min(curves.tested for curves in curves_by_group):,} other rows of the same model. "
        "Methods that read labels learn from m labeled rows, beside the unlabeled test rows where "
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
    shown_indices = [
        size_index for size_index, size in enumerate(curves.sizes) if size in (1, 10, 100)
    ]
    shown_indices = [*shown_indices, len(curves.sizes) - 1]  # all rows, whatever their number
    head = [
        "method",
        *(f"{curves.sizes[size_index]:,}" for size_index in shown_indices),
        f"rows to reach {BASELINE}",
    ]
    return [head] + [
        [
            name,
            *(curves.gain(name, size_index) for size_index in shown_indices),
            curves.least(name, 0.0),
        ]
        for name in curves.accuracy
        if name in methods
    ]


def cells(curves_by_group: Sequence[Curves]) -> Cells:
    """Every number, for a spreadsheet."""
    lines = [["rows", "method", "learned_from", "gain", "low", "high", "bias_error_nats"]]
    for curves in curves_by_group:
        for name, gains_ in curves.accuracy.items():
            for size_index, size in enumerate(curves.sizes):
                numbers = [
                    f"{number:.4g}"
                    # Fewer draws: a cell for each number.
                    for number in statistics.mean_interval(gains_[size_index], draws=1000)
                ]
                error = (
                    f"{curves.error[name][size_index].mean():.4g}" if name in curves.error else ""
                )
                lines.append([curves.title, name, str(size), *numbers, error])
    return lines


def draw(curves_by_group: Sequence[Curves]) -> Chart:
    """Bias error, gain without labels and gain with labels, a line of panels each kind of rows."""
    lines = []
    for curves in curves_by_group:
        free = {
            n: accuracy_by_size
            for n, accuracy_by_size in curves.accuracy.items()
            if not METHODS[n].probe.labels
        }
        read = {
            n: accuracy_by_size
            for n, accuracy_by_size in curves.accuracy.items()
            if METHODS[n].probe.labels
        }
        mean = {
            n: accuracy_by_size.mean(axis=1)
            for n, accuracy_by_size in curves.error.items()
            if n in free and not flat(n)
        }
        lines.append(
            {
                f"{curves.title}: error of the bias (nats)": (mean, True),
                f"{curves.title}: without labels, points above {BASELINE}": (
                    {n: gain.mean(axis=1) for n, gain in free.items()}, False),
                f"{curves.title}: m labeled rows, points above {BASELINE}": (
                    {n: gain.mean(axis=1) for n, gain in read.items()}, False),
            }
        )  # fmt: skip
    heading = "What methods reach against the rows they learned from"
    return learning_chart(lines, [curves.sizes for curves in curves_by_group], heading)
