"""Interactive figures of the page, by the slugs of the catalogue's figures they stand for."""

from collections.abc import Mapping, Sequence

import numpy as np

from batch_calibration.artifacts import controls, curves, gains, robustness
from batch_calibration.artifacts.catalogue import Results
from batch_calibration.artifacts.grouping import BASELINE, SettingRecords, title
from batch_calibration.artifacts.report import demonstrations, prompts
from batch_calibration.artifacts.report.plots import (
    NAMES,
    Parts,
    Plot,
    Slider,
    View,
    axis,
    color,
    dash,
    floats,
    text,
)  # fmt: skip
from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import Estimate, deviation, over_tasks

ROW = 26
"""Pixels of a task's row."""
WHOLE = "average"


def every(results: Results) -> dict[str, Plot]:
    """The plots of all settings and across them, by slug; those of score tables are in `plane`."""
    found: dict[str, Plot] = {}
    for group in results.apart:
        slug = group.setting.slug
        if gains.compared(group, group.methods):
            found[f"{slug}-differences"] = of_gains(group)
        if all(record.curve for record in group.every):
            found[f"{slug}-strength"] = of_strength(group)
    for slug, axes in robustness.by_task(robustness.axes(results.records)).items():
        found[f"{slug}-robustness"] = prompts.of_robustness(axes)
    for slug, axes in robustness.by_study(robustness.axes(results.records)).items():
        found[f"{slug}-prompts"] = prompts.of_prompts(axes)
    for control in controls.controls(results.records):
        found[control.slug] = demonstrations.of_control(control)
    for one in curves.by_probe_size(results.groups):
        found[f"{one.slug}-curve"] = of_sizes(one)
    for find in (curves.by_shots, curves.by_rows_seen):
        found |= {f"{one.slug}-curve": of_curves(one) for one in find(results.groups)}
    return found


def of_gains(group: SettingRecords) -> Plot:
    """What a method gains over ICL, a dot and an interval a task; a view a method, BC's first."""
    known = gains.compared(group, group.methods)
    first = [name for name in ("bc", *known) if name in known][:1]
    views = []
    for method in dict.fromkeys([*first, *known]):
        each = {title(task): gains.gain(group, task, method) for task in group.records}
        each[WHOLE] = over_tasks(list(each.values()))
        layout: Parts = {
            "xaxis": axis("gain over icl (points)", zeroline=True),
            "yaxis": NAMES, "height": 130 + ROW * len(each), "showlegend": False,
        }  # fmt: skip
        views.append(View(method, [_dots(method, each)], layout))
    return Plot(views, note="A dot is the mean over seeds, the line its 95 % interval; filled: "
                "the interval does not hold 0.")  # fmt: skip


def _dots(method: str, each: Mapping[str, Estimate]) -> Parts:
    ends = np.array(list(each.values())) * 100
    value, low, high = ends.T
    sure = [one.beyond_noise != 0 for one in each.values()]
    return {
        "type": "scatter", "mode": "markers", "x": floats(value),
        "y": [text(name) for name in each], "name": method,
        "error_x": {"type": "data", "symmetric": False, "array": floats(high - value),
                    "arrayminus": floats(value - low), "color": color(method)},
        "marker": {"color": color(method), "size": 9, "line": {"width": 2, "color": color(method)},
                   "symbol": ["circle" if one else "circle-open" for one in sure]},
        "customdata": [[float(a), float(b)] for a, b in zip(low, high, strict=True)],
        "hovertemplate": f"%{{y}}, {text(method)}: %{{x:+.1f}} points<br>95 % interval "
                         "%{customdata[0]:+.1f} to %{customdata[1]:+.1f}<extra></extra>",
    }  # fmt: skip


def of_strength(group: SettingRecords) -> Plot:
    """Accuracy against γ, and a slider that moves each task's dot along its curve."""
    icl, bc = (int(np.argmin(np.abs(STRENGTHS - value))) for value in (0.0, 1.0))
    lines = {
        title(task): 100 * np.mean([one.curve.test for one in records if one.curve], axis=0)
        for task, records in group.records.items()
    }
    lines[WHOLE] = np.mean(list(lines.values()), axis=0)
    traces = [_line(name, STRENGTHS, values, name == WHOLE) for name, values in lines.items()]
    for place, name, method in ((icl, "γ = 0: icl", BASELINE), (bc, "γ = 1: bc", "bc")):
        values = [line[place] for line in lines.values()]
        traces.append(_row_dots(name, values, list(lines), color(method), "circle-open"))
    moved = np.array(list(lines.values())).T
    traces.append(_row_dots("γ of the slider", moved[bc], list(lines), "#d55e00", "diamond"))
    learned = [one.strength for one in group.every if one.strength is not None]
    tail = f" BCL learned γ = {np.mean(learned):.2f} on average." if learned else ""
    whole, over = lines[WHOLE], f"on average over {len(lines) - 1} tasks"
    said = [
        f"γ = {x:.1f}: {y:.1f} % {over}; γ = 0 (icl) {whole[icl]:.1f} %, γ = 1 (bc) "
        f"{whole[bc]:.1f} %.{tail}"
        for x, y in zip(STRENGTHS, whole, strict=True)
    ]  # fmt: skip
    layout = _two_panels(len(lines), axis("strength γ (no unit)"), 1.0)
    return Plot(
        [View("", traces, layout)], Slider("γ", STRENGTHS.tolist(), bc, moved.tolist(), said)
    )


def of_sizes(found: curves.Curves) -> Plot:
    """Accuracy against the rows a bias is learned from, and a slider over their number."""
    sizes = _numbers(found)
    rows, names, shades = [], [], []
    lines: dict[str, list[np.ndarray]] = {}
    for task, of_task in found.tasks.items():
        for method, points in of_task.items():
            if set(points) >= set(sizes):
                rows.append(np.array([points[size].mean() for size in sizes]))
                names.append(f"{title(task)}: {method}")
                shades.append(color(method))
                lines.setdefault(method, []).append(rows[-1])
    means = {method: np.mean(of, axis=0) for method, of in lines.items()}
    traces = [_line(method, sizes, mean, True, method) for method, mean in means.items()]
    moved, start = np.array(rows).T, len(sizes) - 1
    all_rows = _row_dots("all rows", moved[start], names, "#7f7f7f", "circle-open")
    traces += [all_rows, _row_dots("rows of the slider", moved[start], names, shades, "diamond")]
    said = [
        f"{size:,} rows: " + ", ".join(f"{m} {mean[i]:.1f} %" for m, mean in means.items())
        + f", on average over {len(found.tasks)} tasks."
        for i, size in enumerate(sizes)
    ]  # fmt: skip
    layout = _two_panels(len(names), axis(found.axis, type="log"), sizes[-1])
    slider = Slider(found.axis, [float(size) for size in sizes], start, moved.tolist(), said)
    return Plot([View("", traces, layout)], slider, found.note)


def _line(
    name: str, at: Sequence[float] | np.ndarray, values: np.ndarray, wide: bool, method: str = ""
) -> Parts:
    shade = color(method or "bc") if wide else color(BASELINE)
    return {
        "type": "scatter", "mode": "lines", "x": floats(at), "y": floats(values),
        "name": text(name), "showlegend": wide,
        "line": {"color": shade, "width": 3 if wide else 1},
        "hovertemplate": "%{x}: %{y:.1f} %<extra>" + text(name) + "</extra>",
    }  # fmt: skip


def _row_dots(
    name: str, values: Sequence[float] | np.ndarray, rows: list[str],
    shade: str | list[str], symbol: str,
) -> Parts:  # fmt: skip
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": floats(values),
        "y": [text(row) for row in rows], "xaxis": "x2", "yaxis": "y2",
        "marker": {"color": list(shade) if isinstance(shade, list) else shade, "size": 9,
                   "symbol": symbol},
        "hovertemplate": "%{y}: %{x:.1f} %<extra>" + text(name) + "</extra>",
    }  # fmt: skip


def _two_panels(rows: int, below: Parts, line: float) -> Parts:
    """Curves above, a row of dots for each of them below, and the slider's line in the curves."""
    height = 345 + ROW * rows
    share = 250 / height
    return {
        "height": height,
        "xaxis": {**below, "domain": [0, 1], "anchor": "y"},
        "yaxis": {**axis("accuracy (%)"), "domain": [1 - share, 1]},
        "xaxis2": {**axis("accuracy (%)"), "domain": [0, 1], "anchor": "y2"},
        "yaxis2": {**NAMES, "domain": [0, 1 - share - 85 / height], "anchor": "x2"},
        "shapes": [{"type": "line", "xref": "x", "yref": "y domain", "x0": line, "x1": line,
                    "y0": 0, "y1": 1, "line": {"width": 2, "dash": "dash"}}],
    }  # fmt: skip


def of_curves(found: curves.Curves) -> Plot:
    """Accuracy against a number: all tasks together, then each, its band one deviation."""
    views = []
    tasks = found.tasks
    shared = _numbers(found)
    if len(tasks) > 1 and len(shared) > 1:
        views.append(View("average over the tasks", _averages(found, shared), _over(found)))
    for task, of_task in tasks.items():
        traces: list[Parts] = []
        for method, points in of_task.items():
            at = sorted(points)
            mean = np.array([points[number].mean() for number in at])
            spread = np.array([deviation(points[number]) for number in at])
            if found.of_mean:
                spread /= np.sqrt([len(points[number]) for number in at])
            traces += _banded(method, at, mean, spread)
        for method, level in found.levels.get(task, {}).items():
            ends = sorted(next(iter(of_task.values())))
            traces.append({
                "type": "scatter", "mode": "lines", "name": f"{method}, all rows",
                "x": [ends[0], ends[-1]], "y": [level, level],
                "line": {"color": color(method), "dash": "dot", "width": 1.5},
            })  # fmt: skip
        views.append(View(title(task), traces, _over(found)))
    return Plot(views, note=found.note)


def _averages(found: curves.Curves, numbers: Sequence[int]) -> list[Parts]:
    methods = dict.fromkeys(name for of_task in found.tasks.values() for name in of_task)
    traces: list[Parts] = []
    for method in methods:
        of = [points[method] for points in found.tasks.values() if method in points]
        if len(of) == len(found.tasks) and all(set(numbers) <= set(points) for points in of):
            mean = np.mean([[points[n].mean() for n in numbers] for points in of], axis=0)
            traces += _banded(method, numbers, mean, None)
    return traces


def _banded(
    method: str, at: Sequence[int], mean: np.ndarray, spread: np.ndarray | None
) -> list[Parts]:
    shade = color(method)
    line: Parts = {
        "type": "scatter", "mode": "lines+markers", "name": method, "x": list(at),
        "y": floats(mean), "line": {"color": shade, "dash": dash(method)}, "legendgroup": method,
        "hovertemplate": f"%{{x}}: %{{y:.1f}} %<extra>{text(method)}</extra>",
    }  # fmt: skip
    if spread is None or not spread.any():
        return [line]
    band: Parts = {
        "type": "scatter", "mode": "lines", "x": [*at, *reversed(at)], "fill": "toself",
        "y": [*floats(mean + spread), *floats((mean - spread)[::-1])], "legendgroup": method,
        "line": {"width": 0}, "fillcolor": f"{shade}33", "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    return [band, line]


def _over(found: curves.Curves) -> Parts:
    far = max(_every_number(found)) > 20
    below = axis(found.axis, type="log") if far else axis(found.axis, dtick=1)
    return {"xaxis": below, "yaxis": axis("accuracy (%)"), "height": 420}


def _every_number(found: curves.Curves) -> set[int]:
    return {n for of in found.tasks.values() for points in of.values() for n in points}


def _numbers(found: curves.Curves) -> list[int]:
    """The numbers that every task and method has."""
    each = [set(points) for of_task in found.tasks.values() for points in of_task.values()]
    return sorted(set.intersection(*each))
