"""The study "shares": a bias learned on one sample, applied to another with other shares."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from batch_calibration.artifacts.cells import Cell, Cells, markdown
from batch_calibration.artifacts.figures import heat_maps
from batch_calibration.artifacts.figures.chart import Chart
from batch_calibration.artifacts.grouping import REFERENCES
from experiments.evidence import batches, pools, statistics
from experiments.evidence.page import Written, csv_link
from experiments.evidence.pools import Pool

BASELINE, SHOWN = REFERENCES
EVEN = 0.5

ON_THE_PAGE = ("bc", "bc_empirical_bayes", "sld_em")
"""The methods in the page's tables; all are in the file."""


class Options(NamedTuple):
    """What is varied.

    Attributes:
        sets: groups of sets of one batch, a table each; their first two labels are kept.
        shares: of one label in the sample learned from; those from one half on are its shares in
            the sample corrected.
        size: rows of each sample.
        draws: samples of each pool.
        methods: all that learn from unlabeled rows alone, but for those that work on one batch
            after the other, where none is named.
        seed: of the draws.
    """

    sets: Sequence[Sequence[str]]
    shares: Sequence[float]
    size: int = 1000
    draws: int = 2
    methods: Sequence[str] = ()
    seed: int = 0


class Grid(NamedTuple):
    """Gains over the baseline by both shares.

    Attributes:
        title: whose rows.
        learned: [s], shares of a label in the sample learned from.
        corrected: [t], shares of it in the sample corrected.
        gains: method -> [s t u], points of accuracy of u models, the mean over which label it is.
    """

    title: str
    learned: np.ndarray
    corrected: np.ndarray
    gains: dict[str, np.ndarray]

    def gain(self, method: str, learned: float, corrected: float) -> str:
        """The cell nearest to two shares, with its interval over models."""
        nearest_cell = _nearest(self.learned, learned), _nearest(self.corrected, corrected)
        mean, low, high = statistics.mean_interval(self.gains[method][nearest_cell])
        return Cell(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")


def _nearest(axis: np.ndarray, share: float) -> int:
    return int(np.argmin(np.abs(axis - share)))


def run(folder: Path, options: Options) -> Written:
    """Measure every pair of shares, and say what a difference between them costs.

    Args:
        folder: the folder of label scores.
        options: what is varied.
    """
    # A wrong name is refused before anything is measured.
    batches.chosen(options.methods, other_rows=True)
    grids = [
        grid(pools.titled(names), pools.real_pools(folder, names, 2), options)
        for names in options.sets
    ]
    return Written(
        findings(grids), section(grids, options.size),
        {"evidence_shares": cells(grids)}, {"evidence_shares": partial(draw, grids)},
    )  # fmt: skip


def grid(title: str, pool_group: Sequence[Pool], options: Options) -> Grid:
    """The gain of each method for each pair of shares of one of two labels, in turn."""
    names = batches.chosen(options.methods, other_rows=True)
    learned = np.array(options.shares)
    # Each label is the frequent one in turn, so that a share below one half would repeat another.
    corrected = learned[learned > EVEN - 1e-6]
    models = len({pool.name for pool in pool_group})
    gains = {name: np.zeros((len(learned), len(corrected), models)) for name in names}
    key, no_bias = jax.random.key(options.seed), np.zeros(2, np.float32)  # two labels
    draws = options.draws * options.size

    def sample(share: float, number: int) -> tuple[np.ndarray, np.ndarray]:
        # The number keeps both samples apart where their shares are equal.
        random = np.random.default_rng([options.seed, number, int(1000 * share)])
        return pools.several(pool_group, share, options.size, draws, random)

    # One thread: programs with linear algebra, run at once on the CPU, have waited for each other.
    with ThreadPoolExecutor(1) as threads:
        for corrected_index, share in enumerate(corrected):
            rows, gold = sample(share, 1)
            for learned_index, learned_share in enumerate(learned):
                seen = sample(learned_share, 0)[0]  # labels are not read
                right_of_method = partial(batches.right_by_label, seen, rows, gold, no_bias, key)
                answers_right = threads.map(
                    lambda name, right_of=right_of_method: np.asarray(right_of(name=name)), names
                )
                for name, right in zip(names, answers_right, strict=True):
                    accuracy = 100 * right.sum(axis=-1) / gold[0].size  # percent
                    # The mean over which label it is.
                    mean_by_pool = accuracy.reshape(len(pool_group), 2).mean(axis=1)
                    gains[name][learned_index, corrected_index] = pools.units(
                        mean_by_pool, pool_group
                    )
    plain = gains.pop(BASELINE)
    gains_over_baseline = {name: gain - plain for name, gain in gains.items()}
    return Grid(title, learned, corrected, gains_over_baseline)


def findings(grids: Sequence[Grid]) -> list[str]:
    """What a bias learned at other shares costs."""
    high = 0.9
    return [
        f"**Learn the bias from rows with balanced labels**: on {grid.title}, two labels, on rows "
        f"of which one label has {100 * high:.0f} %, {SHOWN} changes accuracy by "
        f"{grid.gain(SHOWN, high, high)} points if it learns from rows with the same shares, and "
        f"by {grid.gain(SHOWN, EVEN, high)} if it learns from rows with balanced labels."
        for grid in grids
    ]


def section(grids: Sequence[Grid], size: int) -> str:
    """The section in Markdown."""
    paragraphs = [
        f"Two labels of real rows. The bias is learned from {size:,} unlabeled rows in which a "
        f"label has one share, and taken off {size:,} other rows in which it has another; each "
        "label is that label in turn. Intervals (95 %) are over models.",
        "![Gain by the share of a label where the bias is learned and where it is applied]"
        "(figures/evidence_shares.png)",
        "Gain over ICL in points of accuracy, by the share of a label where the bias is learned "
        "and where it is applied:",
    ]
    rest = f"[Every method and pair of shares]({csv_link('evidence_shares')})."
    return "\n\n".join(
        [*paragraphs, *(markdown(by_pair(grid, ON_THE_PAGE)) for grid in grids), rest]
    )


def by_pair(grid: Grid, methods: Sequence[str]) -> Cells:
    """A line a method: its gain where shares are balanced, equal, or balanced where it learns."""
    pairs = [(EVEN, EVEN), (0.7, 0.7), (0.9, 0.9), (EVEN, 0.9)]
    head = [
        grid.title,
        *(f"learned at {learned:.1f}, applied at {at:.1f}" for learned, at in pairs),
    ]
    shown = [name for name in grid.gains if name in methods]
    return [head] + [[name, *(grid.gain(name, *pair) for pair in pairs)] for name in shown]


def cells(grids: Sequence[Grid]) -> Cells:
    """Every pair of shares, for a spreadsheet."""
    lines = [["rows", "method", "share_learned", "share_corrected", "gain", "low", "high"]]
    for grid in grids:
        for name, gains in grid.gains.items():
            for a, b in np.ndindex(gains.shape[:2]):
                # Fewer draws: a cell for each pair.
                numbers = statistics.mean_interval(gains[a, b], draws=1000)
                at = f"{grid.learned[a]:g}", f"{grid.corrected[b]:g}"
                lines.append([grid.title, name, *at, *(f"{number:.4g}" for number in numbers)])
    return lines


def draw(grids: Sequence[Grid]) -> Chart:
    """The paper's method on each kind of rows, the others on the first."""
    panels = {f"{SHOWN}, {grid.title}": grid.gains[SHOWN].mean(axis=-1) for grid in grids}
    first = grids[0]
    panels |= {
        f"{name}, {first.title}": gains.mean(axis=-1)
        for name, gains in first.gains.items()
        if name != SHOWN
    }
    # The fields learned and corrected.
    across, up = ([f"{share:g}" for share in axis] for axis in grids[0][1:3])
    labels = (
        "share of a label where the bias is learned",
        "share where it is applied", f"points above {BASELINE}",
    )  # fmt: skip
    heading = f"Gain over {BASELINE} where a bias is applied to other shares of the labels"
    return heat_maps.gain_maps(panels, across, up, labels, heading)
