"""The study "rows": bias error and accuracy by the number of rows a bias is learned from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from batch_calibration.methods import METHODS, Evidence, gather, get_method, make_calibrator
from batch_calibration.metrics import predict
from batch_calibration.reporting import palette
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import pools
from experiments.evidence.page import Written, csv_link
from experiments.evidence.pools import Pool
from experiments.evidence.statistics import interval_cell, mean_interval, number_cells

BASELINE, SHOWN = REFERENCES
BLOCK = "cc"
"""Name of the block with content-free rows."""
ON_THE_PAGE = ("bc", "bc_empirical_bayes", "bcl")
"""The methods in the page's tables; the CSV file has all."""
NEAR = 0.5
"""Tolerance in points around the gain with all rows."""


class Curves(NamedTuple):
    """Results of methods by the number of rows learned from.

    Attributes:
        title: name of the rows.
        sizes: numbers of rows learned from; the last is all rows except the test rows.
        tested: number of test rows of each pool.
        plain: mean accuracy of the baseline, in percent.
        accuracy: method -> [sizes u], gain of accuracy in points, for u models.
        error: method -> [sizes u], difference in nats to the bias learned from all rows, as root
            mean square over labels and draws.
    """

    title: str
    sizes: Sequence[int]
    tested: int
    plain: float
    accuracy: dict[str, np.ndarray]
    error: dict[str, np.ndarray]

    def rows_needed(self, method: str, gain: float) -> str:
        """Formats the smallest size from which on the mean gain is at least `gain`."""
        below = np.flatnonzero(self.accuracy[method].mean(axis=1) < gain)
        # The size after the last one below `gain`; there is no such size after the largest.
        size_index = 0 if not below.size else int(below[-1]) + 1
        return f"{self.sizes[size_index]:,}" if size_index < len(self.sizes) else "–"

    def gain(self, method: str, size_index: int) -> str:
        """Formats the gain at a size, with its interval over models."""
        return interval_cell(*mean_interval(self.accuracy[method][size_index]))


def findings(curves_by_group: Sequence[Curves]) -> list[str]:
    """Writes the finding: the number of rows that BC needs."""
    sentences = []
    for curves in curves_by_group:
        last = float(curves.accuracy[SHOWN][-1].mean())
        sentences.append(
            f"**{SHOWN} needs rows**, on {curves.title}: it is not below {BASELINE} from "
            f"{curves.rows_needed(SHOWN, 0.0)} rows on, and within {NEAR} points of its gain with "
            f"all {curves.sizes[-1]:,} rows from {curves.rows_needed(SHOWN, last - NEAR)} on."
        )
    return sentences


def section(curves_by_group: Sequence[Curves]) -> str:
    """Writes the section in Markdown."""
    paragraphs = [
        "Gain over ICL in points by the number of rows learned from, judged on "
        f"{min(curves.tested for curves in curves_by_group):,} other rows of the same model, with "
        "95 % intervals over models. `bcl` learns from labeled rows.",
        "![Gain of four methods by the rows learned from](figures/evidence_rows.png)",
    ]
    paragraphs += [markdown(gains(curves, ON_THE_PAGE)) for curves in curves_by_group]
    paragraphs.append(
        f"[Every method and size, with the error of the bias]({csv_link('evidence_rows')})."
    )
    return "\n\n".join(paragraphs)


def gains(curves: Curves, methods: Sequence[str]) -> Cells:
    """Formats a line for each method: gains at some sizes."""
    shown = [index for index, size in enumerate(curves.sizes) if size in (1, 10, 100)]
    shown.append(len(curves.sizes) - 1)  # all rows
    sizes = number_cells(np.array(curves.sizes)[shown], ",")
    lines = [[f"{curves.title}, ICL {curves.plain:.1f} %", *sizes]]
    for name in filter(methods.__contains__, curves.accuracy):
        at_sizes = [curves.gain(name, index) for index in shown]
        lines.append([name, *at_sizes])
    return lines


def cells(curves_by_group: Sequence[Curves]) -> Cells:
    """Formats every number, for a spreadsheet."""
    lines = [["rows", "method", "learned_from", "gain", "low", "high", "bias_error_nats"]]
    for curves in curves_by_group:
        for name, gains_ in curves.accuracy.items():
            for index, size in enumerate(curves.sizes):
                # Fewer bootstrap draws, because there are many cells.
                numbers = number_cells(mean_interval(gains_[index], draws=1000))
                errors = curves.error.get(name)
                error = "" if errors is None else f"{errors[index].mean():.4g}"
                lines.append([curves.title, name, str(size), *numbers, error])
    return lines


@style.styled
def draw(curves_by_group: Sequence[Curves]) -> Figure:
    """Draws the mean gain of the page's methods by the rows learned from, for each kind of rows."""
    figure, grid = style.panels(len(curves_by_group), (2.2, 2.2), dpi=200)
    for axes, curves in zip(grid, curves_by_group, strict=True):
        axes.axhline(0.0, color=style.INK, lw=1.0, zorder=0)
        for name in filter(ON_THE_PAGE.__contains__, curves.accuracy):
            color, dash = palette.color(name), style.DASHES[palette.dash(name)]
            mean = curves.accuracy[name].mean(axis=1)
            marker = "os^D"[ON_THE_PAGE.index(name)]
            look: Any = {"color": color, "ls": dash, "marker": marker, "ms": 3.5, "lw": 1.2}
            axes.plot(curves.sizes, mean, label=name, **look)
        style.label(axes, curves.title, "rows learned from", "gain over ICL (points)", width=2.2)
        ticks = [10.0**power for power in range(len(str(curves.sizes[-1])))]
        style.number_ticks(axes.xaxis, ticks, is_log=True)
        axes.tick_params(axis="x", labelrotation=0)
    heading = "Gain in accuracy by the rows that a method learns from, mean over models"
    return style.finish(figure, heading, "", []).figure


BASELINE, SHOWN = REFERENCES


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: groups of one-batch sets, with a line of panels for each group.
        labels: number of labels to keep.
        sizes: numbers of rows to learn from; the study adds the number of all non-test rows.
        draws: number of draws of each size from each pool.
        rows: number of test rows of each pool, at most half of its rows.
        methods: names of methods; by default all that learn from the test batch, a labeled set or
            content-free rows, and are not sequential.
        seed: seed of the draws.
    """

    sets: Sequence[Sequence[str]]
    labels: int
    sizes: Sequence[int]
    draws: int = 20
    rows: int = 1000
    methods: Sequence[str] = ()
    seed: int = 0


def run(folder: Path, options: Options) -> Written:
    """Runs the study: measures gains and bias errors for each number of rows."""
    for name in options.methods:
        get_method(name)
    curves = []
    for names in options.sets:
        pool_group = pools.real_pools(folder, names, options.labels)
        curves.append(measure(pools.titled(names), pool_group, options))
    tables, figures = {"evidence_rows": cells(curves)}, {"evidence_rows": partial(draw, curves)}
    return Written(findings(curves), section(curves), tables, figures)


def learning(pool: Pool) -> list[str]:
    """Lists the methods that can learn from the rows of a pool, including content-free rows."""
    blocks = {"test", "labeled"} | ({BLOCK} if pool.content_free is not None else set())
    names = []
    for name, method in METHODS.items():
        is_learned = method.probe.blocks and blocks.issuperset(method.probe.blocks)
        # `looped` methods are too slow for this many draws; `own_rows` methods can only correct
        # the rows they learned from.
        if is_learned and not method.looped and not method.own_rows:
            names.append(name)
    return names


def measure(title: str, pool_group: Sequence[Pool], options: Options) -> Curves:
    """Measures accuracy and bias error of each method at each size."""
    allowed_names = (SHOWN, *options.methods) if options.methods else METHODS
    # All pools of a group allow the same methods.
    names = [name for name in learning(pool_group[0]) if name in allowed_names]
    random = np.random.default_rng(options.seed)
    # The same number for each pool, so that their test rows form one array.
    tested = min(options.rows, *(len(pool.gold) // 2 for pool in pool_group))
    test_orders, learning_orders = [], []
    for pool in pool_group:
        order = random.permutation(len(pool.gold))
        test_orders.append(order[:tested])
        learning_orders.append(order[tested:])
    test, gold = _stack(pool_group, test_orders)  # [u, n, k], [u, n]
    most_rows = min(map(len, learning_orders))  # the smallest pool's
    sizes = [*(size for size in options.sizes if size < most_rows), most_rows]
    plain = 100 * (test.argmax(axis=-1) == gold).mean(axis=-1)  # [u], percent
    shape = len(sizes), pools.count_units(pool_group)
    accuracy = {name: np.zeros(shape) for name in names}
    error = {name: np.zeros(shape) for name in names if METHODS[name].keeps_bias}
    content_free = [pool.content_free for pool in pool_group if pool.content_free is not None]
    # [u, f, k], or None without content-free rows of each model
    free = np.stack(content_free) if len(content_free) == len(pool_group) else None
    reference: dict[str, np.ndarray] = {}
    key = jax.random.key(options.seed)
    # The largest size comes first, because its bias is the reference for smaller sizes.
    for index, size in reversed([*enumerate(sizes)]):
        # All draws of all rows are equal.
        draws = options.draws if size < most_rows else 1
        drawn = [_draw_rows(order, size, draws, random) for order in learning_orders]
        seen, labels = _stack(pool_group, drawn)  # [u, c, m, k], [u, c, m]
        for name in names:
            learned = _learned(seen, labels, test, gold, free, key, name=name)
            right, bias = jax.device_get(learned)  # [u, c], [u, c, k]
            accuracy[name][index] = pools.units(100 * right.mean(axis=1) - plain, pool_group)
            if name in error:
                # A constant added to all labels does not change a bias.
                centered = bias - bias.mean(axis=-1, keepdims=True)
                bias_error = centered - reference.setdefault(name, centered)
                nats = np.sqrt((bias_error**2).mean(axis=(1, 2)))  # [u], over draws and labels
                error[name][index] = pools.units(nats, pool_group)
    mean_plain = float(pools.units(plain, pool_group).mean())
    return Curves(title, sizes, tested, mean_plain, accuracy, error)


def _draw_rows(rows: np.ndarray, size: int, draws: int, random: np.random.Generator) -> np.ndarray:
    """Draws row indices [draws, size], without replacement in a draw."""
    return np.stack([random.choice(rows, size, replace=False) for _ in range(draws)])


def _stack(
    pool_group: Sequence[Pool], row_indices: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Stacks the rows [u ... k] and labels [u ...] of each pool at the given indices."""
    scores, gold = [], []
    for pool, rows in zip(pool_group, row_indices, strict=True):
        scores.append(pool.log_probs[rows])
        gold.append(pool.gold[rows])
    return np.stack(scores), np.stack(gold)


@partial(jax.jit, static_argnames="name")
def _learned(
    seen: jax.Array, labels: jax.Array, test: jax.Array, gold: jax.Array, free: jax.Array | None,
    key: jax.Array, *, name: str,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """Computes the accuracy on test rows [u c], and the bias [u c k] (zero if a method has none).

    Args:
        seen: [u c m k], m rows to learn from, of u pools and c draws; the labeled set for methods
            that read labels.
        labels: [u c m], labels of these rows.
        test: [u n k], test rows.
        gold: [u n], labels of the test rows.
        free: [u f k], content-free rows.
        key: random key for methods with a random start.
        name: name of the method.
    """
    method = METHODS[name]
    chosen = make_calibrator(method)

    def learn(
        rows: jax.Array, its: jax.Array, judged: jax.Array, right: jax.Array,
        content: jax.Array | None,
    ) -> tuple[jax.Array, jax.Array]:  # fmt: skip
        blocks = {"test": Evidence(rows)}
        if method.probe.labels:
            # Some methods read the labeled set and the test rows.
            blocks = {"test": Evidence(judged), "labeled": Evidence(rows, its)}
        if content is not None:
            blocks[BLOCK] = Evidence(content)
        state = chosen.fit(*gather(method, blocks), key=key)
        bias = state.bias if method.keeps_bias else jnp.zeros(rows.shape[-1], jnp.float32)
        return jnp.mean(predict(chosen.apply(state, judged)) == right), bias

    # All draws share the test rows.
    over_draws = jax.vmap(learn, (0, 0, None, None, None))
    over_pools = jax.vmap(over_draws, (0, 0, 0, 0, None if free is None else 0))
    right, bias = over_pools(seen, labels, test, gold, free)
    return right, bias
