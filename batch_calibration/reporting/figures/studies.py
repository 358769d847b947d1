"""The robustness study (Fig. 8), each of its prompts, pairs of choices, demonstration labels."""

from collections.abc import Mapping, Sequence
from itertools import chain, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from batch_calibration.reporting.cells import gain_cell
from batch_calibration.reporting.controls import NONE, Control, Point, estimate_cells
from batch_calibration.reporting.figures import style
from batch_calibration.reporting.figures.style import ACCURACY, INK, INTERVALS, Drawn
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.reporting.method_display import CONDITIONS, PALETTE, verdict_color
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


@style.styled
def draw_boxes(studies: Sequence[PromptStudy]) -> Drawn:
    """ICL and BC on each axis of one task: a box, and a dot for every prompt."""
    figure, (axes,) = style.panels(1, (1.0 + 1.6 * len(studies), 2.6))
    task, setting = task_title(studies[0].task), studies[0].setting
    names = [f"{study.count}, {study.setting.shots}-shot" for study in studies]
    rows: list[Sequence[object]] = []
    for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
        color = PALETTE.color(method)
        for place, study in enumerate(studies):
            values, facts = study.values(method), _facts(study)
            axes.boxplot(
                values, positions=[place + side], widths=0.3, showfliers=False, showcaps=False,
                patch_artist=True, medianprops={"color": color}, whiskerprops={"color": color},
                boxprops={"edgecolor": color, "facecolor": f"{color}26"},
            )  # fmt: skip
            # Fixed offsets, so that equal values stay apart and a figure stays the same.
            places = place + side + 0.1 * np.sin(2.4 * np.arange(len(values)))
            titles = style.percents(facts["choice"], values, method)
            style.dots(axes, places, values, color, titles, size=3, alpha=0.6,
                       name="" if place else method)  # fmt: skip
            for value, *more in zip(values, *facts.values(), strict=True):
                rows.append([task, method, names[place], float(value), *more])
    style.label(axes, task, y=ACCURACY)
    style.name_ticks(axes.xaxis, names)
    limit = f"first {setting.limit} rows" if setting.limit else "all rows"
    heading = f"One choice of the prompt at a time: {task}, {setting.model}, {limit}"
    header = ["task", "method", "what varies", "accuracy", "choice", "shots", "seeds"]
    return style.finish(figure, heading, BOXES_NOTE, style.table_of(header, rows))


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
    return style.finish(figure, heading, PROMPTS_NOTE, style.table_of(header, rows))


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
def draw_control(control: Control) -> Drawn:
    """A panel a task and method, a line a condition, its intervals at 95 %.

    Dashed is accuracy without demonstrations, dotted chance.
    """
    columns = min(len(control.tasks), 4)
    # Lines of panels: the first tasks with each method, then the next tasks.
    shown = []
    for start, method in product(range(0, len(control.tasks), columns), REFERENCES):
        shown += [(task, method) for task in control.tasks[start : start + columns]]
    figure, grid = style.panels(len(shown), (3.0, 2.4), columns)
    for axes, (task, method) in zip(grid, shown, strict=True):
        _draw_conditions(axes, control, task, method)
    note = f"{INTERVALS} Over draws and rows. Dashed: no demonstrations; dotted: chance."
    return style.finish(figure, control.heading, note, estimate_cells(control))


def _draw_conditions(axes: Axes, control: Control, task: str, method: str) -> None:
    shots = control.shots(task)
    # Side by side, for bars of the same place hide each other.
    shifts = np.linspace(-0.2, 0.2, len(control.conditions))
    # A condition without a color of its own has one that no other of them has.
    spare = iter(PALETTE.spares[1:])
    for condition, shift in zip(control.conditions, shifts, strict=True):
        color = CONDITIONS.get(condition) or next(spare)
        estimates = {}
        for count in shots:
            if estimate := control.accuracy(Point(task, count, condition, method)):
                estimates[count] = estimate
        if not estimates:
            continue
        mean, low, high = 100 * np.array(list(estimates.values())).T  # [shots] each, %
        if condition == NONE:
            rule = axes.axhline(mean[0], color=color, ls="--", lw=1.0, label="no demonstrations",
                                zorder=0)  # fmt: skip
            style.name_marks(rule, [f"no demonstrations: {mean[0]:.1f} %"])
            continue
        at = np.array(list(estimates)) + shift
        axes.plot(at, mean, color=color, ls="--" if "words" in condition else "-", lw=1.5)
        axes.vlines(at, low, high, colors=color, lw=1.4)
        titles = style.percents(map("{} shots".format, estimates), mean, condition)
        style.dots(axes, at, mean, color, titles, size=3, name=condition)
    axes.axhline(100 * control.chance(task), color=INK, ls=":", lw=1.0, label="chance", zorder=0)
    style.label(axes, f"{task_title(task)}: {method}", "shots per class", ACCURACY)
    style.number_ticks(axes.xaxis, shots, is_log=False)
    axes.set(xlim=(min(shots) - 0.5, max(shots) + 0.5), ylim=(0.0, 100.0))


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
    return style.finish(figure, grid.heading, "", style.table_of(header, rows))


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
        axes.text(x, y, text, ha="center", va="center", fontsize=7 if digits else 5.5,
                  color=CELL_INK if is_light else "#fefefe")  # fmt: skip
