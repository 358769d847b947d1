"""The study "shares": a bias learned at some label shares and applied at other label shares."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import batches, charts, pools
from experiments.evidence.page import Written, csv_link
from experiments.evidence.pools import Pool
from experiments.evidence.statistics import interval_cell, mean_interval, number_cells

BASELINE, SHOWN = REFERENCES
EVEN = 0.5

ON_THE_PAGE = ("bc", "bc_empirical_bayes")
"""The methods in the page's tables; the CSV file has all."""


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: groups of one-batch sets, with a table for each; only two labels are kept.
        shares: shares of one label in the sample to learn from; shares from one half on are also
            its shares in the corrected sample.
        size: number of rows of each sample.
        draws: number of samples of each pool.
        methods: names of methods; by default all that learn only from unlabeled rows and are not
            sequential.
        seed: seed of the draws.
    """

    sets: Sequence[Sequence[str]]
    shares: Sequence[float]
    size: int = 1000
    draws: int = 2
    methods: Sequence[str] = ()
    seed: int = 0


class Grid(NamedTuple):
    """Gains over the baseline by the label shares of both samples.

    Attributes:
        title: name of the rows.
        learned: [s], shares of a label in the sample to learn from.
        corrected: [t], shares of the label in the corrected sample.
        gains: method -> [s t u], gain of accuracy in points for u models, as the mean over both
            choices of the label.
    """

    title: str
    learned: np.ndarray
    corrected: np.ndarray
    gains: dict[str, np.ndarray]

    def gain(self, method: str, learned: float, corrected: float) -> str:
        """Formats the gain in the cell nearest to two shares, with its interval over models."""
        nearest_cell = _nearest(self.learned, learned), _nearest(self.corrected, corrected)
        return interval_cell(*mean_interval(self.gains[method][nearest_cell]))


def _nearest(axis: np.ndarray, share: float) -> int:
    return int(np.argmin(np.abs(axis - share)))


def run(folder: Path, options: Options) -> Written:
    """Runs the study: measures the gains for every pair of shares."""
    # Refuses a wrong name before anything is measured.
    batches.chosen(options.methods, other_rows=True)
    grids = []
    for names in options.sets:
        pool_group = pools.real_pools(folder, names, 2)
        grids.append(grid(pools.titled(names), pool_group, options))
    tables, figures = {"evidence_shares": cells(grids)}, {"evidence_shares": partial(draw, grids)}
    return Written(findings(grids), section(grids, options.size), tables, figures)


def grid(title: str, pool_group: Sequence[Pool], options: Options) -> Grid:
    """Measures the gain of each method for each pair of shares of one label, for both labels."""
    names = batches.chosen(options.methods, other_rows=True)
    learned = np.array(options.shares)
    # Each label is the frequent one in turn, so a share below one half would repeat another cell.
    corrected = learned[learned > EVEN - 1e-6]
    shape = len(learned), len(corrected), pools.count_units(pool_group)
    gains = {name: np.zeros(shape) for name in names}
    key, no_bias = jax.random.key(options.seed), np.zeros(2, np.float32)  # two labels
    draws = options.draws * options.size

    def sample(share: float, number: int) -> tuple[np.ndarray, np.ndarray]:
        # The number gives the two samples different streams, also for equal shares.
        random = np.random.default_rng([options.seed, number, int(1000 * share)])
        return pools.several(pool_group, share, options.size, draws, random)

    for corrected_index, share in enumerate(corrected):
        rows, gold = sample(share, 1)
        for learned_index, learned_share in enumerate(learned):
            seen, _ = sample(learned_share, 0)  # labels are not read
            for name in names:
                right = batches.right_by_label(seen, rows, gold, no_bias, key, name=name)
                accuracy = 100 * np.asarray(right).sum(axis=-1) / gold[0].size  # percent
                # The mean over both choices of the label.
                by_pool = accuracy.reshape(len(pool_group), 2).mean(axis=1)
                gains[name][learned_index, corrected_index] = pools.units(by_pool, pool_group)
    plain = gains.pop(BASELINE)
    gains_over_baseline = {name: gain - plain for name, gain in gains.items()}
    return Grid(title, learned, corrected, gains_over_baseline)


def findings(grids: Sequence[Grid]) -> list[str]:
    """Writes the finding: the loss by a bias that is learned from unbalanced rows."""
    grid, high = grids[0], 0.9
    same, balanced = grid.gain(SHOWN, high, high), grid.gain(SHOWN, EVEN, high)
    return [
        "**Learn the bias from rows with balanced labels**: if one of two labels has "
        f"{100 * high:.0f} % of the rows of {grid.title}, {SHOWN} changes accuracy by {same} "
        f"points if it learns from these rows, and by {balanced} from balanced ones."
    ]


def section(grids: Sequence[Grid], size: int) -> str:
    """Writes the section in Markdown."""
    paragraphs = [
        f"Two labels of real rows: the bias is learned from {size:,} unlabeled rows with one share "
        f"of a label, and subtracted in {size:,} others with another share. Gains are means over "
        "both labels, with 95 % intervals over models.",
        "![Gain by the share of a label where the bias is learned and where it is applied]"
        "(figures/evidence_shares.png)",
        "Gain over ICL in points, by the share where the bias is learned → where it is applied:",
        markdown(by_pair(grids, ON_THE_PAGE)),
        f"[Every method and pair of shares]({csv_link('evidence_shares')}).",
    ]
    return "\n\n".join(paragraphs)


def by_pair(grids: Sequence[Grid], methods: Sequence[str]) -> Cells:
    """Formats a line for each kind of rows and method: its gain at four pairs of shares."""
    pairs = [(EVEN, EVEN), (0.7, 0.7), (0.9, 0.9), (EVEN, 0.9)]
    lines = [["rows, method", *(f"{learned:.1f} → {applied:.1f}" for learned, applied in pairs)]]
    for grid in grids:
        for name in filter(methods.__contains__, grid.gains):
            gains = [grid.gain(name, *pair) for pair in pairs]
            lines.append([f"{grid.title}, {name}", *gains])
    return lines


def cells(grids: Sequence[Grid]) -> Cells:
    """Formats every pair of shares, for a spreadsheet."""
    lines = [["rows", "method", "share_learned", "share_corrected", "gain", "low", "high"]]
    for grid in grids:
        for name, gains in grid.gains.items():
            for a, b in np.ndindex(gains.shape[:2]):
                # Fewer bootstrap draws, because there are many cells.
                numbers = number_cells(mean_interval(gains[a, b], draws=1000))
                at = f"{grid.learned[a]:g}", f"{grid.corrected[b]:g}"
                lines.append([grid.title, name, *at, *numbers])
    return lines


def draw(grids: Sequence[Grid]) -> Figure:
    """Draws the gain of BC on each kind of rows, and of other methods on the first kind."""
    panels = {f"{SHOWN}, {grid.title}": grid.gains[SHOWN].mean(axis=-1) for grid in grids}
    first = grids[0]
    for name, gain in first.gains.items():
        if name != SHOWN:
            panels[f"{name}, {first.title}"] = gain.mean(axis=-1)
    across, up = number_cells(first.learned, "g"), number_cells(first.corrected, "g")
    labels = (
        "share of a label where the bias is learned",
        "share where it is applied", f"points above {BASELINE}",
    )  # fmt: skip
    heading = f"Gain over {BASELINE} where a bias is applied to other shares of the labels"
    return charts.gain_maps(panels, across, up, labels, heading)
