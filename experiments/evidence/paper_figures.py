"""The paper's figures of one model and of several sizes, and the contexts that they show."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.methods import METHODS
from batch_calibration.methods.run import holds_cosines
from batch_calibration.metrics import deviation
from batch_calibration.reporting import frame, palette, two_labels
from batch_calibration.reporting.cells import Cells
from batch_calibration.reporting.figures import intervals, style
from batch_calibration.reporting.figures.scores import (
    draw_planes,
    plot_points,
    score_title,
)
from batch_calibration.reporting.figures.studies import AVERAGE, Row
from batch_calibration.reporting.figures.style import ACCURACY, DASHES, INK, Drawn
from batch_calibration.reporting.frame import (
    BASELINE,
    CORRECTED,
    UNCHANGED,
    Frame,
    context_title,
    sort_records,
    task_accuracy,
    task_title,
)
from batch_calibration.reporting.items import PROMPT, Drawing, Results
from batch_calibration.scores import ScoreTable
from batch_calibration.scoring.tasks import TASKS
from batch_calibration.studies import Record

BOUNDARY_TASKS = ("mrpc", "rte")
"""Tasks with boundaries that come first; the embedded model has a bias on them."""
STRENGTH_TASKS = ("qqp", "cb")
"""Tasks with a separate figure of their strength (the paper's Fig. 5)."""
IMAGE_TASKS = ("svhn", "eurosat", "clevr")
"""Tasks of images that are drawn with intervals (the paper's Fig. 7)."""
# The paper's task; if it is missing, the first task with two labels is drawn.
SCORES_TASK = "qnli"  # its scores' distributions are drawn
METHOD_TASK = "sst2"  # it illustrates BC
BINS = 40


@dataclass(frozen=True)
class PaperResults(Results):
    """Results, and the contexts that the paper's tables and figures show.

    Attributes:
        models: names of models, the smallest first; other models follow by name.
    """

    models: tuple[str, ...] = ()

    @cached_property
    def own_prompts(self) -> Frame:
        """The contexts of texts with the tasks' own prompts, as in the paper's main tables."""
        kept = []
        for record in self.records:
            options = record.context.options
            changed = [name for name in PROMPT if options.get(name, _own(name)) != _own(name)]
            task = TASKS.get(record.context.task)
            if not changed and not (task and task.is_image):
                kept.append(record)
        return Frame(sort_records(kept))

    @cached_property
    def sizes(self) -> list[Frame]:
        """The contexts with own prompts and one shot, by model, the smallest model first."""
        return self.by_model("1")

    def by_model(self, shots: str) -> list[Frame]:
        """Groups the contexts with own prompts and a number of shots by model."""
        models = self.own_prompts.where(shots=shots).by("model") if self.own_prompts.records else {}

        def rank(name: str) -> tuple[int, str]:
            return self.models.index(name) if name in self.models else len(self.models), name

        return [models[key] for key in sorted(models, key=lambda key: rank(key[0]))]

    @property
    def middle(self) -> list[Frame]:
        """The model in the middle of three sizes or more; with fewer sizes, no model."""
        return self.sizes[1:-1][:1]

    @cached_property
    def main(self) -> Frame | None:
        """The model of `sizes` with the most records, which the figures of one model show."""
        counts = Counter(record.context.model for record in self.records)
        return max(self.sizes, key=lambda one: counts[one.records[0].context.model], default=None)


def compared_by_size() -> list[str]:
    """Returns the methods of the paper's tables of sizes, which need no labels."""
    methods = []
    for name, method in METHODS.items():
        if method.group == "paper" and not method.probe.labels and not method.in_order:
            methods.append(name)
    return methods


def _own(name: str) -> str:
    return UNCHANGED.get(name, "")


class Shifted(NamedTuple):
    """The test rows of a context with two labels, and the bias that each method subtracts."""

    name: str  # the task, and the seed
    labels: tuple[str, str]  # the two labels
    scores: np.ndarray  # log-probabilities in nats, [n 2]
    gold: np.ndarray  # the right label of each row, [n]; -1 if it is not known
    # Method -> the bias that it subtracts, [2]; 0 for icl.
    biases: dict[str, np.ndarray]
    unit: str = " nats"  # of scores; "" where they are cosines

    def margin(self, method: str) -> np.ndarray:
        """Returns the first label's score minus the second's after a method, in nats, [n]."""
        return np.asarray((self.scores - self.biases[method]) @ np.array([1.0, -1.0]))

    def accuracy(self, method: str) -> float:
        """Returns the accuracy of a method, 0 to 1."""
        is_known = self.gold >= 0
        return float(((self.margin(method) < 0) == self.gold)[is_known].mean())

    @property
    def preference(self) -> float:
        """BC's bias for the first label minus its bias for the second, in nats."""
        return float(self.biases[CORRECTED] @ [1, -1])


def shift_scores(record: Record, table: ScoreTable) -> Shifted | None:
    """Returns the rows of a record with two labels; others give None."""
    block = table.blocks["test"]
    if len(record.label_names) != 2 or not {0, 1} <= set(block.labels.tolist()):
        return None
    scores = np.asarray(record.scores_of(table), np.float64)
    biases = {BASELINE: np.zeros(2)}
    # The paper's methods that take one bias from all rows and need no labels.
    for name, method in METHODS.items():
        of_method = record.methods.get(name)
        if method.group == "paper" and not method.probe.labels and of_method and of_method.bias:
            biases[name] = np.array(of_method.bias)
    if not np.isfinite(scores).all() or CORRECTED not in biases:
        return None
    first, second = record.label_names
    name = context_title(record.context.task, record.context.seed)
    gold, unit = np.asarray(block.labels), "" if holds_cosines(table) else " nats"
    return Shifted(name, (first, second), scores, gold, biases, unit)


def shifted_cells(contexts: Sequence[Shifted]) -> Cells:
    """Makes a line for each row: both scores, the right label, and the margin after each method."""
    methods = list(contexts[0].biases)
    header = ["context", "label", "log p first", "log p second"]
    lines: Cells = [[*header, *map("margin after {}".format, methods)]]
    for context in contexts:
        margins = [context.margin(method) for method in methods]
        numbers = np.column_stack([context.scores, *margins])
        for gold, row in zip(context.gold, numbers, strict=True):
            label = context.labels[gold] if gold >= 0 else ""
            lines.append([context.name, label, *map("{:.5g}".format, row)])
    return lines


def paper_figures(results: PaperResults) -> Iterator[Drawing]:
    """Yields the paper's figures of one model and of several sizes."""
    yield from _image_figures(results)
    group = results.main
    if group is None:
        return
    section, panels = "paper", {}
    for one in results.sizes:
        methods = one.among(compared_by_size())
        # All but icl itself have a gain over it.
        if len(set(methods) & set(one.compared)) == len(methods) - 1:
            means = {method: one.accuracy(method) for method in methods}
            panels[f"{one.levels('model')[0]}, {len(one.tasks)} tasks"] = means
    if panels:
        draw = partial(intervals.draw_estimates, panels, "Average over the tasks, 1-shot")
        yield Drawing(section, "paper-averages", draw, "Figure 1")
    if contexts := _shifted_contexts(results, group, SCORES_TASK):
        draw = partial(draw_distributions, contexts[0], group.heading)
        yield Drawing(section, f"{section}-distributions", draw, "Figure 3")
    if contexts := _shifted_contexts(results, group, METHOD_TASK):
        # The two draws of demonstrations with the most different biases.
        order = sorted(contexts, key=lambda context: context.preference)
        ends = order[:1] if len(order) == 1 else [order[0], order[-1]]
        draw = partial(draw_correction, ends, group.heading)
        yield Drawing(section, f"{section}-correction", draw, "Figure 4")
    tasks = list(filter(group.tasks.__contains__, STRENGTH_TASKS))
    if tasks and all(record.searched for record in group.records):
        examples = Frame(list(chain.from_iterable(group.tasks[task].records for task in tasks)))
        draw = partial(draw_strength, examples)
        yield Drawing(section, f"{section}-strength-examples", draw, "Figure 5")
    if all(record.searched for record in group.records):
        draw = partial(draw_strength, group)
        yield Drawing(section, f"{section}-strength", draw, "Figure 11")
    tables = list(filter(two_labels.can_draw, _most_biased(results, group)))
    tables.sort(key=lambda table: table.context.get("task") not in BOUNDARY_TASKS)
    heading = f"{group.heading}, the draw with the largest bias"
    if chosen := tables[: results.boundary_tasks]:
        draw = partial(draw_planes, chosen, heading)
        yield Drawing(section, f"{section}-boundaries", draw, "Figure 2")
    of_two = [table for table in tables if len(table.label_names) == 2]
    if len(of_two) > len(chosen):
        draw = partial(draw_planes, of_two, heading)
        yield Drawing(section, f"{section}-boundaries-all", draw, "Figure 10")


def _most_biased(results: Results, group: Frame) -> Iterator[ScoreTable]:
    """Yields the table of each task's draw of demonstrations with the largest bias."""
    for part in group.tasks.values():
        found = part.records
        found = sorted(found, key=lambda record: -np.ptp(record.methods[CORRECTED].bias or 0.0))
        if table := results.load(found[0]):
            yield table


def _image_figures(results: Results) -> Iterator[Drawing]:
    """Yields the accuracy on images without and with bc, with intervals."""
    for group in results.studies.values():
        board = group.board
        tasks = list(filter(board.tasks.__contains__, IMAGE_TASKS if board.has_references else ()))
        panels = {}
        for task in tasks:
            estimates = {m: task_accuracy(board.tasks[task], m) for m in frame.REFERENCES}
            panels[frame.task_title(task)] = estimates
        if panels:
            draw = partial(intervals.draw_estimates, panels, f"Zero-shot images: {board.heading}")
            yield Drawing("paper", "paper-image-gains", draw, "Figure 7")


def _shifted_contexts(results: Results, group: Frame, preferred: str) -> list[Shifted]:
    """Returns the contexts of the preferred task, or of the first one with two labels."""
    for task in dict.fromkeys((preferred, *group.tasks)):
        contexts = []
        for record in group.tasks[task].records if task in group.tasks else ():
            table = results.load(record)
            shifted = shift_scores(record, table) if table else None
            contexts += [shifted] if shifted else []
        if contexts:
            return contexts
    return []


@style.styled
def draw_distributions(context: Shifted, setting: str) -> Drawn:
    """Draws distributions of the first label's score minus the second's (the paper's Fig. 3).

    The first label is predicted on the right of zero.
    """
    margins = {method: context.margin(method) for method in context.biases}
    pooled = np.concatenate(list(margins.values()))  # one range of bins for all panels
    edges = np.linspace(min(pooled.min(), -0.5), max(pooled.max(), 0.5), BINS + 1)
    first, second = context.labels
    figure, grid = style.panels(len(margins), (2.9, 2.3))
    for axes, (method, margin) in zip(grid, margins.items(), strict=True):
        axes.axvline(0.0, color=INK, lw=1.0, zorder=0)
        for label, color in enumerate(palette.LABEL_COLORS):
            name = f"right: {context.labels[label]}"
            counts, _ = np.histogram(margin[context.gold == label], edges)
            look: dict[str, Any] = {"color": color, "edgecolor": color, "alpha": 0.45, "lw": 0.8}
            bars = axes.bar(edges[:-1], counts, np.diff(edges), align="edge", label=name, **look)
            for bar, count, edge in zip(bars, counts, edges, strict=False):
                style.name_marks(bar, [f"{name}: {count:.0f} rows from {edge:.2f}{context.unit}"])
        answered, right = 100 * float((margin > 0).mean()), 100 * context.accuracy(method)
        title = f"{method}: {right:.1f} % right\n{answered:.0f} % answered {first}"
        x = f"log p({first}) - log p({second}), less the bias (nats)"
        if not context.unit:
            x = f"cosine of {first} less that of {second}, less the bias"
        style.label(axes, title, x, "rows", width=2.9)
    share = 100 * float((context.gold == 0).sum() / (context.gold >= 0).sum())
    note = (
        f"{context.name}. Where the difference is above 0, {first} is answered; {share:.0f} % of "
        "the rows have it as their right label."
    )
    cells = shifted_cells([context])
    return style.finish(figure, f"Score distributions: {setting}", note, cells)


@style.styled
def draw_correction(contexts: Sequence[Shifted], setting: str) -> Drawn:
    """Draws BC illustrated (the paper's Fig. 4) in three panels for each context.

    The panels show the scores of the rows and the mean of each right label; the mean score of each
    label over the batch; and the scores minus this mean. The answer changes at the dashed line.
    """
    figure, grid = style.panels(3 * len(contexts), (3.0, 3.2), across=3, shares_y=False)
    for number, context in enumerate(contexts):
        before, bias, after = grid[3 * number : 3 * number + 3]
        _draw_shifted(before, contexts, context, BASELINE, "scores of the batch")
        _draw_bias(bias, contexts, context)
        _draw_shifted(after, contexts, context, CORRECTED, "scores less the mean")
    note = "Two draws of demonstrations; a star is the mean of a label's rows."
    cells = shifted_cells(contexts)
    return style.finish(figure, f"Batch calibration at work: {setting}", note, cells)


def _draw_shifted(
    axes: Axes, contexts: Sequence[Shifted], context: Shifted, method: str, title: str
) -> None:
    """Draws the scores of the rows after a method; all contexts have the same range."""
    pooled = np.concatenate([other.scores - other.biases[method] for other in contexts])
    pad = 0.03 * float(np.ptp(pooled))
    scores = context.scores - context.biases[method]
    for label, color in enumerate(palette.LABEL_COLORS):
        points = scores[context.gold == label]
        mean, name = points.mean(axis=0), f"right: {context.labels[label]}"
        plot_points(axes, points, label, color, name)
        said = f"mean of {name}: {mean[1]:.2f} and {mean[0]:.2f}{context.unit}"
        style.dots(axes, mean[1:], mean[:1], color, [said], size=12.0, marker="*")
    less = "" if method == BASELINE else " less its mean"
    y_title, x_title = (score_title(label, context.unit, less) for label in context.labels)
    shown = f"{context.name}: {title}\n{100 * context.accuracy(method):.1f} % right"
    style.label(axes, shown, x_title, y_title)
    limits = float(pooled.min()) - pad, float(pooled.max()) + pad
    axes.plot(limits, limits, color=palette.GRAY, ls="--", lw=1.0, zorder=1)
    axes.set(xlim=limits, ylim=limits)


def _draw_bias(axes: Axes, contexts: Sequence[Shifted], context: Shifted) -> None:
    """Draws the mean score of each label over the batch."""
    bias = context.biases[CORRECTED]
    pooled = np.concatenate([other.biases[CORRECTED] for other in contexts])
    bars = axes.bar((0, 1), bias, 0.6, color=palette.LABEL_COLORS)
    axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    axes.axhline(0.0, color=INK, lw=1.0, zorder=0)
    favored, gap = context.labels[int(bias[1] > bias[0])], abs(float(bias[0] - bias[1]))
    y = "mean log p over the batch (nats)" if context.unit else "mean cosine over the batch"
    title = f"what is taken away:\n{gap:.2f}{context.unit} more for {favored}"
    style.label(axes, title, y=y)
    style.name_ticks(axes.xaxis, context.labels)
    # A number below a negative bar needs room.
    axes.set_ylim(1.15 * min(0.0, float(pooled.min())), 1.15 * max(0.0, float(pooled.max())))


@style.styled
def draw_strength(group: Frame) -> Drawn:
    """Draws accuracy against γ for each task, with its deviation over the contexts."""
    # The paper's figure of two tasks has no average.
    has_average = len(group.tasks) > 2
    figure, grid = style.panels(len(group.tasks) + has_average, (3.2, 2.3))
    rows: list[Row] = []
    means = []
    for axes, (task, part) in zip(grid, group.tasks.items(), strict=False):
        searched = [record.searched for record in part.records if record.searched]  # all have one
        curves = [result.curve for result in searched if result.curve]
        test = 100 * np.array([curve.test for curve in curves])  # [seed strength], %
        labeled = 100 * np.array([curve.labeled for curve in curves])
        means.append(test.mean(0))
        title = task_title(task)
        rows += _draw_strengths(axes, title, "test rows", test, INK, "solid")
        rows += _draw_strengths(axes, title, "labeled rows", labeled, palette.color("cc"), "dash")
        rules = {"γ = 0: ICL": (0.0, "icl", "dot"), "γ = 1: BC": (1.0, "bc", "dash")}
        learned = [result.strength for result in searched if result.strength is not None]
        if learned:
            rules["γ learned (mean)"] = float(np.mean(learned)), "bcl", "solid"
        rules["γ best on test"] = float(STRENGTHS[test.mean(0).argmax()]), "pc", "dashdot"
        for name, (at, method, dash) in rules.items():
            rule = axes.axvline(at, color=palette.color(method), ls=DASHES[dash], lw=1.0,
                                label=name, zorder=0)  # fmt: skip
            style.name_marks(rule, [f"{name}: {at:.2g}"])
        style.label(axes, title, "strength γ (no unit)", ACCURACY)
    if has_average:
        mean = np.mean(means, axis=0)
        grid[-1].plot(STRENGTHS, mean, color=INK, lw=1.5)
        style.label(grid[-1], AVERAGE, "strength γ (no unit)", ACCURACY)
        for strength, value in zip(STRENGTHS, mean, strict=True):
            rows.append((AVERAGE, "test rows", float(strength), value, "", ""))
    # The largest number of contexts of a task.
    count = group.draws
    seeds = "One seed" if count == 1 else f"Mean and band of one sd over {count} seeds"
    header = ["task", "rows", "strength", "accuracy", "low", "high"]
    heading = f"Strength of BC: {group.heading}"
    return style.finish(figure, heading, f"{seeds}.", [header, *rows])


def _draw_strengths(
    axes: Axes, task: str, name: str, curves: np.ndarray, color: str, dash: str
) -> list[Row]:
    """Draws the mean of curves [seed strength] and a band of one standard deviation."""
    mean, band = curves.mean(0), deviation(curves)  # [strength] both
    (line,) = axes.plot(STRENGTHS, mean, color=color, ls=DASHES[dash], lw=1.5, label=name)
    icl, bc = (float(mean[np.isclose(STRENGTHS, at)][0]) for at in (0, 1))
    style.name_marks(line, [f"{name}: {icl:.1f} % at γ = 0, {bc:.1f} % at γ = 1"])
    axes.fill_between(STRENGTHS, mean - band, mean + band, color=color, alpha=0.2, lw=0)
    rows: list[Row] = []
    for at, *values in zip(STRENGTHS, mean, mean - band, mean + band, strict=True):
        rows.append((task, name, float(at), *values))
    return rows
