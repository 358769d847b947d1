"""Every table: of settings a row a task or a method, of several settings, of the paper alone."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from batch_calibration.methods import METHODS, Group
from batch_calibration.metrics import Estimate, over_tasks
from batch_calibration.reporting import cells, curves, prompts, words
from batch_calibration.reporting import frame as frames
from batch_calibration.reporting.cells import Cells, NumberCell, Samples, Sums, notes
from batch_calibration.reporting.frame import BASELINE, REFERENCES, Frame, gain, task_title
from batch_calibration.reporting.items import ACROSS, Results, Table, compared_by_size, setting_slug
from batch_calibration.scoring.tasks import PAPER_LANGUAGE, TASKS

MIN_TEST_ROWS = 200  # of fewer test rows, an accuracy near one half is known to 7 points at best
# The sentence on the number behind a mean.
SPREAD = "± is the standard deviation over draws of demonstrations (n - 1)."
# Metric of probabilities -> its name, and its unit.
PROBABILITIES = {"nll": ("NLL", "nats"), "brier": ("Brier", "0 to 2"), "ece": ("ECE", "0 to 1")}
DENSITIES = ("pc", "pc_raw")  # methods whose scores have no NLL
PROBABILITIES_NOTE = (
    "Lower is better. Each row's scores, corrected or not, go through a softmax over its labels "
    "first, so these judge probabilities that add up to 1 over the labels. ECE is how far "
    "confidence is from accuracy; it is not label bias, which the corrections remove. Scores of pc "
    "are densities of a mixture, not log-probabilities of labels: it has no NLL."
)
BCL_NOTE = "One context a task, that of the first seed: all methods see the same demonstrations."
MODELS_NOTE = (
    "Means over seeds; the tables of each setting show how far these vary. The best of each model "
    "and task is marked. An average is over the tasks that all models have."
)
SIZES_NOTE = (
    "Best of each model in bold, second best underlined (in Markdown italic), as printed. "
    "Of several seeds mean ± standard deviation."
)
# Methods of the paper's Table 1 -> what learning costs, beside asking the model; the scores after
# correction; what is learned from the probe; the boundary between two labels. s are
# log-probabilities, p probabilities, of labels 0, 1, ...
FORMULAS = {
    "cc": ("add", "W p, W = diag(q)^-1", "log q = mean of s over the probe", "p0 = c p1"),
    "dc": ("add", "s - b", "b = mean of s over the probe", "s0 = s1 + c"),
    "pc": (
        "EM of a Gaussian mixture", "log N(s; μ, Σ) of each label", "μ, Σ of each label",
        "N(s; μ0, Σ0) = N(s; μ1, Σ1)",
    ),
    "bc": ("add", "s - b", "b = mean of s over the test rows", "s0 = s1 + c"),
    "bcl": (
        "a grid of strengths γ", "s - γ b", "b as BC, γ by accuracy on the labeled set",
        "s0 = s1 + γ c",
    ),
}  # fmt: skip
METHODS_NOTE = (
    "s are log-probabilities, p probabilities of the labels. Forward passes are those for a batch "
    "beyond its own. The columns of gains are points over ICL in this workdir, averaged over the "
    "tasks of one text, of several texts and of three labels or more: where the paper crosses a "
    "method out by hand, these are measured."
)
# The tasks of a column of gains.
KINDS: dict[str, Callable[[str], bool]] = {
    "one text": lambda task: len(TASKS[task].fields) == 1,
    "several texts": lambda task: len(TASKS[task].fields) > 1,
    "three labels or more": lambda task: len(TASKS[task].label_names) > 2,
}
DATA_NOTE = "'rows in the paper' counts the whole validation split."
IMAGES = {
    "svhn": (18.0, 35.0), "eurosat": (47.8, 54.7), "ucf101": (66.7, 66.0),
    "clevr": (14.7, 29.2), "aircraft": (24.8, 22.3), "dtd": (44.4, 41.7),
}  # fmt: skip
"""Accuracy in % of CLIP ViT-B/16, zero-shot and with BC (Zhou et al. 2024, Table 6)."""
PAPER_MODEL = re.compile(r"vit-?b(ase)?-?(patch)?/?16", re.IGNORECASE)  # names of its checkpoint
# The note where the images are the embedded suite's.
DRAWN_IMAGES = (
    "These are drawn images of 48 x 48 pixels, of DTD 12 of its 47 classes, with noise whose size "
    "was chosen with a look at the test images (docs/mini.md): a small CLIP's accuracy on them is "
    "not a result on the data sets of these names, and does not compare with the paper."
)
UNLIKE_IMAGES = (
    "The paper's numbers are of CLIP ViT-B/16 on all test images and classes; this is another "
    "setting, so they are left out."
)


def gain_note(group: Frame) -> str:
    """The sentences below a table of gains: what its intervals hold, and which rows are few."""
    counts = [len(task.records) for task in group.tasks.values()]
    draws = " to ".join(dict.fromkeys((str(min(counts)), str(max(counts)))))
    over, draws_note = "over the test rows alone", ""
    if max(counts) > 1:
        over = (
            f"over the draws of demonstrations ({draws} a task) and over the test rows, which are "
            "the same in all draws: more draws make a small test set no larger"
        )
        if min(counts) == 2:
            draws_note = f" {words.TWO_DRAWS}"
    elif group.setting.shots:
        over += ": one draw of demonstrations does not show how others vary"
    rows = {name: sum(task.records[0].classes) for name, task in group.tasks.items()}
    small = [f"{task_title(task)} ({rows[task]})" for task in rows if rows[task] < MIN_TEST_ROWS]
    few_rows = f" Few test rows, so wide intervals: {', '.join(small)}." if small else ""
    return (
        f"A gain is paired: on the same rows, how many more are right than with {BASELINE}. In "
        f"brackets its 95 % interval {over}.{draws_note} {cells.MARK} beyond noise: 0 is outside "
        f"it; of 20 methods that change nothing, about one is marked. '{cells.WINS}' counts tasks "
        f"whose interval is above 0, holds 0, is below 0.{few_rows} Averages are over these tasks "
        "and do not extend to others."
    )


def accuracy_note(group: Frame, methods: Sequence[str]) -> str:
    """The sentences below a table of accuracies: what its marks mean, how sure its gains are."""
    learned = ""
    if group.has_references:
        learned = (
            f"{cells.LEARNED} learned ({len(frames.learned_tasks(group))} of {len(group.tasks)}): "
            f"the better of icl and bc, mean over seeds, is {frames.LEARNED_MARGIN:.0f} points or "
            "more above chance (100 % / number of labels), and its 95 % interval over seeds and "
            "rows excludes chance and the share of the most frequent label, which are below it."
        )
    of_gains = gain_note(group) if set(methods) & set(group.compared) else ""
    return " ".join(filter(None, (SPREAD if group.max_seeds > 1 else "", learned, of_gains)))


Mark = Callable[[Samples], list[NumberCell]]
"""Cells of samples, the best of them marked."""


def _percents(samples: Samples) -> list[NumberCell]:
    """Accuracies in %, `mean ± sd` over seeds."""
    return cells.best_of([100 * np.asarray(sample) for sample in samples])


def _lowest_best(samples: Samples) -> list[NumberCell]:
    """Means of a metric of probabilities."""
    means = [np.asarray(sample).mean() if np.size(sample) else () for sample in samples]
    return cells.best_of(means, digits=3, is_lowest=True)


def _metric_cells(group: Frame, methods: Sequence[str], metric: str, mark: Mark) -> Cells:
    """Header, a row a task, and the average over the tasks."""

    def cells_of(task: str) -> list[NumberCell]:
        return mark([group.tasks[task].values(method, metric) for method in methods])

    averages = mark([group.average(method, metric) for method in methods])
    return [*cells.rows_of_tasks(group.tasks, methods, cells_of), Sums(["average", "", *averages])]


def accuracy_cells(group: Frame, methods: Sequence[str]) -> Cells:
    """Accuracies with the marks that `accuracy_note` explains, and sums of the known gains.

    These are the average gain over icl, and on how many tasks it is beyond noise.
    """
    if not methods:
        return []
    rows = _metric_cells(group, methods, "accuracy", _percents)
    learned = frames.learned_tasks(group)
    gains = {method: group.gains(method) for method in methods if method in group.compared}
    for task, row in zip(group.tasks, rows[1:], strict=False):
        row[0] += f" {cells.LEARNED}" * (task in learned)
        for i, method in enumerate(methods, 2):
            if method in gains and gains[method][task].beyond_noise:
                # The mark is as bold as its cell.
                row[i] = type(row[i])(f"{row[i]} {cells.MARK}")
    return rows + (_sum_rows("gain over icl", methods, gains) if gains else [])


def gain_cells(group: Frame, methods: Sequence[str]) -> Cells:
    """Header, one row a task, their average, and on how many tasks a method wins and loses.

    Methods whose gain is not known are left out; nothing where none is known.
    """
    gains = {method: group.gains(method) for method in methods if method in group.compared}
    if not gains:
        return []

    def cells_of(task: str) -> list[NumberCell]:
        return [cells.gain_cell(by_task[task]) for by_task in gains.values()]

    rows = cells.rows_of_tasks(group.tasks, list(gains), cells_of)
    return [*rows, *_sum_rows("average", list(gains), gains)]


def _sum_rows(
    name: str, methods: Sequence[str], gains: Mapping[str, Mapping[str, Estimate]]
) -> Cells:
    """Two rows: average gains, under this name, and wins, ties, losses."""
    sums = [_sum_cells(gains.get(method, {})) for method in methods]
    means, wins = zip(*sums, strict=True)
    return [Sums([name, "", *means]), Sums([cells.WINS, "", *wins])]


def _sum_cells(gains: Mapping[str, Estimate]) -> tuple[str, str]:
    """The mean over tasks, and wins, ties, losses; empty where no gain is known."""
    if not gains:
        return "", ""
    return cells.gain_cell(over_tasks(list(gains.values()))), cells.wins_cell(gains.values())


def method_overview(group: Frame) -> Cells:
    """A row a method: accuracy and gain, averages over the tasks, and tasks gained and lost."""
    if not group.compared:
        return []
    methods = [BASELINE, *group.compared]
    means = [group.accuracy(method) for method in methods]
    shown = [cells.estimate_cell(mean, is_share=True) for mean in means]
    marked = cells.mark_best([100 * mean.value for mean in means], shown)
    rows: Cells = [["method", "accuracy", "gain over icl", cells.WINS]]
    for method, cell in zip(methods, marked, strict=True):
        rows.append([method, cell, *_sum_cells(group.gains(method) if method != BASELINE else {})])
    return rows


def overview_csv(group: Frame) -> Cells:
    """One line per task and method, and of all tasks: accuracy and gain, 0 to 1, and their ends."""
    rows: Cells = [["task", "method", "metric", "value", "low", "high"]]
    for metric, measure, names in (
        ("accuracy", frames.task_accuracy, [BASELINE, *group.compared]),
        ("gain", gain, group.compared),
    ):
        for method in names:
            estimates = {name: measure(task, method) for name, task in group.tasks.items()}
            estimates["average"] = over_tasks(list(estimates.values()))
            for task, estimate in estimates.items():
                rows.append([task, method, metric, *map("{:.6g}".format, estimate)])
    return rows


def _has_metric(method: str, metric: str) -> bool:
    return metric != "nll" or method not in DENSITIES


def _probability_methods(group: Frame) -> list[str]:
    """Methods for which every context has all three metrics."""
    methods = list(group.methods)
    for record in group.records:
        metrics_of = {name: result.metrics.keys() for name, result in record.methods.items()}
        methods = [name for name in methods if PROBABILITIES.keys() <= metrics_of[name]]
    return methods


def probability_averages(group: Frame) -> Cells:
    """A row a method, each metric averaged over the tasks; nothing of no method."""
    methods, columns = _probability_methods(group), []
    for metric in PROBABILITIES:
        averages = [group.average(m, metric) if _has_metric(m, metric) else () for m in methods]
        columns.append(_lowest_best(averages))
    header = ["method", *(f"{name} ({unit})" for name, unit in PROBABILITIES.values())]
    return [header, *map(list, zip(methods, *columns, strict=True))] if methods else []


def probability_cells(metric: str, group: Frame) -> Cells:
    """Header, one row a task (mean over seeds), and the average; nothing of no method."""
    methods = [method for method in _probability_methods(group) if _has_metric(method, metric)]
    return _metric_cells(group, methods, metric, _lowest_best) if methods else []


def bcl_cells(group: Frame) -> Cells:
    """BCL: a row a task with the learned strength, the average; nothing without a curve."""
    group = group.first_seeds()
    with_curve = [name for name, method in METHODS.items() if method.has_curve]
    group = next((part for part, _ in group.parts(with_curve)), group)
    learned = group.among(with_curve)
    if not learned:
        return []
    rows = _metric_cells(group, group.among([*REFERENCES, *learned]), "accuracy", _percents)
    strengths = [record.methods[learned[0]].strength for record in group.records]
    column = ["-" if strength is None else f"{strength:+.1f}" for strength in strengths]
    for row, cell in zip(rows, ["γ learned", *column, ""], strict=True):
        row.append(cell)
    return rows


def method_cells(measured: Frame) -> Cells:
    """A row for each method that has formulas, and its gains in the measured setting of text."""
    header = "method, probe, forward passes, learning costs, scores after, learned, decides where"
    rows: Cells = [header.split(", ")]
    for name in filter(FORMULAS.__contains__, METHODS):
        probe = METHODS[name].probe
        # The probe's own rows, where the setting asks for more or fewer than usual.
        asked = measured.records[0].rows.get(next(iter(probe.blocks), ""), probe.forwards)
        passes = f"{asked} + 1" if probe.forwards else "1"
        rows.append([name, probe.name, passes, *FORMULAS[name]])
    for kind, is_kind in KINDS.items():
        tasks = [task for task in measured.tasks if task in TASKS and is_kind(task)]
        if not tasks or not set(FORMULAS) & set(measured.compared):
            continue
        rows[0].append(f"gain, {kind}")
        for row in rows[1:]:
            mean = None
            if row[0] in measured.compared:
                mean = over_tasks([gain(measured.tasks[task], row[0]) for task in tasks])
            row.append(cells.gain_cell(mean))
    return rows


def data_cells(group: Frame) -> Cells:
    """A row for each task of the paper; none where the setting has none of these."""
    rows: Cells = [["task", "objective", "texts", "labels", "rows tested", "rows in the paper"]]
    for name, frame in group.tasks.items():
        if name in PAPER_LANGUAGE:
            task, tested = TASKS[name], cells.rows_cell(frame.records)
            counts = [str(len(task.fields)), str(len(task.label_names)), tested]
            rows.append([cells.task_cell(frame), task.objective, *counts, str(task.test_rows)])
    return rows if len(rows) > 1 else []


def data_note(group: Frame) -> str:
    """The origin of the two numbers of rows."""
    suite = group.setting.data
    return f"{DATA_NOTE} 'rows tested' counts rows of the data {suite}." if suite else DATA_NOTE


def is_of_paper(group: Frame) -> bool:
    """True where images are scored as in the paper: its checkpoint, real images, all of them."""
    setting = group.setting
    is_whole = setting.data != "mini" and not setting.limit and not setting.options
    return is_whole and bool(PAPER_MODEL.search(setting.model))


def image_note(group: Frame) -> str:
    """Why the table leaves out the paper's numbers; nothing where it has them."""
    if is_of_paper(group):
        return ""
    return DRAWN_IMAGES if group.setting.data == "mini" else UNLIKE_IMAGES


def image_cells(group: Frame) -> Cells:
    """Images: zero-shot and BC, in %, and the paper's where the setting is its; else nothing."""
    tasks = list(filter(IMAGES.__contains__, group.tasks))
    if not tasks or not set(REFERENCES) <= set(group.methods):
        return []
    columns = []
    for method in REFERENCES:
        means = [100 * group.tasks[task].values(method).mean() for task in tasks]
        columns.append(means)
    sides = {"": np.stack(columns, axis=1)}  # [task, 2]
    if is_of_paper(group):
        sides["paper "] = np.array([IMAGES[task] for task in tasks])
    rows: Cells = [["task"], *([cells.task_cell(group.tasks[task])] for task in tasks)]
    rows.append(Sums(["average"]))
    for side, shares in sides.items():
        rows[0] += [f"{side}ZS", f"{side}ZS+BC", f"{side}gain"]
        with_average = np.vstack([shares, shares.mean(axis=0)])
        for row, (before, after) in zip(rows[1:], with_average, strict=True):
            row += [f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"]
    return rows


def family_cells(family: Sequence[Frame]) -> Cells:
    """Header, then a row for each model and method of the paper's comparison: accuracy in %."""
    tasks = frames.sort_tasks(sorted(set().union(*(group.tasks for group in family))))
    rows: Cells = [["model", "method", *map(task_title, tasks), "average"]]
    of_all = set(tasks).intersection(*(group.tasks for group in family))
    # The last column is the average over the tasks that all models have.
    columns = [*([task] for task in tasks), list(filter(of_all.__contains__, tasks))]
    for group in family:
        name = f"{group.setting.model or 'unnamed'} {group.setting.variant}".rstrip()
        mean = partial(_mean_of_tasks, group)
        rows += cells.rows_of_methods(name, group.paper_methods, columns, mean)
    return rows if len(tasks) > 1 else []


def _mean_of_tasks(group: Frame, tasks: Sequence[str], method: str) -> list[float]:
    """The accuracy in %, mean over seeds, then over the tasks that there are; of none nothing."""
    present = filter(group.tasks.__contains__, tasks)
    means = [100 * group.tasks[task].values(method).mean() for task in present]
    return [float(np.mean(means))] if means else []


def size_cells(columns: Sequence[tuple[str, Frame]]) -> Cells:
    """Header, a row a task (accuracy in %), and the average over the tasks that a model has.

    A pair is the heading of a model's columns, and its results.
    """
    header, averages = [], Sums(["average", ""])
    tasks: dict[str, Frame] = {}
    for name, group in columns:
        methods = group.among(compared_by_size())
        header += [f"{name} {method}" for method in methods]
        means = [100 * group.average(method) for method in methods]
        averages += cells.best_of(means, marks=(cells.Best, cells.Second))
        tasks = group.tasks | tasks  # the first model that has a task names it

    def cells_of(task: str) -> list[NumberCell]:
        row = []
        for _, group in columns:
            frame, methods = group.tasks.get(task), group.among(compared_by_size())
            samples = [100 * frame.values(method) if frame else () for method in methods]
            row += cells.best_of(samples, marks=(cells.Best, cells.Second))
        return row

    ordered = {task: tasks[task] for task in frames.sort_tasks(tasks)}
    return [*cells.rows_of_tasks(ordered, header, cells_of), averages]


@dataclass(frozen=True)
class SettingTable:
    """A kind of table that each setting has for which there are cells."""

    slug: str  # behind the setting's in the file's name
    heading: str  # what it shows; `{}` is the setting
    cells: Callable[[Frame], Cells]  # header and rows; empty where there is no such table
    # The sentences below it, before what a reader of the records must know.
    note: Callable[[Frame], str] | str = ""
    number: str = ""  # its number in the paper behind its kind
    csv: Callable[[Frame], Cells] | None = None  # rows of its CSV file, if it has one
    unit: str = "accuracy in %"  # of its numbers
    is_of_main: bool = False  # whether the main setting alone has it
    is_shown: bool = True  # whether it is shown where the setting has a section, or only written
    kind: Group | None = None  # the methods that it shows, where all contexts or some have them

    def __call__(self, study: Results) -> Iterator[Table]:
        """The tables of a study."""
        main = [study.main] if study.main else []
        for group in main if self.is_of_main else study.groups:
            is_shown = self.is_shown and group in study.sections
            for part, slug, heading in self._parts(group):
                if rows := self.cells(part):
                    section, name = setting_slug(group, slug)
                    title, csv = heading.format(group.setting), self.csv and self.csv(part)
                    note = self.note if isinstance(self.note, str) else self.note(part)
                    note = notes(part.records, note)
                    yield Table(
                        section, name, title, rows, note, csv, is_shown, self.unit, self.number
                    )

    def _parts(self, group: Frame) -> Iterator[tuple[Frame, str, str]]:
        """All contexts, then those with methods that others lack; with slug and heading."""
        yield group, self.slug, self.heading
        for part, methods in group.parts(frames.methods_of_group(self.kind) if self.kind else ()):
            contexts = f"{len(part.records)} of {len(group.records)} contexts"
            listed = words.join_names(methods)
            yield part, f"{self.slug}-{methods[0]}", f"{self.heading}: {contexts} have {listed}"


def by_methods(heading: str, slug: str, kind: Group) -> tuple[SettingTable, SettingTable]:
    """Tables of tasks x methods for each setting: accuracy, and what is gained over ICL."""

    def methods_of(group: Frame) -> list[str]:
        methods = group.among(frames.methods_of_group(kind))
        # Other groups than the paper's are compared with icl and bc.
        return group.among([*REFERENCES, *methods]) if methods and kind != "paper" else methods

    def accuracies(group: Frame) -> Cells:
        return accuracy_cells(group, methods_of(group))

    def note(group: Frame) -> str:
        return accuracy_note(group, methods_of(group))

    def gains(group: Frame) -> Cells:
        return gain_cells(group, methods_of(group))

    gains_slug, gains_heading = f"{slug}-gains", f"{heading}: gain over icl"
    return (
        SettingTable(slug, heading, accuracies, note, kind=kind),
        SettingTable(gains_slug, gains_heading, gains, gain_note, unit="points", kind=kind),
    )


def of_probabilities(
    slug: str, heading: str, unit: str, make: Callable[[Frame], Cells]
) -> SettingTable:
    """A table of probabilities; that of one metric task by task is only written."""
    is_shown, note = slug not in PROBABILITIES, PROBABILITIES_NOTE
    return SettingTable(slug, heading, make, note, csv=make, unit=unit, is_shown=is_shown)


def across(study: prompts.PromptStudy | prompts.Grid | curves.Curves, rows: Cells) -> Table:
    """The table of a study across settings, with the same cells as CSV."""
    return Table(ACROSS, study.slug, study.heading, rows, study.note, rows)


def of_models(study: Results) -> Iterator[Table]:
    """Settings that differ in the model alone, of two tasks or more."""
    families = frames.group_by(
        study.groups, lambda group: group.setting._replace(model="", scorer="", variant="")
    )
    for setting, family in families.items():
        rows = family_cells(family) if len(family) > 1 else []
        shared = setting._replace(model=setting.data or "unnamed data")
        if rows:
            heading = f"Models on {shared}"
            yield Table(ACROSS, f"{shared.slug}-models", heading, rows, MODELS_NOTE, rows)


def of_grids(study: Results) -> Iterator[Table]:
    """Two choices of the prompt."""
    return (across(grid, prompts.grid_cells(grid)) for grid in study.grids)


def of_numbered_choices(study: Results) -> Iterator[Table]:
    """Templates and verbalizers by number."""
    for slug, axes in prompts.by_task(study.axes).items():
        if rows := prompts.number_cells(axes):
            heading = f"Templates and verbalizers by number: {task_title(axes[0].task)}"
            note = notes(chain.from_iterable(axis.frame.records for axis in axes))
            yield Table(ACROSS, f"{slug}-numbered", heading, rows, note, rows, number="Table 7")


def of_axes(study: Results) -> Iterator[Table]:
    """One choice of the prompt, a row a prompt."""
    return (across(axis, prompts.prompt_cells(axis)) for axis in study.axes)


def of_curves(study: Results) -> Iterator[Table]:
    """Accuracy against a number."""
    return (across(curve, curves.curve_cells(curve)) for curve in study.curves)


def of_prompt_studies(study: Results) -> Iterator[Table]:
    """A row a robustness study and task: how far icl moves, how far bc, and how sure that is."""
    axes = [axis for axis in study.axes if axis.is_compared]
    if axes:
        rows, heading = prompts.study_cells(axes), "How much the choice of the prompt matters"
        unit = "accuracy in %, changes in points"
        yield Table(ACROSS, "prompts", heading, rows, prompts.STUDIES_NOTE, rows, unit=unit)


def table_1(study: Results) -> Iterator[Table]:
    """The methods' cost, form and boundary, and what they gain here."""
    if study.main:
        rows, heading = method_cells(study.main), f"What each method does: {study.main.setting}"
        table = Table(ACROSS, "paper-methods", heading, rows, METHODS_NOTE, rows)
        yield table._replace(unit="gains in points", number="Table 1")


def tables_2_and_5(study: Results) -> Iterator[Table]:
    """Models of several sizes side by side; zero-shot, and the size in the middle."""
    ends = study.sizes[:: len(study.sizes) - 1] if len(study.sizes) > 1 else []
    of_sizes = [(group.setting.model, group) for group in ends]
    by_shots = []
    for group in (*next(iter(study.families(0)), [])[:1], *study.middle):
        name = f"{group.setting.model} {group.setting.shots}-shot"
        by_shots.append((name, group.first_seeds()))
    for slug, heading, columns, number in (
        ("paper-sizes", "Models of two sizes, 1 shot", of_sizes, "Table 2"),
        ("paper-zero-shot", "Zero-shot and the middle size", by_shots, "Table 5"),
    ):
        if columns:
            records = chain.from_iterable(group.records for _, group in columns)
            rows, note = size_cells(columns), notes(records, SIZES_NOTE)
            yield Table(ACROSS, slug, heading, rows, note, rows, number=number)


OF_SETTINGS = (
    *by_methods("Methods", "methods", "paper"),
    *by_methods("Published variants", "variants", "variant"),
    *by_methods("Beyond the paper, without labels", "unlabeled", "unlabeled"),
    *by_methods("Beyond the paper, with labels", "labeled", "labeled"),
    # A row a method, whatever its group: accuracy and gain over all tasks.
    SettingTable(
        "overview", "Each method over the tasks", method_overview, gain_note, csv=overview_csv,
        unit="accuracy in %, gain in points",
    ),
    of_probabilities("probabilities", "Probabilities over the tasks", "", probability_averages),
    *(of_probabilities(m, *PROBABILITIES[m], partial(probability_cells, m)) for m in PROBABILITIES),
)  # fmt: skip
OF_MAIN = (
    SettingTable(
        "bcl", "A strength learned from labels: {}", bcl_cells, BCL_NOTE, "Table 3", is_of_main=True
    ),
    SettingTable("data", "Data: {}", data_cells, data_note, "Table 4", unit="", is_of_main=True),
    # With the paper's numbers where the setting is the same.
    SettingTable("images", "Zero-shot images", image_cells, image_note, "Table 6"),
)
# What varies across settings.
OF_STUDIES = of_models, of_grids, of_numbered_choices, of_axes, of_curves
# What makes each table of a study, in the order in which they are shown.
TABLES: tuple[Callable[[Results], Iterable[Table]], ...] = (
    *OF_SETTINGS, of_prompt_studies, table_1, tables_2_and_5, *OF_MAIN, *OF_STUDIES
)  # fmt: skip
