"""The study "failure": at which shares of labels, batch sizes and biases a correction costs."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from experiments.evidence import batches, failure_tables, pools
from experiments.evidence.comparing import BASELINE
from experiments.evidence.failure_tables import Grid
from experiments.evidence.page import Written
from experiments.evidence.pools import Pool


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: groups of sets of one batch: the rows of each model are a pool, a group a table.
        labels: how many labels are kept of them, a table each.
        accuracies: of simulated pools of two labels without bias, a table each.
        shares: of the most frequent label; those below 1/k are left out.
        sizes: of batches of real rows. Larger ones would repeat the rows of a model.
        simulated_sizes: of batches of simulated rows.
        strengths: nats added to the first label of real rows.
        simulated_strengths: the same of simulated rows, which have no other bias.
        rows: drawn of each pool in each cell, or one batch where that is more.
        simulated_draws: pools drawn for each accuracy; intervals are over these.
        told: the batch size in sentences and tables.
        methods: all that learn from unlabeled rows alone, but for those that work on one batch
            after the other, where none is named.
        seed: of the draws.
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
    """Measure every cell, and say where a correction costs."""
    batches.chosen(options.methods)  # a wrong name is refused before anything is measured
    # The nearest size that is measured.
    shown_size = min(options.sizes, key=lambda size: abs(size - options.told))
    real = []
    for names in options.sets:
        for labels in options.labels:
            pool_group = pools.real_pools(folder, names, labels)
            title = f"{pools.titled(names)}, {labels} labels"
            real.append(grid(title, pool_group, options))
    # Simulated rows have sizes and strengths of their own.
    simulated_options = options._replace(
        sizes=options.simulated_sizes, strengths=options.simulated_strengths
    )
    simulated = []
    for accuracy in options.accuracies:
        drawn = []
        for i in range(options.simulated_draws):
            pool = pools.gaussian_pool(accuracy, 40_000, options.seed + i)
            # A name for each: pools of one name are one unit, and intervals are over draws.
            drawn.append(pool._replace(name=str(i)))
        title = f"simulated, {100 * accuracy:.0f} % right without bias"
        simulated.append(grid(title, drawn, simulated_options))
    return failure_tables.write_up(real, simulated, shown_size)


def grid(title: str, pool_group: Sequence[Pool], options: Options) -> Grid:
    """The gain of each method in each cell; a batch is corrected by what is learned from itself.

    A cell is the mean over which label is the most frequent one, so that the bias is as often for
    it as the labels are many.
    """
    k = pool_group[0].log_probs.shape[1]
    # 1/k, as of balanced labels, may be rounded in a config.
    shares = np.array([share for share in options.shares if share > 1 / k - 1e-6])
    names = batches.chosen(options.methods)
    sizes, strengths, units = options.sizes, options.strengths, pools.count_units(pool_group)
    shape = 2, len(shares), len(sizes), len(strengths), units
    gains = {name: np.zeros(shape) for name in names}  # accuracy, balanced accuracy
    key = jax.random.key(options.seed)
    for a, b in np.ndindex(shape[1:3]):
        # Seeded by the cell alone: every method and strength sees the same rows.
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
                    # `several` runs over the most frequent label innermost.
                    by_pool = by_batch.reshape(len(pool_group), k).mean(axis=1)
                    gains[name][metric, a, b, c] = pools.units(by_pool, pool_group)
    plain = gains.pop(BASELINE)
    accuracy, balanced = {}, {}
    for name, gain in gains.items():
        accuracy[name], balanced[name] = gain - plain
    return Grid(title, shares, sizes, strengths, accuracy, balanced)
