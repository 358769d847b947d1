"""Tables, figures and words of the study "rows"."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batch_calibration.artifacts.cells import Cells, markdown
from batch_calibration.artifacts.grouping import REFERENCES
from batch_calibration.methods import METHODS
from experiments.evidence import statistics
from experiments.evidence.page import Written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE, SHOWN = REFERENCES
BLOCK = "cc"
"""The block of content-free rows."""
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
        place = 0 if not below.size else int(below[-1]) + 1
        return f"{self.sizes[place]:,}" if place < len(self.sizes) else "–"

    def gain(self, method: str, place: int) -> str:
        """The gain at a size, with its interval over models."""
        value, low, high = statistics.mean_interval(self.accuracy[method][place])
        return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def flat(name: str) -> bool:
    """Whether a method learns from content-free rows, so that the test rows are nothing to it."""
    return BLOCK in METHODS[name].probe.blocks


def tell(found: Sequence[Curves]) -> Written:
    """What the curves say."""
    return Written(
        findings(found), section(found), {"evidence_rows": cells(found)},
        {"evidence_rows": partial(draw, found)},
    )  # fmt: skip


def findings(found: Sequence[Curves]) -> list[str]:
    """How many rows the paper's method needs."""
    said = []
    for one in found:
        last = float(one.accuracy[SHOWN][-1].mean())
        ten = list(one.sizes).index(10) if 10 in one.sizes else 0
        said.append(
            f"**{SHOWN} needs rows**, on {one.title}: with {one.sizes[0]} row it changes accuracy "
            f"by {one.gain(SHOWN, 0)} points, with {one.sizes[ten]} by {one.gain(SHOWN, ten)} "
            f"(its bias is {one.error[SHOWN][ten].mean():.2f} nats off), with all "
            f"{one.sizes[-1]:,} by {one.gain(SHOWN, -1)}; it is not below {BASELINE} from "
            f"{one.least(SHOWN, 0.0)} rows on, and within {NEAR} points of what all rows give "
            f"from {one.least(SHOWN, last - NEAR)} on."
        )
    return said


def section(found: Sequence[Curves]) -> str:
    """The section in Markdown."""
    parts = [
        "A method learns from m rows drawn without replacement, and is judged on "
        f"{min(one.tested for one in found):,} other rows of the same model. Methods that read "
        "labels learn from m labeled rows, beside the unlabeled test rows where they read these. "
        "Intervals (95 %) are over models; a model's number is the mean over draws.",
        "![Bias error and gain against the rows learned from](figures/evidence_rows.png)",
    ]
    for one in found:
        parts += [
            f"### {one.title}: gain over ICL ({one.plain:.1f} %) in points, by rows learned from",
            markdown(gains(one)),
            f"### {one.title}: bias error in nats, by rows learned from",
            markdown(errors(one)),
        ]
    return "\n\n".join(parts)


def gains(one: Curves) -> Cells:
    """A line a method: its gain at each size, and the fewest rows that do not cost."""
    shown = [place for place, size in enumerate(one.sizes) if size in (1, 2, 5, 10, 30, 100, 1000)]
    shown = [*shown, len(one.sizes) - 1]
    head = ["method", *(f"{one.sizes[place]:,}" for place in shown), f"rows to reach {BASELINE}"]
    return [head] + [
        [name, *(one.gain(name, place) for place in shown), one.least(name, 0.0)]
        for name in one.accuracy
    ]


def errors(one: Curves) -> Cells:
    """A line a method: the error of its bias at each size."""
    head = ["method", *(f"{size:,}" for size in one.sizes[:-1])]
    return [head] + [
        [name, *(f"{value.mean():.2f}" for value in error[:-1])]
        for name, error in one.error.items()
        if not flat(name) and not METHODS[name].probe.labels
    ]


def cells(found: Sequence[Curves]) -> Cells:
    """Every number, for a spreadsheet."""
    every = [["rows", "method", "learned_from", "gain", "low", "high", "bias_error_nats"]]
    for one in found:
        for name, gains_ in one.accuracy.items():
            for place, size in enumerate(one.sizes):
                numbers = [f"{x:.4g}" for x in statistics.mean_interval(gains_[place], draws=1000)]
                error = f"{one.error[name][place].mean():.4g}" if name in one.error else ""
                every.append([one.title, name, str(size), *numbers, error])
    return every


def draw(found: Sequence[Curves]) -> "Figure":
    """Bias error, gain without labels and gain with labels, a line of panels each kind of rows."""
    from batch_calibration.artifacts.figures import rows_learned

    lines = []
    for one in found:
        free = {n: v for n, v in one.accuracy.items() if not METHODS[n].probe.labels}
        read = {n: v for n, v in one.accuracy.items() if METHODS[n].probe.labels}
        mean = {n: v.mean(axis=1) for n, v in one.error.items() if n in free and not flat(n)}
        lines.append(
            {
                f"{one.title}: error of the bias (nats)": (mean, True),
                f"{one.title}: without labels, points above {BASELINE}": (
                    {n: v.mean(axis=1) for n, v in free.items()}, False),
                f"{one.title}: m labeled rows, points above {BASELINE}": (
                    {n: v.mean(axis=1) for n, v in read.items()}, False),
            }
        )  # fmt: skip
    return rows_learned.draw(lines, [one.sizes for one in found])
