"""Interactive figures of the page, by the slugs of the catalogue's figures they stand for."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from batch_calibration.artifacts import curves, gains, robustness
from batch_calibration.artifacts.catalogue import Results
from batch_calibration.artifacts.curves import Curves, mean_and_band
from batch_calibration.artifacts.grouping import BASELINE, CORRECTED, SettingRecords, task_title
from batch_calibration.artifacts.method_display import GRAY, PAGE, page_dash
from batch_calibration.artifacts.report import plane, plots, studies
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.scores import ScoreTable

ROW_HEIGHT = 26  # pixels of a task's row
AVERAGE = "average"
GAINS_NOTE = (
    "A dot is the mean over seeds, the line its 95 % interval; filled: the interval does not hold "
    "0."
)
# Ends of the slugs of figures whose numbers the figure without that end shows, too.
PART_ENDS = ("-examples", "-all")


def every_plot(
    study: Results, texts: Callable[[ScoreTable], Mapping[str, str]]
) -> dict[str, plots.Plot]:
    """The plots by the slug of the catalogue's figure; none where plotly is not installed.

    Raises:
        ImportError: matplotlib, whose contourpy finds the lines of boundaries, is not installed.
    """
    return plots_of_records(study) | plane.find_plots(study, texts) if plots.library() else {}


def is_covered(slug: str, slugs: Collection[str]) -> bool:
    """Whether the plot of another figure shows all that a figure does."""
    return any(slug.endswith(end) and slug.removesuffix(end) in slugs for end in PART_ENDS)


def plots_of_records(study: Results) -> dict[str, plots.Plot]:
    """The plots of all settings and across them, by slug; those of score tables are in `plane`."""
    by_slug: dict[str, plots.Plot] = {}
    for group in study.sections:
        slug = group.setting.slug
        if gains.compared(group, group.methods):
            by_slug[f"{slug}-differences"] = plot_gains(group)
        if all(record.curve for record in group.all_records):
            by_slug[f"{slug}-strength"] = plot_strength(group)
    for slug, axes in robustness.by_task(study.axes).items():
        by_slug[f"{slug}-robustness"] = studies.plot_robustness(axes)
    for slug, axes in robustness.by_study(study.axes).items():
        by_slug[f"{slug}-prompts"] = studies.plot_prompts(axes)
    for control in study.controls:
        by_slug[control.slug] = studies.plot_control(control)
    for curve in curves.by_probe_size(study.groups):
        by_slug[f"{curve.slug}-curve"] = plot_sizes(curve)
    for curve in (*curves.by_shots(study.groups), *curves.by_rows_seen(study.groups)):
        by_slug[f"{curve.slug}-curve"] = plot_curves(curve)
    return by_slug


def plot_gains(group: SettingRecords) -> plots.Plot:
    """What a method gains over ICL, a dot and an interval a task; a view a method, BC's first."""
    compared = gains.compared(group, group.methods)
    views = []
    for method in sorted(compared, key=lambda method: method != CORRECTED):
        by_task = gains.gain_by_task(group, method)
        by_title = {task_title(task): gain for task, gain in by_task.items()}
        by_title[AVERAGE] = over_tasks(list(by_title.values()))
        layout: plots.Parts = {
            "xaxis": plots.axis("gain over icl (points)", zeroline=True),
            "yaxis": plots.NAMES, "height": 130 + ROW_HEIGHT * len(by_title),
            "showlegend": False,
        }  # fmt: skip
        views.append(plots.View(method, [_gain_dots(method, by_title)], layout))
    return plots.Plot(views, note=GAINS_NOTE)


def _gain_dots(method: str, by_title: Mapping[str, Estimate]) -> plots.Parts:
    middle, low, high = (np.array(list(by_title.values())) * 100).T  # [task] each, points
    shade = PAGE.color(method)
    symbols = ["circle" if gain.beyond_noise else "circle-open" for gain in by_title.values()]
    return {
        "type": "scatter", "mode": "markers", "x": plots.floats(middle),
        "y": list(map(plots.text, by_title)), "name": method,
        "error_x": plots.error_bars(middle, low, high, color=shade),
        "marker": {"color": shade, "size": 9, "line": {"width": 2, "color": shade},
                   "symbol": symbols},
        "customdata": plots.pairs(low, high),
        "hovertemplate": f"%{{y}}, {plots.text(method)}: %{{x:+.1f}} points<br>95 % interval "
                         "%{customdata[0]:+.1f} to %{customdata[1]:+.1f}<extra></extra>",
    }  # fmt: skip


def plot_strength(group: SettingRecords) -> plots.Plot:
    """Accuracy against γ, and a slider that moves each task's dot along its curve."""
    icl, bc = (int(np.argmin(np.abs(STRENGTHS - strength))) for strength in (0.0, 1.0))
    lines: dict[str, np.ndarray] = {}
    for task, records in group.records.items():
        seeds = [record.curve.test for record in records if record.curve]
        lines[task_title(task)] = 100 * np.mean(seeds, axis=0)
    mean = np.mean(list(lines.values()), axis=0)
    lines[AVERAGE] = mean
    names, moved = list(lines), np.array(list(lines.values())).T  # [strength, line]
    traces = [_line(name, STRENGTHS, lines[name], name == AVERAGE) for name in names]
    for at, name, method in ((icl, "γ = 0: icl", BASELINE), (bc, "γ = 1: bc", CORRECTED)):
        traces.append(_row_dots(name, moved[at], names, PAGE.color(method), "circle-open"))
    traces.append(_row_dots("γ of the slider", moved[bc], names, PAGE.labels[0], "diamond"))
    learned = [record.strength for record in group.all_records if record.strength is not None]
    tail = f" BCL learned γ = {np.mean(learned):.2f} on average." if learned else ""
    sentences = []
    for strength, accuracy in zip(STRENGTHS, mean, strict=True):
        sentences.append(
            f"γ = {strength:.1f}: {accuracy:.1f} % on average over {len(lines) - 1} tasks; "
            f"γ = 0 (icl) {mean[icl]:.1f} %, γ = 1 (bc) {mean[bc]:.1f} %.{tail}"
        )
    layout = _two_panels(len(lines), plots.axis("strength γ (no unit)"), 1.0)
    slider = plots.Slider("γ", STRENGTHS.tolist(), bc, moved.tolist(), sentences)
    return plots.Plot([plots.View("", traces, layout)], slider)


def plot_sizes(curve: Curves) -> plots.Plot:
    """Accuracy against the rows a bias is learned from, and a slider over their number."""
    sizes, names, shades = _shared_numbers(curve), [], []
    by_method: dict[str, list[np.ndarray]] = {}
    rows = []
    for task, method, points in curve.lines():
        rows.append(np.array([points[size].mean() for size in sizes]))
        names.append(f"{task_title(task)}: {method}")
        shades.append(PAGE.color(method))
        by_method.setdefault(method, []).append(rows[-1])
    means = {method: np.mean(tasks, axis=0) for method, tasks in by_method.items()}
    traces = [_line(method, sizes, mean, True, method) for method, mean in means.items()]
    moved, start = np.array(rows).T, len(sizes) - 1  # [size, line]
    traces.append(_row_dots("all rows", moved[start], names, GRAY, "circle-open"))
    traces.append(_row_dots("rows of the slider", moved[start], names, shades, "diamond"))
    sentences = []
    for i, size in enumerate(sizes):
        shares = ", ".join(f"{method} {mean[i]:.1f} %" for method, mean in means.items())
        sentences.append(f"{size:,} rows: {shares}, on average over {len(curve.tasks)} tasks.")
    layout = _two_panels(len(names), plots.axis(curve.axis, type="log"), sizes[-1])
    slider = plots.Slider(curve.axis, list(map(float, sizes)), start, moved.tolist(), sentences)
    return plots.Plot([plots.View("", traces, layout)], slider, curve.note)


def _line(
    name: str, at: Sequence[float] | np.ndarray, heights: np.ndarray, is_wide: bool,
    method: str = CORRECTED,
) -> plots.Parts:  # fmt: skip
    shade = PAGE.color(method if is_wide else BASELINE)
    return {
        "type": "scatter", "mode": "lines", "x": plots.floats(at), "y": plots.floats(heights),
        "name": plots.text(name), "showlegend": is_wide,
        "line": {"color": shade, "width": 3 if is_wide else 1},
        "hovertemplate": "%{x}: %{y:.1f} %<extra>" + plots.text(name) + "</extra>",
    }  # fmt: skip


def _row_dots(
    name: str, at: np.ndarray, rows: list[str], shade: str | list[str], symbol: str
) -> plots.Parts:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": plots.floats(at),
        "y": list(map(plots.text, rows)), "xaxis": "x2", "yaxis": "y2",
        "marker": {"color": shade, "size": 9, "symbol": symbol},
        "hovertemplate": "%{y}: %{x:.1f} %<extra>" + plots.text(name) + "</extra>",
    }  # fmt: skip


def _two_panels(rows: int, below: plots.Parts, line: float) -> plots.Parts:
    """Curves above, a row of dots for each of them below, and the slider's line in the curves."""
    height = 345 + ROW_HEIGHT * rows
    share = 250 / height  # the curves take 250 pixels
    return {
        "height": height,
        "xaxis": {**below, "domain": [0, 1], "anchor": "y"},
        "yaxis": {**plots.axis("accuracy (%)"), "domain": [1 - share, 1]},
        "xaxis2": {**plots.axis("accuracy (%)"), "domain": [0, 1], "anchor": "y2"},
        "yaxis2": {**plots.NAMES, "domain": [0, 1 - share - 85 / height], "anchor": "x2"},
        "shapes": [{"type": "line", "xref": "x", "yref": "y domain", "x0": line, "x1": line,
                    "y0": 0, "y1": 1, "line": {"width": 2, "dash": "dash"}}],
    }  # fmt: skip


def plot_curves(curve: Curves) -> plots.Plot:
    """Accuracy against a number: all tasks together, then each, its band one deviation."""
    views, shared = [], _shared_numbers(curve)
    if len(curve.tasks) > 1 and len(shared) > 1:
        views.append(plots.View("average over the tasks", _averages(curve, shared), _layout(curve)))
    for task, by_method in curve.tasks.items():
        traces: list[plots.Parts] = []
        for method, points in by_method.items():
            traces += _banded(method, *mean_and_band(points, of_mean=curve.of_mean))
        ends = sorted(next(iter(by_method.values())))
        for method, level in curve.levels.get(task, {}).items():
            traces.append({
                "type": "scatter", "mode": "lines", "name": f"{method}, all rows",
                "x": [ends[0], ends[-1]], "y": [level, level],
                "line": {"color": PAGE.color(method), "dash": "dot", "width": 1.5},
            })  # fmt: skip
        views.append(plots.View(task_title(task), traces, _layout(curve)))
    return plots.Plot(views, note=curve.note)


def _averages(curve: Curves, numbers: Sequence[int]) -> list[plots.Parts]:
    traces: list[plots.Parts] = []
    for method in curve.methods:
        tasks = [by_method[method] for by_method in curve.tasks.values() if method in by_method]
        # An average over some of the tasks would not compare.
        if len(tasks) == len(curve.tasks):
            means = [[points[number].mean() for number in numbers] for points in tasks]
            traces += _banded(method, numbers, np.mean(means, axis=0), None)
    return traces


def _banded(
    method: str, at: Sequence[int], mean: np.ndarray, band: np.ndarray | None
) -> list[plots.Parts]:
    shade = PAGE.color(method)
    line: plots.Parts = {
        "type": "scatter", "mode": "lines+markers", "name": method, "x": list(at),
        "y": plots.floats(mean), "line": {"color": shade, "dash": page_dash(method)},
        "legendgroup": method,
        "hovertemplate": f"%{{x}}: %{{y:.1f}} %<extra>{plots.text(method)}</extra>",
    }  # fmt: skip
    if band is None or not band.any():
        return [line]
    # Along the upper edge and back along the lower one.
    outline: plots.Parts = {
        "type": "scatter", "mode": "lines", "x": [*at, *reversed(at)], "fill": "toself",
        "y": plots.floats([*(mean + band), *(mean - band)[::-1]]), "legendgroup": method,
        "line": {"width": 0}, "fillcolor": f"{shade}33", "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    return [outline, line]


def _layout(curve: Curves) -> plots.Parts:
    farthest = max(max(points) for _, _, points in curve.lines())
    below = plots.axis(curve.axis, type="log") if farthest > 20 else plots.axis(curve.axis, dtick=1)
    return {"xaxis": below, "yaxis": plots.axis("accuracy (%)"), "height": 420}


def _shared_numbers(curve: Curves) -> list[int]:
    """The numbers that every task and method has."""
    return sorted(set.intersection(*(set(points) for _, _, points in curve.lines())))
