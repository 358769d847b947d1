"""Rows by the scores of two labels: boundaries, distributions, an illustration of BC."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

import numpy as np

from batch_calibration.reporting import two_labels
from batch_calibration.reporting.figures.chart import Axis, Chart, Panel
from batch_calibration.reporting.figures.marks import INK, Bars, Dots, Field, Line, Mark, Rule
from batch_calibration.reporting.frame import BASELINE, CORRECTED
from batch_calibration.reporting.method_display import PALETTE, boundary_axes
from batch_calibration.reporting.two_labels import Boundary, Shifted, TwoLabels
from batch_calibration.scores import ScoreTable

BINS = 40
MAX_ROWS = 300  # rows of a task that the page shows
MAX_LETTERS = 240  # letters of a text that are shown
DIAGONAL = "#7f7f7f"
SYMBOLS = ("circle", "diamond")  # of two labels: color alone does not tell them apart
SCORES = ("context", "label", "log p second", "log p first")
PLANE_NOTE = (
    "One context a task, two of its labels. A line is where a method's answer changes, in the "
    "plane of the uncorrected scores: above it the label of the vertical axis is answered. Points "
    f"are the first {MAX_ROWS} test rows by their right label; hover one to see its text, its "
    "scores, and which methods answer it wrongly."
)


def boundary_chart(tables: Sequence[ScoreTable], setting: str) -> Chart:
    """Boundaries (the paper's Fig. 2 and 10): test rows by gold label, a row of panels a table.

    CC is drawn in probabilities, where its boundary is a line through the origin; the others in
    log-probabilities, where theirs is a shifted diagonal (PC: the curve of equal densities).
    """
    panels = []
    for two in map(two_labels.cut_table, tables):
        scores, _ = two.blocks["test"]
        ticks, boundaries = two_labels.find_boundaries(two)
        for method, boundary in boundaries.items():
            in_probs = boundary_axes(method) == "probs"
            scale = np.exp if in_probs else np.asarray
            marks: list[Mark] = [Field(scale(ticks), boundary.margin, PALETTE.labels[::-1])]
            marks += _rows(two, scale(scores))
            marks += _lines("", map(scale, boundary.lines), INK, "solid")
            title = f"{two.heading}\n{method}: {100 * boundary.accuracy:.1f} % right"
            panels.append(_plane(f"{two.heading}: {method}", title, two, ticks, marks, in_probs))
    note = (
        "One context a task. Solid: the method's boundary; dashed: plain ICL's; shaded: predicted "
        "as the label of that color."
    )
    return Chart(
        f"Decision boundaries: {setting}", panels, SCORES, note, (2.6, 2.5),
        across=len(two_labels.drawn_methods()), cells=two_labels.row_cells(tables), shares_y=False,
    )  # fmt: skip


def plane_chart(tables: Sequence[tuple[ScoreTable, Mapping[str, str]]], setting: str) -> Chart:
    """The boundaries of all methods in one plane of log-probabilities, a panel a table.

    Beside each table stand the texts of its test rows by id.
    """
    panels = []
    for table, texts in tables:
        two = two_labels.cut_table(table)
        ticks, boundaries = two_labels.find_boundaries(two)
        marks: list[Mark] = []
        for method, boundary in boundaries.items():
            color, dash = PALETTE.color(method), PALETTE.dash(method)
            marks += _lines(method, boundary.lines, color, dash)
        block = table.blocks["test"]
        columns = list(map(table.label_names.index, two.names))
        rows = np.flatnonzero(np.isin(block.labels, columns))[:MAX_ROWS]
        ids = [block.row_ids[row] for row in rows]
        hovers = [_hover_text(two, i, row, texts, boundaries) for i, row in enumerate(ids)]
        scores, _ = two.blocks["test"]
        marks += _rows(two, scores[: len(rows)], hovers)
        name = two.heading.replace("\n", ": ")
        panels.append(_plane(name, name, two, ticks, marks))
    columns_of_plane = ("context", "mark", "log p second", "log p first")
    return Chart(
        f"Decision boundaries: {setting}", panels, columns_of_plane, PLANE_NOTE, (5.0, 5.0),
        cells=two_labels.row_cells([table for table, _ in tables]), shares_y=False,
    )  # fmt: skip


def _plane(
    name: str, title: str, two: TwoLabels, ticks: np.ndarray, marks: Sequence[Mark],
    in_probs: bool = False,
) -> Panel:  # fmt: skip
    """The same range on both axes, and the diagonal where plain scores decide."""
    low, high = float(ticks[0]), float(ticks[-1])
    limits = (float(np.exp(low)), min(float(np.exp(high)), 1.02)) if in_probs else (low, high)
    kind = "p({})" if in_probs else "log p({}) (nats)"
    y, x = (Axis(kind.format(label), limits) for label in two.names)
    return Panel(name, [_diagonal(limits), *marks], x, y, title, is_square=True)


def _diagonal(limits: tuple[float, float]) -> Line:
    return Line("", limits, limits, DIAGONAL, "dash", 1.0)


def _rows(two: TwoLabels, places: np.ndarray, hovers: Sequence[str] = ()) -> list[Dots]:
    """Test rows by right label, at their places [n 2], perhaps with texts to hover."""
    dots, labels = [], two.blocks["test"][1][: len(places)]
    for label, color in enumerate(PALETTE.labels):
        rows = np.flatnonzero(labels == label)
        texts = [hovers[row] for row in rows.tolist()] if hovers else []
        y, x = places[rows].T
        name, symbol, size = two.names[label], SYMBOLS[label], 7.0 if hovers else 2.0
        dots.append(Dots(name, x, y, color, symbol, size, alpha=0.7, hover=texts))
    return dots


def _lines(name: str, lines: Iterable[np.ndarray], color: str, dash: str) -> list[Line]:
    """Where the margin is 0; pieces of a curve are lines of their own, the first has the name."""
    pieces = []
    for number, line in enumerate(lines):
        x, y = line.T
        pieces.append(Line("" if number else name, x, y, color, dash, 1.6))
    return pieces


def _hover_text(
    two: TwoLabels, i: int, row_id: str, texts: Mapping[str, str],
    boundaries: Mapping[str, Boundary],
) -> str:  # fmt: skip
    """What hovering a row shows."""
    scores, labels = two.blocks["test"]  # [n 2] in nats, [n]
    plain = texts.get(row_id, "")
    if len(plain) > MAX_LETTERS:
        plain = f"{plain[: MAX_LETTERS - 1]}…"
    lines = [row_id]
    for paragraph in plain.splitlines():
        lines += wrap(paragraph, 60)
    first, second = (f"log p({two.names[k]}) {scores[i, k]:.2f}" for k in (0, 1))
    wrong = [name for name, boundary in boundaries.items() if boundary.answers[i] != labels[i]]
    right = two.names[labels[i]]
    lines += [f"{first}, {second}", f"right: {right}; wrong in: {', '.join(wrong) or 'none'}"]
    return "\n".join(lines)


def distribution_chart(context: Shifted, setting: str) -> Chart:
    """Distributions (the paper's Fig. 3): by how much the first label beats the second.

    Right of zero the first label is answered.
    """
    margins = {method: context.margin(method) for method in context.biases}
    pooled = np.concatenate(list(margins.values()))  # one range of bins for all panels
    edges = np.linspace(min(pooled.min(), -0.5), max(pooled.max(), 0.5), BINS + 1)
    middles, width = (edges[1:] + edges[:-1]) / 2, float(edges[1] - edges[0])
    first, second = context.labels
    x = Axis(f"log p({first}) - log p({second}), less the bias (nats)")
    panels = []
    for method, margin in margins.items():
        marks: list[Mark] = [Rule(0.0)]
        for label, color in enumerate(PALETTE.labels):
            counts, _ = np.histogram(margin[context.gold == label], edges)
            name = f"right: {context.labels[label]}"
            marks.append(Bars(name, middles, counts, color, width, alpha=0.45, has_edge=True))
        answered, right = 100 * float((margin > 0).mean()), 100 * context.accuracy(method)
        title = f"{method}: {right:.1f} % right\n{answered:.0f} % answered {first}"
        panels.append(Panel(method, marks, x, Axis("rows"), title))
    share = 100 * float((context.gold == 0).sum() / (context.gold >= 0).sum())
    note = (
        f"{context.name}. Where the difference is above 0, {first} is answered; {share:.0f} % of "
        "the rows have it as their right label."
    )
    return Chart(
        f"Score distributions: {setting}", panels, ("method", "label", "margin", "rows"), note,
        (2.9, 2.3), together=True, cells=two_labels.shifted_cells([context]),
    )  # fmt: skip


def correction_chart(contexts: Sequence[Shifted], setting: str) -> Chart:
    """BC illustrated (the paper's Fig. 4), a line of three panels for each context.

    Each row of the batch by its scores, with the mean of each right label; the mean score of each
    label over the batch; each row by its scores less that mean. The dashed line is where the
    answer changes.
    """
    panels = []
    for context in contexts:
        before = _row_panel(contexts, context, BASELINE, "scores of the batch")
        after = _row_panel(contexts, context, CORRECTED, "scores less the mean")
        panels += [before, _bias_panel(contexts, context), after]
    note = "Two draws of demonstrations; a star is the mean of a label's rows."
    return Chart(
        f"Batch calibration at work: {setting}", panels, SCORES, note, (3.0, 2.8), 3,
        together=True, cells=two_labels.shifted_cells(contexts), shares_y=False,
    )  # fmt: skip


def _row_panel(contexts: Sequence[Shifted], context: Shifted, method: str, title: str) -> Panel:
    """Rows by their scores after a method, on the range of the scores of all contexts."""
    pooled = np.concatenate([other.scores - other.biases[method] for other in contexts])
    pad = 0.03 * float(np.ptp(pooled))
    limits = float(pooled.min()) - pad, float(pooled.max()) + pad
    scores = context.scores - context.biases[method]
    marks: list[Mark] = [_diagonal(limits)]
    for label, color in enumerate(PALETTE.labels):
        points = scores[context.gold == label]
        (y, x), mean = points.T, points.mean(axis=0)
        name = f"right: {context.labels[label]}"
        marks.append(Dots(name, x, y, color, SYMBOLS[label], 2.0, alpha=0.5))
        marks.append(Dots("", mean[1:], mean[:1], color, "star", 12.0))
    less = "" if method == BASELINE else " less its mean"
    y_axis, x_axis = (Axis(f"log p({label}){less} (nats)", limits) for label in context.labels)
    shown = f"{context.name}: {title}\n{100 * context.accuracy(method):.1f} % right"
    return Panel(f"{context.name}: {method}", marks, x_axis, y_axis, shown, is_square=True)


def _bias_panel(contexts: Sequence[Shifted], context: Shifted) -> Panel:
    bias = context.biases[CORRECTED]
    pooled = np.concatenate([other.biases[CORRECTED] for other in contexts])
    # Under a bar that hangs down there is room for its number.
    limits = 1.15 * min(0.0, float(pooled.min())), 1.15 * max(0.0, float(pooled.max()))
    at = np.arange(2.0)
    marks: list[Mark] = [
        Bars("mean", at, bias, PALETTE.labels), Rule(0.0, "x"),
        Dots("", at, bias, size=1.0, texts=[f"{height:.2f}" for height in bias]),
    ]  # fmt: skip
    favored, gap = context.labels[int(bias[1] > bias[0])], abs(float(bias[0] - bias[1]))
    title = f"what is taken away:\n{gap:.2f} nats more for {favored}"
    y = Axis("mean log p over the batch (nats)", limits)
    return Panel(f"{context.name}: bias", marks, Axis("", names=context.labels), y, title)
