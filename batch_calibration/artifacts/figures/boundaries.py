"""Draws decision boundaries of each method between two labels: the paper's Fig. 2 and 10."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batch_calibration.artifacts.cells import Cells
from batch_calibration.artifacts.figures.style import CLASSES, STYLE
from batch_calibration.artifacts.grouping import title
from batch_calibration.artifacts.method_display import boundary_axes
from batch_calibration.methods import METHODS, Evidence, fit
from batch_calibration.metrics import accuracy, boundary
from batch_calibration.scores import ScoreTable
from batch_calibration.store import ContextInfo

OPPOSITE = "entailment", "contradiction"
"""The two labels drawn of a task that has them among others, wherever they stand."""

TICKS = 201
"""Points along each side of a panel at which a boundary is computed."""


class TwoLabels(NamedTuple):
    """A table cut to two labels: their columns, and of the test rows those with these labels."""

    task: str
    seed: int | None
    cut: bool
    names: tuple[str, str]
    blocks: dict[str, tuple[np.ndarray, np.ndarray]]


class Panel(NamedTuple):
    """What one panel shows.

    Attributes:
        low: the least value on both axes.
        high: the largest.
        margin: by how much the first label beats the second at each point.
        accuracy: of the test rows, 0 to 1.
    """

    low: float
    high: float
    margin: np.ndarray
    accuracy: float


def drawn_methods() -> tuple[str, ...]:
    """Methods that have a panel, in the order of the table of methods."""
    return tuple(filter(boundary_axes, METHODS))


def _drawn_blocks() -> set[str]:
    """The test rows and what the drawn methods learn from."""
    return {"test", *(name for drawn in drawn_methods() for name in METHODS[drawn].probe.blocks)}


def _pair(table: ScoreTable) -> list[int]:
    """The columns of the two labels that are drawn."""
    names = table.label_names
    pair = OPPOSITE if set(OPPOSITE) <= set(names) else (names[0], names[-1])
    return [names.index(name) for name in pair]


def cut(table: ScoreTable) -> TwoLabels:
    """Two labels of a table: all of a two-label task, one pair of a larger one.

    For NLI with three labels these are entailment and contradiction, otherwise the first and the
    last.
    """
    k = len(table.label_names)
    columns = _pair(table)
    blocks = {}
    # Others would only make programs that differ in shapes which they do not use.
    for name in sorted(_drawn_blocks() & set(table.blocks)):
        block = table.blocks[name]
        keep = np.isin(block.labels, columns) if name in ("test", "labeled") else block.labels < k
        gold = block.labels[keep]
        labels = np.where(gold < 0, -1, (gold == columns[1]).astype(int))
        blocks[name] = (block.log_probs[keep][:, columns], labels.astype(np.int32))
    names = (table.label_names[columns[0]], table.label_names[columns[1]])
    about = ContextInfo.from_table(table)
    return TwoLabels(about.task, about.seed, k > 2, names, blocks)


def can_draw(table: ScoreTable) -> bool:
    """Whether the table has all probes of the drawn methods, and rows of both labels."""
    known = set(table.blocks["test"].labels.tolist())
    return _drawn_blocks() <= set(table.blocks) and set(_pair(table)) <= known


def draw(tables: Sequence[ScoreTable], setting: str) -> Figure:
    """One row of panels a table: test rows by gold label, and where each method decides.

    CC is drawn in probabilities, where its boundary is a line through the origin; the others in
    log-probabilities, where theirs is a shifted diagonal (PC: the curve of equal densities).
    """
    rows, methods = [cut(table) for table in tables], drawn_methods()
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            len(rows), len(methods), figsize=(2.6 * len(methods), 2.8 * len(rows)),
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes_row, two in zip(grid, rows, strict=True):
            for axes, (name, panel) in zip(axes_row, panels(two).items(), strict=True):
                _draw_panel(axes, two, name, panel)
            axes_row[0].text(
                -0.52, 0.5, heading(two), rotation=90, va="center", weight="bold", fontsize=8,
                transform=axes_row[0].transAxes,
            )  # fmt: skip
            axes_row[0].legend(
                loc="upper right", fontsize=7, markerscale=2, handletextpad=0.2, frameon=True,
                framealpha=0.8, edgecolor="none",
            )  # fmt: skip
        figure.suptitle(
            f"Decision boundaries: {setting}, one context a task. Solid: the method's; dashed: "
            "plain ICL's; shaded: predicted as the label of that color.", x=0.01, ha="left",
        )  # fmt: skip
    return figure


def heading(two: TwoLabels) -> str:
    """The task and its seed, and which rows are drawn where it has more than two labels."""
    pair = f"\n{two.names[0]} / {two.names[1]} rows only" if two.cut else ""
    seed = "" if two.seed is None else f", seed {two.seed}"
    return f"{title(two.task)}{seed}{pair}"


def panels(two: TwoLabels) -> dict[str, Panel]:
    """The panel of each drawn method, by name."""
    scores, _ = two.blocks["test"]
    low, high = (float(np.quantile(scores, q)) for q in (0.005, 0.995))
    probable = float(np.quantile(np.exp(scores), 0.995)) * 1.05
    reach = {"log_probs": (low - 0.4, high + 0.4), "probs": (0.0, probable)}
    points = {
        "log_probs": boundary.plane(*reach["log_probs"], TICKS),
        "probs": jnp.log(boundary.plane(1e-4 * probable, probable, TICKS)),
    }
    blocks = {name: padded(*block) for name, block in two.blocks.items()}
    found = jax.device_get(_decide(blocks, points, jax.random.key(0), drawn_methods()))
    # In the order of the table of methods: a compiled program returns a dict sorted by key.
    return {
        name: Panel(*reach[str(boundary_axes(name))], found[name][0], float(found[name][1]))
        for name in drawn_methods()
    }


def data(tables: Sequence[ScoreTable]) -> Cells:
    """A line a test row: both scores in nats, and the right label."""
    rows: Cells = [["task", "first", "second", "label", "log p first", "log p second"]]
    for two in map(cut, tables):
        for pair, label in zip(*two.blocks["test"], strict=True):
            gold = two.names[label] if label >= 0 else ""
            rows.append([two.task, *two.names, gold, *(f"{x:.5g}" for x in pair)])
    return rows


def padded(scores: np.ndarray, labels: np.ndarray) -> Evidence:
    """A block with rows of weight 0 up to the next power of two: tables share a program."""
    missing = (1 << (len(scores) - 1).bit_length()) - len(scores)
    return Evidence(
        jnp.asarray(np.pad(scores, ((0, missing), (0, 0)))),
        jnp.asarray(np.pad(labels, (0, missing), constant_values=-1)),
        jnp.asarray(np.pad(np.ones(len(scores), np.float32), (0, missing))),
    )


# The least optimization: compiling takes longer than the few small fits.
@partial(
    jax.jit,
    static_argnames="methods",
    compiler_options={"xla_backend_optimization_level": 0},
)
def _decide(
    blocks: Mapping[str, Evidence],
    points: Mapping[str, jax.Array],
    key: jax.Array,
    methods: tuple[str, ...],
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Of each method the margin at its points `[t t]`, and its accuracy on the test rows."""
    test, found = blocks["test"], {}
    gold = jnp.asarray(test.labels)
    for name in methods:
        method = METHODS[name]
        calibrator, state = method.make(), fit(method, blocks, key=key)
        margin = boundary.decision_margin(calibrator, state, points[str(boundary_axes(name))])
        right = accuracy(calibrator.apply(state, test.log_probs), gold, test.weight)
        found[name] = margin, right
    return found


def _draw_panel(axes: Axes, two: TwoLabels, name: str, panel: Panel) -> None:
    scores, labels = two.blocks["test"]
    in_probs, (low, high) = boundary_axes(name) == "probs", panel[:2]
    rows = np.exp(scores) if in_probs else scores
    at = np.linspace(1e-4 * high if in_probs else low, high, TICKS, dtype=np.float32)
    s0, s1 = np.meshgrid(at, at, indexing="ij")
    axes.contourf(s1, s0, panel.margin, levels=[-1e9, 0, 1e9], colors=CLASSES[::-1], alpha=0.10)
    for label, shade in enumerate(CLASSES):
        mine = labels == label
        axes.scatter(rows[mine, 1], rows[mine, 0], s=4, color=shade, alpha=0.6, linewidths=0,
                     label=two.names[label])  # fmt: skip
    axes.plot([low, high], [low, high], "--", color="#555555", linewidth=1)
    axes.contour(s1, s0, panel.margin, levels=[0], colors="black", linewidths=1.4)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    kind = "p({})" if in_probs else "log p({}) (nats)"
    axes.set_xlabel(kind.format(two.names[1]))
    axes.set_ylabel(kind.format(two.names[0]))
    axes.set_title(f"{name}: {100 * panel.accuracy:.1f} % right", loc="left")
