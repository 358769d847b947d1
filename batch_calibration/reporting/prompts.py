"""Studies of the prompt: accuracy as one choice of it varies, or two at once; their tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.metrics.intervals import change_of_deviation, gain_over_prompts
from batch_calibration.reporting import cells, frame
from batch_calibration.reporting.cells import Cells, Sums, notes
from batch_calibration.reporting.frame import CORRECTED, REFERENCES, Frame, Setting, task_title
from batch_calibration.studies import Record

SHOTS = "shots"
# What a choice of the prompt is called where it is the task's own, or the default.
UNCHANGED = {"selection": "per_class", "order": "as drawn", "template": "own", "verbalizer": "own"}
# The choice of the prompt that a study changes, in words.
VARIES = {
    "choices": "Which training rows are shown as demonstrations",
    "orders": "In which order the same demonstrations are shown",
    "templates": "The wording around the row",
    "verbalizers": "The words that stand for the labels",
}
# The sentences below the table of all studies.
STUDIES_NOTE = (
    "A row is one task whose prompt was varied in one way; a prompt's accuracy is its mean over "
    "its seeds, the draws of demonstrations. ± is the standard deviation over the prompts; "
    "'change' is bc's less icl's: below 0, the choice of the prompt matters less. In brackets 95 % "
    "intervals over prompts of this kind, over seeds where there are several, and over the test "
    f"rows, which are the same for all prompts. {cells.MARK} beyond noise: 0 is outside it. "
    f"'{cells.WINS}' counts prompts with which bc gains, neither, loses beyond the noise of their "
    "seeds and rows."
)


@dataclass(frozen=True)
class PromptStudy:
    """Results of one task and setting in which one choice of the prompt varies."""

    frame: Frame
    task: str
    name: str  # of what varies

    @property
    def setting(self) -> Setting:
        """The settings that all prompts share."""
        return self.frame.setting

    @property
    def slug(self) -> str:
        """The study as part of a file name."""
        return f"{self.setting.slug}-{self.task}-{self.name}"

    @property
    def heading(self) -> str:
        """The title of the table of its prompts."""
        return f"{task_title(self.task)} over {self.name}: {self.setting}"

    @property
    def note(self) -> str:
        """Notes of the records, for their readers."""
        return notes(self.frame.records)

    @cached_property
    def prompts(self) -> dict[str, Frame]:
        """The results by prompt, numbered ones first, a context for each seed.

        Of several draws of demonstrations, an order of each is a prompt of its own: the third
        order of one draw has nothing to do with the third of another.
        """
        seeds = {record.context.seed for record in self.frame.records}

        def prompt_name(record: Record) -> str:
            is_of_draw = "order" in record.context.options and len(seeds) > 1
            return choice_name(record) + is_of_draw * f", seed {record.context.seed}"

        groups = self.frame.by(prompt_name)
        return {name: groups[name] for name in sorted(groups, key=choice_rank)}

    @property
    def seeds(self) -> str:
        """The number of seeds of a prompt: "5", or "3 to 5"."""
        counts = sorted({len(prompt.records) for prompt in self.prompts.values()})
        return " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))

    @property
    def count(self) -> str:
        """The number of prompts: "10 templates, 5 seeds each"."""
        count = f"{len(self.prompts)} {self.name}"
        return count if self.seeds == "1" else f"{count}, {self.seeds} seeds each"

    @cached_property
    def is_compared(self) -> bool:
        """True where the answers of icl and bc are known, of two prompts or more."""
        return self.frame.has_references and len(self.prompts) > 1

    def values(self, method: str) -> np.ndarray:
        """Accuracy in % of each prompt [p], mean over its seeds."""
        return np.array([(100 * prompt.values(method)).mean() for prompt in self.prompts.values()])

    def reach(self, method: str) -> str:
        """The distance of the best prompt from the worst, in points."""
        return f"{np.ptp(self.values(method)):.1f}"

    @cached_property
    def outcomes(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Which rows are right with icl, and with bc: [p s n] each, prompts x seeds x rows.

        Where prompts have unlike seeds, the share of a prompt's seeds, s = 1; None where contexts
        have unlike rows.
        """
        if len({sum(record.classes) for record in self.frame.records}) > 1:
            return None
        sides, seeds = [], set()
        for prompt in self.prompts.values():
            seeds.add(tuple(record.context.seed for record in prompt.records))
        for method in REFERENCES:
            rights = [np.array(prompt.right(method)) for prompt in self.prompts.values()]  # [s n]
            if len(seeds) > 1:
                rights = [rows.mean(axis=0, keepdims=True) for rows in rights]
            sides.append(np.array(rights))
        before, after = sides
        return before, after

    @cached_property
    def gain(self) -> Estimate:
        """Bc's gain over icl, mean over the prompts; its interval over prompts, seeds and rows."""
        if self.outcomes is None:
            return over_tasks(self.gains)
        before, after = self.outcomes
        return gain_over_prompts(after - before)

    @cached_property
    def gains(self) -> list[Estimate]:
        """Bc's gain over icl with each prompt, and its interval over seeds and rows."""
        return [frame.gain(prompt, CORRECTED) for prompt in self.prompts.values()]

    @cached_property
    def change(self) -> Estimate | None:
        """The standard deviation over prompts, bc's less icl's; None where they are too few."""
        return None if self.outcomes is None else change_of_deviation(*self.outcomes)


def find_axes(records: Iterable[Record]) -> list[PromptStudy]:
    """Every study of one choice among the records, in the order of the paper's figure."""
    groups: dict[tuple[Setting, str, str], list[Record]] = {}
    for setting, record in frame.with_settings(records):
        name = frame.axis_name(record)
        if name:
            groups.setdefault((setting, record.context.task, name), []).append(record)
    studies = []
    for (setting, task, name), siblings in groups.items():
        studies.append(PromptStudy(Frame(setting, siblings), task, name))
    order = list(dict.fromkeys(frame.STUDIES.values()))
    # Choices that the paper does not vary come behind its own.
    return sorted(studies, key=lambda study: [*order, study.name].index(study.name))


def by_task(studies: Iterable[PromptStudy]) -> dict[str, list[PromptStudy]]:
    """The studies of icl and bc by the slug of a figure: one task and model, whatever the shots."""
    usual = [study for study in studies if study.setting.has_own_labels]
    judged = [study for study in usual if {*REFERENCES} <= {*study.frame.paper_methods}]
    return frame.group_by(
        judged, lambda study: f"{study.setting._replace(shots=1).slug}-{study.task}"
    )


def by_study(studies: Iterable[PromptStudy]) -> dict[str, list[PromptStudy]]:
    """The studies of icl and bc that vary the same choice of one setting, by slug, a task each."""
    compared = [study for study in studies if study.is_compared]
    return frame.group_by(compared, lambda study: f"{study.setting.slug}-{study.name}")


def describe_study(axes: Sequence[PromptStudy]) -> str:
    """The choice of the prompt that a study varies, in words."""
    sentence = VARIES.get(axes[0].name, f"The prompt ({axes[0].name})")
    selections = set()
    for axis in axes:
        selections |= {record.context.options.get("selection") for record in axis.frame.records}
    return f"{sentence} (shots are rows in all)" if selections == {"total"} else sentence


def choice_name(record: Record) -> str:
    """The value of what varies: the draw, the order, the template, the verbalizer."""
    options = record.context.options
    keys = filter(options.__contains__, ("order", "template", "verbalizer"))
    names = [str(options[key]) for key in keys]
    if options.get("selection") == "explicit":
        names += record.context.demonstrations
    return ", ".join(names) or str(record.context.seed)


def choice_rank(name: str) -> tuple[bool, str]:
    """Sorts numbers first, by size."""
    return not name.isdigit(), name.zfill(8)


def prompt_cells(study: PromptStudy) -> Cells:
    """Header, a row a prompt; of all prompts mean ± sd, and max - min."""
    methods = study.frame.paper_methods
    rows: Cells = [[study.name, "rows", *methods]]
    for name, prompt in study.prompts.items():
        row = cells.best_of([100 * prompt.values(method) for method in methods])
        rows.append([name, cells.rows_cell(prompt.records), *row])
    of_all = cells.best_of([study.values(method) for method in methods])
    rows.append(Sums(["all", cells.rows_cell(study.frame.records), *of_all]))
    return [*rows, Sums(["max - min", "", *map(study.reach, methods)])]


def study_cells(studies: Iterable[PromptStudy]) -> Cells:
    """Header, and a row a study: icl and bc, how far each moves, the gain, the change."""
    measured = ["icl", "icl max - min", "bc", "bc max - min", "gain over icl", "change of ±"]
    rows: Cells = [["what varies", "task", "shots", "prompts", "seeds each", *measured, cells.WINS]]
    for study in studies:
        shots = "-" if study.setting.shots is None else str(study.setting.shots)
        row = [study.name, task_title(study.task), shots, str(len(study.prompts)), study.seeds]
        for method in REFERENCES:
            row += [cells.spread(study.values(method)), study.reach(method)]
        row += [
            cells.gain_cell(study.gain),
            cells.gain_cell(study.change),
            cells.wins_cell(study.gains),
        ]
        rows.append(row)
    return rows


def number_cells(studies: Sequence[PromptStudy]) -> Cells:
    """Two rows a study, a column a number, the better marked; dashes where not run."""
    numbered = [study for study in studies if study.name in ("templates", "verbalizers")]
    choices = set(chain.from_iterable(study.prompts for study in numbered))
    numbers = sorted(choices, key=choice_rank)
    rows: Cells = [["choice", "method", *numbers]]
    for study in numbered:
        rows += cells.rows_of_methods(study.name, REFERENCES, numbers, partial(_mean_of, study))
    return rows if numbered else []


def _mean_of(study: PromptStudy, number: str, method: str) -> list[float]:
    """The accuracy in % with a numbered prompt; of what was not run nothing."""
    prompt = study.prompts.get(number)
    return [float((100 * prompt.values(method)).mean())] if prompt else []


class Grid(NamedTuple):
    """Results of one task in which two choices vary, each with each."""

    setting: Setting  # without its shots where they vary
    task: str
    down: str  # the choice whose values are rows
    across: str  # the choice whose values are columns
    others: tuple[str, ...]  # other choices that are not the task's own, in words
    # Value of `down`, value of `across` -> the results of all seeds.
    frames: dict[tuple[str, str], Frame]

    @property
    def slug(self) -> str:
        """The grid as part of a file name."""
        others = [choice.replace(" ", "-") for choice in self.others]
        return "-".join([self.setting.slug, self.task, self.down, self.across, *others])

    @property
    def heading(self) -> str:
        """The title of the table and the figure."""
        fixed = ", ".join([str(self.setting), *self.others])
        return f"{task_title(self.task)}, {self.down} × {self.across}: {fixed}"

    @property
    def note(self) -> str:
        """Notes of the records, for their readers."""
        return notes(chain.from_iterable(some.records for some in self.frames.values()))

    def values(self, dimension: int) -> list[str]:
        """The values of `down` (0) or `across` (1), numbers first."""
        values = sorted({key[dimension] for key in self.frames})
        return sorted(values, key=lambda value: int(value) if value.isdigit() else np.inf)

    def accuracies(self, down: str, across: str, method: str) -> np.ndarray:
        """In %, of all seeds, [s]; of nothing that was run [0]."""
        some = self.frames.get((down, across))
        return 100 * some.values(method) if some else np.zeros(0)


def find_grids(records: Iterable[Record]) -> list[Grid]:
    """Every two choices of the prompt, the shots among them, that were varied together."""
    grids: dict[tuple[object, ...], Grid] = {}
    for setting, record in frame.with_settings(records):
        is_compared = record.methods.keys() >= {*REFERENCES}
        if setting.shots is None or not is_compared:
            continue
        chosen = {SHOTS: str(setting.shots)}
        for name in frame.VARIED:
            chosen[name] = str(record.context.options.get(name, UNCHANGED[name]))
        changed = [name for name in frame.VARIED if chosen[name] != UNCHANGED[name]]
        for across, down in combinations((SHOTS, *frame.VARIED), 2):
            fixed = setting._replace(shots=None) if across == SHOTS else setting
            others = tuple(f"{n} {chosen[n]}" for n in changed if n not in (across, down))
            key = fixed, record.context.task, down, across, others
            grid = grids.setdefault(key, Grid(*key, {}))
            some = grid.frames.setdefault((chosen[down], chosen[across]), Frame(fixed, []))
            some.records.append(record)
    # Both choices vary at once: one at a time is a cross, which has fewer cells.
    return [g for g in grids.values() if len(g.frames) >= len(g.values(0)) + len(g.values(1))]


def grid_cells(grid: Grid) -> Cells:
    """Header, then rows of icl and bc for each value down: accuracy in %, mean ± sd over seeds."""
    rows: Cells = [[grid.down, "method", *map(f"{grid.across} {{}}".format, grid.values(1))]]
    for down in grid.values(0):
        accuracies = partial(grid.accuracies, down)
        rows += cells.rows_of_methods(down, REFERENCES, grid.values(1), accuracies)
    return rows
