"""Studies: the robustness of prompts (Fig. 8), pairs of choices, curves."""

from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from batch_calibration.calibration.learned_shift import STRENGTHS
from batch_calibration.metrics import deviation
from batch_calibration.reporting import palette
from batch_calibration.reporting.cells import gain_cell
from batch_calibration.reporting.curves import Curves, Points, mean_and_band
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import ACCURACY, DASHES, INK, Drawn
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, Frame, task_title
from batch_calibration.reporting.palette import verdict_color
from batch_calibration.reporting.prompts import Grid, PromptStudy, describe_study

BLUES = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
CELL_INK = "#010101"  # of a number in a light cell, which stays light on a dark page
MAX_PROMPTS_NAMED = 12  # of more prompts none is named at the side
PROMPTS_NOTE = (
    "A line is a prompt, from its accuracy with icl (open) to that with bc (filled), means over "
    "its seeds, the worst of icl below; blue: a gain beyond noise, orange: a loss, gray: within "
    "the noise of its seeds and rows. Dots in a vertical line: the choice does not matter. * 0 is "
    "outside the 95 % interval; ±: standard deviation over the prompts. Dashed: chance."
)
BOXES_NOTE = (
    "Boxes: quartiles and median; whiskers reach 1.5 boxes at most; a dot is a prompt, the mean "
    "over its seeds."
)
BOX: Any = {"widths": 0.3, "showfliers": False, "showcaps": False, "patch_artist": True}
AVERAGE = "average over the tasks"
LEAST_POINTS = 3  # a line between two numbers shows no curve
FAR = 20  # numbers beyond it are on a logarithmic axis
Row = tuple[object, ...]  # of the CSV: task, line, place, value, and ends of the band


@style.styled
def draw_boxes(studies: Sequence[PromptStudy]) -> Drawn:
    """ICL and BC on each axis of one task: a box, and a dot for every prompt."""
    figure, (axes,) = style.panels(1, (1.0 + 1.6 * len(studies), 2.6))
    task, setting = task_title(studies[0].task), studies[0].setting
    names = [f"{study.count}, {study.setting.shots}-shot" for study in studies]
    rows: list[Sequence[object]] = []
    for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
        color = palette.color(method)
        for place, study in enumerate(studies):
            values, facts = study.values(method), _facts(study)
            line, box = {"color": color}, {"edgecolor": color, "facecolor": f"{color}26"}
            at = [place + side]
            axes.boxplot(
                values, positions=at, medianprops=line, whiskerprops=line, boxprops=box, **BOX
            )
            # Fixed offsets, so that equal values stay apart and a figure stays the same.
            places = place + side + 0.1 * np.sin(2.4 * np.arange(len(values)))
            titles = style.percents(facts["choice"], values, method)
            style.dots(axes, places, values, color, titles, size=3, alpha=0.6,
                       name="" if place else method)  # fmt: skip
            for value, *more in zip(values, *facts.values(), strict=True):
                rows.append([task, method, names[place], float(value), *more])
    style.label(axes, task, y=ACCURACY)
    style.name_ticks(axes.xaxis, names)
    limit = f"{setting.limit} rows" if setting.limit else "all rows"
    heading = f"One choice of the prompt at a time: {task}, {setting.model}, {limit}"
    header = ["task", "method", "what varies", "accuracy", "choice", "shots", "seeds"]
    return style.finish(figure, heading, BOXES_NOTE, [header, *rows])


def _facts(study: PromptStudy) -> dict[str, list[object]]:
    """Columns of a figure's CSV for each prompt, besides its accuracy."""
    seeds: list[object] = []
    for prompt in study.prompts.values():
        of_prompt = [str(record.context.seed) for record in prompt.records]
        seeds.append(" ".join(of_prompt))
    return {"choice": [*study.prompts], "shots": [study.setting.shots] * len(seeds), "seeds": seeds}


@style.styled
def draw_prompts(studies: Sequence[PromptStudy]) -> Drawn:
    """A panel a task: a line a prompt, from its accuracy with ICL to that with BC.

    Prompts are sorted by ICL's accuracy, the worst below, on one scale.
    """
    # From chance on, one range for all panels: a small scale makes noise look large.
    ends = [_chance(study) for study in studies]
    highest = []
    for study, method in product(studies, REFERENCES):
        values = study.values(method)
        ends.append(values.min())
        highest.append(values.max())
    limits = float(min(ends) - 2), float(max(highest) + 2)
    named = [study for study in studies if len(study.prompts) <= MAX_PROMPTS_NAMED]
    names = chain.from_iterable(study.prompts for study in named)
    most = max(8, *(len(study.prompts) for study in studies))
    figure, grid = style.panels(len(studies), (3.2, 1.1 + 0.13 * most), names=names, shares_y=False)
    rows: list[Sequence[object]] = []
    for axes, study in zip(grid, studies, strict=True):
        rows += _draw_prompts(axes, study)
        axes.set_xlim(*limits)
    header = ["task", "method", "prompt", "accuracy", "shots", "seeds", "gain", "low", "high"]
    heading = f"{describe_study(studies)}: {studies[0].setting}"
    return style.finish(figure, heading, PROMPTS_NOTE, [header, *rows])


def _chance(study: PromptStudy) -> float:
    """Accuracy in % of one who guesses."""
    return 100 / len(study.frame.records[0].label_names)


def _draw_prompts(axes: Axes, study: PromptStudy) -> list[Sequence[object]]:
    """The prompts of a task; hands back their rows of the CSV."""
    before, after = study.values(BASELINE), study.values(CORRECTED)  # [prompt] each, %
    order = np.lexsort((after, before))  # by icl, ties by bc
    facts = {}
    for name, column in _facts(study).items():
        facts[name] = [column[i] for i in order]
    names, heights = list(map(str, facts.pop("choice"))), np.arange(len(order))
    gains = [study.gains[i] for i in order]
    colors = [verdict_color(gain.beyond_noise) for gain in gains]
    axes.axvline(_chance(study), color=INK, ls="--", lw=0.8, label="chance", zorder=0)
    axes.hlines(heights, before[order], after[order], colors=colors, lw=2.0)
    rows: list[Sequence[object]] = []
    # Both in ink: the colors of the lines say what is a gain and what a loss.
    for method, values in ((BASELINE, before[order]), (CORRECTED, after[order])):
        titles = style.percents(names, values, method)
        style.dots(axes, values, heights, INK, titles, size=4.0, is_hollow=method == BASELINE,
                   name=method)  # fmt: skip
        for name, value, gain, *more in zip(names, values, gains, *facts.values(), strict=True):
            shown = ["", "", ""] if method == BASELINE else [100 * end for end in gain]
            rows.append([task_title(study.task), method, name, float(value), *more, *shown])
    change = f"; change of ± {gain_cell(study.change)}" if study.change else ""
    title = (
        f"{task_title(study.task)}, {study.count}\n"
        f"worst to best: {BASELINE} {study.reach(BASELINE)}, {CORRECTED} {study.reach(CORRECTED)} "
        f"points\ngain {gain_cell(study.gain)}{change}"
    )
    style.label(axes, title, ACCURACY, study.name, width=3.2)
    is_named = len(names) <= MAX_PROMPTS_NAMED
    style.name_ticks(axes.yaxis, names, is_shown=is_named, from_top=False)
    return rows


@style.styled
def draw_grid(grid: Grid) -> Drawn:
    """Mean accuracy in %, a panel a method, darker where it is higher; all have one scale."""
    across, down = grid.values(1), grid.values(0)
    means = np.full((len(REFERENCES), len(down), len(across)), np.nan)  # NaN: nothing was scored
    rows: list[Sequence[object]] = []
    for i, j, k in np.ndindex(means.shape):
        if (down[j], across[k]) in grid.frames:
            means[i, j, k] = grid.accuracies(down[j], across[k], REFERENCES[i]).mean()
            rows.append([REFERENCES[i], down[j], float(means[i, j, k]), across[k]])
    ends = float(np.nanmin(means)), float(np.nanmax(means))
    maps = dict(zip(REFERENCES, means, strict=True))
    titles = grid.across, grid.down, ACCURACY
    header = ["method", grid.down, "accuracy", grid.across]
    size = 0.4 + 0.5 * len(across), 0.5 + 0.32 * len(down)
    figure = draw_maps(maps, across, down, titles, size, ends, BLUES, digits=1)
    return style.finish(figure, grid.heading, "", [header, *rows])


@style.styled
def draw_maps(
    maps: Mapping[str, np.ndarray], across: Sequence[str], down: Sequence[str],
    titles: tuple[str, str, str], size: tuple[float, float], ends: tuple[float, float],
    colors: Sequence[str], *, digits: int, columns: int = 4, from_top: bool = True, dpi: int = 150,
) -> Figure:  # fmt: skip
    """A panel a map: a cell for each pair of names with its number; NaN is empty.

    Args:
        maps: title -> values [down across].
        across: names of the columns.
        down: names of the lines.
        titles: of the axes, horizontal and vertical, and of the colors.
        size: inches of a panel.
        ends: values of the first and the last color.
        colors: from one end to the other.
        digits: of a number behind the point.
        columns: panels side by side.
        from_top: whether the first line is on top.
        dpi: dots an inch.
    """
    figure, grid = style.panels(len(maps), size, columns, names=down, dpi=dpi)
    scale = LinearSegmentedColormap.from_list("scale", list(colors))
    for axes, (title, values) in zip(grid, maps.items(), strict=True):
        image = axes.imshow(values, cmap=scale, vmin=ends[0], vmax=ends[1], aspect="auto")
        _write_numbers(axes, values, ends, scale, digits)
        style.label(axes, title, *titles[:2], width=size[0])
        style.name_ticks(axes.xaxis, across)
        style.name_ticks(axes.yaxis, down, from_top=from_top)
    figure.colorbar(image, ax=grid, label=titles[2], shrink=0.8)
    return figure


def _write_numbers(
    axes: Axes, values: np.ndarray, ends: tuple[float, float], scale: Colormap, digits: int
) -> None:
    """Write each number into its cell."""
    for (y, x), number in np.ndenumerate(values):
        if np.isnan(number):
            continue
        red, green, blue, _ = scale((number - ends[0]) / ((ends[1] - ends[0]) or 1.0))
        # Black on light cells, white on dark ones.
        is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.5
        # Adding 0 makes 0 of -0.
        text = f"{round(float(number), digits) + 0.0:.{digits}f}"
        color, size = CELL_INK if is_light else "#fefefe", 7 if digits else 5.5
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=color)


@style.styled
def draw_curves(curves: Curves) -> Drawn:
    """A panel a task, a line a method, its band one standard deviation (by n - 1, as in tables).

    Of a mean over many random orders the band is its standard error; a dashed line is a level.
    """
    curves, left_out = _without_short_lines(curves)
    lines = chain.from_iterable(by_method.values() for by_method in curves.tasks.values())
    numbers = sorted(set.intersection(*map(set, lines)))
    has_average = len(curves.tasks) > 1 and len(numbers) > 1
    figure, grid = style.panels(len(curves.tasks) + has_average, (3.0, 2.4))
    rows: list[Row] = []
    for axes, task in zip(grid, curves.tasks, strict=False):
        rows += _draw_task(axes, curves, task)
    if has_average:
        rows += _draw_average(grid[-1], curves, numbers)
    kind = "standard error of the mean" if curves.of_mean else "standard deviation of the draws"
    header = ["task", "method", curves.axis, "accuracy", "low", "high"]
    note = f"Band: {kind}.{left_out}"
    return style.finish(figure, curves.heading, note, [header, *rows])


def _without_short_lines(curves: Curves) -> tuple[Curves, str]:
    """The tasks that were run with three numbers or more, if there are any, and who is left out."""
    drawn, short = {}, []
    for task, by_method in curves.tasks.items():
        if len(_numbers(by_method)) < LEAST_POINTS:
            short.append(task_title(task))
        else:
            drawn[task] = by_method
    if not short or not drawn:
        return curves, ""
    numbers = f"as they were run with two numbers of {curves.axis} alone"
    return curves._replace(tasks=drawn), f" Not drawn, {numbers}: {', '.join(short)}."


def _numbers(by_method: Mapping[str, Points]) -> list[int]:
    return sorted(set().union(*by_method.values()))


def _draw_task(axes: Axes, curves: Curves, task: str) -> list[Row]:
    """The lines of a task and their bands; hands back their rows of the CSV."""
    rows: list[Row] = []
    title, numbers = task_title(task), _numbers(curves.tasks[task])
    for method, points in curves.tasks[task].items():
        at, mean, band = mean_and_band(points, of_mean=curves.of_mean)
        # What is compared stands out: five bands of one strength cannot be told apart.
        width, alpha = (2.2, 0.25) if method in REFERENCES else (1.0, 0.06)
        _draw_line(axes, curves, method, at, mean, width)
        low, high, color = mean - band, mean + band, palette.color(method)
        axes.fill_between(at, low, high, color=color, alpha=alpha, lw=0)
        for number, *values in zip(at, mean, low, high, strict=True):
            rows.append((title, method, float(number), *values))
    for method, level in curves.levels.get(task, {}).items():
        name, ends = f"{method}, all rows", (numbers[0], numbers[-1])
        # Its own dash tells it from the method's curve of the same color.
        (line,) = axes.plot(ends, (level, level), color=palette.color(method), lw=1.0, label=name,
                            ls=DASHES["dash"])  # fmt: skip
        style.name_marks(line, [f"{name}: {level:.1f} %"])
        rows += [(title, name, float(end), float(level), "", "") for end in ends]
    style.label(axes, title, curves.axis, ACCURACY)
    style.number_ticks(axes.xaxis, numbers, is_log=numbers[-1] > FAR)
    return rows


def _draw_line(
    axes: Axes, curves: Curves, method: str, at: Sequence[int], mean: np.ndarray, width: float
) -> None:
    color, dash = palette.color(method), DASHES[palette.dash(method)]
    (line,) = axes.plot(at, mean, marker="o", ms=3, color=color, lw=width, ls=dash, label=method)
    style.name_marks(line, style.percents(map(f"{method}, {{:,}}".format, at), mean, curves.axis))


def _draw_average(axes: Axes, curves: Curves, numbers: Sequence[int]) -> list[Row]:
    """The mean over the tasks at the numbers that all lines have."""
    rows: list[Row] = []
    for method in curves.methods:
        tasks = [by_method[method] for by_method in curves.tasks.values() if method in by_method]
        # An average over some of the tasks would not compare.
        if len(tasks) < len(curves.tasks):
            continue
        means = []
        for points in tasks:
            of_task = [points[number].mean() for number in numbers]
            means.append(of_task)
        mean = np.mean(means, axis=0)
        _draw_line(axes, curves, method, numbers, mean, 2.2)
        for number, value in zip(numbers, mean, strict=True):
            rows.append((AVERAGE, method, float(number), value, "", ""))
    style.label(axes, AVERAGE, curves.axis, ACCURACY)
    style.number_ticks(axes.xaxis, numbers, is_log=numbers[-1] > FAR)
    return rows


@style.styled
def draw_strength(group: Frame) -> Drawn:
    """Accuracy against γ, a panel a task: mean and deviation over seeds, test and labeled rows."""
    # Of two tasks, which are the paper's examples, both are seen: no average.
    has_average = len(group.tasks) > 2
    figure, grid = style.panels(len(group.tasks) + has_average, (3.2, 2.3))
    rows: list[Row] = []
    means = []
    for axes, (task, frame) in zip(grid, group.tasks.items(), strict=False):
        searched = [record.searched for record in frame.records if record.searched]  # all have one
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
    # Every task has as many seeds.
    count = group.max_seeds
    seeds = "One seed" if count == 1 else f"Mean and band of one sd over {count} seeds"
    header = ["task", "rows", "strength", "accuracy", "low", "high"]
    heading = f"Strength of BC: {group.setting}"
    return style.finish(figure, heading, f"{seeds}.", [header, *rows])


def _draw_strengths(
    axes: Axes, task: str, name: str, curves: np.ndarray, color: str, dash: str
) -> list[Row]:
    """The mean of curves [seed strength], and one standard deviation on either side."""
    mean, band = curves.mean(0), deviation(curves)  # [strength] both
    (line,) = axes.plot(STRENGTHS, mean, color=color, ls=DASHES[dash], lw=1.5, label=name)
    icl, bc = (float(mean[np.isclose(STRENGTHS, at)][0]) for at in (0, 1))
    style.name_marks(line, [f"{name}: {icl:.1f} % at γ = 0, {bc:.1f} % at γ = 1"])
    axes.fill_between(STRENGTHS, mean - band, mean + band, color=color, alpha=0.2, lw=0)
    rows: list[Row] = []
    for at, *values in zip(STRENGTHS, mean, mean - band, mean + band, strict=True):
        rows.append((task, name, float(at), *values))
    return rows
