"""Scores of two labels in the plane: the bias and the decision boundary of each method."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from batch_calibration.methods import METHODS, Evidence, fit
from batch_calibration.methods.run import holds_cosines, pad_rows
from batch_calibration.metrics import accuracy, boundary
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.curves import is_over_shots
from batch_calibration.reporting.frame import context_title
from batch_calibration.scores import ScoreTable
from batch_calibration.studies.records import ContextInfo

# The two labels that are drawn if a task has them among others.
OPPOSITE = "entailment", "contradiction"
TICKS = 101  # points along each side of a panel at which a boundary is computed


class TwoLabels(NamedTuple):
    """The columns and test rows of two labels of a table."""

    task: str
    heading: str  # the task and its seed, and the drawn labels if it has more
    names: tuple[str, str]
    blocks: dict[str, tuple[np.ndarray, np.ndarray]]
    unit: str = " nats"  # of scores; "" where they are cosines


def has_boundary(name: str) -> bool:
    """Checks whether a method's boundary is drawn: one for all rows, learned without labels."""
    # Raw PC is a variant, and the paper's Fig. 2 has it.
    return name == "pc_raw" or (is_over_shots(name) and not METHODS[name].probe.labels)


class Boundary(NamedTuple):
    """The decision boundary of one method."""

    lines: list[np.ndarray]  # [m 2] each, nats: the second label's score, the first's
    accuracy: float  # of the test rows, 0 to 1


def drawn_methods() -> tuple[str, ...]:
    """Returns the methods with a boundary, in the order of the table of methods."""
    return tuple(filter(has_boundary, METHODS))


def _drawn_blocks() -> set[str]:
    """Returns the names of the test rows and of the blocks that the drawn methods learn from."""
    return {"test"}.union(*(METHODS[name].probe.blocks for name in drawn_methods()))


def _drawn_columns(table: ScoreTable) -> list[int]:
    """Returns the columns of the two labels that are drawn."""
    names = table.label_names
    pair = OPPOSITE if set(OPPOSITE) <= set(names) else (names[0], names[-1])
    return list(map(names.index, pair))


def cut_table(table: ScoreTable) -> TwoLabels:
    """Selects two labels of a table: both labels of a task with two, or one pair of more.

    NLI with three labels gives entailment and contradiction, other tasks the first and the last.
    """
    k, columns, blocks = len(table.label_names), _drawn_columns(table), {}
    # Other blocks would only cause compilations for more shapes.
    for name in sorted(_drawn_blocks() & set(table.blocks)):
        block = table.blocks[name]
        keep = np.isin(block.labels, columns) if name in ("test", "labeled") else block.labels < k
        gold = block.labels[keep]
        labels = np.where(gold < 0, -1, (gold == columns[1]).astype(int))
        blocks[name] = (block.log_probs[keep][:, columns], labels.astype(np.int32))
    first, second = (table.label_names[column] for column in columns)
    context = ContextInfo.from_table(table)
    heading = context_title(context.task, context.seed)
    heading += f"\n{first} / {second} rows only" if k > 2 else ""
    unit = "" if holds_cosines(table) else " nats"
    return TwoLabels(context.task, heading, (first, second), blocks, unit)


def can_draw(table: ScoreTable) -> bool:
    """Checks whether the table has all probes of the drawn methods, and rows of both labels.

    No table can be drawn without contourpy, which comes with matplotlib.
    """
    if find_spec("contourpy") is None:
        return False
    labels = set(table.blocks["test"].labels.tolist())
    return _drawn_blocks() <= set(table.blocks) and set(_drawn_columns(table)) <= labels


def find_boundaries(two: TwoLabels) -> tuple[np.ndarray, dict[str, Boundary]]:
    """Returns the ticks [t] of a plane of log-probabilities, and each method's boundary in it."""
    scores, _ = two.blocks["test"]  # [n 2], nats
    low, high = (float(np.quantile(scores, q)) for q in (0.005, 0.995))
    reach = low - 0.4, high + 0.4
    ticks, points = np.linspace(*reach, TICKS), boundary.plane(*reach, TICKS)
    blocks = {name: pad_rows(Evidence(*block)) for name, block in two.blocks.items()}
    decided = jax.device_get(_decide(blocks, points, jax.random.key(0), drawn_methods()))
    boundaries = {}
    # A compiled program sorts its dict by key, so the order of the methods is restored.
    for name in drawn_methods():
        margin, share = decided[name]
        boundaries[name] = Boundary(zero_lines(ticks, margin), float(share))
    return ticks, boundaries


def zero_lines(ticks: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Finds the lines along which a function on a square is 0, [m 2] each: x, y.

    A straight line keeps only its ends.

    Args:
        ticks: [t], of both axes.
        values: [t t], y on the first axis.

    >>> ticks = np.linspace(0.0, 1.0, 5)
    >>> (line,) = zero_lines(ticks, ticks[:, None] - ticks[None] - 0.1)
    >>> line.round(2).tolist()
    [[0.0, 0.1], [0.9, 1.0]]
    """
    from contourpy import contour_generator

    lines, contours = [], cast("list[np.ndarray]", contour_generator(ticks, ticks, values).lines(0))
    for line in contours:
        steps = np.diff(line, axis=0)
        before, after = steps[:-1], steps[1:]
        lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        turns = abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])  # cross products
        lines.append(line[np.concatenate([[True], turns > 1e-5 * lengths, [True]])])
    return lines


def row_cells(tables: Sequence[ScoreTable]) -> Cells:
    """Makes a line for each test row: both scores in nats, and the right label."""
    rows: Cells = [["task", "first", "second", "label", "log p first", "log p second"]]
    for two in map(cut_table, tables):
        for pair, label in zip(*two.blocks["test"], strict=True):
            gold = two.names[label] if label >= 0 else ""
            rows.append([two.task, *two.names, gold, *map("{:.5g}".format, pair)])
    return rows


# At level 0 the fits of PC take four times as long; at level 2 compilation takes longer.
@partial(jax.jit, static_argnames="names", compiler_options={"xla_backend_optimization_level": 1})
def _decide(
    blocks: Mapping[str, Evidence], points: jax.Array, key: jax.Array, names: tuple[str, ...]
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Maps each method to its margin at the points `[t t]`, and its accuracy."""
    test, decided = blocks["test"], {}
    for name in names:
        method = METHODS[name]
        calibrator, state = method.make(), fit(method, blocks, key=key)
        margin = boundary.decision_margin(calibrator, state, points)
        corrected = calibrator.apply(state, test.log_probs)
        share = accuracy(corrected, jnp.asarray(test.labels), test.weight)
        decided[name] = margin, share
    return decided
