"""Tables of the study "law": quality of the predicted gains, and gain by using them."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
from matplotlib.figure import Figure

from batch_calibration.metrics import Estimate
from batch_calibration.reporting import palette
from batch_calibration.reporting.cells import Cells, NumberCell, markdown
from batch_calibration.reporting.figures import style
from experiments.evidence import statistics
from experiments.evidence.gain import Margins, expected_gain
from experiments.evidence.page import csv_link

ONE_POINT = 0.01
DRAWS = 2000  # bootstrap draws of units, for the intervals of a fit
EVEN_SHARE = 0.6
"""Threshold of a simple rule for comparison: use BC if neither label has a greater share."""
ALL = "all"
NEVER_RIGHT = "never right"
"""Part of the title of a set in which one label is never right."""
FIT_HEAD = [
    "rows", "labels", "R²", "signs right", "slope", "mean error, points"
]  # fmt: skip
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
LOOKS = ((palette.SPARES[0], "o"), (palette.SPARES[3], "s"), (palette.SPARES[4], "^"))
SEPARATIONS = (0.25, 1.0)  # of the lines, in spreads


class PairCells(NamedTuple):
    """Gains of one pair of labels of one pool, by share and size; from -1 to 1.

    Attributes:
        set_name: name of the pool's set.
        unit: name of the model.
        margins: the three numbers, fitted to the first half of the rows.
        measured: [shares, sizes], gains on the second half.
        expected: [shares, sizes], the law's prediction from `margins`.
        by_few: [repeats, shares, sizes], the prediction from a few labeled rows of the first half.
        by_none: [shares, sizes], the prediction from unlabeled rows; NaN if the mixture is not
            identified.
    """

    set_name: str
    unit: str
    margins: Margins
    measured: np.ndarray
    expected: np.ndarray
    by_few: np.ndarray
    by_none: np.ndarray


class GainCells(NamedTuple):
    """Gains on all labels of a pool, or on two labels of a context; from -1 to 1.

    Attributes:
        set_name: name of the pool's set.
        unit: name of the model, or of the task if there is only one model.
        measured: measured gains of any shape.
        expected: predicted gains of the same shape.
    """

    set_name: str
    unit: str
    measured: np.ndarray
    expected: np.ndarray


AnyCells = TypeVar("AnyCells", PairCells, GainCells)


class Fit(NamedTuple):
    """Quality of predicted gains, each number with its 95 % interval over units.

    Attributes:
        r2: R2 of the predicted gains.
        signs: percentage of cells with the right predicted sign, among cells with a measured gain
            or loss of more than one point.
        slope: slope of the regression of measured on predicted gains.
        error: mean absolute error in points.
    """

    r2: Estimate
    signs: Estimate
    slope: Estimate
    error: Estimate


def judge_fit(cells: Sequence[AnyCells]) -> Fit:
    """Compares predicted and measured gains, with bootstrap intervals over units.

    Cells of one unit share their rows, so the bootstrap draws them together.
    """
    sums: dict[str, np.ndarray] = {}
    for cell in cells:
        sums[cell.unit] = sums.get(cell.unit, 0.0) + _sums(cell.measured, cell.expected)
    by_unit = np.stack([*sums.values()])  # [units, 9]
    times = statistics.times_drawn(len(by_unit), (0, 3), DRAWS)
    drawn = _fit_of_sums(times @ by_unit)  # [4, draws]
    low, high = np.quantile(drawn, (0.025, 0.975), axis=1)
    return Fit(*map(Estimate, _fit_of_sums(by_unit.sum(axis=0)), low, high))


def _sums(measured: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Computes the sums over cells that a fit is made from, [9]; they can be added over units."""
    y, x = measured.ravel(), expected.ravel()
    is_large = np.abs(y) > ONE_POINT
    is_right = is_large & ((y > 0) == (x > 0))
    terms = np.ones_like(y), y, y**2, x, x**2, x * y, np.abs(y - x), is_large, is_right
    return np.array([*map(np.sum, terms)])


def _fit_of_sums(sums: np.ndarray) -> np.ndarray:
    """Computes R2, right signs in %, slope and mean error in points [4, ...] from sums [..., 9]."""
    n, y, yy, x, xx, xy, error, large, right = np.moveaxis(sums, -1, 0)
    r2 = 1 - (yy - 2 * xy + xx) / (yy - y**2 / n)
    slope = (xy - x * y / n) / (xx - x**2 / n)
    return np.stack([r2, 100 * right / large, slope, 100 * error / n])


def by_model(
    cells: Sequence[PairCells], gain_of: Callable[[PairCells], np.ndarray]
) -> tuple[float, float, float]:
    """Computes the mean over models of a gain, in points, and its 95 % interval over models."""
    gains: dict[str, list[float]] = {}
    for cell in cells:
        gains.setdefault(cell.unit, []).append(100 * float(np.mean(gain_of(cell))))
    return statistics.mean_interval(np.array(list(map(np.mean, gains.values()))))


def decisions(shares: Sequence[float], few: int) -> dict[str, Callable[[PairCells], np.ndarray]]:
    """Maps each rule to decide about correction to a function for its gain in every cell."""
    is_even = np.maximum(shares, 1 - np.array(shares)) <= EVEN_SHARE + 1e-9

    return {
        "always BC": lambda cell: cell.measured,
        f"BC where no share is above {EVEN_SHARE}": lambda cell: cell.measured * is_even[:, None],
        f"the law, {few} labeled rows": lambda cell: np.where(cell.by_few > 0, cell.measured, 0),
        "the law, half of all rows labeled": lambda cell: np.where(
            cell.expected > 0, cell.measured, 0
        ),
        "the better of both, known": lambda cell: np.maximum(cell.measured, 0),
    }


def of_set(cells: Sequence[AnyCells], name: str) -> list[AnyCells]:
    """Selects the cells of one set."""
    return [cell for cell in cells if cell.set_name == name]


def findings(cells: Sequence[PairCells]) -> list[str]:
    """Writes the finding: the quality of the predictions."""
    models, count = len({cell.unit for cell in cells}), sum(cell.measured.size for cell in cells)
    r2, signs, *_ = judge_fit(cells)
    return [
        f"**The gain follows a law of three numbers**: over {count:,} pairs of labels, shares and "
        f"sizes of {models} models, fitted on one half of the rows and judged on the other, R² "
        f"{r2.value:.2f} [{r2.low:.2f}, {r2.high:.2f}]; the sign is right in {signs.value:.1f} % "
        f"[{signs.low:.1f}, {signs.high:.1f}] of the cells with more than a point of gain or loss."
    ]


def section(
    cells: Sequence[PairCells], label_cells: Sequence[GainCells], shares: Sequence[float], few: int
) -> str:
    """Writes the page's section on the law of gain in Markdown."""
    fit = [FIT_HEAD, *fit_lines(cells, "2"), *fit_lines(label_cells, "4")]
    worth: Cells = [["how it is decided", "gain over ICL, points"]]
    for rule, gain_of in decisions(shares, few).items():
        worth.append([rule, statistics.interval_cell(*by_model(cells, gain_of), digits=2)])
    answered = np.mean([np.isfinite(cell.by_none).mean() for cell in cells])
    unlabeled = by_model(cells, lambda cell: np.where(cell.by_none > 0, cell.measured, 0))[0]
    return "\n\n".join([
        "Predicted and measured gains, with 95 % intervals over models. Slope: regression of the "
        "measured on the predicted gain; 1 is unbiased. `all`: the sets in which each label is "
        "right in some rows.",
        markdown(fit),
        f"The same for [single tasks and other models]({csv_link('evidence_law_other')}), which "
        "did not influence the law (intervals over models, or over tasks of one model).",
        "![Gain of BC with balanced labels by the bias, every pair of labels of every model]"
        "(figures/evidence_law.png)",
        "Decisions about BC with two labels, over all shares and sizes equally:",
        markdown(worth),
        f"Without labels the two Gaussians of the mixture are identified in {100 * answered:.1f} % "
        f"of the cells; decisions by it gain {unlabeled:+.2f} points.",
    ])  # fmt: skip


def other_cells(context_cells: Sequence[GainCells]) -> Cells:
    """Formats the quality of the fit for single tasks and other models."""
    return [FIT_HEAD, *fit_lines(context_cells, "2", over_all=False)]


def fit_lines(cells: Sequence[AnyCells], labels: str, *, over_all: bool = True) -> Cells:
    """Formats a line for each set: the quality of the fit."""
    by_set: dict[str, list[AnyCells]] = {}
    for cell in cells:
        by_set.setdefault(cell.set_name, []).append(cell)
        if over_all and NEVER_RIGHT not in cell.set_name:
            by_set.setdefault(ALL, []).append(cell)
    # The line of all sets is last.
    titles = sorted(by_set, key=lambda title: title == ALL)
    lines = []
    for title in titles:
        r2, signs, slope, error = judge_fit(by_set[title])
        lines.append([
            title, labels,
            NumberCell(f"{r2.value:.2f} [{r2.low:.2f}, {r2.high:.2f}]"),
            f"{signs.value:.1f} % [{signs.low:.1f}, {signs.high:.1f}]",
            f"{slope.value:.2f}", f"{error.value:.1f}",
        ])  # fmt: skip
    return lines


def all_cells(cells: Sequence[PairCells], shares: Sequence[float], sizes: Sequence[int]) -> Cells:
    """Formats every cell of two labels, for a spreadsheet."""
    head = "set", "unit", "bias", "separation", "spread", "share", "rows", "measured", "expected"
    lines = [list(head)]
    for cell in cells:
        facts = [cell.set_name, cell.unit, *(f"{number:.4g}" for number in _numbers(cell.margins))]
        for (i, share), (j, size) in product(enumerate(shares), enumerate(sizes)):
            gains = f"{cell.measured[i, j]:.5f}", f"{cell.expected[i, j]:.5f}"
            lines.append([*facts, f"{share:g}", str(size), *gains])
    return lines


def _numbers(margins: Margins) -> tuple[float, ...]:
    """Returns bias, separation and spread; two spreads become the root of their mean square."""
    spread = np.sqrt(np.mean(np.square(np.array(margins.spread))))
    return tuple(map(float, (margins.bias, margins.separation, spread)))


@style.styled
def draw(cells: Sequence[PairCells], shares: Sequence[float], sizes: Sequence[int]) -> Figure:
    """Draws the gain of each pair with balanced labels and the most rows, by its bias."""
    figure, (axes,) = style.panels(1, (3.4, 2.4), dpi=200)
    balanced = int(np.argmin(np.abs(np.array(shares) - 0.5)))
    axes.axhline(0.0, color=style.INK, lw=1.0, zorder=0)
    most = 0.0
    names = dict.fromkeys(cell.set_name for cell in cells)
    for name, (color, marker) in zip(names, LOOKS, strict=False):
        points = []
        for cell in of_set(cells, name):
            bias, _, spread = _numbers(cell.margins)
            points.append((abs(bias) / spread, 100 * cell.measured[balanced, -1]))
        x, y = np.array(points).T
        most = max(most, float(x.max()))
        style.dots(axes, x, y, color, size=3.5, marker=marker, alpha=0.7, name=name)
    at = np.linspace(0.0, most, 81)
    for separation, dash in zip(SEPARATIONS, palette.DASHES, strict=False):
        margins = Margins(at, separation, 1.0)
        gains = 100 * np.asarray(expected_gain(margins, shares[balanced], sizes[-1]))
        axes.plot(at, gains, color=style.INK, ls=style.DASHES[dash], lw=1.0)
        axes.annotate(f"δ = {separation:g} {SIGMA}", (most, gains[-1]), (3, 0), va="center",
                      **style.ASIDE)  # fmt: skip
    style.label(
        axes, "", f"bias |β| / spread {SIGMA}", "gain of BC in accuracy (points)", width=3.4
    )
    heading = "Gain of BC with balanced labels, by the strength of the bias"
    models = len({cell.unit for cell in cells})
    note = (
        f"A dot: two labels of one of {models} models; BC sees {sizes[-1]:,} rows. Lines: the gain "
        f"predicted for labels with a separation δ."
    )
    return style.finish(figure, heading, note, []).figure
