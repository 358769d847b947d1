"""What the study "law" says of its cells: how well gains are foretold, and what that is worth."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np

from batch_calibration.artifacts.cells import Cells, markdown
from batch_calibration.artifacts.figures.chart import Axis, Chart, Dots, Line, Mark, Panel, Rule
from batch_calibration.artifacts.method_display import PALETTE
from batch_calibration.diagnosis import Margins, break_even_shares, expected_gain
from experiments.evidence import pools, statistics

ONE_POINT = 0.01
EVEN_SHARE = 0.6
"""The simple rule that is compared: BC where neither label has a greater share."""
ALL = "all"
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"


class PairCells(NamedTuple):
    """One pair of labels of one pool, by share and size; gains are from -1 to 1.

    Attributes:
        set_name: which set the pool is of.
        model: whose rows.
        margins: the three numbers, of half the rows.
        measured: [shares, sizes], gains on the other half.
        expected: [shares, sizes], what the law says by all rows of the first half.
        by_few: [repeats, shares, sizes], what it says by a few labeled rows of it.
        by_none: [shares, sizes], what it says by unlabeled rows; NaN where they do not show it.
    """

    set_name: str
    model: str
    margins: Margins
    measured: np.ndarray
    expected: np.ndarray
    by_few: np.ndarray
    by_none: np.ndarray


class LabelCells(NamedTuple):
    """All labels of one pool: gains [vectors of shares, sizes], measured and expected."""

    set_name: str
    model: str
    measured: np.ndarray
    expected: np.ndarray


AnyCells = TypeVar("AnyCells", PairCells, LabelCells)


def explained(
    cells: Sequence[PairCells] | Sequence[LabelCells],
) -> tuple[float, float, float, float]:
    """R2 of the expected gains, signs right in %, the slope of measured on expected, mean error.

    Signs are of the cells whose measured gain is beyond a point; the error is in points.
    """
    measured = np.concatenate([cell.measured.ravel() for cell in cells])
    expected = np.concatenate([cell.expected.ravel() for cell in cells])
    misses = measured - expected
    r2 = 1 - (misses**2).sum() / ((measured - measured.mean()) ** 2).sum()
    is_large = np.abs(measured) > ONE_POINT
    signs = 100 * ((measured > 0) == (expected > 0))[is_large].mean()
    slope = np.polyfit(expected, measured, 1)[0]
    return float(r2), float(signs), float(slope), float(100 * np.abs(misses).mean())


def by_model(
    cells: Sequence[PairCells], gain_of: Callable[[PairCells], np.ndarray]
) -> tuple[float, float, float]:
    """The mean over models of a gain, in points, and its 95 % interval over models."""
    gains: dict[str, list[float]] = {}
    for cell in cells:
        gains.setdefault(cell.model, []).append(100 * float(np.mean(gain_of(cell))))
    return statistics.mean_interval(np.array([np.mean(group) for group in gains.values()]))


def decisions(shares: Sequence[float], few: int) -> dict[str, Callable[[PairCells], np.ndarray]]:
    """Ways to decide whether to correct, and the gain of each in every cell."""
    is_even = np.maximum(shares, 1 - np.array(shares)) <= EVEN_SHARE + 1e-9

    return {
        "always BC": lambda cell: cell.measured,
        f"BC where no share is above {EVEN_SHARE}": lambda cell: cell.measured * is_even[:, None],
        f"the law, {few} labeled rows": lambda cell: np.where(cell.by_few > 0, cell.measured, 0),
        "the law, half of all rows labeled": lambda cell: np.where(
            cell.expected > 0, cell.measured, 0
        ),
        "the law, no labels": lambda cell: np.where(cell.by_none > 0, cell.measured, 0),
        "the better of both, known": lambda cell: np.maximum(cell.measured, 0),
    }


def of_set(cells: Sequence[AnyCells], name: str) -> list[AnyCells]:
    """The cells of one set, or of all."""
    return [cell for cell in cells if name in (ALL, cell.set_name)]


def findings(cells: Sequence[PairCells], shares: Sequence[float], few: int) -> list[str]:
    """What decides: how much of the gains is foretold, and what knowing that is worth."""
    r2, signs, *_ = explained(cells)
    count = sum(cell.measured.size for cell in cells)
    models = len({cell.model for cell in cells})
    rules = decisions(shares, few)
    law, always, best = (
        by_model(cells, rules[name])
        for name in (f"the law, {few} labeled rows", "always BC", "the better of both, known")
    )
    return [
        f"**The gain follows a law of three numbers**: over {count:,} pairs of labels, shares and "
        f"sizes of {models} models, fitted on one half of the rows and judged on the "
        f"other, R² {r2:.2f}; the sign is right in "
        f"{signs:.1f} % of the cells whose gain is beyond a point. By {few} labeled rows it "
        f"decides with a mean gain of {law[0]:+.2f} points [{law[1]:+.2f}, {law[2]:+.2f}], of "
        f"{best[0]:+.2f} that can be had; BC everywhere makes {always[0]:+.2f}."
    ]


def section(
    cells: Sequence[PairCells], label_cells: Sequence[LabelCells], shares: Sequence[float],
    few: int,
) -> str:  # fmt: skip
    """The section in Markdown."""
    names = [*dict.fromkeys(cell.set_name for cell in cells), ALL]
    fit: Cells = [["rows", "labels", "cells", "R²", "signs right", "slope", "mean error"]]
    for name in names:
        fit.append([pools.TITLES.get(name, name), "2", *fit_cells(of_set(cells, name))])
    for name in names:
        fit.append([pools.TITLES.get(name, name), "4", *fit_cells(of_set(label_cells, name))])
    rules = decisions(shares, few)
    worth: Cells = [["how it is decided", *(pools.TITLES.get(name, name) for name in names)]]
    for rule, gain_of in rules.items():
        line = [rule]
        for name in names:
            mean, low, high = by_model(of_set(cells, name), gain_of)
            line.append(f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]")
        worth.append(line)
    answered = np.mean([np.isfinite(cell.by_none).mean() for cell in cells])
    return "\n\n".join([
        "How well the law foretells the gain. Slope: of the measured gain on the expected one, 1 "
        "where it is neither too bold nor too timid. Signs: of the cells beyond a point.",
        markdown(fit),
        "![Gain by the share of the first label: the law's lines, measured points]"
        "(figures/evidence_law.png)",
        "What deciding by the law is worth: mean gain over ICL in points of two labels, over all "
        "shares and sizes alike, with 95 % intervals over models.",
        markdown(worth),
        f"Without labels the mixture shows its two Gaussians in {100 * answered:.1f} % of the "
        "cells; elsewhere the scores are left as they are.",
    ])  # fmt: skip


def fit_cells(cells: Sequence[PairCells] | Sequence[LabelCells]) -> list[str]:
    """How many cells, and what `explained` says of them."""
    r2, signs, slope, error = explained(cells)
    count = sum(cell.measured.size for cell in cells)
    return [f"{count:,}", f"{r2:.2f}", f"{signs:.1f} %", f"{slope:.2f}", f"{error:.1f} points"]


def all_cells(cells: Sequence[PairCells], shares: Sequence[float], sizes: Sequence[int]) -> Cells:
    """Every cell of two labels, for a spreadsheet."""
    lines = [
        ["set", "model", "bias", "separation", "spread", "share", "rows", "measured", "expected"]
    ]
    for cell in cells:
        numbers = [f"{number:.4g}" for number in cell.margins]
        for (i, share), (j, size) in product(enumerate(shares), enumerate(sizes)):
            gains = f"{cell.measured[i, j]:.5f}", f"{cell.expected[i, j]:.5f}"
            lines.append([cell.set_name, cell.model, *numbers, f"{share:g}", str(size), *gains])
    return lines


def typical(cells: Sequence[PairCells]) -> PairCells:
    """The pair whose mean error is the median of all."""
    errors = [np.abs(cell.measured - cell.expected).mean() for cell in cells]
    return cells[int(np.argsort(errors)[len(errors) // 2])]


def draw(cells: Sequence[PairCells], shares: Sequence[float], sizes: Sequence[int]) -> Chart:
    """Of each set the pair that is foretold as well as the median, and break-even shares."""
    names = list(dict.fromkeys(cell.set_name for cell in cells))
    at, panels = np.linspace(0.02, 0.98, 97), []
    for name in names:
        cell = typical(of_set(cells, name))
        marks: list[Mark] = [Rule(0.0, "x")]
        for j, (size, color) in enumerate(zip(sizes, PALETTE.spares, strict=False)):
            foretold = 100 * np.asarray(expected_gain(cell.margins, at, size))
            marks += [
                Line("", at, foretold, color),
                Dots(f"{size:,} rows", shares, 100 * cell.measured[:, j], color, size=3.0),
            ]
        beta, delta, sigma = cell.margins
        title = f"{cell.model}\nβ {beta:.2f}, δ {delta:.2f}, {SIGMA} {sigma:.2f}"
        x, y = Axis("share of the first label"), Axis("gain over icl (points)")
        panels.append(Panel(name, marks, x, y, title))
    return Chart(
        "The gain that the law foretells (lines) and that rows show (dots)",
        [*panels, _break_even_panel()], ("set", "rows", "share", "gain"), size=(2.6, 2.4),
        shares_y=False,
    )  # fmt: skip


def _break_even_panel() -> Panel:
    """The greatest share of the preferred label at which BC gains, of many rows."""
    biases, marks = np.linspace(0.0, 4.0, 81), []
    for separation, dash in zip((0.5, 1.0, 2.0, 4.0), PALETTE.dashes, strict=False):
        high = np.asarray(break_even_shares(Margins(biases, separation, 1.0))[1])
        marks.append(Line(f"δ/{SIGMA} {separation:g}", biases, high, dash=dash))
    x, y = Axis(f"bias |β| / {SIGMA}"), Axis("share of the preferred label")
    return Panel("break-even", marks, x, y, "BC gains below the line")
