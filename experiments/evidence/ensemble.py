"""The study "ensemble": the gain from averaging several corrected prompts, by their number.

A group holds the contexts of one task with the same rows, such as models or demonstrations. The
study draws random contexts of each group. The gain is relative to the mean accuracy of the drawn
contexts before correction.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from batch_calibration.calibration.ensemble import average_contexts
from batch_calibration.methods import METHODS
from batch_calibration.methods.run import correct_group, jit_quickly
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.cells import Cells, markdown
from batch_calibration.reporting.figures.intervals import draw_forest
from batch_calibration.reporting.frame import group_by
from batch_calibration.scores import ScoreTable, make_block
from experiments.evidence import charts
from experiments.evidence.page import Written, csv_link
from experiments.evidence.sets import ScoreSet, read_sets, task_of
from experiments.evidence.sources import read_workdir
from experiments.evidence.statistics import interval_cell, mean_interval

HEADINGS = {"icl": "ICL averaged", "bc": "BC averaged", "pooled": "ensemble", "one": "not averaged"}
"""Rule -> heading of its column."""
ON_THE_PAGE = "5"
"""Number of contexts in the table of the page."""
DRAWS_OF_ALL = 60
"""Minimum number of draws of each size, over all tasks of a set."""
average = jit_quickly(average_contexts)


class Options(NamedTuple):
    """Settings of the study.

    Attributes:
        sets: names of sets in which all contexts of a task have the same rows.
        embedded: workdirs with stored scores.
        sizes: numbers of contexts to average.
        draws: number of random draws of contexts for each size and group.
        most_rows: maximum number of rows of a group; the first rows are kept.
        seed: seed of the draws.
    """

    sets: Sequence[str] = ("mmlu", "mmbench", "oodcv", "demonstrations")
    embedded: Sequence[str] = ()
    sizes: Sequence[int] = (1, 2, 3, 5, 10)
    draws: int = 2
    most_rows: int = 400
    seed: int = 0


class Gains(NamedTuple):
    """Gains of a set in points: rule -> size -> [tasks]; `plain` is the ICL accuracy in %."""

    title: str
    plain: float
    by_rule: dict[str, dict[int, np.ndarray]]


def run(folder: Path, options: Options) -> Written:
    """Runs the study: averages several contexts, corrected in several ways."""
    score_sets = read_sets(folder, options.sets)
    score_sets += [read_workdir(Path(workdir)) for workdir in options.embedded]
    measured = [measure(score_set, options) for score_set in score_sets]
    table = cells(measured, options)
    figures = {"evidence_ensemble": partial(draw, measured, options)}
    return Written(findings(measured), section(table), {"evidence_ensemble": table}, figures)


def measure(score_set: ScoreSet, options: Options) -> Gains:
    """Measures the gains of every rule and size on the groups of a set."""
    groups = group_by(score_set.tables, task_of).values()
    draws = max(options.draws, DRAWS_OF_ALL // len(groups))
    plain, by_rule = list[float](), {rule: dict[int, list[float]]() for rule in HEADINGS}
    for number, tables in enumerate(groups):
        random = np.random.default_rng([options.seed, number])
        kept = [table.blocks["test"].log_probs[: options.most_rows] for table in tables]
        rows, gold = np.stack(kept), tables[0].blocks["test"].labels[: options.most_rows]
        plain.append(100 * float(np.mean(rows.argmax(axis=-1) == gold)))
        for size in sizes_of(options, len(tables)):
            drawn = []
            for _ in range(draws):
                chosen = random.choice(len(tables), size, replace=False)
                drawn.append(gains_of(rows[chosen], gold))
            for rule in HEADINGS:
                mean = float(np.mean([gains[rule] for gains in drawn]))
                by_rule[rule].setdefault(size, []).append(mean)
    gains = dict[str, dict[int, np.ndarray]]()
    for rule, by_size in by_rule.items():
        gains[rule] = {size: np.array(of_groups) for size, of_groups in by_size.items()}
    return Gains(score_set.title, float(np.mean(plain)), gains)


def sizes_of(options: Options, contexts: int) -> list[int]:
    """Selects the sizes that a group with this number of contexts allows."""
    return [size for size in options.sizes if size <= contexts]


def gains_of(rows: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """Computes each rule's gain in points on contexts [c n k] over their mean ICL accuracy."""
    names, tables = tuple(map(str, range(rows.shape[-1]))), list[ScoreTable]()
    for scores in rows:
        tables.append(ScoreTable({"rows": "same"}, names, {"test": make_block(scores, gold)}))
    pooled = np.stack([one.scores for one in correct_group(METHODS["bc_pooled_shares"], tables)])
    corrected = {"icl": rows, "bc": rows - rows.mean(axis=1, keepdims=True), "pooled": pooled}
    plain = share_right(rows, gold)
    gains = {"one": share_right(pooled, gold) - plain}
    weight = jnp.ones(rows.shape[:2])
    for rule, scores in corrected.items():
        gains[rule] = share_right(np.asarray(average(scores, weight)), gold) - plain
    return gains


def share_right(scores: np.ndarray, gold: np.ndarray) -> float:
    """Computes the accuracy over all rows and contexts, in percent."""
    return 100 * float(np.mean(scores.argmax(axis=-1) == gold))


def cells(measured: Sequence[Gains], options: Options) -> Cells:
    """Formats a header and a line for each set and number of contexts."""
    table = [["source", "ICL", "contexts", *HEADINGS.values()]]
    for gains in measured:
        for size in gains.by_rule["one"]:
            line = [gains.title, f"{gains.plain:.1f}", str(size)]
            table.append([*line, *(gain_cell(gains, rule, size) for rule in HEADINGS)])
    return table


def gain_cell(gains: Gains, rule: str, size: int) -> str:
    """Formats the mean gain over tasks, with its interval if there are several tasks."""
    of_groups = gains.by_rule[rule][size]
    if len(of_groups) < 2:
        return f"{of_groups.mean():+.1f}"
    return interval_cell(*mean_interval(of_groups))


def findings(measured: Sequence[Gains]) -> list[str]:
    """Writes the finding: the gain by the number of contexts, and the cost of a context."""
    pooled, phrases = [gains.by_rule["pooled"] for gains in measured], []
    for size in dict.fromkeys(chain(*pooled)):
        means = [of_sizes[size].mean() for of_sizes in pooled if size in of_sizes]
        phrases.append(f"{np.mean(means):+.1f} with {size}")
    return [
        "**Several corrected prompts, averaged**: points gained over the mean accuracy of single "
        f"prompts, over the sets with as many: {', '.join(phrases)}. Each prompt costs one more "
        "forward pass for each row; the correction costs none."
    ]


def section(table: Cells) -> str:
    """Writes the section in Markdown."""
    return "\n\n".join([
        f"{ON_THE_PAGE} contexts of a task with the same rows (models, demonstrations) are drawn "
        "at random. Gains are in points over their mean accuracy, with 95 % intervals over tasks. "
        "`ensemble` averages contexts that `bc_pooled_shares` corrected; *not averaged* is the "
        "mean of their accuracies.",
        markdown([line[:2] + line[3:] for line in table if line[2] in ("contexts", ON_THE_PAGE)]),
        f"[One to ten contexts]({csv_link('evidence_ensemble')}).",
        "![Gain of averaged contexts, by how many](figures/evidence_ensemble.png)",
    ])  # fmt: skip


def draw(measured: Sequence[Gains], options: Options) -> Figure:
    """Draws a panel for each number of contexts that every set has, with a row for each set."""
    panels: dict[str, dict[str, tuple[Estimate, int]]] = {}
    shared_sizes = set(options.sizes).intersection(*(gains.by_rule["one"] for gains in measured))
    for size in sorted(shared_sizes):
        panel = panels.setdefault(f"{size} context{'s' * (size > 1)}", {})
        for gains in measured:
            mean, low, high = mean_interval(gains.by_rule["pooled"][size])
            panel[gains.title] = charts.forest_row(mean, low, high, int(low > 0) - int(high < 0))
    names, heading = [gains.title for gains in measured], "Corrected contexts, averaged"
    label = "gain over the contexts' mean as they are (points)"
    return draw_forest(panels, names, label, heading, ("contexts", "source")).figure
