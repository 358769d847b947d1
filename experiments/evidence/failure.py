"""The study "failure": the label shares, batch sizes and biases at which corrections lose."""

from collections.abc import Sequence
from functools import partial
from itertools import product
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
from experiments.evidence.statistics import (
    break_even_interval,
    interval_cell,
    mean_interval,
    number_cells,
)

BASELINE, SHOWN = REFERENCES
ON_THE_PAGE = (SHOWN, "bc_prob_shift")
"""The methods in the page's table; the CSV file has all."""


class Grid(NamedTuple):
    """Gains of methods over a grid.

    Attributes:
        title: name of the rows.
        shares: [s], shares of the most frequent label.
        sizes: [z], batch sizes.
        strengths: [b], nats added to the first label.
        accuracy: method -> [s z b u], gain of accuracy in points for u models or draws.
        balanced: method -> [s z b u], gain of balanced accuracy.
    """

    title: str
    shares: np.ndarray
    sizes: Sequence[int]
    strengths: Sequence[float]
    accuracy: dict[str, np.ndarray]
    balanced: dict[str, np.ndarray]

    def even(self, method: str, size: int, strength: int, *, balanced: bool = False) -> str:
        """Formats the share above which a method loses, and its interval.

        Args:
            method: name of the method.
            size: batch size; the nearest one of the grid is used.
            strength: index of the strength.
            balanced: use balanced accuracy.
        """
        gains = (self.balanced if balanced else self.accuracy)[method]
        at = self.shares, gains[:, self._nearest(size), strength]  # [s], [s, u]
        share, low, high = break_even_interval(*at)
        return f"{self._share(share)} [{self._share(low)}, {self._share(high)}]"

    def _nearest(self, size: int) -> int:
        return int(np.argmin(np.abs(np.array(self.sizes) - size)))

    def _share(self, share: float) -> str:
        # Outside the range of the grid's shares, only a bound is known.
        if np.isinf(share):
            return f"> {self.shares[-1]:.2f}" if share > 0 else f"< {self.shares[0]:.2f}"
        return f"{share:.2f}"

    def gain(self, method: str, share: int, size: int, strength: int) -> str:
        """Formats the gain in a cell of the grid, with its interval over models or draws."""
        accuracy_by_unit = self.accuracy[method][share, self._nearest(size), strength]  # [u]
        return interval_cell(*mean_interval(accuracy_by_unit))


def findings(real: Sequence[Grid], batch_rows: int) -> list[str]:
    """Writes the findings: the conditions under which BC loses on real rows."""
    grid = real[0]
    small = [size for size in grid.sizes if size < batch_rows]
    # Index 0 is the lowest share and the strength of 0 nats.
    sizes = ", ".join(f"{grid.gain(SHOWN, 0, size, 0)} with {size}" for size in small)
    return [
        f"**Do not use {SHOWN} where one label is much more frequent than the others**: on "
        f"{grid.title} it loses beyond a share of {grid.even(SHOWN, batch_rows, 0)} in batches of "
        f"{batch_rows} rows.",
        f"**Do not use {SHOWN} on a few rows**, even where labels are balanced. Points above "
        f"{BASELINE} on {grid.title}: {sizes}; {grid.gain(SHOWN, 0, batch_rows, 0)} with "
        f"{batch_rows} rows.",
    ]


def section(real: Sequence[Grid], batch_rows: int) -> str:
    """Writes the section in Markdown."""
    return "\n\n".join([
        "A batch is drawn from the rows of one model: first each row's label, by the given shares, "
        "then a row with this label. It is corrected by its own bias. Numbers are means over the "
        "choices of the most frequent label.",
        "![Gain of BC over ICL by share of the most frequent label and batch size]"
        "(figures/evidence_failure_real.png)",
        "The table has the share of the most frequent label beyond which a method is less accurate "
        f"than ICL (batches of {batch_rows} rows, no bias added, 95 % interval over models).",
        markdown(by_method(real, batch_rows)),
        "![The same for every method](figures/evidence_failure_methods.png)",
        "[By size of the batch and added bias, with simulated rows]"
        f"({csv_link('evidence_failure_break_even')}).",
        "![Simulated rows: two labels with Gaussian margins, and a bias of the first label]"
        "(figures/evidence_failure_simulated.png)",
    ])  # fmt: skip


def by_method(grids: Sequence[Grid], batch_rows: int) -> Cells:
    """Formats a header and a line for each method: its break-even share on each grid."""
    head = ["method", *(grid.title for grid in grids)]

    def line(name: str) -> list[str]:
        return [name, *(grid.even(name, batch_rows, 0) for grid in grids)]

    return [head, *map(line, filter(ON_THE_PAGE.__contains__, grids[0].accuracy))]


def cells(grids: Sequence[Grid]) -> Cells:
    """Formats every cell, for a spreadsheet."""
    lines = [["rows", "method", "share", "batch", "strength", "gain", "low", "high",
              "balanced_gain", "balanced_low", "balanced_high"]]  # fmt: skip
    for grid in grids:
        for name, gains in grid.accuracy.items():
            for a, b, c in np.ndindex(gains.shape[:3]):  # shares, sizes, strengths
                at = f"{grid.shares[a]:g}", str(grid.sizes[b]), f"{grid.strengths[c]:g}"
                # Fewer draws than elsewhere, because there are thousands of cells.
                gain = mean_interval(gains[a, b, c], draws=1000)
                balanced = mean_interval(grid.balanced[name][a, b, c], draws=1000)
                lines.append([grid.title, name, *at, *number_cells((*gain, *balanced))])
    return lines


def break_evens(grids: Sequence[Grid]) -> Cells:
    """Formats every break-even share, for a spreadsheet."""
    lines = [["rows", "method", "batch", "strength", "accuracy", "balanced_accuracy"]]
    for grid in grids:
        cases = product(grid.accuracy, grid.sizes, enumerate(grid.strengths))
        for name, size, (index, strength) in cases:
            share = grid.even(name, size, index)
            balanced_share = grid.even(name, size, index, balanced=True)
            at = str(size), f"{strength:g}"
            lines.append([grid.title, name, *at, share, balanced_share])
    return lines


LABELS = "share of the most frequent label", "rows of a batch", f"points above {BASELINE}"
HEADING = f"Gain over {BASELINE} by the shares of the labels and the rows of a batch"


def draw_real(grids: Sequence[Grid]) -> Figure:
    """Plots the gain of BC in (balanced) accuracy on each kind of rows that are not simulated."""
    # Grids of four labels have more shares; only shares of all grids are drawn.
    is_shared = np.ones(len(grids[0].shares), bool)
    for grid in grids:
        is_shared &= np.isclose(grid.shares, grids[0].shares[:, None]).any(axis=1)
    shared = grids[0].shares[is_shared].tolist()
    panels = {}
    for metric_title, metric in (("accuracy", "accuracy"), ("balanced accuracy", "balanced")):
        for grid in grids:
            # The index of each share in this grid, up to rounding.
            share_indices = abs(grid.shares - np.array(shared)[:, None]).argmin(axis=1)
            # [s, z], no bias added
            gains = getattr(grid, metric)[SHOWN][share_indices, :, 0].mean(axis=-1)
            panels[f"{SHOWN}, {grid.title}: {metric_title}"] = gains
    return charts.gain_maps(
        panels, *_ticks(grids[0], shared), LABELS, f"{HEADING}, real rows", columns=len(grids)
    )


def draw_methods(grid: Grid) -> Figure:
    """Draws the gain of every method on one kind of real rows."""
    panels = {name: gains[:, :, 0].mean(axis=-1) for name, gains in grid.accuracy.items()}  # [s, z]
    heading = f"{HEADING}, {grid.title}"
    return charts.gain_maps(panels, *_ticks(grid, list(grid.shares)), LABELS, heading)


def draw_simulated(grids: Sequence[Grid]) -> Figure:
    """Draws the gain of BC on simulated rows: a line for each accuracy, a column for each bias."""
    panels = {}
    for grid, (index, strength) in product(grids, enumerate(grids[0].strengths)):
        title = f"{grid.title.removeprefix('simulated, ')}, bias {strength:g} nats"
        panels[title] = grid.accuracy[SHOWN][:, :, index].mean(axis=-1)
    ticks = _ticks(grids[0], list(grids[0].shares))
    heading = f"{HEADING}, simulated rows"
    return charts.gain_maps(panels, *ticks, LABELS, heading, len(grids[0].strengths))


def _ticks(grid: Grid, shares: Sequence[float]) -> tuple[list[str], list[str]]:
    return number_cells(shares, ".2f"), number_cells(grid.sizes, ",")


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: groups of one-batch sets; the rows of each model are a pool, each group is a grid.
        labels: numbers of labels to keep, with a grid for each.
        accuracies: accuracies of simulated pools of two labels without bias, with a grid for each.
        shares: shares of the most frequent label; shares below 1/k are left out.
        sizes: batch sizes for real rows. Larger batches would repeat the rows of a model.
        simulated_sizes: batch sizes for simulated rows.
        strengths: nats added to the first label of real rows.
        simulated_strengths: nats added to the first label of simulated rows, their only bias.
        rows: number of rows drawn of each pool in each cell, at least one batch.
        simulated_draws: number of pools for each accuracy; intervals are over these pools.
        told: batch size in findings and tables.
        methods: names of methods; by default all that learn only from unlabeled rows and are not
            sequential.
        seed: seed of the draws.
    """

    sets: Sequence[Sequence[str]]
    labels: Sequence[int]
    accuracies: Sequence[float]
    shares: Sequence[float]
    sizes: Sequence[int]
    simulated_sizes: Sequence[int]
    strengths: Sequence[float]
    simulated_strengths: Sequence[float]
    rows: int = 1000
    simulated_draws: int = 8
    told: int = 100
    methods: Sequence[str] = ()
    seed: int = 0


def run(folder: Path, options: Options) -> Written:
    """Runs the study: measures every cell of every grid."""
    batches.chosen(options.methods)  # refuses a wrong name before anything is measured
    # The measured size nearest to the wanted one.
    shown_size = min(options.sizes, key=lambda size: abs(size - options.told))
    real = []
    for names in options.sets:
        for labels in options.labels:
            pool_group = pools.real_pools(folder, names, labels)
            title = f"{pools.titled(names)}, {labels} labels"
            real.append(grid(title, pool_group, options))
    # Simulated rows have other sizes and strengths.
    simulated_options = options._replace(
        sizes=options.simulated_sizes, strengths=options.simulated_strengths
    )
    simulated = []
    for accuracy in options.accuracies:
        drawn = []
        for i in range(options.simulated_draws):
            pool = pools.gaussian_pool(accuracy, 40_000, options.seed + i)
            # Pools with equal names are one unit, so each draw needs a different name.
            drawn.append(pool._replace(name=str(i)))
        title = f"simulated, {100 * accuracy:.0f} % right without bias"
        simulated.append(grid(title, drawn, simulated_options))
    grids = [*real, *simulated]
    tables = {"evidence_failure": cells(grids), "evidence_failure_break_even": break_evens(grids)}
    figures = {
        "evidence_failure_real": partial(draw_real, real),
        "evidence_failure_methods": partial(draw_methods, real[0]),
        "evidence_failure_simulated": partial(draw_simulated, simulated),
    }
    return Written(findings(real, shown_size), section(real, shown_size), tables, figures)


def grid(title: str, pool_group: Sequence[Pool], options: Options) -> Grid:
    """Measures the gain of each method in each cell; a batch is corrected by its own bias.

    A cell is the mean over the choices of the most frequent label, so that results do not depend on
    the label that the bias prefers.
    """
    k = pool_group[0].log_probs.shape[1]
    # The tolerance allows for a rounded 1/k (balanced labels) in a config.
    shares = np.array([share for share in options.shares if share > 1 / k - 1e-6])
    names = batches.chosen(options.methods)
    sizes, strengths, units = options.sizes, options.strengths, pools.count_units(pool_group)
    shape = 2, len(shares), len(sizes), len(strengths), units
    gains = {name: np.zeros(shape) for name in names}  # accuracy, balanced accuracy
    key = jax.random.key(options.seed)
    for a, b in np.ndindex(shape[1:3]):
        # The seed depends only on the cell, so every method and strength sees the same rows.
        random = np.random.default_rng([options.seed, k, a, b])
        share, size = float(shares[a]), sizes[b]
        rows, gold = pools.several(pool_group, share, size, options.rows, random)
        counts = (gold[..., None] == np.arange(k)).sum(axis=(1, 2))  # [u, k]
        for c, strength in enumerate(strengths):
            bias = np.zeros(k, np.float32)
            bias[0] = strength
            for name in names:
                right = np.asarray(batches.right_by_label(rows, rows, gold, bias, key, name=name))
                for metric, by_batch in enumerate(batches.in_percent(right, counts)):
                    # In the output of `several`, the most frequent label varies fastest.
                    by_pool = by_batch.reshape(len(pool_group), k).mean(axis=1)
                    gains[name][metric, a, b, c] = pools.units(by_pool, pool_group)
    plain = gains.pop(BASELINE)
    accuracy, balanced = {}, {}
    for name, gain in gains.items():
        accuracy[name], balanced[name] = gain - plain
    return Grid(title, shares, sizes, strengths, accuracy, balanced)
