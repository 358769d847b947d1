"""The robustness study (Fig. 8), each of its prompts, pairs of choices, demonstration labels."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from batch_calibration.reporting.cells import gain_cell
from batch_calibration.reporting.controls import NONE, Control, Point, estimate_cells
from batch_calibration.reporting.figures.chart import ACCURACY, INTERVALS, Axis, Chart, Panel
from batch_calibration.reporting.figures.marks import Bars, Dots, Heat, Line, Mark, Rule, Spans
from batch_calibration.reporting.frame import BASELINE, CORRECTED, REFERENCES, task_title
from batch_calibration.reporting.method_display import CONDITIONS, GRAY, PALETTE, verdict_color
from batch_calibration.reporting.prompts import Grid, describe_study
from batch_calibration.reporting.prompts import PromptStudy as Study

BLUES = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
MAX_PROMPTS_NAMED = 12  # of more prompts none is named at the side
PROMPTS_NOTE = (
    "A line is a prompt, from its accuracy with icl (open) to that with bc (filled), means over "
    "its seeds, the worst of icl below; blue: a gain beyond noise, orange: a loss, gray: within "
    "the noise of its seeds and rows. Upright dots: the choice does not matter. * 0 is outside "
    "the 95 % interval; ±: standard deviation over the prompts. Dashed: chance."
)
BOXES_NOTE = (
    "Boxes: quartiles and median; whiskers reach 1.5 boxes at most; a dot is a prompt, the mean "
    "over its seeds."
)


def box_chart(studies: Sequence[Study]) -> Chart:
    """ICL beside BC on each axis of one task: a box, and a dot for every prompt."""
    marks: list[Mark] = []
    extra: dict[str, list[object]] = {}
    for study in studies:
        for name, column in _facts(study).items():
            extra.setdefault(name, []).extend(column)
    choices = list(map(str, extra["choice"]))
    for side, method in zip((-0.2, 0.2), REFERENCES, strict=True):
        color = PALETTE.color(method)
        places: list[float] = []
        accuracies: list[float] = []
        for x, study in enumerate(studies):
            values = study.values(method)
            marks += _box(x + side, values, color)
            # Fixed offsets, so that equal values stay apart and a figure stays the same.
            places += list(x + side + 0.1 * np.sin(2.4 * np.arange(len(values))))
            accuracies += list(values)
        marks.append(
            Dots(method, places, accuracies, color, alpha=0.6, size=3, hover=choices, extra=extra)
        )
    names = [f"{study.count}, {study.setting.shots}-shot" for study in studies]
    task, setting = task_title(studies[0].task), studies[0].setting
    rows = f"first {setting.limit} rows" if setting.limit else "all rows"
    heading = f"One choice of the prompt at a time: {task}, {setting.model}, {rows}"
    panel = Panel(task, marks, Axis("", names=names), ACCURACY)
    size = (1.0 + 1.6 * len(studies), 2.6)
    columns = ("task", "method", "what varies", "accuracy")
    return Chart(heading, [panel], columns, BOXES_NOTE, size, together=True)


def _facts(study: Study) -> dict[str, list[object]]:
    """What a figure's CSV says of each prompt beside its accuracy."""
    seeds: list[object] = []
    for prompt in study.prompts.values():
        of_prompt = [str(record.context.seed) for record in prompt.records]
        seeds.append(" ".join(of_prompt))
    return {"choice": [*study.prompts], "shots": [study.setting.shots] * len(seeds), "seeds": seeds}


def _box(at: float, values: np.ndarray, color: str) -> list[Mark]:
    """The quartiles and the median, and whiskers to the farthest values within 1.5 boxes."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    return [
        Bars("", [at], [high], color, 0.3, [low], alpha=0.15, has_edge=True),
        Spans([middle], [at - 0.15], [at + 0.15], "x", color),
        Spans([at, at], [inside.min(), high], [low, inside.max()], "y", color, 1.0),
    ]


def prompt_chart(studies: Sequence[Study]) -> Chart:
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
    most = max(8, *(len(study.prompts) for study in studies))
    return Chart(
        f"{describe_study(studies)}: {studies[0].setting}",
        [_prompt_panel(study, limits) for study in studies],
        ("task", "method", "prompt", "accuracy"), PROMPTS_NOTE, (3.2, 1.1 + 0.13 * most),
        shares_y=False,
    )  # fmt: skip


def _chance(study: Study) -> float:
    """Accuracy in % of one who guesses."""
    return 100 / len(study.frame.records[0].label_names)


def _prompt_panel(study: Study, limits: tuple[float, float]) -> Panel:
    before, after = study.values(BASELINE), study.values(CORRECTED)  # [prompt] each, %
    order = np.lexsort((after, before))  # by icl, ties by bc
    facts = {}
    for name, column in _facts(study).items():
        facts[name] = [column[i] for i in order]
    names = list(map(str, facts.pop("choice")))
    colors = [verdict_color(study.gains[i].beyond_noise) for i in order]
    heights = np.arange(float(len(order)))
    gains = 100 * np.array(study.gains)[order].T  # [3 prompt], points
    gained = dict(zip(("gain", "low", "high"), map(list, gains), strict=True))
    low, high = np.minimum(before, after)[order], np.maximum(before, after)[order]
    marks: list[Mark] = [
        Rule(_chance(study), dash="dash", width=0.8, name="chance"),
        Spans(heights, low, high, "x", colors, 2.0),
        Dots(BASELINE, before[order], heights, PALETTE.color(BASELINE), is_hollow=True, along="x",
             hover=names, extra=facts),
        Dots(CORRECTED, after[order], heights, PALETTE.color(CORRECTED), along="x", hover=names,
             extra=facts | gained),
    ]  # fmt: skip
    change = f"; change of ± {gain_cell(study.change)}" if study.change else ""
    title = (
        f"{task_title(study.task)}, {study.count}\n"
        f"worst to best: {BASELINE} {study.reach(BASELINE)}, {CORRECTED} {study.reach(CORRECTED)} "
        f"points\ngain {gain_cell(study.gain)}{change}"
    )
    y = Axis(study.name, names=names, shows_names=len(names) <= MAX_PROMPTS_NAMED)
    return Panel(task_title(study.task), marks, Axis("accuracy (%)", limits), y, title)


def control_chart(control: Control) -> Chart:
    """A panel a task and method, a line a condition, its intervals at 95 %.

    Dashed is accuracy without demonstrations, dotted chance.
    """
    columns = min(len(control.tasks), 4)
    panels = []
    # Lines of panels: the first tasks with each method, then the next tasks.
    for start, method in product(range(0, len(control.tasks), columns), REFERENCES):
        tasks = control.tasks[start : start + columns]
        panels += [_control_panel(control, task, method) for task in tasks]
    note = f"{INTERVALS} Over draws and rows. Dashed: no demonstrations; dotted: chance."
    return Chart(
        control.heading, panels, ("panel", "condition", "shots", "accuracy"), note,
        across=columns, cells=estimate_cells(control),
    )  # fmt: skip


def _control_panel(control: Control, task: str, method: str) -> Panel:
    shots = control.shots(task)
    # Side by side, for bars of the same place hide each other.
    shifts = np.linspace(-0.2, 0.2, len(control.conditions))
    marks: list[Mark] = []
    for condition, shift in zip(control.conditions, shifts, strict=True):
        estimates = {}
        for count in shots:
            if estimate := control.accuracy(Point(task, count, condition, method)):
                estimates[count] = estimate
        if not estimates:
            continue
        mean, low, high = 100 * np.array(list(estimates.values())).T  # [shots] each, %
        color, dash = CONDITIONS.get(condition, GRAY), "dash" if "words" in condition else "solid"
        if condition == NONE:
            marks.append(Rule(float(mean[0]), "x", color, "dash", name="no demonstrations"))
            continue
        at = np.array(list(estimates)) + shift
        marks += [
            Line("", at, mean, color, dash),
            Dots(condition, at, mean, color, low=low, high=high, size=3),
        ]
    marks.append(Rule(100 * control.chance(task), "x", dash="dot", name="chance"))
    x = Axis("shots per class", (min(shots) - 0.5, max(shots) + 0.5), ticks=shots)
    return Panel(f"{task_title(task)}: {method}", marks, x, Axis("accuracy (%)", (0.0, 100.0)))


def grid_chart(grid: Grid) -> Chart:
    """Mean accuracy in %, a panel a method, darker where it is higher; all have one scale."""
    across, down = grid.values(1), grid.values(0)
    means = np.full((len(REFERENCES), len(down), len(across)), np.nan)  # NaN: nothing was scored
    for i, j, k in np.ndindex(means.shape):
        if (down[j], across[k]) in grid.frames:
            means[i, j, k] = grid.accuracies(down[j], across[k], REFERENCES[i]).mean()
    ends = float(np.nanmin(means)), float(np.nanmax(means))
    x, y = Axis(grid.across, names=across), Axis(grid.down, names=down, from_top=True)
    panels = []
    for method, of_method in zip(REFERENCES, means, strict=True):
        panels.append(Panel(method, [Heat(of_method, *ends, BLUES, "accuracy (%)")], x, y))
    size = (0.4 + 0.5 * len(across), 0.5 + 0.32 * len(down))
    columns = ("method", "", grid.down, "accuracy")
    return Chart(grid.heading, panels, columns, size=size, together=True)
