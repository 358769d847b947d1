"""The study "rows": bias error and accuracy against how many rows a bias is learned from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from batch_calibration.methods import METHODS, Evidence, gather, get_method, make_calibrator
from batch_calibration.metrics import predict
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.frame import REFERENCES
from experiments.evidence import charts, pools
from experiments.evidence.page import Written, csv_link
from experiments.evidence.pools import Pool
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


def findings(curves_by_group: Sequence[Curves]) -> list[str]:
    """The number of rows that the paper's method needs."""
    sentences = []
    for curves in curves_by_group:
        last = float(curves.accuracy[SHOWN][-1].mean())
        sentences.append(
            f"**{SHOWN} needs rows**, on {curves.title}: it is not below {BASELINE} from "
            f"{curves.rows_needed(SHOWN, 0.0)} rows on, and within {NEAR} points of what all "
            f"{curves.sizes[-1]:,} rows give from {curves.rows_needed(SHOWN, last - NEAR)} on."
        )
    return sentences


def section(curves_by_group: Sequence[Curves]) -> str:
    """The section in Markdown."""
    paragraphs = [
        "A method learns from m rows drawn without replacement, and is judged on "
        f"{min(curves.tested for curves in curves_by_group):,} other rows of the same model. "
        "Methods that read labels learn from m labeled rows. Intervals (95 %) are over models; a "
        "model's number is the mean over draws.",
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


BASELINE, SHOWN = REFERENCES


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: groups of sets of one batch, a panel each.
        labels: how many of their labels are kept.
        sizes: rows that a method learns from; also, all that are not test rows.
        draws: draws of so many rows of each pool.
        rows: test rows of each pool, half of its rows at most.
        methods: all that are drawn over rows where none is named: those that learn from the test
            batch, from a labeled set or from content-free rows, and that do not work on one
            context after the other.
        seed: of the draws.
    """

    sets: Sequence[Sequence[str]]
    labels: int
    sizes: Sequence[int]
    draws: int = 20
    rows: int = 1000
    methods: Sequence[str] = ()
    seed: int = 0


def run(folder: Path, options: Options) -> Written:
    """Learn from ever more rows, and say how many are needed."""
    for name in options.methods:
        get_method(name)
    curves = []
    for names in options.sets:
        pool_group = pools.real_pools(folder, names, options.labels)
        curves.append(measure(pools.titled(names), pool_group, options))
    tables, figures = {"evidence_rows": cells(curves)}, {"evidence_rows": partial(draw, curves)}
    return Written(findings(curves), section(curves), tables, figures)


def learning(pool: Pool) -> list[str]:
    """Methods that learn from rows of a pool, its content-free rows among them."""
    blocks = {"test", "labeled"} | ({BLOCK} if pool.content_free is not None else set())
    names = []
    for name, method in METHODS.items():
        is_learned = method.probe.blocks and blocks.issuperset(method.probe.blocks)
        # `looped` ones are too slow for so many draws; `own_rows` ones correct no other rows.
        if is_learned and not method.looped and not method.own_rows:
            names.append(name)
    return names


def measure(title: str, pool_group: Sequence[Pool], options: Options) -> Curves:
    """Accuracy and bias error of each method at each size; all pools give as many test rows."""
    allowed_names = (SHOWN, *options.methods) if options.methods else METHODS
    # The first pool stands for its group.
    names = [name for name in learning(pool_group[0]) if name in allowed_names]
    random = np.random.default_rng(options.seed)
    # As many for each pool, so that pools stack to one array.
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
    # [u, f, k], or None where a model lacks them
    free = np.stack(content_free) if len(content_free) == len(pool_group) else None
    reference: dict[str, np.ndarray] = {}
    key = jax.random.key(options.seed)
    # The most rows first: what is learned from them is what fewer rows are compared with.
    for index, size in reversed([*enumerate(sizes)]):
        # Every draw of all rows is the same.
        draws = options.draws if size < most_rows else 1
        drawn = [_draw_rows(order, size, draws, random) for order in learning_orders]
        seen, labels = _stack(pool_group, drawn)  # [u, c, m, k], [u, c, m]
        for name in names:
            learned = _learned(seen, labels, test, gold, free, key, name=name)
            right, bias = jax.device_get(learned)  # [u, c], [u, c, k]
            accuracy[name][index] = pools.units(100 * right.mean(axis=1) - plain, pool_group)
            if name in error:
                # A bias is known up to a constant for all labels.
                centered = bias - bias.mean(axis=-1, keepdims=True)
                bias_error = centered - reference.setdefault(name, centered)
                nats = np.sqrt((bias_error**2).mean(axis=(1, 2)))  # [u], over draws and labels
                error[name][index] = pools.units(nats, pool_group)
    mean_plain = float(pools.units(plain, pool_group).mean())
    return Curves(title, sizes, tested, mean_plain, accuracy, error)


def _draw_rows(rows: np.ndarray, size: int, draws: int, random: np.random.Generator) -> np.ndarray:
    """So many of some rows, none twice, as often as draws say: [draws, size]."""
    return np.stack([random.choice(rows, size, replace=False) for _ in range(draws)])


def _stack(
    pool_group: Sequence[Pool], row_indices: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows [u ... k] and labels [u ...] of each pool at some places."""
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
    """The share of test rows that are right [u c], and the bias [u c k], zero where none is kept.

    Args:
        seen: [u c m k], u pools and c draws of m rows; a labeled set for methods with labels.
        labels: [u c m], of these.
        test: [u n k].
        gold: [u n].
        free: [u f k], content-free rows.
        key: for methods that start at random.
        name: of the method.
    """
    method = METHODS[name]
    chosen = make_calibrator(method)

    def learn(
        rows: jax.Array, its: jax.Array, judged: jax.Array, right: jax.Array,
        content: jax.Array | None,
    ) -> tuple[jax.Array, jax.Array]:  # fmt: skip
        blocks = {"test": Evidence(rows)}
        if method.probe.labels:
            # Given the test rows, too: some read both.
            blocks = {"test": Evidence(judged), "labeled": Evidence(rows, its)}
        if content is not None:
            blocks[BLOCK] = Evidence(content)
        state = chosen.fit(*gather(method, blocks), key=key)
        bias = state.bias if method.keeps_bias else jnp.zeros(rows.shape[-1], jnp.float32)
        return jnp.mean(predict(chosen.apply(state, judged)) == right), bias

    # Rows and labels differ by draw, the test rows do not.
    over_draws = jax.vmap(learn, (0, 0, None, None, None))
    over_pools = jax.vmap(over_draws, (0, 0, 0, 0, None if free is None else 0))
    right, bias = over_pools(seen, labels, test, gold, free)
    return right, bias
