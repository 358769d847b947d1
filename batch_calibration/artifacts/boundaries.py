"""Decision boundaries of each method between two labels: the paper's Fig. 2."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from batch_calibration import boundary
from batch_calibration.artifacts.study import title
from batch_calibration.artifacts.style import CLASSES, STYLE
from batch_calibration.methods import METHODS, fit
from batch_calibration.metrics import accuracy
from batch_calibration.scores import ScoreTable

METHOD_PANELS = ("icl", "cc", "dc", "pc", "bc")


class TwoLabels(NamedTuple):
    """A table cut to two labels: their columns, and of the test rows those with these labels."""

    task: str
    seed: int
    cut: bool
    names: tuple[str, str]
    blocks: dict[str, tuple[np.ndarray, np.ndarray]]


def cut(table: ScoreTable) -> TwoLabels:
    """The first and the last label of a table: all of a two-label task, one pair of a larger one.

    For NLI with three labels this is entailment against contradiction.
    """
    k = len(table.label_names)
    columns = [0, k - 1]
    blocks = {}
    for name, block in table.blocks.items():
        keep = np.isin(block.labels, columns) if name in ("test", "labeled") else block.labels < k
        labels = np.where(block.labels[keep] < 0, -1, (block.labels[keep] == k - 1).astype(int))
        blocks[name] = (block.log_probs[keep][:, columns], labels.astype(np.int32))
    names = (table.label_names[0], table.label_names[-1])
    return TwoLabels(table.context["task"], table.context["seed"], k > 2, names, blocks)


def can_draw(table: ScoreTable) -> bool:
    """Whether the table has CC's and DC's probes and test rows of its first and its last label."""
    known = set(table.blocks["test"].labels.tolist())
    return {"cc", "dc"} <= set(table.blocks) and {0, len(table.label_names) - 1} <= known


def figure(tables: Sequence[ScoreTable], setting: str) -> Figure:
    """One row of panels a table: test rows by gold label, and where each method decides.

    CC is drawn in probabilities, where its boundary is a line through the origin; the others in
    log-probabilities, where theirs is a shifted diagonal (PC: the curve of equal densities).
    """
    rows = [cut(table) for table in tables]
    with plt.rc_context(STYLE):
        drawn, grid = plt.subplots(
            len(rows), len(METHOD_PANELS), figsize=(2.6 * len(METHOD_PANELS), 2.8 * len(rows)),
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes_row, two in zip(grid, rows, strict=True):
            for axes, name in zip(axes_row, METHOD_PANELS, strict=True):
                _panel(axes, two, name)
            axes_row[0].text(
                -0.52, 0.5, heading(two), rotation=90, va="center", weight="bold", fontsize=8,
                transform=axes_row[0].transAxes,
            )  # fmt: skip
            axes_row[0].legend(
                loc="upper right", fontsize=7, markerscale=2, handletextpad=0.2, frameon=True,
                framealpha=0.8, edgecolor="none",
            )  # fmt: skip
        drawn.suptitle(
            f"Decision boundaries: {setting}, one context a task. Solid: the method's; dashed: "
            "plain ICL's; shaded: predicted as the label of that color.", x=0.01, ha="left",
        )  # fmt: skip
    return drawn


def heading(two: TwoLabels) -> str:
    """The task and its seed, and which rows are drawn where it has more than two labels."""
    pair = f"\n{two.names[0]} / {two.names[1]} rows only" if two.cut else ""
    return f"{title(two.task)}, seed {two.seed}{pair}"


def _panel(axes: plt.Axes, two: TwoLabels, name: str) -> None:
    scores, labels = two.blocks["test"]
    calibrator = METHODS[name].make()
    state = fit(METHODS[name], two.blocks, key=jax.random.key(0))
    in_probs = name == "cc"
    points = np.exp(scores) if in_probs else scores
    if in_probs:
        low, high = 0.0, float(np.quantile(points, 0.995)) * 1.05
    else:
        low, high = (float(np.quantile(points, q)) for q in (0.005, 0.995))
        low, high = low - 0.4, high + 0.4
    at = boundary.plane(max(low, 1e-4 * high) if in_probs else low, high, 201)
    s0, s1 = at[..., 0], at[..., 1]
    margin = boundary.decision_margin(calibrator, state, jnp.log(at) if in_probs else at)
    axes.contourf(s1, s0, margin, levels=[-1e9, 0, 1e9], colors=CLASSES[::-1], alpha=0.10)
    for label, color in enumerate(CLASSES):
        mine = labels == label
        axes.scatter(points[mine, 1], points[mine, 0], s=4, color=color, alpha=0.6, linewidths=0,
                     label=two.names[label])  # fmt: skip
    axes.plot([low, high], [low, high], "--", color="#555555", linewidth=1)
    axes.contour(s1, s0, margin, levels=[0], colors="black", linewidths=1.4)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    kind = "p({})" if in_probs else "log p({}) (nats)"
    axes.set_xlabel(kind.format(two.names[1]))
    axes.set_ylabel(kind.format(two.names[0]))
    right = accuracy(calibrator.apply(state, scores), labels)
    axes.set_title(f"{name}: {100 * float(right):.1f} % right", loc="left")
